//! Ranks as processes of their own: killed, stopped, interrupted by signals, forked, and counted for leaks.
//!
//! The test binary starts itself again with a role; [`role`] is the body of such a process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;
use crate::ErrorKind;
use crate::bootstrap::environment::{join_from_environment, process_env};

const ROLE: &str = "BOOTSTRAP_TEST_ROLE";

/// A process that plays a role, killed when the test ends.
struct Actor {
    child: Child,
    lines: Receiver<String>,
}

impl Actor {
    fn start(role: &str, arguments: &[(&str, String)]) -> Actor {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "bootstrap::tests::processes::role",
                "--nocapture",
                "--ignored",
            ])
            .env(ROLE, role)
            .envs(arguments.iter().map(|(key, value)| (*key, value.as_str())))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(std::result::Result::ok) {
                let _ = said.send(line);
            }
        });
        Actor { child, lines }
    }

    /// Waits for a line that contains `part`.
    fn says(&self, part: &str) -> String {
        let begun = Instant::now();
        while let Some(left) = LIMIT.checked_sub(begun.elapsed()) {
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(part) => return line,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        panic!("the process did not say `{part}`");
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn argument(name: &str) -> String {
    std::env::var(name).unwrap()
}

#[test]
#[ignore = "the body of the processes that other tests start"]
fn role() {
    match std::env::var(ROLE).as_deref() {
        Ok("ranks") => ranks(),
        Ok("signals") => signals(),
        Ok("cycles") => cycles(),
        Ok("fork") => fork(),
        Ok("idle") => idle(),
        Ok("world") => world(),
        other => panic!("no role: {other:?}"),
    }
}

fn quick() -> Settings {
    Settings {
        heartbeat: Duration::from_millis(1000),
        ..settings()
    }
}

/// Joins as some ranks, and says what failure each of them sees.
fn ranks() {
    let id: UniqueId = argument("ID").parse().unwrap();
    let size: u32 = argument("SIZE").parse().unwrap();
    let ranks: Vec<u32> = argument("RANKS")
        .split(',')
        .map(|rank| rank.parse().unwrap())
        .collect();
    let count = ranks.len();
    let results = each_rank(ranks, move |rank| join(id, rank, size, &quick()).unwrap());
    let planes = collect(&results, count);
    println!("joined");
    for (rank, plane) in &planes {
        let failure = eventually("the failure", || plane.failure());
        println!(
            "rank {rank} sees {:?} {:?}: {}",
            failure.kind, failure.rank, failure.message
        );
    }
    println!("done");
}

/// Nineteen ranks: this process has the root and most leaves, one process the inner rank 1, one what hangs below it.
fn three_processes() -> (Vec<ControlPlane>, Actor, Actor) {
    let id = new_id();
    let start = |ranks: &str| {
        let arguments = [
            ("ID", id.to_hex()),
            ("SIZE", "19".to_owned()),
            ("RANKS", ranks.to_owned()),
        ];
        Actor::start("ranks", &arguments)
    };
    let (inner, below) = (start("1"), start("17,18"));
    let here: Vec<u32> = (0..17).filter(|rank| *rank != 1).collect();
    let results = each_rank(here, move |rank| join(id, rank, 19, &quick()).unwrap());
    let planes = collect(&results, 16)
        .into_iter()
        .map(|(_, plane)| plane)
        .collect();
    inner.says("joined");
    below.says("joined");
    (planes, inner, below)
}

#[test]
fn a_killed_inner_rank_is_named_above_and_below() {
    let (planes, inner, below) = three_processes();
    inner.signal(rustix::process::Signal::KILL);
    for plane in &planes {
        let failure = eventually("the failure", || plane.failure());
        assert_eq!(
            (failure.kind, failure.rank),
            (ErrorKind::Remote, Some(1)),
            "{}",
            failure.message
        );
    }
    for rank in [17, 18] {
        let line = below.says(&format!("rank {rank} sees"));
        assert!(line.contains("Remote Some(1)"), "{line}");
    }
}

#[test]
fn a_stopped_inner_rank_is_named_and_learns_of_it_when_it_goes_on() {
    let (planes, inner, below) = three_processes();
    inner.signal(rustix::process::Signal::STOP);
    for plane in &planes {
        let failure = eventually("the failure", || plane.failure());
        assert_eq!(failure.rank, Some(1), "{}", failure.message);
        assert!(failure.message.contains("silent"), "{}", failure.message);
    }
    assert!(below.says("rank 17 sees").contains("Remote Some(1)"));
    inner.signal(rustix::process::Signal::CONT);
    assert!(inner.says("rank 1 sees").contains("Some(1)"));
}

extern "C" fn ignore(_: libc::c_int) {}

/// Joins and exchanges while a timer interrupts every system call.
fn signals() {
    // SAFETY: the handler does nothing, and without SA_RESTART system calls are interrupted.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int) = ignore;
        action.sa_sigaction = handler as usize;
        assert_eq!(
            libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()),
            0
        );
        let every = libc::timeval {
            tv_sec: 0,
            tv_usec: 1000,
        };
        let timer = libc::itimerval {
            it_interval: every,
            it_value: every,
        };
        assert_eq!(
            libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()),
            0
        );
    }
    for job in 0..10 {
        let id = new_id();
        let results = each_rank(0..3, move |rank| {
            let plane = join(id, rank, 3, &settings()).unwrap();
            for round in 0..30 {
                let records = plane.allgather("signals", &blob(rank, round), soon()).unwrap();
                assert_eq!(
                    records,
                    (0..3).map(|r| blob(r, round)).collect::<Vec<_>>(),
                    "job {job}"
                );
            }
            plane.close(soon());
        });
        collect(&results, 3);
    }
    println!("done");
}

#[test]
fn a_storm_of_signals_interrupts_nothing() {
    Actor::start("signals", &[]).says("done");
}

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Makes and ends many communicators, and some that fail to form, under a low limit of descriptors.
fn cycles() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(128),
            maximum: Some(128),
        },
    )
    .unwrap();
    let mut level = None;
    for cycle in 0..60 {
        let id = new_id();
        let results = each_rank(0..2, move |rank| {
            let plane = join(id, rank, 2, &settings()).unwrap();
            plane.barrier("cycle", soon()).unwrap();
            plane.close(soon());
        });
        collect(&results, 2);
        let refused = join(id, 0, 2, &impatient(Duration::from_millis(1))).map(|_| ());
        assert!(refused.is_err());
        let now = eventually("the end of the service thread", || {
            let threads = count("/proc/self/task");
            (level.is_none_or(|(_, before)| threads <= before)).then(|| (count("/proc/self/fd"), threads))
        });
        if cycle >= 10 {
            let level = level.get_or_insert(now);
            assert!(now.0 <= level.0, "{} descriptors, {} before", now.0, level.0);
        }
    }
    println!("done");
}

#[test]
fn cycles_of_joining_and_closing_leak_nothing() {
    Actor::start("cycles", &[]).says("done");
}

/// Forks after joining; the child gets an error and the parent goes on.
fn fork() {
    let id = new_id();
    let results = each_rank(0..2, move |rank| join(id, rank, 2, &settings()).unwrap());
    let planes: Vec<_> = collect(&results, 2).into_iter().map(|(_, plane)| plane).collect();
    // SAFETY: the child only calls what is meant to work after fork, and ends without running destructors of the parent.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let error = planes[0].barrier("in the child", soon()).unwrap_err();
        let right = error.kind() == ErrorKind::InvalidUsage && error.message().contains("fork");
        drop(planes);
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(if right { 7 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: `status` is a valid place, and `child` is a child of this process.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } != child {}
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7,
        "status {status:#x}"
    );
    let planes = Arc::new(planes);
    let results = each_rank(0..2, {
        let planes = Arc::clone(&planes);
        move |rank| planes[usize::try_from(rank).unwrap()].barrier("in the parent", soon())
    });
    collect(&results, 2)
        .into_iter()
        .for_each(|(_, result)| result.unwrap());
    println!("done");
}

#[test]
fn a_fork_gets_an_error_and_does_not_disturb_its_parent() {
    Actor::start("fork", &[]).says("done");
}

fn processor_time() -> Duration {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(usage.tv_sec).unwrap(),
        u32::try_from(usage.tv_nsec).unwrap(),
    )
}

/// Holds four communicators of eight ranks, and measures what they cost when nothing happens.
fn idle() {
    let planes: Vec<_> = (0..4)
        .flat_map(|_| {
            let id = new_id();
            let results = each_rank(0..8, move |rank| join(id, rank, 8, &settings()).unwrap());
            collect(&results, 8)
        })
        .collect();
    thread::sleep(Duration::from_millis(500));
    let (begun, used) = (Instant::now(), processor_time());
    thread::sleep(Duration::from_secs(2));
    let share = (processor_time() - used).as_secs_f64() / begun.elapsed().as_secs_f64();
    assert!(share < 0.02, "idle ranks use {:.2} % of a core", share * 100.0);
    println!("done: {:.3} %", share * 100.0);
    drop(planes);
}

#[test]
fn idle_ranks_sleep() {
    Actor::start("idle", &[]).says("done");
}

/// Joins by its environment, twice, and says what came of it.
fn world() {
    let config = Config::load(None).unwrap();
    for round in 0..2u32 {
        let plane = match join_from_environment(&config, &process_env) {
            Ok(plane) => plane,
            Err(error) => return println!("error: {error}"),
        };
        let (rank, size) = (plane.rank(), plane.size());
        let records = plane.allgather("world", &blob(rank, round), soon()).unwrap();
        assert_eq!(records, (0..size).map(|r| blob(r, round)).collect::<Vec<_>>());
        let addresses: Vec<_> = plane.members().iter().flat_map(|m| m.addresses.clone()).collect();
        println!("world {round}: rank {rank} of {size}, {addresses:?}");
        plane.close(soon());
    }
    println!("done");
}

fn private_folder() -> tempfile::TempDir {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().unwrap()
}

/// Starts a rank of a world with torchrun's variables and those of `more`.
fn start_rank(rank: u32, size: u32, local_size: u32, more: &[(&str, String)]) -> Actor {
    let mut variables = vec![
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", size.to_string()),
        ("LOCAL_WORLD_SIZE", local_size.to_string()),
        ("MASTER_ADDR", "127.0.0.1".to_owned()),
    ];
    variables.extend_from_slice(more);
    Actor::start("world", &variables)
}

fn start_world(size: u32, local_size: u32, more: &[(&str, String)]) -> Vec<Actor> {
    (0..size)
        .map(|rank| start_rank(rank, size, local_size, more))
        .collect()
}

#[test]
fn ranks_of_one_host_meet_through_a_file_while_the_master_port_is_taken() {
    let runtime = private_folder();
    let master = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let more = [
        ("XDG_RUNTIME_DIR", runtime.path().to_str().unwrap().to_owned()),
        ("MASTER_PORT", master.local_addr().unwrap().port().to_string()),
    ];
    let ranks = start_world(3, 3, &more);
    for (rank, actor) in ranks.iter().enumerate() {
        assert!(actor.says("world 0").contains(&format!("rank {rank} of 3")));
        assert!(
            actor
                .says("world 1")
                .contains(&format!("rank {rank} of 3, [127.0.0.1:")),
            "all is on loopback"
        );
        actor.says("done");
    }
    let left = std::fs::read_dir(runtime.path().join("infiniccl"))
        .unwrap()
        .count();
    assert_eq!(left, 0, "the file is gone");
}

#[test]
fn ranks_meet_at_the_root_address_with_a_secret_and_a_wrong_one_is_refused() {
    let (reserved, root) = reserve();
    let folder = private_folder();
    let config = folder.path().join("impatient.toml");
    std::fs::write(&config, "[timeouts]\nconnect = 1.5\n").unwrap();
    let root = ("INFINICCL_ROOT", root.to_string());
    let with_secret = |text: &str| [root.clone(), ("INFINICCL_SECRET", text.to_owned())];
    let right = with_secret("the secret of this test");
    let first = start_rank(0, 3, 2, &right);
    let mut wrong = with_secret("another secret of this test").to_vec();
    wrong.push(("INFINICCL_CONFIG", config.to_str().unwrap().to_owned()));
    let line = start_rank(1, 3, 2, &wrong).says("error");
    assert!(
        line.contains("INFINICCL_SECRET differs") && !line.contains("of this test"),
        "{line}"
    );
    let others = [start_rank(1, 3, 2, &right), start_rank(2, 3, 2, &right)];
    others
        .iter()
        .chain([&first])
        .for_each(|actor| drop(actor.says("done")));
    drop(reserved);
}

/// A port that nobody is given by chance while the socket lives, and on which rank 0 may listen.
fn reserve() -> (socket2::Socket, SocketAddr) {
    let (listener, reserved) =
        crate::bootstrap::listen::listen_and_reserve(&["127.0.0.1:0".parse().unwrap()], None)
            .unwrap()
            .remove(0);
    (reserved, listener.local_addr().unwrap())
}

#[test]
fn a_world_without_a_way_to_meet_is_an_error_that_names_what_to_set() {
    let alone = start_world(2, 1, &[]);
    let line = alone[1].says("error");
    assert!(
        line.contains("rank 1 of 2") && line.contains("INFINICCL_ROOT") && line.contains("INFINICCL_SECRET"),
        "{line}"
    );
    let no_secret = start_world(2, 1, &[("INFINICCL_ROOT", "127.0.0.1:9".into())]);
    assert!(no_secret[0].says("error").contains("INFINICCL_SECRET"));
    let elsewhere = ("INFINICCL_ROOT", "192.0.2.9:99".to_owned());
    let elsewhere = start_world(2, 1, &[elsewhere, ("INFINICCL_SECRET", "s3cret".into())]);
    let line = elsewhere[0].says("error");
    assert!(
        line.contains("192.0.2.9") && line.contains("no address of this host"),
        "{line}"
    );
}
