//! Aligned columns.

/// How a column is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// To the left, for words.
    Left,
    /// To the right, for numbers.
    Right,
}

/// The rows as lines, each column as wide as its widest cell, with two blanks between columns.
pub(crate) fn lines(columns: &[Align], rows: &[Vec<String>]) -> Vec<String> {
    let width = |c: usize| {
        rows.iter()
            .filter_map(|r| r.get(c))
            .map(|s| s.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    rows.iter()
        .map(|row| {
            let cells = row
                .iter()
                .zip(columns)
                .zip(&widths)
                .map(|((cell, align), &width)| match align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".to_string(), "1".into()],
            vec!["bbb".into(), "100".into()],
        ];
        assert_eq!(
            lines(&[Align::Left, Align::Right], &rows),
            ["a      1", "bbb  100"]
        );
    }
}
