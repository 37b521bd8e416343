//! A value before its type is known: from the file with its place, or from a bare text.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::declare::Shape;

/// A value with the bytes of the file it came from; the range is empty for text from elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) raw: Raw,
    pub(crate) span: Range<usize>,
}

/// The types that TOML knows.
#[derive(Debug, Clone)]
pub(crate) enum Raw {
    Text(String),
    Integer(i128),
    Float(f64),
    Bool(bool),
    Date(String),
    List(Vec<Item>),
    Table(Vec<Entry>),
}

/// A key of a table, with its place.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) span: Range<usize>,
    pub(crate) item: Item,
}

/// What is wrong with a value, and where if it is a part of it.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) message: String,
    pub(crate) suggestion: Option<String>,
    pub(crate) span: Option<Range<usize>>,
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Problem {
            message: message.into(),
            suggestion: None,
            span: None,
        }
    }

    /// Says what to write instead.
    pub(crate) fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// Points at a part of the value.
    pub(crate) fn at(mut self, span: &Range<usize>) -> Self {
        self.span.get_or_insert_with(|| span.clone());
        self
    }
}

impl Item {
    /// Text from a variable or the API, turned into what the key's type expects where that is possible.
    pub(crate) fn from_text(text: &str, shape: Shape) -> Self {
        let trimmed = text.trim();
        let raw = match shape {
            Shape::Text => Raw::Text(trimmed.to_owned()),
            Shape::Bool => match trimmed {
                "true" => Raw::Bool(true),
                "false" => Raw::Bool(false),
                other => Raw::Text(other.to_owned()),
            },
            Shape::Number => match (trimmed.parse::<i128>(), trimmed.parse::<f64>()) {
                (Ok(integer), _) => Raw::Integer(integer),
                (_, Ok(float)) => Raw::Float(float),
                _ => Raw::Text(trimmed.to_owned()),
            },
            Shape::List => Raw::List(
                trimmed
                    .split(',')
                    .map(|part| Item {
                        raw: Raw::Text(part.trim().to_owned()),
                        span: 0..0,
                    })
                    .collect(),
            ),
        };
        Item { raw, span: 0..0 }
    }

    /// The problem "expected this, found that", pointing at this item.
    pub(crate) fn expected(&self, what: &str) -> Problem {
        Problem::new(format!("expected {what}, found {}", self.describe())).at(&self.span)
    }

    /// The value in words, short enough for one line.
    pub(crate) fn describe(&self) -> String {
        match &self.raw {
            Raw::Text(text) => format!("the string {}", quoted(&shortened(text))),
            Raw::Integer(value) => format!("the integer {value}"),
            Raw::Float(value) => format!("the number {value}"),
            Raw::Bool(value) => format!("the boolean {value}"),
            Raw::Date(value) => format!("the date {value}"),
            Raw::List(_) => "a list".to_owned(),
            Raw::Table(_) => "a table".to_owned(),
        }
    }
}

/// The first characters of a text, for messages.
fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain(['…']).collect()
}

/// The text as a TOML string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Copies a parsed table out of the parser's types.
pub(crate) fn table(parsed: &DeTable<'_>) -> Vec<Entry> {
    parsed
        .iter()
        .map(|(key, value)| Entry {
            name: key.get_ref().to_string(),
            span: key.span(),
            item: Item {
                raw: raw(value.get_ref()),
                span: value.span(),
            },
        })
        .collect()
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(digits) => {
            let negative = digits.as_str().starts_with('-');
            let limit = if negative { i128::MIN } else { i128::MAX };
            Raw::Integer(i128::from_str_radix(digits.as_str(), digits.radix()).unwrap_or(limit))
        }
        DeValue::Float(text) => Raw::Float(text.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Raw::Bool(*value),
        DeValue::Datetime(value) => Raw::Date(value.to_string()),
        DeValue::Array(items) => Raw::List(
            items
                .iter()
                .map(|item| Item {
                    raw: raw(item.get_ref()),
                    span: item.span(),
                })
                .collect(),
        ),
        DeValue::Table(inner) => Raw::Table(table(inner)),
    }
}
