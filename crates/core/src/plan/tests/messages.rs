//! What the schedules of several ranks have in common, without running them.

use crate::schedule::{Action, Schedule, VendorCall};
use std::collections::BTreeMap;

/// Collective, type, operator, root and count of a vendor call.
type VendorShape = (u32, u32, u32, u32, u64);

/// Sizes of the messages to and from each peer, in order: what must not depend on a rank's own buffers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Messages {
    sent: BTreeMap<u32, Vec<u64>>,
    received: BTreeMap<u32, Vec<u64>>,
    /// The calls of the vendor's library, in groups, without their buffers and factors.
    calls: Vec<Vec<VendorShape>>,
}

impl Messages {
    pub(super) fn of(schedule: &Schedule) -> Messages {
        let mut messages = Messages::default();
        for action in &schedule.actions {
            match *action {
                Action::Send { peer, bytes, .. } => messages.sent.entry(peer).or_default().push(bytes),
                Action::Recv { peer, bytes, .. } => messages.received.entry(peer).or_default().push(bytes),
                Action::Vendor { first, len } => {
                    let key = |c: &VendorCall| (c.collective.0, c.dtype.code(), c.op.0, c.root, c.count);
                    messages
                        .calls
                        .push(schedule.calls_of(first, len).iter().map(key).collect());
                }
                _ => {}
            }
        }
        messages
    }

    /// Requires that what each rank sends is what its peer receives, and that the ranks of an island make the same
    /// calls.
    pub(super) fn meet(ranks: &[Messages], islands: &[Vec<u32>]) -> Result<(), String> {
        let none = Vec::new();
        for (from, messages) in (0u32..).zip(ranks) {
            for (to, peer) in (0u32..).zip(ranks) {
                let sent = messages.sent.get(&to).unwrap_or(&none);
                let received = peer.received.get(&from).unwrap_or(&none);
                if sent != received {
                    let at = sent.iter().zip(received).position(|(a, b)| a != b);
                    return Err(format!(
                        "rank {from} sends {} messages to rank {to}, which receives {}; the first that differs: {at:?}",
                        sent.len(),
                        received.len()
                    ));
                }
            }
        }
        for island in islands {
            let calls = |rank: u32| &ranks[rank as usize].calls;
            if let Some(rank) = island.iter().find(|r| calls(**r) != calls(island[0])) {
                return Err(format!(
                    "rank {rank} makes other vendor calls than rank {}",
                    island[0]
                ));
            }
        }
        Ok(())
    }
}
