//! The log of the command: lines on standard error, or in a file, each with host, process, rank and time.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Mutex;
use std::time::Instant;

use infiniccl::config::Config;
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::failure::Failure;
use crate::launched::rank_hint;

/// Starts the log that `config` asks for. Lines never go to standard output.
pub(crate) fn start(config: &Config) -> Result<(), Failure> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let process = std::process::id();
    let rank = rank_hint();
    let place = match config.log.file.path(&host, process, rank) {
        None => Place::StandardError,
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(&path);
            Place::File(Mutex::new(file.map_err(|e| {
                Failure::new(format!(
                    "cannot open the log {} (key log.file): {e}",
                    path.display()
                ))
            })?))
        }
    };
    let filter = EnvFilter::try_new(&config.log.level)
        .map_err(|e| Failure::new(format!("the key log.level cannot be used: {e}")))?;
    let line = Line {
        start: Instant::now(),
        host,
        process,
        rank,
    };
    // A second start, which no command makes, would change nothing.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .event_format(line)
        .with_writer(place)
        .try_init();
    Ok(())
}

enum Place {
    StandardError,
    File(Mutex<File>),
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Place {
    type Writer = PlaceWriter<'a>;

    fn make_writer(&'a self) -> PlaceWriter<'a> {
        PlaceWriter(self)
    }
}

/// Writes a whole line at once, so that lines of several threads do not mix.
struct PlaceWriter<'a>(&'a Place);

impl Write for PlaceWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0 {
            Place::StandardError => io::stderr().lock().write(bytes),
            Place::File(file) => file
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The shape of a line.
struct Line {
    start: Instant,
    host: String,
    process: u32,
    rank: Option<u64>,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        write!(
            writer,
            "{:<5} {:.6} {}[{}]",
            metadata.level(),
            self.start.elapsed().as_secs_f64(),
            self.host,
            self.process
        )?;
        if let Some(rank) = self.rank {
            write!(writer, " rank {rank}")?;
        }
        write!(writer, " {}: ", metadata.target())?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
