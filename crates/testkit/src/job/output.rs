//! Carries the ranks' output, line by line, to a sink, on a thread of its own, so that a slow reader of ours
//! never delays the watch over the ranks.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fmt, io};

use rustix::event::{PollFd, PollFlags, poll};

use crate::cluster::ClusterError;

/// A line longer than this is handed on in pieces, so that output without newlines cannot fill the memory.
const LONGEST_LINE: usize = 1 << 20;

/// How long after the last rank's end its output may take to drain.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Standard output or standard error of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Where the output of a job goes.
pub trait Sink: Send {
    /// One line of a rank, without its newline. After an error the rank's stream is closed, so that the rank
    /// learns that nobody reads it any more, as at the end of any pipe.
    fn line(&mut self, rank: usize, stream: Stream, line: &[u8]) -> io::Result<()>;
    /// Something that the launcher itself has to say.
    fn notice(&mut self, text: &str);
}

/// Writes each line to the stream of ours that it came from, with `[rank] ` before it; notices go to standard
/// error.
#[derive(Debug)]
pub struct PrefixedOutput {
    name: &'static str,
}

impl PrefixedOutput {
    /// A sink whose notices start with `name`.
    pub fn new(name: &'static str) -> Self {
        PrefixedOutput { name }
    }
}

impl Sink for PrefixedOutput {
    fn line(&mut self, rank: usize, stream: Stream, line: &[u8]) -> io::Result<()> {
        let mut text = format!("[{rank}] ").into_bytes();
        text.extend_from_slice(line);
        text.push(b'\n');
        match stream {
            Stream::Out => {
                let mut out = io::stdout().lock();
                out.write_all(&text).and_then(|()| out.flush())
            }
            Stream::Err => io::stderr().lock().write_all(&text),
        }
    }

    fn notice(&mut self, text: &str) {
        let _ = writeln!(io::stderr(), "{}: {text}", self.name);
    }
}

/// Keeps all lines, for tests: clone it, hand one to the job, and read the other.
#[derive(Debug, Clone, Default)]
pub struct Capture(Arc<Mutex<Captured>>);

#[derive(Debug, Default)]
struct Captured {
    lines: Vec<(usize, Stream, Vec<u8>)>,
    notices: Vec<String>,
}

impl Capture {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Captured> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The lines of one stream of a rank so far, as text.
    pub fn lines(&self, rank: usize, stream: Stream) -> Vec<String> {
        let captured = self.lock();
        let wanted = captured
            .lines
            .iter()
            .filter(|(r, s, _)| (*r, *s) == (rank, stream));
        wanted
            .map(|(_, _, line)| String::from_utf8_lossy(line).into_owned())
            .collect()
    }

    /// The bytes of the lines of one stream of a rank so far.
    pub fn bytes(&self, rank: usize, stream: Stream) -> Vec<Vec<u8>> {
        let captured = self.lock();
        let wanted = captured
            .lines
            .iter()
            .filter(|(r, s, _)| (*r, *s) == (rank, stream));
        wanted.map(|(_, _, line)| line.clone()).collect()
    }

    /// The launcher's notices so far.
    pub fn notices(&self) -> Vec<String> {
        self.lock().notices.clone()
    }

    /// Everything, one line each, for the message of a failed assertion.
    pub fn report(&self) -> String {
        let captured = self.lock();
        let line = |(rank, stream, text): &(usize, Stream, Vec<u8>)| {
            format!(
                "[{rank}{}] {}\n",
                if *stream == Stream::Err { "!" } else { "" },
                String::from_utf8_lossy(text)
            )
        };
        let lines: String = captured.lines.iter().map(line).collect();
        lines
            + &captured
                .notices
                .iter()
                .map(|n| format!("launcher: {n}\n"))
                .collect::<String>()
    }
}

impl Sink for Capture {
    fn line(&mut self, rank: usize, stream: Stream, line: &[u8]) -> io::Result<()> {
        self.lock().lines.push((rank, stream, line.to_vec()));
        Ok(())
    }

    fn notice(&mut self, text: &str) {
        self.lock().notices.push(text.to_string());
    }
}

enum Message {
    Source(Source),
    Notice(String),
}

/// One stream of a rank, and the start of a line whose end has not come yet.
struct Source {
    rank: usize,
    stream: Stream,
    pipe: OwnedFd,
    partial: Vec<u8>,
}

/// The thread that reads the ranks' output.
pub(super) struct Pump {
    /// `None` once no more messages will come.
    sender: Option<(Sender<Message>, PipeWriter)>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Pump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pump").finish_non_exhaustive()
    }
}

impl Pump {
    pub(super) fn start(sink: Box<dyn Sink>) -> Result<Self, ClusterError> {
        let failed = |e| ClusterError::caused("cannot start the thread that reads the ranks' output", e);
        let (sender, receiver) = channel();
        let (wake_read, wake_write) = io::pipe().map_err(failed)?;
        let thread = std::thread::Builder::new()
            .name("ranks-output".into())
            .spawn(move || run(sink, receiver, wake_read))
            .map_err(failed)?;
        Ok(Pump {
            sender: Some((sender, wake_write)),
            thread: Some(thread),
        })
    }

    pub(super) fn add(&self, rank: usize, pipes: [(Stream, OwnedFd); 2]) {
        for (stream, pipe) in pipes {
            self.send(Message::Source(Source {
                rank,
                stream,
                pipe,
                partial: Vec::new(),
            }));
        }
    }

    pub(super) fn notice(&self, text: String) {
        self.send(Message::Notice(text));
    }

    fn send(&self, message: Message) {
        if let Some((sender, wake)) = &self.sender {
            // Both ends live as long as the thread, which ends after we do, unless its sink panicked.
            let _ = sender.send(message);
            let _ = (&mut &*wake).write(&[0]);
        }
    }

    /// Waits until all that the ranks wrote is with the sink. Not for ever: a process that left its group may
    /// hold a pipe open, and a reader of ours may have stopped reading.
    pub(super) fn finish(&mut self) {
        self.sender = None;
        let Some(thread) = self.thread.take() else { return };
        let limit = Instant::now() + DRAIN_LIMIT;
        while !thread.is_finished() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

/// The thread: ends when no source is left and no more can come.
fn run(mut sink: Box<dyn Sink>, receiver: Receiver<Message>, mut wake: PipeReader) {
    let mut sources: Vec<Source> = Vec::new();
    let mut open = true;
    let mut buffer = vec![0; 1 << 16];
    while open || !sources.is_empty() {
        let mut fds: Vec<_> = sources
            .iter()
            .map(|s| PollFd::new(&s.pipe, PollFlags::IN))
            .collect();
        if open {
            fds.push(PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN));
        }
        if let Err(e) = poll(&mut fds, None)
            && e != rustix::io::Errno::INTR
        {
            sink.notice(&format!("cannot read the ranks' output any more: {e}"));
            return;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let woken = open && ready[sources.len()];
        let mut index = 0;
        sources.retain_mut(|source| {
            index += 1;
            !ready[index - 1] || source.read(&mut buffer, &mut *sink)
        });
        if woken {
            open = !matches!(wake.read(&mut buffer), Ok(0));
            while let Ok(message) = receiver.try_recv() {
                match message {
                    Message::Source(source) => sources.push(source),
                    Message::Notice(text) => sink.notice(&text),
                }
            }
        }
    }
}

impl Source {
    /// Takes what is there; false once the pipe is at its end, or once nobody wants its lines.
    fn read(&mut self, buffer: &mut [u8], sink: &mut dyn Sink) -> bool {
        let got = match rustix::io::read(&self.pipe, &mut *buffer) {
            Ok(n) => n,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return true,
            Err(_) => 0,
        };
        let mut rest = &buffer[..got];
        while let Some(end) = rest.iter().position(|&b| b == b'\n') {
            self.partial.extend_from_slice(&rest[..end]);
            if !self.emit(sink) {
                return false;
            }
            rest = &rest[end + 1..];
        }
        self.partial.extend_from_slice(rest);
        let whole = self.partial.len() >= LONGEST_LINE || (got == 0 && !self.partial.is_empty());
        let wanted = !whole || self.emit(sink);
        wanted && got > 0
    }

    fn emit(&mut self, sink: &mut dyn Sink) -> bool {
        let done = sink.line(self.rank, self.stream, &self.partial);
        self.partial.clear();
        done.is_ok()
    }
}
