//! Compares an output with the right one, element by element.

use super::formats::format_of;
use super::reduction::integer;
use super::values::any_bits;
use super::{Case, Dtype, PERIOD, Want};

/// What a comparison found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mismatches {
    /// Elements that are not right; a buffer of the wrong length counts as one.
    pub wrong: u64,
    /// The first of them, in words.
    pub first: Option<String>,
}

impl Mismatches {
    /// Whether everything was right.
    pub fn is_ok(&self) -> bool {
        self.wrong == 0
    }
}

impl Case {
    /// Compares what `rank` received.
    pub fn check(&self, rank: usize, got: &[u8]) -> Mismatches {
        let size = self.dtype.size();
        let elements = self.recv_elements(rank);
        let mut found = Mismatches::default();
        if got.len() != elements * size {
            found.wrong = 1;
            found.first = Some(format!("{} bytes instead of {}", got.len(), elements * size));
            return found;
        }
        // What the ranks hold repeats after a period, and so does every combination of it.
        let mut combined: Vec<Option<Want>> = vec![None; if self.collective.reduces() { PERIOD } else { 0 }];
        let segments = self.segments(rank);
        assert_eq!(
            segments.iter().map(|s| s.len).sum::<usize>(),
            elements,
            "the pieces make up the output"
        );
        let sources = segments
            .into_iter()
            .flat_map(|s| (s.at..s.at + s.len).map(move |at| (s.from, at)));
        for (index, (bytes, (from, at))) in got.chunks_exact(size).zip(sources).enumerate() {
            let mut word = [0; 8];
            word[..size].copy_from_slice(bytes);
            let bits = u64::from_le_bytes(word);
            let want = match from {
                Some(from) => Want::Bits(any_bits(self.dtype, self.salt, from, at)),
                None => *combined[at % PERIOD].get_or_insert_with(|| self.want_combined(at)),
            };
            if !want.accepts(self.dtype, bits) {
                found.wrong += 1;
                found.first.get_or_insert_with(|| {
                    format!(
                        "element {index} of {elements}: got {}, want {}",
                        show(self.dtype, bits),
                        show_want(self.dtype, want)
                    )
                });
            }
        }
        found
    }
}

fn show(dtype: Dtype, bits: u64) -> String {
    match format_of(dtype) {
        Some(format) => format!("{:?} ({bits:#x})", format.decode(bits)),
        None => integer(dtype, bits).to_string(),
    }
}

fn show_want(dtype: Dtype, want: Want) -> String {
    match want {
        Want::Bits(bits) => show(dtype, bits),
        Want::Near {
            value,
            tolerance: 0.0,
        } => value.to_string(),
        Want::Near { value, tolerance } => format!("{value:?} ± {tolerance:.3e}"),
        Want::Nan => "NaN".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Collective, Op, Values};
    use super::*;

    fn case(collective: Collective, count: usize, ranks: usize) -> Case {
        Case {
            collective,
            dtype: Dtype::Int32,
            op: Op::Sum,
            count,
            root: ranks - 1,
            ranks,
            values: Values::Exact,
            salt: 3,
        }
    }

    /// A plain, slow collective on the inputs of all ranks.
    fn naive(case: &Case, rank: usize) -> Vec<i32> {
        let inputs: Vec<Vec<i32>> = (0..case.ranks)
            .map(|r| {
                case.send(r)
                    .chunks_exact(4)
                    .map(|b| i32::from_le_bytes(b.try_into().unwrap()))
                    .collect()
            })
            .collect();
        let n = case.count;
        let sum = |range: std::ops::Range<usize>| -> Vec<i32> {
            range
                .map(|i| inputs.iter().fold(0i32, |a, v| a.wrapping_add(v[i])))
                .collect()
        };
        let cut = |v: &[i32], counts: &[usize], at: usize| {
            let start: usize = counts[..at].iter().sum();
            v[start..start + counts[at]].to_vec()
        };
        match case.collective {
            Collective::AllReduce => sum(0..n),
            Collective::Reduce if rank == case.root => sum(0..n),
            Collective::Broadcast => inputs[case.root].clone(),
            Collective::AllGather | Collective::AllGatherV => inputs.concat(),
            Collective::Gather if rank == case.root => inputs.concat(),
            Collective::Reduce | Collective::Gather => Vec::new(),
            Collective::ReduceScatter => sum(rank * n..(rank + 1) * n),
            Collective::Scatter => inputs[case.root][rank * n..(rank + 1) * n].to_vec(),
            Collective::AllToAll => inputs
                .iter()
                .flat_map(|v| v[rank * n..(rank + 1) * n].to_vec())
                .collect(),
            Collective::AllToAllV => {
                let block = |from: usize| cut(&inputs[from], &case.pair_counts_sent(from), rank);
                (0..case.ranks).flat_map(block).collect()
            }
            Collective::ReduceScatterV => {
                let total = case.block_counts().iter().sum();
                cut(&sum(0..total), &case.block_counts(), rank)
            }
            Collective::SendRecv => inputs[(rank + case.ranks - 1) % case.ranks].clone(),
        }
    }

    fn bytes(values: &[i32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn agrees_with_a_plain_implementation_of_every_collective() {
        for &collective in Collective::ALL {
            for ranks in [1, 2, 3, 5] {
                for count in [0, 1, 7, if ranks == 3 { PERIOD + 5 } else { 64 }] {
                    let case = case(collective, count, ranks);
                    for rank in 0..ranks {
                        let got = bytes(&naive(&case, rank));
                        let found = case.check(rank, &got);
                        assert!(found.is_ok(), "{case:?} rank {rank}: {found:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn one_wrong_element_is_found_counted_and_named() {
        for &collective in Collective::ALL {
            let case = case(collective, 1000, 3);
            let rank = 2;
            let mut values = naive(&case, rank);
            values[700] ^= 1;
            let found = case.check(rank, &bytes(&values));
            assert_eq!(found.wrong, 1, "{collective}");
            assert!(
                found.first.unwrap().starts_with("element 700 of "),
                "{collective}"
            );
        }
    }

    #[test]
    fn swapped_blocks_and_short_buffers_are_found() {
        let case = case(Collective::AllGather, 4096, 2);
        let mut values = naive(&case, 0);
        values.rotate_left(4096);
        assert!(case.check(0, &bytes(&values)).wrong > 8000);
        assert_eq!(case.check(0, &bytes(&values[1..])).wrong, 1);
    }

    #[test]
    fn in_place_regions_lie_within_the_buffer() {
        for &collective in Collective::ALL {
            for rank in 0..3 {
                let case = case(collective, 10, 3);
                let Some(place) = case.in_place(rank) else {
                    continue;
                };
                assert!(
                    place.send_at + case.send_elements(rank) <= place.elements,
                    "{collective}"
                );
                assert!(
                    place.recv_at + case.recv_elements(rank) <= place.elements,
                    "{collective}"
                );
            }
        }
        assert_eq!(
            case(Collective::AllGather, 10, 3).in_place(1),
            Some(super::super::InPlace {
                elements: 30,
                send_at: 10,
                recv_at: 0
            })
        );
    }
}
