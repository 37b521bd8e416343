//! Calls with a root: every root on every split of the ranks, and what each role may leave out and must not touch.

use crate::world::{World, right};
use infiniccl::{Communicator, DataType, ErrorKind, RawCall, ReduceOp, Result};
use infiniccl_testkit::call::Placement;
use infiniccl_testkit::oracle::{Case, Collective, Dtype, Op, Values};
use infiniccl_testkit::pages::Pages;

const ROOTED: [Collective; 4] = [
    Collective::Broadcast,
    Collective::Reduce,
    Collective::Gather,
    Collective::Scatter,
];

/// All roots and rooted calls over one split of eight ranks.
fn all_roots(nodes: [u32; 8]) {
    let world = World::new(&nodes);
    world.run(|comm| {
        for collective in ROOTED {
            for root in 0..8 {
                for (i, count) in [1, 7, 1000].into_iter().enumerate() {
                    let case = Case {
                        collective,
                        dtype: Dtype::ALL[(root * 3 + i) % Dtype::ALL.len()],
                        op: Op::Max,
                        count,
                        root,
                        ranks: 8,
                        values: Values::Exact,
                        salt: root as u64,
                    };
                    right(comm, case, Placement::OutOfPlace);
                    right(comm, case, Placement::InPlace);
                }
            }
        }
    });
}

#[test]
fn one_cluster() {
    all_roots([0; 8]);
}

#[test]
fn two_clusters_uneven_and_interleaved() {
    all_roots([0, 1, 1, 1, 1, 1, 1, 1]);
    all_roots([0, 0, 0, 0, 0, 0, 0, 1]);
    all_roots([0, 1, 0, 1, 0, 1, 0, 1]);
    all_roots([1, 0, 0, 1, 1, 1, 0, 1]);
}

#[test]
fn three_clusters_uneven_and_interleaved() {
    all_roots([0, 1, 1, 0, 2, 0, 2, 2]);
    all_roots([0, 0, 0, 0, 0, 1, 2, 2]);
    all_roots([2, 1, 0, 2, 1, 0, 2, 2]);
}

#[test]
fn four_clusters_uneven_and_interleaved() {
    all_roots([3, 2, 1, 0, 0, 1, 2, 3]);
    all_roots([0, 0, 0, 0, 0, 1, 2, 3]);
    all_roots([0, 1, 2, 3, 3, 3, 2, 3]);
}

fn call(collective: Collective, send: *const u8, recv: *mut u8, root: u32) -> RawCall {
    let (count, dtype) = (5, DataType::Uint16);
    match collective {
        Collective::Broadcast => RawCall::broadcast(send, recv, count, dtype, root),
        Collective::Reduce => RawCall::reduce(send, recv, count, dtype, ReduceOp::Sum, root),
        Collective::Gather => RawCall::gather(send, recv, count, dtype, root),
        _ => RawCall::scatter(send, recv, count, dtype, root),
    }
}

/// Whether a rank's role needs the input, and the output.
fn needs(collective: Collective, at_root: bool) -> (bool, bool) {
    match collective {
        Collective::Broadcast | Collective::Scatter => (at_root, true),
        _ => (true, at_root),
    }
}

#[test]
fn buffers_that_a_role_does_not_need_are_never_touched() {
    for nodes in [[0, 0, 0, 0], [0, 1, 1, 0]] {
        let world = World::new(&nodes);
        world.run(|comm| {
            // Memory that nobody may read or write, such as a pointer that was never set.
            let closed = Pages::new(64).wall();
            for collective in ROOTED {
                for root in 0..4 {
                    let (sends, receives) = needs(collective, comm.rank() == root);
                    for unneeded in [std::ptr::null_mut(), closed] {
                        let (send, mut recv) = ([comm.rank() as u16; 20], [0x5a5au16; 20]);
                        let from = if sends {
                            send.as_ptr().cast()
                        } else {
                            unneeded.cast_const()
                        };
                        let to = if receives {
                            recv.as_mut_ptr().cast()
                        } else {
                            unneeded
                        };
                        // SAFETY: needed buffers hold four blocks of five elements; the others are not used.
                        unsafe { comm.run_raw(call(collective, from, to, root)) }.expect("it works");
                        assert_eq!(send, [comm.rank() as u16; 20], "the input stays");
                        let written = match collective {
                            _ if !receives => 0,
                            Collective::Gather => 20,
                            _ => 5,
                        };
                        assert!(recv[..written].iter().all(|v| *v < 10), "{collective:?} {recv:?}");
                        assert!(
                            recv[written..].iter().all(|v| *v == 0x5a5a),
                            "{collective:?} {recv:?}"
                        );
                    }
                }
            }
        });
    }
}

#[test]
fn a_missing_buffer_is_refused_where_it_is_needed_and_ends_the_call_for_the_others() {
    for nodes in [[0, 0, 0, 0], [0, 1, 1, 0]] {
        for collective in ROOTED {
            let argument = match needs(collective, true) {
                (true, false) => "send",
                _ if collective == Collective::Scatter || collective == Collective::Broadcast => "send",
                _ => "recv",
            };
            let world = World::new(&nodes);
            let errors = world.run(|comm| missing_at_root(comm, collective, argument));
            for (rank, error) in errors.into_iter().enumerate() {
                assert!(
                    error.contains("rank 1") && error.contains(argument),
                    "{collective:?} on rank {rank}: {error}"
                );
            }
        }
    }
}

/// The root, 1, forgets a buffer; the error that this rank gets in the end.
fn missing_at_root(comm: &Communicator, collective: Collective, argument: &str) -> String {
    let (send, mut recv) = ([1u16; 20], [0u16; 20]);
    let (mut from, mut to) = (send.as_ptr().cast(), recv.as_mut_ptr().cast::<u8>());
    if comm.rank() == 1 {
        match argument {
            "send" => from = std::ptr::null(),
            _ => to = std::ptr::null_mut(),
        }
    }
    // SAFETY: the buffers hold four blocks of five elements, or are null, which is refused.
    let mut outcome: Result<()> = unsafe { comm.run_raw(call(collective, from, to, 1)) };
    loop {
        match outcome {
            Ok(()) => assert_ne!(comm.rank(), 1, "the root's call is refused"),
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                assert_eq!(
                    (comm.rank(), error.get("argument")),
                    (1, Some(argument)),
                    "{error}"
                );
            }
            Err(error) => return error.to_string(),
        }
        // Those whose part was done, and the one that made the mistake, hear of it at their next call.
        outcome = comm.barrier();
    }
}

#[test]
fn one_pointer_for_both_buffers_is_refused_where_that_is_not_in_place() {
    let world = World::new(&[0, 0, 1]);
    world.run(|comm| {
        let mut buffer = [comm.rank(); 12];
        let ptr: *mut u8 = buffer.as_mut_ptr().cast();
        // On rank 0 this is the right place; the others overlap.
        let gather = RawCall::all_gather(ptr, ptr, 4, DataType::Uint32);
        // SAFETY: the buffer holds three blocks of four elements.
        let outcome = unsafe { comm.run_raw(gather) };
        let error = outcome.and_then(|()| comm.barrier()).expect_err("ranks overlap");
        match comm.rank() {
            0 => assert!(error.to_string().contains("recv"), "{error}"),
            rank => {
                assert_eq!(error.get("argument"), Some("recv"), "{error}");
                let rule = format!("in place means send = recv + {} bytes", 16 * rank);
                assert!(error.to_string().contains(&rule), "{error}");
            }
        }
    });
}
