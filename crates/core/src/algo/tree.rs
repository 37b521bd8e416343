//! The binomial tree over members that are counted from the root.

/// The parent of `node`, which is not the root.
pub(super) fn parent(node: usize) -> usize {
    node & (node - 1)
}

/// How many nodes the subtree of `node` has; they are `node..node + size`.
pub(super) fn size(node: usize, members: usize) -> usize {
    if node == 0 {
        members
    } else {
        (node & node.wrapping_neg()).min(members - node)
    }
}

/// The children of `node`, that with the largest subtree first.
pub(super) fn children(node: usize, members: usize) -> impl DoubleEndedIterator<Item = usize> {
    let subtree = size(node, members);
    let levels = usize::BITS - (subtree - 1).leading_zeros();
    (0..levels).rev().map(move |level| node + (1 << level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_spans_all_members_once() {
        for members in 1..=70 {
            let mut seen = vec![0usize; members];
            for node in 0..members {
                let mut end = node + size(node, members);
                for child in children(node, members) {
                    seen[child] += 1;
                    assert_eq!(parent(child), node);
                    // subtrees lie one after the other, up to the end of the parent's
                    assert_eq!(child + size(child, members), end);
                    end = child;
                }
                assert_eq!(end, node + 1);
            }
            assert_eq!(seen[0], 0);
            assert!(seen[1..].iter().all(|n| *n == 1));
        }
    }
}
