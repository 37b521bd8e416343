//! The sockets that listen, from the kernel's tables.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use rustix::process::Pid;

/// A TCP socket that listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Listener {
    /// Where it listens.
    pub address: SocketAddr,
    /// The number that tells it from any socket before and after it.
    pub inode: u64,
}

/// All listeners of the calling thread's network namespace.
///
/// # Panics
/// When the kernel's tables cannot be read.
pub fn listeners_here() -> Vec<Listener> {
    in_tables(Path::new("/proc/thread-self/net"))
}

/// The listeners of a process.
///
/// # Panics
/// When the process is gone.
pub fn listeners_of(process: Pid) -> Vec<Listener> {
    let folder = Path::new("/proc").join(process.as_raw_nonzero().to_string());
    let own: HashSet<u64> = fs::read_dir(folder.join("fd"))
        .expect("the process runs")
        .filter_map(|entry| {
            let target = fs::read_link(entry.ok()?.path()).ok()?;
            let number = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            number.parse().ok()
        })
        .collect();
    let mut all = in_tables(&folder.join("net"));
    all.retain(|listener| own.contains(&listener.inode));
    all
}

fn in_tables(folder: &Path) -> Vec<Listener> {
    let table = |name: &str| fs::read_to_string(folder.join(name)).expect("the kernel's table of sockets");
    let mut found: Vec<Listener> = table("tcp").lines().filter_map(listener).collect();
    found.extend(table("tcp6").lines().filter_map(listener));
    found
}

/// A line of `/proc/net/tcp`: number, local and remote address, state (0A: listens), six more fields, inode.
fn listener(line: &str) -> Option<Listener> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if fields.get(3) != Some(&"0A") {
        return None;
    }
    let (ip, port) = fields[1].split_once(':')?;
    let words: Vec<[u8; 4]> = (0..ip.len() / 8)
        .map(|i| u32::from_str_radix(&ip[8 * i..8 * i + 8], 16).map(u32::to_ne_bytes))
        .collect::<Result<_, _>>()
        .ok()?;
    let ip: IpAddr = match words[..] {
        [word] => Ipv4Addr::from(word).into(),
        _ => Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?).into(),
    };
    Some(Listener {
        address: SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?),
        inode: fields.get(9)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn listeners_of_both_protocols_are_found() {
        let sockets: Vec<TcpListener> = ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"]
            .iter()
            .map(|address| TcpListener::bind(address).unwrap())
            .collect();
        let mine = listeners_of(Pid::from_raw(std::process::id().cast_signed()).unwrap());
        for socket in sockets {
            let address = socket.local_addr().unwrap();
            let found = mine.iter().find(|l| l.address == address);
            let found = found.unwrap_or_else(|| panic!("{address} is not in {mine:?}"));
            drop(socket);
            assert!(!listeners_here().contains(found), "{found:?} still listens");
        }
    }
}
