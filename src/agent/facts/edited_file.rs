//! `/memory FACTS.md`: shows the edits in FACTS.md, and applies them once the person of the file has said yes.

use chrono::Utc;
use rusqlite::Connection;

use super::source_of;
use crate::bus::journal::WaitingMessage;
use crate::memory::facts::{self, Fact, FactKind, FactOrigin, KeepOutcome, NewFact};
use crate::memory::facts_file::{self, EDITS_MAX, FactEdit};
use crate::memory::file_scope;
use crate::memory::recall::{self, RecallKey};
use crate::people::Role;
use crate::people::folders::folder_owner;
use crate::replies::{self, FactEditShown};
use crate::services::Services;
use crate::store::StoreError;
use crate::turn::commits;
use crate::turn::facts::{EditedFile, shown_in_file, write_file};
use crate::turn::services::TurnServices;
use crate::types::commands::CommandId;
use crate::types::message::{AllowedPressers, Body, ChatKind, Choice, Question};
use crate::workspace::{FileScope, Hash};

/// The first argument of the command.
const NAME: &str = "FACTS.md";

/// The arguments of its buttons.
const YES: &str = "yes:";
const NO: &str = "no";

/// Hex digits of the digest in a button: 64 bits.
const DIGITS: usize = 16;

/// The decision about the edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FactsFileCommand {
    Show,
    /// Applies the edits with this digest, if they are still those that were shown.
    Keep(String),
    /// Discards the edits and writes the file again.
    Drop,
}

impl FactsFileCommand {
    /// Parses the arguments of `/memory`. None if they are not about FACTS.md.
    pub(super) fn parse(arguments: &str) -> Option<Self> {
        let (name, rest) = arguments.split_at_checked(NAME.len())?;
        let rest = name.eq_ignore_ascii_case(NAME).then(|| rest.trim())?;
        match rest.strip_prefix(YES) {
            Some(digest) => Some(Self::Keep(digest.trim().to_owned())),
            None if rest == NO => Some(Self::Drop),
            None => rest.is_empty().then_some(Self::Show),
        }
    }
}

/// The edits in a person's file.
struct EditedFacts {
    keys: Vec<RecallKey>,
    scope: FileScope,
    edits: Vec<FactEdit>,
    /// A digest of the edits.
    digest: String,
}

pub(super) async fn handle(
    turns: &TurnServices,
    control: &WaitingMessage,
    role: Role,
    order: FactsFileCommand,
) -> Result<(), StoreError> {
    let services = &turns.services;
    let store = &services.bus.store;
    let edited = read_edits(services, control, role).await?;
    // A message of another bot or of a program decides nothing.
    let is_own_word = control.inbound.body.is_own_text();
    let count = edited.edits.len();
    match order {
        _ if count == 0 => {
            commits::reply(store, control, replies::FACTS_FILE_UNCHANGED.to_owned()).await?;
        }
        FactsFileCommand::Drop if is_own_word => {
            commits::reply(store, control, replies::FACTS_FILE_MADE_ANEW.to_owned()).await?;
        }
        _ if count > EDITS_MAX => {
            let reply = replies::facts_file_edits_too_many(count, EDITS_MAX);
            return commits::reply(store, control, reply).await;
        }
        FactsFileCommand::Keep(digest) if is_own_word && digest == edited.digest => {
            apply_edits(turns, control, &edited).await?;
        }
        FactsFileCommand::Show | FactsFileCommand::Drop | FactsFileCommand::Keep(_) => {
            let question = Body::Choice(question(control, &edited));
            return commits::reply_with_bodies(store, control, vec![question]).await;
        }
    }
    write_file(services, &edited.scope, &edited.keys, EditedFile::Replace).await
}

async fn read_edits(
    services: &Services,
    control: &WaitingMessage,
    role: Role,
) -> Result<EditedFacts, StoreError> {
    let (at, who) = (control.inbound.from.clone(), control.sender().id.clone());
    let query = move |store: &Connection| {
        let owner = folder_owner(store, &at.channel, &who)?;
        let keys = recall::conversation_keys(store, &at, ChatKind::Private, &who)?;
        Ok((file_scope(role, ChatKind::Private, &at, &owner), facts::list(store, &keys)?, keys))
    };
    let (scope, known, keys) = services.bus.store.read(query).await?;
    let read_scope = scope.clone();
    let text = services.workspace.run_blocking(move |it| facts_file::read(it, &read_scope)).await;
    let shown = shown_in_file(known, scope.audience());
    let edits = text.ok().flatten().map(|text| facts_file::edits(&text, &shown));
    let edits = edits.unwrap_or_default();
    let digest = Hash::of(format!("{edits:?}").as_bytes()).to_string();
    Ok(EditedFacts { keys, scope, edits, digest: digest.chars().take(DIGITS).collect() })
}

fn question(control: &WaitingMessage, edited: &EditedFacts) -> Question {
    let choice = |label: &str, arguments: &str| Choice {
        label: label.to_owned(),
        says: CommandId::Memory.line(format_args!("{NAME} {arguments}")),
    };
    let shown = edited.edits.iter().map(|edit| match edit {
        FactEdit::Added(text) => FactEditShown::New(text),
        FactEdit::Changed { id, from, to } => FactEditShown::Instead { number: id.0, from, to },
        FactEdit::Removed { id, text } => FactEditShown::Gone { number: id.0, text },
    });
    Question::new(
        replies::facts_file_edits(&shown.collect::<Vec<_>>()),
        vec![
            choice(replies::KEEP_EDITS, &format!("{YES} {}", edited.digest)),
            choice(replies::DROP_EDITS, NO),
        ],
        AllowedPressers::Only(control.sender().id.clone()),
    )
}

/// Applies the edits in one transaction with the command's row.
async fn apply_edits(
    turns: &TurnServices,
    control: &WaitingMessage,
    edited: &EditedFacts,
) -> Result<(), StoreError> {
    let (keys, edits, source) = (edited.keys.clone(), edited.edits.clone(), source_of(control));
    let active_max = turns.config.memory.facts_max;
    let apply = move |store: &Connection| {
        let known = facts::list(store, &keys)?;
        // A fact that has changed since it was shown stays as it is.
        let find_unchanged = |id, text: &String| {
            known.iter().find(|fact: &&Fact| fact.id == id && fact.text == *text && fact.holds())
        };
        let new_fact = |kind: FactKind, text: String| NewFact {
            kind,
            text,
            origin: FactOrigin::Told,
            sources: vec![source.clone()],
        };
        let mut is_full = false;
        for edit in edits {
            match edit {
                FactEdit::Added(text) => {
                    let added = new_fact(FactKind::default(), text);
                    let kept = facts::keep(store, &keys, &added, active_max, Utc::now())?;
                    is_full |= kept == KeepOutcome::Full;
                }
                FactEdit::Changed { id, from, to } => {
                    if let Some(fact) = find_unchanged(id, &from) {
                        facts::reword(store, fact, &new_fact(fact.kind, to), Utc::now())?;
                    }
                }
                FactEdit::Removed { id, text } => {
                    if let Some(fact) = find_unchanged(id, &text) {
                        facts::remove(store, fact.id)?;
                    }
                }
            }
        }
        facts::expire(store, &keys, active_max, Utc::now())?;
        let reply = if is_full { replies::FACTS_FULL } else { replies::EDITS_KEPT };
        Ok(reply.to_owned())
    };
    commits::apply_command(&turns.services.bus.store, control, apply).await
}
