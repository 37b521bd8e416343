//! The shape of the control tree: who is whose parent, and which ranks are below whom.

/// Children per rank: a world of 10,000 ranks is four levels deep, and up to 17 ranks are one level.
pub(crate) const ARITY: u32 = 16;

/// A complete tree over ranks `0..size` with rank 0 at its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tree {
    size: u32,
    arity: u32,
}

impl Tree {
    /// The tree over `size` ranks.
    pub(crate) const fn new(size: u32) -> Self {
        Tree { size, arity: ARITY }
    }

    #[cfg(test)]
    pub(crate) const fn with_arity(size: u32, arity: u32) -> Self {
        Tree { size, arity }
    }

    /// The rank above `rank`; the root has none.
    pub(crate) fn parent(self, rank: u32) -> Option<u32> {
        rank.checked_sub(1).map(|below| below / self.arity)
    }

    /// The ranks directly below `rank`.
    pub(crate) fn children(self, rank: u32) -> std::ops::Range<u32> {
        let first = u64::from(rank) * u64::from(self.arity) + 1;
        let clamp = |r: u64| u32::try_from(r.min(u64::from(self.size))).expect("at most the size");
        clamp(first)..clamp(first + u64::from(self.arity))
    }

    /// How many ranks hang below `rank`, itself included.
    pub(crate) fn subtree_size(self, rank: u32) -> u32 {
        1 + self
            .children(rank)
            .map(|child| self.subtree_size(child))
            .sum::<u32>()
    }

    /// Whether `rank` is `top` or below it.
    pub(crate) fn is_below(self, mut rank: u32, top: u32) -> bool {
        while rank > top {
            match self.parent(rank) {
                Some(parent) => rank = parent,
                None => return false,
            }
        }
        rank == top
    }
}

/// Ranks as people read them: `3, 7, 9-12 and 5 more`.
pub(crate) fn describe_ranks(ranks: &[u32], total: usize) -> String {
    const SHOWN: usize = 8;
    let mut parts: Vec<String> = Vec::new();
    let mut shown = 0;
    let mut rest = ranks;
    while let (Some(&first), true) = (rest.first(), parts.len() < SHOWN) {
        let run = rest
            .iter()
            .zip(first..)
            .take_while(|(rank, expected)| **rank == *expected)
            .count();
        let last = rest[run - 1];
        parts.push(match run {
            1 => first.to_string(),
            2 => format!("{first}, {last}"),
            _ => format!("{first}-{last}"),
        });
        shown += run;
        rest = &rest[run..];
    }
    let more = total.saturating_sub(shown);
    match (parts.is_empty(), more) {
        (true, 0) => "none".into(),
        (true, n) => format!("{n} ranks"),
        (false, 0) => parts.join(", "),
        (false, n) => format!("{} and {n} more", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_one_parent_that_knows_it() {
        for size in (1..=80).chain([257, 1000, 4099]) {
            let tree = Tree::new(size);
            assert_eq!(tree.parent(0), None);
            assert_eq!(tree.subtree_size(0), size);
            for rank in 1..size {
                let parent = tree.parent(rank).unwrap();
                assert!(
                    parent < rank && tree.children(parent).contains(&rank),
                    "rank {rank} of {size}"
                );
                assert!(
                    tree.is_below(rank, 0) && tree.is_below(rank, parent) && !tree.is_below(parent, rank)
                );
            }
        }
        assert!(!Tree::new(40).is_below(18, 2), "18 hangs below 1");
        assert!(
            Tree::new(u32::MAX).children(u32::MAX - 1).is_empty(),
            "no overflow"
        );
    }

    #[test]
    fn ranks_are_listed_in_runs() {
        assert_eq!(describe_ranks(&[], 0), "none");
        assert_eq!(describe_ranks(&[3, 7, 9, 10, 11, 12], 6), "3, 7, 9-12");
        assert_eq!(describe_ranks(&[0, 1], 12), "0, 1 and 10 more");
        let even: Vec<u32> = (0..40).map(|i| 2 * i).collect();
        assert_eq!(describe_ranks(&even, 40), "0, 2, 4, 6, 8, 10, 12, 14 and 32 more");
    }
}
