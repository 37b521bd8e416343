//! Rows, overrides, disproofs and demands.

use super::*;
use infiniccl_plugin_api::Scope;

const PLACES: u64 = cap_flags::IN_PLACE | cap_flags::OUT_OF_PLACE;
const ALL_FLAGS: u64 =
    PLACES | cap_flags::EXACT_AVG | cap_flags::NAN_KEPT | cap_flags::FP8_SATURATES | cap_flags::SAME_BYTES;

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

fn is_native(c: &Capabilities, case: &Case) -> bool {
    c.verdict(case) == Verdict::Native
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
    assert!(is_native(&c, &case(DataType::Float32, ReduceOp::Sum)));
    for dtype in DataType::ALL {
        assert!(!is_native(&c, &case(*dtype, ReduceOp::Avg)), "{dtype}");
    }
}

#[test]
fn rows_hold_for_their_ranks_and_sizes_only() {
    let c = caps(vec![row(ALL_FLAGS, &[ReduceOp::Sum])]);
    let good = case(DataType::Int32, ReduceOp::Sum);
    assert!(is_native(&c, &good));
    assert!(!is_native(&c, &Case { ranks: 1, ..good }));
    assert!(!is_native(&c, &Case { ranks: 9, ..good }));
    assert!(!is_native(
        &c,
        &Case {
            bytes: (1 << 20) + 1,
            ..good
        }
    ));
    assert!(!is_native(
        &c,
        &Case {
            collective: Collective::Reduce,
            ..good
        }
    ));
}

#[test]
fn demands_name_what_is_missing_and_vendor_numerics_lift_them() {
    let mut c = caps(vec![row(PLACES | cap_flags::SAME_BYTES, ReduceOp::ALL)]);
    let asked = case(DataType::Float32, ReduceOp::Max);
    assert_eq!(
        c.verdict(&asked),
        Verdict::Emulated("test does not promise NaN through MIN and MAX".into())
    );
    assert!(is_native(&c, &case(DataType::Int32, ReduceOp::Max)));
    assert!(matches!(
        c.verdict(&case(DataType::Int8, ReduceOp::Avg)),
        Verdict::Emulated(_)
    ));
    assert!(matches!(
        c.verdict(&case(DataType::Float8E4M3, ReduceOp::Sum)),
        Verdict::Emulated(_)
    ));
    c.demands.vendor_numerics = true;
    assert!(is_native(&c, &asked));
    c.demands.deterministic = true;
    assert!(!is_native(&c, &asked));
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
    assert!(!is_native(&c, &asked), "no override makes a wrong answer right");
    c.overrides = vec![wish(Wish::Refuse)];
    assert!(matches!(c.verdict(&asked), Verdict::Refused(_)));
    assert!(is_native(&c, &case(DataType::Float32, ReduceOp::Avg)));
}

#[test]
fn the_mean_of_bool_is_refused() {
    let c = caps(vec![row(ALL_FLAGS, ReduceOp::ALL)]);
    assert!(matches!(
        c.verdict(&case(DataType::Bool, ReduceOp::Avg)),
        Verdict::Refused(_)
    ));
}

#[test]
fn what_cannot_be_used_in_both_places_is_not_native() {
    let asked = case(DataType::Float32, ReduceOp::Sum);
    for (lost, words) in [
        (cap_flags::IN_PLACE, "to work in place"),
        (cap_flags::OUT_OF_PLACE, "to work with separate buffers"),
    ] {
        let c = caps(vec![row(ALL_FLAGS & !lost, ReduceOp::ALL)]);
        assert_eq!(
            c.verdict(&asked),
            Verdict::Emulated(format!("test does not promise {words}"))
        );
    }
    let one_device = CapRow {
        scope: Scope::DEVICE,
        ..row(ALL_FLAGS, ReduceOp::ALL)
    };
    assert!(
        !is_native(&caps(vec![one_device]), &asked),
        "an island is more than one device"
    );
}

#[test]
fn a_stretch_of_sizes_is_native_only_without_a_gap() {
    let part = |min_bytes, max_bytes| CapRow {
        min_bytes,
        max_bytes,
        ..row(ALL_FLAGS, ReduceOp::ALL)
    };
    let native = |rows, least, most| {
        let verdict = caps(rows).verdict_for_sizes(&case(DataType::Int8, ReduceOp::Sum), least, most);
        verdict == Verdict::Native
    };
    assert!(native(vec![part(0, 99), part(100, 0)], 1, 1 << 40));
    assert!(!native(vec![part(0, 99), part(101, 0)], 1, 1 << 40));
    assert!(native(vec![part(0, 99), part(101, 0)], 101, 1 << 40));
    assert!(native(vec![part(0, 99), part(101, 0)], 1, 99));
    assert!(!native(vec![part(10, 99)], 9, 99));
    assert!(!native(vec![part(10, 99)], 10, 100));
    // One of several rows is enough where they overlap.
    let weak = CapRow {
        flags: 0,
        ..part(0, 0)
    };
    assert!(native(vec![weak, part(10, 99)], 10, 99));
    assert!(!native(vec![weak, part(10, 99)], 10, 100));
}

#[test]
fn rounding_once_must_hold_for_every_row_that_may_serve() {
    let asked = case(DataType::Float16, ReduceOp::Sum);
    let once = CapRow {
        max_bytes: 100,
        ..row(ALL_FLAGS | cap_flags::ACCUMULATES_FP32, ReduceOp::ALL)
    };
    let each = CapRow {
        min_bytes: 101,
        ..row(ALL_FLAGS, ReduceOp::ALL)
    };
    let c = caps(vec![once, each]);
    assert!(c.rounds_once(&asked, 2, 100));
    assert!(!c.rounds_once(&asked, 2, 102));
    assert!(!caps(Vec::new()).rounds_once(&asked, 2, 100));
}
