//! The data for the beginning of a turn: role and persona of the speaker, the conversation with its plan, and the facts
//! of its person. It is read in one state of the store, so that it is consistent.

use chrono::TimeDelta;
use rusqlite::Connection;

use crate::conversation::{plans, transcript};
use crate::people::{People, Role};
use crate::store::StoreError;
use crate::trust::taint;
use crate::turn::background::of as background_kind;
use crate::turn::commits::{self, PausedConversation};
use crate::turn::compaction::{self, apart};
use crate::turn::frozen::KnownFacts;
use crate::turn::personas::{ChosenPersona, KnownSubject, PersonaSubject};
use crate::turn::services::TurnServices;
use crate::types::message::{Address, ChatKind, Sender};
use crate::types::origin::{Origin, TaskId};
use crate::types::session::{Plan, Session};

/// The state of the store at the beginning of a turn.
pub(super) struct StartState {
    pub(super) role: Role,
    pub(super) chosen: ChosenPersona,
    pub(super) session: Session,
    /// The open plan of the conversation.
    pub(super) plan: Option<Plan>,
    pub(super) known: KnownFacts,
}

/// The speaker of a turn, and the place.
#[derive(Clone)]
pub(super) struct TurnSpeaker {
    pub(super) origin: Origin,
    pub(super) chat_kind: ChatKind,
    pub(super) sender: Sender,
}

/// Reads the state. A session that the loop has kept is read again if it has changed in the store.
pub(super) async fn read(
    turns: &TurnServices,
    kept: Option<Session>,
    speaker: TurnSpeaker,
) -> Result<StartState, StoreError> {
    let personas = &turns.config.personas;
    let (people, have_servers) = (turns.services.bus.people.clone(), personas.have_servers());
    let now = turns.services.now().to_utc();
    let query = move |store: &Connection| {
        let TurnSpeaker { origin, chat_kind, sender } = &speaker;
        let (role, subject) = subject_of(store, &people, origin, sender)?;
        let subject = KnownSubject::read(store, subject, have_servers)?;
        let session = session_of(store, kept, origin, *chat_kind)?;
        let known = match origin {
            Origin::Chat(at) => {
                let begins = may_begin(&session, role).then_some(now);
                KnownFacts::read(store, at, *chat_kind, &sender.id, begins)?
            }
            Origin::Task { .. } => KnownFacts::default(),
        };
        let plan = plans::of(store, session.id)?.filter(Plan::is_open);
        Ok((role, subject, session, plan, known))
    };
    let (role, subject, session, plan, known) = turns.services.bus.store.read(query).await?;
    Ok(StartState { role, chosen: personas.choose_for(subject), session, plan, known })
}

/// Reads the state for a turn that a person begins. Untrusted parts of a private conversation are left out if nobody has
/// spoken in it for as long as the config says.
pub(super) async fn read_after_pause(
    turns: &TurnServices,
    kept: Option<Session>,
    speaker: TurnSpeaker,
) -> Result<StartState, StoreError> {
    let state = read(turns, kept, speaker.clone()).await?;
    let Some(paused) = paused(turns, &state) else { return Ok(state) };
    let store = &turns.services.bus.store;
    let (session, since) = (state.session.id, paused.since);
    let is_quiet = move |store: &Connection| transcript::is_quiet_since(store, session, since);
    if !store.read(is_quiet).await? || !commits::cleaned(store, paused).await? {
        return Ok(state);
    }
    tracing::info!(session = session.0, "Left untrusted parts out after a pause");
    let mut estimate = state.session.estimate;
    estimate.tried = 0;
    estimate.recount();
    let mut state = read(turns, None, speaker).await?;
    state.session.estimate = estimate;
    Ok(state)
}

/// The conversation that is cleaned if nobody has spoken in it for long; none if nothing of it is untrusted, or that
/// does not matter.
fn paused(turns: &TurnServices, state: &StartState) -> Option<PausedConversation> {
    let StartState { role, chosen, session, plan, .. } = state;
    let after = turns.config.clean_after.filter(|_| apart::are_told_apart(turns, session))?;
    let has_untrusted_plan = plan.as_ref().is_some_and(|plan| plan.tainted);
    if !has_untrusted_plan && taint::of_one(session, *role).is_none() {
        return None;
    }
    let since = turns.services.now().to_utc() - TimeDelta::from_std(after).ok()?;
    let (origin, models) = (session.origin.clone(), &turns.models);
    let model = models.for_origin(&origin, &session.settings, &chosen.persona);
    let tokens_max = compaction::summary_tokens_max(session, model.context_window());
    Some(PausedConversation { origin, role: *role, since, tokens_max })
}

/// Reads the role and the persona of who speaks.
pub(super) async fn role_and_persona(
    turns: &TurnServices,
    origin: &Origin,
    sender: &Sender,
) -> Result<(Role, ChosenPersona), StoreError> {
    let personas = &turns.config.personas;
    let (people, have_servers) = (turns.services.bus.people.clone(), personas.have_servers());
    let (origin, sender) = (origin.clone(), sender.clone());
    let query = move |store: &Connection| {
        let (role, subject) = subject_of(store, &people, &origin, &sender)?;
        Ok((role, KnownSubject::read(store, subject, have_servers)?))
    };
    let (role, subject) = turns.services.bus.store.read(query).await?;
    Ok((role, personas.choose_for(subject)))
}

/// Returns the role of the speaker, and the subject for the choice of the persona. Its place is that of the people for
/// whom the turn works.
fn subject_of(
    store: &Connection,
    people: &People,
    origin: &Origin,
    sender: &Sender,
) -> rusqlite::Result<(Role, PersonaSubject)> {
    let role = people.role_of(store, origin.channel(), &sender.id)?.unwrap_or(Role::Guest);
    let at = match origin {
        Origin::Chat(at) => Some(at.clone()),
        Origin::Task { task: TaskId { kind, number }, .. } => {
            background_kind(*kind).people_at(store, *number)?
        }
    };
    let nowhere = || Address { channel: origin.channel().clone(), chat: "".into(), thread: None };
    let at = at.unwrap_or_else(nowhere);
    Ok((role, PersonaSubject::new(at, origin.channel().clone(), sender.id.clone(), role)))
}

fn session_of(
    store: &Connection,
    kept: Option<Session>,
    origin: &Origin,
    chat_kind: ChatKind,
) -> rusqlite::Result<Session> {
    let found = match kept {
        Some(kept) if transcript::is_current(store, &kept)? => Some(kept),
        Some(kept) => {
            let mut estimate = kept.estimate;
            estimate.recount();
            let anew = transcript::open_session(store, &kept.origin)?;
            anew.map(|anew| Session { estimate, ..anew })
        }
        None => None,
    };
    match found {
        Some(session) => Ok(session),
        None => {
            let stored = transcript::open_session(store, origin)?;
            Ok(stored.unwrap_or_else(|| Session::new(origin, chat_kind)))
        }
    }
}

/// Returns true if a conversation gets a snapshot: it is private, not a guest's, and has none yet.
fn may_begin(session: &Session, role: Role) -> bool {
    let was_shown = session.frozen.as_ref().is_some_and(|it| it.has_snapshot);
    session.chat_kind == ChatKind::Private && role != Role::Guest && !was_shown
}
