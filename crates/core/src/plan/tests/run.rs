//! Runs a request on all ranks of a mock world in the simulator, and compares every byte.

use super::data::Data;
use super::worlds::Random;
use crate::plan::rounding::rounding_steps;
use crate::plan::{Algorithm, World, build};
use crate::schedule::{InPlace, Schedule};
use crate::simulate::{Memory, Order, simulate};

/// What fills outputs at first.
const POISON: u8 = 0xA7;

/// Which ranks work in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Places {
    Apart,
    Shared,
    /// Every rank as it likes.
    Mixed,
}

/// A request in a world, and how it is carried out.
pub(super) struct Trial<'a> {
    pub(super) world: &'a World,
    pub(super) data: Data,
    pub(super) algorithm: Algorithm,
    pub(super) places: Places,
    pub(super) seed: u64,
}

impl Trial<'_> {
    fn ranks(&self) -> usize {
        self.world.size() as usize
    }

    /// Where input and output of a rank share a buffer.
    pub(super) fn shared(&self, rank: usize) -> Option<(InPlace, usize)> {
        let wants = match self.places {
            Places::Apart => false,
            Places::Shared => true,
            Places::Mixed => Random(self.seed ^ rank as u64).below(2) == 0,
        };
        // A buffer that is not there is not shared.
        let both = self.data.case.send_elements(rank) > 0 && self.data.case.recv_elements(rank) > 0;
        self.data.in_place(rank).filter(|_| wants && both)
    }

    pub(super) fn schedules(&self) -> Vec<Schedule> {
        let one = |rank: usize| {
            let vector = self.data.vector(rank);
            let request = self.data.request(rank);
            let in_place = self.shared(rank).map(|(place, _)| place);
            build::build(
                self.world,
                rank as u32,
                &request,
                vector.as_ref(),
                in_place,
                self.algorithm,
            )
        };
        (0..self.ranks()).map(one).collect()
    }

    fn memory(&self, rank: usize) -> Memory {
        let input = self.data.case.send(rank);
        let output = self.data.case.recv_elements(rank) * self.data.size();
        match self.shared(rank) {
            None => Memory::apart(input, vec![POISON; output]),
            Some((place, bytes)) => {
                let mut buffer = vec![POISON; bytes];
                let start = place.send_offset as usize;
                buffer[start..start + input.len()].copy_from_slice(&input);
                Memory::shared(buffer, place)
            }
        }
    }

    /// Runs it, and says what is wrong.
    pub(super) fn run(&self) -> Result<(), String> {
        let schedules = self.schedules();
        let mut memories: Vec<Memory> = (0..self.ranks()).map(|r| self.memory(r)).collect();
        let order = match self.seed % 4 {
            0 => Order::Program,
            1 => Order::Buffered(self.seed),
            _ => Order::Rendezvous(self.seed),
        };
        simulate(&schedules, &mut memories, &self.world.topology.islands, order)?;
        if order == Order::Program {
            // A deadlock must not hide behind the one order that has none.
            let mut again: Vec<Memory> = (0..self.ranks()).map(|r| self.memory(r)).collect();
            simulate(
                &schedules,
                &mut again,
                &self.world.topology.islands,
                Order::Rendezvous(self.seed),
            )?;
            if memories.iter().zip(&again).any(|(a, b)| a.output() != b.output()) {
                return Err("another order of steps gives other bytes".into());
            }
        }
        let mut first: Option<Vec<u8>> = None;
        for (rank, memory) in memories.iter().enumerate() {
            let output = self.output(rank, memory)?;
            let steps = rounding_steps(self.world, &self.data.request(rank), self.algorithm);
            let all_reduce = self.data.collective == crate::call::Collective::AllReduce;
            match &first {
                // The first rank's bytes were right.
                Some(first) if all_reduce => {
                    if *first != output {
                        return Err(format!("rank {rank} has other bytes than rank 0"));
                    }
                }
                _ => {
                    if let Some(wrong) = self.data.wrong(rank, &output, steps) {
                        return Err(format!("rank {rank}: {wrong}"));
                    }
                    first = Some(output);
                }
            }
        }
        Ok(())
    }

    /// The output of a rank; all else must be as it was.
    fn output(&self, rank: usize, memory: &Memory) -> Result<Vec<u8>, String> {
        let before = self.memory(rank);
        let bytes = self.data.case.recv_elements(rank) * self.data.size();
        let start = self
            .shared(rank)
            .map_or(0, |(place, _)| place.recv_offset as usize);
        let (was, is) = (before.output(), memory.output());
        if was[..start] != is[..start] || was[start + bytes..] != is[start + bytes..] {
            return Err(format!("rank {rank}: bytes around the output changed"));
        }
        Ok(is[start..start + bytes].to_vec())
    }
}
