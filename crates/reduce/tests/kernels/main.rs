//! The kernels against an oracle, on every instruction set of this machine.

mod arena;
mod average;
mod formats;
mod identity;
mod oracle;
mod pages;
mod reduction;
mod scaling;
mod special;
mod values;

use std::sync::{Mutex, PoisonError};

use infiniccl_reduce::{isa, set_isa};

/// Runs a check on every instruction set that this machine has, one at a time in the whole process.
fn on_each_isa(mut check: impl FnMut(&str)) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let widest = isa();
    let mut names = vec![widest];
    for name in ["avx2+f16c", "neon", "portable"] {
        if name != widest && set_isa(name) {
            names.push(name);
        }
    }
    for name in names {
        assert!(set_isa(name), "{name}");
        check(name);
    }
    assert!(set_isa(widest), "{widest}");
}
