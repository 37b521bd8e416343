//! Ranks that disagree, abort, leave or never come; arguments that are wrong.

use crate::cluster::{JOIN, Mode, Rank, Refusal, desc, open, ranks, soon, table, unique_id};
use crate::memory::{Guarded, POISON};
use infiniccl_plugin_api::{CollDesc, Collective, DType, RedOp, Status};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn reduce(send: &Guarded, recv: &mut Guarded) -> CollDesc {
    CollDesc {
        send: send.ptr(),
        recv: recv.ptr_mut(),
        count: send.bytes().len() as u64,
        ..desc(Collective::ALL_REDUCE)
    }
}

#[test]
fn a_rank_that_differs_is_named_on_every_rank_and_nothing_is_written() {
    type Change = fn(&mut CollDesc);
    let changes: [(&str, Change); 6] = [
        ("of 7 elements", |call| call.count = 7),
        ("with MAX", |call| call.op = RedOp::MAX),
        ("of type UINT8", |call| call.dtype = DType::UINT8),
        ("BARRIER", |call| call.collective = Collective::BARRIER),
        ("BROADCAST", |call| call.collective = Collective::BROADCAST),
        ("with check word", |call| call.check = 5),
    ];
    for (words, change) in changes {
        for (odd, size) in [(2, 4), (0, 4), (1, 2)] {
            let outcomes = ranks(size, |rank| {
                let send = Guarded::with(&[rank.rank as u8; 20_000]);
                let mut recv = Guarded::new(20_000);
                let mut call = reduce(&send, &mut recv);
                if rank.rank == odd {
                    change(&mut call);
                }
                let outcome = rank.block(call);
                assert!(
                    recv.bytes().iter().all(|byte| *byte == POISON),
                    "{words}: the output was written"
                );
                // The communicator stays failed.
                let again = rank.block(desc(Collective::BARRIER));
                assert_eq!(again.map_err(|refusal| refusal.status), Err(Status::MISMATCH));
                outcome
            });
            for outcome in outcomes {
                let Refusal { status, text } = outcome.expect_err("the ranks differ");
                assert_eq!(status, Status::MISMATCH);
                assert!(
                    text.contains(&format!("rank {odd}")) && text.contains(words),
                    "{odd} of {size}: {text}"
                );
            }
        }
    }
}

#[test]
fn private_lengths_that_differ_are_found_before_data_moves() {
    let outcomes = ranks(3, |rank| {
        let mut counts = [1_u64; 6];
        if rank.rank == 2 {
            counts[3] = 5; // expects five from rank 0, which sends one
        }
        let send = Guarded::with(&[1; 3]);
        let mut recv = Guarded::new(7);
        let call = CollDesc {
            send: send.ptr(),
            recv: recv.ptr_mut(),
            counts: counts.as_ptr(),
            ..desc(Collective::ALL_TO_ALL_V)
        };
        let outcome = rank.block(call);
        assert_eq!(recv.bytes(), [POISON; 7]);
        outcome
    });
    for outcome in outcomes {
        let Refusal { status, text } = outcome.expect_err("the lengths differ");
        assert_eq!(status, Status::MISMATCH);
        assert!(text.contains("rank 2"), "{text}");
    }
}

#[test]
fn abort_from_another_thread_wakes_everyone_at_once() {
    for mode in [Mode::Blocking, Mode::Synchronized, Mode::Threaded] {
        let waiting = AtomicUsize::new(0);
        let aborted = std::sync::Mutex::new(None);
        let ends = ranks(4, |rank| {
            if rank.rank == 3 {
                // This one never calls; it aborts when the others sleep.
                assert!(soon(|| waiting.load(Ordering::SeqCst) == 3));
                std::thread::sleep(Duration::from_millis(30));
                *aborted.lock().expect("lock") = Some(Instant::now());
                assert!(table().comm_abort()(rank.comm).is_ok());
                assert_eq!(table().comm_async_error()(rank.comm), Status::ABORTED);
                return Instant::now();
            }
            let send = Guarded::with(&[1; 100_000]);
            let mut recv = Guarded::new(100_000);
            waiting.fetch_add(1, Ordering::SeqCst);
            let refusal = match rank.rank {
                0 => rank.run(
                    mode,
                    &[CollDesc {
                        peer: 3,
                        ..desc(Collective::RECV)
                    }],
                ),
                _ => rank.run(mode, &[reduce(&send, &mut recv)]),
            }
            .expect_err("aborted");
            assert_eq!(refusal.status, Status::ABORTED);
            assert!(refusal.text.contains("rank 3"), "{}", refusal.text);
            Instant::now()
        });
        let start = aborted.into_inner().expect("lock").expect("aborted");
        for end in ends {
            assert!(
                end - start < Duration::from_millis(200),
                "{mode:?}: {:?}",
                end - start
            );
        }
    }
}

#[test]
fn a_rank_that_leaves_fails_those_who_wait_for_it() {
    for size in [2, 3] {
        let outcomes = ranks(size, |rank| {
            rank.barrier();
            if rank.rank == 0 {
                return Ok(());
            }
            if rank.rank == 1 {
                let mut recv = Guarded::new(8);
                return rank.block(CollDesc {
                    recv: recv.ptr_mut(),
                    count: 8,
                    ..desc(Collective::RECV)
                });
            }
            rank.block(desc(Collective::BARRIER))
        });
        for outcome in &outcomes[1..] {
            let refusal = outcome.clone().expect_err("rank 0 left");
            assert_eq!(refusal.status, Status::REMOTE);
            assert!(refusal.text.contains("rank 0"), "{}", refusal.text);
        }
    }
}

#[test]
fn a_rank_may_leave_as_soon_as_its_part_is_done() {
    for count in [0, 3, 10_000, 700_000] {
        for _ in 0..20 {
            ranks(3, |rank| {
                let send = Guarded::with(&vec![rank.rank as u8 + 1; count]);
                let mut recv = Guarded::new(count);
                rank.block(reduce(&send, &mut recv))
                    .expect("the others stay long enough");
                assert!(recv.bytes().iter().all(|byte| *byte == 6));
            });
        }
    }
}

#[test]
fn a_missing_rank_fails_init_within_its_limit() {
    let device = open(&[]);
    let id = unique_id(device);
    let start = Instant::now();
    let refusal = Rank::join(&id, 0, 2, Duration::from_millis(150), &[])
        .err()
        .expect("nobody else");
    assert_eq!(refusal.status, Status::TIMEOUT);
    assert!(
        refusal.text.contains("did not attach") && refusal.text.contains(": 1;"),
        "{}",
        refusal.text
    );
    assert!(start.elapsed() < Duration::from_secs(10));
    let refusal = Rank::join(b"short", 0, 1, JOIN, &[]).err().expect("no id");
    assert_eq!(refusal.status, Status::USAGE);
    assert!(table().device_close()(device).is_ok());
}

#[test]
fn wrong_arguments_are_refused_alone_and_the_communicator_goes_on() {
    ranks(2, |rank| {
        let send = Guarded::with(&[1; 4]);
        let mut recv = Guarded::new(4);
        let good = reduce(&send, &mut recv);
        let wrong = [
            (
                CollDesc {
                    send: std::ptr::null(),
                    ..good
                },
                Status::USAGE,
                "send buffer",
            ),
            (
                CollDesc {
                    recv: std::ptr::null_mut(),
                    ..good
                },
                Status::USAGE,
                "receive buffer",
            ),
            (
                CollDesc {
                    dtype: DType(77),
                    ..good
                },
                Status::UNSUPPORTED,
                "77",
            ),
            (CollDesc { op: RedOp(9), ..good }, Status::UNSUPPORTED, "9"),
            (
                CollDesc {
                    collective: Collective(40),
                    ..good
                },
                Status::UNSUPPORTED,
                "40",
            ),
            (
                CollDesc {
                    count: u64::MAX,
                    ..good
                },
                Status::USAGE,
                "address space",
            ),
            (
                CollDesc {
                    collective: Collective::REDUCE,
                    root: 2,
                    ..good
                },
                Status::USAGE,
                "root 2",
            ),
            (
                CollDesc {
                    collective: Collective::SEND,
                    peer: 9,
                    ..good
                },
                Status::USAGE,
                "peer 9",
            ),
            (
                CollDesc {
                    collective: Collective::ALL_GATHER_V,
                    ..good
                },
                Status::USAGE,
                "counts",
            ),
            (
                CollDesc {
                    dtype: DType::BOOL,
                    op: RedOp::AVG,
                    ..good
                },
                Status::UNSUPPORTED,
                "bool",
            ),
        ];
        for mode in [Mode::Blocking, Mode::Queried, Mode::Threaded] {
            for (call, status, words) in wrong {
                let refusal = rank.run(mode, &[good, call]).expect_err("refused");
                assert_eq!(refusal.status, status, "{}", refusal.text);
                assert!(refusal.text.contains(words), "{}", refusal.text);
            }
            assert_eq!(recv.bytes(), [POISON; 4]);
        }
        assert!(rank.block(good).is_ok());
        assert_eq!(recv.bytes(), [2; 4]);
    });
}

#[test]
fn pairs_of_type_and_operator_are_right_or_refused_never_something_else() {
    ranks(2, |rank| {
        for dtype in 0..40 {
            for op in 0..40 {
                let send = Guarded::with(&[1; 8]);
                let mut recv = Guarded::new(8);
                let call = CollDesc {
                    dtype: DType(dtype),
                    op: RedOp(op),
                    count: 1,
                    ..reduce(&send, &mut recv)
                };
                let known = dtype <= 14 && op <= 5 && (dtype != 14 || op <= 3);
                match rank.block(CollDesc {
                    scale_bits: 1,
                    ..call
                }) {
                    Ok(()) => assert!(known, "type {dtype} with operator {op}"),
                    Err(refusal) => {
                        assert!(
                            !known && refusal.status == Status::UNSUPPORTED,
                            "{}",
                            refusal.text
                        );
                        assert_eq!(recv.bytes(), [POISON; 8]);
                    }
                }
            }
        }
    });
}
