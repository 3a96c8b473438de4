//! Notes in a conversation about messages that jobs have sent there, for its model.

use chrono::DateTime;
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::conversation::delivered::{self, UntrustedResult};
use crate::conversation::sessions::{self, Note};
use crate::replies;
use crate::short_text::one_line;
use crate::tasks::schedule::run::Run;
use crate::types::message::Sender;
use crate::types::origin::TaskKind;
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
    let definition = &run.job.definition;
    let session = sessions::open_or_begin(store, &definition.to, definition.chat_kind)?;
    let input = input(run, tainted);
    let apart = tainted.then(|| untrusted_result(run, at, words));
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
    let session = sessions::open_or_begin(store, &definition.to, definition.chat_kind)?;
    let apart = tainted.then(|| untrusted_result(run, at, printed));
    let mut input = input(run, tainted);
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

/// The result of a run, as it is kept apart. Its name has the job's text if that is trusted.
fn untrusted_result<'a>(run: &Run, at: DateTime<Tz>, text: &'a str) -> UntrustedResult<'a> {
    let id = run.job.id;
    let mut name = SourcedText::of(Source::Program, format!("job {id}"));
    if !run.job.definition.tainted {
        name.push(source(run, false), format!(" (“{}”)", about(run)));
    }
    UntrustedResult { name, at, input: input(run, true), text }
}

fn input(run: &Run, tainted: bool) -> SourcedText {
    let read = match tainted {
        true => format!(" Whoever worked on it {}.", untrusted::HAS_READ),
        false => String::new(),
    };
    let (id, about) = (run.job.id, about(run));
    let input = format!(
        "[Job {id} (“{about}”) was due; what came of it was sent here as it stands below.{read}]"
    );
    SourcedText::of(source(run, tainted), input)
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
