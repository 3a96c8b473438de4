//! Facts in a prompt: those of the person or group of a conversation, frozen with the rest of its memory, and what
//! changed in them since.

use std::fmt::Write as _;

use rusqlite::Connection;

use crate::conversation::tokens;
use crate::memory::facts::{self, Fact, FactStatus};
use crate::memory::recall;
use crate::memory::{self, audience};
use crate::people::Role;
use crate::services::Services;
use crate::store::StoreError;
use crate::trust::taint;
use crate::types::message::Sender;
use crate::types::persona::PersonaMemory;
use crate::types::session::{FrozenContext, FrozenFacts, Session};
use crate::workspace::Audience;

/// The part of the memory's share of a context window that facts may take.
const SHARE_PARTS: u64 = 4;

/// Returns the active facts for a session, one a line: of the person in private, of the group elsewhere. Those that are
/// not trusted for their reader are left out.
pub(crate) async fn active(
    services: &Services,
    session: &Session,
    sender: &Sender,
    role: Role,
    tokens_max: u64,
) -> Result<String, StoreError> {
    let Some(at) = session.origin.chat().cloned() else { return Ok(String::new()) };
    if session.persona.memory != PersonaMemory::Person {
        return Ok(String::new());
    }
    let (place, who) = (session.place, sender.id.clone());
    let audience = audience(role, place);
    let look = move |store: &Connection| {
        let keys = recall::keys_of_talks(store, &at, place, &who)?;
        facts::of(store, &keys)
    };
    let known = services.bus.store.read(look).await?;
    let shown = known.iter().filter(|fact| is_shown(fact, audience));
    let (mut text, mut left) = (String::new(), tokens_max / SHARE_PARTS);
    for fact in shown {
        let line = format!("- {} (#{})", fact.text, fact.id.0);
        let Some(rest) = left.checked_sub(tokens::tokens(&line)) else { break };
        left = rest;
        let _ = writeln!(text, "{line}");
    }
    Ok(text)
}

fn is_shown(fact: &Fact, audience: Audience) -> bool {
    let sources = fact.deciding_sources();
    let is_untrusted = sources.iter().any(|source| taint::is_untrusted(source, audience));
    fact.status == FactStatus::Active && !is_untrusted
}

/// Freezes the facts in a prompt that is made anew, or returns what changed in them since the model was last told.
pub(crate) fn freeze(frozen: &mut FrozenContext, now: String) -> Option<String> {
    let Some(facts) = &mut frozen.facts else {
        frozen.facts = Some(FrozenFacts { text: now.clone(), told: now });
        return None;
    };
    let change = memory::changes(&facts.told, &now)?;
    facts.told = now;
    Some(format!("Facts changed:\n{change}"))
}

/// The facts for a prompt that is made anew within a turn: those that the model was told last.
pub(crate) fn renewed(before: Option<&FrozenContext>) -> Option<FrozenFacts> {
    let told = before?.facts.as_ref()?.told.clone();
    Some(FrozenFacts { text: told.clone(), told })
}
