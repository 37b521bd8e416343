//! The islands' vendor communicators: opened by their ranks, checked, and known to all.

use super::context::Context;
use super::init::decode;
use super::record::{IslandRecord, common_rows};
use super::verify::{Subject, verify};
use crate::bootstrap::ControlPlane;
use crate::call::Collective;
use crate::capability::{Capabilities, Disproof};
use crate::config::Verify;
use crate::error::Result;
use crate::plugin::VendorPlugin;
use crate::topology::Topology;
use infiniccl_plugin_api::CapRow;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Share of the time left that an island may use, so that its failure can still be told.
const ISLAND_SHARE: f64 = 0.5;

/// This rank's device.
pub(super) struct Device {
    pub(super) plugin: VendorPlugin,
    pub(super) handle: u64,
    pub(super) island: String,
    pub(super) arithmetic: String,
    pub(super) numa: u32,
}

/// What was checked before in this process: plugin, version, ranks of the island, and whose numerics are asked for.
type Checked = (String, String, usize, bool);

static CHECKED: Mutex<Option<HashMap<Checked, Vec<Disproof>>>> = Mutex::new(None);

/// Makes the vendor communicator of this rank's island; returns it with what came of it on every rank.
///
/// Collective: ranks without an island take part in the exchanges.
pub(super) fn open_islands(
    context: &Context,
    control: &ControlPlane,
    device: &Device,
    topology: &Topology,
    deadline: Instant,
) -> Result<(Option<u64>, Vec<IslandRecord>)> {
    let rank = control.rank();
    let members = topology.island_of(rank);
    let leads = members.len() > 1 && members[0] == rank;
    let mut failed = None;
    let mut id = Vec::new();
    if leads {
        match device.plugin.comm_unique_id(device.handle) {
            Ok(bytes) => id = bytes,
            Err(error) => failed = Some(error.to_string()),
        }
    }
    let ids = control.allgather("exchanging the islands' ids", &id, deadline)?;
    let id = &ids[members[0] as usize];
    let mut comm = None;
    let mut rows = Vec::new();
    if members.len() > 1 && !id.is_empty() {
        let place = topology.ranks[rank as usize].island_rank;
        let limit = deadline
            .saturating_duration_since(Instant::now())
            .mul_f64(ISLAND_SHARE);
        let opened = device
            .plugin
            .comm_init(device.handle, id, place, members.len() as u32, limit, &[])
            .and_then(|handle| device.plugin.comm_caps(handle).map(|caps| (handle, caps)));
        match opened {
            Ok((handle, caps)) => (comm, rows) = (Some(handle), caps),
            Err(error) => failed = Some(error.to_string()),
        }
    } else if members.len() > 1 && failed.is_none() {
        failed = Some("the island's first rank made no id".to_string());
    }
    let known = known(context, device, members.len());
    let mut record = IslandRecord {
        failed,
        rows,
        checked: known.is_some(),
        disproved: known.unwrap_or_default(),
    };
    let records = control.allgather("exchanging capabilities", &record.to_bytes(), deadline)?;
    let records = decode(&records, IslandRecord::from_bytes)?;
    if context.config().verify == Verify::Off || topology.islands.iter().all(|island| island.len() == 1) {
        return Ok((comm, records));
    }
    let works = members.iter().all(|r| records[*r as usize].failed.is_none());
    let all_checked = members.iter().all(|r| records[*r as usize].checked);
    if let (Some(comm), true, false) = (comm, works, all_checked) {
        check(context, device, (rank, comm), topology, &records, &mut record);
    }
    let records = control.allgather("exchanging what was checked", &record.to_bytes(), deadline)?;
    Ok((comm, decode(&records, IslandRecord::from_bytes)?))
}

/// Rows that all ranks of an island declared.
pub(super) fn island_rows(records: &[IslandRecord], members: &[u32]) -> Vec<CapRow> {
    let rows: Vec<&[CapRow]> = members
        .iter()
        .map(|r| records[*r as usize].rows.as_slice())
        .collect();
    common_rows(&rows)
}

/// Whether there is a row for the collective.
pub(super) fn declares(rows: &[CapRow], collective: Collective) -> bool {
    rows.iter().any(|row| row.collective == collective.abi())
}

fn check(
    context: &Context,
    device: &Device,
    (rank, comm): (u32, u64),
    topology: &Topology,
    records: &[IslandRecord],
    record: &mut IslandRecord,
) {
    let members = topology.island_of(rank);
    let mut caps = Capabilities::none(device.plugin.name(), Vec::new(), context.demands());
    caps.rows = island_rows(records, members);
    let subject = Subject {
        plugin: &device.plugin,
        device: device.handle,
        comm,
        rank: topology.ranks[rank as usize].island_rank,
        size: members.len() as u32,
    };
    match verify(&subject, &caps) {
        Ok(disproved) => {
            for d in &disproved {
                let op = d.op.map(|op| format!(" {op}")).unwrap_or_default();
                tracing::warn!(
                    plugin = device.plugin.name(),
                    version = device.plugin.info().version(),
                    "declares {} {}{op} and answers wrongly, so it is emulated: {}",
                    d.collective,
                    d.dtype,
                    d.what
                );
            }
            if context.config().verify == Verify::Once {
                let mut checked = CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
                let key = key(context, device, members.len());
                checked
                    .get_or_insert_with(HashMap::new)
                    .insert(key, disproved.clone());
            }
            record.disproved = disproved;
        }
        Err(error) => record.failed = Some(error.to_string()),
    }
}

fn key(context: &Context, device: &Device, ranks: usize) -> Checked {
    let info = device.plugin.info();
    (
        info.name().to_string(),
        info.version().to_string(),
        ranks,
        context.demands().vendor_numerics,
    )
}

/// What an earlier check of this process found; a check is repeated unless all ranks of the island know it.
fn known(context: &Context, device: &Device, ranks: usize) -> Option<Vec<Disproof>> {
    if context.config().verify != Verify::Once {
        return None;
    }
    let checked = CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    checked.as_ref()?.get(&key(context, device, ranks)).cloned()
}
