//! Waiting for a person is not a running task. A call that somebody is asked about parks its turn:
//! one transaction stores the call as waiting, the message that asks, and when that expires; the
//! turn's task ends. An answer, a decision, the end of its time or `/stop` is a row that unparks it,
//! after a restart as before. A call that waits for a subagent parks its turn likewise.

use std::time::Duration;

use rusqlite::Connection;

use super::calls::Calling;
use super::invoked::Invoked;
use super::permit::Why;
use super::prompt::{self, Tail, files};
use super::queue::Parts;
use super::turn::TurnError;
use super::{Agent, Means, STORE_PAUSE, commits, progress, role_of, transcript};
use crate::asks::{self, Approvals, Ask, AskId, Ended, Grant, Kind, New};
use crate::bus::journal::{self, RowId, Span, Waiting};
use crate::message::{Address, Body, Choice, Entitled, Question, SenderId};
use crate::people::{self, Role};
use crate::replies;
use crate::session::Outcome;
use crate::store::{StoreError, Sync};
use crate::tools::Task;

/// The shortest time until asks are looked at again.
pub(super) const MOMENT: Duration = Duration::from_millis(50);

/// Asks the person who speaks what the model wants to know.
pub(super) async fn ask(means: &Means, calling: &Calling<'_>, body: Body) -> Result<(), TurnError> {
    let new = New {
        turn: calling.turn,
        call: calling.call.id,
        kind: Kind::Question,
        at: calling.at.clone(),
        // Whoever made a job at this machine is not there to answer; the owner is.
        who: calling.is_there.then(|| calling.person.id.clone()),
        time: means.asking.question_time,
    };
    let is_there = calling.is_there;
    park(means, calling, (new, None), move |_| match body {
        Body::Choice(question) if !is_there => {
            Body::Choice(Question { who: Entitled::Owner, ..question })
        }
        body => body,
    })
    .await
}

/// Asks those who may say so whether a call may be made: here if the one who speaks may and is here, else
/// where the owner last spoke in private.
pub(super) async fn ask_leave(
    means: &Means,
    calling: &Calling<'_>,
    why: &Why,
) -> Result<(), TurnError> {
    let owner = means.bus.store.read(people::owner_place).await?;
    let may_there = calling.is_there && calling.role >= Approvals::BY;
    let elsewhere = owner.filter(|_| !may_there);
    let told = elsewhere.is_some().then(|| (calling.at.clone(), replies::ASKED_ELSEWHERE));
    let time = means.asking.approval_time;
    let new = New {
        turn: calling.turn,
        call: calling.call.id,
        kind: Kind::Approval,
        at: elsewhere.unwrap_or_else(|| calling.at.clone()),
        who: None,
        time,
    };
    let (tool, arguments) = (calling.call.tool.clone(), calling.call.arguments.clone());
    let (person, minutes) = (calling.person.to_string(), time.as_secs().div_ceil(60));
    let (why, can_be_granted) = (why.to_string(), why.can_be_granted());
    park(means, calling, (new, told), move |AskId(id)| {
        let choice = |label: &str, says: String| Choice { label: label.to_owned(), says };
        let mut choices = vec![
            choice(replies::ONCE, format!("/approve {id}")),
            choice(replies::DENY, format!("/deny {id}")),
        ];
        if can_be_granted {
            choices.insert(1, choice(replies::ALWAYS, format!("/approve {id} always")));
        }
        let call = replies::Leave { id, person, tool: &tool, arguments: &arguments, why: &why };
        let text = replies::may_i(&call, can_be_granted, minutes);
        Body::Choice(Question { text, choices, who: Entitled::Admins })
    })
    .await
}

async fn park(
    means: &Means,
    calling: &Calling<'_>,
    (new, told): (New, Option<(Address, &'static str)>),
    body: impl FnOnce(AskId) -> Body + Send + 'static,
) -> Result<(), TurnError> {
    let draft = commits::parks(&means.bus.store, new, told, body).await?;
    means.bus.outbox.up();
    // A job that waits for a person leaves its place to others.
    means.bus.jobs.up();
    if let Some(draft) = draft {
        progress::erase(means, calling.at, draft);
    }
    Ok(())
}

/// Hands a task to a subagent, and parks the turn until it has ended; gives the call's outcome by now.
pub(super) async fn await_subagent(
    means: &Means,
    calling: &Calling<'_>,
    task: Task,
) -> Result<Outcome, TurnError> {
    let (turn, call) = (calling.turn, calling.call.id);
    let (outcome, draft) = commits::awaits(&means.bus.store, turn, call, task).await?;
    means.bus.inbox.up();
    if let Some(draft) = draft {
        progress::erase(means, calling.at, draft);
    }
    Ok(outcome)
}

/// What somebody entitled says of a call that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Approve {
        ask: AskId,
        always: bool,
    },
    Deny(AskId),
    /// What was allowed for good of a tool is not any more.
    Revoke(String),
    List,
}

impl Verdict {
    /// Reads what follows `/approve`; none if it was said wrongly.
    pub(super) fn approve<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let Some(ask) = words.next() else { return Some(Self::List) };
        let ask = ask.trim_start_matches('#').parse().map(AskId).ok()?;
        match words.next().map(str::to_ascii_lowercase).as_deref() {
            None | Some("once") => Some(Self::Approve { ask, always: false }),
            Some("always") => Some(Self::Approve { ask, always: true }),
            Some(_) => None,
        }
    }

    /// Reads what follows `/deny`.
    pub(super) fn deny<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let what = words.next()?;
        Some(match what.trim_start_matches('#').parse() {
            Ok(ask) => Self::Deny(AskId(ask)),
            Err(_) => Self::Revoke(what.to_owned()),
        })
    }
}

/// Carries `/approve` and `/deny` out.
pub(super) async fn obey(
    means: &Means,
    control: &Waiting,
    verdict: Option<Verdict>,
) -> Result<(), StoreError> {
    let role = role_of(means, &control.inbound.from, control.sender()).await?;
    let Some(verdict) = verdict else {
        return commits::obeyed(&means.bus.store, control, replies::APPROVE_USAGE.to_owned()).await;
    };
    if role < Approvals::BY {
        let words = replies::NOT_YOURS_TO_APPROVE.to_owned();
        return commits::obeyed(&means.bus.store, control, words).await;
    }
    let by = control.sender().name.clone();
    commits::obeyed_with(&means.bus.store, control, move |store| match verdict {
        Verdict::Approve { ask, always } => approve(store, ask, always, &by),
        Verdict::Deny(ask) => deny(store, ask, &by),
        Verdict::Revoke(tool) => Ok(replies::revoked_grants(&tool, asks::revoke(store, &tool)?)),
        Verdict::List => {
            let (waiting, granted) = (asks::approvals(store)?, asks::grants(store)?);
            let waiting = waiting.iter().map(|(id, tool, arguments)| (id.0, &**tool, &**arguments));
            let granted =
                granted.iter().map(|it| (&*it.tool, format!("{} on {}", it.sender, it.channel)));
            Ok(replies::approvals(waiting, granted))
        }
    })
    .await
}

fn approve(store: &Connection, id: AskId, always: bool, by: &str) -> rusqlite::Result<String> {
    let Some(ask) = approval(store, id)? else { return Ok(replies::ALREADY_DECIDED.to_owned()) };
    let choice = if always { replies::ALWAYS } else { replies::ONCE };
    asks::end(store, &ask, Ended::Settled, &replies::choice_of(choice, by))?;
    let (channel, person, tool) = transcript::caller(store, ask.call)?;
    if always {
        let (channel, sender) = (channel.to_string(), person.id.to_string());
        asks::grant(store, &Grant { channel, sender, tool: tool.clone() })?;
    }
    transcript::call_may_run(store, ask.call)?;
    transcript::unpark(store, ask.turn)?;
    Ok(match always {
        true => replies::approved_always(&tool, person),
        false => replies::approved_once(&tool),
    })
}

fn deny(store: &Connection, id: AskId, by: &str) -> rusqlite::Result<String> {
    let Some(ask) = approval(store, id)? else { return Ok(replies::ALREADY_DECIDED.to_owned()) };
    asks::end(store, &ask, Ended::Settled, &replies::choice_of(replies::DENY, by))?;
    let (_, _, tool) = transcript::caller(store, ask.call)?;
    unpark(store, &ask, &Outcome::Denied(prompt::denied_by(by)))?;
    Ok(replies::denied_call(&tool))
}

fn approval(store: &Connection, id: AskId) -> rusqlite::Result<Option<Ask>> {
    Ok(asks::open(store, id)?.filter(|ask| ask.kind == Kind::Approval))
}

/// The turn goes on with this outcome of the call that waited.
fn unpark(store: &Connection, ask: &Ask, outcome: &Outcome) -> rusqlite::Result<()> {
    transcript::call_ended(store, ask.call, outcome)?;
    transcript::unpark(store, ask.turn)
}

/// The outcome of a look at what turns wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// Nothing has changed.
    Same,
    /// Something was settled, so that the store is to be looked at again.
    Settled,
    /// Something could not be settled and is to be tried again. Nothing else waits for it.
    Failed,
}

impl Agent {
    /// Unparks what has waited for too long, and what was answered by what waits where something has
    /// changed.
    pub(super) async fn look_after_asks(&mut self, overdue: Vec<Ask>) -> Asks {
        let mut outcomes = Vec::new();
        for ask in overdue {
            outcomes.push(self.expire(ask).await.map(|()| true));
        }
        for (ask, newest) in self.backlog.heard_questions() {
            let at = ask.at.clone();
            let heard = self.hear_answer(ask, newest).await;
            if heard.is_err() {
                self.backlog.look_again(&at, STORE_PAUSE);
            }
            outcomes.push(heard);
        }
        let mut asks = Asks::Same;
        for outcome in outcomes {
            match outcome {
                Ok(false) => {}
                Ok(true) if asks == Asks::Failed => {}
                Ok(true) => asks = Asks::Settled,
                Err(error) => {
                    tracing::error!(%error, "Cannot settle what a turn waits for, will try again");
                    asks = Asks::Failed;
                }
            }
        }
        if asks != Asks::Same {
            self.means.bus.outbox.up();
        }
        asks
    }

    async fn expire(&mut self, ask: Ask) -> Result<(), StoreError> {
        let expire = move |store: &Connection| {
            if !asks::end(store, &ask, Ended::Expired, replies::NOBODY_ANSWERED)? {
                return Ok(());
            }
            let outcome = match ask.kind {
                Kind::Approval => Outcome::Denied(prompt::NOBODY_APPROVED.to_owned()),
                Kind::Question => Outcome::Failed(prompt::NOBODY_ANSWERED.to_owned()),
            };
            unpark(store, &ask, &outcome)
        };
        self.means.bus.store.write("ask expired", Sync::Now, expire).await
    }

    /// Whose words are the answer to a question: who was asked, or the owner.
    async fn who_answers(&self, ask: &Ask, rows: Span) -> Result<Option<SenderId>, StoreError> {
        if let Some(who) = &ask.who {
            return Ok(Some(who.clone()));
        }
        let (at, people) = (ask.at.clone(), self.means.bus.people.clone());
        let find = move |store: &Connection| {
            for row in journal::said_by(store, &at, rows, None)? {
                let who = &row.sender().id;
                if people.role_of(store, &at.channel, who)? == Some(Role::Owner) {
                    return Ok(Some(who.clone()));
                }
            }
            Ok(None)
        };
        self.read(find).await
    }

    /// The next plain message of who was asked, there, is the answer; false if it has not come.
    async fn hear_answer(&mut self, ask: Ask, newest: RowId) -> Result<bool, StoreError> {
        let (at, span) = (ask.at.clone(), Span { after: ask.after, until: newest });
        let Some(who) = self.who_answers(&ask, span).await? else { return Ok(false) };
        let said = move |store: &Connection| journal::said_by(store, &at, span, Some(&who));
        let rows = self.read(said).await?;
        let Some(first) = rows.first() else { return Ok(false) };
        match self.parts_to_come(&rows).await? {
            Parts::None => {}
            Parts::Within(pause) => {
                self.backlog.look_again(&ask.at, pause);
                return Ok(false);
            }
            Parts::Fetching => return Ok(false),
        }
        let (sender, place) = (first.sender().clone(), first.inbound.place);
        let role = role_of(&self.means, &ask.at, &sender).await?;
        let answer = prompt::tail(&Tail {
            now: self.means.now(),
            role,
            place,
            rows: &rows,
            invoked: &Invoked::default(),
            background: &[],
            changes: vec![],
        });
        let images = files::images(&rows);
        let answered = move |store: &Connection| {
            let settled = journal::wait(store, &rows)?
                && asks::end(store, &ask, Ended::Settled, &replies::answered_by(&sender.name))?;
            if settled {
                journal::take(store, &rows, ask.turn)?;
                unpark(store, &ask, &Outcome::Done(answer))?;
                if !images.is_empty() {
                    transcript::set_images(store, ask.call, &images)?;
                }
            }
            Ok(settled)
        };
        self.means.bus.store.write("answer heard", Sync::Now, answered).await
    }
}
