//! What the model of a conversation is told of a job whose words were sent there.

use rusqlite::Connection;

use super::job::JobId;
use super::run::Run;
use crate::conversations::{self, Note};
use crate::foreign;
use crate::message::Sender;

/// What of a job's text is repeated, in characters.
const ABOUT_CHARS_MAX: usize = 300;

/// Who has made words that no model has made.
pub(super) const NO_MODEL: &str = "none";

/// Leaves what a run has said where it was sent; for whom and by whom it was made.
pub fn note(
    store: &Connection,
    run: &Run,
    (sender, provider): (&Sender, &str),
    (said, tainted): (&str, bool),
) -> rusqlite::Result<()> {
    let brief = &run.job.brief;
    let session = conversations::open_or_begin(store, &brief.to, brief.place)?;
    let heard = heard(run.job.id, brief.payload.text(), tainted);
    conversations::note(store, session, &Note { sender, provider, heard, said: said.to_owned() })
}

fn heard(id: JobId, about: &str, tainted: bool) -> String {
    let tainted = match tainted {
        true => format!(" Whoever worked on it {}.", foreign::HAS_READ),
        false => String::new(),
    };
    // On one line, in which no line of the program's can be hidden.
    let about: String =
        about.chars().filter(|sign| !"[]".contains(*sign)).take(ABOUT_CHARS_MAX).collect();
    let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(
        "[Job {id} (“{about}”) was due; what came of it was sent here as it stands below.{tainted}]"
    )
}
