//! Ranks as threads: each opens the device, joins a communicator, and runs a closure under an outer time limit.

use infiniccl_plugin_api::{
    Buffer, CollDesc, Collective, CommHandle, DType, DeviceHandle, EventHandle, Property, RedOp, Status,
    StreamHandle, VendorTableRef, stream_flags,
};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The table of the plugin under test.
pub(crate) fn table() -> VendorTableRef {
    infiniccl_plugin_host::plugin_root()
        .vendor()
        .into_option()
        .expect("a vendor plugin")
}

/// A failed call: its status and the last error of the thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    pub(crate) text: String,
}

/// Turns a status into a result, with the text that the core would fetch.
pub(crate) fn check(status: Status) -> Result<(), Refusal> {
    if status.is_ok() {
        return Ok(());
    }
    let (mut bytes, mut len) = ([0; 4096], 0);
    let text = match table().last_error()(Buffer::over(&mut bytes, &mut len)) {
        Status::OK => String::from_utf8_lossy(&bytes[..usize::try_from(len).expect("length")]).into_owned(),
        other => format!("no text: {other:?}"),
    };
    Err(Refusal { status, text })
}

/// Opens device 0.
pub(crate) fn open(options: &[(&str, &str)]) -> DeviceHandle {
    let rows: Vec<Property> = options
        .iter()
        .map(|(key, value)| Property::new(key, value))
        .collect();
    let mut device = 0;
    let status = table().device_open()(0, std::ptr::null(), rows.as_ptr(), rows.len() as u64, &mut device);
    check(status).expect("device opens");
    device
}

/// A new id.
pub(crate) fn unique_id(device: DeviceHandle) -> Vec<u8> {
    let (mut bytes, mut len) = ([0; 8192], 0);
    check(table().comm_unique_id()(
        device,
        Buffer::over(&mut bytes, &mut len),
    ))
    .expect("an id");
    bytes[..usize::try_from(len).expect("length")].to_vec()
}

/// A descriptor with everything zero but the collective.
pub(crate) fn desc(collective: Collective) -> CollDesc {
    CollDesc {
        collective,
        dtype: DType::INT8,
        op: RedOp::SUM,
        flags: 0,
        root: 0,
        peer: 0,
        send: std::ptr::null(),
        recv: std::ptr::null_mut(),
        count: 0,
        counts: std::ptr::null(),
        displs: std::ptr::null(),
        scale_bits: 0,
        check: 0,
        reserved: [0; 4],
    }
}

/// How work is given to a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// On stream zero, in the calling thread.
    Blocking,
    /// On a polled stream that is queried in a loop.
    Queried,
    /// On a polled stream that is synchronized.
    Synchronized,
    /// On an ordinary stream.
    Threaded,
}

pub(crate) const MODES: [Mode; 4] = [Mode::Blocking, Mode::Queried, Mode::Synchronized, Mode::Threaded];

/// A rank of a communicator.
pub(crate) struct Rank {
    pub(crate) device: DeviceHandle,
    pub(crate) comm: CommHandle,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    streams: [StreamHandle; 2],
    event: EventHandle,
}

impl Rank {
    /// Joins as `rank` of `size`.
    pub(crate) fn join(
        id: &[u8],
        rank: usize,
        size: usize,
        timeout: Duration,
        options: &[(&str, &str)],
    ) -> Result<Rank, Refusal> {
        let device = open(options);
        let (mut comm, mut streams, mut event) = (0, [0; 2], 0);
        let number = |value: usize| u32::try_from(value).expect("small");
        let timeout = u64::try_from(timeout.as_nanos()).expect("short");
        let (rank_code, size_code) = (number(rank), number(size));
        let joined = check(table().comm_init()(
            device,
            id.as_ptr(),
            id.len() as u64,
            rank_code,
            size_code,
            timeout,
            std::ptr::null(),
            0,
            &mut comm,
        ));
        if let Err(refusal) = joined {
            check(table().device_close()(device)).expect("closes");
            return Err(refusal);
        }
        check(table().stream_create()(
            device,
            stream_flags::POLLED,
            &mut streams[0],
        ))
        .expect("stream");
        check(table().stream_create()(device, 0, &mut streams[1])).expect("stream");
        check(table().event_create()(device, &mut event)).expect("event");
        Ok(Rank {
            device,
            comm,
            rank,
            size,
            streams,
            event,
        })
    }

    /// Gives operations to the communicator and waits for their end.
    pub(crate) fn run(&self, mode: Mode, descs: &[CollDesc]) -> Result<(), Refusal> {
        let stream = match mode {
            Mode::Blocking => 0,
            Mode::Queried | Mode::Synchronized => self.streams[0],
            Mode::Threaded => self.streams[1],
        };
        check(table().enqueue()(
            self.comm,
            descs.as_ptr(),
            descs.len() as u64,
            stream,
        ))?;
        if mode == Mode::Blocking {
            return Ok(());
        }
        check(table().event_record()(self.device, self.event, stream))?;
        loop {
            let status = match mode {
                Mode::Queried => table().event_query()(self.device, self.event),
                _ => table().event_synchronize()(self.device, self.event, 1_000_000),
            };
            if status != Status::IN_PROGRESS {
                return check(status);
            }
            if mode == Mode::Queried {
                std::thread::yield_now();
            }
        }
    }

    /// Runs one operation on stream zero.
    pub(crate) fn block(&self, desc: CollDesc) -> Result<(), Refusal> {
        self.run(Mode::Blocking, &[desc])
    }

    /// Waits for all ranks.
    pub(crate) fn barrier(&self) {
        self.block(desc(Collective::BARRIER)).expect("barrier");
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let table = table();
        let mut ended = vec![
            table.comm_destroy()(self.comm),
            table.event_destroy()(self.device, self.event),
        ];
        ended.extend(
            self.streams
                .map(|stream| table.stream_destroy()(self.device, stream)),
        );
        ended.push(table.device_close()(self.device));
        assert!(
            std::thread::panicking() || ended.iter().all(|status| status.is_ok()),
            "{ended:?}"
        );
    }
}

/// Ends the process if it is not dropped in time: a hang must fail, with the name of what hangs.
pub(crate) struct Limit(Option<(mpsc::Sender<()>, std::thread::JoinHandle<()>)>);

impl Limit {
    pub(crate) fn new(what: &str, limit: Duration) -> Limit {
        let (sender, receiver) = mpsc::channel::<()>();
        let what = what.to_owned();
        let watch = std::thread::spawn(move || {
            if receiver.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{what} did not end within {limit:?}");
                std::process::abort();
            }
        });
        Limit(Some((sender, watch)))
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        if let Some((sender, watch)) = self.0.take() {
            drop(sender);
            let _ = watch.join();
        }
    }
}

/// How long a rank may take to join, and a test to end, on a busy machine.
pub(crate) const JOIN: Duration = Duration::from_secs(60);
pub(crate) const TEST: Duration = Duration::from_secs(300);

/// Runs `body` on each of `size` ranks, as threads; the results in rank order.
pub(crate) fn ranks<T: Send>(size: usize, body: impl Fn(&Rank) -> T + Sync) -> Vec<T> {
    ranks_with(size, &[], body)
}

/// As [`ranks`], with options of the configuration.
pub(crate) fn ranks_with<T: Send>(
    size: usize,
    options: &[(&str, &str)],
    body: impl Fn(&Rank) -> T + Sync,
) -> Vec<T> {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let _limit = Limit::new(&format!("{name} on {size} ranks"), TEST);
    let device = open(&[]);
    let id = unique_id(device);
    check(table().device_close()(device)).expect("closes");
    std::thread::scope(|scope| {
        let start = |rank| {
            let (id, body) = (&id, &body);
            scope.spawn(move || {
                let rank = Rank::join(id, rank, size, JOIN, options).expect("joined");
                body(&rank)
            })
        };
        let threads: Vec<_> = (0..size).map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("rank"))
            .collect()
    })
}

/// Whether `condition` comes true in time; looks often.
pub(crate) fn soon(condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if condition() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}
