//! The texts of MCP servers that are part of prompts: names, descriptions and schemas of their tools. The first texts
//! of a server are accepted, because the owner has just configured it. Changed texts wait for the owner's approval;
//! until then the accepted ones stay in force. The config decides which servers exist and what they may offer.

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bus::{Bus, outbox};
use crate::people;
use crate::replies::{self, ToolText};
use crate::store::{Json, LenientJson, StoreError, Sync, Time};
use crate::types::commands::CommandId;
use crate::types::message::{
    AllowedPressers, Attachment, Body, Choice, Content, MediaKind, Question,
};
use crate::workspace::Hash;

/// Minimum time between two questions about one server, regardless of how often it changes its texts.
const ASKED_EVERY: Duration = Duration::days(1);

/// Maximum length of the changes in a question, in characters. Longer ones are attached as a file.
const SHOWN_CHARS_MAX: usize = 1_500;

/// The beginning of the identity of a configured server. Former versions stored identities without it, which also
/// depended on the allowed tools.
pub const IDENTITY_MARK: &str = "server:";

/// The texts of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PinnedTool {
    pub tool: String,
    pub description: String,
    pub parameters: Value,
    /// True if the server declares the tool as read-only.
    pub read_only: bool,
}

impl PinnedTool {
    fn text<'a>(&'a self, schema: &'a str) -> ToolText<'a> {
        ToolText { description: &self.description, schema, reads: self.read_only }
    }
}

/// Changed texts of a server that need the owner's decision.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedTexts {
    accepted: Vec<PinnedTool>,
    offered: Vec<PinnedTool>,
}

/// The outcome of the owner's approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptedTexts {
    Accepted,
    /// The server offers other texts than those that were shown.
    Changed,
    /// The server has no texts that wait for approval.
    None,
}

/// A row of the table `mcp_pins`.
struct Pin {
    configured: String,
    accepted: Vec<PinnedTool>,
    offered: Option<Vec<PinnedTool>>,
    is_asked: bool,
    asked: Option<DateTime<Utc>>,
}

impl Pin {
    /// Returns the texts for prompts: the accepted texts of the tools that are still offered.
    fn accepted_tools(&self, offered: &[PinnedTool]) -> Vec<PinnedTool> {
        let is_offered = |it: &&PinnedTool| offered.iter().any(|offer| offer.tool == it.tool);
        self.accepted.iter().filter(is_offered).cloned().collect()
    }

    /// Returns true if the texts were accepted for this server. An identity of a former version counts as the same
    /// server, so that an update accepts nothing unseen.
    fn is_of(&self, configured: &str) -> bool {
        self.configured == configured || !self.configured.starts_with(IDENTITY_MARK)
    }

    fn has_accepted(&self, offered: &[PinnedTool]) -> bool {
        offered.iter().all(|offer| self.accepted.contains(offer))
    }

    /// Returns true if these texts need neither a write nor a question.
    fn is_settled(&self, configured: &str, offered: &[PinnedTool], now: DateTime<Utc>) -> bool {
        let waits = || self.offered.as_deref() == Some(offered) && !self.is_due(now);
        self.configured == configured
            && match self.has_accepted(offered) {
                true => self.offered.is_none(),
                false => waits(),
            }
    }

    /// Returns true if a question to the owner is due.
    fn is_due(&self, now: DateTime<Utc>) -> bool {
        !self.is_asked && self.asked.is_none_or(|asked| asked + ASKED_EVERY <= now)
    }
}

/// Returns the texts of a server's tools for prompts, and asks the owner about changed ones. `configured` is the
/// server's identity: if it changes, the present texts are accepted.
pub async fn accepted_tools(
    bus: &Bus,
    server: &str,
    configured: &str,
    mut offered: Vec<PinnedTool>,
) -> Result<Vec<PinnedTool>, StoreError> {
    offered.sort_by(|one, other| one.tool.cmp(&other.tool));
    let (server, configured, now) = (server.to_owned(), configured.to_owned(), Utc::now());
    let (name, config, offers) = (server.clone(), configured.clone(), offered.clone());
    let query = move |store: &Connection| {
        let pin = read(store, &name)?.filter(|pin| pin.is_settled(&config, &offers, now));
        Ok(pin.map(|pin| pin.accepted_tools(&offers)))
    };
    if let Some(in_force) = bus.store.read(query).await? {
        return Ok(in_force);
    }
    let settle = move |store: &Connection| settle(store, &server, &configured, &offered, now);
    let in_force = bus.store.write("texts of an MCP server", Sync::Now, settle).await?;
    bus.outbox.notify();
    Ok(in_force)
}

fn settle(
    store: &Connection,
    server: &str,
    configured: &str,
    offered: &[PinnedTool],
    now: DateTime<Utc>,
) -> rusqlite::Result<Vec<PinnedTool>> {
    let pin = read(store, server)?.filter(|pin| pin.is_of(configured));
    let Some(pin) = pin else {
        store
            .prepare_cached(
                "INSERT OR REPLACE INTO mcp_pins (server, configured, accepted) VALUES (?, ?, ?)",
            )?
            .execute(params![server, configured, Json(offered)])?;
        return Ok(offered.to_vec());
    };
    if pin.configured != configured {
        store
            .prepare_cached("UPDATE mcp_pins SET configured = ?2 WHERE server = ?1")?
            .execute(params![server, configured])?;
    }
    if pin.has_accepted(offered) {
        // The server offers the accepted texts again.
        set_offered(store, server, None, false, pin.asked)?;
        return Ok(pin.accepted_tools(offered));
    }
    let is_known = pin.offered.as_deref() == Some(offered);
    let in_force = pin.accepted_tools(offered);
    let pin = Pin { is_asked: pin.is_asked && is_known, ..pin };
    let owner = if pin.is_due(now) { people::owner_address(store)? } else { None };
    let (mut is_asked, mut asked) = (pin.is_asked, pin.asked);
    if let Some(owner) = owner {
        let changed = ChangedTexts { accepted: pin.accepted, offered: offered.to_vec() };
        for body in changed.question(server) {
            outbox::put_body(store, &owner, &body)?;
        }
        (is_asked, asked) = (true, Some(now));
    }
    set_offered(store, server, Some(offered), is_asked, asked)?;
    Ok(in_force)
}

fn set_offered(
    store: &Connection,
    server: &str,
    offered: Option<&[PinnedTool]>,
    is_asked: bool,
    asked: Option<DateTime<Utc>>,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE mcp_pins SET offered = ?2, is_asked = ?3, asked = ?4 WHERE server = ?1",
        )?
        .execute(params![server, offered.map(Json), is_asked, asked.map(Time)])
        .map(drop)
}

/// Returns the changed texts of a server that wait for the owner.
pub fn waiting(store: &Connection, server: &str) -> rusqlite::Result<Option<ChangedTexts>> {
    let pin = read(store, server)?;
    Ok(pin.and_then(|pin| {
        let accepted = pin.accepted;
        pin.offered.map(|offered| ChangedTexts { accepted, offered })
    }))
}

/// Accepts the changed texts with this hash, which the owner has seen. Can be repeated after a crash.
pub fn accept(store: &Connection, server: &str, hash: &str) -> rusqlite::Result<AcceptedTexts> {
    let Some(pin) = read(store, server)? else { return Ok(AcceptedTexts::None) };
    match pin.offered {
        Some(offered) if hash_of(&offered) == hash => {
            store
                .prepare_cached(
                    "UPDATE mcp_pins SET accepted = ?2, offered = NULL, is_asked = 0 WHERE server = ?1",
                )?
                .execute(params![server, Json(&offered)])?;
            Ok(AcceptedTexts::Accepted)
        }
        Some(_) => Ok(AcceptedTexts::Changed),
        None if hash_of(&pin.accepted) == hash => Ok(AcceptedTexts::Accepted),
        None => Ok(AcceptedTexts::None),
    }
}

fn read(store: &Connection, server: &str) -> rusqlite::Result<Option<Pin>> {
    let row = |row: &rusqlite::Row<'_>| {
        let accepted = row.get::<_, LenientJson<Vec<PinnedTool>>>(1)?.0;
        Ok(accepted.map(|accepted| Pin {
            configured: row.get(0).unwrap_or_default(),
            accepted,
            offered: row.get::<_, Option<LenientJson<_>>>(2).ok().flatten().and_then(|it| it.0),
            is_asked: row.get(3).unwrap_or_default(),
            asked: row.get::<_, Option<Time>>(4).ok().flatten().map(|Time(asked)| asked),
        }))
    };
    let pin = store
        .prepare_cached(
            "SELECT configured, accepted, offered, is_asked, asked FROM mcp_pins WHERE server = ?",
        )?
        .query_row([server], row)
        .optional()?;
    Ok(pin.flatten())
}

fn hash_of(tools: &[PinnedTool]) -> String {
    let json = serde_json::to_vec(tools).unwrap_or_default();
    Hash::of(&json).as_str().to_owned()
}

impl ChangedTexts {
    /// Returns the messages that show all changes, with a button that accepts exactly these.
    pub fn question(&self, server: &str) -> Vec<Body> {
        let changes = self.changes_text();
        let is_long = changes.chars().count() > SHOWN_CHARS_MAX;
        let file = is_long.then(|| {
            Body::File(Attachment {
                name: replies::MCP_TEXTS_FILE.to_owned(),
                kind: MediaKind::Document,
                caption: String::new(),
                printed: true,
                content: Content::Text(replies::mcp_tools_whole(&changes)),
            })
        });
        let text = replies::mcp_texts_changed(server, (!is_long).then_some(&*changes));
        let says = CommandId::Trust.line(format_args!("#{} mcp:{server}", hash_of(&self.offered)));
        let choices = vec![Choice { label: replies::ACCEPT_MCP_TEXTS.to_owned(), says }];
        let question = Question::new(text, choices, AllowedPressers::Owner);
        file.into_iter().chain([Body::Choice(question)]).collect()
    }

    /// Returns the changed texts of all tools, for people.
    fn changes_text(&self) -> String {
        let changed = self.offered.iter().filter(|offer| !self.accepted.contains(offer));
        let shown = changed.map(|offer| {
            let before = self.accepted.iter().find(|it| it.tool == offer.tool);
            let before = before.map(|it| (it, it.parameters.to_string()));
            let before = before.as_ref().map(|(it, schema)| it.text(schema));
            replies::mcp_tool(&offer.tool, before, offer.text(&offer.parameters.to_string()))
        });
        shown.collect::<Vec<_>>().join("\n\n")
    }
}
