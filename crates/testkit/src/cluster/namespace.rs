//! Nodes as Linux namespaces, held by descriptors and joined by veth pairs and a bridge; `ip` and `tc` set up
//! the links.

use std::ffi::CString;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};

use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::{ClusterError, Family, os};

/// The interface of each node that leads to the others.
pub(super) const INTERFACE: &str = "eth0";

/// A tbf bucket below 64 kB loses much of its rate on a busy machine, and a packet that the veth has joined
/// from many must fit into it.
const BUCKET: &str = "burst 64kb limit 512kb";
const LARGEST_PACKET: u32 = 16384;

/// The namespaces of one node.
#[derive(Debug)]
pub(super) struct NodeSpaces {
    network: OwnedFd,
    host_name: OwnedFd,
    ipc: OwnedFd,
    mounts: OwnedFd,
    /// The network that the links lead to: without a holder it would go, and the links with it.
    _switch: Arc<OwnedFd>,
}

impl NodeSpaces {
    /// Moves the calling thread into the node. Makes system calls only, so that it may run after a fork.
    fn join(&self) -> io::Result<()> {
        let join = |fd: &OwnedFd, kind| os(move_into_link_name_space(fd.as_fd(), Some(kind)));
        join(&self.network, LinkNameSpaceType::Network)?;
        join(&self.host_name, LinkNameSpaceType::HostNameAndNISDomainName)?;
        join(&self.ipc, LinkNameSpaceType::InterProcessCommunication)?;
        join(&self.mounts, LinkNameSpaceType::Mount)
    }
}

/// The addresses of the `index`-th node; the first is the one to reach it by.
pub(super) fn addresses(index: usize, family: Family) -> Vec<IpAddr> {
    // MAX_NODES keeps the last octet in range.
    let last = u8::try_from(index + 1).expect("at most 250 nodes");
    let v6 = IpAddr::V6(Ipv6Addr::new(0xfd83, 0x1cc1, 0, 0, 0, 0, 0, last.into()));
    match family {
        Family::V4 => vec![Ipv4Addr::new(10, 83, 0, last).into(), v6],
        Family::V6 => vec![v6],
    }
}

/// Makes one node per name and joins all of them.
pub(super) fn make(
    names: &[String],
    addresses: &[Vec<IpAddr>],
    rate: Option<u64>,
) -> Result<Vec<NodeSpaces>, ClusterError> {
    let switch = on_thread(|| {
        unshare(UnshareFlags::NEWNET)?;
        own_space("net").map(Arc::new)
    })?;
    let nodes = names
        .iter()
        .map(|name| on_thread(|| node(name, &switch)))
        .collect::<Result<Vec<_>, _>>()?;

    let mut wires = "link add br0 type bridge forward_delay 0 stp_state 0\nlink set br0 up\n".to_string();
    for (i, node) in nodes.iter().enumerate() {
        // `ip` reads a name with a slash as the path of a namespace.
        let path = format!("/proc/{}/fd/{}", std::process::id(), node.network.as_raw_fd());
        wires += &format!("link add port{i} type veth peer name {INTERFACE} netns {path}\n");
        wires += &format!("link set port{i} master br0 up\n");
    }
    on_thread(|| {
        os(move_into_link_name_space(
            switch.as_fd(),
            Some(LinkNameSpaceType::Network),
        ))
        .map_err(|e| ClusterError::caused("cannot enter the switch's network namespace", e))?;
        quiet_bridge_filters();
        batch("ip", &wires)?;
        rate.map_or(Ok(()), |r| {
            batch(
                "tc",
                &(0..nodes.len())
                    .map(|i| limit(&format!("port{i}"), r))
                    .collect::<String>(),
            )
        })
    })?;

    for (node, addresses) in nodes.iter().zip(addresses) {
        let mut lines = "link set lo up\n".to_string();
        for address in addresses {
            match address {
                IpAddr::V4(a) => lines += &format!("addr add {a}/24 dev {INTERFACE}\n"),
                // Nobody else is on this switch: skip the second of duplicate address detection.
                IpAddr::V6(a) => lines += &format!("addr add {a}/64 dev {INTERFACE} nodad\n"),
            }
        }
        lines += &format!("link set {INTERFACE} up\n");
        if rate.is_some() {
            lines += &format!("link set {INTERFACE} gso_max_size {LARGEST_PACKET}\n");
        }
        inside(node, || {
            batch("ip", &lines)?;
            wait_for_carrier();
            rate.map_or(Ok(()), |r| batch("tc", &limit(INTERFACE, r)))
        })??;
    }
    Ok(nodes)
}

/// Waits for the kernel to notice that the cable is plugged in: a packet sent before is lost, and its second
/// try comes a second later.
fn wait_for_carrier() {
    let limit = Instant::now() + Duration::from_secs(2);
    let path = format!("/sys/class/net/{INTERFACE}/operstate");
    while fs::read_to_string(&path).is_ok_and(|state| state.trim() != "up") && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Makes `command` start inside the node, in the working folder it would have started in.
pub(super) fn enter(spaces: &Arc<NodeSpaces>, command: &mut Command) -> Result<(), ClusterError> {
    let folder = match command.get_current_dir() {
        Some(folder) => folder.to_path_buf(),
        None => env::current_dir().map_err(|e| ClusterError::caused("cannot tell the working folder", e))?,
    };
    let folder = CString::new(folder.as_os_str().as_bytes()).map_err(|e| {
        ClusterError::caused("the working folder's name holds a zero byte", io::Error::from(e))
    })?;
    let spaces = Arc::clone(spaces);
    let join = move || {
        spaces.join()?;
        // Entering a mount namespace moves the process to its root.
        os(rustix::process::chdir(folder.as_c_str()))
    };
    // SAFETY: after the fork the closure makes system calls on memory that was prepared before; it neither
    // allocates nor takes a lock.
    unsafe { command.pre_exec(join) };
    Ok(())
}

/// Runs `work` on a thread inside the node.
pub(super) fn inside<T: Send>(
    spaces: &NodeSpaces,
    work: impl FnOnce() -> T + Send,
) -> Result<T, ClusterError> {
    on_thread(|| {
        unshare(UnshareFlags::FS)?;
        spaces
            .join()
            .map_err(|e| ClusterError::caused("cannot enter the namespaces of a node", e))?;
        Ok(work())
    })
}

/// Runs `work` on a thread of its own, since namespaces are a property of the thread. A panic goes on here.
fn on_thread<T: Send>(work: impl FnOnce() -> Result<T, ClusterError> + Send) -> Result<T, ClusterError> {
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn unshare(flags: UnshareFlags) -> Result<(), ClusterError> {
    // SAFETY: the flags never include FILES, so all threads go on sharing one descriptor table.
    os(unsafe { unshare_unsafe(flags) }).map_err(|e| ClusterError::caused("unshare", e))
}

/// The calling thread's namespace of one kind.
fn own_space(kind: &str) -> Result<OwnedFd, ClusterError> {
    let path = format!("/proc/thread-self/ns/{kind}");
    fs::File::open(&path)
        .map(OwnedFd::from)
        .map_err(|e| ClusterError::caused(path, e))
}

/// Makes the namespaces of a node around the calling thread.
fn node(name: &str, switch: &Arc<OwnedFd>) -> Result<NodeSpaces, ClusterError> {
    unshare(UnshareFlags::NEWNET | UnshareFlags::NEWUTS | UnshareFlags::NEWIPC | UnshareFlags::NEWNS)?;
    os(rustix::system::sethostname(name.as_bytes()))
        .map_err(|e| ClusterError::caused("cannot set the host name of a node", e))?;
    private_mounts().map_err(|e| ClusterError::caused("cannot mount the folders of a node", e))?;
    Ok(NodeSpaces {
        network: own_space("net")?,
        host_name: own_space("uts")?,
        ipc: own_space("ipc")?,
        mounts: own_space("mnt")?,
        _switch: Arc::clone(switch),
    })
}

/// Gives the calling thread's mount namespace a `/dev/shm` of its own, and a `/sys` that shows its network.
fn private_mounts() -> io::Result<()> {
    os(rustix::mount::mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    ))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    os(rustix::mount::mount(
        "tmpfs",
        "/dev/shm",
        "tmpfs",
        flags,
        c"mode=1777",
    ))?;
    let cgroup = fs::File::open("/sys/fs/cgroup").ok();
    os(rustix::mount::mount("sysfs", "/sys", "sysfs", flags, None))?;
    if let Some(cgroup) = cgroup {
        // The limits of the container stay visible under the new /sys.
        let old = format!("/proc/thread-self/fd/{}", cgroup.as_raw_fd());
        os(rustix::mount::mount_bind_recursive(
            old.as_str(),
            "/sys/fs/cgroup",
        ))?;
    }
    Ok(())
}

/// Keeps the packet filter, where the kernel has one, from looking at what crosses the bridge.
fn quiet_bridge_filters() {
    for table in ["arp", "ip", "ip6"] {
        // Absent unless the filter's module is loaded, and then there is nothing to switch off.
        let _ = fs::write(format!("/proc/sys/net/bridge/bridge-nf-call-{table}tables"), "0");
    }
}

fn limit(interface: &str, rate: u64) -> String {
    format!("qdisc replace dev {interface} root tbf rate {rate}bit {BUCKET}\n")
}

/// Feeds `lines` to `program -batch -`.
fn batch(program: &str, lines: &str) -> Result<(), ClusterError> {
    let failed = |e| ClusterError::caused(format!("cannot run '{program}' (package iproute2)"), e);
    let mut child = Command::new(program)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    // A program that ends early reports why on its standard error, which says more than the broken pipe.
    let _ = child
        .stdin
        .take()
        .expect("stdin is piped")
        .write_all(lines.as_bytes());
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(ClusterError::new(format!(
        "{program}: {}",
        text.lines().next().unwrap_or("failed without a word")
    )))
}
