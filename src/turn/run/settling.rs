//! How a turn runs the calls of a step: all are checked before any of them begins; those that only
//! look run side by side, the others one after another.

use std::time::Instant;

use futures_util::future::join_all;
use rusqlite::Connection;

use crate::bus::journal;
use crate::conversation::asks;
use crate::memory;
use crate::people::Role;
use crate::replies;
use crate::tools::{Kind, Reach, ToolContext, message};
use crate::trust::acts::tool_role;
use crate::trust::links;
use crate::trust::permission::{self, Asked, Decision, Why};
use crate::trust::taint::{self, Taint};
use crate::turn::calling::Calling;
use crate::turn::calls::{self, Checked, Ran};
use crate::turn::error::TurnError;
use crate::turn::run::active::{Active, Asker};
use crate::turn::services::TurnServices;
use crate::turn::{parking, prompt};
use crate::types::event::Happening;
use crate::types::message::{Address, Sender};
use crate::types::session::{Call, Outcome, Session};

/// Calls that look at things at once; a small board has few cores, and what was said meanwhile is
/// looked at between.
const SIDE_BY_SIDE_MAX: usize = 4;

/// A call that is to be run.
struct Open {
    /// Its place in the step.
    at: usize,
    call: Call,
    reads: bool,
    /// Why somebody must allow it first.
    asks: Option<Why>,
}

/// How far the calls of a step have got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    All,
    /// One of them waits for somebody, and the turn is parked.
    Parked,
}

impl Active<'_> {
    /// Runs what is planned in the last step until the person says something more.
    pub(super) async fn settle_calls(&mut self) -> Result<Settled, TurnError> {
        let calls = self.current().steps.last().map(|step| step.calls.clone()).unwrap_or_default();
        let unsettled =
            calls.into_iter().enumerate().filter(|(_, call)| !call.outcome.is_settled());
        let unsettled: Vec<_> = unsettled.collect();
        if unsettled.is_empty() {
            return Ok(Settled::All);
        }
        let open = self.check(unsettled).await?;
        for batch in batches(open) {
            self.take_steering().await?;
            let heard = !self.pending.is_empty();
            let begins = |open: &Open| !heard || open.call.outcome != Outcome::Planned;
            let batch: Vec<_> = batch.into_iter().filter(begins).collect();
            let parked = match batch.as_slice() {
                [] => false,
                [Open { call, asks: Some(why), .. }] => {
                    parking::ask_leave(self.turns, &self.calling(call), why).await?;
                    true
                }
                _ => self.run_together(batch).await?,
            };
            if parked {
                return Ok(Settled::Parked);
            }
        }
        Ok(Settled::All)
    }

    fn calling<'a>(&'a self, call: &'a Call) -> Calling<'a> {
        Calling {
            turn: self.turn,
            call,
            person: &self.asker.sender,
            role: self.asker.role,
            at: &self.part.people_at,
            is_there: *self.session.origin.channel() == self.part.people_at.channel,
            keeps_quiet: self.part.keeps_quiet,
        }
    }

    /// Whether a call may be made now: as itself, and as what it stands for.
    async fn permit(
        &self,
        call: &Call,
        checked: &Checked,
        cx: &ToolContext,
        taint: Option<&Taint>,
    ) -> Result<Decision, TurnError> {
        if call.outcome != Outcome::Planned {
            return Ok(Decision::Allow);
        }
        let knows_url =
            matches!(&checked.reach, Reach::Url(url) if links::may_be_fetched(&self.session, url));
        let asked = Asked {
            tool: &call.tool,
            terms: checked.terms,
            reach: checked.reach.clone(),
            role: cx.role,
            own_role: self.asker.role,
            taint,
            knows_url,
        };
        let decision = self.decide(call, &asked).await?;
        let (Decision::Allow, Some((tool, terms))) = (&decision, checked.stands_for) else {
            return Ok(decision);
        };
        let of = |why| Why::StandsFor(tool, Box::new(why));
        Ok(match self.decide(call, &Asked { tool, terms, ..asked }).await? {
            Decision::Allow => Decision::Allow,
            Decision::Ask(why) => Decision::Ask(of(why)),
            Decision::Deny(why) => Decision::Deny(of(why)),
        })
    }

    /// What is decided, and whether somebody has allowed it.
    async fn decide(&self, call: &Call, asked: &Asked<'_>) -> Result<Decision, TurnError> {
        let decision = permission::decide(asked, &self.turns.config.asking);
        let Decision::Ask(why) = &decision else { return Ok(decision) };
        let (id, tool, can_be_granted) = (call.id, asked.tool.to_owned(), why.can_be_granted());
        let (channel, sender) = (self.part.people_at.channel.clone(), self.asker.sender.id.clone());
        let is_allowed = move |store: &Connection| {
            Ok(asks::is_approved(store, id)?
                || (can_be_granted && asks::is_granted(store, &channel, &sender, &tool)?))
        };
        let is_allowed = self.turns.services.bus.store.read(is_allowed).await?;
        Ok(if is_allowed { Decision::Allow } else { decision })
    }

    /// Settles the calls that cannot begin; gives the others.
    async fn check(&mut self, calls: Vec<(usize, Call)>) -> Result<Vec<Open>, TurnError> {
        self.turns.tools.arrived().await;
        let cx = self.tool_context().await?;
        let taint = taint::of(&self.turns.services.bus, &self.session, self.asker.role).await?;
        let mut open = Vec::new();
        for (at, call) in calls {
            let checked = match self.part.caller.has(&call.tool) {
                true => calls::check(self.turns, &call, &cx),
                false => Err(format!("There is no tool `{}`.", call.tool)),
            };
            let checked = match checked {
                Ok(checked) => match self.permit(&call, &checked, &cx, taint.as_ref()).await? {
                    Decision::Allow => Ok((checked.terms.kind == Kind::Reads, None)),
                    Decision::Ask(why) => Ok((false, Some(why))),
                    Decision::Deny(why) => Err(prompt::denied(&why)),
                },
                Err(words) => Err(words),
            };
            match checked {
                Ok((reads, asks)) => open.push(Open { at, call, reads, asks }),
                // What was begun before a crash is looked at first.
                Err(_) if call.outcome != Outcome::Planned => {
                    open.push(Open { at, call, reads: false, asks: None });
                }
                Err(words) => {
                    self.emit_start(&call);
                    let ran = calls::refuse(&self.turns.services, self.turn, &call, words).await?;
                    self.emit_end(&call, &ran, Instant::now());
                    self.settled(at, ran);
                }
            }
        }
        Ok(open)
    }

    /// Runs calls side by side; there is more than one only of those that look.
    /// True if one of them parks the turn.
    async fn run_together(&mut self, batch: Vec<Open>) -> Result<bool, TurnError> {
        let doing: Vec<_> =
            batch.iter().map(|it| replies::doing(&it.call.tool, &it.call.arguments)).collect();
        self.handles.draft.send_modify(|draft| draft.doing = Some(doing.join("\n")));
        let cx = self.tool_context().await?;
        let (this, cx) = (&*self, &cx);
        let runs = batch.iter().map(|open| async move {
            let begun = Instant::now();
            this.emit_start(&open.call);
            let ran = calls::run(this.turns, &this.calling(&open.call), cx).await?;
            this.emit_end(&open.call, &ran, begun);
            Ok::<_, TurnError>((open.at, ran))
        });
        for ran in Box::pin(join_all(runs)).await {
            let (at, ran) = ran?;
            self.settled(at, ran);
        }
        let step = self.current().steps.last().expect("the step whose calls these are");
        let calls: Vec<_> = batch.iter().map(|open| step.calls[open.at].clone()).collect();
        let here = &self.part.people_at;
        if calls.iter().any(|call| message::said_here(call, here).is_some()) {
            self.begin_draft_anew().await?;
        }
        Ok(calls.iter().any(|call| call.outcome == Outcome::Waiting))
    }

    fn settled(&mut self, at: usize, ran: Ran) {
        let step = self.current().steps.last_mut().expect("the step whose calls these are");
        let call = &mut step.calls[at];
        (call.outcome, call.sources) = (ran.outcome, ran.sources);
    }

    fn emit_start(&self, call: &Call) {
        self.emit(|| Happening::ToolStart {
            action: call.id,
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
        });
    }

    fn emit_end(&self, call: &Call, ran: &Ran, begun: Instant) {
        self.emit(|| Happening::ToolEnd {
            action: call.id,
            tool: call.tool.clone(),
            result: ran.outcome.for_model().to_owned(),
            failed: ran.outcome.is_error(),
            ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        if let Some(path) = ran.changed.as_ref().filter(|path| memory::is_memory(path)) {
            self.emit(|| Happening::MemoryUpdated { path: path.to_string() });
        }
    }

    async fn tool_context(&self) -> Result<ToolContext, TurnError> {
        let Asker { sender, role, .. } = &self.asker;
        let files_at = &self.part.people_at;
        tool_context(self.turns, &self.session, files_at, sender, *role).await
    }
}

/// What tools are told of who asks, and where from.
pub(crate) async fn tool_context(
    turns: &TurnServices,
    session: &Session,
    files_at: &Address,
    who: &Sender,
    role: Role,
) -> Result<ToolContext, TurnError> {
    let at = files_at.clone();
    let came_here = move |store: &_| journal::files_at(store, &at);
    let came_here = turns.services.bus.store.read(came_here).await?.into();
    Ok(ToolContext {
        came_here,
        oversight: turns.oversight.clone(),
        workspace: turns.services.workspace.clone(),
        actions: turns.actions.clone(),
        session: session.id,
        who: who.clone(),
        role: tool_role(role, session.place),
        // What a background task sends goes to the people for whom it is done.
        address: files_at.clone(),
        place: session.place,
        channels: turns.services.channels.keys().cloned().collect(),
        now: turns.services.now(),
        tainted: taint::of(&turns.services.bus, session, role).await?.is_some(),
    })
}

/// What runs at once, in order.
fn batches(open: Vec<Open>) -> Vec<Vec<Open>> {
    let mut batches: Vec<Vec<Open>> = Vec::new();
    for open in open {
        match batches.last_mut() {
            Some(batch)
                if open.reads
                    && batch.len() < SIDE_BY_SIDE_MAX
                    && batch.iter().all(|it| it.reads) =>
            {
                batch.push(open);
            }
            _ => batches.push(vec![open]),
        }
    }
    batches
}
