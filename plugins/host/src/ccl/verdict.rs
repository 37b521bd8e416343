//! Who is the odd one out when ranks do not mean the same call.

use super::bell::bit;
use super::call::Words;
use super::segment::Segment;
use infiniccl_plugin_api::{Collective, DType, Failure, RedOp, Status};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a rank that found a difference waits for the others, to tell who differs from most.
const PATIENCE: Duration = Duration::from_millis(50);

/// Waits a little for all arrivals at call `number`, then makes the communicator fail, naming the first rank that
/// differs from most. Until then: the ranks that are missing.
#[cold]
pub(crate) fn reach(segment: &Segment, number: u32, since: Option<Instant>) -> Result<u64, Failure> {
    let mut missing = 0;
    let mut calls = Vec::with_capacity(segment.ranks());
    for rank in 0..segment.ranks() {
        let board = segment.board(rank);
        let mailbox = &board.mailboxes[(number % 2) as usize];
        if mailbox.call.load(Ordering::Acquire) == number {
            let record = &board.record;
            let words = Words {
                collective: record.collective.load(Ordering::Relaxed),
                dtype: record.dtype.load(Ordering::Relaxed),
                op: record.op.load(Ordering::Relaxed),
                root: record.root.load(Ordering::Relaxed),
                count: record.count.load(Ordering::Relaxed),
                check: record.check.load(Ordering::Relaxed),
            };
            calls.push((rank, mailbox.signature.load(Ordering::Relaxed), words));
        } else {
            missing |= bit(rank);
        }
    }
    if missing != 0 && since.is_some_and(|since| since.elapsed() < PATIENCE) {
        return Ok(missing);
    }
    let votes = |signature: u64| calls.iter().filter(|call| call.1 == signature).count();
    // Of several largest groups the one with the lowest rank counts, so that all ranks say the same.
    let most = calls.iter().map(|call| votes(call.1)).max().unwrap_or(0);
    let usual = calls.iter().find(|call| votes(call.1) == most);
    let odd = calls
        .iter()
        .find(|call| usual.is_some_and(|usual| usual.1 != call.1));
    let (Some(usual), Some(odd)) = (usual, odd) else {
        return Ok(missing);
    };
    let text = format!(
        "the ranks disagree about a call: rank {} called {}, rank {} called {}",
        odd.0,
        describe(&odd.2, &usual.2),
        usual.0,
        describe(&usual.2, &odd.2)
    );
    Err(segment.fail(Failure::new(Status::MISMATCH, text), odd.0))
}

/// A call in words: its name, and of the rest only what differs from `other`.
fn describe(words: &Words, other: &Words) -> String {
    let mut text = Collective(words.collective)
        .name()
        .unwrap_or("an unknown collective")
        .to_owned();
    let mut add = |differs: bool, part: String| {
        if differs {
            text.push_str(&part);
        }
    };
    let dtype = DType(words.dtype).name().unwrap_or("unknown");
    add(
        words.count != other.count,
        format!(" of {} elements", words.count),
    );
    add(words.dtype != other.dtype, format!(" of type {dtype}"));
    add(
        words.op != other.op,
        format!(" with {}", RedOp(words.op).name().unwrap_or("unknown")),
    );
    add(words.root != other.root, format!(" with root {}", words.root));
    let same =
        (words.count, words.dtype, words.op, words.root) == (other.count, other.dtype, other.op, other.root);
    add(
        words.check != other.check && same,
        format!(" with check word {:#x}", words.check),
    );
    add(
        same && words.check == other.check,
        " with other counts".to_owned(),
    );
    text
}
