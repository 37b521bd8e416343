//! Every type, operator, tail length, alignment, number of inputs and place of the destination.

use infiniccl_reduce::{DataType, Factors, Input, ReduceOp, avg_factors, reduce};

use crate::arena::{Case, Placed};
use crate::{on_each_isa, values};

fn inputs(dtype: DataType, ranks: usize, count: usize) -> Vec<Vec<u8>> {
    (0..ranks)
        .map(|rank| values::elements(dtype, rank, count))
        .collect()
}

/// A case for every type and operator.
fn cases(ranks: usize, count: usize) -> impl Iterator<Item = (DataType, Case)> {
    let folds = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min];
    DataType::ALL
        .iter()
        .flat_map(move |&dtype| folds.map(|op| (dtype, Case::new(dtype, op, inputs(dtype, ranks, count)))))
}

#[test]
fn every_type_and_operator_is_exact_for_every_tail_and_alignment() {
    for ranks in [1, 2, 3, 5, 8, 16] {
        for (dtype, case) in cases(ranks, 70) {
            for count in 0..=case.count() {
                for align in if ranks <= 3 { 0..8 } else { 0..3 } {
                    let (offset, stagger) = (align * dtype.size(), (count % 3) * dtype.size());
                    case.check(Placed {
                        count,
                        offset,
                        stagger,
                        in_place: None,
                    });
                    case.check(Placed {
                        count,
                        offset,
                        stagger,
                        in_place: Some((count + align) % ranks),
                    });
                }
            }
        }
    }
}

#[test]
fn every_input_can_be_the_destination() {
    for ranks in [1, 2, 3, 4, 7, 16] {
        for (_, case) in cases(ranks, 67) {
            for in_place in (0..ranks).map(Some) {
                for count in [1, 5, 16, 67] {
                    case.check(Placed {
                        count,
                        in_place,
                        ..Placed::default()
                    });
                }
            }
        }
    }
}

#[test]
fn long_buffers_cross_blocks_of_accumulators() {
    for ranks in [2, 3, 4, 9] {
        for (dtype, case) in cases(ranks, 4096 + 77) {
            let placed = Placed {
                count: case.count(),
                offset: dtype.size(),
                stagger: 24,
                in_place: None,
            };
            case.check(placed);
            case.check(Placed {
                in_place: Some(ranks - 1),
                ..placed
            });
        }
    }
}

#[test]
fn buffers_need_no_alignment_at_all() {
    for (_, case) in cases(3, 70) {
        for offset in 1..16 {
            case.check(Placed {
                count: 70,
                offset,
                stagger: 3,
                in_place: None,
            });
        }
    }
}

#[test]
fn factors_scale_chosen_inputs_and_the_sum_of_floats() {
    let chosen: [fn(usize) -> bool; 3] = [|_| true, |rank| rank > 0, |rank| rank % 2 == 0];
    let factors = [avg_factors(3), avg_factors(7), Factors { pre: 3.7, post: 1.0 }];
    for &dtype in DataType::ALL {
        for ranks in [1, 2, 3, 5, 8] {
            for (op, choose) in chosen
                .map(|choose| (ReduceOp::Sum, choose))
                .into_iter()
                .chain([(ReduceOp::Max, chosen[0])])
            {
                for factors in factors {
                    let pre = (0..ranks).map(choose).collect();
                    let case = Case::scaled(dtype, op, inputs(dtype, ranks, 70), pre, factors);
                    for count in [1, 3, 8, 70] {
                        for in_place in [None, Some(0), Some(ranks - 1)] {
                            case.check(Placed {
                                count,
                                offset: 0,
                                stagger: 8,
                                in_place,
                            });
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn one_buffer_may_be_every_input_and_the_destination() {
    on_each_isa(|isa| {
        for ranks in [2, 3, 6] {
            let mut buffer: Vec<u32> = (0..1000).map(|index| index * 4_000_001).collect();
            let wanted: Vec<u32> = buffer
                .iter()
                .map(|value| value.wrapping_mul(ranks as u32))
                .collect();
            let dst = buffer.as_mut_ptr().cast::<u8>();
            let inputs = vec![Input { ptr: dst, pre: false }; ranks];
            // SAFETY: the buffer holds 1000 elements.
            unsafe { reduce(DataType::Uint32, ReduceOp::Sum, dst, &inputs, 1000, Factors::NONE) }
                .expect("a sum");
            assert_eq!(buffer, wanted, "{ranks} inputs on {isa}");
        }
    });
}
