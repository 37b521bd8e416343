//! Finding the word that was meant.

/// The smallest number of letters to insert, drop, change or swap with their neighbour.
///
/// Swaps of neighbours count as one (optimal string alignment), since they are what hands get wrong.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// The candidates nearest to `word`, if they are near enough to be meant; several when they are equally near.
///
/// Letter case and `-` for `_` do not count as mistakes.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    // Longer words may differ in more letters: 1 of 4, 2 of 6, 3 of 9.
    let allowed = (word.chars().count() / 3).max(1);
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let folded = plain(word);
    let mut best = allowed;
    let mut found: Vec<&str> = Vec::new();
    for candidate in candidates {
        let d = distance(&folded, &plain(candidate));
        if d > best || (d == best && found.contains(&candidate)) {
            continue;
        }
        // A candidate that shares no letter is no suggestion, however short both are.
        if d >= candidate.chars().count().max(word.chars().count()) {
            continue;
        }
        if d < best {
            found.clear();
            best = d;
        }
        found.push(candidate);
    }
    found
}

/// `did you mean a or b?`, with each candidate put through `dress`.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    dress: impl Fn(&str) -> String,
) -> Option<String> {
    let found: Vec<String> = nearest(word, candidates).into_iter().take(3).map(dress).collect();
    (!found.is_empty()).then(|| format!("did you mean {}?", found.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_swaps_as_one() {
        for (a, b, want) in [
            ("", "", 0),
            ("abc", "", 3),
            ("connect", "conect", 1),
            ("connect", "cnonect", 1),
            ("connect", "konnect", 1),
            ("collective", "colective", 1),
            ("kitten", "sitting", 3),
            ("ca", "abc", 3),
            ("größe", "grösse", 2),
        ] {
            assert_eq!(distance(a, b), want, "{a} {b}");
            assert_eq!(distance(b, a), want, "{b} {a}");
        }
    }

    #[test]
    fn the_nearest_word_is_found_and_ties_are_all_named() {
        let words = ["min_bytes", "max_bytes", "op", "kind"];
        assert_eq!(nearest("mni_bytes", words), ["min_bytes"]);
        assert_eq!(nearest("man_bytes", words), ["min_bytes", "max_bytes"]);
        assert_eq!(nearest("oq", words), ["op"]);
        assert_eq!(nearest("Min-Bytes", words), ["min_bytes"]);
        assert!(nearest("xy", words).is_empty());
        assert!(nearest("completely_else", words).is_empty());
        assert_eq!(
            did_you_mean("man_bytes", words, |w| format!("`{w}`")).as_deref(),
            Some("did you mean `min_bytes` or `max_bytes`?")
        );
    }
}
