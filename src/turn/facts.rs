//! FACTS.md, which shows the facts of a person as a file, and the check which facts are trusted. Not the facts in a
//! prompt (`frozen.rs`).

use rusqlite::Connection;

use crate::memory::facts::{self, Fact};
use crate::memory::recall::{self, RecallKey};
use crate::memory::{facts_file, file_scope};
use crate::people::Role;
use crate::people::folders::folder_owner;
use crate::replies::{self, FactInFile};
use crate::services::Services;
use crate::store::StoreError;
use crate::trust::taint;
use crate::types::message::{Address, ChatKind, Sender};
use crate::workspace::{Audience, FileError, FileScope, Workspace};

/// Attempts to write FACTS.md while facts change.
const WRITES_MAX: usize = 4;

/// Returns true if all deciding sources of a fact are trusted for this audience.
pub(crate) fn is_trusted(fact: &Fact, audience: Audience) -> bool {
    let sources = fact.deciding_sources();
    !sources.iter().any(|source| taint::is_untrusted(source, audience))
}

/// Writes the FACTS.md of the person of a private chat, if their facts have changed. Guests have none.
pub(crate) async fn refresh_file_of(
    services: &Services,
    at: &Address,
    sender: &Sender,
    role: Role,
) -> Result<(), StoreError> {
    if role == Role::Guest {
        return Ok(());
    }
    let (chat_kind, from, who) = (ChatKind::Private, at.clone(), sender.id.clone());
    let query = move |store: &Connection| {
        let owner = folder_owner(store, &from.channel, &who)?;
        Ok((recall::conversation_keys(store, &from, chat_kind, &who)?, owner))
    };
    let (keys, owner) = services.bus.store.read(query).await?;
    refresh_file(services, &file_scope(role, chat_kind, at, &owner), &keys).await
}

/// Writes the FACTS.md of a person, if their facts have changed. It leaves out untrusted facts, because the file in the
/// workspace is trusted. An edited file stays until its person decides. A failed write is only logged.
pub(crate) async fn refresh_file(
    services: &Services,
    scope: &FileScope,
    keys: &[RecallKey],
) -> Result<(), StoreError> {
    write_file(services, scope, keys, EditedFile::Keep).await
}

/// The treatment of a FACTS.md that somebody has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditedFile {
    Keep,
    Replace,
}

/// Writes the FACTS.md of a person.
pub(crate) async fn write_file(
    services: &Services,
    scope: &FileScope,
    keys: &[RecallKey],
    edited: EditedFile,
) -> Result<(), StoreError> {
    // Facts may change while the file is written, so they are compared again after the write.
    for _ in 0..WRITES_MAX {
        let (read_scope, keys) = (scope.clone(), keys.to_vec());
        let before =
            services.workspace.run_blocking(move |it| facts_file::read(it, &read_scope)).await;
        let known = services.bus.store.read(move |store| facts::list(store, &keys)).await?;
        let known = shown_in_file(known, scope.audience());
        let is_edited = |text: &String| !facts_file::edits(text, &known).is_empty();
        if edited == EditedFile::Keep
            && before.as_ref().is_ok_and(|it| it.as_ref().is_some_and(is_edited))
        {
            return Ok(());
        }
        let text = file_text(services, &known);
        let written = match before {
            Ok(None) if text.is_none() => return Ok(()),
            Ok(before) => {
                let text =
                    text.unwrap_or_else(|| facts_file::marked(&replies::facts_file(&[]), &[]));
                if before.as_ref() == Some(&text) {
                    return Ok(());
                }
                let written_scope = scope.clone();
                let replace = move |it: &Workspace| {
                    facts_file::replace(it, &written_scope, before.as_deref(), text)
                };
                services.workspace.run_blocking(replace).await
            }
            Err(error) => Err(error),
        };
        match written {
            Ok(()) | Err(FileError::Changed(_)) => {}
            Err(error) => {
                tracing::warn!(%error, "Cannot write FACTS.md");
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the facts that FACTS.md shows: those that hold and are trusted, by kind.
pub(crate) fn shown_in_file(mut known: Vec<Fact>, audience: Audience) -> Vec<Fact> {
    known.retain(|fact| fact.holds() && is_trusted(fact, audience));
    known.sort_by_key(|fact| (fact.kind, fact.id));
    known
}

/// Returns the text of FACTS.md. None without facts.
fn file_text(services: &Services, known: &[Fact]) -> Option<String> {
    let shown = known.iter().map(|fact| FactInFile {
        number: fact.id.0,
        kind: fact.kind.as_str(),
        text: &fact.text,
        day: fact.made.with_timezone(&services.zone).format("%Y-%m-%d").to_string(),
    });
    let shown: Vec<_> = shown.collect();
    let ids: Vec<_> = known.iter().map(|fact| fact.id).collect();
    (!shown.is_empty()).then(|| facts_file::marked(&replies::facts_file(&shown), &ids))
}
