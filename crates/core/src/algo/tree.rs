//! The binomial tree over members that are counted from the root, and the pair of binary trees.

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

/// One of the two binary trees over the same members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// A member's place in a binary tree whose inner nodes are leaves of the other tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) parent: Option<usize>,
    pub(super) children: [Option<Child>; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) member: usize,
    pub(super) is_leaf: bool,
}

impl Node {
    /// The node of member `me` of `members`.
    ///
    /// A range of places starts at an even one. Its root is the odd place in the middle, and the ranges on both
    /// sides are its subtrees; a single place is a leaf. So inner nodes are at odd places and leaves at even ones.
    /// The left tree has members at their own places; the right one has them mirrored if their number is even and
    /// moved by one place if not, which exchanges even and odd.
    pub(super) fn find(me: usize, members: usize, side: Side) -> Self {
        let swap = |place: usize, back: bool| match side {
            Side::Left => place,
            Side::Right if members.is_multiple_of(2) => members - 1 - place,
            Side::Right if back => (place + members - 1) % members,
            Side::Right => (place + 1) % members,
        };
        let place = swap(me, false);
        let child = |first: usize, last: usize| {
            (first < last).then(|| Child {
                member: swap(middle(first, last), true),
                is_leaf: last - first == 1,
            })
        };
        let (mut first, mut last, mut parent) = (0, members, None);
        loop {
            let root = middle(first, last);
            if place == root {
                let children = if last - first == 1 {
                    [None, None]
                } else {
                    [child(first, root), child(root + 1, last)]
                };
                return Node { parent, children };
            }
            parent = Some(swap(root, true));
            (first, last) = if place < root {
                (first, root)
            } else {
                (root + 1, last)
            };
        }
    }
}

/// The root of the places `first..last`: the odd one in the middle, or the only one.
fn middle(first: usize, last: usize) -> usize {
    if last - first == 1 {
        return first;
    }
    let middle = first.midpoint(last) | 1;
    if middle < last { middle } else { middle - 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_trees_span_all_members_and_share_the_work() {
        for members in 1..=130usize {
            let mut inner = vec![0; members];
            for side in [Side::Left, Side::Right] {
                let nodes: Vec<Node> = (0..members).map(|m| Node::find(m, members, side)).collect();
                let mut found = 0;
                for (member, node) in nodes.iter().enumerate() {
                    found += usize::from(node.parent.is_none());
                    inner[member] += usize::from(node.children != [None, None]);
                    for child in node.children.iter().flatten() {
                        found += 1;
                        assert_eq!(nodes[child.member].parent, Some(member));
                        assert_eq!(nodes[child.member].children == [None, None], child.is_leaf);
                    }
                    // Up to the root in no more steps than the tree may be high.
                    let (mut at, mut height) = (member, 0);
                    while let Some(parent) = nodes[at].parent {
                        (at, height) = (parent, height + 1);
                    }
                    assert!(height <= members.next_power_of_two().ilog2());
                }
                assert_eq!(found, members);
            }
            assert!(inner.iter().all(|times| *times <= 1), "{members}: {inner:?}");
        }
    }

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
