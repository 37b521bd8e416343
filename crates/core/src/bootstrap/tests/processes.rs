//! Ranks as processes of their own: killed, stopped, interrupted by signals, forked, and counted for leaks.
//!
//! The test binary starts itself again with a role; [`role`] is the body of such a process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;
use crate::ErrorKind;

const ROLE: &str = "BOOTSTRAP_TEST_ROLE";

/// A process that plays a role, killed when the test ends.
pub(super) struct Actor {
    child: Child,
    lines: Receiver<String>,
}

impl Actor {
    pub(super) fn start(role: &str, arguments: &[(&str, String)]) -> Actor {
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
    pub(super) fn says(&self, part: &str) -> String {
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
        Ok("world") => worlds::world(),
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
    thread::sleep(Duration::from_millis(300));
    let (begun, used) = (Instant::now(), processor_time());
    thread::sleep(Duration::from_secs(1));
    let share = (processor_time() - used).as_secs_f64() / begun.elapsed().as_secs_f64();
    assert!(share < 0.02, "idle ranks use {:.2} % of a core", share * 100.0);
    println!("done: {:.3} %", share * 100.0);
    drop(planes);
}

#[test]
fn idle_ranks_sleep() {
    Actor::start("idle", &[]).says("done");
}
