//! Exports the texts of a conversation as data and as Markdown.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::conversation::ended_turns::{self, ExcerptTurn};
use crate::conversation::named_sessions::NamedSession;
use crate::types::message::Address;
use crate::types::session::{SessionId, TurnId};
use crate::types::source::Source;

/// The version of the exported form. Readers reject unknown versions.
pub const EXPORT_VERSION: u32 = 1;

/// An exported conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExportedSession {
    pub version: u32,
    pub id: SessionId,
    pub name: String,
    pub at: Address,
    pub opened: DateTime<Utc>,
    pub is_open: bool,
    pub turns: Vec<ExportedTurn>,
}

/// A message and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExportedTurn {
    pub at: DateTime<Utc>,
    pub from: String,
    pub said: String,
    pub answered: String,
    /// The names of the tools that were called.
    pub tools: Vec<String>,
}

/// Returns a conversation for export. None if it was deleted.
pub fn export(
    store: &Connection,
    session: &NamedSession,
) -> rusqlite::Result<Option<ExportedSession>> {
    let Some(said) = ended_turns::read_excerpt(store, session.id, TurnId(0), TurnId(i64::MAX))?
    else {
        return Ok(None);
    };
    Ok(Some(ExportedSession {
        version: EXPORT_VERSION,
        id: session.id,
        name: session.name.clone(),
        at: session.at.clone(),
        opened: session.opened,
        is_open: session.is_open,
        turns: said.turns.iter().map(exported_turn).collect(),
    }))
}

fn exported_turn(turn: &ExcerptTurn) -> ExportedTurn {
    let inputs = turn.steps.iter().filter_map(|step| step.input.as_ref());
    let said = inputs.flat_map(|input| input.iter()).filter(|part| is_said(part.source));
    let said: String = said.map(|part| part.text).collect();
    let answers = turn.steps.iter().map(|step| step.text.trim()).filter(|text| !text.is_empty());
    let tools = turn.steps.iter().flat_map(|step| &step.results).map(|result| result.tool.clone());
    ExportedTurn {
        at: turn.started,
        from: turn.sender.name.clone(),
        said: said.trim().to_owned(),
        answered: answers.collect::<Vec<_>>().join("\n\n"),
        tools: tools.collect(),
    }
}

/// Returns false for parts that the program added, and for files that it showed.
fn is_said(source: &Source) -> bool {
    !source.is_added() && !matches!(source, Source::File { .. })
}

impl ExportedSession {
    /// Returns the conversation as Markdown, with times in a zone.
    pub fn markdown(&self, zone: Tz) -> String {
        let format_time =
            |at: DateTime<Utc>| at.with_timezone(&zone).format("%Y-%m-%d %H:%M").to_string();
        let mut text = format!(
            "# {}\n\nConversation {} on {}, begun {}.\n",
            self.name,
            self.id,
            self.at.channel,
            format_time(self.opened)
        );
        for turn in &self.turns {
            let _ = write!(text, "\n## {}, {}\n\n{}\n", turn.from, format_time(turn.at), turn.said);
            if !turn.tools.is_empty() {
                let _ = write!(text, "\nCalled: {}.\n", turn.tools.join(", "));
            }
            if !turn.answered.is_empty() {
                let _ = write!(text, "\n### Peacrab\n\n{}\n", turn.answered);
            }
        }
        text
    }
}
