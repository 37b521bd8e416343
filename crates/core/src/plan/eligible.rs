//! Whether the islands' libraries have what a hierarchical algorithm asks of them.

use super::hierarchical::{SMALL_BLOCK, STAGE, staged};
use super::lower::{Mode, pre_factor_bits};
use super::{build, costs, world::World};
use crate::call::{Collective, RedOp, Request};
use crate::capability::Case;
use infiniccl_reduce::{DataType, ReduceOp};

/// How inputs come to be scaled for an AVG of floats, when libraries reduce them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inner {
    /// They are not.
    Plain,
    /// The library multiplies by the factor with these bits (PREMUL_SUM).
    ByLibrary(u64),
    /// Each rank multiplies by it before the library sees them.
    Before(u64),
}

impl Inner {
    /// The factor that the library is given.
    pub(super) fn scale_bits(self) -> Option<u64> {
        match self {
            Inner::ByLibrary(bits) => Some(bits),
            Inner::Plain | Inner::Before(_) => None,
        }
    }

    /// The factor that is applied before.
    pub(super) fn scaled_before(self) -> Option<u64> {
        match self {
            Inner::Before(bits) => Some(bits),
            Inner::Plain | Inner::ByLibrary(_) => None,
        }
    }
}

/// The reduction that the islands are asked for: element type, operator, and how inputs are scaled.
pub(super) fn inner_reduction(world: &World, request: &Request) -> Result<(DataType, RedOp, Inner), String> {
    let ranks = u64::from(world.size());
    let dtype = request.dtype;
    let sum = RedOp::Fixed(ReduceOp::Sum);
    match Mode::of(request, ranks) {
        Mode::Plain(op) => Ok((dtype, RedOp::Fixed(op), Inner::Plain)),
        Mode::AvgInteger(wide) => Ok((wide.lane_type(), sum, Inner::Plain)),
        Mode::Premul(_) => Ok((dtype, sum, Inner::Plain)),
        Mode::AvgFloat => {
            let bits = pre_factor_bits(dtype, ranks)
                .ok_or_else(|| format!("{dtype} cannot express the factor of an avg over {ranks} ranks"))?;
            let premul = RedOp::PreMulSum { scalar_bits: bits };
            let asked = case(Collective::Reduce, dtype, Some(premul));
            let (least, most) = (dtype.size() as u64, largest_reduction(world, request));
            Ok(match world.native_in_all(asked, least, most) {
                Ok(()) => (dtype, premul, Inner::ByLibrary(bits)),
                Err(_) => (dtype, sum, Inner::Before(bits)),
            })
        }
    }
}

/// Why there is no hierarchical algorithm with `flows` flows for a request, if there is none.
pub(super) fn hierarchy(world: &World, request: &Request, flows: u32) -> Result<(), String> {
    use Collective as C;
    if world.one_island() {
        return Err("all ranks are in one island".into());
    }
    if world.largest_island() == 1 {
        return Err("every island has one rank".into());
    }
    let total = costs::total_bytes(world, request, None);
    let ranks = u64::from(world.size());
    let chunk = build::tuning(world, request, None).chunk;
    let block = request.bytes();
    let native = |collective, dtype: DataType, op, most: u64| {
        let least = if collective == C::Barrier {
            0
        } else {
            dtype.size() as u64
        };
        world.native_in_all(case(collective, dtype, op), least, most.max(least))
    };
    let moves = |collective, most| native(collective, DataType::Uint8, None, most);
    let reduces = || {
        let (dtype, op, _) = inner_reduction(world, request)?;
        native(C::Reduce, dtype, Some(op), largest_reduction(world, request)).map(|()| dtype)
    };
    let short = || match total {
        0..=STAGE => Ok(()),
        _ => Err(format!(
            "blocks of {total} bytes in all are too long to be staged on one rank"
        )),
    };
    match request.collective {
        C::AllReduce => native(C::Broadcast, reduces()?, None, largest_reduction(world, request)),
        C::Reduce => reduces().map(drop),
        C::Broadcast => moves(C::Broadcast, total.min(chunk)),
        C::AllGather if flows == 1 => {
            short()?;
            moves(C::Gather, block)?;
            moves(C::Broadcast, total)
        }
        C::AllGather => moves(C::Broadcast, block.min(chunk)),
        C::ReduceScatter if flows == 1 => {
            short()?;
            let elem = request.dtype.size() as u64;
            let carried = reduces()?.size() as u64;
            moves(C::Scatter, block / elem * 2 * carried.max(elem))
        }
        C::ReduceScatter => reduces().map(drop),
        C::Gather | C::Scatter => {
            let most = u64::from(world.largest_island());
            let piece = if block <= SMALL_BLOCK {
                block
            } else {
                staged(block.min(chunk), most, 1)
            };
            moves(request.collective, piece)
        }
        C::Barrier => {
            moves(C::Gather, 1)?;
            moves(C::Broadcast, ranks + u64::from(u64::BITS))
        }
        other => Err(format!("there is no hierarchical {other}")),
    }
}

/// Bytes of the longest reduction that an island is asked for.
fn largest_reduction(world: &World, request: &Request) -> u64 {
    let carried = costs::carried_bytes(world, request, None);
    let chunk = build::tuning(world, request, None).chunk;
    match request.collective {
        Collective::ReduceScatter => carried.min(chunk.max(STAGE)),
        _ => carried.min(chunk),
    }
}

fn case(collective: Collective, dtype: DataType, op: Option<RedOp>) -> Case {
    Case {
        collective,
        dtype,
        op,
        bytes: 0,
        ranks: 0,
    }
}
