//! Actions: the record of every tool call, with its input and its output. Lists them, deletes old ones, and
//! computes the change that undoes a change of a file. Not here: making that change.

mod before_images;
mod private;
mod pruning;
mod found_changes;
mod undoing;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use serde::{Deserialize, Serialize};

use before_images::GRACE;
pub use before_images::{BeforeImages, UndoLimits};
pub use found_changes::{ActionAuthor, FoundChange, note, was_reported};
pub use private::ActionReader;
pub use pruning::{BlobsWanted, PruneMark, prune, prune_commands};
pub use undoing::{UndoTarget, change_that_undoes, find_undo_target};

use crate::bus::journal::read_origin_at;
use crate::conversation::sources;
use crate::people::Role;
use crate::provider::{COMPLETION, CONVERSE};
use crate::replies;
use crate::store::{Json, LenientJson, Store, Time};
use crate::types::message::{Address, ChatKind, Sender, SenderId};
use crate::types::origin::Origin;
use crate::types::session::{CallId, FileUndo, Intent, SessionId, TurnId};
use crate::types::source::{self, Source};
use crate::workspace::WorkspacePath;

/// Maximum length of an input and an output in lists of actions, in characters.
const SHOWN_CHARS_MAX: usize = 2_000;

/// The tool that undoes actions. Its own actions are undone only by their number.
pub const UNDO: &str = "undo";

/// Access to actions and the former versions of files. Cheap to clone.
#[derive(Clone)]
pub struct Actions {
    pub store: Store,
    pub images: BeforeImages,
}

/// A call in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Action {
    pub id: CallId,
    pub at: DateTime<Utc>,
    pub tool: String,
    pub input: String,
    pub output: String,
    pub state: String,
    /// Duration in milliseconds. None until it is done.
    pub ms: Option<i64>,
    pub person: String,
    pub session: SessionId,
    #[serde(rename = "place")]
    pub origin: Origin,
    pub undo: UndoState,
}

impl Action {
    /// Returns the action without its input and output.
    pub fn without_texts(self) -> Self {
        Self { input: String::new(), output: String::new(), ..self }
    }

    /// Returns one line for people and models, with the time relative to now.
    pub fn describe(&self, now: DateTime<Tz>) -> String {
        replies::action(&replies::ActionLine {
            id: self.id.0,
            at: replies::time_relative_to(now, self.at),
            tool: &self.tool,
            input: &self.input,
            state: &self.state,
            ms: self.ms,
            person: &self.person,
            undo: match self.undo {
                UndoState::None => None,
                UndoState::Open => Some(true),
                UndoState::Taken => Some(false),
            },
        })
    }
}

/// The state of an action's undo: impossible, open, or done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoState {
    None,
    Open,
    Taken,
}

/// The actions that a person may see and undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionScope {
    /// None means all conversations.
    session: Option<SessionId>,
    /// None means all persons.
    whose: Option<SenderId>,
}

impl ActionScope {
    pub const ALL: Self = Self { session: None, whose: None };

    /// Returns the scope of a person: all actions for the owner in private; else those of the conversation, and for users
    /// and guests of a group only their own.
    pub fn of(
        sender: &Sender,
        role: Role,
        chat_kind: ChatKind,
        session: Option<SessionId>,
    ) -> Self {
        // No session has this id.
        let session_id = session.unwrap_or(SessionId(0));
        match (chat_kind, role) {
            (ChatKind::Private, Role::Owner) => Self::ALL,
            (ChatKind::Private, _) | (ChatKind::Group, Role::Admin | Role::Owner) => {
                Self { session: Some(session_id), whose: None }
            }
            (ChatKind::Group, Role::Guest | Role::User) => {
                Self { session: Some(session_id), whose: Some(sender.id.clone()) }
            }
        }
    }

    /// Returns the same scope, limited to one conversation.
    pub fn within(self, session: Option<SessionId>) -> Self {
        Self { session: Some(session.unwrap_or(SessionId(0))), ..self }
    }
}

/// The actions in a scope, as `calls c`, `turns t`, `sessions s`. Actions of a command belong to the conversation that
/// was open at its address; those of a subagent, a job or a heartbeat run belong to the one that gets the result.
const SEEN: &str = "FROM calls c JOIN turns t ON t.id = c.turn JOIN sessions s ON s.id = t.session
    WHERE (:whose IS NULL OR iif(json_valid(t.sender), json_extract(t.sender, '$.id'), NULL) = :whose)
    AND (:session IS NULL OR s.id = :session OR (s.kind = 'command' AND EXISTS (
        SELECT 1 FROM sessions o WHERE o.id = :session AND o.channel = s.channel AND o.chat = s.chat
        AND ifnull(o.thread, '') = ifnull(s.thread, '') AND s.opened >= o.opened))
        OR (s.people_channel IS NOT NULL AND EXISTS (
            SELECT 1 FROM sessions o WHERE o.id = :session AND o.channel = s.people_channel
            AND o.chat = s.people_chat AND ifnull(o.thread, '') = ifnull(s.people_thread, '')
            AND (s.kind <> 'subagent' OR s.opened >= o.opened))))";

/// The columns for `read_action`.
const ACTION: &str = "c.id, ifnull(c.started, t.started), c.tool, substr(c.arguments, 1, :chars),
    substr(ifnull(c.output, ''), 1, :chars), c.state, c.ended - c.started, t.sender,
    s.id, s.channel, s.chat, s.thread, c.undo IS NOT NULL AND c.state IN ('done', 'interrupted'),
    c.undone IS NOT NULL";

/// Returns actions, newest first, whoever may see them.
fn list(
    store: &Connection,
    scope: &ActionScope,
    tool: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<Action>> {
    let mut rows = store.prepare_cached(&format!(
        "SELECT {ACTION} {SEEN} AND c.state <> 'planned' AND (:tool IS NULL OR c.tool = :tool)
         ORDER BY c.id DESC LIMIT :limit"
    ))?;
    let rows = rows.query_map(
        named_params! {
            ":whose": scope.whose,
            ":session": scope.session,
            ":tool": tool,
            ":limit": limit,
            ":chars": SHOWN_CHARS_MAX,
        },
        read_action,
    )?;
    rows.collect()
}

/// Returns the sources of actions: those of everything that the models which wrote their inputs had been shown by then.
pub fn sources_of(store: &Connection, actions: &[Action]) -> rusqlite::Result<Vec<Source>> {
    let mut last_turns: BTreeMap<SessionId, TurnId> = BTreeMap::new();
    let mut turn_of = store.prepare_cached("SELECT turn FROM calls WHERE id = ?")?;
    for action in actions {
        let turn = turn_of.query_row([action.id], |row| row.get(0))?;
        let last = last_turns.entry(action.session).or_insert(turn);
        *last = turn.max(*last);
    }
    let mut sources_found = Vec::new();
    for (session, turn) in last_turns {
        let shown = sources::up_to(store, session, turn)?;
        shown.iter().for_each(|(_, shown)| source::add(&mut sources_found, shown));
    }
    Ok(sources_found)
}

/// Identifies a requested action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionQuery {
    Id(CallId),
    /// The last action that changed this file.
    File(WorkspacePath),
}

/// Returns the action and its turn. None if there is none in the scope.
pub fn find(
    store: &Connection,
    scope: &ActionScope,
    query: &ActionQuery,
) -> rusqlite::Result<Option<(Action, TurnId)>> {
    let (id, path) = match query {
        ActionQuery::Id(id) => (Some(*id), None),
        ActionQuery::File(path) => (None, Some(path.as_str())),
    };
    store
        .prepare_cached(&format!(
            "SELECT {ACTION}, t.id {SEEN} AND c.state <> 'planned' AND iif(:id IS NULL,
             iif(json_valid(c.undo), json_extract(c.undo, '$.path'), NULL) = :path, c.id = :id)
             ORDER BY c.id DESC LIMIT 1"
        ))?
        .query_row(
            named_params! {
                ":whose": scope.whose,
                ":session": scope.session,
                ":id": id,
                ":path": path,
                ":chars": SHOWN_CHARS_MAX,
            },
            |row| Ok((read_action(row)?, row.get(14)?)),
        )
        .optional()
}

fn read_action(row: &Row<'_>) -> rusqlite::Result<Action> {
    Ok(Action {
        id: row.get(0)?,
        at: row.get::<_, Time>(1)?.0,
        tool: row.get(2)?,
        input: row.get(3)?,
        output: row.get(4)?,
        state: row.get(5)?,
        ms: row.get(6)?,
        person: match row.get::<_, LenientJson<Sender>>(7)?.0 {
            None => replies::SOMEBODY.to_owned(),
            Some(sender) => sender.to_string(),
        },
        session: row.get(8)?,
        origin: read_origin_at(row, 9)?,
        undo: match (row.get(12)?, row.get(13)?) {
            (_, true) => UndoState::Taken,
            (true, false) => UndoState::Open,
            (false, false) => UndoState::None,
        },
    })
}

/// A change of a file that a command is about to make. It is recorded as an action of its own.
pub struct CommandChange {
    pub at: Address,
    pub chat_kind: ChatKind,
    pub who: Sender,
    /// A key by which it is found after a crash.
    pub mark: String,
    /// The name under which the action is listed.
    pub tool: &'static str,
    /// JSON.
    pub arguments: String,
    pub change: Intent,
    pub undo: Option<FileUndo>,
}

/// Stores an action of a command as running, in a closed session of its own, which no model sees.
pub fn begin(store: &Connection, action: &CommandChange) -> rusqlite::Result<CallId> {
    let now = Time::now();
    let CommandChange { at, chat_kind, who, mark, tool, arguments, change, undo } = action;
    let turn = insert_closed_turn(store, at, *chat_kind, who)?;
    store.execute(
        "INSERT INTO calls (turn, step, wire_id, tool, arguments, state, intent, undo, started)
         VALUES (?, 0, ?, ?, ?, 'running', ?, ?, ?)",
        params![turn, mark, tool, arguments, Json(change), undo.as_ref().map(Json), now],
    )?;
    Ok(CallId(store.last_insert_rowid()))
}

/// Creates a turn without texts in a closed session of its own, which no model sees.
fn insert_closed_turn(
    store: &Connection,
    at: &Address,
    chat_kind: ChatKind,
    who: &Sender,
) -> rusqlite::Result<i64> {
    let now = Time::now();
    store.execute(
        "INSERT INTO sessions (channel, chat, thread, chat_kind, opened, closed, kind)
         VALUES (?, ?, ?, ?, ?, ?, 'command')",
        params![at.channel, at.chat, at.thread, Json(chat_kind), now, now],
    )?;
    let session = store.last_insert_rowid();
    store.execute(
        "INSERT INTO turns (session, sender, attempts, provider, started, ended, ending)
         VALUES (?, ?, 1, '', ?, ?, '\"answered\"')",
        params![session, Json(who), now, now],
    )?;
    let turn = store.last_insert_rowid();
    store
        .execute("INSERT INTO steps (turn, seq, text, thinking) VALUES (?, 0, '', '[]')", [turn])?;
    Ok(turn)
}

/// Returns an action that a command began and a crash interrupted.
pub fn find_interrupted(
    store: &Connection,
    mark: &str,
) -> rusqlite::Result<Option<(CallId, Intent)>> {
    store
        .prepare_cached(
            "SELECT c.id, c.intent FROM calls c JOIN turns t ON t.id = c.turn
             JOIN sessions s ON s.id = t.session
             WHERE s.kind = 'command' AND c.wire_id = ? AND c.state = 'running'",
        )?
        .query_row([mark], |row| Ok((row.get(0)?, row.get::<_, Json<_>>(1)?.0)))
        .optional()
}

/// Marks the action that a finished call has undone. An action that the marked one had undone is no longer undone.
pub fn mark_undone(store: &Connection, call: CallId) -> rusqlite::Result<()> {
    const UNDOES: &str =
        "(SELECT iif(json_valid(intent), json_extract(intent, '$.undoes'), NULL) FROM calls
        WHERE id = ?)";
    let now = Time::now();
    store
        .prepare_cached(&format!("UPDATE calls SET undone = ? WHERE id = {UNDOES}"))?
        .execute(params![now, call])?;
    store
        .prepare_cached(&format!(
            "UPDATE calls SET undone = NULL WHERE id =
             (SELECT iif(json_valid(intent), json_extract(intent, '$.undoes'), NULL) FROM calls WHERE id = {UNDOES})"
        ))?
        .execute([call])?;
    Ok(())
}

/// Returns the open conversation at an address.
pub fn session_at(store: &Connection, at: &Address) -> rusqlite::Result<Option<SessionId>> {
    let thread = at.thread.as_ref().map_or("", |thread| thread.as_str());
    store
        .prepare_cached(
            "SELECT id FROM sessions WHERE closed IS NULL AND kind = 'chat'
             AND channel = ? AND chat = ? AND ifnull(thread, '') = ?",
        )?
        .query_row(params![at.channel, at.chat, thread], |row| row.get(0))
        .optional()
}
