//! One line per event: how a rank of a test says what happened, and how the test reads it.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use infiniccl::Error;
use rustix::time::{ClockId, clock_gettime};

/// What every line of an event starts with; other output is for people.
const MARK: char = '@';

/// Something that happened on a rank: its name, when, and `key=value` fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    name: String,
    fields: Vec<(String, String)>,
}

impl Event {
    /// An event that happens now.
    pub fn now(name: &str) -> Self {
        let event = Event {
            name: name.to_string(),
            fields: Vec::new(),
        };
        event.with("at", now_ms())
    }

    /// An error, in its parts and as a whole (`text`).
    pub fn error(phase: &str, error: &Error) -> Self {
        let event = Event::now("error")
            .with("phase", phase)
            .with("kind", format!("{:?}", error.kind()));
        error
            .context()
            .fold(event, |event, (key, value)| event.with(key, value))
            .with("text", error)
    }

    /// Adds a field. Tabs and line ends in the value become spaces.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl fmt::Display) -> Self {
        let value = value.to_string().replace(['\t', '\n', '\r'], " ");
        self.fields.push((key.to_string(), value));
        self
    }

    /// Writes it to standard output, at once.
    pub fn say(&self) {
        let mut line = format!("{MARK}{}", self.name);
        for (key, value) in &self.fields {
            let _ = write!(line, "\t{key}={value}");
        }
        line.push('\n');
        // Whoever reads may have left; then nobody misses the line.
        let _ = std::io::stdout().lock().write_all(line.as_bytes());
        let _ = std::io::stdout().flush();
    }

    /// Reads a line; `None` if it is no event.
    pub fn parse(line: &str) -> Option<Self> {
        let mut parts = line.strip_prefix(MARK)?.split('\t');
        let name = parts.next()?.to_string();
        let fields = parts.map(|part| part.split_once('=').map(|(k, v)| (k.into(), v.into())));
        Some(Event {
            name,
            fields: fields.collect::<Option<_>>()?,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of a field.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// The value of a field that has to be there.
    ///
    /// # Panics
    /// When it is not.
    pub fn text(&self, key: &str) -> &str {
        self.get(key)
            .unwrap_or_else(|| panic!("the event has no `{key}`: {self:?}"))
    }

    /// The value of a field that has to be a number.
    ///
    /// # Panics
    /// When it is none.
    pub fn number(&self, key: &str) -> u64 {
        let text = self.text(key);
        text.parse()
            .unwrap_or_else(|_| panic!("`{key}` is no number: {self:?}"))
    }
}

/// Milliseconds of the clock that all processes of a machine share.
pub fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let ms = now.tv_sec * 1000 + now.tv_nsec / 1_000_000;
    u64::try_from(ms).expect("the clock starts at zero")
}

#[cfg(test)]
mod tests {
    use super::*;
    use infiniccl::ErrorKind;

    #[test]
    fn events_survive_their_line() {
        let error = Error::new(ErrorKind::Remote, "two\nlines = many").with("rank", 3);
        let event = Event::error("call", &error);
        let mut line = format!("@{}", event.name);
        for (key, value) in &event.fields {
            line += &format!("\t{key}={value}");
        }
        assert_eq!(Event::parse(&line).as_ref(), Some(&event));
        assert_eq!((event.text("kind"), event.number("rank")), ("Remote", 3));
        assert!(event.text("text").contains("two lines = many"), "{event:?}");
        assert_eq!(Event::parse("a warning"), None);
    }
}
