//! What becomes of the steps that were given to plugins: done, failed, or proof that ranks disagree.

use super::engine::Engine;
use super::links::Arrival;
use super::watch::Label;
use crate::error::{Error, ErrorKind, Result};
use crate::schedule::Action;
use infiniccl_plugin_api::Status;

impl Engine {
    pub(super) fn arrived(&mut self, arrival: &Arrival) -> Result<()> {
        let (index, step) = split(arrival.token);
        let receives = {
            let schedule = &self.instances[index].prepared.schedule;
            matches!(schedule.actions[step as usize], Action::Recv { .. })
        };
        let disagrees = arrival.status == Status::MISMATCH
            || (receives && arrival.status.is_ok() && arrival.imm != self.instances[index].check);
        if disagrees {
            return Err(self.disagreement(arrival, index));
        }
        if arrival.status.is_error() {
            return Err(self.link_error(arrival));
        }
        self.step_done(index, step)
    }

    pub(super) fn vendor_ended(&mut self, token: u64, status: Status) -> Result<()> {
        let (index, step) = split(token);
        if status == Status::MISMATCH {
            let island = self.island.as_ref().ok_or_else(no_island)?;
            let text = island.error(status);
            return Err(self.watch.disagreement(self.label(), None, &text));
        }
        if status.is_error() {
            let island = self.island.as_ref().ok_or_else(no_island)?;
            return Err(self.watch.located(island.error(status)));
        }
        self.step_done(index, step)
    }

    fn label(&self) -> Label {
        self.running
            .as_ref()
            .map_or(Label::Collective(0), |running| running.label)
    }

    fn disagreement(&self, arrival: &Arrival, index: usize) -> Error {
        let peer = self.links.as_ref().and_then(|l| l.peer_of(arrival.channel));
        let text = format!(
            "a message of {} bytes with check word {:08x} met a receive with check word {:08x}",
            arrival.bytes, arrival.imm, self.instances[index].check
        );
        self.watch
            .disagreement(self.label(), peer, &Error::new(ErrorKind::Remote, text))
    }

    fn link_error(&self, arrival: &Arrival) -> Error {
        let Some(links) = &self.links else {
            return no_links();
        };
        let peer = links.peer_of(arrival.channel);
        let detail = peer
            .and_then(|p| links.describe(p))
            .map(|(_, text)| text)
            .unwrap_or_default();
        let mut error = Error::new(
            ErrorKind::from(arrival.status),
            format!("the link over {} failed: {detail}", links.plugin_name()),
        );
        if let Some(peer) = peer {
            error = error.with("peer", peer);
        }
        self.watch.located(error)
    }
}

fn split(token: u64) -> (usize, u32) {
    ((token >> 32) as usize, (token & u64::from(u32::MAX)) as u32)
}

pub(super) fn no_island() -> Error {
    Error::new(
        ErrorKind::Internal,
        "the plan uses a vendor library that this rank does not have",
    )
}

pub(super) fn no_links() -> Error {
    Error::new(
        ErrorKind::Internal,
        "the plan uses a network that this rank does not have",
    )
}
