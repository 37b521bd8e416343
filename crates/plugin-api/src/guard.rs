//! Keeps panics inside the plugin: the guard around every exported function, and the poison flag behind it.

use crate::{Status, set_last_error};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Remembers that a plugin panicked; one static per plugin, made by [`crate::declare_plugin!`].
#[derive(Debug, Default)]
pub struct Poison {
    panicked: AtomicBool,
    text: OnceLock<String>,
}

impl Poison {
    /// A plugin that has not panicked.
    pub const fn new() -> Self {
        Poison {
            panicked: AtomicBool::new(false),
            text: OnceLock::new(),
        }
    }

    /// Whether the plugin panicked.
    pub fn is_set(&self) -> bool {
        self.panicked.load(Ordering::Relaxed)
    }

    /// What the first panic said, with the function it happened in.
    pub fn text(&self) -> Option<&str> {
        self.text.get().map(String::as_str)
    }

    fn set(&self, function: &str, payload: &(dyn Any + Send)) {
        let said = payload
            .downcast_ref::<&'static str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("a payload that is no text");
        // Only the first panic counts: later ones are mostly its consequences.
        let _ = self.text.set(format!("panic in {function}: {said}"));
        self.panicked.store(true, Ordering::Release);
    }
}

/// Runs the body of an exported function so that no panic leaves it.
///
/// A panic is answered with [`Status::PANICKED`] and its text becomes the calling thread's last error. From then
/// on the plugin is poisoned: every guarded function of it answers PANICKED without running, since the state the
/// panic left behind cannot be trusted. `function` is the name that messages use.
#[inline]
pub fn guard(poison: &Poison, function: &'static str, body: impl FnOnce() -> Status) -> Status {
    if poison.is_set() {
        return refuse(poison);
    }
    // The poison flag is what makes the assertion true: nothing sees the broken state afterwards.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(status) => status,
        Err(payload) => {
            poison.set(function, &*payload);
            // Dropping a foreign payload could panic again, outside of any guard.
            std::mem::forget(payload);
            refuse(poison)
        }
    }
}

#[cold]
fn refuse(poison: &Poison) -> Status {
    set_last_error(poison.text().unwrap_or("the plugin panicked"));
    Status::PANICKED
}

/// Defines exported functions of a plugin, each inside a [`guard`].
///
/// The crate must have called [`crate::declare_plugin!`] at its root, which defines the flag that the guard uses.
/// Any number of functions may stand in one call; documentation, attributes and visibility are kept.
///
/// [The crate's example](crate#how-to-write-a-plugin) shows it in use.
// `crate` is meant: the flag belongs to the plugin that expands the macro.
#[allow(clippy::crate_in_macro_def)]
#[macro_export]
macro_rules! guarded {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis extern "C" fn $name:ident ( $($argument:ident : $type:ty),* $(,)? ) -> Status $body:block
    )*) => {$(
        $(#[$attribute])*
        #[allow(clippy::not_unsafe_ptr_arg_deref, clippy::too_many_arguments)]
        $visibility extern "C" fn $name($($argument: $type),*) -> $crate::Status {
            $crate::guard(&crate::PLUGIN_POISON, stringify!($name), || -> $crate::Status { $body })
        }
    )*};
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::last_error_text;

    #[test]
    fn a_panic_becomes_a_status_and_poisons_only_its_plugin() {
        let (broken, sound) = (Poison::new(), Poison::new());
        assert_eq!(guard(&broken, "copy", || Status::AGAIN), Status::AGAIN);
        let three = 3;
        assert_eq!(
            guard(&broken, "copy", || panic!("no stream {three}")),
            Status::PANICKED
        );
        assert_eq!(last_error_text(), "panic in copy: no stream 3");
        let mut ran = false;
        let status = guard(&broken, "reduce", || {
            ran = true;
            Status::OK
        });
        assert_eq!((status, ran), (Status::PANICKED, false));
        assert!(broken.is_set() && !sound.is_set());
        assert_eq!(guard(&sound, "copy", || Status::OK), Status::OK);
    }

    #[test]
    fn other_threads_of_a_poisoned_plugin_learn_the_first_panic() {
        let poison = Poison::new();
        guard(&poison, "probe", || std::panic::panic_any(7_u8));
        guard(&poison, "probe", || panic!("second"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(guard(&poison, "copy", || Status::OK), Status::PANICKED);
                assert_eq!(last_error_text(), "panic in probe: a payload that is no text");
            });
        });
    }
}
