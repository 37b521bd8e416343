//! The measurement: calls back to back, each timed on every rank, and the slowest rank counts.

use std::time::Instant;

use infiniccl::{Communicator, ReduceOp};
use infiniccl_testkit::oracle::{Case, Collective, Dtype, Op, Values};

use super::Plan;
use crate::failure::Failure;
use infiniccl_testkit::call::{Call, Placement};

/// One line of the result.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) collective: Collective,
    pub(super) dtype: Dtype,
    /// The operator, where elements are combined.
    pub(super) op: Option<Op>,
    /// Elements as NCCL counts them.
    pub(super) count: usize,
    /// Bytes as nccl-tests counts them.
    pub(super) bytes: usize,
    pub(super) min_us: f64,
    pub(super) p50_us: f64,
    pub(super) p95_us: f64,
    pub(super) algbw_gbs: f64,
    pub(super) busbw_gbs: f64,
    /// Wrong elements on all ranks; `None` if nobody looked.
    pub(super) wrong: Option<u64>,
}

/// Measures everything; all ranks call it, and all get the same rows.
pub(super) fn all(comm: &Communicator, plan: &Plan) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for &dtype in &plan.dtypes {
        for &op in plan
            .ops
            .iter()
            .filter(|&&op| !plan.collective.reduces() || dtype.supports(op))
        {
            for &size in &plan.sizes {
                rows.push(one(comm, plan, dtype, op, size)?);
            }
        }
    }
    Ok(rows)
}

fn one(comm: &Communicator, plan: &Plan, dtype: Dtype, op: Op, size: usize) -> Result<Row, Failure> {
    let ranks = comm.size() as usize;
    let (count, bytes) = count_and_bytes(plan.collective, dtype, size, ranks);
    let case = Case {
        collective: plan.collective,
        dtype,
        op,
        count,
        root: plan.root,
        ranks,
        values: Values::Exact,
        salt: size as u64,
    };
    let mut call = Call::new(case, comm.rank() as usize, Placement::OutOfPlace)
        .expect("every collective can be called out of place");
    let mut wrong = 0;
    call.run(comm)?;
    if plan.check {
        wrong += call.check().wrong;
        call.refill();
    }
    for _ in 0..plan.warmup {
        call.run(comm)?;
    }
    comm.barrier()?;
    let mut times = vec![0.0f64; plan.iterations];
    for time in &mut times {
        let began = Instant::now();
        call.run(comm)?;
        *time = began.elapsed().as_secs_f64() * 1e6;
    }
    if plan.check {
        wrong += call.check().wrong;
    }
    comm.all_reduce_in_place(&mut times, ReduceOp::Max)?;
    let mut all_wrong = [wrong];
    comm.all_reduce_in_place(&mut all_wrong, ReduceOp::Sum)?;

    times.sort_by(f64::total_cmp);
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    let algbw_gbs = bytes as f64 / (at(50) * 1e3);
    Ok(Row {
        collective: plan.collective,
        dtype,
        op: plan.collective.reduces().then_some(op),
        count,
        bytes,
        min_us: at(0),
        p50_us: at(50),
        p95_us: at(95),
        algbw_gbs,
        busbw_gbs: algbw_gbs * bus_factor(plan.collective, ranks),
        wrong: plan.check.then_some(all_wrong[0]),
    })
}

/// Elements and bytes for a size as nccl-tests means it: of the whole buffer where ranks hold parts of one; at least
/// one element for each rank.
fn count_and_bytes(collective: Collective, dtype: Dtype, size: usize, ranks: usize) -> (usize, usize) {
    use Collective::*;
    let elements = size / dtype.size();
    match collective {
        AllReduce | Broadcast | Reduce | SendRecv => {
            let count = elements.max(1);
            (count, count * dtype.size())
        }
        AllGather | ReduceScatter | Gather | Scatter | AllToAll | AllToAllV | AllGatherV | ReduceScatterV => {
            let count = (elements / ranks).max(1);
            (count, count * ranks * dtype.size())
        }
    }
}

/// What the busiest link carries of a buffer, as in the notes on performance of nccl-tests.
fn bus_factor(collective: Collective, ranks: usize) -> f64 {
    use Collective::*;
    let n = ranks as f64;
    match collective {
        AllReduce => 2.0 * (n - 1.0) / n,
        AllGather | ReduceScatter | Gather | Scatter | AllToAll | AllToAllV | AllGatherV | ReduceScatterV => {
            (n - 1.0) / n
        }
        Broadcast | Reduce | SendRecv => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_factors_are_those_of_nccl_tests() {
        assert_eq!(
            count_and_bytes(Collective::AllReduce, Dtype::Float16, 1024, 4),
            (512, 1024)
        );
        assert_eq!(
            count_and_bytes(Collective::AllGather, Dtype::Float32, 1024, 4),
            (64, 1024)
        );
        assert_eq!(
            count_and_bytes(Collective::AllToAll, Dtype::Float64, 8, 4),
            (1, 32)
        );
        assert_eq!(bus_factor(Collective::AllReduce, 4), 1.5);
        assert_eq!(bus_factor(Collective::ReduceScatter, 4), 0.75);
        assert_eq!(bus_factor(Collective::Broadcast, 4), 1.0);
        assert_eq!(bus_factor(Collective::AllReduce, 1), 0.0);
    }
}
