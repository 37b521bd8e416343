//! What the demo tries: a line of cases for every collective, type and operator.

use infiniccl_testkit::oracle::{Case, Collective, Dtype, Op, Values};

use infiniccl_testkit::call::Placement;

/// One thing that passes or fails as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    /// The collective; `None` for the barrier.
    pub(super) collective: Option<Collective>,
    pub(super) dtype: Dtype,
    /// The operator, where elements are combined.
    pub(super) op: Option<Op>,
}

impl Unit {
    /// The collective's name.
    pub(super) fn collective_name(&self) -> &'static str {
        self.collective.map_or("barrier", Collective::name)
    }
}

/// Everything, in the order of the table; the same on all ranks.
pub(super) fn units() -> Vec<Unit> {
    let mut units = Vec::new();
    for &collective in Collective::ALL {
        for &dtype in Dtype::ALL {
            if collective.reduces() {
                let ops = Op::ALL.iter().filter(|&&op| dtype.supports(op));
                units.extend(ops.map(|&op| Unit {
                    collective: Some(collective),
                    dtype,
                    op: Some(op),
                }));
            } else {
                units.push(Unit {
                    collective: Some(collective),
                    dtype,
                    op: None,
                });
            }
        }
    }
    units.push(Unit {
        collective: None,
        dtype: Dtype::Uint8,
        op: None,
    });
    units
}

/// The calls of one unit: counts that no vector width divides, with exact, rounding and special elements, in place
/// and out of place; the root moves from unit to unit.
pub(super) fn calls(number: usize, unit: Unit, ranks: usize) -> Vec<(Case, Placement)> {
    let Some(collective) = unit.collective else {
        return Vec::new();
    };
    let op = unit.op.unwrap_or(Op::Sum);
    let case = |count, values, salt| Case {
        collective,
        dtype: unit.dtype,
        op,
        count,
        root: (number + salt) % ranks,
        ranks,
        values,
        salt: (number * 8 + salt) as u64,
    };
    let calls = [
        (case(1, Values::Exact, 0), Placement::OutOfPlace),
        (case(0, Values::Exact, 1), Placement::OutOfPlace),
        (case(1025, Values::Special, 2), Placement::OutOfPlace),
        (case(333, Values::Exact, 3), Placement::InPlace),
        (case(20011, Values::Rounding, 4), Placement::OutOfPlace),
    ];
    let possible = |(case, placement): &(Case, Placement)| {
        *placement == Placement::OutOfPlace || case.in_place(0).is_some()
    };
    calls.into_iter().filter(possible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_types_and_operators_are_there() {
        let units = units();
        // Four collectives combine: 15 types by 5 operators without the mean of bool. Eight only move.
        assert_eq!(units.len(), 4 * (15 * 5 - 1) + 8 * 15 + 1);
        assert!(units.iter().enumerate().all(|(i, u)| !units[..i].contains(u)));
    }
}
