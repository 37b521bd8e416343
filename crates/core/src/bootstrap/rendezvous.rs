//! Where ranks meet: the root listens and makes the unique id, and the others reach it through what the id says.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use super::arrival::Arrival;
use super::interfaces::{self, InterfaceAddress};
use super::listen::{bound_addresses, listen};
use super::service;
use super::settings::Settings;
use super::unique_id::UniqueId;
use crate::Result;

/// Which ranks are to reach an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Ranks on any host.
    AnyHost,
    /// Ranks on this host only.
    ThisHost,
}

/// Makes a unique id, and has this process listen for the ranks that will hold it until they have formed a
/// communicator.
///
/// # Errors
/// `InvalidUsage` when no interface fits the configuration, `System` when no address can be bound.
pub(crate) fn create_unique_id(settings: &Settings, reach: Reach) -> Result<UniqueId> {
    let listeners = listen(
        &own_addresses(settings, reach, None)?,
        settings.port_range.as_ref(),
    )?;
    let id = UniqueId::random(&bound_addresses(&listeners))?;
    serve(&id, listeners)?;
    Ok(id)
}

/// Serves the arrival of the job `id` on `listeners`.
pub(crate) fn serve(id: &UniqueId, listeners: Vec<TcpListener>) -> Result<()> {
    tracing::debug!(?id, "waiting for ranks");
    service::add(Box::new(Arrival::new(listeners, id.handshake_key())))?;
    Ok(())
}

/// Addresses of this host to listen on, with port 0. `proven` is one over which another rank was reached.
pub(crate) fn own_addresses(
    settings: &Settings,
    reach: Reach,
    proven: Option<IpAddr>,
) -> Result<Vec<SocketAddr>> {
    let loopback = |ip: IpAddr| vec![SocketAddr::new(ip, 0)];
    if reach == Reach::ThisHost {
        return Ok(loopback(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
    // Whoever was reached over loopback is on this host, and so are all others; but what the operator names counts.
    if let Some(ip) = proven.filter(|ip| ip.is_loopback() && settings.interfaces.is_default()) {
        return Ok(loopback(ip));
    }
    let all = interfaces::addresses()?;
    let over = proven.and_then(|ip| all.iter().find(|a| a.ip == ip).cloned());
    let selected = interfaces::select(all, &settings.interfaces)?;
    // The proven one comes first, unless the operator's selection leaves it out.
    let allowed = |a: &InterfaceAddress| settings.interfaces.is_default() || selected.contains(a);
    let mut chosen: Vec<&InterfaceAddress> = over.iter().filter(|a| allowed(a)).collect();
    chosen.extend(selected.iter().filter(|a| Some(*a) != over.as_ref()));
    chosen.truncate(UniqueId::MAX_ADDRESSES);
    let shown: Vec<String> = chosen.iter().map(|a| format!("{} {}", a.name, a.ip)).collect();
    tracing::info!("other ranks are told: {}", shown.join(", "));
    Ok(chosen.into_iter().map(|a| a.socket(0)).collect())
}
