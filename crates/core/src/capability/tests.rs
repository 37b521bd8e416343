//! Rows, overrides, disproofs and demands.

use super::*;
use infiniccl_plugin_api::Scope;

const ALL_FLAGS: u64 =
    cap_flags::EXACT_AVG | cap_flags::NAN_KEPT | cap_flags::FP8_SATURATES | cap_flags::SAME_BYTES;

fn row(flags: u64, ops: &[ReduceOp]) -> CapRow {
    CapRow {
        collective: Collective::AllReduce.abi(),
        scope: Scope::NODE,
        dtype_mask: (1 << 15) - 1,
        op_mask: ops.iter().fold(0, |m, op| m | 1 << op.code()),
        mem_mask: 1,
        min_ranks: 2,
        max_ranks: 8,
        min_bytes: 0,
        max_bytes: 1 << 20,
        flags,
        alpha_ns: 0,
        beta_ps_per_byte: 0,
        reserved: [0; 2],
    }
}

fn caps(rows: Vec<CapRow>) -> Capabilities {
    Capabilities {
        plugin: "test".into(),
        rows,
        disproved: Vec::new(),
        overrides: Vec::new(),
        demands: Demands::default(),
    }
}

fn case(dtype: DataType, op: ReduceOp) -> Case {
    Case {
        collective: Collective::AllReduce,
        dtype,
        op: Some(op.into()),
        bytes: 1024,
        ranks: 4,
    }
}

#[test]
fn a_sum_is_never_taken_for_an_average() {
    let c = caps(vec![row(ALL_FLAGS, &[ReduceOp::Sum])]);
    assert!(c.is_native(&case(DataType::Float32, ReduceOp::Sum)));
    for dtype in DataType::ALL {
        assert!(!c.is_native(&case(*dtype, ReduceOp::Avg)), "{dtype}");
    }
}

#[test]
fn rows_hold_for_their_ranks_and_sizes_only() {
    let c = caps(vec![row(ALL_FLAGS, &[ReduceOp::Sum])]);
    let good = case(DataType::Int32, ReduceOp::Sum);
    assert!(c.is_native(&good));
    assert!(!c.is_native(&Case { ranks: 1, ..good }));
    assert!(!c.is_native(&Case { ranks: 9, ..good }));
    assert!(!c.is_native(&Case {
        bytes: (1 << 20) + 1,
        ..good
    }));
    assert!(!c.is_native(&Case {
        collective: Collective::Reduce,
        ..good
    }));
}

#[test]
fn demands_name_what_is_missing_and_vendor_numerics_lift_them() {
    let mut c = caps(vec![row(cap_flags::SAME_BYTES, ReduceOp::ALL)]);
    let asked = case(DataType::Float32, ReduceOp::Max);
    assert_eq!(
        c.verdict(&asked),
        Verdict::Emulated("test does not promise NaN through MIN and MAX".into())
    );
    assert!(c.is_native(&case(DataType::Int32, ReduceOp::Max)));
    assert!(matches!(
        c.verdict(&case(DataType::Int8, ReduceOp::Avg)),
        Verdict::Emulated(_)
    ));
    assert!(matches!(
        c.verdict(&case(DataType::Float8E4M3, ReduceOp::Sum)),
        Verdict::Emulated(_)
    ));
    c.demands.vendor_numerics = true;
    assert!(c.is_native(&asked));
    c.demands.deterministic = true;
    assert!(!c.is_native(&asked));
}

#[test]
fn overrides_and_disproofs_win_in_order() {
    let mut c = caps(vec![row(ALL_FLAGS, ReduceOp::ALL)]);
    let asked = case(DataType::Float16, ReduceOp::Avg);
    c.disproved.push(Disproof {
        collective: Collective::AllReduce,
        dtype: DataType::Float16,
        op: Some(ReduceOp::Avg),
        what: "12 instead of 4".into(),
    });
    assert_eq!(
        c.verdict(&asked),
        Verdict::Emulated("test answered wrongly: 12 instead of 4".into())
    );
    let wish = |wish| Override {
        plugin: Some("test".into()),
        collective: None,
        dtype: Some("float16".into()),
        op: Some("avg".into()),
        wish,
    };
    c.overrides = vec![wish(Wish::Native)];
    assert!(!c.is_native(&asked), "no override makes a wrong answer right");
    c.overrides = vec![wish(Wish::Refuse)];
    assert!(matches!(c.verdict(&asked), Verdict::Refused(_)));
    assert!(c.is_native(&case(DataType::Float32, ReduceOp::Avg)));
}

#[test]
fn the_mean_of_bool_is_refused() {
    let c = caps(vec![row(ALL_FLAGS, ReduceOp::ALL)]);
    assert!(matches!(
        c.verdict(&case(DataType::Bool, ReduceOp::Avg)),
        Verdict::Refused(_)
    ));
}
