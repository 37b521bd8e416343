//! The error bound of a way: how many roundings a result may have seen.
//!
//! A sum whose every input passes at most s roundings, each with a relative error of at most the type's unit
//! roundoff u, is off by at most about s·u·Σ|x|; a product that s roundings went into, by about s·u·|Π x|. What is
//! lost below the smallest normal number comes on top, once for each rounding.

use super::algorithm::Algorithm;
use super::choose;
use super::eligible::{Inner, inner_reduction};
use super::lower::Mode;
use super::world::World;
use crate::call::{Collective, RedOp, Request};
use crate::capability::Case;
use infiniccl_reduce::{DataType, ReduceOp};

/// The most roundings to the element type that an input passes on its way into a result (for products: that a
/// result is made of).
///
/// A step that combines several 16-bit or 8-bit floats at once computes in float32 and rounds once; of float32 and
/// float64, every addition counts. The factor on the result of an AVG and the scalar of a PREMUL_SUM count one.
/// Zero for integers, MIN, MAX, and collectives that reduce nothing.
pub(super) fn rounding_steps(world: &World, request: &Request, algorithm: Algorithm) -> u32 {
    let ranks = u64::from(world.size());
    if !request.collective.reduces() || !request.dtype.is_float() || ranks == 1 {
        return match request.op {
            RedOp::PreMulSum { .. } if request.collective.reduces() && request.dtype.is_float() => 1,
            _ => 0,
        };
    }
    let op = match Mode::of(request, ranks) {
        Mode::Plain(op) => op,
        Mode::AvgFloat | Mode::AvgInteger(_) | Mode::Premul(_) => ReduceOp::Sum,
    };
    let scaling = match request.op {
        RedOp::Fixed(ReduceOp::Max | ReduceOp::Min) => return 0,
        RedOp::Fixed(ReduceOp::Avg) | RedOp::PreMulSum { .. } => 1,
        RedOp::Fixed(ReduceOp::Sum | ReduceOp::Prod) => 0,
    };
    let combine = Combine {
        wide: matches!(request.dtype, DataType::Float32 | DataType::Float64),
        product: op == ReduceOp::Prod,
    };
    let steps = match algorithm {
        Algorithm::Vendor => {
            let case = choose::case(request, ranks);
            combine.library(
                ranks,
                world.capabilities[0].rounds_once(&case, request.bytes(), request.bytes()),
            )
        }
        Algorithm::Hierarchical { .. } => hierarchical(world, request, combine),
        flat => combine.flat(flat, ranks),
    };
    u32::try_from(steps.saturating_add(scaling)).unwrap_or(u32::MAX)
}

/// Whether a call must not round between ranks more often than it has to: the mean of 16-bit and 8-bit floats, whose
/// few bits a chain of partial sums wears away (sixteen times 60000 would come to 59936 in float16).
pub(super) fn must_round_once(world: &World, request: &Request) -> bool {
    let narrow = request.dtype.is_float() && request.dtype.size() <= 2;
    narrow && request.collective.reduces() && Mode::of(request, u64::from(world.size())) == Mode::AvgFloat
}

fn hierarchical(world: &World, request: &Request, combine: Combine) -> u64 {
    let islands = &world.topology.islands;
    let Ok((dtype, op, inner)) = inner_reduction(world, request) else {
        return u64::MAX;
    };
    let (least, most) = (dtype.size() as u64, u64::MAX);
    let inside = islands.iter().zip(&world.capabilities).map(|(ranks, caps)| {
        let ranks = ranks.len() as u64;
        let once = |collective| {
            let case = Case {
                collective,
                dtype,
                op: Some(op),
                bytes: 0,
                ranks,
            };
            caps.rounds_once(&case, least, most)
        };
        // AllReduce may use either of them.
        let both = once(Collective::Reduce)
            && (request.collective != Collective::AllReduce || once(Collective::ReduceScatter));
        match ranks {
            1 => 0,
            _ => combine.library(ranks, both),
        }
    });
    let inside = match combine.product {
        true => inside.sum::<u64>(),
        false => inside.max().unwrap_or(0),
    };
    // Scaled by a power of two, which is exact but for subnormals.
    let before = u64::from(inner != Inner::Plain);
    // Which algorithm runs between the islands depends on the size; none of them rounds more often than a ring.
    let between = match must_round_once(world, request) {
        true => Algorithm::Direct,
        false => Algorithm::Ring,
    };
    inside + before + combine.flat(between, islands.len() as u64)
}

/// How values are combined.
#[derive(Debug, Clone, Copy)]
struct Combine {
    /// Every addition rounds to the element type.
    wide: bool,
    product: bool,
}

impl Combine {
    /// A library that rounds once, or in any order.
    fn library(self, ranks: u64, once: bool) -> u64 {
        if once && !self.wide { 1 } else { ranks - 1 }
    }

    fn flat(self, algorithm: Algorithm, members: u64) -> u64 {
        use Algorithm as A;
        let all = members - 1;
        let folded = u64::from(members.ilog2()) + u64::from(!members.is_power_of_two());
        let levels = u64::from(members.next_power_of_two().ilog2());
        match algorithm {
            A::Direct if !self.wide => 1,
            _ if self.product => all,
            A::RecursiveDoubling | A::Rabenseifner | A::RecursiveHalving => folded,
            // A node combines its own value and those of all its children at once.
            A::Binomial if self.wide => levels,
            A::Binomial => u64::from(members.ilog2()),
            // Two children at most, and the own input.
            A::DoubleTree if self.wide => (2 * levels).min(all),
            A::DoubleTree => levels,
            _ => all,
        }
    }
}
