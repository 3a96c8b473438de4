//! Notes in a conversation about messages that jobs have sent there, for its model.

use rusqlite::Connection;

use crate::conversation::sessions::{self, Note};
use crate::replies;
use crate::short_text::one_line;
use crate::tasks::schedule::job::JobId;
use crate::tasks::schedule::run::Run;
use crate::types::message::Sender;
use crate::types::origin::TaskKind;
use crate::types::source::{Parts, Source};
use crate::types::untrusted;

/// Maximum length of a job's text in a note, in characters.
const ABOUT_CHARS_MAX: usize = 300;

/// The provider's name for texts that no model wrote.
pub(super) const NO_MODEL: &str = "none";

/// The message of a run.
pub struct RunText<'a> {
    /// The person it was written for.
    pub sender: &'a Sender,
    /// The provider that wrote it.
    pub provider: &'a str,
    pub words: &'a str,
    /// True if its author has read untrusted content.
    pub tainted: bool,
}

/// Adds a run's message to the conversation to which it was sent.
pub fn note(store: &Connection, run: &Run, said: &RunText<'_>) -> rusqlite::Result<()> {
    let RunText { sender, provider, words, tainted } = *said;
    let brief = &run.job.brief;
    let session = sessions::open_or_begin(store, &brief.to, brief.chat_kind)?;
    let input = input(run.job.id, brief.payload.text(), tainted);
    let said = sessions::shortened(words);
    sessions::note(store, session, &Note { sender, provider, input, said })
}

/// Adds the output of a run's command to the conversation: as data of any author, not as the model's own text.
pub(super) fn note_printed(
    store: &Connection,
    run: &Run,
    printed: &str,
    tainted: bool,
) -> rusqlite::Result<()> {
    let brief = &run.job.brief;
    let session = sessions::open_or_begin(store, &brief.to, brief.chat_kind)?;
    let input = input(run.job.id, brief.payload.text(), tainted);
    let printed = untrusted::wrap(&sessions::shortened(printed));
    let mut input = input;
    input.push_program("\n");
    input.push(Source::Command { read_others: tainted }, printed);
    let said = replies::JOB_PRINTED.to_owned();
    let note = Note { sender: &brief.sender, provider: NO_MODEL, input, said };
    sessions::note(store, session, &note)
}

fn input(id: JobId, about: &str, tainted: bool) -> Parts {
    let source = Source::Task { kind: TaskKind::Job, number: Some(id.0), read_others: tainted };
    let tainted = match tainted {
        true => format!(" Whoever worked on it {}.", untrusted::HAS_READ),
        false => String::new(),
    };
    // On one line, so that it cannot imitate a line of the program.
    let about: String = about
        .chars()
        .filter(|character| !"[]".contains(*character))
        .take(ABOUT_CHARS_MAX)
        .collect();
    let about = one_line(&about);
    let input = format!(
        "[Job {id} (“{about}”) was due; what came of it was sent here as it stands below.{tainted}]"
    );
    Parts::of(source, input)
}
