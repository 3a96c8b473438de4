//! Notes in a conversation about messages that jobs have sent there, for its model.

use chrono::DateTime;
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::conversation::delivered::{self, UntrustedResult};
use crate::conversation::presence;
use crate::conversation::sessions::{self, Note};
use crate::replies;
use crate::short_text::one_line;
use crate::tasks::schedule::reader;
use crate::tasks::schedule::run::Run;
use crate::types::message::{ChatKind, Sender};
use crate::types::origin::TaskKind;
use crate::types::session::SessionId;
use crate::types::source::{Author, Source, SourcedText};
use crate::types::untrusted;

/// Maximum length of a job's text in a note, in characters.
const ABOUT_CHARS_MAX: usize = 300;

/// The provider's name for texts that no model wrote.
pub(super) const NO_MODEL: &str = "none";

/// The message of a run.
pub struct RunMessage<'a> {
    /// The person it was written for.
    pub sender: &'a Sender,
    /// The provider that wrote it.
    pub provider: &'a str,
    pub words: &'a str,
    /// True if its author has read untrusted content.
    pub tainted: bool,
    /// When it is sent, in the owner's zone.
    pub at: DateTime<Tz>,
}

/// Adds a run's message to the conversation to which it was sent.
pub fn note(store: &Connection, run: &Run, said: &RunMessage<'_>) -> rusqlite::Result<()> {
    let RunMessage { sender, provider, words, tainted, at } = *said;
    let described = DescribedRun::of(store, run)?;
    let session = open_conversation(store, run)?;
    let input = described.input(tainted);
    let apart = tainted.then(|| described.untrusted_result(at, words));
    let note = Note { sender, provider, input, said: sessions::shortened(words) };
    match apart {
        Some(result) => delivered::note(store, session, &note, &result),
        None => sessions::note(store, session, &note),
    }
}

/// Adds the output of a run's command to the conversation: as data of any author, not as the model's own text.
pub(super) fn note_output(
    store: &Connection,
    run: &Run,
    printed: &str,
    tainted: bool,
    at: DateTime<Tz>,
) -> rusqlite::Result<()> {
    let definition = &run.job.definition;
    let described = DescribedRun::of(store, run)?;
    let session = open_conversation(store, run)?;
    let apart = tainted.then(|| described.untrusted_result(at, printed));
    let mut input = described.input(tainted);
    input.push_program("\n");
    let printed = untrusted::wrap(&sessions::shortened(printed));
    input.push(Source::Command { read_others: tainted }, printed);
    let said = replies::JOB_PRINTED.to_owned();
    let note = Note { sender: &definition.sender, provider: NO_MODEL, input, said };
    match apart {
        Some(result) => delivered::note(store, session, &note, &result),
        None => sessions::note(store, session, &note),
    }
}

/// Returns the conversation at the address of a job. Opens one if there is none.
fn open_conversation(store: &Connection, run: &Run) -> rusqlite::Result<SessionId> {
    let definition = &run.job.definition;
    let chat_kind = match definition.chat_kind {
        ChatKind::Private => ChatKind::Private,
        // It may be a private chat of somebody else than the job's person.
        ChatKind::Group => presence::chat_kind_of(store, &definition.to)?,
    };
    sessions::open_or_begin(store, &definition.to, chat_kind)
}

/// A run as the model of a conversation is told of it.
struct DescribedRun<'a> {
    run: &'a Run,
    /// The job's text. None in a private chat of somebody else than its person, and in an unknown chat.
    about: Option<String>,
}

impl<'a> DescribedRun<'a> {
    fn of(store: &Connection, run: &'a Run) -> rusqlite::Result<Self> {
        let is_shown = !reader::is_for_somebody_else(store, &run.job.definition)?;
        Ok(Self { run, about: is_shown.then(|| about(run)) })
    }

    /// Returns a result of the run, as it is kept apart. Its name has the job's text if that is trusted.
    fn untrusted_result<'t>(&self, at: DateTime<Tz>, text: &'t str) -> UntrustedResult<'t> {
        let Self { run, about } = self;
        let mut name = SourcedText::of(Source::Program, format!("job {}", run.job.id));
        if let Some(about) = about.as_ref().filter(|_| !run.job.definition.tainted) {
            name.push(source(run, false), format!(" (“{about}”)"));
        }
        UntrustedResult { name, at, input: self.input(true), text }
    }

    fn input(&self, tainted: bool) -> SourcedText {
        let read = match tainted {
            true => format!(" Whoever worked on it {}.", untrusted::HAS_READ),
            false => String::new(),
        };
        let id = self.run.job.id;
        let about = self.about.as_ref().map(|about| format!(" (“{about}”)")).unwrap_or_default();
        let input = format!(
            "[Job {id}{about} was due; what came of it was sent here as it stands below.{read}]"
        );
        SourcedText::of(source(self.run, tainted), input)
    }
}

fn source(run: &Run, read_others: bool) -> Source {
    let definition = &run.job.definition;
    let (channel, id) = (definition.known_on.clone(), definition.sender.id.clone());
    let by = Some(Author { channel, id });
    Source::Task { kind: TaskKind::Job, number: Some(run.job.id.0), by, read_others }
}

/// The job's text on one line, in which no line of the program's can be hidden.
fn about(run: &Run) -> String {
    let about = run.job.definition.payload.text().chars().filter(|sign| !"[]".contains(*sign));
    one_line(&about.take(ABOUT_CHARS_MAX).collect::<String>())
}
