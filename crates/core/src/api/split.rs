//! Communicators out of communicators: split and duplicate.

use super::communicator::Communicator;
use super::init::init;
use crate::error::{Error, ErrorKind, Result};
use std::time::Instant;

impl Communicator {
    /// Ranks of the same `color` form a new communicator, ordered by `key` and then by rank. `None`: this rank
    /// takes part in the call, and gets no communicator.
    ///
    /// Collective; blocks until the new communicators exist, at most `timeouts.connect`.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Communicator>> {
        let context = self.context();
        let deadline = Instant::now() + context.config().timeouts.connect;
        let control = &self.inner().control;
        let mut mine = Vec::with_capacity(9);
        mine.push(u8::from(color.is_some()));
        mine.extend_from_slice(&color.unwrap_or(0).to_le_bytes());
        mine.extend_from_slice(&key.to_le_bytes());
        let all = control.allgather("splitting", &mine, deadline)?;
        let mut members: Vec<(i32, u32)> = Vec::new();
        for (rank, bytes) in (0u32..).zip(&all) {
            let (theirs, key) = parse(bytes)?;
            if theirs.is_some() && theirs == color {
                members.push((key, rank));
            }
        }
        members.sort_unstable();
        let place = members.iter().position(|(_, rank)| *rank == self.rank());
        // The first rank of each group waits for the others.
        let id = if place == Some(0) {
            control.offer()?
        } else {
            Vec::new()
        };
        let ids = control.allgather("splitting: addresses", &id, deadline)?;
        let Some(place) = place else { return Ok(None) };
        let root = members[0].1 as usize;
        let id = control.offered(&ids[root])?;
        init(context, &id, place as u32, members.len() as u32).map(Some)
    }

    /// A second communicator of the same ranks, which may be used beside this one. Collective.
    pub fn duplicate(&self) -> Result<Communicator> {
        let rank = i32::try_from(self.rank()).unwrap_or(i32::MAX);
        self.split(Some(0), rank)?.ok_or_else(malformed)
    }
}

fn parse(bytes: &[u8]) -> Result<(Option<u32>, i32)> {
    let [given, c0, c1, c2, c3, k0, k1, k2, k3] = *bytes else {
        return Err(malformed());
    };
    let color = (given == 1).then_some(u32::from_le_bytes([c0, c1, c2, c3]));
    Ok((color, i32::from_le_bytes([k0, k1, k2, k3])))
}

fn malformed() -> Error {
    Error::new(ErrorKind::Internal, "the ranks' answers to a split do not decode")
}
