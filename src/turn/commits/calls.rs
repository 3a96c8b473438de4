//! The commits of one tool call: its start, and its outcome with all changes in the store.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::bus::{Bus, outbox};
use crate::channels::markup::unescaped;
use crate::conversation::deferred;
use crate::conversation::proposals;
use crate::conversation::{plans, transcript};
use crate::replies;
use crate::store::{Store, Sync};
use crate::tasks::heartbeat;
use crate::tasks::schedule::{self, JobDefinition, JobOperation};
use crate::tools::Effect;
use crate::turn::commits::delegated;
use crate::turn::commits::guarded::commit_if_running;
use crate::turn::commits::jobs::handle_order;
use crate::turn::error::CommitError;
use crate::turn::prompt;
use crate::types::commands::CommandId;
use crate::types::job_verb::JobVerb;
use crate::types::message::{AllowedPressers, Body, Choice, Question, SenderId};
use crate::types::origin::TaskKind;
use crate::types::session::{Call, CallId, CallOutcome, FileUndo, Intent, TurnId};
use crate::types::source::Source;
use crate::types::untrusted;

/// A call that is about to change something.
pub(crate) struct CallStart {
    pub(crate) call: CallId,
    pub(crate) intent: Intent,
    /// The undo of the change, if there is one.
    pub(crate) undo: Option<FileUndo>,
    /// The result for the model, and its sources.
    pub(crate) result: String,
    pub(crate) sources: Vec<Source>,
}

/// Stores that a call is about to change something. It is synced, so that no change happens without a record.
pub(crate) async fn start_call(
    store: &Store,
    turn: TurnId,
    start: CallStart,
) -> Result<(), CommitError> {
    commit_if_running(store, "call starts", Sync::Now, turn, move |store| {
        let CallStart { call, intent, undo, result, sources } = start;
        transcript::mark_call_running(store, call, &intent, &result, &sources)?;
        transcript::set_undo(store, call, undo.as_ref())
    })
    .await
}

/// Takes back the start of a call that has changed nothing, because its file is not the one that was approved.
pub(crate) async fn take_back_start(
    store: &Store,
    turn: TurnId,
    call: CallId,
) -> Result<(), CommitError> {
    commit_if_running(store, "call taken back", Sync::Later, turn, move |store| {
        transcript::set_undo(store, call, None)?;
        transcript::mark_call_planned(store, call)
    })
    .await
}

/// The end of a call.
pub(crate) struct CallEnd {
    pub(crate) call: CallId,
    pub(crate) began: DateTime<Utc>,
    pub(crate) outcome: CallOutcome,
    pub(crate) sources: Vec<Source>,
    /// Its changes in the store.
    pub(crate) effects: Vec<Effect>,
}

impl CallEnd {
    /// Returns the end of a call that changes nothing in the store.
    pub(crate) fn of(call: &Call, began: DateTime<Utc>, outcome: CallOutcome) -> Self {
        Self { call: call.id, began, outcome, sources: Vec::new(), effects: Vec::new() }
    }
}

/// Adds a reminder that sends a person's own words, and shows it to them with a button to undo it.
fn keep_reminder(
    store: &Connection,
    definition: &JobDefinition,
    zone: Tz,
    who: SenderId,
) -> rusqlite::Result<Result<String, String>> {
    let added = schedule::add(store, definition, Utc::now(), zone)?;
    if let Ok((id, reply)) = &added {
        let text = replies::own_reminder_saved(reply, definition.payload.text(), id);
        let undo = Choice {
            label: replies::UNDO_IT.to_owned(),
            says: CommandId::Jobs.line(format_args!("{} {id}", JobVerb::Remove.name())),
        };
        let who = AllowedPressers::Only(who);
        let question = Question::new(text, vec![undo], who);
        outbox::put_body(store, &definition.to, &Body::Choice(question))?;
    }
    Ok(added.map(|(_, reply)| reply))
}

/// Stores the outcome of a call with all its changes in the store. Returns the outcome, which a rejected
/// change may have replaced, and its sources.
pub(crate) async fn end_call(
    bus: &Bus,
    turn: TurnId,
    end: CallEnd,
) -> Result<(CallOutcome, Vec<Source>), CommitError> {
    let people = bus.people.clone();
    commit_if_running(&bus.store, "call ends", Sync::Later, turn, move |store| {
        let (mut outcome, mut sources) = (end.outcome, end.sources);
        for effect in end.effects {
            match effect {
                Effect::Say { to, body } => drop(outbox::put_body(store, &to, &body)?),
                Effect::Send { to, body, tainted } => {
                    match heartbeat::may_send(store, turn, &to, body.text(), tainted)? {
                        true => drop(outbox::put_body(store, &to, &body.written_in(turn))?),
                        false => outcome = CallOutcome::Failed(prompt::SENT_BEFORE.to_owned()),
                    }
                }
                Effect::Defer { call, terms } => {
                    deferred::keep(store, turn, &call, &terms, Utc::now())?;
                }
                Effect::Plan(plan) => plans::set(store, turn, &plan)?,
                Effect::Spawn(task) => {
                    outcome = delegated::spawn(store, turn, end.call, &task)?;
                }
                Effect::Propose(proposal) => proposals::propose(store, turn, &proposal)?,
                Effect::UpdateProposal(change) => proposals::update(store, &change)?,
                Effect::Schedule { requester, role, order, zone, in_words_of } => {
                    let whose = requester.scope(store, &people, role)?;
                    let read_others = schedule::may_repeat_untrusted(store, &whose, &order)?;
                    let handled = match (order, in_words_of) {
                        (JobOperation::Add(definition), Some(who)) => {
                            keep_reminder(store, &definition, zone, who)?
                        }
                        (order, _) => handle_order(store, &whose, order, Utc::now(), zone)?,
                    };
                    // Models read it without a renderer.
                    let handled = match handled {
                        Ok(words) => Ok(unescaped(&words)),
                        Err(words) => Err(unescaped(&words)),
                    };
                    let for_model =
                        |words: String| if read_others { untrusted::wrap(&words) } else { words };
                    if handled.is_ok() {
                        let kind = TaskKind::Job;
                        let by = Some(requester.author());
                        sources.push(Source::Task { kind, number: None, by, read_others });
                    }
                    outcome = handled
                        .map_or_else(CallOutcome::Failed, |it| CallOutcome::Done(for_model(it)));
                }
            }
        }
        transcript::set_call_start(store, end.call, end.began)?;
        transcript::end_call(store, end.call, &outcome, &sources)?;
        Ok((outcome, sources))
    })
    .await
}
