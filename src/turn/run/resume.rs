//! Resumes an interrupted or suspended turn after its last commit, or ends it.

use rusqlite::Connection;

use crate::bus::journal;
use crate::conversation::transcript::UnfinishedTurn;
use crate::people::Role;
use crate::replies;
use crate::services::{Services, load};
use crate::store::StoreError;
use crate::turn::commits;
use crate::turn::end::TurnEnd;
use crate::turn::error::TurnError;
use crate::turn::personas::{ChosenPersona, KnownSubject};
use crate::turn::run::active::{ActiveTurn, Requester, TurnHandles, watch_access};
use crate::turn::run::declined;
use crate::turn::run::prepare::subject_of;
use crate::turn::services::TurnServices;
use crate::types::event::EventKind;
use crate::types::message::Sender;
use crate::types::origin::Origin;

/// Maximum number of attempts at a turn that crashes interrupt. After that it ends with an explanation, because
/// it may be the cause of the crashes.
const ATTEMPTS_MAX: u32 = 3;

impl<'a> ActiveTurn<'a> {
    /// Resumes a turn after its last commit. None if the turn was ended instead, for example after too many attempts.
    pub(super) async fn resume(
        turns: &'a TurnServices,
        unfinished: UnfinishedTurn,
        handles: TurnHandles,
    ) -> Result<Option<Self>, TurnError> {
        let UnfinishedTurn { turn, attempts, silent, .. } = unfinished;
        let origin = unfinished.origin.clone();
        handles.draft.send_modify(|shown| shown.made = unfinished.draft.clone());
        let store = &turns.services.bus.store;
        if silent {
            commits::end_turn(store, turn, None, TurnEnd::silent(&origin)).await?;
            return Ok(None);
        }
        if attempts >= ATTEMPTS_MAX {
            tracing::error!(
                turn = turn.0,
                attempts,
                "Gave up a turn, because it was interrupted each time"
            );
            if origin.task().is_some() {
                commits::give_up_task(store, turn, origin).await?;
                // What a heartbeat run did not do may be held until the quiet hours end.
                turns.heartbeat.switched.notify();
                return Ok(None);
            }
            let end = interrupted_too_often(turns, &unfinished).await?;
            commits::end_turn(store, turn, None, end).await?;
            return Ok(None);
        }
        if declined::end_without_access(&turns.services.bus, &unfinished).await? {
            return Ok(None);
        }
        commits::resume_turn(store, turn).await?;
        let UnfinishedTurn { sender, reply_to, model_wait: wait, .. } = unfinished;
        let Some(mut session) = load(&turns.services, &origin).await? else { return Ok(None) };
        let access = watch_access(turns, &origin, &sender);
        let (role, chosen) = role_and_persona(turns, &origin, &sender).await?;
        chosen.enter(&mut session);
        turns.models.for_session(&session).learn_window().await;
        let requester = Requester { sender, role, reply_to, access };
        let active = Self::assemble(turns, session, turn, requester, handles).await?;
        let active = active.map(|active| Self { wait, ..active });
        Ok(active.inspect(|active| {
            active.emit(|| EventKind::TurnStart { attempt: attempts + 1 });
        }))
    }

    /// Reads the role again if it may have been lowered since the turn began. A higher one counts from the next turn on.
    /// Returns true if it is lower now.
    pub(super) async fn lower_role(&mut self) -> Result<bool, TurnError> {
        if !self.requester.access.has_changed() {
            return Ok(false);
        }
        let bus = &self.turns.services.bus;
        let (people, origin) = (bus.people.clone(), self.session.origin.clone());
        let sender = self.requester.sender.clone();
        let read_role = move |store: &Connection| {
            let (role, _) = subject_of(store, &people, &origin, &sender)?;
            Ok(role)
        };
        let role = bus.store.read(read_role).await?;
        let is_lower = role < self.requester.role;
        self.requester.role = self.requester.role.min(role);
        Ok(is_lower)
    }
}

/// Returns the end of a turn that was interrupted too often. Several of a chat may end so, so each names its message: as a
/// reply where the platform has replies and no draft is replaced, else with a quote.
async fn interrupted_too_often(
    turns: &TurnServices,
    unfinished: &UnfinishedTurn,
) -> Result<TurnEnd, StoreError> {
    let Services { bus, channels, zone, .. } = &turns.services;
    let turn = unfinished.turn;
    let read = move |store: &Connection| {
        Ok((journal::question(store, turn)?, journal::first_of_turn(store, turn)?))
    };
    let (question, message) = bus.store.read(read).await?;
    let end = |words: String| TurnEnd::failed(unfinished, words, *zone);
    let channel = channels.get(unfinished.origin.channel());
    let has_replies = channel.is_some_and(|channel| channel.limits().replies);
    if has_replies && question.is_some() && unfinished.draft.is_none() {
        let end = end(replies::INTERRUPTED_TOO_OFTEN.to_owned());
        return Ok(TurnEnd { reply_to: question, ..end });
    }
    let said = message.map(|message| message.body.text).unwrap_or_default();
    Ok(end(replies::quoting(&said, replies::INTERRUPTED_TOO_OFTEN)))
}

/// Reads the role and the persona of who speaks.
async fn role_and_persona(
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
