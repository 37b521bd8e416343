//! Which vector unit the kernels run on, found once, and the way into code that is compiled for it.

use std::sync::atomic::{AtomicU8, Ordering};

#[cfg(target_arch = "x86_64")]
use crate::binary16::{F16c, MaskedF16c};
use crate::binary16::{Half, Software};

/// A set of instructions that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Isa {
    /// What every processor of the target architecture has.
    Portable = 1,
    /// 256-bit vectors and the half-precision conversions.
    #[cfg(target_arch = "x86_64")]
    Avx2 = 2,
    /// 512-bit vectors with byte and word operations.
    #[cfg(target_arch = "x86_64")]
    Avx512 = 3,
}

/// The choice of this process as `Isa as u8`; zero until it is made.
static CURRENT: AtomicU8 = AtomicU8::new(0);

impl Isa {
    /// Every set that this processor can run, narrowest first.
    pub(crate) fn available() -> impl Iterator<Item = Isa> {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            [(Isa::Portable, true), (Isa::Avx2, avx2), (Isa::Avx512, avx512)]
                .into_iter()
                .filter_map(|(isa, present)| present.then_some(isa))
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            std::iter::once(Isa::Portable)
        }
    }

    /// The set that this process uses.
    #[inline]
    pub(crate) fn current() -> Isa {
        match CURRENT.load(Ordering::Relaxed) {
            1 => Isa::Portable,
            #[cfg(target_arch = "x86_64")]
            2 => Isa::Avx2,
            #[cfg(target_arch = "x86_64")]
            3 => Isa::Avx512,
            _ => Isa::choose(),
        }
    }

    #[cold]
    fn choose() -> Isa {
        let widest = Isa::available().last().unwrap_or(Isa::Portable);
        CURRENT.store(widest as u8, Ordering::Relaxed);
        widest
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Isa::Portable if cfg!(target_arch = "aarch64") => "neon",
            Isa::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => "avx2+f16c",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => "avx512",
        }
    }
}

/// Work that is compiled once for each instruction set.
///
/// # Safety
/// `run` may only be called where the processor has the instructions of `H`, and under the conditions that the
/// task itself was made with.
pub(crate) trait Task {
    unsafe fn run<H: Half>(self);
}

impl Isa {
    /// Runs a task with the instructions of the set.
    ///
    /// # Safety
    /// The processor has this set, and the task may run.
    #[inline]
    pub(crate) unsafe fn run<T: Task>(self, task: T) {
        // SAFETY: passed on from the caller.
        unsafe {
            match self {
                Isa::Portable => on_portable(task),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => on_avx2(task),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => on_avx512(task),
            }
        }
    }
}

unsafe fn on_portable<T: Task>(task: T) {
    // SAFETY: `Software` needs no instructions of its own; the rest is passed on from `Isa::run`.
    unsafe { task.run::<Software>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn on_avx2<T: Task>(task: T) {
    // SAFETY: F16C is enabled here; the rest is passed on from `Isa::run`.
    unsafe { task.run::<F16c>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn on_avx512<T: Task>(task: T) {
    // SAFETY: AVX-512VL is enabled here; the rest is passed on from `Isa::run`.
    unsafe { task.run::<MaskedF16c>() }
}

/// The name of the instruction set that reductions of this process run on: `"avx512"`, `"avx2+f16c"`, `"neon"` or
/// `"portable"`.
pub fn isa() -> &'static str {
    Isa::current().name()
}

/// Makes every later reduction of the process run on the instruction set of this name, for tests and benchmarks;
/// false, and no change, if this processor lacks it.
#[doc(hidden)]
pub fn set_isa(name: &str) -> bool {
    let found = Isa::available().find(|isa| isa.name() == name);
    if let Some(isa) = found {
        CURRENT.store(isa as u8, Ordering::Relaxed);
    }
    found.is_some()
}
