//! Two workers in one process that reach each other over loopback; shared by tests and benchmarks.

use infiniccl_plugin_api::{
    Buffer, ChannelParams, ChannelState, Completion, NetTableRef, Property, Status, WorkOp, WorkRequest,
    last_error_text,
};
use infiniccl_plugin_net_tcp::plugin_root;
use std::time::{Duration, Instant};

/// Nothing takes longer.
const LIMIT: Duration = Duration::from_secs(20);

/// One end of a channel, through the table.
pub(crate) struct End {
    table: NetTableRef,
    worker: u64,
    channel: u64,
}

impl End {
    /// Two ends whose channel is ready.
    pub(crate) fn pair() -> [End; 2] {
        let mut ends = [End::open(), End::open()];
        let address = ends[1].address();
        let params = |local_rank, remote_rank| ChannelParams {
            local_rank,
            remote_rank,
            lane: 0,
            flags: 0,
            timeout_ns: LIMIT.as_nanos() as u64,
            reserved: [0; 2],
        };
        let [first, second] = &mut ends;
        let table = first.table;
        let len = address.len() as u64;
        check(table.connect()(
            first.worker,
            address.as_ptr(),
            len,
            &params(0, 1),
            &mut first.channel,
        ));
        check(table.accept()(second.worker, &params(1, 0), &mut second.channel));
        let started = Instant::now();
        // Each looks at its own part, so that none may be left out.
        while ends.iter().filter(|end| end.is_ready()).count() < ends.len() {
            assert!(started.elapsed() < LIMIT, "the ends do not meet");
        }
        ends
    }

    fn open() -> Self {
        let table = plugin_root().net().into_option().expect("net-tcp has a table");
        let rows = [
            Property::new("auth", "none"),
            Property::new("addresses", "127.0.0.1"),
        ];
        let mut worker = 0;
        let count = rows.len() as u64;
        check(table.worker_open()(
            0,
            std::ptr::null(),
            rows.as_ptr(),
            count,
            &mut worker,
        ));
        End {
            table,
            worker,
            channel: 0,
        }
    }

    fn address(&self) -> Vec<u8> {
        let (mut address, mut len) = (vec![0; 256], 0);
        check(self.table.listen()(
            self.worker,
            Buffer::over(&mut address, &mut len),
        ));
        address.truncate(len as usize);
        address
    }

    fn is_ready(&self) -> bool {
        self.poll();
        let (mut state, mut text, mut len) = (ChannelState::FAILED, [0; 1024], 0);
        let detail = Buffer::over(&mut text, &mut len);
        check(self.table.channel_state()(
            self.worker,
            self.channel,
            &mut state,
            detail,
        ));
        match state {
            ChannelState::READY => true,
            ChannelState::CONNECTING => false,
            _ => panic!("{}", String::from_utf8_lossy(&text[..len as usize])),
        }
    }

    /// Closes the worker.
    pub(crate) fn close(self) {
        check(self.table.worker_close()(self.worker, LIMIT.as_nanos() as u64));
    }

    /// A request for all of `bytes`, which stay untouched until it completes.
    pub(crate) fn request(&self, op: WorkOp, bytes: &mut [u8]) -> WorkRequest {
        WorkRequest {
            op,
            imm: 0,
            channel: self.channel,
            addr: bytes.as_mut_ptr(),
            len: bytes.len() as u64,
            key: 0,
            token: 0,
            remote_addr: 0,
            remote_key: 0,
            flags: 0,
            reserved: [0; 2],
        }
    }

    /// Posts requests, all of which are accepted.
    pub(crate) fn post(&self, requests: &[WorkRequest]) {
        let mut accepted = 0;
        check(self.table.post()(
            self.worker,
            requests.as_ptr(),
            requests.len() as u64,
            &mut accepted,
        ));
        assert_eq!(accepted, requests.len() as u64);
    }

    /// Polls once; returns how many requests completed, all of them well.
    pub(crate) fn poll(&self) -> u64 {
        let mut ends = [const { std::mem::MaybeUninit::<Completion>::uninit() }; 8];
        let mut count = 0;
        check(self.table.poll()(
            self.worker,
            ends.as_mut_ptr().cast(),
            8,
            &mut count,
        ));
        for end in &ends[..count as usize] {
            // SAFETY: the first `count` were written.
            check(unsafe { end.assume_init_ref() }.status);
        }
        count
    }

    /// Polls until so many requests completed.
    #[allow(dead_code, reason = "tests drive both ends from one thread")]
    pub(crate) fn wait_for(&self, count: u64) {
        let mut seen = 0;
        while seen < count {
            seen += self.poll();
        }
    }
}

/// Fails with the plugin's words unless the status is OK.
fn check(status: Status) {
    assert!(status.is_ok(), "{}: {}", status.name(), last_error_text());
}
