//! The log: lines to standard error, without secrets. The code that logs decides which events deserve a line.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use tokio::sync::mpsc;
use tracing::Subscriber;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::config::Environment;
use crate::secret::Redactor;

/// Default filter if `PEACRAB_LOG` is not set: our own lines, and warnings of libraries.
pub const FILTER: &str = "info,hyper=warn,reqwest=warn,teloxide=warn";

/// The same for a daemon that a person talks to in its own terminal: the answers there show that turns end.
pub const TERMINAL_FILTER: &str = "info,peacrab::turn=warn,hyper=warn,reqwest=warn,teloxide=warn";

/// Default log filter of a command that does one thing and ends: its output reports errors.
pub const QUIET_FILTER: &str = "error";

/// Receives the lines while a terminal shows them itself. A mutex because any thread logs; held for one clone.
static DIVERTED: Mutex<Option<mpsc::Sender<String>>> = Mutex::new(None);

/// Redactors for configs that were read after the start. A mutex because any thread logs; held for one line.
static LATER: Mutex<Vec<Redactor>> = Mutex::new(Vec::new());

/// Maximum number of such configs. Secrets of older ones are not used any more.
const LATER_MAX: usize = 8;

/// Removes these secrets from the log, too.
pub fn redact_also(redactor: Redactor) {
    let mut later = LATER.lock().unwrap_or_else(PoisonError::into_inner);
    later.insert(0, redactor);
    later.truncate(LATER_MAX);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Plain,
    Json,
}

/// Appearance of lines, besides their [`Format`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogAppearance {
    pub times: bool,
    pub colours: bool,
}

/// Starts the log, panics included, for the rest of the process. Call it once. `PEACRAB_LOG` overrides
/// `filter`. Returns an error for the operator if that filter is invalid.
pub fn init(
    format: Format,
    filter: &str,
    redactor: Redactor,
    env: &Environment,
) -> anyhow::Result<()> {
    let terminal = io::stderr().is_terminal();
    let appearance = LogAppearance {
        // The journal has its own times. A terminal may have inherited the variable.
        times: terminal || env.raw("JOURNAL_STREAM").is_none(),
        colours: terminal && env.raw("NO_COLOR").is_none() && env.text("TERM") != Some("dumb"),
    };
    let filter = env.text("PEACRAB_LOG").unwrap_or(filter);
    // rmcp logs message contents, even as warnings. They are logged only if the filter names it.
    let filter = match filter.contains("rmcp") {
        true => filter.to_owned(),
        false => format!("{filter},rmcp=error"),
    };
    subscriber(format, appearance, &filter, Redacting { to: || StandardError, redactor })?
        .try_init()?;
    // Otherwise a panic's text would go to standard error unredacted.
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "Panicked")));
    Ok(())
}

/// Returns the subscriber of [`init`], with another output.
pub fn subscriber<W>(
    format: Format,
    appearance: LogAppearance,
    filter: &str,
    to: Redacting<W>,
) -> anyhow::Result<impl Subscriber + Send + Sync + use<W>>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter: Targets =
        filter.parse().context("PEACRAB_LOG is not a filter such as `info,peacrab=debug`")?;
    let lines = fmt::layer().with_writer(to).with_ansi(appearance.colours);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match (format, appearance.times) {
        (Format::Plain, true) => lines.boxed(),
        (Format::Plain, false) => lines.without_time().boxed(),
        (Format::Json, true) => lines.json().boxed(),
        (Format::Json, false) => lines.json().without_time().boxed(),
    };
    Ok(Registry::default().with(lines.with_filter(filter)))
}

/// A guard. While it lives, a terminal shows log lines itself, so that none disturbs the input there.
pub struct LogDiversion(());

/// Sends log lines to `lines` until the guard is dropped. If the queue is full, a line goes to standard error.
pub fn divert(lines: mpsc::Sender<String>) -> LogDiversion {
    *DIVERTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(lines);
    LogDiversion(())
}

impl Drop for LogDiversion {
    fn drop(&mut self) {
        *DIVERTED.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Standard error, or the terminal that shows the lines in its place.
struct StandardError;

impl Write for StandardError {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let diverted = DIVERTED.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = || String::from_utf8_lossy(line).into_owned();
        match diverted {
            Some(lines) if lines.try_send(text()).is_ok() => Ok(line.len()),
            _ => io::stderr().write_all(line).map(|()| line.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// An output for lines that removes secrets.
#[derive(Clone, Debug)]
pub struct Redacting<W> {
    pub to: W,
    pub redactor: Redactor,
}

/// Receives whole lines: tracing writes an event at once.
pub struct RedactingLine<'a, L> {
    to: L,
    redactor: &'a Redactor,
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Redacting<W> {
    type Writer = RedactingLine<'a, W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        RedactingLine { to: self.to.make_writer(), redactor: &self.redactor }
    }
}

impl<L: Write> Write for RedactingLine<'_, L> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let mut text = self.redactor.redact(&text).into_owned();
        for later in LATER.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            text = later.redact(&text).into_owned();
        }
        self.to.write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
