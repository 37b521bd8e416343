//! Groups, messages, works, threads: what runs at once, and in which order.

use crate::world::World;
use infiniccl::{Communicator, Group, ReduceOp};

#[test]
fn messages_of_a_group_go_both_ways_at_once() {
    for nodes in [[0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 1]] {
        let world = World::new(&nodes);
        for count in [1usize, 1000, 700_000] {
            world.run(|comm| {
                let (rank, size) = (comm.rank() as usize, comm.size() as usize);
                let value = |from: usize, to: usize, i: usize| (from * 1000 + to * 100 + i % 97) as u32;
                let out: Vec<Vec<u32>> = (0..size)
                    .map(|to| (0..count).map(|i| value(rank, to, i)).collect())
                    .collect();
                let mut inn: Vec<Vec<u32>> = vec![vec![0; count]; size];
                let mut group = Group::new();
                for (to, buffer) in out.iter().enumerate() {
                    group.send(comm, buffer, to as u32);
                }
                for (from, buffer) in inn.iter_mut().enumerate() {
                    group.recv(comm, buffer, from as u32);
                }
                group.end().expect("all pairs at once, this rank too");
                for (from, buffer) in inn.iter().enumerate() {
                    assert!(
                        buffer.iter().enumerate().all(|(i, v)| *v == value(from, rank, i)),
                        "{from} to {rank}"
                    );
                }
            });
        }
    }
}

#[test]
fn messages_between_two_ranks_match_in_order() {
    let world = World::new(&[0, 1]);
    world.run(|comm| {
        for round in 0..200u64 {
            if comm.rank() == 0 {
                comm.send(&[round, round * round], 1).expect("it works");
            } else {
                let mut got = [0u64; 2];
                comm.recv(&mut got, 0).expect("it works");
                assert_eq!(got, [round, round * round]);
            }
        }
    });
}

#[test]
fn one_thread_drives_several_communicators_in_a_group() {
    let (first, second) = (World::new(&[0, 0, 1]), World::new(&[0, 1, 1]));
    let pairs: Vec<(&Communicator, &Communicator)> = first.comms.iter().zip(&second.comms).collect();
    std::thread::scope(|scope| {
        for (a, b) in pairs {
            scope.spawn(move || {
                for round in 0..50u32 {
                    let (mut x, mut y, mut z) = ([a.rank() + round], [b.rank() * 2], [b.rank(); 300]);
                    let mut group = Group::new();
                    // the order between communicators differs by rank: only a group makes that possible
                    if a.rank() == 1 {
                        group.all_reduce_in_place(b, &mut y, ReduceOp::Sum);
                        group.all_reduce_in_place(a, &mut x, ReduceOp::Sum);
                    } else {
                        group.all_reduce_in_place(a, &mut x, ReduceOp::Sum);
                        group.all_reduce_in_place(b, &mut y, ReduceOp::Sum);
                    }
                    group.broadcast(b, &mut z, 2);
                    group.end().expect("both communicators make progress");
                    assert_eq!((x, y, z), ([3 + 3 * round], [6], [2; 300]));
                }
            });
        }
    });
}

#[test]
fn a_group_that_is_dropped_does_nothing() {
    let world = World::new(&[0, 0]);
    world.run(|comm| {
        let mut buffer = [comm.rank(); 3];
        let mut group = Group::new();
        group.all_reduce_in_place(comm, &mut buffer, ReduceOp::Sum);
        drop(group);
        assert_eq!(buffer, [comm.rank(); 3]);
        comm.all_reduce_in_place(&mut buffer, ReduceOp::Sum)
            .expect("it works");
        assert_eq!(buffer, [1; 3]);
    });
}

#[test]
fn works_run_beside_their_caller_and_keep_their_buffers() {
    for nodes in [[0, 0, 0], [0, 1, 0]] {
        let world = World::new(&nodes);
        world.run(|comm| {
            let count = 100_000;
            let works: Vec<_> = (0..6u32)
                .map(|k| {
                    comm.start_all_reduce(vec![comm.rank() + k; count], ReduceOp::Sum)
                        .expect("it starts")
                })
                .collect();
            for (k, work) in (0u32..).zip(works) {
                // every other handle is dropped at once; its call goes on
                if k % 2 == 0 {
                    let result = work.wait().expect("it ends well");
                    assert!(result.len() == count && result.iter().all(|v| *v == 3 + 3 * k));
                }
            }
            let forgotten = comm
                .start_broadcast(vec![comm.rank(); count], 2)
                .expect("it starts");
            std::mem::forget(forgotten);
            let late = comm
                .start_all_gather(vec![comm.rank() as u8; 9])
                .expect("it starts");
            while !late.is_done() {
                std::thread::yield_now();
            }
            let (_, gathered) = late.wait().expect("it ends well");
            assert!(gathered.iter().enumerate().all(|(i, v)| usize::from(*v) == i / 9));
        });
    }
}

#[test]
fn threads_with_communicators_of_their_own_do_not_mix() {
    let worlds: Vec<World> = (0..4).map(|_| World::new(&[0, 1, 1])).collect();
    std::thread::scope(|scope| {
        for (w, world) in worlds.iter().enumerate() {
            for comm in &world.comms {
                scope.spawn(move || {
                    for round in 0..300usize {
                        let mut buffer =
                            vec![(w * 1000 + round) as u64 + u64::from(comm.rank()); 1 + round % 50];
                        comm.all_reduce_in_place(&mut buffer, ReduceOp::Sum)
                            .expect("it works");
                        let want = 3 * (w * 1000 + round) as u64 + 3;
                        assert!(
                            buffer.iter().all(|v| *v == want),
                            "communicator {w}, round {round}"
                        );
                    }
                });
            }
        }
    });
}

#[test]
fn threads_on_one_communicator_are_served_one_after_the_other() {
    let world = World::new(&[0, 0]);
    // messages of one type and size from several threads: none may be torn or lost
    world.run(|comm| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        if comm.rank() == 0 {
                            comm.send(&[7u64; 33], 1).expect("it works");
                        } else {
                            let mut got = [0u64; 33];
                            comm.recv(&mut got, 0).expect("it works");
                            assert_eq!(got, [7; 33]);
                        }
                    }
                });
            }
        });
    });
}
