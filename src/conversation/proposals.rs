//! Proposals of the model, stored with the conversation until a person accepts or declines them. An
//! acceptance is a message of that person, and the work then happens on their behalf.

use rusqlite::{Connection, OptionalExtension, Row, params};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::bus::journal::{self, WaitingMessage};
use crate::bus::outbox;
use crate::conversation::sources::KeptSources;
use crate::replies;
use crate::store::{Json, Time, text_columns};
use crate::types::message::{Address, AllowedPressers, Body, Choice, DeliveryId, Question};
use crate::types::session::{SessionId, TurnId};
use crate::types::source::Source;
use crate::types::words::words;

/// Maximum number of proposals in a list.
const LISTED_MAX: i64 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ProposalState {
    Open,
    Accepted,
    Declined,
    Withdrawn,
}

words!(ProposalState {
    Open = "open",
    Accepted = "accepted",
    Declined = "declined",
    Withdrawn = "withdrawn",
});

text_columns!(ProposalState = |word| Self::parse(word).unwrap_or(Self::Open));

/// A proposal with the number that people and models see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub id: i64,
    pub title: String,
    pub body: String,
    pub state: ProposalState,
    /// Unknown if a former version stored it.
    pub sources: Vec<Source>,
}

impl Proposal {
    /// Returns one line for models and people.
    pub fn describe(&self) -> String {
        format!("{} ({}): {}", self.id, self.state.as_str(), self.title)
    }
}

/// A new proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewProposal {
    pub to: Address,
    pub title: String,
    pub body: String,
    pub sources: Vec<Source>,
}

/// Stores a proposal of a turn's conversation, and queues it as a question with buttons.
pub fn propose(store: &Connection, turn: TurnId, proposal: &NewProposal) -> rusqlite::Result<()> {
    let NewProposal { to, title, body, sources } = proposal;
    let now = Time::now();
    store
        .prepare_cached(
            "INSERT INTO proposals (session, title, body, sources, state, made, changed)
             SELECT session, ?, ?, ?, 'open', ?, ? FROM turns WHERE id = ?",
        )?
        .execute(params![title, body, Json(sources), now, now, turn])?;
    let id = store.last_insert_rowid();
    let choice = |label: &str, says: String| Choice { label: label.to_owned(), says };
    let question = Question {
        text: replies::proposal(id, title, body),
        choices: vec![
            choice(replies::DO_IT, replies::accepts(id, title)),
            choice(replies::DO_NOT, replies::declines(id, title)),
        ],
        // Anyone may press: the work then happens with the rights of that person.
        who: AllowedPressers::Anyone,
        proposal: Some(id),
        written_in: Some(turn),
    };
    let delivery = outbox::put_body(store, to, &Body::Choice(question))?;
    store
        .prepare_cached("UPDATE proposals SET delivery = ? WHERE id = ?")?
        .execute(params![delivery, id])?;
    Ok(())
}

/// Returns the messages of the open proposals, oldest first.
pub fn open_deliveries(store: &Connection) -> rusqlite::Result<Vec<(i64, DeliveryId)>> {
    let mut rows = store.prepare_cached(
        "SELECT id, delivery FROM proposals WHERE state = 'open' AND delivery IS NOT NULL ORDER BY id",
    )?;
    rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Returns the message of a proposal if it is open.
pub fn open_delivery(store: &Connection, id: i64) -> rusqlite::Result<Option<DeliveryId>> {
    let delivery = store
        .prepare_cached("SELECT delivery FROM proposals WHERE id = ? AND state = 'open'")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    Ok(delivery.flatten())
}

/// Stores the decisions that people made with buttons, in the transaction that takes their messages into a turn. A
/// proposal that is no longer open stays unchanged.
pub fn decide(store: &Connection, rows: &[WaitingMessage]) -> rusqlite::Result<()> {
    for press in rows.iter().filter_map(|row| row.inbound.body.press) {
        let asked = outbox::question(store, press.delivery)?;
        let Some(id) = asked.and_then(|asked| asked.question.proposal) else { continue };
        let state =
            if press.choice == 0 { ProposalState::Accepted } else { ProposalState::Declined };
        store
            .prepare_cached(
                "UPDATE proposals SET state = ?, changed = ? WHERE id = ? AND state = 'open'",
            )?
            .execute(params![state, Time::now(), id])?;
    }
    Ok(())
}

/// A change of a proposal. A field that is None stays unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalChange {
    pub id: i64,
    pub title: Option<String>,
    pub body: Option<String>,
    pub state: Option<ProposalState>,
    /// The sources of the old and of the new content.
    pub sources: Vec<Source>,
}

pub fn update(store: &Connection, change: &ProposalChange) -> rusqlite::Result<()> {
    let ProposalChange { id, title, body, state, sources } = change;
    store
        .prepare_cached(
            "UPDATE proposals SET title = ifnull(?, title), body = ifnull(?, body),
             state = ifnull(?, state), sources = ?, changed = ? WHERE id = ?",
        )?
        .execute(params![title, body, state, Json(sources), Time::now(), id])?;
    Ok(())
}

/// Returns a proposal of a conversation.
pub fn get(store: &Connection, session: SessionId, id: i64) -> rusqlite::Result<Option<Proposal>> {
    store
        .prepare_cached(
            "SELECT id, title, body, state, sources FROM proposals WHERE session = ? AND id = ?",
        )?
        .query_row(params![session, id], read_proposal)
        .optional()
}

/// Returns the sources of a proposal. Unknown if it was deleted, or if a former version stored none.
pub(crate) fn sources_of(store: &Connection, id: i64) -> rusqlite::Result<Vec<Source>> {
    let found = store
        .prepare_cached("SELECT sources FROM proposals WHERE id = ?")?
        .query_row([id], |row| row.get::<_, KeptSources>(0))
        .optional()?;
    Ok(found.and_then(|kept| kept.0).unwrap_or_else(|| vec![Source::Unknown]))
}

/// Returns the open proposals of all conversations at an address, newest first.
pub fn open_at(store: &Connection, at: &Address, limit: usize) -> rusqlite::Result<Vec<Proposal>> {
    let (channel, chat, thread) = journal::address_key_params(at);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = store.prepare_cached(
        "SELECT id, title, body, state, sources FROM proposals WHERE state = 'open' AND session IN
           (SELECT id FROM sessions WHERE kind = 'chat' AND channel = ? AND chat = ?
            AND ifnull(thread, '') = ?)
         ORDER BY id DESC LIMIT ?",
    )?;
    rows.query_map(params![channel, chat, thread, limit], read_proposal)?.collect()
}

/// Returns the proposals of a conversation: open ones first, then by age, newest first.
pub fn list(store: &Connection, session: SessionId) -> rusqlite::Result<Vec<Proposal>> {
    let mut rows = store.prepare_cached(
        "SELECT id, title, body, state, sources FROM proposals WHERE session = ?
         ORDER BY state <> 'open', id DESC LIMIT ?",
    )?;
    rows.query_map(params![session, LISTED_MAX], read_proposal)?.collect()
}

fn read_proposal(row: &Row<'_>) -> rusqlite::Result<Proposal> {
    Ok(Proposal {
        id: row.get(0)?,
        title: row.get(1)?,
        body: row.get(2)?,
        state: row.get(3)?,
        sources: row.get::<_, KeptSources>(4)?.0.unwrap_or_else(|| vec![Source::Unknown]),
    })
}
