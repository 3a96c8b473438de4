//! The log: lines to standard error, without secrets. What is worth a line is decided where it
//! happens.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::config::Environment;
use crate::secret::Redactor;

/// What is logged unless `PEACRAB_LOG` says otherwise: ourselves, and the troubles of others.
pub const FILTER: &str = "info,hyper=warn,reqwest=warn,teloxide=warn";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Plain,
    Json,
}

/// How lines look, beside their [`Format`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    pub times: bool,
    pub colours: bool,
}

/// Begins to log, panics too, for the rest of the process; once. The error is for the operator: a
/// filter that cannot be read.
pub fn init(format: Format, redactor: Redactor, env: &Environment) -> anyhow::Result<()> {
    let terminal = io::stderr().is_terminal();
    let looks = Looks {
        // The journal has its own times; a terminal may have inherited the variable.
        times: terminal || env.raw("JOURNAL_STREAM").is_none(),
        colours: terminal && env.raw("NO_COLOR").is_none(),
    };
    let filter = env.text("PEACRAB_LOG").unwrap_or(FILTER);
    // It logs what is said, even as a warning; that is for who asks for it by name.
    let filter = match filter.contains("rmcp") {
        true => filter.to_owned(),
        false => format!("{filter},rmcp=error"),
    };
    subscriber(format, looks, &filter, Redacting { to: io::stderr, redactor })?.try_init()?;
    // Else the words of a panic would go to standard error as they are.
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "Panicked")));
    Ok(())
}

/// What [`init`] installs, with another place to write to.
pub fn subscriber<W>(
    format: Format,
    looks: Looks,
    filter: &str,
    to: Redacting<W>,
) -> anyhow::Result<impl Subscriber + Send + Sync + use<W>>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder()
        .parse(filter)
        .context("PEACRAB_LOG is not a filter such as `info,peacrab=debug`")?;
    let lines = fmt::layer().with_writer(to).with_ansi(looks.colours);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match (format, looks.times) {
        (Format::Plain, true) => lines.boxed(),
        (Format::Plain, false) => lines.without_time().boxed(),
        (Format::Json, true) => lines.json().boxed(),
        (Format::Json, false) => lines.json().without_time().boxed(),
    };
    Ok(Registry::default().with(lines.with_filter(filter)))
}

/// A place to write lines to, that lets no secrets through.
#[derive(Clone, Debug)]
pub struct Redacting<W> {
    pub to: W,
    pub redactor: Redactor,
}

/// Gets whole lines: tracing writes an event at once.
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
        self.to.write_all(self.redactor.redact(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
