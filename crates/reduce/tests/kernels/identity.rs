//! Random bytes: the oracle's bytes, on every instruction set, in either order of two inputs.

use infiniccl_reduce::{DataType, Factors, ReduceOp};
use proptest::prelude::*;

use crate::arena::{Case, Placed};

#[derive(Debug, Clone)]
struct Drawn {
    dtype: DataType,
    op: ReduceOp,
    inputs: Vec<Vec<u8>>,
    pre: Vec<bool>,
    factors: Factors,
    offset: usize,
    in_place: Option<usize>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let shape = (1..=6usize, 0..=200usize, 0..DataType::ALL.len(), 0..4usize);
    shape.prop_flat_map(|(ranks, count, dtype, op)| {
        let (dtype, op) = (DataType::ALL[dtype], ReduceOp::ALL[op]);
        let input = proptest::collection::vec(any::<u8>(), count * dtype.size());
        let factors = prop_oneof![
            Just((1.0, 1.0)),
            (any::<f64>(), any::<f64>()),
            (-2.0..2.0, -2.0..2.0),
        ];
        let inputs = proptest::collection::vec(input, ranks);
        let pre = proptest::collection::vec(any::<bool>(), ranks);
        (inputs, pre, factors, 0..64usize, proptest::option::of(0..ranks)).prop_map(
            move |(inputs, pre, (before, after), offset, in_place)| {
                let factors = Factors {
                    pre: before,
                    post: after,
                };
                Drawn {
                    dtype,
                    op,
                    inputs,
                    pre,
                    factors,
                    offset,
                    in_place,
                }
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_give_the_oracles_bytes_on_every_instruction_set(drawn in drawn()) {
        let Drawn { dtype, op, mut inputs, mut pre, factors, offset, in_place } = drawn;
        let case = Case::scaled(dtype, op, inputs.clone(), pre.clone(), factors);
        let placed = Placed { count: case.count(), offset, stagger: 1, in_place };
        case.check(placed);
        if inputs.len() == 2 {
            inputs.reverse();
            pre.reverse();
            let swapped = Case::scaled(dtype, op, inputs, pre, factors);
            prop_assert_eq!(swapped.expected(), case.expected());
            swapped.check(placed);
        }
    }
}
