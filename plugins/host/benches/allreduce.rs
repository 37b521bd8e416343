//! Times collectives and messages between ranks that are processes of this machine, on stream zero or on a
//! polled stream.
//!
//! `cargo bench -p infiniccl-plugin-host -- [--ranks 2,4] [--ops allreduce,allgather,pingpong] [--sizes 8,1024]
//! [--pin yes] [--polled yes]` prints the median and the least time of a call in µs. A sample is the mean of enough calls for 200 µs; pingpong is
//! half of a round trip. Compare figures of one run only: other load on the machine moves them by factors.

use infiniccl_plugin_api::{
    Buffer, CollDesc, Collective, CommHandle, DType, DeviceHandle, EventHandle, RedOp, Status, StreamHandle,
    VendorTableRef, stream_flags,
};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const SIZES: &str = "8,1024,65536,1048576,16777216,134217728";
/// Keeps a rank on one processor, so that a busy machine disturbs less.
fn pin(rank: usize) {
    let all = rustix::thread::sched_getaffinity(None).expect("processors");
    let allowed: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| all.is_set(*cpu))
        .collect();
    let mut one = rustix::thread::CpuSet::new();
    one.set(allowed[rank % allowed.len()]);
    rustix::thread::sched_setaffinity(None, &one).expect("pinned");
}

/// How long one size of one operation is measured.
const BUDGET: Duration = Duration::from_millis(400);

fn table() -> VendorTableRef {
    infiniccl_plugin_host::plugin_root()
        .vendor()
        .into_option()
        .expect("a vendor plugin")
}

fn ok(status: Status) {
    if !status.is_ok() {
        let (mut text, mut len) = ([0; 1024], 0);
        table().last_error()(Buffer::over(&mut text, &mut len));
        panic!("{}: {}", status.name(), String::from_utf8_lossy(&text));
    }
}

fn open() -> DeviceHandle {
    let mut device = 0;
    ok(table().device_open()(
        0,
        std::ptr::null(),
        std::ptr::null(),
        0,
        &mut device,
    ));
    device
}

fn desc(collective: Collective) -> CollDesc {
    CollDesc {
        collective,
        dtype: DType::FLOAT32,
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
        check: 7,
        reserved: [0; 4],
    }
}

struct Rank {
    device: DeviceHandle,
    comm: CommHandle,
    rank: usize,
    size: usize,
    /// Zero, or the stream and the event that are polled.
    polled: (StreamHandle, EventHandle),
}

impl Rank {
    fn join(id: &[u8], rank: usize, size: usize) -> Rank {
        let (mut comm, code) = (0, |value: usize| u32::try_from(value).expect("small"));
        let (device, mut polled) = (open(), (0, 0));
        if option("--polled", "no")[0] == "yes" {
            ok(table().stream_create()(
                device,
                stream_flags::POLLED,
                &mut polled.0,
            ));
            ok(table().event_create()(device, &mut polled.1));
        }
        ok(table().comm_init()(
            device,
            id.as_ptr(),
            id.len() as u64,
            code(rank),
            code(size),
            30_000_000_000,
            std::ptr::null(),
            0,
            &mut comm,
        ));
        Rank {
            device,
            comm,
            rank,
            size,
            polled,
        }
    }

    fn run(&self, call: CollDesc) {
        let (stream, event) = self.polled;
        ok(table().enqueue()(self.comm, &call, 1, stream));
        if stream != 0 {
            ok(table().event_record()(self.device, event, stream));
            loop {
                match table().event_query()(self.device, event) {
                    Status::IN_PROGRESS => std::thread::yield_now(),
                    status => return ok(status),
                }
            }
        }
    }

    /// The largest of all ranks' numbers: ranks must agree how often they call.
    fn agree(&self, value: f64) -> f64 {
        let mut all = value;
        let place = std::ptr::from_mut(&mut all).cast::<u8>();
        let call = CollDesc {
            dtype: DType::FLOAT64,
            op: RedOp::MAX,
            send: place,
            recv: place,
            count: 1,
            ..desc(Collective::ALL_REDUCE)
        };
        self.run(call);
        all
    }

    /// Median and least time of a call in µs.
    fn measure(&self, call: &mut dyn FnMut(), calls_per_run: f64) -> (f64, f64) {
        let time = |call: &mut dyn FnMut(), times: usize| {
            let start = Instant::now();
            for _ in 0..times {
                call();
            }
            start.elapsed().as_secs_f64() * 1e6 / times as f64
        };
        time(call, 3);
        let once = self
            .agree((0..5).map(|_| time(call, 3)).fold(f64::MAX, f64::min))
            .max(0.05);
        let batch = (200.0 / once).ceil().clamp(1.0, 5000.0);
        let samples = (BUDGET.as_secs_f64() * 1e6 / (once * batch)).clamp(5.0, 2000.0);
        let mut times: Vec<f64> = (0..samples as usize)
            .map(|_| time(call, batch as usize) / calls_per_run)
            .collect();
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times[0])
    }

    fn operation(&self, name: &str, bytes: usize, buffers: &mut (Vec<f32>, Vec<f32>)) -> Option<(f64, f64)> {
        let count = bytes / 4;
        let (send, recv) = buffers;
        let (size, me) = (self.size, self.rank);
        let out = if name == "allgather" { count * size } else { count };
        if out * 4 > 256 << 20 {
            return None;
        }
        send.clear();
        send.extend((0..count).map(|i| ((me + 1) * (i % 13 + 1)) as f32));
        recv.clear();
        recv.resize(out, -1.0);
        let (from, to) = (send.as_ptr().cast::<u8>(), recv.as_mut_ptr().cast::<u8>());
        let call = |collective| CollDesc {
            send: from,
            recv: to,
            count: count as u64,
            ..desc(collective)
        };
        let sum = (size * (size + 1) / 2) as f32;
        let timed = match name {
            "allreduce" => self.measure(&mut || self.run(call(Collective::ALL_REDUCE)), 1.0),
            "allgather" => self.measure(&mut || self.run(call(Collective::ALL_GATHER)), 1.0),
            "broadcast" => self.measure(&mut || self.run(call(Collective::BROADCAST)), 1.0),
            "pingpong" => {
                let with = |collective, peer| CollDesc {
                    peer,
                    ..call(collective)
                };
                let mut turn = || match me {
                    0 => {
                        self.run(with(Collective::SEND, 1));
                        self.run(with(Collective::RECV, 1));
                    }
                    1 => {
                        self.run(with(Collective::RECV, 0));
                        self.run(with(Collective::SEND, 0));
                    }
                    _ => {}
                };
                self.measure(&mut turn, 2.0)
            }
            other => panic!("unknown operation {other}"),
        };
        for (i, got) in recv.iter().enumerate() {
            let base = (i % count.max(1) % 13 + 1) as f32;
            let expected = match name {
                "allreduce" => sum * base,
                "allgather" => (i / count + 1) as f32 * base,
                "broadcast" => base,
                _ if me < 2 => (2 - me) as f32 * base,
                _ => -1.0,
            };
            assert_eq!(*got, expected, "{name} of {bytes} bytes, element {i}");
        }
        Some(timed)
    }
}

fn option(name: &str, default: &str) -> Vec<String> {
    let arguments: Vec<String> = std::env::args().collect();
    let value = arguments
        .iter()
        .position(|argument| argument == name)
        .and_then(|at| arguments.get(at + 1));
    value
        .map_or(default, String::as_str)
        .split(',')
        .map(str::to_owned)
        .collect()
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_else(|_| panic!("'{text}' is no number"))
}

fn child(id: &str, rank: usize, size: usize) {
    let id: Vec<u8> = (0..id.len() / 2)
        .map(|i| u8::from_str_radix(&id[2 * i..2 * i + 2], 16).expect("hex"))
        .collect();
    if option("--pin", "no")[0] == "yes" {
        pin(rank);
    }
    let rank = Rank::join(&id, rank, size);
    for operation in option("--ops", "allreduce,allgather,pingpong") {
        let mut buffers = (Vec::new(), Vec::new());
        for bytes in option("--sizes", SIZES) {
            let bytes = number(&bytes);
            if let (Some((median, least)), 0) = (rank.operation(&operation, bytes, &mut buffers), rank.rank) {
                println!("{operation:10} {size:3} {bytes:10} {median:12.2} {least:12.2}");
            }
        }
    }
}

fn main() {
    if let Ok(words) = std::env::var("INFINICCL_BENCH_RANK") {
        let words: Vec<&str> = words.split(' ').collect();
        child(words[0], number(words[1]), number(words[2]));
        return;
    }
    let device = open();
    println!("operation  ranks   bytes    median us     least us");
    for size in option("--ranks", "2,4") {
        let (mut id, mut len) = ([0; 8192], 0);
        ok(table().comm_unique_id()(device, Buffer::over(&mut id, &mut len)));
        let id: String = id[..usize::try_from(len).expect("length")]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let program = std::env::current_exe().expect("this program");
        let start = |rank| {
            Command::new(&program)
                .args(std::env::args().skip(1))
                .env("INFINICCL_BENCH_RANK", format!("{id} {rank} {size}"))
                .spawn()
                .expect("a rank starts")
        };
        let children: Vec<Child> = (0..number(&size)).map(start).collect();
        for mut child in children {
            assert!(child.wait().expect("a rank ends").success(), "a rank failed");
        }
    }
}
