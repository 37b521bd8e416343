//! Broadcast as a scatter down a binomial tree and an allgather around a ring: for messages of middle length.

use crate::algo::staging::{copy_chunks, recv_chunks};
use crate::algo::{Blocks, Buffers, Group, Tuning, tree};
use crate::schedule::Builder;

/// (⌈log2 p⌉ + p − 1)α + 2(p−1)/p·nβ (`cost::broadcast_scatter_allgather`; van de Geijn). No scratch.
///
/// Members are counted from the root. Those inside the tree got blocks of their subtree too, and the ring does not
/// bring these again.
pub(crate) fn scatter_allgather(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    bytes: u64,
    root: usize,
) {
    let Buffers { src, dst } = buffers;
    let p = group.len();
    let (member, node) = group.from(root);
    let chunk = tuning.chunk_for(bytes);
    let blocks = Blocks::even(1, bytes, p);
    let pieces = blocks.rounds(chunk);
    let from = if node == 0 { src } else { dst };
    let subtree = |node: usize| blocks.range(node, node + tree::size(node, p));
    if node != 0 {
        let (parent, mine) = (group.ranks[member(tree::parent(node))], subtree(node));
        recv_chunks(b, parent, dst.plus(mine.offset), mine.bytes, chunk);
    }
    // All of a member's sends could start at once; the ring waits, or the scatter would share the link with it.
    let scatter_is_out = b.alloc(1);
    for child in tree::children(node, p) {
        let (peer, part) = (group.ranks[member(child)], subtree(child));
        for piece in part.pieces(chunk) {
            let last = piece.offset + piece.bytes == part.offset + part.bytes;
            if last {
                b.send_in_turn(peer, from.plus(piece.offset), piece.bytes, scatter_is_out);
            } else {
                b.send(peer, from.plus(piece.offset), piece.bytes);
            }
        }
    }
    let scattered = |node: usize, block: usize| (node..node + tree::size(node, p)).contains(&block);
    for step in 0..p - 1 {
        let (given, taken) = ((node + p - step) % p, (node + 2 * p - step - 1) % p);
        let next_has_it = scattered((node + 1) % p, given);
        let have_it = scattered(node, taken);
        for i in 0..pieces {
            if !next_has_it {
                let out = blocks[given].piece(i, chunk);
                if step == 0 && i == 0 {
                    b.send_in_turn(group.next(), from.plus(out.offset), out.bytes, scatter_is_out);
                } else {
                    b.send(group.next(), from.plus(out.offset), out.bytes);
                }
            }
            if !have_it {
                let piece = blocks[taken].piece(i, chunk);
                b.recv(group.prev(), dst.plus(piece.offset), piece.bytes);
            }
        }
    }
    if node == 0 {
        copy_chunks(b, dst, src, bytes, chunk);
    }
}
