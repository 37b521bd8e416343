//! Mock worlds: where ranks are, and what the islands' libraries can do.

use crate::capability::{Capabilities, Demands};
use crate::plan::{Settings, World, seeds};
use crate::topology::{Placement, Topology};
use infiniccl_plugin_api::{CapRow, Collective, MemKind, RedOp, Scope, cap_flags};

/// A small generator, so that a failure is repeated by its seed.
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// A class of layouts, for any number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Layout {
    /// One node, one island.
    One,
    /// Two nodes of the same size, or nearly.
    Even,
    /// Two nodes, the second one larger, as 3 + 5.
    Uneven,
    /// Ranks dealt to three nodes in turn.
    Interleaved,
    /// Every rank on its own node.
    Apart,
    /// On two nodes, islands of several ranks and ranks that are in none.
    Lonely,
    /// Four vendors on two nodes, dealt at random.
    Vendors,
}

impl Layout {
    pub(super) const ALL: &'static [Layout] = &[
        Layout::One,
        Layout::Even,
        Layout::Uneven,
        Layout::Interleaved,
        Layout::Apart,
        Layout::Lonely,
        Layout::Vendors,
    ];

    /// The topology of `ranks` ranks.
    pub(super) fn topology(self, ranks: usize, random: &mut Random) -> Topology {
        let seat = |rank: usize, random: &mut Random| match self {
            Layout::One => Seat::on(0),
            Layout::Even => Seat::on(rank * 2 / ranks),
            Layout::Uneven => Seat::on(usize::from(rank >= ranks * 3 / 8)),
            Layout::Interleaved => Seat::on(rank % 3),
            Layout::Apart => Seat::on(rank),
            Layout::Lonely => Seat {
                island: if random.below(3) == 0 { "" } else { "x" },
                ..Seat::on(random.below(2))
            },
            Layout::Vendors => Seat {
                vendor: random.pick(&["a", "b", "c", "d"]),
                ..Seat::on(random.below(2))
            },
        };
        let seats: Vec<Seat> = (0..ranks).map(|r| seat(r, random)).collect();
        topology(&seats)
    }
}

/// Where a rank is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    pub(super) node: usize,
    pub(super) island: &'static str,
    pub(super) vendor: &'static str,
}

impl Seat {
    pub(super) fn on(node: usize) -> Seat {
        Seat {
            node,
            island: "x",
            vendor: "a",
        }
    }
}

/// The topology of ranks on their seats; those of one vendor compute alike.
pub(super) fn topology(seats: &[Seat]) -> Topology {
    let placements: Vec<Placement> = (0u32..)
        .zip(seats)
        .map(|(rank, seat)| Placement {
            node: format!("node{}", seat.node),
            island: seat.island.into(),
            numa: 0,
            // Not in the order of ranks.
            device: rank * 7 % 5,
            vendor: seat.vendor.into(),
            host: format!("host{}", seat.node),
            arithmetic: seat.vendor.into(),
        })
        .collect();
    Topology::new(&placements)
}

/// A world whose islands have libraries that do everything, or none if they are of one rank.
pub(super) fn world(topology: Topology, chunk: u64) -> World {
    let capabilities = topology
        .islands
        .iter()
        .map(|ranks| {
            let mut caps = Capabilities::none(
                &topology.ranks[ranks[0] as usize].vendor,
                Vec::new(),
                Demands::default(),
            );
            if ranks.len() > 1 {
                caps.rows = rows();
            }
            caps
        })
        .collect();
    World {
        topology,
        capabilities,
        settings: Settings {
            rules: Vec::new(),
            chunk,
        },
        near: seeds::NEAR,
        far: seeds::FAR,
        gamma_ps: seeds::GAMMA_PS,
    }
}

/// The chunk of the shipped configuration.
pub(super) const CHUNK: u64 = 256 << 10;

/// Everything, with every promise.
pub(super) fn rows() -> Vec<CapRow> {
    use Collective as C;
    let collectives = [
        C::ALL_REDUCE,
        C::BROADCAST,
        C::REDUCE,
        C::ALL_GATHER,
        C::REDUCE_SCATTER,
        C::GATHER,
        C::SCATTER,
        C::ALL_TO_ALL,
        C::ALL_TO_ALL_V,
        C::ALL_GATHER_V,
        C::REDUCE_SCATTER_V,
        C::BARRIER,
    ];
    let row = |collective| CapRow {
        collective,
        scope: Scope::NODE,
        dtype_mask: (1 << 15) - 1,
        op_mask: (1 << 6) - 1,
        mem_mask: 1 << MemKind::HOST.0,
        min_ranks: 2,
        max_ranks: 0,
        min_bytes: 0,
        max_bytes: 0,
        flags: u64::MAX,
        alpha_ns: 0,
        beta_ps_per_byte: 0,
        reserved: [0; 2],
    };
    collectives.into_iter().map(row).collect()
}

/// Takes an operator of a collective away from an island.
pub(super) fn lacks(world: &mut World, island: usize, collective: Collective, op: Option<RedOp>) {
    let rows = &mut world.capabilities[island].rows;
    match op {
        None => rows.retain(|row| row.collective != collective),
        Some(op) => {
            // An island of one rank has no library.
            let rows = rows.iter_mut().filter(|row| row.collective == collective);
            rows.for_each(|row| row.op_mask &= !(1 << op.0));
        }
    }
}

/// Takes a promise away from all rows of an island.
pub(super) fn withdraw(world: &mut World, island: usize, flag: u64) {
    world.capabilities[island]
        .rows
        .iter_mut()
        .for_each(|row| row.flags &= !flag);
}

/// What a library that only adds has: no AVG, no PREMUL_SUM, no gather and scatter.
pub(super) fn poor(world: &mut World, island: usize) {
    for collective in [
        Collective::ALL_REDUCE,
        Collective::REDUCE,
        Collective::REDUCE_SCATTER,
    ] {
        lacks(world, island, collective, Some(RedOp::AVG));
        lacks(world, island, collective, Some(RedOp::PREMUL_SUM));
    }
    lacks(world, island, Collective::GATHER, None);
    lacks(world, island, Collective::SCATTER, None);
    withdraw(world, island, cap_flags::ACCUMULATES_FP32);
}
