//! How a communicator comes to be: the ranks meet, tell each other what they have, and agree on one world.

use super::communicator::Communicator;
use super::context::Context;
use super::inner::Parts;
use super::islands::{Device, declares, island_rows, open_islands};
use super::record::{PLANNER_VERSION, RankRecord};
use crate::bootstrap::{ControlPlane, JoinParams, Reach, UniqueId, own_addresses};
use crate::call::Collective;
use crate::capability::Capabilities;
use crate::config::{Auth, Fallback};
use crate::error::{Error, ErrorKind, Result};
use crate::exec::{Engine, Island, Links, WaitPolicy, Watch};
use crate::plan::{World, seeds};
use crate::plugin::NetPlugin;
use crate::topology::{Placement, Topology};
use infiniccl_plugin_api::{device_attr, worker_option};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Makes the communicator of job `id`; blocks until all ranks have come, at most `timeouts.connect`.
pub(super) fn init(context: &Context, id: &UniqueId, rank: u32, size: u32) -> Result<Communicator> {
    let settings = context.bootstrap_settings();
    let control = ControlPlane::join(&JoinParams {
        id,
        rank,
        size,
        settings: &settings,
    })?;
    form(context, control)
}

/// Makes a communicator of the ranks that have met.
pub(super) fn form(context: &Context, control: ControlPlane) -> Result<Communicator> {
    let control = Arc::new(control);
    let rank = control.rank();
    let deadline = Instant::now() + context.config().timeouts.connect;
    let device = open_device(context)?;
    let (net, worker, address) = open_network(context, &control)?;
    let record = RankRecord {
        planner: PLANNER_VERSION,
        vendor: device.plugin.name().to_string(),
        vendor_version: device.plugin.info().version().to_string(),
        island: device.island.clone(),
        arithmetic: device.arithmetic.clone(),
        numa: device.numa,
        device: 0,
        net: net.as_ref().map_or_else(String::new, |n| n.name().to_string()),
        net_address: address,
        agreed: context.config().agreement_digest_fields(),
    };
    let records = control.allgather("exchanging records", &record.to_bytes(), deadline)?;
    let records = decode(&records, RankRecord::from_bytes)?;
    agree(&control, &records)?;

    let mut placements: Vec<Placement> = records
        .iter()
        .zip(control.members())
        .map(|(record, member)| Placement {
            node: format!("{:016x}", member.host.id),
            island: record.island.clone(),
            numa: record.numa,
            device: record.device,
            vendor: record.vendor.clone(),
            host: member.host.hostname.clone(),
            arithmetic: record.arithmetic.clone(),
        })
        .collect();
    let wanted = Topology::new(&placements);
    let watch = Arc::new(Watch::new(control.clone()));
    let (mine, island_records) = open_islands(context, &control, &device, &wanted, deadline)?;
    let mut aborters: Vec<Box<dyn Fn() + Send + Sync>> = Vec::new();
    let mut island = None;
    if let Some(comm) = mine {
        let members = wanted.island_of(rank);
        let broken = members
            .iter()
            .find_map(|r| island_records[*r as usize].failed.as_ref().map(|why| (*r, why)));
        match broken {
            None => {
                let rows = island_rows(&island_records, members);
                let carries = declares(&rows, Collective::Send) && declares(&rows, Collective::Recv);
                let opened = Island::new(
                    device.plugin.clone(),
                    device.handle,
                    comm,
                    members.to_vec(),
                    carries,
                )?;
                let stop = opened.aborter();
                aborters.push(Box::new(stop));
                let stop = opened.aborter();
                control.on_failure(Box::new(move |_| stop()));
                island = Some(opened);
            }
            Some(_) => {
                device.plugin.comm_destroy(comm);
            }
        }
    }
    // Ranks whose island failed are islands of their own: the network serves them.
    for members in &wanted.islands {
        let broken = members
            .iter()
            .find_map(|r| island_records[*r as usize].failed.as_ref().map(|why| (*r, why)));
        if let Some((failed, why)) = broken {
            members
                .iter()
                .for_each(|r| placements[*r as usize].island.clear());
            dropped(context, &record.vendor, failed, why, members.contains(&rank))?;
        }
    }
    let topology = Topology::new(&placements);
    let capabilities = topology
        .islands
        .iter()
        .map(|members| {
            let plugin = &records[members[0] as usize].vendor;
            let mut caps = Capabilities::none(plugin, context.overrides(), context.demands());
            if members.len() > 1 {
                caps.rows = island_rows(&island_records, members);
                caps.disproved = members
                    .iter()
                    .flat_map(|r| island_records[*r as usize].disproved.clone())
                    .collect();
            }
            caps
        })
        .collect();
    let world = World {
        topology,
        capabilities,
        settings: context.plan_settings(),
        near: seeds::NEAR,
        far: seeds::FAR,
        gamma_ps: seeds::GAMMA_PS,
    };
    let links = net.map(|net| {
        let addresses = records.iter().map(|r| r.net_address.clone()).collect();
        Links::new(net, worker, rank, addresses, context.config().timeouts.collective)
    });
    let engine = Engine::new(
        links,
        island,
        watch.clone(),
        wait_policy(context, &world, rank),
        context.config().timeouts.collective,
    );
    same_world(&control, &world, deadline)?;
    Ok(Communicator::assemble(Parts {
        context: context.clone(),
        world,
        control,
        watch,
        engine,
        aborters,
    }))
}

/// Every rank computed the agreed world by itself; a difference would make ranks plan differently, and hang.
fn same_world(control: &ControlPlane, world: &World, deadline: Instant) -> Result<()> {
    let parts = world.digests();
    let mine: Vec<u8> = parts
        .iter()
        .flat_map(|(_, digest)| digest.to_le_bytes())
        .collect();
    let all = control.allgather("comparing the agreed world", &mine, deadline)?;
    let Some((rank, theirs)) = all.iter().enumerate().find(|(_, theirs)| **theirs != all[0]) else {
        return Ok(());
    };
    let words = |bytes: &'_ [u8]| bytes.chunks(8).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let equal = words(theirs)
        .iter()
        .zip(words(&all[0]))
        .take_while(|(a, b)| **a == *b)
        .count();
    let part = parts.get(equal).map_or("its size", |(name, _)| *name);
    let text = format!(
        "rank {rank} and rank 0 computed different worlds from the same records: they differ in {part}; the library's \
         builds on these ranks do not fit together"
    );
    Err(Error::new(ErrorKind::InvalidUsage, text)
        .with("key", part)
        .with("peer", rank))
}

fn open_device(context: &Context) -> Result<Device> {
    let Some(plugin) = context.registry().vendors().first().cloned() else {
        return Err(Error::new(
            ErrorKind::InvalidUsage,
            "no vendor plugin is usable; `infiniccl info` shows why each was refused",
        ));
    };
    let rows = plugin.device_attributes(0)?;
    let text = |key| rows.get(key).unwrap_or("").to_string();
    let (island, arithmetic) = (text(device_attr::ISLAND), text(device_attr::ARITHMETIC));
    let numa = rows
        .get(device_attr::NUMA)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let handle = plugin.device_open(0)?;
    Ok(Device {
        plugin,
        handle,
        island,
        arithmetic,
        numa,
    })
}

/// Opens the network, unless this communicator needs none.
fn open_network(context: &Context, control: &ControlPlane) -> Result<(Option<NetPlugin>, u64, Vec<u8>)> {
    if control.size() == 1 {
        return Ok((None, 0, Vec::new()));
    }
    let Some(plugin) = context.registry().nets().first().cloned() else {
        return Err(Error::new(
            ErrorKind::InvalidUsage,
            "no network plugin is usable; `infiniccl info` shows why each was refused",
        ));
    };
    let config = context.config();
    let addresses: Vec<String> = own_addresses(control.settings(), Reach::AnyHost, control.local_ip())?
        .iter()
        .map(|a| match a {
            std::net::SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
            other => other.ip().to_string(),
        })
        .collect();
    let key: String = control.key().iter().map(|b| format!("{b:02x}")).collect();
    let rank = control.rank().to_string();
    let size = control.size().to_string();
    let keepalive = config.network.keepalive.as_secs().to_string();
    let addresses = addresses.join(",");
    let ports = config
        .network
        .port_range
        .bounds()
        .map(|(low, high)| format!("{low}-{high}"));
    let mut options = vec![
        (worker_option::KEY, key.as_str()),
        (
            worker_option::AUTH,
            if config.auth == Auth::None { "none" } else { "key" },
        ),
        (worker_option::RANK, rank.as_str()),
        (worker_option::SIZE, size.as_str()),
        (worker_option::ADDRESSES, addresses.as_str()),
        (worker_option::KEEPALIVE, keepalive.as_str()),
    ];
    if let Some(ports) = &ports {
        options.push((worker_option::PORT_RANGE, ports));
    }
    let worker = plugin.worker_open(0, &options)?;
    let address = plugin.listen(worker)?;
    Ok((Some(plugin), worker, address))
}

/// All ranks must use the same planner and the same values of the keys that change results or plans.
fn agree(control: &ControlPlane, records: &[RankRecord]) -> Result<()> {
    let describe = |rank: usize| {
        let host = control
            .members()
            .get(rank)
            .map_or("?", |m| m.host.hostname.as_str());
        format!("rank {rank} on {host}")
    };
    let differ = |key: &str, rank: usize, mine: &str, other: &str| {
        let text = format!(
            "ranks differ in {key}: {} has {other}, {} has {mine}; give all ranks the same",
            describe(rank),
            describe(0)
        );
        Err(Error::new(ErrorKind::InvalidUsage, text)
            .with("key", key)
            .with("peer", rank))
    };
    let first = &records[0];
    for (rank, record) in records.iter().enumerate().skip(1) {
        if record.planner != first.planner {
            let (a, b) = (first.planner.to_string(), record.planner.to_string());
            return differ("the version of the library's planner", rank, &a, &b);
        }
        if record.net != first.net {
            return differ("the network plugin", rank, &first.net, &record.net);
        }
        for ((key, mine), (_, other)) in first.agreed.iter().zip(&record.agreed) {
            if mine != other {
                return differ(key, rank, mine, other);
            }
        }
    }
    Ok(())
}

/// An island that does not work: the links of its ranks drop one tier, as loudly as the operator asked.
fn dropped(context: &Context, plugin: &str, rank: u32, why: &str, mine: bool) -> Result<()> {
    let text =
        format!("the {plugin} communicator of an island failed on rank {rank}, the network serves it: {why}");
    match context.config().path.fallback {
        Fallback::Error => Err(Error::new(ErrorKind::NotSupported, text).with("peer", rank)),
        Fallback::Warn if mine => {
            tracing::warn!("{text}");
            Ok(())
        }
        Fallback::Warn | Fallback::Allow => {
            tracing::info!("{text}");
            Ok(())
        }
    }
}

/// Spinning helps only while every rank of the node has a core of its own.
fn wait_policy(context: &Context, world: &World, rank: u32) -> WaitPolicy {
    let progress = &context.config().progress;
    let node = world.topology.ranks[rank as usize].node as usize;
    let ranks = world.topology.nodes[node].len();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let spin = if ranks > cores { 0 } else { progress.spin_us };
    WaitPolicy {
        spin: Duration::from_micros(spin),
        yield_for: Duration::from_micros(progress.yield_us),
    }
}

pub(super) fn decode<T>(
    records: &[Vec<u8>],
    read: impl Fn(&[u8]) -> std::result::Result<T, crate::bootstrap::wire::Malformed>,
) -> Result<Vec<T>> {
    let decoded: std::result::Result<Vec<T>, _> = records.iter().map(|r| read(r)).collect();
    decoded.map_err(|e| {
        Error::new(
            ErrorKind::Remote,
            "a rank's record does not decode: its library is of another version",
        )
        .with_source(e)
    })
}
