//! The keys whose value is one word of a short list.

use super::declare::{Codec, Key, Shape};
use super::raw::{Item, Problem, Raw, quoted};
use super::suggest::did_you_mean;

macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ })+) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// The word that stands for it in the file.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl Codec for $name {
            type Value = $name;
            const TYPE: &'static str = "string";
            const SHAPE: Shape = Shape::Text;

            fn choices() -> Vec<&'static str> {
                vec![$($text),+]
            }

            fn read(item: &Item, _key: &Key) -> Result<$name, Problem> {
                match word(item, &[$($text),+])? {
                    $($text => Ok($name::$variant),)+
                    _ => Err(item.expected(&one_of(&[$($text),+]))),
                }
            }

            fn show(value: &$name) -> String {
                quoted(value.name())
            }
        }
    )+ };
}

choices! {
    /// Whether the ranks compare what they call.
    Check {
        /// A difference in collective, count, type, operator or root ends in an error on every rank.
        On = "on",
        /// No comparison; a difference may end in a time-out.
        Off = "off",
    }

    /// When the native reductions of plugins are checked against known answers.
    Verify {
        /// Never: what a plugin declares is believed.
        Off = "off",
        /// Once per plugin version, driver version and device model; the result is kept.
        Once = "once",
        /// At each creation of a communicator.
        Always = "always",
    }

    /// What the arithmetic of a native operation must hold.
    Numerics {
        /// Everything that the library promises; what a plugin does not hold is emulated.
        Strict = "strict",
        /// The vendor's own handling of NaN and rounding is good enough.
        Vendor = "vendor",
    }

    /// How connections prove that they belong to the job.
    Auth {
        /// By the job's key, in both directions.
        Key = "key",
        /// Not at all: anyone who reaches a port can join.
        None = "none",
    }

    /// What a plugin is for.
    PluginKind {
        /// Devices and their collective library.
        Vendor = "vendor",
        /// Bytes between ranks.
        Net = "net",
    }

    /// What an override makes of an operation.
    OverrideAction {
        /// The plugin's own operation, if its answer is right.
        Native = "native",
        /// Composed or computed by the library.
        Emulate = "emulate",
        /// An error before any byte moves.
        Refuse = "refuse",
    }

    /// What happens when a link cannot use its best path.
    Fallback {
        /// The next path is taken.
        Allow = "allow",
        /// The next path is taken and a warning says why.
        Warn = "warn",
        /// Creating the communicator fails.
        Error = "error",
    }

    /// Which addresses are used.
    AddressFamily {
        /// IPv4 and IPv6.
        Any = "any",
        /// IPv4 alone.
        Ipv4 = "ipv4",
        /// IPv6 alone.
        Ipv6 = "ipv6",
    }
}

/// The word of `item`, if it is one of `words`.
pub(crate) fn word(item: &Item, words: &[&'static str]) -> Result<&'static str, Problem> {
    let Raw::Text(text) = &item.raw else {
        let problem = item.expected(&one_of(words));
        return Err(match item.raw {
            Raw::Bool(value) => {
                let spelt = if value { "on" } else { "off" };
                match words.contains(&spelt) {
                    true => problem.suggest(format!("write {}", quoted(spelt))),
                    false => problem,
                }
            }
            _ => problem,
        });
    };
    if let Some(word) = words.iter().find(|word| *word == text) {
        return Ok(word);
    }
    let problem = item.expected(&one_of(words));
    Err(match did_you_mean(text, words.iter().copied(), quoted) {
        Some(suggestion) => problem.suggest(suggestion),
        None => problem,
    })
}

/// The words in a sentence: `"a", "b" or "c"`.
pub(crate) fn one_of(words: &[&str]) -> String {
    let mut out = String::new();
    for (i, word) in words.iter().enumerate() {
        if i > 0 {
            out.push_str(if i + 1 == words.len() { " or " } else { ", " });
        }
        out.push_str(&quoted(word));
    }
    out
}
