//! Fits any number of ranks to algorithms that need a power of two.

/// The largest power of two of members; each of the others hands its input to a neighbour and gets the result.
///
/// The pairs are the first members (0, 1), (2, 3), …, so that the extra exchange stays between neighbours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fold {
    /// The power of two.
    pub(super) size: usize,
    extra: usize,
}

/// What a member does in a folded group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Takes part as `index`, on behalf of the member `extra` too.
    Kept { index: usize, extra: Option<usize> },
    /// Is represented by the member `by`.
    Folded { by: usize },
}

impl Fold {
    pub(super) fn of(members: usize) -> Self {
        let size = 1 << members.ilog2();
        Fold {
            size,
            extra: members - size,
        }
    }

    pub(super) fn role(&self, member: usize) -> Role {
        if member >= 2 * self.extra {
            Role::Kept {
                index: member - self.extra,
                extra: None,
            }
        } else if member.is_multiple_of(2) {
            Role::Kept {
                index: member / 2,
                extra: Some(member + 1),
            }
        } else {
            Role::Folded { by: member - 1 }
        }
    }

    /// The member that takes part as `index`.
    pub(super) fn member(&self, index: usize) -> usize {
        if index < self.extra {
            2 * index
        } else {
            index + self.extra
        }
    }

    /// Whether `index` takes part for two members.
    pub(super) fn stands_for_two(&self, index: usize) -> bool {
        index < self.extra
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_has_one_role() {
        for members in 1..=70 {
            let fold = Fold::of(members);
            assert!(fold.size.is_power_of_two() && fold.size <= members && 2 * fold.size > members);
            let mut kept = vec![];
            for member in 0..members {
                match fold.role(member) {
                    Role::Kept { index, extra } => {
                        kept.push(index);
                        assert_eq!(fold.member(index), member);
                        assert_eq!(extra.is_some(), fold.stands_for_two(index));
                        if let Some(extra) = extra {
                            assert_eq!(fold.role(extra), Role::Folded { by: member });
                        }
                    }
                    Role::Folded { by } => {
                        assert!(matches!(fold.role(by), Role::Kept { extra: Some(e), .. } if e == member));
                    }
                }
            }
            assert_eq!(kept, (0..fold.size).collect::<Vec<_>>());
        }
    }
}
