//! The simulator finds what it is there to find.

use super::{Memory, Order, simulate};
use crate::schedule::{Base, Builder, InPlace, Loc, Operand, Schedule, VendorCall};
use infiniccl_plugin_api::{Collective, RedOp};
use infiniccl_reduce::{DataType, ReduceOp};

const INPUT: Loc = Loc::new(Base::Send, 0);
const OUTPUT: Loc = Loc::new(Base::Recv, 0);

fn schedule(in_place: Option<InPlace>, build: impl FnOnce(&mut Builder)) -> Schedule {
    let mut b = Builder::new(in_place, 2);
    build(&mut b);
    b.finish()
}

fn run(schedules: &[Schedule], order: Order) -> Result<Vec<Memory>, String> {
    let memory = |rank| Memory::apart(vec![rank as u8 + 1; 8], vec![0; 8]);
    let mut memories: Vec<Memory> = (0..schedules.len()).map(memory).collect();
    simulate(schedules, &mut memories, &[vec![0, 1]], order)?;
    Ok(memories)
}

fn error(schedules: &[Schedule]) -> String {
    run(schedules, Order::Rendezvous(1)).unwrap_err()
}

#[test]
fn a_deadlock_names_who_waits() {
    // Each receives what it will send.
    let one = |peer| {
        schedule(None, |b| {
            b.recv(peer, OUTPUT, 8);
            b.send(peer, OUTPUT, 8);
        })
    };
    let text = error(&[one(1), one(0)]);
    assert!(text.contains("deadlock with 4 steps left"), "{text}");
    assert!(
        text.contains("rank 0 step 0") && text.contains("rank 1 step 0"),
        "{text}"
    );
    assert!(
        run(&[one(1), one(0)], Order::Program)
            .unwrap_err()
            .contains("rank 0 waits for ever in step 0")
    );
}

#[test]
fn only_rendezvous_shows_sends_that_need_a_buffer() {
    // Each receives to where it sends from: the receive waits for the send, and so for the other's receive.
    let memory = |rank: u8| {
        Memory::shared(
            vec![rank; 8],
            InPlace {
                send_offset: 0,
                recv_offset: 0,
            },
        )
    };
    let one = |peer| {
        schedule(
            Some(InPlace {
                send_offset: 0,
                recv_offset: 0,
            }),
            |b| {
                b.send(peer, INPUT, 8);
                b.recv(peer, OUTPUT, 8);
            },
        )
    };
    let schedules = [one(1), one(0)];
    for order in [Order::Program, Order::Buffered(1)] {
        let mut memories = [memory(1), memory(2)];
        simulate(&schedules, &mut memories, &[], order).unwrap();
        assert_eq!(
            (memories[0].output(), memories[1].output()),
            (&[2u8; 8][..], &[1u8; 8][..])
        );
    }
    let outcome = simulate(&schedules, &mut [memory(1), memory(2)], &[], Order::Rendezvous(1));
    assert!(outcome.unwrap_err().contains("deadlock"));
}

#[test]
fn messages_must_match() {
    let idle = schedule(None, |_| {});
    let sends = |bytes| schedule(None, |b| b.send(1, INPUT, bytes));
    let text = error(&[sends(8), idle]);
    assert!(
        text.contains("rank 0 sends 1 messages to rank 1, which receives 0"),
        "{text}"
    );
    let text = error(&[sends(8), schedule(None, |b| b.recv(0, OUTPUT, 4))]);
    assert!(text.contains("step 0 sends 8 bytes, step 0 receives 4"), "{text}");
    assert!(error(&[schedule(None, |b| b.send(0, INPUT, 8))]).contains("rank 0 sends to rank 0"));
}

#[test]
fn accesses_stay_in_their_buffers() {
    let text = error(&[schedule(None, |b| b.copy(OUTPUT.plus(4), INPUT, 8))]);
    assert!(
        text.contains("rank 0 step 0: 8 bytes at output+4 are outside of a buffer of 8"),
        "{text}"
    );
    let text = error(&[schedule(None, |b| b.copy(INPUT, OUTPUT, 8))]);
    assert!(text.contains("writes the input"), "{text}");
    let text = error(&[schedule(None, |b| {
        let scratch = b.alloc(16);
        b.copy(scratch.plus(4), scratch, 8);
    })]);
    assert!(text.contains("overlaps"), "{text}");
}

#[test]
fn a_missing_dependency_shows_in_some_order() {
    let mut broken = schedule(None, |b| {
        let scratch = b.alloc(8);
        b.copy(scratch, INPUT, 8);
        b.copy(OUTPUT, scratch, 8);
    });
    let right = |s: &Schedule, seed| {
        run(std::slice::from_ref(s), Order::Rendezvous(seed)).unwrap()[0].output() == [1; 8]
    };
    assert!((0..20).all(|seed| right(&broken, seed)));
    broken.wait_counts.fill(0);
    broken.dependents.clear();
    broken.dependent_starts.fill(0);
    assert!((0..20).any(|seed| !right(&broken, seed)));
}

fn call(collective: Collective, send: Loc, recv: Loc, count: u64) -> VendorCall {
    let (dtype, op) = (DataType::Uint8, RedOp::SUM);
    VendorCall {
        collective,
        dtype,
        op,
        root: 0,
        send,
        recv,
        count,
        scale_bits: 0,
    }
}

#[test]
fn islands_and_messages_work_together() {
    // Two islands, {0, 3} and {1, 2}: reduce inside, exchange between leaders, broadcast inside.
    let islands = [vec![0, 3], vec![1, 2]];
    let one = |leader: bool, peer: u32, me: u32| {
        schedule(None, |b| {
            let (inside, other) = (b.alloc(8), b.alloc(8));
            b.vendor(me, &[call(Collective::REDUCE, INPUT, inside, 8)]);
            if leader {
                b.send(peer, inside, 8);
                b.recv(peer, other, 8);
                let operands = [inside, other].map(|at| Operand { at, pre: false });
                b.reduce((DataType::Uint8, ReduceOp::Sum), OUTPUT, &operands, 8, false);
            }
            b.vendor(me, &[call(Collective::BROADCAST, OUTPUT, OUTPUT, 8)]);
        })
    };
    let schedules = [
        one(true, 1, 0),
        one(true, 0, 0),
        one(false, 0, 1),
        one(false, 0, 1),
    ];
    for order in [Order::Program, Order::Rendezvous(3), Order::Buffered(4)] {
        let mut memories: Vec<Memory> = (0..4)
            .map(|r| Memory::apart((0..8).map(|i| 10 * r + i).collect(), vec![0; 8]))
            .collect();
        simulate(&schedules, &mut memories, &islands, order).unwrap();
        for memory in &memories {
            let expected: Vec<u8> = (0..8).map(|i| 60 + 4 * i).collect();
            assert_eq!(memory.output(), expected);
        }
    }
}

#[test]
fn all_members_of_an_island_make_the_same_calls() {
    let one = |calls: &[VendorCall]| schedule(None, |b| b.vendor(0, calls));
    let all_reduce = |count| call(Collective::ALL_REDUCE, INPUT, OUTPUT, count);
    let text = error(&[one(&[all_reduce(8)]), one(&[all_reduce(4)])]);
    assert!(text.contains("vendor step 0 of island 0: rank 1 calls"), "{text}");
    let text = error(&[one(&[all_reduce(8)]), one(&[all_reduce(8), all_reduce(8)])]);
    assert!(text.contains("rank 1 has 2 calls, rank 0 has 1"), "{text}");
    let text = error(&[one(&[all_reduce(8)]), schedule(None, |_| {})]);
    assert!(text.contains("deadlock"), "{text}");
}

#[test]
fn the_simulated_library_knows_every_collective() {
    let expected: [(Collective, [[u8; 4]; 2]); 8] = [
        (Collective::ALL_REDUCE, [[12, 14, 9, 9], [12, 14, 9, 9]]),
        (Collective::REDUCE, [[12, 14, 9, 9], [9; 4]]),
        (Collective::BROADCAST, [[1, 2, 9, 9], [1, 2, 9, 9]]),
        (Collective::REDUCE_SCATTER, [[12, 14, 9, 9], [16, 18, 9, 9]]),
        (Collective::ALL_GATHER, [[1, 2, 11, 12], [1, 2, 11, 12]]),
        (Collective::GATHER, [[1, 2, 11, 12], [9; 4]]),
        (Collective::SCATTER, [[1, 2, 9, 9], [3, 4, 9, 9]]),
        (Collective::ALL_TO_ALL, [[1, 2, 11, 12], [3, 4, 13, 14]]),
    ];
    for (collective, outputs) in expected {
        let one = |me| schedule(None, |b| b.vendor(me, &[call(collective, INPUT, OUTPUT, 2)]));
        let mut memories = [
            Memory::apart(vec![1, 2, 3, 4], vec![9; 4]),
            Memory::apart(vec![11, 12, 13, 14], vec![9; 4]),
        ];
        simulate(
            &[one(0), one(1)],
            &mut memories,
            &[vec![0, 1]],
            Order::Rendezvous(1),
        )
        .unwrap();
        for (memory, output) in memories.iter().zip(outputs) {
            assert_eq!(memory.output(), output, "{collective:?}");
        }
    }
}
