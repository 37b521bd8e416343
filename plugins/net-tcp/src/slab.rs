//! Handles that are an index and a generation, so that a stale one is noticed instead of followed.

/// Values behind handles; a handle is never zero and is not given out twice.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    live: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            live: 0,
        }
    }
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    /// Takes `value` in and returns its index.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.live += 1;
        if let Some(index) = self.free.pop() {
            let entry = &mut self.entries[index as usize];
            entry.value = Some(value);
            return index;
        }
        let index = u32::try_from(self.entries.len()).expect("fewer than 2^32 entries");
        self.entries.push(Entry {
            generation: 1,
            value: Some(value),
        });
        index
    }

    /// The handle of a live index.
    pub(crate) fn handle(&self, index: u32) -> u64 {
        u64::from(self.entries[index as usize].generation) << 32 | u64::from(index)
    }

    /// The index of a handle, or None when it is stale or was never given out.
    #[inline]
    pub(crate) fn index(&self, handle: u64) -> Option<u32> {
        let index = (handle & u64::from(u32::MAX)) as u32;
        let entry = self.entries.get(index as usize)?;
        (u64::from(entry.generation) == handle >> 32 && entry.value.is_some()).then_some(index)
    }

    /// The value at an index, if there is one.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.value.as_ref()
    }

    /// The value at an index, if there is one.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.value.as_mut()
    }

    /// Takes a value out; its handle is stale from now on.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let entry = self.entries.get_mut(index as usize)?;
        let value = entry.value.take()?;
        self.live -= 1;
        // An index whose generations are used up is left alone, since zero and reuse would both be mistaken.
        if let Some(next) = entry.generation.checked_add(1) {
            entry.generation = next;
            self.free.push(index);
        }
        Some(value)
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The indices of all values.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..)
            .zip(&self.entries)
            .filter(|(_, entry)| entry.value.is_some())
            .map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_handles_lead_nowhere() {
        let mut slab = Slab::default();
        let first = slab.insert("a");
        let old = slab.handle(first);
        assert_ne!(old, 0);
        assert_eq!(slab.index(old), Some(first));
        assert_eq!(slab.remove(first), Some("a"));
        assert_eq!(slab.index(old), None);
        let second = slab.insert("b");
        assert_eq!(second, first, "the place is used again");
        assert_eq!(slab.index(old), None, "under another handle");
        assert_eq!(slab.index(slab.handle(second)), Some(second));
        assert_eq!(slab.index(0), None);
        assert_eq!(slab.index(u64::MAX), None);
        assert_eq!(
            (slab.len(), slab.indices().collect::<Vec<_>>()),
            (1, vec![second])
        );
    }
}
