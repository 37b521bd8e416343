//! What the vendor library of each island can do by itself, and what is done in its place.
//!
//! Three layers, in this order: the rows that the library declared, the operator's overrides, and what the rules
//! of the library ask of a result. What comes out is the effective answer that the planner and the reports use.
#![forbid(unsafe_code)]

use crate::call::{Collective, RedOp};
use infiniccl_plugin_api::{CapRow, MemKind, Scope, cap_flags};
use infiniccl_reduce::{DataType, ReduceOp};

/// What the operator wants for some cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Wish {
    Native,
    Emulate,
    Refuse,
}

impl Wish {
    /// The word of the configuration.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Wish::Native => "native",
            Wish::Emulate => "emulate",
            Wish::Refuse => "refuse",
        }
    }
}

/// An override of the configuration; `None` stands for all.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Override {
    pub(crate) plugin: Option<String>,
    pub(crate) collective: Option<String>,
    pub(crate) dtype: Option<String>,
    pub(crate) op: Option<String>,
    pub(crate) wish: Wish,
}

/// What results have to satisfy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Demands {
    /// `numerics = "vendor"`: the vendor's own rounding and NaN rules are good enough.
    pub(crate) vendor_numerics: bool,
    pub(crate) deterministic: bool,
}

/// The case that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Case {
    pub(crate) collective: Collective,
    pub(crate) dtype: DataType,
    pub(crate) op: Option<RedOp>,
    pub(crate) bytes: u64,
    pub(crate) ranks: u64,
}

/// How a case is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The vendor's library does it.
    Native,
    /// The core composes it from other steps; says why it is not native.
    Emulated(String),
    /// Refused; says why.
    Refused(String),
}

/// The capabilities of one island.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Capabilities {
    pub(crate) plugin: String,
    /// Rows that all ranks of the island declared.
    pub(crate) rows: Vec<CapRow>,
    /// Cases whose answer was wrong when it was tried, with what came back.
    pub(crate) disproved: Vec<Disproof>,
    pub(crate) overrides: Vec<Override>,
    pub(crate) demands: Demands,
}

/// A declared case that gave a wrong answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Disproof {
    pub(crate) collective: Collective,
    pub(crate) dtype: DataType,
    /// `None` for collectives without an operator, and for PREMUL_SUM.
    pub(crate) op: Option<ReduceOp>,
    /// What came back.
    pub(crate) what: String,
}

impl Capabilities {
    /// An island without a vendor library: everything is composed.
    pub(crate) fn none(plugin: &str, overrides: Vec<Override>, demands: Demands) -> Self {
        Capabilities {
            plugin: plugin.to_string(),
            rows: Vec::new(),
            disproved: Vec::new(),
            overrides,
            demands,
        }
    }

    /// Whether the vendor declared the case, before overrides and demands.
    pub(crate) fn declares(&self, case: &Case) -> bool {
        self.rows.iter().any(|row| covers(row, case))
    }

    /// What an override asks for the case.
    pub(crate) fn wish(&self, case: &Case) -> Option<Wish> {
        self.overrides
            .iter()
            .find(|o| o.applies(&self.plugin, case))
            .map(|o| o.wish)
    }

    /// What came back when the case was tried, if that was wrong.
    pub(crate) fn disproof(&self, case: &Case) -> Option<&Disproof> {
        let op = match case.op {
            Some(RedOp::Fixed(op)) => Some(op),
            Some(RedOp::PreMulSum { .. }) | None => None,
        };
        self.disproved
            .iter()
            .find(|d| d.collective == case.collective && d.dtype == case.dtype && d.op == op)
    }

    /// How the case is served.
    pub(crate) fn verdict(&self, case: &Case) -> Verdict {
        if case.op == Some(RedOp::Fixed(ReduceOp::Avg)) && case.dtype == DataType::Bool {
            return Verdict::Refused("the mean of bool is not defined".into());
        }
        let wish = self.wish(case);
        match wish {
            Some(Wish::Refuse) => {
                return Verdict::Refused("refused by an override of the configuration".into());
            }
            Some(Wish::Emulate) => {
                return Verdict::Emulated("emulated by an override of the configuration".into());
            }
            Some(Wish::Native) | None => {}
        }
        let rows: Vec<&CapRow> = self.rows.iter().filter(|row| covers(row, case)).collect();
        if rows.is_empty() {
            return Verdict::Emulated(format!("{} does not declare it", self.plugin));
        }
        if let Some(disproof) = self.disproof(case) {
            return Verdict::Emulated(format!("{} answered wrongly: {}", self.plugin, disproof.what));
        }
        if wish == Some(Wish::Native) {
            return Verdict::Native;
        }
        let missing: Vec<&'static str> = rows
            .iter()
            .filter_map(|row| missing_demand(row, case, self.demands))
            .collect();
        if missing.len() < rows.len() {
            return Verdict::Native;
        }
        Verdict::Emulated(format!("{} does not promise {}", self.plugin, missing[0]))
    }

    /// How the case is served for all sizes from `least` to `most` bytes: native if every one of them is, else
    /// what comes of the first that is not. The bytes of the case itself do not matter.
    pub(crate) fn verdict_for_sizes(&self, case: &Case, least: u64, most: u64) -> Verdict {
        // Between the limits of the rows nothing changes.
        let rows = self
            .rows
            .iter()
            .filter(|row| row.collective == case.collective.abi());
        let limits = rows.flat_map(|row| [row.min_bytes, row.max_bytes.saturating_add(1)]);
        let mut sizes: Vec<u64> = limits.filter(|size| least < *size && *size <= most).collect();
        sizes.push(least);
        sizes.sort_unstable();
        let verdicts = sizes.iter().map(|bytes| {
            self.verdict(&Case {
                bytes: *bytes,
                ..*case
            })
        });
        verdicts.fold(Verdict::Native, |first, next| {
            if first == Verdict::Native { next } else { first }
        })
    }

    /// Whether the library promises, for all sizes from `least` to `most` bytes, to round a combination of 16-bit
    /// or 8-bit floats once only.
    pub(crate) fn rounds_once(&self, case: &Case, least: u64, most: u64) -> bool {
        let reached = |row: &&CapRow| {
            let bytes = least.max(row.min_bytes);
            bytes <= most && covers(row, &Case { bytes, ..*case })
        };
        let mut flags = self
            .rows
            .iter()
            .filter(reached)
            .map(|row| row.flags & cap_flags::ACCUMULATES_FP32);
        flags.next().is_some_and(|first| first != 0) && flags.all(|flag| flag != 0)
    }
}

impl Override {
    fn applies(&self, plugin: &str, case: &Case) -> bool {
        let matches = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|w| w == name);
        matches(&self.plugin, plugin)
            && matches(&self.collective, case.collective.name())
            && matches(&self.dtype, case.dtype.name())
            && match case.op {
                Some(op) => matches(&self.op, op.name()),
                None => self.op.is_none(),
            }
    }
}

fn covers(row: &CapRow, case: &Case) -> bool {
    let bit = |mask: u64, n: u32| n < 64 && mask & (1 << n) != 0;
    row.collective == case.collective.abi()
        && (case.collective == Collective::Barrier || bit(row.dtype_mask, case.dtype.code()))
        && case.op.is_none_or(|op| bit(row.op_mask, op.abi().0))
        && bit(row.mem_mask, MemKind::HOST.0)
        // An island is several devices of a node, or wider.
        && row.scope.0 >= Scope::NODE.0
        && case.ranks >= row.min_ranks
        && (row.max_ranks == 0 || case.ranks <= row.max_ranks)
        && case.bytes >= row.min_bytes
        && (row.max_bytes == 0 || case.bytes <= row.max_bytes)
}

const fn may_be_in_place(collective: Collective) -> bool {
    use Collective::*;
    match collective {
        AllReduce | Broadcast | Reduce | AllGather | ReduceScatter | Gather | Scatter | AllGatherV
        | ReduceScatterV => true,
        AllToAll | AllToAllV | Send | Recv | Barrier => false,
    }
}

/// What the rules ask of a row and it does not promise.
fn missing_demand(row: &CapRow, case: &Case, demands: Demands) -> Option<&'static str> {
    let lacks = |flag: u64| row.flags & flag == 0;
    // Whether a call works in place is a rank's own affair, so the library must take both.
    if case.collective != Collective::Barrier && lacks(cap_flags::OUT_OF_PLACE) {
        return Some("to work with separate buffers");
    }
    if may_be_in_place(case.collective) && lacks(cap_flags::IN_PLACE) {
        return Some("to work in place");
    }
    let op = case.op?;
    if demands.deterministic && lacks(cap_flags::DETERMINISTIC) {
        return Some("the same bytes from run to run");
    }
    if case.collective == Collective::AllReduce && lacks(cap_flags::SAME_BYTES) {
        return Some("the same bytes on every rank");
    }
    if demands.vendor_numerics {
        return None;
    }
    let float = case.dtype.is_float();
    let fp8 = matches!(case.dtype, DataType::Float8E4M3 | DataType::Float8E5M2);
    match op {
        RedOp::Fixed(ReduceOp::Avg) if lacks(cap_flags::EXACT_AVG) => Some("an exact AVG"),
        RedOp::Fixed(ReduceOp::Max | ReduceOp::Min) if float && lacks(cap_flags::NAN_KEPT) => {
            Some("NaN through MIN and MAX")
        }
        _ if fp8 && lacks(cap_flags::FP8_SATURATES) => Some("saturating FP8"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
