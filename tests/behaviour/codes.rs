//! Numbers of types, operators and results, and the pairs of type and operator that are refused.

use crate::world::{World, layouts};
use infiniccl::{Collective, DataType, ErrorKind, RawCall, ReduceOp, Result};

/// Every number that could stand for a type or an operator in an interface of bytes.
const CODES: std::ops::RangeInclusive<u32> = 0..=255;

#[test]
fn no_number_means_a_type_or_an_operator_by_default() {
    for code in CODES {
        let dtype = DataType::try_from(code).ok();
        assert_eq!(dtype.map(DataType::code), (code < 15).then_some(code));
        let op = ReduceOp::try_from(code).ok();
        assert_eq!(op.map(ReduceOp::code), (code < 5).then_some(code));
    }
    assert!(DataType::try_from(u32::MAX).is_err() && ReduceOp::try_from(u32::MAX).is_err());
}

#[test]
fn results_have_the_numbers_of_the_c_interface() {
    let kinds = [
        ErrorKind::Unhandled,
        ErrorKind::System,
        ErrorKind::Internal,
        ErrorKind::InvalidArgument,
        ErrorKind::InvalidUsage,
        ErrorKind::Remote,
        ErrorKind::InProgress,
        ErrorKind::NotSupported,
        ErrorKind::Timeout,
        ErrorKind::Aborted,
    ];
    for (kind, code) in kinds.into_iter().zip(1..) {
        assert_eq!(kind.code(), code, "{kind}");
    }
}

#[test]
fn each_operator_is_itself_on_inputs_whose_results_all_differ() {
    for (what, nodes) in layouts(3) {
        let world = World::new(&nodes);
        for (op, result) in [
            (ReduceOp::Sum, 12),
            (ReduceOp::Prod, 42),
            (ReduceOp::Max, 7),
            (ReduceOp::Min, 2),
            (ReduceOp::Avg, 4),
        ] {
            let results = world.run(|comm| {
                let mut value = [[2i16, 3, 7][comm.rank() as usize]];
                comm.all_reduce_in_place(&mut value, op).map(|()| value)
            });
            for got in results {
                assert_eq!(got.expect("it works"), [result], "{op} on {what}");
            }
        }
    }
}

/// One of the reductions, on buffers of eight blocks of eight bytes.
fn reduction(
    collective: Collective,
    send: *const u8,
    recv: *mut u8,
    dtype: DataType,
    op: ReduceOp,
) -> RawCall {
    match collective {
        Collective::AllReduce => RawCall::all_reduce(send, recv, 8, dtype, op),
        Collective::Reduce => RawCall::reduce(send, recv, 8, dtype, op, 1),
        _ => RawCall::reduce_scatter(send, recv, 4, dtype, op),
    }
}

#[test]
fn pairs_of_type_and_operator_are_done_or_refused_with_nothing_touched() {
    for nodes in [[0, 0], [0, 1]] {
        let world = World::new(&nodes);
        let all = CODES.flat_map(|d| CODES.map(move |o| (d, o)));
        let known: Vec<(DataType, ReduceOp)> = all
            .filter_map(|(d, o)| Some((DataType::try_from(d).ok()?, ReduceOp::try_from(o).ok()?)))
            .collect();
        assert_eq!(known.len(), 15 * 5);
        world.run(|comm| {
            for &(dtype, op) in &known {
                for collective in [
                    Collective::AllReduce,
                    Collective::Reduce,
                    Collective::ReduceScatter,
                ] {
                    let (send, mut recv) = ([comm.rank() as u8 + 1; 64], [0x5au8; 64]);
                    let call = reduction(collective, send.as_ptr(), recv.as_mut_ptr(), dtype, op);
                    // SAFETY: both buffers hold eight elements of any type, and the call has ended on return.
                    let outcome: Result<()> = unsafe { comm.run_raw(call) };
                    let untouched = send == [comm.rank() as u8 + 1; 64] && recv == [0x5a; 64];
                    match outcome {
                        Ok(()) => assert!(dtype.supports(op), "{collective} {dtype} {op} was done"),
                        Err(error) => {
                            assert!(!dtype.supports(op), "{collective} {dtype} {op}: {error}");
                            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                            let text = error.to_string();
                            assert!(text.contains("avg") && text.contains("bool"), "{text}");
                            assert!(untouched, "{collective} {dtype} {op} touched its buffers");
                        }
                    }
                }
            }
        });
    }
}
