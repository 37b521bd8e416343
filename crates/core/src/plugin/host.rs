//! The services that the core gives to plugins: log lines, time, and whether waits should end.

use infiniccl_plugin_api::{HostServices, LogLevel, Str};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Longest log line taken from a plugin, in bytes.
const MAX_LINE: usize = 16 * 1024;

static ABORTING: AtomicBool = AtomicBool::new(false);

/// Tells all plugins of the process to end their waits, or that they may wait again.
///
/// Plugins ask for it in long waits, such as joining a vendor's communicator. Never blocks.
pub fn set_aborting(aborting: bool) {
    ABORTING.store(aborting, Ordering::Relaxed);
}

/// The services for the plugin that is called `name`, valid as long as the process lives.
pub(super) fn services(name: &str) -> &'static HostServices {
    // Plugins keep the pointer, so it is never freed; one per name bounds what that costs.
    static MADE: LazyLock<Mutex<HashMap<String, &'static HostServices>>> = LazyLock::new(Mutex::default);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry(name.to_owned()).or_insert_with(|| {
        let name: &'static String = Box::leak(Box::new(name.to_owned()));
        Box::leak(Box::new(HostServices {
            context: std::ptr::from_ref(name).cast_mut().cast(),
            log,
            now,
            is_aborting,
            reserved: [0; 4],
        }))
    })
}

extern "C" fn log(context: *mut c_void, level: LogLevel, target: Str, message: Str) {
    // A subscriber is foreign code: its panic must not unwind into the plugin.
    let _ = std::panic::catch_unwind(|| {
        // SAFETY: `services` made the context, which is never freed; null is refused.
        let Some(plugin) = (unsafe { context.cast::<String>().as_ref() }) else {
            return;
        };
        // SAFETY: the plugin lends both texts for this call.
        let (part, message) = unsafe { (target.as_str(), message.as_str()) };
        let part = part.unwrap_or("?");
        let message = line(message.unwrap_or("a log line that is no UTF-8"));
        const TARGET: &str = "infiniccl::plugin";
        match level {
            LogLevel::ERROR => tracing::error!(target: TARGET, plugin = %plugin, part, "{message}"),
            LogLevel::WARN => tracing::warn!(target: TARGET, plugin = %plugin, part, "{message}"),
            LogLevel::DEBUG => tracing::debug!(target: TARGET, plugin = %plugin, part, "{message}"),
            LogLevel::TRACE => tracing::trace!(target: TARGET, plugin = %plugin, part, "{message}"),
            // A level of a later version is at least worth a line.
            _ => tracing::info!(target: TARGET, plugin = %plugin, part, "{message}"),
        }
    });
}

extern "C" fn now(_context: *mut c_void) -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0)
}

extern "C" fn is_aborting(_context: *mut c_void) -> u32 {
    u32::from(ABORTING.load(Ordering::Relaxed))
}

/// `text` as one line of bounded length: what a plugin writes may not forge other lines of the log.
pub(super) fn line(text: &str) -> String {
    let mut end = text.len().min(MAX_LINE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end]
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, MutexGuard};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<(Level, String)>>>);

    impl Captured {
        fn lines(&self) -> MutexGuard<'_, Vec<(Level, String)>> {
            self.0.lock().unwrap()
        }
    }

    impl Subscriber for Captured {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "infiniccl::plugin"
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            struct Text(String);
            impl Visit for Text {
                fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                    use std::fmt::Write;
                    let _ = write!(self.0, "{}={value:?};", field.name());
                }
            }
            let mut text = Text(String::new());
            event.record(&mut text);
            self.lines().push((*event.metadata().level(), text.0));
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn log_lines_carry_the_plugins_name_and_cannot_forge_others() {
        let captured = Captured::default();
        tracing::subscriber::with_default(captured.clone(), || {
            let services = services("vendor-x");
            services.write_log(LogLevel::WARN, "ccl", "first\nERROR forged");
            services.write_log(LogLevel(77), "ccl", "later level");
            (services.log)(
                services.context,
                LogLevel::ERROR,
                Str {
                    ptr: std::ptr::null(),
                    len: 9,
                },
                "x".into(),
            );
        });
        let lines = captured.lines();
        assert_eq!(lines[0].0, Level::WARN);
        assert!(
            lines[0].1.contains("plugin=vendor-x;") && lines[0].1.contains("part=\"ccl\";"),
            "{lines:?}"
        );
        assert!(lines[0].1.contains("message=first ERROR forged;"), "{lines:?}");
        assert_eq!((lines[1].0, lines[2].0), (Level::INFO, Level::ERROR));
    }

    #[test]
    fn time_is_monotonic_and_services_are_made_once_per_name() {
        let services = services("vendor-y");
        let (first, second) = (services.time_ns(), services.time_ns());
        assert!(first > 0 && second >= first);
        assert!(std::ptr::eq(services, super::services("vendor-y")));
        assert!(!std::ptr::eq(services, super::services("vendor-z")));
    }
}
