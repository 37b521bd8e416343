//! How accumulators lie in the block that holds them between two inputs.

/// Bytes of a block of accumulators: it stays in the first-level cache beside the inputs.
const BLOCK_BYTES: usize = 4096;

/// Memory for accumulators of any type.
#[repr(align(64))]
pub(crate) struct Block([std::mem::MaybeUninit<u8>; BLOCK_BYTES]);

impl Block {
    pub(crate) const fn new() -> Self {
        Self([const { std::mem::MaybeUninit::uninit() }; BLOCK_BYTES])
    }

    pub(crate) fn as_mut_ptr<A: Accumulator>(&mut self) -> *mut A {
        const { assert!(align_of::<A>() <= align_of::<Block>()) };
        self.0.as_mut_ptr().cast()
    }
}

/// A value that is kept in a [`Block`].
pub(crate) trait Accumulator: Copy {
    /// How many fit in a block.
    const IN_BLOCK: usize = BLOCK_BYTES / size_of::<Self>();

    /// The accumulator at `index`.
    ///
    /// # Safety
    /// `block` comes from [`Block::as_mut_ptr`], `index` is below [`Self::IN_BLOCK`], and an accumulator has been
    /// put there.
    #[inline(always)]
    unsafe fn get(block: *const Self, index: usize) -> Self {
        // SAFETY: the index lies within the block, and the value was written.
        unsafe { block.add(index).read() }
    }

    /// Replaces the accumulator at `index`.
    ///
    /// # Safety
    /// `block` comes from [`Block::as_mut_ptr`], and `index` is below [`Self::IN_BLOCK`].
    #[inline(always)]
    unsafe fn put(self, block: *mut Self, index: usize) {
        // SAFETY: the index lies within the block.
        unsafe { block.add(index).write(self) }
    }
}

macro_rules! accumulator {
    ($($type:ty),+) => { $(impl Accumulator for $type {})+ };
}
accumulator!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);
#[cfg(target_arch = "x86_64")]
accumulator!(std::arch::x86_64::__m256);

/// Two values that are combined side by side.
///
/// A block holds all first values, then all second ones, so that vector code need not interleave them.
impl<T: Copy, U: Copy> Accumulator for (T, U) {
    const IN_BLOCK: usize = {
        assert!(size_of::<T>() == size_of::<U>());
        BLOCK_BYTES / size_of::<Self>()
    };

    #[inline(always)]
    unsafe fn get(block: *const Self, index: usize) -> Self {
        // SAFETY: the first values end where the second ones begin, which `put` relies on as well.
        unsafe {
            let (first, second) = (
                block.cast::<T>(),
                block.cast::<T>().add(Self::IN_BLOCK).cast::<U>(),
            );
            (first.add(index).read(), second.add(index).read())
        }
    }

    #[inline(always)]
    unsafe fn put(self, block: *mut Self, index: usize) {
        // SAFETY: both arrays lie within the block.
        unsafe {
            let (first, second) = (
                block.cast::<T>(),
                block.cast::<T>().add(Self::IN_BLOCK).cast::<U>(),
            );
            first.add(index).write(self.0);
            second.add(index).write(self.1);
        }
    }
}
