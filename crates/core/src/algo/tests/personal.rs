//! AllToAll and AllToAllV.

use super::world::{POISON, Random, SAME, Trial, Values, World, counts};
use crate::algo::{Blocks, Span, all_to_all};
use crate::schedule::InPlace;

/// What each rank sends to each: lengths, and where the blocks lie in the ranks' inputs and outputs.
struct Exchange {
    lengths: Vec<Vec<u64>>,
    gap: u64,
}

impl Exchange {
    fn sent(&self, from: usize, to: usize) -> Span {
        let before: u64 = self.lengths[from][..to].iter().map(|n| n + self.gap).sum();
        Span::new(before, self.lengths[from][to])
    }

    fn received(&self, from: usize, to: usize) -> Span {
        let before: u64 = self.lengths[..from].iter().map(|row| row[to] + self.gap).sum();
        Span::new(before, self.lengths[from][to])
    }

    fn input_bytes(&self, rank: usize) -> u64 {
        self.lengths[rank].iter().map(|n| n + self.gap).sum()
    }

    fn output_bytes(&self, rank: usize) -> u64 {
        self.lengths.iter().map(|row| row[rank] + self.gap).sum()
    }

    fn input(&self, rank: usize) -> Vec<u8> {
        let mut bytes = vec![POISON; self.input_bytes(rank) as usize];
        for to in 0..self.lengths.len() {
            let span = self.sent(rank, to);
            let range = span.offset as usize..(span.offset + span.bytes) as usize;
            bytes[range].copy_from_slice(&Values::BYTES.input(1000 * rank + to, span.bytes));
        }
        bytes
    }

    fn expected(&self, rank: usize) -> Vec<(u64, Vec<u8>)> {
        let from = |from: usize| {
            let span = self.received(from, rank);
            (span.offset, Values::BYTES.input(1000 * from + rank, span.bytes))
        };
        (0..self.lengths.len()).map(from).collect()
    }
}

fn check(world: &World, exchange: &Exchange, in_place: &dyn Fn(usize) -> bool, window: Option<usize>) {
    let shared = |rank: usize| -> Option<InPlace> { SAME.filter(|_| in_place(rank)) };
    Trial {
        input: &|rank| exchange.input(rank),
        output: &|rank| exchange.output_bytes(rank) as usize,
        in_place: &shared,
        build: &|b, group, tuning, buffers| {
            let me = group.ranks[group.me] as usize;
            let send = Blocks::placed(group.ranks, |rank| exchange.sent(me, rank as usize));
            let recv = Blocks::placed(group.ranks, |rank| exchange.received(rank as usize, me));
            match window {
                Some(window) => all_to_all::pairwise(b, group, tuning, buffers, &send, &recv, window),
                None => all_to_all::bruck(b, group, tuning, buffers, &recv),
            }
        },
        expected: &|rank| exchange.expected(rank),
        values: Values::BYTES,
    }
    .check(world, &|| format!("{:?} window {window:?}", exchange.lengths));
}

fn even(window: fn(usize) -> Option<usize>) {
    let mut random = Random(11);
    for p in 1..=17 {
        for count in counts(p, &mut random) {
            let bytes = count / p as u64 + count % 2;
            let exchange = Exchange {
                lengths: vec![vec![bytes; p]; p],
                gap: 0,
            };
            let world = World::sample(p, count, &mut random);
            // Some ranks work in place and others do not: that is their own affair.
            let mixed = random.next();
            for in_place in [0, u64::MAX, mixed] {
                check(&world, &exchange, &|rank| in_place >> rank & 1 == 1, window(p));
            }
        }
    }
}

#[test]
fn all_to_all_pairwise() {
    even(|_| Some(1));
    even(|p| Some(p / 3));
}

#[test]
fn all_to_all_linear() {
    even(|_| Some(usize::MAX));
}

#[test]
fn all_to_all_bruck() {
    even(|_| None);
}

#[test]
fn all_to_all_v() {
    let mut random = Random(5);
    for p in 1..=17 {
        for count in counts(p, &mut random) {
            let most = 2 * count / p as u64 + 2;
            let mut length = |_| {
                if random.below(3) == 0 {
                    0
                } else {
                    random.next() % most
                }
            };
            let lengths = (0..p).map(|_| (0..p).map(&mut length).collect()).collect();
            let exchange = Exchange {
                lengths,
                gap: random.next() % 3,
            };
            let world = World::sample(p, count, &mut random);
            let window = random.pick(&[1, 2, 5, usize::MAX]);
            check(&world, &exchange, &|_| false, Some(window));
        }
    }
}

#[test]
fn all_to_all_v_in_place_with_the_same_lengths_both_ways() {
    let mut random = Random(6);
    for p in 1..=9 {
        for count in [0, 1, 5, 300] {
            let seed = random.next();
            let length = |a: usize, b: usize| Random(seed ^ (a * b + a + b) as u64).next() % (count + 1);
            let lengths = (0..p).map(|a| (0..p).map(|b| length(a, b)).collect()).collect();
            let exchange = Exchange { lengths, gap: 1 };
            let world = World::sample(p, count, &mut random);
            check(&world, &exchange, &|_| true, Some(3));
        }
    }
}
