//! Prepares a turn in its task, and runs it to its end: reads the state in one state of the store, so that it
//! is consistent, commits the first step, and assembles the active turn. Not the steps between (`run.rs`).

use std::collections::HashSet;

use anyhow::anyhow;
use chrono::TimeDelta;
use rusqlite::Connection;
use tokio::time::{Instant, timeout};

use crate::bus::journal::{InboundOutcome, WaitingMessage};
use crate::conversation::ledger::{CallCause, Payer};
use crate::conversation::transcript::{self, UnfinishedTurn};
use crate::conversation::{plans, presence, tokens};
use crate::people::{People, Role};
use crate::provider::{Attempts, Usage};
use crate::replies;
use crate::services::{Services, person_on};
use crate::store::StoreError;
use crate::trust::taint;
use crate::turn::background::behaviour_of as background_kind;
use crate::turn::commits::{self, PausedConversation, TurnBeginning, UsedFacts};
use crate::turn::compaction::{self, separation};
use crate::turn::end::TurnEnd;
use crate::turn::error::TurnError;
use crate::turn::frozen::{KnownFacts, frozen_memory};
use crate::turn::instructions;
use crate::turn::invoked::invoked;
use crate::turn::personas::{ChosenPersona, KnownSubject, PersonaSubject};
use crate::turn::prompt::InvokedSkills;
use crate::turn::run::active::{ActiveTurn, Requester, TurnHandles, watch_access};
use crate::turn::run::declined::close_declined;
use crate::turn::run::ending::commit_end;
use crate::turn::run::first_step::{FirstStep, FirstStepContent, first_step};
use crate::turn::run::limits::TurnLimits;
use crate::turn::services::TurnServices;
use crate::turn::spending::Granted;
use crate::types::event::EventKind;
use crate::types::message::{Address, Cause, ChatKind, Hint, MessageId, Reaction, Sender};
use crate::types::origin::{Origin, TaskId, TaskKind};
use crate::types::session::{FrozenContext, Plan, Session, Turn, TurnId};

/// The beginning of a turn.
pub(crate) enum TurnStart {
    /// Waiting messages of one person at one address; never empty.
    New(Vec<WaitingMessage>),
    /// An unfinished turn, and what its person has said while it waited for a model.
    Resume(Box<UnfinishedTurn>, Vec<WaitingMessage>),
}

/// The state of the store at the beginning of a turn.
struct StartState {
    role: Role,
    chosen: ChosenPersona,
    session: Session,
    /// The open plan of the conversation.
    plan: Option<Plan>,
    known: KnownFacts,
}

/// The speaker of a turn, and the place.
#[derive(Clone)]
struct TurnSpeaker {
    origin: Origin,
    chat_kind: ChatKind,
    sender: Sender,
}

/// Runs a turn to its end. Returns the session if it is in the same state as in the store.
pub(crate) async fn run(
    turns: &TurnServices,
    session: Option<Session>,
    begin: TurnStart,
    handles: TurnHandles,
) -> Result<Option<Session>, TurnError> {
    let _announced_writer = turns.services.bus.store.announce_writer();
    let begun = match begin {
        TurnStart::New(rows) => ActiveTurn::start(turns, session, rows, handles).await?,
        TurnStart::Resume(unfinished, _) => ActiveTurn::resume(turns, *unfinished, handles).await?,
    };
    let Some(active) = begun else { return Ok(None) };
    let (turn, time_max, timeout_text) =
        (active.turn, active.limits.time_max, active.limits.timeout_text());
    let time_left = time_max.saturating_sub(active.limits.worked);
    let (is_task, keeps_quiet) = (active.limits.background.is_some(), active.limits.keeps_quiet);
    let mut end = active.end_with(replies::SOMETHING_BROKE.to_owned());
    let ended = timeout(time_left, Box::pin(active.work())).await;
    match ended.unwrap_or_else(|_| {
        end.words = Some(timeout_text);
        Err(TurnError::Abort(anyhow!("it took longer than {time_max:?}")))
    }) {
        // The session of a background task is closed.
        Ok(_) if is_task => Ok(None),
        Err(TurnError::Abort(error)) => {
            tracing::error!(turn = turn.0, error = format!("{error:#}"), "A turn cannot go on");
            commit_end(turns, turn, None, end, keeps_quiet).await?;
            Ok(None)
        }
        ended => ended,
    }
}

impl<'a> ActiveTurn<'a> {
    /// Begins a turn with waiting rows. None if the rows were closed without a turn, for example because they are late.
    async fn start(
        turns: &'a TurnServices,
        session: Option<Session>,
        rows: Vec<WaitingMessage>,
        handles: TurnHandles,
    ) -> Result<Option<Self>, TurnError> {
        let first = &rows.first().expect("a turn begins with a message").inbound;
        let (origin, chat_kind) = (rows[0].origin.clone(), first.chat_kind);
        let sender = rows[0].sender().clone();
        if close_declined(&turns.services.bus, &rows).await? {
            return Ok(None);
        }
        let is_task = origin.task().is_some();
        let access = watch_access(turns, &origin, &sender);
        let speaker = TurnSpeaker { origin: origin.clone(), chat_kind, sender: sender.clone() };
        let is_said = matches!(first.cause, Cause::Person(_));
        let state = match is_said {
            true => read_after_pause(turns, session, speaker).await?,
            false => read(turns, session, speaker).await?,
        };
        let StartState { role, chosen, mut session, plan, known } = state;
        let quiet = chosen.quiet_hours_text(role, turns.services.now());
        if let Some(words) = quiet.filter(|_| is_said) {
            commits::close_messages(
                &turns.services.bus.store,
                rows,
                InboundOutcome::Refused,
                words,
            )
            .await?;
            return Ok(None);
        }
        let invoked = match is_task {
            true => Some(InvokedSkills::new()),
            false => invoked(&turns.services, &rows).await?,
        };
        let Some(invoked) = invoked else { return Ok(None) };
        chosen.enter(&mut session);
        // The first prompt already needs the context window.
        turns.models.for_session(&session).learn_window().await;
        let (mut frozen, changes) = match is_task {
            true => (FrozenContext::default(), Vec::new()),
            false => frozen_memory(turns, &mut session, &sender, role, &known).await?,
        };
        let content = FirstStepContent { role, rows: &rows, invoked: &invoked, changes, plan };
        let FirstStep { step, facts, overheard } =
            first_step(turns, &session, content, &mut frozen).await?;
        let reply_to = rows.last().and_then(|row| row.inbound.id.clone());
        let reply_to = reply_to.filter(|_| chat_kind == ChatKind::Group);
        let beginning = TurnBeginning {
            origin,
            chat_kind,
            sender: sender.clone(),
            reply_to: reply_to.clone(),
            rows: rows.clone(),
            first: step.clone(),
            frozen: frozen.clone(),
            used_facts: UsedFacts { facts, active_max: turns.config.memory.facts_max },
            provider: turns.models.for_session(&session).name().to_owned(),
        };
        let at = beginning.origin.chat().cloned();
        let (id, turn) = commits::start_turn(&turns.services.bus.store, beginning).await?;
        at.iter().for_each(|at| turns.services.bus.overheard.remove_shown(at, overheard));
        session.id = id;
        session.frozen = Some(frozen);
        session.turns.push(Turn {
            id: turn,
            by: sender.id.clone(),
            steps: vec![step],
            ending: None,
        });
        let requester = Requester { sender, role, reply_to, access };
        let last = rows.last().and_then(|row| row.inbound.id.clone());
        let Some(active) = Self::assemble(turns, session, turn, requester, handles).await? else {
            return Ok(None);
        };
        active.acknowledge(last);
        active.emit(|| EventKind::TurnStart { attempt: 1 });
        Ok(Some(active))
    }

    /// Returns a turn that is ready to run. None if its background task has already ended.
    pub(super) async fn assemble(
        turns: &'a TurnServices,
        session: Session,
        turn: TurnId,
        requester: Requester,
        handles: TurnHandles,
    ) -> Result<Option<Self>, TurnError> {
        let Some(limits) = TurnLimits::of(turns, &session, turn).await? else {
            let is_heartbeat =
                session.origin.task().is_some_and(|task| task.kind == TaskKind::Heartbeat);
            let end = TurnEnd::silent(&session.origin);
            commit_end(turns, turn, None, end, is_heartbeat).await?;
            return Ok(None);
        };
        handles.draft.send_modify(|draft| {
            (draft.turn, draft.reply_to) = (Some(turn), requester.reply_to.clone());
        });
        // Changed instructions are reported to the owner before a model follows them.
        turns.instruction_watcher.report_changes().await?;
        turns.tools.wait_for_mcp_servers().await;
        let base = instructions::base(turns, &session, requester.speaker(), limits.caller).await;
        let payer = payer(&turns.services, &session, &requester, &limits).await?;
        let provider = turns.models.for_session(&session);
        Ok(Some(Self {
            fixed_tokens: tokens::fixed_tokens(&base.system, session.summary.as_deref()),
            in_use: turns.models.all.in_use.begin_use(provider.name()),
            provider,
            wait: None,
            payer,
            granted: Granted::default(),
            attempts: Attempts::Usual,
            thought: String::new(),
            pending: Vec::new(),
            invoked: InvokedSkills::new(),
            turns,
            session,
            turn,
            limits,
            requester,
            handles,
            base,
            begun: Instant::now(),
            spent: Usage::default(),
            has_planned: false,
            ahead: turns.services.workspace.clone(),
            deferred_calls: HashSet::new(),
        }))
    }

    /// Shows a reaction at a message that was read, on channels with reactions.
    fn acknowledge(&self, message: Option<MessageId>) {
        let Origin::Chat(at) = &self.session.origin else { return };
        let channel = self.turns.services.channels.get(&at.channel);
        if let (true, Some(message)) = (channel.is_some_and(|it| it.limits().reacts), message) {
            self.handles.reactions.try_send(Hint::React { message, with: Reaction::Seen }).ok();
        }
    }
}

/// Reads the state for a turn that a person begins. Untrusted parts of a private conversation are left out if nobody has
/// spoken in it for as long as the config says.
async fn read_after_pause(
    turns: &TurnServices,
    kept: Option<Session>,
    speaker: TurnSpeaker,
) -> Result<StartState, StoreError> {
    let state = read(turns, kept, speaker.clone()).await?;
    let Some(paused) = paused(turns, &state) else { return Ok(state) };
    let store = &turns.services.bus.store;
    let (session, since) = (state.session.id, paused.since);
    let is_quiet = move |store: &Connection| transcript::is_quiet_since(store, session, since);
    if !store.read(is_quiet).await? || !commits::clean_conversation(store, paused).await? {
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
    let after = turns.config.clean_after.filter(|_| separation::are_separated(turns, session))?;
    let has_untrusted_plan = plan.as_ref().is_some_and(|plan| plan.tainted);
    if !has_untrusted_plan && taint::session_taint(session, *role).is_none() {
        return None;
    }
    let since = turns.services.now().to_utc() - TimeDelta::from_std(after).ok()?;
    let (origin, models) = (session.origin.clone(), &turns.models);
    let model = models.for_origin(&origin, &session.settings, &chosen.persona);
    let tokens_max = compaction::summary_tokens_max(session, model.context_window());
    Some(PausedConversation { origin, role: *role, since, tokens_max })
}

/// Reads the state. A session that the loop has kept is read again if it has changed in the store.
async fn read(
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

/// Returns the role of the speaker, and the subject for the choice of the persona. Its place is that of the people for
/// whom the turn works. A background task has at most the role of the person who reads its result in private.
pub(super) fn subject_of(
    store: &Connection,
    people: &People,
    origin: &Origin,
    sender: &Sender,
) -> rusqlite::Result<(Role, PersonaSubject)> {
    let mut role = people.role_of(store, origin.channel(), &sender.id)?.unwrap_or(Role::Guest);
    let at = match origin {
        Origin::Chat(at) => Some(at.clone()),
        Origin::Task { task: TaskId { kind, number }, .. } => {
            let at = background_kind(*kind).people_at(store, *number)?;
            if let Some(at) = &at
                && let Some(reader) = presence::private_reader(store, at)?
            {
                let readers = people.role_of(store, &at.channel, &reader.id)?;
                role = role.min(readers.unwrap_or(Role::Guest));
            }
            at
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
    let session = match found {
        Some(session) => session,
        None => {
            let stored = transcript::open_session(store, origin)?;
            stored.unwrap_or_else(|| Session::new(origin, chat_kind))
        }
    };
    // A note may have opened it as a group's, because nobody had spoken there.
    let is_private = origin.chat().is_some() && chat_kind == ChatKind::Private;
    let chat_kind = if is_private { ChatKind::Private } else { session.chat_kind };
    Ok(Session { chat_kind, ..session })
}

/// Returns true if a conversation gets a snapshot: it is private, not a guest's, and has none yet.
fn may_begin(session: &Session, role: Role) -> bool {
    let was_shown = session.frozen.as_ref().is_some_and(|it| it.has_snapshot);
    session.chat_kind == ChatKind::Private && role != Role::Guest && !was_shown
}

/// Returns the payer of the turn's model calls.
async fn payer(
    services: &Services,
    session: &Session,
    requester: &Requester,
    limits: &TurnLimits,
) -> Result<Payer, TurnError> {
    let origin = &session.origin;
    let person = person_on(services, origin.channel(), &requester.sender).await?;
    let (cause, job) = match origin.task() {
        Some(TaskId { kind, number }) => {
            (CallCause::Task(kind), (kind == TaskKind::Job).then_some(number))
        }
        None if limits.job.is_some() => (CallCause::Task(TaskKind::Job), limits.job),
        None => (CallCause::Chat, None),
    };
    let persona = session.persona.name;
    Ok(Payer { person, role: requester.role, cause, job, persona })
}
