//! Ranks of one user on one host meet through a private file: rank 0 writes its id there, the others read and try it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::dial::{Dial, remaining};
use super::handshake::{Claim, Purpose};
use super::host_identity::namespace;
use super::launch::Env;
use super::runtime_folder::{read_private, runtime_folder, write_private};
use super::unique_id::UniqueId;
use crate::{Error, ErrorKind, Result};

const HEADER: &str = "infiniccl rendezvous 1";
/// One try of an id from the file: its root is on this host and answers soon, or the file is stale.
const TRY: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(10);
const REPORT: Duration = Duration::from_secs(5);

/// The file of one job; rank 0 removes it when this is dropped.
pub(super) struct SharedFile {
    path: PathBuf,
    content: Option<String>,
}

impl SharedFile {
    /// The file for the job that `token` tells from others.
    pub(super) fn of_job(env: Env<'_>, token: &str) -> Result<Self> {
        let name = blake3::derive_key("infiniccl rendezvous file", token.as_bytes());
        let name: String = name[..12].iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(SharedFile {
            path: runtime_folder(env)?.join(format!("job-{name}")),
            content: None,
        })
    }

    /// Publishes the job's id; its root serves the first communicator already.
    pub(super) fn publish(&mut self, id: &UniqueId) -> Result<()> {
        let pid = std::process::id();
        let content = format!(
            "{HEADER}\nid {}\nprocess {pid} {} {}\n",
            id.to_hex(),
            start_time(pid).unwrap_or(0),
            namespace("pid")
        );
        write_private(&self.path, &content).map_err(|e| {
            Error::new(
                ErrorKind::System,
                format!("cannot write the rendezvous file {}", self.path.display()),
            )
            .with_source(e)
        })?;
        self.content = Some(content);
        Ok(())
    }

    /// Waits for an id whose root answers and proves its key. Files that earlier jobs left behind are passed over.
    /// `served` makes, of the id in the file, the one that its root serves first.
    pub(super) fn find(
        &self,
        (rank, size): (u32, u32),
        deadline: Instant,
        served: &dyn Fn(&UniqueId) -> UniqueId,
    ) -> Result<UniqueId> {
        let mut state = "there is no such file";
        let mut reported = Instant::now();
        loop {
            match read_private(&self.path)?.as_deref().map(parse) {
                None => {}
                Some(None) => state = "it does not hold an id",
                Some(Some((_, false))) => state = "the process that wrote it has ended",
                Some(Some((id, true))) => {
                    let dial = Dial {
                        candidates: &id.addresses(),
                        key: &served(&id).handshake_key(),
                        purpose: Purpose::Probe,
                        claim: Claim {
                            rank,
                            size,
                            target: 0,
                        },
                        deadline: deadline.min(Instant::now() + TRY),
                    };
                    if dial.connect(&mut || Ok(())).is_ok() {
                        return Ok(id);
                    }
                    state = "the root it names does not answer";
                }
            }
            if remaining(deadline).is_none() {
                let message = format!(
                    "rank {rank} found no root: it looked for rank 0 of this job in {} ({state}); is rank 0 running, on \
                     this host and as this user?",
                    self.path.display()
                );
                return Err(Error::new(ErrorKind::Timeout, message).with("rank", rank));
            }
            if reported.elapsed() >= REPORT {
                reported = Instant::now();
                tracing::warn!("still looking for rank 0 in {}: {state}", self.path.display());
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // Only if it is still ours: another job may have the same token.
        if self.content.is_some() && read_private(&self.path).is_ok_and(|now| now == self.content) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The id in a file, and whether the process that wrote it may still live.
fn parse(text: &str) -> Option<(UniqueId, bool)> {
    let mut lines = text.lines();
    if lines.next()? != HEADER {
        return None;
    }
    let id = lines.next()?.strip_prefix("id ")?.parse().ok()?;
    let mut numbers = lines
        .next()?
        .strip_prefix("process ")?
        .split(' ')
        .map(|n| n.parse::<u64>().ok());
    let (pid, started, space) = (numbers.next()??, numbers.next()??, numbers.next()??);
    // Process numbers mean nothing across namespaces; then only connecting tells.
    let known = space == namespace("pid") && started != 0;
    let lives = !known || u32::try_from(pid).ok().and_then(start_time) == Some(started);
    Some((id, lives))
}

/// When a process started, in clock ticks since boot: field 22 of its stat file, after the name in parentheses.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::keys::Key;
    use crate::bootstrap::listen::{bound_addresses, listen};
    use crate::bootstrap::rendezvous::serve;

    fn private_folder() -> tempfile::TempDir {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        tempfile::Builder::new().permissions(mode).tempdir().unwrap()
    }

    fn file_in(folder: &std::path::Path, token: &str) -> SharedFile {
        let folder = folder.to_str().unwrap().to_owned();
        SharedFile::of_job(&|name| (name == "XDG_RUNTIME_DIR").then(|| folder.clone()), token).unwrap()
    }

    #[test]
    fn a_root_is_found_past_what_earlier_jobs_left() {
        let folder = private_folder();
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut root = file_in(folder.path(), "job");
        // A file of a dead process, one that is no such file, and one whose root does not answer.
        let dead = UniqueId::new(&Key::from_bytes([1; 32]), 1, &["127.0.0.1:9".parse().unwrap()]);
        let search = {
            let folder = folder.path().to_owned();
            std::thread::spawn(move || file_in(&folder, "job").find((1, 2), deadline, &|id| id.nth(0)))
        };
        let pid = std::process::id();
        let space = namespace("pid");
        for stale in [
            format!("{HEADER}\nid {}\nprocess {pid} 1 {space}\n", dead.to_hex()),
            "nonsense".to_owned(),
            format!(
                "{HEADER}\nid {}\nprocess {pid} {} {space}\n",
                dead.to_hex(),
                start_time(pid).unwrap()
            ),
        ] {
            write_private(&root.path, &stale).unwrap();
            std::thread::sleep(Duration::from_millis(30));
            assert!(!search.is_finished());
        }
        let listeners = listen(&["127.0.0.1:0".parse().unwrap()], None).unwrap();
        let id = UniqueId::random(&bound_addresses(&listeners)).unwrap();
        serve(&id.nth(0), listeners).unwrap();
        root.publish(&id).unwrap();
        assert_eq!(search.join().unwrap().unwrap(), id);
        let path = root.path.clone();
        drop(root);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_another_job_wrote_is_left_alone() {
        let folder = private_folder();
        let id = UniqueId::random(&["127.0.0.1:9".parse().unwrap()]).unwrap();
        let (mut first, mut second) = (file_in(folder.path(), "job"), file_in(folder.path(), "job"));
        first.publish(&id).unwrap();
        second
            .publish(&UniqueId::random(&["127.0.0.1:10".parse().unwrap()]).unwrap())
            .unwrap();
        drop(first);
        assert!(second.path.exists());
        assert_ne!(file_in(folder.path(), "other").path, second.path);
    }

    #[test]
    fn a_root_that_never_comes_is_an_error_with_the_path() {
        let folder = private_folder();
        let file = file_in(folder.path(), "job");
        let error = file
            .find((3, 4), Instant::now() + Duration::from_millis(30), &|id| *id)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(
            error.message().contains(&file.path.display().to_string()),
            "{error}"
        );
    }
}
