//! What this plugin can do, row by row.

use crate::ccl::MAX_RANKS;
use infiniccl_plugin_api::{CapRow, Collective, DType, MemKind, RedOp, Scope, cap_flags};

const ALL_TYPES: u64 = (1 << 15) - 1;
const BOOL: u64 = 1 << DType::BOOL.0;
const FLOATS: u64 = 1 << DType::FLOAT16.0
    | 1 << DType::BFLOAT16.0
    | 1 << DType::FLOAT32.0
    | 1 << DType::FLOAT64.0
    | 1 << DType::FLOAT8_E4M3.0
    | 1 << DType::FLOAT8_E5M2.0;
const PLAIN_OPS: u64 = 1 << RedOp::SUM.0 | 1 << RedOp::PROD.0 | 1 << RedOp::MAX.0 | 1 << RedOp::MIN.0;
const MEMORY: u64 =
    1 << MemKind::HOST.0 | 1 << MemKind::PINNED.0 | 1 << MemKind::DEVICE.0 | 1 << MemKind::MANAGED.0;
const PLACES: u64 = cap_flags::IN_PLACE | cap_flags::OUT_OF_PLACE;
const EXACT: u64 = cap_flags::ACCUMULATES_FP32
    | cap_flags::NAN_KEPT
    | cap_flags::EXACT_AVG
    | cap_flags::FP8_SATURATES
    | cap_flags::SAME_BYTES
    | cap_flags::DETERMINISTIC;
const MOVES: u64 = cap_flags::SAME_BYTES | cap_flags::DETERMINISTIC | cap_flags::COMPARES_CHECK;

/// Seeds of the cost model, measured with two ranks on two processors; calibration replaces them.
const ALPHA_NS: u64 = 400;
const MESSAGE_ALPHA_NS: u64 = 150;
const BETA_PS: u64 = 120;
const REDUCE_BETA_PS: u64 = 200;

fn row(collective: Collective, dtype_mask: u64, op_mask: u64, flags: u64, costs: (u64, u64)) -> CapRow {
    CapRow {
        collective,
        scope: Scope::NODE,
        dtype_mask,
        op_mask,
        mem_mask: MEMORY,
        min_ranks: 1,
        max_ranks: MAX_RANKS as u64,
        min_bytes: 0,
        max_bytes: 0,
        flags,
        alpha_ns: costs.0,
        beta_ps_per_byte: costs.1,
        reserved: [0; 2],
    }
}

/// All rows; the same for every communicator.
pub(crate) fn rows() -> Vec<CapRow> {
    use Collective as C;
    let mut rows = Vec::new();
    for collective in [C::ALL_REDUCE, C::REDUCE, C::REDUCE_SCATTER, C::REDUCE_SCATTER_V] {
        let (flags, costs) = (
            PLACES | EXACT | cap_flags::COMPARES_CHECK,
            (ALPHA_NS, REDUCE_BETA_PS),
        );
        let more = PLAIN_OPS | 1 << RedOp::AVG.0 | 1 << RedOp::PREMUL_SUM.0;
        rows.push(row(collective, ALL_TYPES & !BOOL, more, flags, costs));
        rows.push(row(collective, BOOL, PLAIN_OPS, flags, costs));
    }
    for collective in [
        C::BROADCAST,
        C::ALL_GATHER,
        C::ALL_GATHER_V,
        C::GATHER,
        C::SCATTER,
        C::BARRIER,
    ] {
        rows.push(row(collective, ALL_TYPES, 0, PLACES | MOVES, (ALPHA_NS, BETA_PS)));
    }
    for collective in [C::ALL_TO_ALL, C::ALL_TO_ALL_V] {
        rows.push(row(
            collective,
            ALL_TYPES,
            0,
            cap_flags::OUT_OF_PLACE | MOVES,
            (ALPHA_NS, BETA_PS),
        ));
    }
    for collective in [C::SEND, C::RECV] {
        rows.push(row(
            collective,
            ALL_TYPES,
            0,
            PLACES | MOVES,
            (MESSAGE_ALPHA_NS, BETA_PS),
        ));
    }
    let local = [
        row(C::LOCAL_REDUCE, ALL_TYPES, PLAIN_OPS, PLACES | EXACT, (50, 60)),
        row(C::LOCAL_SCALE, FLOATS, 0, PLACES | EXACT, (50, 60)),
    ];
    rows.extend(local.map(|row| CapRow {
        scope: Scope::DEVICE,
        max_ranks: 0,
        ..row
    }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_collective_has_a_row_and_bool_no_mean() {
        let rows = rows();
        for code in 0..=Collective::BARRIER.0 {
            let of_code: Vec<_> = rows.iter().filter(|row| row.collective.0 == code).collect();
            let types = of_code.iter().fold(0, |all, row| all | row.dtype_mask);
            assert_eq!(types, ALL_TYPES, "collective {code}");
        }
        for row in rows.iter().filter(|row| row.dtype_mask & BOOL != 0) {
            assert_eq!(row.op_mask & (1 << RedOp::AVG.0 | 1 << RedOp::PREMUL_SUM.0), 0);
        }
    }
}
