//! Ranks as processes: this test program, started again for one rank.

use crate::cluster::{Limit, Rank, Refusal, TEST, check, desc, open, ranks, table, unique_id};
use crate::memory::Guarded;
use infiniccl_plugin_api::{CollDesc, Collective, DType, RedOp, Status};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const WORDS: &str = "INFINICCL_HOST_TEST";

/// Starts this program for one job: its test `child` does what the words say.
fn start(job: &str, id: &[u8], rank: usize, size: usize) -> Child {
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "processes::child", "--nocapture"])
        .env(WORDS, format!("{job} {id} {rank} {size}"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child starts")
}

fn run(job: &str, size: usize) {
    let _limit = Limit::new(job, TEST);
    let device = open(&[]);
    let id = unique_id(device);
    let children: Vec<Child> = (0..size).map(|rank| start(job, &id, rank, size)).collect();
    for (rank, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output().expect("a child ends");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("done"),
            "{job} on rank {rank}: {text}"
        );
    }
    check(table().device_close()(device)).expect("closed");
}

/// Not a test of its own: what a started child does.
#[test]
fn child() {
    let Ok(words) = std::env::var(WORDS) else { return };
    let _limit = Limit::new(&words, TEST);
    let mut words = words.split(' ');
    let mut word = || words.next().expect("four words");
    let (job, id) = (word(), word());
    let id: Vec<u8> = (0..id.len() / 2)
        .map(|i| u8::from_str_radix(&id[2 * i..2 * i + 2], 16).expect("hex"))
        .collect();
    let [rank, size] = [word(), word()].map(|word| word.parse::<usize>().expect("number"));
    match job {
        "rounds" => flat_rounds(),
        "room" => little_room(),
        "idle" => idle_waits(),
        _ => {
            let rank = Rank::join(&id, rank, size, Duration::from_secs(60), &[]).expect("joined");
            match job {
                "sums" => (0..30).for_each(|round| sums(&rank, round)),
                "wait" => wait_for_ever(&rank),
                other => panic!("unknown job {other}"),
            }
        }
    }
    println!("done");
}

fn sums(rank: &Rank, round: usize) {
    for count in [1, 1000, 50_000] {
        let input = |rank: usize, i: usize| ((rank + 1) * (i % 100 + round)) as f32;
        let bytes: Vec<u8> = (0..count)
            .flat_map(|i| input(rank.rank, i).to_le_bytes())
            .collect();
        let (send, mut recv) = (Guarded::with(&bytes), Guarded::new(count * 4));
        let call = CollDesc {
            dtype: DType::FLOAT32,
            op: RedOp::SUM,
            send: send.ptr(),
            recv: recv.ptr_mut(),
            count: count as u64,
            ..desc(Collective::ALL_REDUCE)
        };
        rank.block(call).expect("sum");
        for (i, got) in recv.bytes().chunks_exact(4).enumerate() {
            let expected: f32 = (0..rank.size).map(|rank| input(rank, i)).sum();
            assert_eq!(got, expected.to_le_bytes());
        }
    }
}

fn receive(peer: u32) -> CollDesc {
    CollDesc {
        peer,
        ..desc(Collective::RECV)
    }
}

/// Says that it is ready, then waits for a peer that will not come.
fn wait_for_ever(rank: &Rank) {
    rank.barrier();
    println!("ready");
    let refusal = rank.block(receive(0)).expect_err("nothing comes");
    assert_eq!(refusal.status, Status::ABORTED);
}

#[test]
fn processes_share_memory_and_leave_no_name() {
    let before = names();
    for size in [2, 5] {
        run("sums", size);
    }
    assert!(names().is_subset(&before), "{:?}", names());
}

fn names() -> std::collections::BTreeSet<String> {
    let entries = fs::read_dir("/dev/shm").expect("/dev/shm").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // Communicators that other tests are just making have names for a moment.
    names
        .filter(|name| name.starts_with("infiniccl-") && is_old(name))
        .collect()
}

fn is_old(name: &str) -> bool {
    let made = fs::metadata(format!("/dev/shm/{name}")).and_then(|file| file.modified());
    made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > Duration::from_secs(2)))
}

#[test]
fn a_killed_peer_holds_nobody_once_this_rank_is_aborted() {
    let _limit = Limit::new("a killed peer", TEST);
    let device = open(&[]);
    let id = unique_id(device);
    let mut children: Vec<Child> = (1..3).map(|rank| start("wait", &id, rank, 3)).collect();
    let rank = Rank::join(&id, 0, 3, Duration::from_secs(60), &[]).expect("joined");
    rank.barrier();
    let mut lines = BufReader::new(children[0].stdout.take().expect("piped")).lines();
    while !lines
        .next()
        .expect("the child says ready")
        .expect("text")
        .contains("ready")
    {}
    children[0].kill().expect("killed");
    assert_eq!(children[0].wait().expect("ended").signal(), Some(9));
    let waited = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let outcome = rank.block(receive(1));
            (outcome, Instant::now())
        });
        std::thread::sleep(Duration::from_millis(100));
        let aborted = Instant::now();
        assert!(table().comm_abort()(rank.comm).is_ok());
        let (outcome, end) = waiter.join().expect("waiter");
        assert_eq!(outcome.expect_err("aborted").status, Status::ABORTED);
        end - aborted
    });
    assert!(waited < Duration::from_millis(200), "{waited:?}");
    // The other process was told through the segment.
    let output = children.remove(1).wait_with_output().expect("ended");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    drop(rank);
    check(table().device_close()(device)).expect("closed");
}

/// Many communicators one after another leave no descriptor, mapping or thread behind.
fn flat_rounds() {
    let counts = || {
        let entries = |path: &str| fs::read_dir(path).expect("proc").count();
        let maps = fs::read_to_string("/proc/self/maps").expect("maps");
        // Arenas and stacks of threads that ended are kept by the C library; shared memory is not.
        let shared = maps
            .lines()
            .filter(|line| line.contains("/dev/shm") || line.contains("memfd"))
            .count();
        (entries("/proc/self/fd"), entries("/proc/self/task"), shared)
    };
    let mut flat = None;
    for round in 0..200 {
        ranks(2, |rank| sums(rank, round));
        if round == 20 {
            flat = Some(counts());
        }
    }
    assert_eq!(Some(counts()), flat);
}

/// Ranks that wait for a late one, and communicators that wait for nothing, leave the processors to others.
fn idle_waits() {
    ranks(4, |rank| {
        rank.barrier();
        let ticks = || {
            let stat = fs::read_to_string("/proc/self/stat").expect("stat");
            let after_name = stat.rsplit(')').next().expect("fields");
            let fields = after_name.split_whitespace().skip(11).take(2);
            fields
                .map(|field| field.parse::<u64>().expect("ticks"))
                .sum::<u64>()
        };
        if rank.rank == 0 {
            let before = ticks();
            std::thread::sleep(Duration::from_secs(1));
            // A tick is 10 ms.
            assert!(ticks() - before <= 5, "{} ticks in a second", ticks() - before);
        }
        rank.barrier();
    });
}

#[test]
fn waiting_takes_no_processor_time() {
    run("idle", 1);
}

/// Works in what room /dev/shm has, also after somebody has filled the rest of it.
fn little_room() {
    ranks(4, |rank| {
        if rank.rank == 0 {
            let filled = fs::File::create("/dev/shm/filler")
                .and_then(|mut file| std::io::copy(&mut std::io::repeat(1), &mut file));
            assert!(filled.is_err(), "the file system is full or read-only");
        }
        rank.barrier();
        (0..3).for_each(|round| sums(rank, round));
    });
}

/// Runs the job `room` where `mount` has replaced /dev/shm; false if that is not allowed here.
fn in_little_room(mount: &str) -> bool {
    let try_mount = format!("{mount} || exit 77; exec \"$0\" \"$@\"");
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new("unshare")
        .args(["--mount", "sh", "-c", &try_mount])
        .arg(program)
        .args(["--exact", "processes::child", "--nocapture"])
        .env(WORDS, "room 00 0 1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("unshare is part of every Linux");
    let mut text = String::new();
    child
        .stdout
        .take()
        .expect("piped")
        .read_to_string(&mut text)
        .expect("text");
    let status = child.wait().expect("ended");
    if matches!(status.code(), Some(1 | 77)) && !text.contains("running 1 test") {
        return false;
    }
    assert!(
        status.success() && text.contains("done"),
        "{mount}: {status} {text}"
    );
    true
}

#[test]
fn little_or_no_room_in_dev_shm_is_enough() {
    let _limit = Limit::new("little room", TEST);
    for mount in [
        "mount -t tmpfs -o size=64m none /dev/shm",
        "mount -t tmpfs -o size=1m none /dev/shm",
        "mount -t tmpfs -o size=4k none /dev/shm",
        "mount -t tmpfs -o ro none /dev/shm",
        "mount --bind /proc /dev/shm",
    ] {
        if !in_little_room(mount) {
            eprintln!("skipped: this user may not mount a small /dev/shm ({mount})");
        }
    }
}

#[test]
fn communicators_leave_nothing_behind() {
    run("rounds", 1);
}

#[test]
fn a_forked_child_is_refused_and_does_no_harm() {
    ranks(2, |rank| {
        let comm = rank.comm;
        let mut command = Command::new("/bin/true");
        // SAFETY: the closure runs in the child of a fork; the call under test touches no lock that another thread
        // could hold, and the allocator is made usable in children by the C library.
        unsafe {
            command.pre_exec(move || {
                let call = desc(Collective::BARRIER);
                let status = table().enqueue()(comm, &call, 1, 0);
                assert!(table().comm_abort()(comm).is_ok());
                let refused = status == Status::USAGE;
                if refused {
                    Ok(())
                } else {
                    Err(std::io::Error::from_raw_os_error(22))
                }
            });
        }
        assert!(command.status().expect("the child was refused").success());
        rank.barrier();
        let unharmed: Result<(), Refusal> = rank.block(desc(Collective::BARRIER));
        assert_eq!(unharmed, Ok(()));
    });
}
