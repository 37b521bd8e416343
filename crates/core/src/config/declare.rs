//! The macro that turns one declaration of a key into its field, its reader, its documentation and its digest.

use super::raw::{Item, Problem};
use super::schema::Config;

/// How a bare text from a variable or from [`Config::set`] becomes a value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `true` or `false`.
    Bool,
    /// A number; text that is none stays text, so that the key's own message appears.
    Number,
    /// The text as it stands.
    Text,
    /// Entries between commas.
    List,
}

/// One type of value: how it is read, shown and described.
pub(crate) trait Codec {
    /// What the field of the configuration holds.
    type Value;
    /// The name of the type in the reference.
    const TYPE: &'static str;
    /// How bare text turns into such a value.
    const SHAPE: Shape;

    /// The values to choose from, if there is a list of them.
    fn choices() -> Vec<&'static str> {
        Vec::new()
    }

    /// A number of this type as the reference prints it in a range.
    fn number(value: f64) -> String {
        value.to_string()
    }

    /// Reads a value; the problem does not name the key, the caller does.
    fn read(item: &Item, key: &Key) -> Result<Self::Value, Problem>;

    /// The value as it would stand in the file, always in the same form.
    fn show(value: &Self::Value) -> String;
}

/// Everything about a key that does not depend on its type.
pub struct Key {
    section: &'static str,
    name: &'static str,
    help: &'static [&'static str],
    type_name: &'static str,
    choices: fn() -> Vec<&'static str>,
    number: fn(f64) -> String,
    default: Option<fn() -> String>,
    example: Option<&'static str>,
    range: Option<(f64, f64)>,
    variable: Option<&'static str>,
    agreed: bool,
}

impl Key {
    pub(crate) const fn new<C: Codec>(
        section: &'static str,
        name: &'static str,
        help: &'static [&'static str],
    ) -> Self {
        Key {
            section,
            name,
            help,
            type_name: C::TYPE,
            choices: C::choices,
            number: C::number,
            default: None,
            example: None,
            range: None,
            variable: None,
            agreed: false,
        }
    }

    pub(crate) const fn default(mut self, text: fn() -> String) -> Self {
        self.default = Some(text);
        self
    }

    /// Shown in the shipped file where there is no default, or where the default teaches nothing.
    pub(crate) const fn example(mut self, text: &'static str) -> Self {
        self.example = Some(text);
        self
    }

    pub(crate) const fn range(mut self, least: f64, most: f64) -> Self {
        self.range = Some((least, most));
        self
    }

    pub(crate) const fn env(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    /// All ranks of a job must have the same value.
    pub(crate) const fn agree(mut self) -> Self {
        self.agreed = true;
        self
    }

    /// The section it stands in; empty for the keys above all sections.
    pub fn section(&self) -> &'static str {
        self.section
    }

    /// The key without its section.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The key with its section, such as `timeouts.connect`.
    pub fn path(&self) -> String {
        if self.section.is_empty() {
            self.name.to_owned()
        } else {
            format!("{}.{}", self.section, self.name)
        }
    }

    /// What it does, in one or more sentences.
    pub fn help(&self) -> String {
        self.help
            .iter()
            .map(|line| line.trim())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The lines of the help text, as they are declared.
    pub(crate) fn help_lines(&self) -> impl Iterator<Item = &'static str> {
        self.help.iter().map(|line| line.trim())
    }

    /// The name of its type.
    pub fn type_name(&self) -> &'static str {
        self.type_name
    }

    /// The values to choose from; empty when any value of the type will do.
    pub fn choices(&self) -> Vec<&'static str> {
        (self.choices)()
    }

    /// The default as it would stand in the file; `None` for a key that must be given.
    pub fn default_text(&self) -> Option<String> {
        self.default.map(|show| show())
    }

    /// A value for the shipped file: the example if there is one, else the default.
    pub(crate) fn sample(&self) -> String {
        self.example
            .map(str::to_owned)
            .or_else(|| self.default_text())
            .unwrap_or_default()
    }

    /// The least and the greatest value, for numbers that have limits.
    pub fn range_text(&self) -> Option<String> {
        self.range
            .map(|(least, most)| format!("{} to {}", (self.number)(least), (self.number)(most)))
    }

    /// The environment variable that wins over the file.
    pub fn variable(&self) -> Option<&'static str> {
        self.variable
    }

    /// Whether all ranks of a job must have the same value.
    pub fn must_agree(&self) -> bool {
        self.agreed
    }

    /// Refuses a number outside the declared range.
    pub(crate) fn check_range(&self, value: f64) -> Result<(), Problem> {
        match self.range {
            Some((least, most)) if !(least..=most).contains(&value) => Err(Problem::new(format!(
                "{} is outside {} to {}",
                (self.number)(value),
                (self.number)(least),
                (self.number)(most)
            ))),
            _ => Ok(()),
        }
    }
}

/// A section of the file, or an array of tables.
pub struct Section {
    /// Its name; empty for the keys above all sections.
    pub name: &'static str,
    pub(crate) help: &'static [&'static str],
    /// Whether it is written `[[name]]` and may stand any number of times.
    pub repeated: bool,
    /// Whether its keys come from variables and the API alone.
    pub variables_only: bool,
}

impl Section {
    /// What the section is for.
    pub fn help(&self) -> String {
        self.help
            .iter()
            .map(|line| line.trim())
            .collect::<Vec<_>>()
            .join(" ")
    }

    pub(crate) fn help_lines(&self) -> impl Iterator<Item = &'static str> {
        self.help.iter().map(|line| line.trim())
    }

    /// The header as it stands in the file.
    pub fn header(&self) -> String {
        if self.repeated {
            format!("[[{}]]", self.name)
        } else {
            format!("[{}]", self.name)
        }
    }
}

/// A key that stands once, with the way to its field.
pub(crate) struct Scalar {
    pub(crate) key: Key,
    pub(crate) shape: Shape,
    pub(crate) read: fn(&mut Config, &Item, &Key) -> Result<(), Problem>,
    pub(crate) show: fn(&Config) -> String,
}

/// Declares all keys. Three blocks: keys above all sections, sections, arrays of tables.
///
/// A key is `/// help` and then `name: FieldType as Codec = default, [attribute(…), …];`. In an array of tables
/// the default may be missing: then the key must be given.
macro_rules! declare {
    (
        root { $(
            $(#[doc = $rhelp:literal])+
            $rname:ident: $rty:ty as $rcodec:ty = $rdefault:expr $(, [$($rattr:ident($($rarg:expr),*)),+])?;
        )+ }
        sections { $(
            $(#[doc = $shelp:literal])+
            $sec:ident: $Sec:ident, variables_only = $vonly:literal {
                $(
                    $(#[doc = $khelp:literal])+
                    $kname:ident: $kty:ty as $kcodec:ty = $kdefault:expr $(, [$($kattr:ident($($karg:expr),*)),+])?;
                )+
            }
        )+ }
        tables { $(
            $(#[doc = $thelp:literal])+
            $tname:literal => $tfield:ident: $Table:ident {
                $(
                    $(#[doc = $ehelp:literal])+
                    $ename:ident: $ety:ty as $ecodec:ty $(= $edefault:expr)? $(, [$($eattr:ident($($earg:expr),*)),+])?;
                )+
            }
        )+ }
    ) => {
        /// The whole configuration: the file, with what variables and the API changed.
        ///
        /// Read the fields directly; change them through [`Config::set`], which keeps the origin right.
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub struct Config {
            $($(#[doc = $rhelp])+ pub $rname: $rty,)+
            $($(#[doc = $shelp])+ pub $sec: $Sec,)+
            $($(#[doc = $thelp])+ pub $tfield: Vec<$Table>,)+
            pub(super) meta: Meta,
        }

        impl Config {
            /// Every key at its default, no plugin listed.
            pub(super) fn defaults() -> Self {
                Config {
                    $($rname: $rdefault,)+
                    $($sec: $Sec::default(),)+
                    $($tfield: Vec::new(),)+
                    meta: Meta::new(SCALARS.len()),
                }
            }

            /// Reads one entry of an array of tables and appends it.
            pub(super) fn read_entry(&mut self, table: &str, reader: &mut TableReader<'_>) {
                match table {
                    $($tname => self.$tfield.extend($Table::read(reader)),)+
                    other => debug_assert!(false, "{other} is no array of tables"),
                }
            }

            /// Calls `visit` with table, index, key, value and origin for each key of each entry.
            pub(super) fn visit_entries(&self, visit: &mut dyn FnMut(&'static Key, usize, String, Origin)) {
                $(for (index, entry) in self.$tfield.iter().enumerate() {
                    for (key, (value, origin)) in entry_keys($tname).iter().zip(entry.shown()) {
                        visit(key, index, value, origin);
                    }
                })+
            }
        }

        $(
            $(#[doc = $shelp])+
            #[derive(Debug, Clone)]
            #[non_exhaustive]
            pub struct $Sec { $($(#[doc = $khelp])+ pub $kname: $kty,)+ }

            impl Default for $Sec {
                fn default() -> Self {
                    $Sec { $($kname: $kdefault,)+ }
                }
            }
        )+

        $(
            $(#[doc = $thelp])+
            #[derive(Debug, Clone)]
            #[non_exhaustive]
            pub struct $Table {
                $($(#[doc = $ehelp])+ pub $ename: $ety,)+
                /// Where each key of this entry was set.
                pub(super) places: Places,
            }

            impl $Table {
                fn read(reader: &mut TableReader<'_>) -> Option<Self> {
                    $(let $ename = reader.take::<$ecodec>(stringify!($ename), None$(.or(Some($edefault)))?);)+
                    let places = reader.places();
                    let entry = $Table { $($ename: $ename?,)+ places };
                    reader.check(&entry).then_some(entry)
                }

                /// Each key's value and origin, in the order of the declaration.
                fn shown(&self) -> Vec<(String, Origin)> {
                    vec![$((
                        <$ecodec as Codec>::show(&self.$ename),
                        self.places.of(stringify!($ename)),
                    ),)+]
                }
            }
        )+

        /// Every key that stands once.
        pub(super) static SCALARS: &[Scalar] = &[
            $(Scalar {
                key: Key::new::<$rcodec>("", stringify!($rname), &[$($rhelp),+])
                    .default(|| <$rcodec as Codec>::show(&$rdefault))
                    $($(.$rattr($($rarg),*))+)?,
                shape: <$rcodec as Codec>::SHAPE,
                read: |config, item, key| {
                    config.$rname = <$rcodec as Codec>::read(item, key)?;
                    Ok(())
                },
                show: |config| <$rcodec as Codec>::show(&config.$rname),
            },)+
            $($(Scalar {
                key: Key::new::<$kcodec>(stringify!($sec), stringify!($kname), &[$($khelp),+])
                    .default(|| <$kcodec as Codec>::show(&$kdefault))
                    $($(.$kattr($($karg),*))+)?,
                shape: <$kcodec as Codec>::SHAPE,
                read: |config, item, key| {
                    config.$sec.$kname = <$kcodec as Codec>::read(item, key)?;
                    Ok(())
                },
                show: |config| <$kcodec as Codec>::show(&config.$sec.$kname),
            },)+)+
        ];

        static ENTRY_KEYS: &[(&str, &[Key])] = &[
            $(($tname, &[
                $(Key::new::<$ecodec>($tname, stringify!($ename), &[$($ehelp),+])
                    $(.default(|| <$ecodec as Codec>::show(&$edefault)))?
                    $($(.$eattr($($earg),*))+)?,)+
            ]),)+
        ];

        /// Every section, in the order of the reference; the first stands for the keys above all sections.
        pub static SECTIONS: &[Section] = &[
            Section { name: "", help: &["Keys that stand above all sections."], repeated: false, variables_only: false },
            $(Section {
                name: stringify!($sec), help: &[$($shelp),+], repeated: false, variables_only: $vonly,
            },)+
            $(Section { name: $tname, help: &[$($thelp),+], repeated: true, variables_only: false },)+
        ];
    };
}
pub(super) use declare;
