//! INFINICCL_ROOT and the secret of a job: the addresses they mean, and the id that every rank makes of them for itself.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use super::dial::remaining;
use super::interfaces;
use super::keys::Key;
use super::launch::{Env, Launch};
use super::rendezvous::{Reach, own_addresses};
use super::runtime_folder::read_private;
use super::settings::Settings;
use super::unique_id::UniqueId;
use crate::config::Config;
use crate::{Error, ErrorKind, Result};

/// The id that every rank makes for itself from secret and address; attempts that torchrun numbers do not mix.
pub(super) fn root_id(env: Env<'_>, secret: Option<&[u8]>, addresses: &[SocketAddr]) -> UniqueId {
    if secret.is_none() {
        tracing::warn!("auth = \"none\": whoever reaches a port of this job can join it and read its data");
    }
    let key = Key::from_bytes([0; 32]).derive("infiniccl job secret", &[secret.unwrap_or_default()]);
    let attempt =
        ["TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"].map(|name| env(name).unwrap_or_default());
    let nonce = key.mac(&[b"nonce", attempt[0].as_bytes(), attempt[1].as_bytes()]);
    UniqueId::new(
        &key,
        u64::from_le_bytes(nonce[..8].try_into().expect("8 bytes")),
        addresses,
    )
}

/// The secret that the environment gives, or the file that it names holds.
pub(super) fn secret(config: &Config) -> Result<Option<Vec<u8>>> {
    let bad = |message: String| Error::new(ErrorKind::InvalidUsage, message);
    match (&config.job.secret, &config.job.secret_file) {
        (Some(_), Some(_)) => Err(bad(
            "INFINICCL_SECRET and INFINICCL_SECRET_FILE are both set: unset one of them".into(),
        )),
        (Some(secret), None) => Ok(Some(secret.expose().trim().as_bytes().to_vec())),
        (None, Some(path)) => read_secret(path).map(Some),
        (None, None) => Ok(None),
    }
}

fn read_secret(path: &Path) -> Result<Vec<u8>> {
    let missing = || {
        format!(
            "INFINICCL_SECRET_FILE names {}, which does not exist",
            path.display()
        )
    };
    let text = read_private(path)?.ok_or_else(|| Error::new(ErrorKind::InvalidUsage, missing()))?;
    let secret = text.trim();
    if secret.is_empty() {
        let message = format!(
            "the file {} (INFINICCL_SECRET_FILE) holds no secret",
            path.display()
        );
        return Err(Error::new(ErrorKind::InvalidUsage, message));
    }
    Ok(secret.as_bytes().to_vec())
}

/// What INFINICCL_ROOT means: for rank 0 the addresses to bind, for the others those to try.
pub(super) fn root_addresses(
    text: &str,
    launch: &Launch,
    settings: &Settings,
    deadline: Instant,
) -> Result<Vec<SocketAddr>> {
    let all = resolve(text, deadline)?;
    if launch.rank != 0 {
        return Ok(all.into_iter().take(UniqueId::MAX_ADDRESSES).collect());
    }
    let here: Vec<IpAddr> = interfaces::addresses()?.into_iter().map(|a| a.ip).collect();
    let local: Vec<SocketAddr> = all
        .iter()
        // All of 127.0.0.0/8 leads to this host, though it lists one address of it.
        .filter(|a| a.ip().is_loopback() || here.contains(&a.ip()))
        .copied()
        .take(UniqueId::MAX_ADDRESSES)
        .collect();
    let is_name = text.parse::<SocketAddr>().is_err();
    // Many systems map their own name to a loopback address, where nobody else could come.
    if is_name && !launch.on_one_host() && !local.is_empty() && local.iter().all(|a| a.ip().is_loopback()) {
        let port = local[0].port();
        let own = own_addresses(settings, Reach::AnyHost, None)?;
        return Ok(own
            .into_iter()
            .map(|address| SocketAddr::new(address.ip(), port))
            .collect());
    }
    if local.is_empty() {
        let list = |ips: Vec<IpAddr>| ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(Error::new(
            ErrorKind::InvalidUsage,
            format!(
                "INFINICCL_ROOT={text} is {}, which is no address of this host, where rank 0 runs (it has {})",
                list(all.iter().map(SocketAddr::ip).collect()),
                list(here)
            ),
        ));
    }
    Ok(local)
}

/// Addresses of a host and port; a name that is not known yet is asked for again until `deadline`.
fn resolve(text: &str, deadline: Instant) -> Result<Vec<SocketAddr>> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let port: u16 = port.parse().map_err(|_| {
        Error::new(
            ErrorKind::InvalidUsage,
            format!("INFINICCL_ROOT={text} has no port: write HOST:PORT"),
        )
    })?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    loop {
        let failure = match (host, port).to_socket_addrs() {
            Ok(found) => {
                let mut addresses: Vec<SocketAddr> = Vec::new();
                found.for_each(|a| {
                    if !addresses.contains(&a) {
                        addresses.push(a);
                    }
                });
                return Ok(addresses);
            }
            Err(e) => e,
        };
        let Some(left) = remaining(deadline) else {
            return Err(Error::new(
                ErrorKind::System,
                format!("the host of INFINICCL_ROOT={text} is not known"),
            )
            .with_source(failure));
        };
        std::thread::sleep(left.min(Duration::from_millis(500)));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn secrets_come_from_the_variable_or_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let of = |set: &[(&str, &str)]| {
            let mut config = Config::built_in();
            set.iter()
                .for_each(|(key, value)| config.set(key, value).unwrap());
            secret(&config)
        };
        let file = ("job.secret_file", path.to_str().unwrap());
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&[("job.secret", "abc")]).unwrap(), Some(b"abc".to_vec()));
        assert!(of(&[file]).unwrap_err().message().contains("does not exist"));
        std::fs::write(&path, " top \n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = of(&[file]).unwrap_err();
        assert!(
            error.message().contains("0600") && !error.message().contains("top"),
            "{error}"
        );
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(of(&[file]).unwrap(), Some(b"top".to_vec()));
        assert!(
            of(&[file, ("job.secret", "abc")])
                .unwrap_err()
                .message()
                .contains("both set")
        );
        std::fs::write(&path, "\n").unwrap();
        assert!(of(&[file]).unwrap_err().message().contains("no secret"));
    }

    #[test]
    fn root_ids_depend_on_secret_and_attempt_and_not_on_the_address() {
        let (a, b): (SocketAddr, SocketAddr) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
        let none = |_: &str| None;
        let key = |env: Env<'_>, secret: Option<&[u8]>, at: SocketAddr| {
            *root_id(env, secret, &[at]).handshake_key().bytes()
        };
        assert_eq!(key(&none, Some(b"s"), a), key(&none, Some(b"s"), b));
        assert_ne!(key(&none, Some(b"s"), a), key(&none, Some(b"t"), a));
        assert_ne!(key(&none, None, a), key(&none, Some(b"s"), a));
        let second = |name: &str| (name == "TORCHELASTIC_RESTART_COUNT").then(|| "1".to_owned());
        assert_ne!(key(&none, Some(b"s"), a), key(&second, Some(b"s"), a));
    }

    #[test]
    fn root_addresses_resolve() {
        let soon = Instant::now() + Duration::from_secs(5);
        assert_eq!(
            resolve("127.0.0.1:99", soon).unwrap(),
            ["127.0.0.1:99".parse().unwrap()]
        );
        assert_eq!(resolve("[::1]:99", soon).unwrap(), ["[::1]:99".parse().unwrap()]);
        assert!(
            resolve("localhost:99", soon)
                .unwrap()
                .contains(&"127.0.0.1:99".parse().unwrap())
        );
        assert!(resolve("localhost", soon).is_err());
        let error = resolve("no-such-host.invalid:99", Instant::now()).unwrap_err();
        assert!(error.message().contains("no-such-host.invalid"), "{error}");
    }
}
