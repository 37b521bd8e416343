//! The text of a file with the places of its lines, and the problems found in it.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::diagnostic::{Diagnostic, Picture, Place, Severity};
use super::origin::Origin;
use super::raw::Problem;

/// Collects the problems of one file.
pub(super) struct Report<'a> {
    path: Arc<Path>,
    text: &'a str,
    line_starts: Vec<usize>,
    found: Vec<Diagnostic>,
    /// Lines with errors of syntax: what was recovered from them means nothing.
    broken_lines: Vec<usize>,
}

impl<'a> Report<'a> {
    pub(super) fn new(path: &Path, text: &'a str) -> Self {
        let breaks = text
            .bytes()
            .enumerate()
            .filter(|(_, byte)| *byte == b'\n')
            .map(|(at, _)| at + 1);
        Report {
            path: path.into(),
            text,
            line_starts: [0].into_iter().chain(breaks).collect(),
            found: Vec::new(),
            broken_lines: Vec::new(),
        }
    }

    /// The problems, in the order in which they were found.
    pub(super) fn into_found(self) -> Vec<Diagnostic> {
        self.found
    }

    /// Whether there are errors of syntax, so that keys may be missing which are there.
    pub(super) fn has_broken_syntax(&self) -> bool {
        !self.broken_lines.is_empty()
    }

    /// The place of a part of the text.
    pub(super) fn origin(&self, span: &Range<usize>) -> Origin {
        let (line, column) = position(self.text, &self.line_starts, span.start);
        Origin::File {
            path: self.path.clone(),
            line,
            column,
        }
    }

    /// Adds a problem of the value at `span`, unless its line is broken anyway.
    pub(super) fn add(&mut self, span: &Range<usize>, key: Option<String>, problem: Problem) {
        let span = problem.span.as_ref().unwrap_or(span);
        let (line, column) = position(self.text, &self.line_starts, span.start);
        if self.broken_lines.contains(&line) {
            return;
        }
        let place = Place::File {
            path: self.path.clone(),
            line,
            column,
        };
        let mut diagnostic = Diagnostic::new(Severity::Error, place, problem.message);
        diagnostic.key = key;
        diagnostic.suggestion = problem.suggestion;
        diagnostic.picture = self.picture(line, column, span);
        self.found.push(diagnostic);
    }

    /// Adds an error of syntax; the first one of a line is enough.
    pub(super) fn syntax(&mut self, error: &toml::de::Error) {
        let end = self.text.len();
        let span = error
            .span()
            .filter(|span| self.text.get(span.clone()).is_some())
            .unwrap_or(end..end);
        let problem = match error.message() {
            DUPLICATE => Problem::new(format!("`{}` is set twice", &self.text[span.clone()]))
                .suggest("keep one of the two"),
            message => Problem::new(format!("not valid TOML: {message}")),
        };
        let (line, _) = position(self.text, &self.line_starts, span.start);
        if self.broken_lines.contains(&line) {
            return;
        }
        self.add(&span, None, problem);
        self.broken_lines.push(line);
        // Below a broken header nothing is known about the section.
        let is_header = |line: &str| line.trim_start().starts_with('[');
        let mut below = self.text[self.line_starts[line - 1]..].lines();
        if error.message() != DUPLICATE && below.next().is_some_and(is_header) {
            let lines = below.take_while(|line| !is_header(line)).count();
            self.broken_lines.extend(line + 1..=line + lines);
        }
    }

    fn picture(&self, line: usize, column: usize, span: &Range<usize>) -> Option<Picture> {
        /// A longer line is none that a person wrote, and would flood the terminal.
        const LONGEST: usize = 200;
        let written = self.text[self.line_starts[line - 1]..]
            .lines()
            .next()
            .unwrap_or("");
        let length = written.chars().count();
        if length > LONGEST {
            return None;
        }
        let marked = self
            .text
            .get(span.clone())
            .unwrap_or("")
            .lines()
            .next()
            .unwrap_or("");
        let clean = |c: char| {
            if c.is_control() && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        };
        let before = column - 1;
        Some(Picture {
            line: written.chars().map(clean).collect(),
            before,
            width: marked
                .trim_end()
                .chars()
                .count()
                .min(length.saturating_sub(before))
                .max(1),
        })
    }
}

/// The parser's message for a key or section that is there already; what stands below it is still read.
const DUPLICATE: &str = "duplicate key";

/// Line and character of a byte, both from 1.
fn position(text: &str, line_starts: &[usize], at: usize) -> (usize, usize) {
    let at = at.min(text.len());
    let line = line_starts.partition_point(|start| *start <= at);
    let start = line_starts[line - 1];
    (
        line,
        text[start..]
            .char_indices()
            .take_while(|(offset, _)| start + offset < at)
            .count()
            + 1,
    )
}

/// The line and character of the byte `at` of a text that is not UTF-8 from there on, both from 1.
pub(super) fn position_in_bytes(bytes: &[u8], at: usize) -> (usize, usize) {
    let before = &bytes[..at.min(bytes.len())];
    let start = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |newline| newline + 1);
    let line = before[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
    (
        line,
        String::from_utf8_lossy(&before[start..]).chars().count() + 1,
    )
}
