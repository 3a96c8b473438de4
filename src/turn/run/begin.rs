//! How a turn begins: with messages that wait, or where a crash cut it off.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout};

use crate::bus::journal::Waiting;
use crate::bus::notices;
use crate::conversation::shares::Shares;
use crate::conversation::transcript::Unfinished;
use crate::conversation::{plans, tokens, transcript};
use crate::memory::audience;
use crate::provider::{Attempts, Usage};
use crate::replies;
use crate::services::{Services, load, role_on};
use crate::tools::Caller;
use crate::turn::commits::{self, Beginning};
use crate::turn::end::End;
use crate::turn::error::TurnError;
use crate::turn::instructions::{self, PromptBase};
use crate::turn::invoked::invoked;
use crate::turn::prompt::{self, Invoked, Tail, files};
use crate::turn::run::active::{Active, Asker, TurnHandles};
use crate::turn::run::late;
use crate::turn::run::part::Part;
use crate::turn::services::TurnServices;
use crate::types::event::Happening;
use crate::types::message::{Address, Hint, Inbound, Line, MessageId, Place, Reaction};
use crate::types::origin::Origin;
use crate::types::session::{Frozen, Plan, Session, Step, Turn, TurnId};
use crate::types::source::{Parts, Source};

/// A turn that a crash cut off is taken up again so often; then it ends with words, because it may
/// be what kills the process.
const ATTEMPTS_MAX: u32 = 3;

/// Earlier messages that a new thread begins with.
const SEED_MAX: usize = 20;

/// How long a platform may take to tell them.
const SEED_TIME_MAX: Duration = Duration::from_secs(5);

impl<'a> Active<'a> {
    /// Begins a turn with waiting rows; none if they were found too late to be answered.
    pub(super) async fn start(
        turns: &'a TurnServices,
        session: Option<Session>,
        rows: Vec<Waiting>,
        handles: TurnHandles,
    ) -> Result<Option<Self>, TurnError> {
        let first = &rows.first().expect("a turn begins with a message").inbound;
        let (origin, place) = (rows[0].origin.clone(), first.place);
        let sender = rows[0].sender().clone();
        if late::are_late(&turns.services.bus, &rows).await? {
            commits::late(&turns.services.bus.store, rows).await?;
            return Ok(None);
        }
        let is_task = origin.task().is_some();
        let invoked = match is_task {
            true => Some(Invoked::new()),
            false => invoked(&turns.services, &rows).await?,
        };
        let Some(invoked) = invoked else { return Ok(None) };
        let role = role_on(&turns.services, origin.channel(), &sender).await?;
        let mut session = match current(&turns.services, session).await? {
            Some(session) => session,
            None => load(&turns.services, &origin)
                .await?
                .unwrap_or_else(|| Session::new(&origin, place)),
        };
        let (frozen, mut changes) = match is_task {
            true => (Frozen::default(), Vec::new()),
            false => {
                let caller = Caller::Conversation(turns.config.finish);
                let shares = instructions::shares(turns, &session, role, caller);
                let before = session.frozen.take();
                let audience = audience(role, place);
                let (frozen, changes) =
                    instructions::remembered(&turns.services, before, audience, &shares).await;
                tell_if_cut(turns, &session, &frozen, &shares).await?;
                let changes = changes.into_iter().map(|it| Parts::of(Source::Memory, it));
                (frozen, changes.collect::<Vec<_>>())
            }
        };
        changes.extend(plan(&turns.services, &session).await?);
        let (background, overheard) = background(&turns.services, &session, first).await;
        let background = background.as_slice();
        let now = turns.services.now();
        let heard = prompt::tail(&Tail {
            now,
            role,
            place,
            rows: &rows,
            invoked: &invoked,
            background,
            changes,
        });
        let step = Step { heard: Some(heard), images: files::images(&rows), ..Step::default() };
        let reply_to = rows.last().and_then(|row| row.inbound.id.clone());
        let reply_to = reply_to.filter(|_| place == Place::Group);
        let beginning = Beginning {
            origin,
            place,
            sender: sender.clone(),
            reply_to: reply_to.clone(),
            rows: rows.clone(),
            first: step.clone(),
            frozen: frozen.clone(),
            provider: turns.models.for_settings(&session.settings).name().to_owned(),
        };
        let at = beginning.origin.chat().cloned();
        let (id, turn) = commits::start(&turns.services.bus.store, beginning).await?;
        at.iter().for_each(|at| turns.services.bus.overheard.shown(at, overheard));
        session.id = id;
        session.frozen = Some(frozen);
        session.turns.push(Turn {
            id: turn,
            by: sender.id.clone(),
            steps: vec![step],
            ending: None,
        });
        let asker = Asker { sender, role, reply_to };
        let last = rows.last().and_then(|row| row.inbound.id.clone());
        let Some(active) = Self::assemble(turns, session, turn, asker, handles).await? else {
            return Ok(None);
        };
        active.acknowledge(last);
        active.emit(|| Happening::TurnStart { attempt: 1 });
        Ok(Some(active))
    }

    /// Takes up a turn where its last commit left it; none if that was tried too often.
    pub(super) async fn resume(
        turns: &'a TurnServices,
        unfinished: Unfinished,
        handles: TurnHandles,
    ) -> Result<Option<Self>, TurnError> {
        let Unfinished { turn, attempts, silent, .. } = unfinished;
        let origin = unfinished.origin.clone();
        handles.draft.send_modify(|shown| shown.made = unfinished.draft.clone());
        let store = &turns.services.bus.store;
        if silent {
            commits::answer(store, turn, None, End::silent(&origin)).await?;
            return Ok(None);
        }
        if attempts >= ATTEMPTS_MAX {
            tracing::error!(
                turn = turn.0,
                attempts,
                "Gave up a turn, because it was interrupted each time"
            );
            if origin.task().is_some() {
                commits::gave_up(store, turn, origin).await?;
                return Ok(None);
            }
            let end = End::failed(&unfinished, replies::GAVE_UP.to_owned(), turns.services.zone);
            commits::answer(store, turn, None, end).await?;
            return Ok(None);
        }
        commits::resume(store, turn).await?;
        let Unfinished { sender, reply_to, model_wait: wait, .. } = unfinished;
        let Some(session) = load(&turns.services, &origin).await? else { return Ok(None) };
        let role = role_on(&turns.services, origin.channel(), &sender).await?;
        let asker = Asker { sender, role, reply_to };
        let active = Self::assemble(turns, session, turn, asker, handles).await?;
        let active = active.map(|active| Self { wait, ..active });
        Ok(active.inspect(|active| {
            active.emit(|| Happening::TurnStart { attempt: attempts + 1 });
        }))
    }

    /// Shows that a message was taken up, where that is the custom.
    fn acknowledge(&self, message: Option<MessageId>) {
        let Origin::Chat(at) = &self.session.origin else { return };
        let channel = self.turns.services.channels.get(&at.channel);
        if let (true, Some(message)) = (channel.is_some_and(|it| it.limits().reacts), message) {
            self.handles.signs.try_send(Hint::React { message, with: Reaction::Seen }).ok();
        }
    }

    /// A turn that is ready to run; none of a background task that has ended without it.
    async fn assemble(
        turns: &'a TurnServices,
        session: Session,
        turn: TurnId,
        asker: Asker,
        handles: TurnHandles,
    ) -> Result<Option<Self>, TurnError> {
        let Some(part) = Part::of(turns, &session.origin, turn).await? else {
            commits::answer(&turns.services.bus.store, turn, None, End::silent(&session.origin))
                .await?;
            return Ok(None);
        };
        handles.draft.send_modify(|draft| {
            (draft.turn, draft.reply_to) = (Some(turn), asker.reply_to.clone());
        });
        // No model goes by what the owner has not been shown.
        turns.oversight.look().await?;
        turns.tools.arrived().await;
        let base = instructions::base(turns, &session, asker.role, part.caller).await;
        let PromptBase { system, tools, tools_tokens, room } = base;
        Ok(Some(Self {
            fixed_tokens: tokens::fixed_tokens(&system, session.summary.as_deref()),
            provider: turns.models.for_settings(&session.settings),
            fitted: room,
            wait: None,
            attempts: Attempts::Usual,
            thought: String::new(),
            pending: Vec::new(),
            invoked: Invoked::new(),
            turns,
            session,
            turn,
            part,
            asker,
            handles,
            system,
            tools,
            tools_tokens,
            begun: Instant::now(),
            spent: Usage::default(),
        }))
    }
}

/// The session that the loop has kept, read anew if something was noted in it meanwhile.
async fn current(
    services: &Services,
    session: Option<Session>,
) -> Result<Option<Session>, TurnError> {
    let Some(session) = session else { return Ok(None) };
    let look = move |store: &_| Ok((transcript::is_current(store, &session)?, session));
    let (is_current, session) = services.bus.store.read(look).await?;
    if is_current {
        return Ok(Some(session));
    }
    let anew = load(services, &session.origin).await?;
    let mut gauge = session.gauge;
    gauge.recount();
    Ok(anew.map(|anew| Session { gauge, ..anew }))
}

/// What is left of the conversation's plan, for the model.
async fn plan(services: &Services, session: &Session) -> Result<Option<Parts>, TurnError> {
    let id = session.id;
    let plan = services.bus.store.read(move |store| plans::of(store, id)).await?;
    Ok(plan.filter(Plan::is_open).map(|plan| {
        let source = Source::Plan { read_others: plan.tainted };
        Parts::of(source, format!("Your plan, which you keep with `plan`:\n{plan}"))
    }))
}

/// What was said in a group before it spoke to the bot. A thread that is new to the bot begins with
/// what the platform tells of it, or else with what was heard around it. With it, how many of the
/// lines were overheard there.
async fn background(services: &Services, session: &Session, first: &Inbound) -> (Vec<Line>, usize) {
    let (Place::Group, Origin::Chat(at)) = (session.place, &session.origin) else {
        return (Vec::new(), 0);
    };
    let overheard = &services.bus.overheard;
    let heard = overheard.look(at);
    if !session.turns.is_empty() || at.thread.is_none() || !heard.is_empty() {
        let overheard = heard.len();
        return (heard, overheard);
    }
    let Some(channel) = services.channels.get(&at.channel) else { return (heard, 0) };
    let history = channel.history(at, first.id.as_ref(), SEED_MAX);
    let history = AssertUnwindSafe(timeout(SEED_TIME_MAX, history)).catch_unwind().await;
    let seed = match history {
        Ok(Ok(Ok(history))) if !history.is_empty() => history,
        _ => {
            let around = overheard.look(&Address { thread: None, ..at.clone() });
            around[around.len().saturating_sub(SEED_MAX)..].to_vec()
        }
    };
    (seed, 0)
}

/// Tells the owner once that their memory is too long for a model, if it was cut.
async fn tell_if_cut(
    turns: &TurnServices,
    session: &Session,
    frozen: &Frozen,
    shares: &Shares,
) -> Result<(), TurnError> {
    let whole = tokens::tokens(&frozen.told_memory);
    if whole <= shares.memory {
        return Ok(());
    }
    let provider = turns.models.for_settings(&session.settings);
    let words = replies::memory_too_long(provider.name(), whole, shares.memory);
    notices::tell_owner(&turns.services.bus, format!("memory {}", provider.name()), words).await?;
    Ok(())
}
