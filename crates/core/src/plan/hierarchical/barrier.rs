//! Barrier: all tell the first rank of their island, the first ranks tell each other, and tell their islands.

use super::View;
use crate::schedule::{Builder, VendorCall};
use infiniccl_plugin_api as abi;
use infiniccl_reduce::DataType;

impl View<'_> {
    /// No rank ends before all have begun.
    ///
    /// The inner phases are a gather and a broadcast of bytes that mean nothing, so that one phase is known to wait
    /// for the other.
    pub(in crate::plan) fn barrier(&self, b: &mut Builder) {
        let leaders: Vec<u32> = self.islands().iter().map(|ranks| ranks[0]).collect();
        let members = self.island().len() as u64;
        let rounds = leaders.len().next_power_of_two().ilog2();
        // One byte from each rank of the island, then one for each token.
        let cells = b.alloc(members + u64::from(rounds) + 1);
        let own = cells.plus(members + u64::from(rounds));
        if !self.alone() {
            let call = VendorCall {
                send: own,
                recv: cells,
                ..self.call(abi::Collective::GATHER, DataType::Uint8, 0, 1)
            };
            self.vendor(b, &[call]);
        }
        if let Some(group) = self.group(&leaders) {
            for round in 0..rounds {
                let distance = 1usize << round;
                let to = (group.me + distance) % leaders.len();
                let from = (group.me + leaders.len() - distance) % leaders.len();
                let heard = members + u64::from(round);
                b.send_token(leaders[to], cells, heard);
                b.recv_token(leaders[from], cells.plus(heard));
            }
        }
        if !self.alone() {
            let call = VendorCall {
                send: cells,
                recv: cells,
                ..self.call(
                    abi::Collective::BROADCAST,
                    DataType::Uint8,
                    0,
                    members + u64::from(rounds),
                )
            };
            self.vendor(b, &[call]);
        }
    }
}
