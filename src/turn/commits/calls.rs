//! The commits of one tool call: that it begins, and its outcome with all that it changes in our own store.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::bus::outbox;
use crate::conversation::deferred;
use crate::conversation::proposals;
use crate::conversation::{plans, transcript};
use crate::replies;
use crate::store::{Store, Sync};
use crate::tasks::heartbeat;
use crate::tasks::schedule::{self, JobDefinition, JobOrder};
use crate::tools::Effect;
use crate::turn::commits::delegated;
use crate::turn::commits::guarded::guarded;
use crate::turn::commits::jobs::handle_order;
use crate::turn::error::CommitError;
use crate::turn::later;
use crate::turn::prompt;
use crate::types::commands::CommandId;
use crate::types::job_verb::JobVerb;
use crate::types::message::{Body, Choice, Entitled, Question, SenderId};
use crate::types::origin::TaskKind;
use crate::types::session::{Call, CallId, CallOutcome, FileUndo, Intent, TurnId};
use crate::types::source::Source;
use crate::types::untrusted;

/// A call that is about to change something.
pub(crate) struct CallStart {
    pub(crate) call: CallId,
    pub(crate) intent: Intent,
    /// The way back, if there is one.
    pub(crate) undo: Option<FileUndo>,
    /// The result for the model, and its sources.
    pub(crate) result: String,
    pub(crate) sources: Vec<Source>,
}

/// A call is about to change something; synced, so that nothing happens that is not written down.
pub(crate) async fn call_starts(
    store: &Store,
    turn: TurnId,
    starts: CallStart,
) -> Result<(), CommitError> {
    guarded(store, "call starts", Sync::Now, turn, move |store| {
        let CallStart { call, intent, undo, result, sources } = starts;
        transcript::call_runs(store, call, &intent, &result, &sources)?;
        transcript::set_undo(store, call, undo.as_ref())
    })
    .await
}

/// A call that is done.
pub(crate) struct CallEnd {
    pub(crate) call: CallId,
    pub(crate) began: DateTime<Utc>,
    pub(crate) outcome: CallOutcome,
    pub(crate) sources: Vec<Source>,
    /// Its changes of our own store.
    pub(crate) effects: Vec<Effect>,
}

impl CallEnd {
    /// Returns the end of a call that changes nothing in our own store.
    pub(crate) fn of(call: &Call, began: DateTime<Utc>, outcome: CallOutcome) -> Self {
        Self { call: call.id, began, outcome, sources: Vec::new(), effects: Vec::new() }
    }
}

/// Makes a reminder that sends a person's own words, and shows it to them with the way back.
fn keep_reminder(
    store: &Connection,
    brief: &JobDefinition,
    zone: Tz,
    who: SenderId,
) -> rusqlite::Result<Result<String, String>> {
    let made = schedule::add(store, brief, Utc::now(), zone)?;
    if let Ok((id, words)) = &made {
        let text = replies::kept_own_reminder(words, brief.payload.text(), id);
        let undo = Choice {
            label: replies::UNDO_IT.to_owned(),
            says: CommandId::Jobs.line(format_args!("{} {id}", JobVerb::Remove.name())),
        };
        let who = Entitled::Only(who);
        let question = Question::new(text, vec![undo], who);
        outbox::put_body(store, &brief.to, &Body::Choice(question))?;
    }
    Ok(made.map(|(_, words)| words))
}

/// A call's outcome, with all that it changes in our own store. Gives the outcome, on which the store may
/// have the last word, and its sources.
pub(crate) async fn call_ends(
    store: &Store,
    turn: TurnId,
    ends: CallEnd,
) -> Result<(CallOutcome, Vec<Source>), CommitError> {
    guarded(store, "call ends", Sync::Later, turn, move |store| {
        let (mut outcome, mut sources) = (ends.outcome, ends.sources);
        for effect in ends.effects {
            match effect {
                Effect::Say { to, body } => drop(outbox::put_body(store, &to, &body)?),
                Effect::Send { to, body, tainted } => {
                    match heartbeat::may_send(store, turn, &to, body.text(), tainted)? {
                        true => drop(outbox::put_body(store, &to, &body.written_in(turn))?),
                        false => outcome = CallOutcome::Failed(prompt::TOLD_BEFORE.to_owned()),
                    }
                }
                Effect::Report { to, text, file, calls, tainted } => {
                    if heartbeat::may_send(store, turn, &to, &text, tainted)? {
                        let ids = deferred::put(store, &calls, Utc::now())?;
                        let calls: Vec<_> = ids.into_iter().zip(calls).collect();
                        for body in later::report(text, file, &calls) {
                            outbox::put_body(store, &to, &body)?;
                        }
                    }
                }
                Effect::Plan(plan) => plans::set(store, turn, &plan)?,
                Effect::Spawn(task) => {
                    outcome = delegated::spawn(store, turn, ends.call, &task)?;
                }
                Effect::Propose(proposal) => proposals::propose(store, turn, &proposal)?,
                Effect::UpdateProposal(change) => proposals::update(store, &change)?,
                Effect::Schedule { whose, order, zone, in_words_of } => {
                    let read_others = schedule::mentions_others(store, &whose, &order)?;
                    let handled = match (order, in_words_of) {
                        (JobOrder::Add(brief), Some(who)) => {
                            keep_reminder(store, &brief, zone, who)?
                        }
                        (order, _) => handle_order(store, &whose, order, Utc::now(), zone)?,
                    };
                    let told =
                        |words: String| if read_others { untrusted::wrap(&words) } else { words };
                    if handled.is_ok() {
                        let kind = TaskKind::Job;
                        sources.push(Source::Task { kind, number: None, read_others });
                    }
                    outcome =
                        handled.map_or_else(CallOutcome::Failed, |it| CallOutcome::Done(told(it)));
                }
            }
        }
        transcript::call_began(store, ends.call, ends.began)?;
        transcript::call_ended(store, ends.call, &outcome, &sources)?;
        Ok((outcome, sources))
    })
    .await
}
