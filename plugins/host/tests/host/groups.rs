//! Groups, and several streams of one communicator at once.

use crate::cluster::{MODES, check, desc, ranks, table};
use crate::memory::Guarded;
use infiniccl_plugin_api::{CollDesc, Collective, DType, RedOp, Status, stream_flags};

fn ints(values: impl Iterator<Item = i64>) -> Guarded {
    Guarded::with(&values.flat_map(i64::to_le_bytes).collect::<Vec<u8>>())
}

fn read(buffer: &Guarded, index: usize) -> i64 {
    i64::from_le_bytes(
        buffer.bytes()[index * 8..index * 8 + 8]
            .try_into()
            .expect("8 bytes"),
    )
}

fn sum(buffer: &mut Guarded) -> CollDesc {
    let pointer = buffer.ptr_mut();
    CollDesc {
        dtype: DType::INT64,
        op: RedOp::SUM,
        send: pointer,
        recv: pointer,
        count: buffer.bytes().len() as u64 / 8,
        ..desc(Collective::ALL_REDUCE)
    }
}

#[test]
fn collectives_and_messages_of_a_group_end_together() {
    const COUNT: usize = 30_000;
    ranks(4, |rank| {
        let (me, size) = (rank.rank, rank.size);
        let (next, last) = ((me + 1) % size, (me + size - 1) % size);
        for mode in MODES {
            let input = |rank: usize, i: usize| (rank * 1000 + i) as i64;
            let mut first = ints((0..COUNT).map(|i| input(me, i)));
            let mut second = ints((0..3).map(|i| input(me + 7, i)));
            let out = ints((0..COUNT).map(|i| input(me, i * 3)));
            let mut into = Guarded::new(COUNT * 8);
            let message = |collective, peer: usize| CollDesc {
                dtype: DType::INT64,
                peer: u32::try_from(peer).expect("small"),
                count: COUNT as u64,
                ..desc(collective)
            };
            let mut group = vec![
                sum(&mut first),
                CollDesc {
                    send: out.ptr(),
                    ..message(Collective::SEND, next)
                },
                CollDesc {
                    recv: into.ptr_mut(),
                    ..message(Collective::RECV, last)
                },
                sum(&mut second),
            ];
            // Only collectives have an order that ranks share.
            if me % 2 == 1 {
                group.swap(0, 2);
                group.swap(2, 1);
                group.swap(1, 3);
                group.sort_by_key(|call| call.count == 3);
            }
            rank.run(mode, &group).expect("group");
            for i in 0..COUNT {
                let expected: i64 = (0..size).map(|rank| input(rank, i)).sum();
                assert_eq!(read(&first, i), expected);
                assert_eq!(read(&into, i), input(last, i * 3));
            }
            for i in 0..3 {
                assert_eq!(
                    read(&second, i),
                    (0..size).map(|rank| input(rank + 7, i)).sum::<i64>()
                );
            }
        }
    });
}

#[test]
fn one_thread_drives_several_polled_streams() {
    const COUNT: usize = 50_000;
    ranks(3, |rank| {
        let (me, size) = (rank.rank, rank.size);
        let (mut streams, mut events) = ([0; 3], [0; 3]);
        for (stream, event) in streams.iter_mut().zip(&mut events) {
            check(table().stream_create()(rank.device, stream_flags::POLLED, stream)).expect("stream");
            check(table().event_create()(rank.device, event)).expect("event");
        }
        let out = ints((0..COUNT).map(|i| (me * COUNT + i) as i64));
        let mut into = Guarded::new(COUNT * 8);
        let mut total = ints((0..COUNT).map(|i| (me + i) as i64));
        let message = |collective, peer: usize| CollDesc {
            dtype: DType::INT64,
            peer: u32::try_from(peer).expect("small"),
            count: COUNT as u64,
            ..desc(collective)
        };
        let last = (me + size - 1) % size;
        // A message and a collective wait for different ranks; each rank gives them in another order.
        let mut work = [
            CollDesc {
                send: out.ptr(),
                ..message(Collective::SEND, (me + 1) % size)
            },
            CollDesc {
                recv: into.ptr_mut(),
                ..message(Collective::RECV, last)
            },
            sum(&mut total),
        ];
        work.rotate_left(me);
        for ((call, stream), event) in work.iter().zip(streams).zip(events) {
            check(table().enqueue()(rank.comm, call, 1, stream)).expect("queued");
            check(table().event_record()(rank.device, event, stream)).expect("recorded");
        }
        let mut left = events.to_vec();
        while !left.is_empty() {
            left.retain(|event| match table().event_query()(rank.device, *event) {
                Status::IN_PROGRESS => true,
                status => {
                    check(status).expect("work");
                    false
                }
            });
            std::thread::yield_now();
        }
        for i in 0..COUNT {
            assert_eq!(read(&into, i), (last * COUNT + i) as i64);
            assert_eq!(
                read(&total, i),
                (0..size).map(|rank| (rank + i) as i64).sum::<i64>()
            );
        }
        for (stream, event) in streams.into_iter().zip(events) {
            check(table().event_destroy()(rank.device, event)).expect("destroyed");
            check(table().stream_destroy()(rank.device, stream)).expect("destroyed");
        }
    });
}

#[test]
fn queued_and_blocking_collectives_keep_the_order_of_issue() {
    ranks(3, |rank| {
        let mut stream = 0;
        check(table().stream_create()(rank.device, 0, &mut stream)).expect("stream");
        for round in 0..50_i64 {
            let mut queued = ints([round, 1].into_iter());
            let mut blocking = ints([rank.rank as i64 + round].into_iter());
            check(table().enqueue()(rank.comm, &sum(&mut queued), 1, stream)).expect("queued");
            rank.block(sum(&mut blocking)).expect("sum");
            assert_eq!(read(&blocking, 0), 3 + 3 * round);
            // The first was issued before, so it has ended before.
            assert_eq!((read(&queued, 0), read(&queued, 1)), (3 * round, 3));
        }
        let mut event = 0;
        check(table().event_create()(rank.device, &mut event)).expect("event");
        check(table().event_record()(rank.device, event, stream)).expect("recorded");
        check(table().event_synchronize()(rank.device, event, 20_000_000_000)).expect("idle");
        check(table().event_destroy()(rank.device, event)).expect("destroyed");
        check(table().stream_destroy()(rank.device, stream)).expect("destroyed");
    });
}

#[test]
fn two_communicators_work_at_once_from_two_threads() {
    let total = std::sync::atomic::AtomicI64::new(0);
    std::thread::scope(|scope| {
        for base in [1, 100] {
            let total = &total;
            scope.spawn(move || {
                let sums = ranks(2, |rank| {
                    let mut last = 0;
                    for round in 0..300_i64 {
                        let mut buffer = ints((0..500).map(|i| base * (rank.rank as i64 + round + i)));
                        rank.block(sum(&mut buffer)).expect("sum");
                        last = read(&buffer, 499);
                        assert_eq!(last, base * (1 + 2 * (round + 499)));
                    }
                    last
                });
                total.fetch_add(sums[0], std::sync::atomic::Ordering::SeqCst);
            });
        }
    });
    assert_eq!(total.into_inner(), 101 * (1 + 2 * (299 + 499)));
}
