//! A collective call as this rank made it: checked arguments, which bytes go where, and its signature.

use super::combine::Combine;
use crate::error::usage;
use infiniccl_plugin_api::{CollDesc, Collective, Failure, Status, slice};
use infiniccl_reduce::DataType;

/// Who gives and who gets. `None` is every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// All contributions are reduced to one; the rank, or every rank, gets the result.
    Fold { to: Option<usize> },
    /// Each contribution goes as a whole to all that get.
    Collect { from: Option<usize>, to: Option<usize> },
    /// Each contribution has a part for each rank; `fold`: parts for one rank are reduced there.
    Spread { from: Option<usize>, fold: bool },
}

/// Offset and length of a block in a buffer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// Which block of a buffer belongs to a rank.
#[derive(Debug)]
enum Blocks {
    /// One block, whoever asks.
    One(usize),
    /// Blocks of equal length in rank order.
    Equal(usize),
    /// As the caller's counts and displacements say.
    Table(Box<[Block]>),
}

impl Blocks {
    fn of(&self, rank: usize) -> Block {
        match self {
            Blocks::One(len) => Block { at: 0, len: *len },
            Blocks::Equal(len) => Block {
                at: rank * len,
                len: *len,
            },
            Blocks::Table(blocks) => blocks[rank],
        }
    }

    fn longest(&self) -> usize {
        match self {
            Blocks::One(len) | Blocks::Equal(len) => *len,
            Blocks::Table(blocks) => blocks.iter().map(|block| block.len).max().unwrap_or(0),
        }
    }
}

/// A collective with checked arguments.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) collective: Collective,
    pub(crate) dtype: DataType,
    pub(crate) route: Route,
    pub(crate) combine: Option<Combine>,
    pub(crate) send: *const u8,
    pub(crate) recv: *mut u8,
    /// Equal on all ranks that mean the same call.
    pub(crate) signature: u64,
    /// The caller's words, for messages.
    pub(crate) words: Words,
    /// Blocks of the send buffer, by the rank that gets them.
    out: Blocks,
    /// Blocks of the receive buffer, by the rank that gave them.
    into: Blocks,
}

/// What ranks must agree about, as the caller said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) collective: u32,
    pub(crate) dtype: u32,
    pub(crate) op: u32,
    pub(crate) root: u32,
    pub(crate) count: u64,
    pub(crate) check: u64,
}

// SAFETY: the pointers are the caller's buffers, lent until the call has ended, to whichever thread runs it.
unsafe impl Send for Call {}

impl Call {
    /// Checks a descriptor on rank `me` of `ranks`.
    ///
    /// # Safety
    /// Counts and displacements, if the collective has them, must be readable during this call.
    pub(crate) unsafe fn new(desc: &CollDesc, me: usize, ranks: usize) -> Result<Call, Failure> {
        use Collective as C;
        let dtype = match desc.collective {
            C::BARRIER => DataType::Uint8,
            _ => DataType::try_from(desc.dtype.0)
                .map_err(|unknown| Failure::new(Status::UNSUPPORTED, unknown.to_string()))?,
        };
        let (rooted, reduces) = match desc.collective {
            C::ALL_REDUCE | C::REDUCE_SCATTER | C::REDUCE_SCATTER_V => (false, true),
            C::REDUCE => (true, true),
            C::BROADCAST | C::GATHER | C::SCATTER => (true, false),
            C::ALL_GATHER | C::ALL_GATHER_V | C::ALL_TO_ALL | C::ALL_TO_ALL_V | C::BARRIER => (false, false),
            other => {
                let text = format!("collective {} is unknown to the host plugin", other.0);
                return Err(Failure::new(Status::UNSUPPORTED, text));
            }
        };
        let root = usize::try_from(desc.root).unwrap_or(usize::MAX);
        if rooted && root >= ranks {
            return Err(usage(format!("root {} of {ranks} ranks", desc.root)));
        }
        let root = rooted.then_some(root);
        let combine = match reduces {
            true => Some(Combine::new(dtype, desc.op, desc.scale_bits)?),
            false => None,
        };
        let count = if desc.collective == C::BARRIER {
            0
        } else {
            desc.count
        };
        let each = bytes(count, dtype, ranks)?;
        // SAFETY: the caller's promise.
        let tables = |lists| unsafe { tables(desc, dtype, ranks, lists) };
        let (route, out, into) = match desc.collective {
            C::ALL_REDUCE | C::REDUCE => (Route::Fold { to: root }, Blocks::One(each), Blocks::One(each)),
            C::BROADCAST => (
                Route::Collect { from: root, to: None },
                Blocks::One(each),
                Blocks::One(each),
            ),
            C::GATHER | C::ALL_GATHER => (
                Route::Collect { from: None, to: root },
                Blocks::One(each),
                Blocks::Equal(each),
            ),
            C::ALL_GATHER_V => {
                let into = tables(1)?.remove(0);
                let mine = into[me].len;
                (
                    Route::Collect { from: None, to: None },
                    Blocks::One(mine),
                    Blocks::Table(into),
                )
            }
            C::REDUCE_SCATTER | C::SCATTER => (
                Route::Spread {
                    from: root,
                    fold: reduces,
                },
                Blocks::Equal(each),
                Blocks::One(each),
            ),
            C::REDUCE_SCATTER_V => {
                let out = tables(1)?.remove(0);
                let mine = out[me].len;
                (
                    Route::Spread {
                        from: None,
                        fold: true,
                    },
                    Blocks::Table(out),
                    Blocks::One(mine),
                )
            }
            C::ALL_TO_ALL => (
                Route::Spread {
                    from: None,
                    fold: false,
                },
                Blocks::Equal(each),
                Blocks::Equal(each),
            ),
            C::ALL_TO_ALL_V => {
                let mut both = tables(2)?;
                let into = Blocks::Table(both.remove(1));
                (
                    Route::Spread {
                        from: None,
                        fold: false,
                    },
                    Blocks::Table(both.remove(0)),
                    into,
                )
            }
            // A barrier moves nothing; the arrival of all is all there is to it.
            _ => (
                Route::Collect { from: None, to: None },
                Blocks::One(0),
                Blocks::One(0),
            ),
        };
        let words = Words {
            collective: desc.collective.0,
            dtype: dtype.code(),
            op: if reduces { desc.op.0 } else { 0 },
            root: if rooted { desc.root } else { 0 },
            count: if desc.counts.is_null() { count } else { 0 },
            check: desc.check,
        };
        let mut call = Call {
            collective: desc.collective,
            dtype,
            route,
            combine,
            send: desc.send,
            recv: desc.recv,
            signature: 0,
            words,
            out,
            into,
        };
        call.signature = call.sign();
        call.check_pointers(me, ranks)?;
        Ok(call)
    }

    /// Whether this rank puts something into its slot.
    pub(crate) fn gives(&self, me: usize) -> bool {
        match self.route {
            Route::Fold { .. } => true,
            Route::Collect { from, .. } | Route::Spread { from, .. } => from.is_none_or(|root| root == me),
        }
    }

    /// Whether this rank gets a result.
    pub(crate) fn gets(&self, me: usize) -> bool {
        match self.route {
            Route::Fold { to } | Route::Collect { to, .. } => to.is_none_or(|root| root == me),
            Route::Spread { .. } => true,
        }
    }

    /// The only rank that gives, if there is one.
    pub(crate) fn giver(&self) -> Option<usize> {
        match self.route {
            Route::Fold { .. } => None,
            Route::Collect { from, .. } | Route::Spread { from, .. } => from,
        }
    }

    /// The only rank that gets, if there is one.
    pub(crate) fn getter(&self) -> Option<usize> {
        match self.route {
            Route::Fold { to } | Route::Collect { to, .. } => to,
            Route::Spread { .. } => None,
        }
    }

    /// What this rank gives to `rank`, as a part of its send buffer.
    pub(crate) fn outgoing(&self, rank: usize) -> Block {
        self.out.of(rank)
    }

    /// Where what `rank` gave goes in this rank's receive buffer.
    pub(crate) fn incoming(&self, rank: usize) -> Block {
        self.into.of(rank)
    }

    /// The longest block that moves between any two ranks, as far as this rank knows.
    pub(crate) fn longest(&self) -> usize {
        match self.route {
            Route::Fold { .. } => self.out.longest(),
            Route::Collect { .. } => self.into.longest(),
            Route::Spread { .. } => self.out.longest(),
        }
    }

    /// Bytes that all ranks together read and write, if all do as this one.
    pub(crate) fn footprint(&self, me: usize, ranks: usize) -> usize {
        let (out, into) = match self.route {
            Route::Fold { .. } => (self.outgoing(me).len, self.incoming(me).len),
            Route::Collect { .. } => (self.outgoing(me).len, self.incoming(me).len.saturating_mul(ranks)),
            Route::Spread { .. } => (self.outgoing(me).len.saturating_mul(ranks), self.incoming(me).len),
        };
        out.saturating_add(into).saturating_mul(ranks)
    }

    /// Whether lengths differ by pair and no rank knows all of them.
    pub(crate) fn is_private(&self) -> bool {
        self.collective == Collective::ALL_TO_ALL_V
    }

    /// The call of a communicator of one rank.
    ///
    /// # Safety
    /// The buffers are valid as the descriptor promised.
    pub(crate) unsafe fn alone(&self) {
        let (from, to) = (self.outgoing(0), self.incoming(0));
        let (src, dst) = (self.send.wrapping_add(from.at), self.recv.wrapping_add(to.at));
        let len = from.len.min(to.len);
        if len == 0 || self.recv.is_null() {
            return;
        }
        // SAFETY: as above; equal or apart, by the rules of the calls.
        unsafe {
            match self.combine {
                Some(combine) if combine.multiplies() => {
                    combine.contribute(self.dtype, dst, src, len / self.dtype.size());
                }
                Some(combine) => combine.run(self.dtype, dst, [src].into_iter(), len / self.dtype.size()),
                None => std::ptr::copy(src, dst, len),
            }
        }
    }

    fn sign(&self) -> u64 {
        let words = self.words;
        let mut hash = mix(
            0x9e37_79b9_7f4a_7c15,
            u64::from(words.collective) << 32 | u64::from(words.dtype),
        );
        hash = mix(hash, u64::from(words.op) << 32 | u64::from(words.root));
        hash = mix(hash, words.count);
        hash = mix(hash, words.check);
        let shared = match self.collective {
            Collective::ALL_GATHER_V => &self.into,
            Collective::REDUCE_SCATTER_V => &self.out,
            _ => return hash,
        };
        if let Blocks::Table(blocks) = shared {
            for block in blocks {
                hash = mix(hash, block.len as u64);
            }
        }
        hash
    }

    fn check_pointers(&self, me: usize, ranks: usize) -> Result<(), Failure> {
        let out: usize = match self.route {
            _ if !self.gives(me) => 0,
            Route::Spread { .. } => (0..ranks).map(|rank| self.outgoing(rank).len).max().unwrap_or(0),
            Route::Fold { .. } | Route::Collect { .. } => self.outgoing(me).len,
        };
        if out > 0 && self.send.is_null() {
            return Err(usage("the send buffer is a null pointer"));
        }
        let optional = self.collective == Collective::BROADCAST && self.giver() == Some(me);
        let into = (0..ranks).map(|rank| self.incoming(rank).len).max().unwrap_or(0);
        if self.gets(me) && into > 0 && self.recv.is_null() && !optional {
            return Err(usage("the receive buffer is a null pointer"));
        }
        Ok(())
    }
}

fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ hash >> 32
}

/// Bytes of `count` elements; all ranks' blocks together must fit into an address space.
fn bytes(count: u64, dtype: DataType, ranks: usize) -> Result<usize, Failure> {
    usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(dtype.size()))
        .filter(|each| {
            each.checked_mul(ranks)
                .is_some_and(|all| isize::try_from(all).is_ok())
        })
        .ok_or_else(|| {
            usage(format!(
                "{count} elements of {dtype} do not fit into an address space"
            ))
        })
}

/// Reads `lists` lists of counts and displacements, one entry for each rank.
///
/// # Safety
/// The descriptor's lists are null or readable.
unsafe fn tables(
    desc: &CollDesc,
    dtype: DataType,
    ranks: usize,
    lists: usize,
) -> Result<Vec<Box<[Block]>>, Failure> {
    let entries = (ranks * lists) as u64;
    // SAFETY: the caller's promise.
    let (counts, displs) = unsafe {
        let displs = match desc.displs.is_null() {
            true => None,
            false => Some(slice(desc.displs, entries).map_err(|_| usage("displs is misaligned"))?),
        };
        (
            slice(desc.counts, entries).map_err(|_| usage("counts is a null pointer or misaligned"))?,
            displs,
        )
    };
    let mut result = Vec::with_capacity(lists);
    for list in 0..lists {
        let mut end = 0;
        let mut blocks = Vec::with_capacity(ranks);
        for entry in list * ranks..(list + 1) * ranks {
            let len = bytes(counts[entry], dtype, 1)?;
            let at = match displs {
                Some(displs) => bytes(displs[entry], dtype, 1)?,
                None => end,
            };
            end = at
                .checked_add(len)
                .filter(|end| isize::try_from(*end).is_ok())
                .ok_or_else(|| usage("counts and displacements do not fit into an address space"))?;
            blocks.push(Block { at, len });
        }
        result.push(blocks.into_boxed_slice());
    }
    Ok(result)
}
