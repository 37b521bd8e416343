//! Sizes in bytes: with K, M and G, and as a series from a smallest to a largest.

use crate::failure::Failure;

/// Reads a number of bytes, with K, M or G for 2^10, 2^20 and 2^30.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: usize = digits
        .parse()
        .map_err(|_| "give a number of bytes, such as 8, 64K or 16M".to_string())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "too many bytes".to_string())
}

/// The sizes from `begin`, each `factor` times the one before, up to `end`.
pub(super) fn series(begin: usize, end: usize, factor: usize) -> Result<Vec<usize>, Failure> {
    if begin == 0 || begin > end {
        return Err(Failure::usage(format!(
            "-b {begin} -e {end}: the smallest size is at least 1, and no larger than the largest"
        )));
    }
    Ok(std::iter::successors(Some(begin), |s| s.checked_mul(factor))
        .take_while(|&s| s <= end)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_series() {
        assert_eq!(bytes("8"), Ok(8));
        assert_eq!(bytes("64K"), Ok(65536));
        assert_eq!(bytes("16M"), Ok(16 << 20));
        assert!(bytes("4MB").is_err() && bytes("").is_err() && bytes("99999999999G").is_err());
        assert_eq!(series(8, 16 << 20, 4).unwrap().len(), 11);
        assert_eq!(series(5, 5, 2).unwrap(), [5]);
        assert!(series(16, 8, 2).is_err());
    }
}
