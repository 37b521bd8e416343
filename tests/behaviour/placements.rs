//! Any distribution of ranks over nodes works, and facts that differ by node change no decision.

use crate::world::{Plugins, World, config, right};
use infiniccl_testkit::call::Placement;
use infiniccl_testkit::oracle::{Case, Collective, Dtype, Op, Values};

/// Seven ranks on at most four nodes, as sizes of the nodes.
const PARTITIONS: [&[u32]; 11] = [
    &[7],
    &[6, 1],
    &[5, 2],
    &[3, 4],
    &[5, 1, 1],
    &[1, 4, 2],
    &[3, 3, 1],
    &[2, 3, 2],
    &[1, 4, 1, 1],
    &[3, 2, 1, 1],
    &[2, 2, 2, 1],
];

/// Nodes by rank: one node after the other, or dealt round robin to nodes with room.
fn nodes(sizes: &[u32], interleaved: bool) -> Vec<u32> {
    let blocks = (0u32..).zip(sizes);
    if !interleaved {
        return blocks
            .flat_map(|(node, size)| std::iter::repeat_n(node, *size as usize))
            .collect();
    }
    (0..7)
        .flat_map(|turn| blocks.clone().filter(move |(_, size)| turn < **size))
        .map(|(node, _)| node)
        .collect()
}

#[test]
fn seven_ranks_on_any_nodes_do_every_collective() {
    for (i, sizes) in PARTITIONS.iter().enumerate() {
        for interleaved in [false, true] {
            let world = World::new(&nodes(sizes, interleaved));
            world.run(|comm| {
                for (k, &collective) in Collective::ALL.iter().enumerate() {
                    for count in [1, 100, 4097] {
                        let case = Case {
                            collective,
                            dtype: Dtype::ALL[(i + k) % Dtype::ALL.len()],
                            op: Op::Sum,
                            count,
                            root: (i + k) % 7,
                            ranks: 7,
                            values: Values::Exact,
                            salt: i as u64,
                        };
                        right(comm, case, Placement::OutOfPlace);
                    }
                }
            });
            let comms = world.comms.into_iter();
            std::thread::scope(|scope| {
                comms.for_each(|comm| {
                    scope.spawn(move || comm.finalize().expect("a good end"));
                });
            });
        }
    }
}

#[test]
fn settings_that_may_differ_by_rank_change_no_decision() {
    // How a thread waits, how long, over which keepalive, with how much talk: each rank has its own.
    let own = |rank: u32| {
        let mut config = config(rank % 2, Plugins::BuiltIn, &[]);
        for (key, value) in [
            ("progress.spin_us", (rank * 50).to_string()),
            ("progress.yield_us", (rank * 100).to_string()),
            ("timeouts.collective", (40 + rank).to_string()),
            ("network.keepalive", (rank * 7).to_string()),
            (
                "log.level",
                ["off", "warn", "info", "error"][rank as usize].to_string(),
            ),
        ] {
            config.set(key, &value).expect("a valid setting");
        }
        config
    };
    let world = World::of((0..4).map(own));
    world.run(|comm| {
        for power in 0..23 {
            for count in [(1usize << power) - 1, 1 << power, (1 << power) + 1] {
                let case = Case {
                    collective: Collective::AllReduce,
                    dtype: Dtype::Uint8,
                    op: Op::Sum,
                    count,
                    root: 0,
                    ranks: 4,
                    values: Values::Exact,
                    salt: power,
                };
                right(comm, case, Placement::InPlace);
            }
        }
    });
}
