//! Patterns with `*`, `?` and `[…]`, for names of hosts and interfaces.

/// One pattern, matched against a whole name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Char(char),
    AnyChar,
    AnyText,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Glob {
    /// Reads a pattern; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Vec::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            tokens.push(match c {
                '*' => Token::AnyText,
                '?' => Token::AnyChar,
                '[' => {
                    let Some((inside, after)) = rest.as_str().split_once(']') else {
                        return Err(format!("the `[` in `{text}` is never closed"));
                    };
                    rest = after.chars();
                    class(text, inside)?
                }
                c => Token::Char(c),
            });
        }
        Ok(Glob { tokens })
    }

    /// The pattern `*`.
    pub(crate) fn everything() -> Self {
        Glob {
            tokens: vec![Token::AnyText],
        }
    }

    /// Whether the pattern fits the whole of `name`.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        // Where the last `*` stood, and how much of the name it has taken so far.
        let (mut t, mut n, mut star) = (0, 0, None);
        while n < name.len() {
            match self.tokens.get(t) {
                Some(Token::AnyText) => {
                    star = Some((t + 1, n));
                    t += 1;
                }
                Some(token) if token.fits(name[n]) => {
                    t += 1;
                    n += 1;
                }
                _ => {
                    let Some((after, taken)) = star else { return false };
                    star = Some((after, taken + 1));
                    t = after;
                    n = taken + 1;
                }
            }
        }
        self.tokens[t..].iter().all(|token| *token == Token::AnyText)
    }

    /// The characters before the first wildcard.
    pub(crate) fn literal_prefix(&self) -> String {
        self.tokens
            .iter()
            .map_while(|t| if let Token::Char(c) = t { Some(*c) } else { None })
            .collect()
    }

    /// Whether the pattern has no wildcard and so names exactly one thing.
    pub(crate) fn is_exact(&self) -> bool {
        self.tokens.iter().all(|token| matches!(token, Token::Char(_)))
    }
}

impl Token {
    fn fits(&self, c: char) -> bool {
        match self {
            Token::Char(own) => *own == c,
            Token::AnyChar => true,
            Token::AnyText => false,
            Token::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

fn class(pattern: &str, inside: &str) -> Result<Token, String> {
    let (negated, body) = match inside.strip_prefix(['!', '^']) {
        Some(body) => (true, body),
        None => (false, inside),
    };
    let chars: Vec<char> = body.chars().collect();
    if chars.is_empty() {
        return Err(format!("`[{inside}]` in `{pattern}` has no characters"));
    }
    let mut ranges = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        let low = chars[i];
        if i + 2 < chars.len() && chars[i + 1] == '-' {
            let high = chars[i + 2];
            let digit_at = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
            // Host lists of batch systems write node[01-16]; read as characters that would be 0, 1 and 6.
            if low.is_ascii_digit() && high.is_ascii_digit() && (digit_at(i + 3) || i > 0 && digit_at(i - 1))
            {
                return Err(format!(
                    "`[{inside}]` in `{pattern}` looks like a range of numbers, but stands for one character: \
                     write one pattern for each number of digits, such as `n0[1-9]` and `n1[0-6]`"
                ));
            }
            if low > high {
                return Err(format!("the range `{low}-{high}` in `{pattern}` is empty"));
            }
            ranges.push((low, high));
            i += 3;
        } else {
            ranges.push((low, low));
            i += 1;
        }
    }
    Ok(Token::Class { negated, ranges })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, yes, no) in [
            ("eth0", &["eth0"][..], &["eth01", "xeth0", "ETH0", ""][..]),
            ("eth*", &["eth", "eth0", "eth10.5"], &["et", "veth0"]),
            ("*", &["", "anything"], &[]),
            ("n?de", &["node", "nide"], &["nde", "noode"]),
            (
                "*-gpu-*",
                &["a-gpu-b", "-gpu-", "x-gpu-gpu-y"],
                &["a-gpu", "gpu-b"],
            ),
            (
                "a*b*c",
                &["abc", "aXbYc", "abbcc", "abcbc"],
                &["ab", "acb", "abcd"],
            ),
            ("n[0-9][!a-f]", &["n0g", "n99"], &["n0a", "nag", "n0"]),
            ("[ab-]x", &["ax", "-x"], &["cx"]),
            ("größe*", &["größe1"], &["grosse"]),
        ] {
            let glob = Glob::parse(pattern).expect(pattern);
            for name in yes {
                assert!(glob.matches(name), "{pattern} must fit {name}");
            }
            for name in no {
                assert!(!glob.matches(name), "{pattern} must not fit {name}");
            }
        }
        assert_eq!(Glob::parse("veth*").expect("valid").literal_prefix(), "veth");
        assert!(
            Glob::parse("lo").expect("valid").is_exact() && !Glob::parse("l?").expect("valid").is_exact()
        );
    }

    #[test]
    fn patterns_that_cannot_be_meant_are_refused() {
        for (pattern, needle) in [
            ("n[1", "never closed"),
            ("n[]", "no characters"),
            ("n[9-1]", "empty"),
            ("n[01-16]", "range of numbers"),
        ] {
            let message = Glob::parse(pattern).expect_err(pattern);
            assert!(message.contains(needle), "{pattern}: {message}");
        }
    }
}
