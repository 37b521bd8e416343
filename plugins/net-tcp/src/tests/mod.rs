//! Workers that talk to each other over loopback, through the core and through the table.

mod exchange;
mod faults;
mod namespaces;
mod probe;
mod sleep;
mod soak;
mod strangers;

use crate::channel::Ends;
use crate::host::Host;
use crate::options::Options;
use crate::registry;
use crate::worker::Worker;
use infiniccl_plugin_api::{
    Buffer, ChannelParams, ChannelState, Completion, NetTableRef, Property, Status, WorkOp, WorkRequest,
    last_error_text,
};
use rustix::fd::AsRawFd;
use std::time::{Duration, Instant};

/// No test takes longer; reaching it is a hang.
const LIMIT: Duration = Duration::from_secs(60);
const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// How a worker is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Core,
    Table,
}

/// Makes a test for each way of a function that takes one.
macro_rules! both_ways {
    ($($name:ident)*) => {
        mod core { $(#[test] fn $name() { crate::tests::within(|| super::$name(crate::tests::Way::Core)); })* }
        mod table { $(#[test] fn $name() { crate::tests::within(|| super::$name(crate::tests::Way::Table)); })* }
    };
}
use both_ways;

/// Runs a test under the outer limit.
fn within(test: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        // The receiver waits, unless the limit passed.
        let _ = sender.send(());
    });
    match receiver.recv_timeout(LIMIT) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("hangs"),
        _ => thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

fn table() -> NetTableRef {
    crate::plugin_root().net().into_option().unwrap()
}

/// A worker of one rank.
struct Node {
    way: Way,
    rank: u32,
    handle: u64,
    address: Vec<u8>,
    next_token: u64,
}

impl Node {
    /// A worker that listens on a loopback address of its own.
    fn new(way: Way, rank: u32, rows: &[(&str, &str)]) -> Self {
        let address = format!("127.0.0.{}", rank + 1);
        let mut all = vec![("auth_key", KEY), ("addresses", address.as_str())];
        all.extend_from_slice(rows);
        Self::open(way, rank, &all).unwrap()
    }

    fn open(way: Way, rank: u32, rows: &[(&str, &str)]) -> Result<Self, (Status, String)> {
        let handle = match way {
            Way::Core => Options::read(rows.iter().copied())
                .and_then(|options| Worker::open(options, Host::default()))
                .and_then(registry::insert)
                .map_err(|failure| (failure.status, failure.text))?,
            Way::Table => {
                let rows: Vec<Property> = rows
                    .iter()
                    .map(|(key, value)| Property::new(key, value))
                    .collect();
                let mut handle = 0;
                let status =
                    table().worker_open()(0, std::ptr::null(), rows.as_ptr(), rows.len() as u64, &mut handle);
                if !status.is_ok() {
                    return Err((status, last_error_text()));
                }
                handle
            }
        };
        let mut node = Self {
            way,
            rank,
            handle,
            address: Vec::new(),
            next_token: 1,
        };
        node.address = node.listen()?;
        Ok(node)
    }

    fn core<T>(
        &self,
        body: impl FnOnce(&mut Worker) -> crate::error::Result<T>,
    ) -> Result<T, (Status, String)> {
        registry::with(self.handle, body).map_err(|failure| (failure.status, failure.text))
    }

    fn checked(status: Status) -> Result<(), (Status, String)> {
        if status.is_ok() {
            Ok(())
        } else {
            Err((status, last_error_text()))
        }
    }

    fn listen(&self) -> Result<Vec<u8>, (Status, String)> {
        match self.way {
            Way::Core => self.core(Worker::listen),
            Way::Table => {
                let (mut bytes, mut len) = (vec![0; 256], 0);
                Self::checked(table().listen()(self.handle, Buffer::over(&mut bytes, &mut len)))?;
                bytes.truncate(len as usize);
                Ok(bytes)
            }
        }
    }

    fn params(&self, remote: u32, lane: u32, timeout: Duration) -> (ChannelParams, Ends) {
        let params = ChannelParams {
            local_rank: self.rank,
            remote_rank: remote,
            lane,
            flags: 0,
            timeout_ns: timeout.as_nanos() as u64,
            reserved: [0; 2],
        };
        (
            params,
            Ends {
                local: self.rank,
                remote,
                lane,
            },
        )
    }

    fn connect(&self, peer: &Node, lane: u32) -> u64 {
        self.connect_to(&peer.address, peer.rank, lane, Duration::from_secs(20))
            .unwrap()
    }

    fn connect_to(
        &self,
        address: &[u8],
        remote: u32,
        lane: u32,
        timeout: Duration,
    ) -> Result<u64, (Status, String)> {
        let (params, ends) = self.params(remote, lane, timeout);
        match self.way {
            Way::Core => self.core(|worker| worker.connect(address, ends, timeout)),
            Way::Table => {
                let mut channel = 0;
                let status = table().connect()(
                    self.handle,
                    address.as_ptr(),
                    address.len() as u64,
                    &params,
                    &mut channel,
                );
                Self::checked(status).map(|()| channel)
            }
        }
    }

    fn accept(&self, peer: &Node, lane: u32) -> u64 {
        self.accept_from(peer.rank, lane, Duration::from_secs(20))
            .unwrap()
    }

    fn accept_from(&self, remote: u32, lane: u32, timeout: Duration) -> Result<u64, (Status, String)> {
        let (params, ends) = self.params(remote, lane, timeout);
        match self.way {
            Way::Core => self.core(|worker| worker.accept(ends, timeout)),
            Way::Table => {
                let mut channel = 0;
                Self::checked(table().accept()(self.handle, &params, &mut channel)).map(|()| channel)
            }
        }
    }

    fn state(&self, channel: u64) -> (ChannelState, String) {
        match self.way {
            Way::Core => self.core(|worker| worker.channel_state(channel)).unwrap(),
            Way::Table => {
                let (mut state, mut bytes, mut len) = (ChannelState::FAILED, vec![0; 4096], 0);
                let status = table().channel_state()(
                    self.handle,
                    channel,
                    &mut state,
                    Buffer::over(&mut bytes, &mut len),
                );
                Self::checked(status).unwrap();
                bytes.truncate(len as usize);
                (state, String::from_utf8(bytes).unwrap())
            }
        }
    }

    fn post(&self, requests: &[WorkRequest]) -> (Status, usize) {
        match self.way {
            Way::Core => registry::with(self.handle, |worker| {
                // SAFETY: the tests keep buffers until their completions were polled or the worker is closed.
                let (taken, verdict) = unsafe { worker.post(requests) };
                Ok((
                    verdict.map_or_else(|failure| failure.status, |()| Status::OK),
                    taken,
                ))
            })
            .unwrap_or_else(|failure| (failure.status, 0)),
            Way::Table => {
                let mut accepted = 0;
                let status = table().post()(
                    self.handle,
                    requests.as_ptr(),
                    requests.len() as u64,
                    &mut accepted,
                );
                (status, accepted as usize)
            }
        }
    }

    /// Posts one request, which must be accepted; returns its token.
    fn post_one(&mut self, mut request: WorkRequest) -> u64 {
        request.token = self.next_token;
        self.next_token += 1;
        assert_eq!(self.post(&[request]), (Status::OK, 1));
        request.token
    }

    fn send(&mut self, channel: u64, bytes: &[u8], imm: u32) -> u64 {
        self.post_one(request(
            WorkOp::SEND,
            channel,
            bytes.as_ptr().cast_mut(),
            bytes.len(),
            imm,
        ))
    }

    fn recv(&mut self, channel: u64, bytes: &mut [u8]) -> u64 {
        self.post_one(request(WorkOp::RECV, channel, bytes.as_mut_ptr(), bytes.len(), 0))
    }

    /// Posts a receive whose memory stays, whatever becomes of it.
    fn recv_for_ever(&mut self, channel: u64, len: usize) -> u64 {
        self.recv(channel, Box::leak(vec![0; len].into_boxed_slice()))
    }

    fn poll(&self) -> Vec<Completion> {
        self.poll_at_most(64)
    }

    fn poll_at_most(&self, most: usize) -> Vec<Completion> {
        let mut completions = Vec::with_capacity(most);
        let count = match self.way {
            // SAFETY: the vector has the capacity.
            Way::Core => self
                .core(|worker| Ok(unsafe { worker.poll(completions.as_mut_ptr(), most) }))
                .unwrap(),
            Way::Table => {
                let mut count = 0;
                let status = table().poll()(self.handle, completions.as_mut_ptr(), most as u64, &mut count);
                assert_eq!(status, Status::OK, "{}", last_error_text());
                count as usize
            }
        };
        // SAFETY: so many were written.
        unsafe { completions.set_len(count) };
        completions
    }

    fn abort(&self, channel: u64) -> Status {
        match self.way {
            Way::Core => status_of(self.core(|worker| worker.channel_abort(channel))),
            Way::Table => table().channel_abort()(self.handle, channel),
        }
    }

    fn close_channel(&self, channel: u64, timeout: Duration) -> Status {
        match self.way {
            Way::Core => status_of(self.core(|worker| worker.channel_close(channel, timeout))),
            Way::Table => table().channel_close()(self.handle, channel, timeout.as_nanos() as u64),
        }
    }

    fn close(&self, timeout: Duration) -> Status {
        match self.way {
            Way::Core => match registry::remove(self.handle).and_then(|worker| worker.close(timeout)) {
                Ok(()) => Status::OK,
                Err(failure) => failure.status,
            },
            Way::Table => table().worker_close()(self.handle, timeout.as_nanos() as u64),
        }
    }

    /// Lets the worker vanish as the end of its process would.
    fn die(self) {
        drop(registry::remove(self.handle));
    }

    fn arm(&self) {
        match self.way {
            Way::Core => {
                let armed = self.core(|worker| {
                    worker.arm();
                    Ok(())
                });
                armed.unwrap();
            }
            Way::Table => assert_eq!(table().arm()(self.handle), Status::OK),
        }
    }

    fn wait_fd(&self) -> i32 {
        match self.way {
            Way::Core => self.core(|worker| Ok(worker.events.fd().as_raw_fd())).unwrap(),
            Way::Table => {
                let mut fd = -1;
                assert_eq!(table().wait_fd()(self.handle, &mut fd), Status::OK);
                fd
            }
        }
    }

    /// Sleeps until the descriptor is readable; false: the limit passed.
    fn sleep(&self, limit: Duration) -> bool {
        let fd = self.wait_fd();
        let mut set = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid entry.
        let count = unsafe { libc::poll(&raw mut set, 1, limit.as_millis() as libc::c_int) };
        assert!(count >= 0 || std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted);
        count > 0
    }

    /// Polls until so many completions came, and returns them.
    fn finish(&self, count: usize) -> Vec<Completion> {
        let mut all = Vec::new();
        let deadline = Instant::now() + LIMIT / 2;
        while all.len() < count {
            all.extend(self.poll());
            assert!(
                Instant::now() < deadline,
                "rank {}: {} of {count} completions came",
                self.rank,
                all.len()
            );
        }
        assert_eq!(all.len(), count, "rank {}", self.rank);
        all
    }
}

fn status_of(result: Result<(), (Status, String)>) -> Status {
    result.map_or_else(|(status, _)| status, |()| Status::OK)
}

fn request(op: WorkOp, channel: u64, addr: *mut u8, len: usize, imm: u32) -> WorkRequest {
    WorkRequest {
        op,
        imm,
        channel,
        addr,
        len: len as u64,
        key: 0,
        token: 0,
        remote_addr: 0,
        remote_key: 0,
        flags: 0,
        reserved: [0; 2],
    }
}

/// Polls both, unless it completes something, until `until` holds.
fn drive(nodes: &[&Node], mut until: impl FnMut() -> bool) -> Vec<(u32, Completion)> {
    let deadline = Instant::now() + LIMIT / 2;
    let mut all = Vec::new();
    while !until() {
        for node in nodes {
            all.extend(node.poll().into_iter().map(|completion| (node.rank, completion)));
        }
        assert!(Instant::now() < deadline, "what is waited for does not happen");
    }
    all
}

/// Polls all nodes until so many completions came.
fn drive_for(nodes: &[&Node], count: usize) -> Vec<(u32, Completion)> {
    let deadline = Instant::now() + LIMIT / 2;
    let mut all = Vec::new();
    while all.len() < count {
        for node in nodes {
            all.extend(node.poll().into_iter().map(|completion| (node.rank, completion)));
        }
        assert!(
            Instant::now() < deadline,
            "{} of {count} completions came: {all:?}",
            all.len()
        );
    }
    all
}

fn is_ready(node: &Node, channel: u64) -> bool {
    node.state(channel).0 == ChannelState::READY
}

/// Two workers with a channel that is ready: the first node connects, the second accepts.
fn pair(way: Way, rows: &[(&str, &str)]) -> (Node, u64, Node, u64) {
    let (a, b) = (Node::new(way, 0, rows), Node::new(way, 1, rows));
    let (to_b, to_a) = (a.connect(&b, 0), b.accept(&a, 0));
    drive(&[&a, &b], || is_ready(&a, to_b) && is_ready(&b, to_a));
    (a, to_b, b, to_a)
}

/// Bytes that differ by sender, receiver, message and position: blocks of noise, each with its number in front.
fn pattern(from: u32, to: u32, message: u32, len: usize) -> Vec<u8> {
    const BLOCK: usize = 4099;
    let seed = u64::from(from) << 40 ^ u64::from(to) << 20 ^ u64::from(message);
    let word = |index: u64| {
        (index ^ seed << 8)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(23)
    };
    let words = len.min(BLOCK).div_ceil(8) as u64;
    let noise: Vec<u8> = (0..words).flat_map(|index| word(index).to_le_bytes()).collect();
    let mut bytes = Vec::with_capacity(len);
    for number in 0_u32.. {
        let left = len - bytes.len();
        if left == 0 {
            break;
        }
        let start = bytes.len();
        bytes.extend_from_slice(&noise[..left.min(BLOCK)]);
        for (byte, digit) in bytes[start..].iter_mut().zip(number.to_le_bytes()) {
            *byte ^= digit;
        }
    }
    bytes
}
