//! Calls of webhooks: each makes a job that is due at once, or has a job run now. So it is kept, bounded, unattended and
//! reported like every job.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::{Connection, params};

use crate::conversation::presence;
use crate::store::{Time, slice};
use crate::tasks::schedule::job::{self, JobDefinition, JobId, JobScope, Missed};
use crate::tasks::schedule::needs::CommandNeeds;
use crate::tasks::schedule::order::{self, JobOrder};
use crate::tasks::schedule::payload::{JobConversation, Payload, WebhookBody};
use crate::tasks::schedule::timing::Timing;
use crate::tasks::schedule::unasked::UnaskedCalls;
use crate::types::message::{Address, ChannelName, ChatKind, Sender};

/// Calls of a webhook whose jobs have not ended. One more is refused.
const WAITING_MAX: i64 = 10;

/// A call of a webhook that may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookedCall {
    pub hook: String,
    /// The same for a call that is repeated.
    pub key: String,
    /// The person on whose behalf it is, and the channel on which they are known.
    pub sender: Sender,
    pub known_on: ChannelName,
    /// Where what comes of it goes.
    pub to: Address,
    /// None where only earlier conversations tell it.
    pub chat_kind: Option<ChatKind>,
    pub action: HookedAction,
}

/// The action for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookedAction {
    /// A model works on it.
    Prompt { text: String, body: Option<String> },
    /// A text is sent.
    Message(String),
    /// A job is run now, which learns nothing of the call.
    Run { job: JobId, whose: JobScope },
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookedOutcome {
    Accepted,
    /// A call with its key was accepted before.
    Repeated,
    /// Too many calls of this webhook wait.
    Full,
    /// The job cannot be run, and why.
    Refused(String),
}

/// Takes a call, in the transaction around it.
pub fn take_call(
    store: &Connection,
    call: HookedCall,
    now: DateTime<Utc>,
    zone: Tz,
) -> rusqlite::Result<HookedOutcome> {
    let HookedCall { hook, key, sender, known_on, to, chat_kind, action } = call;
    let is_known = store
        .prepare_cached("SELECT 1 FROM webhook_calls WHERE hook = ? AND key = ?")?
        .exists([&hook, &key])?;
    if is_known {
        return Ok(HookedOutcome::Repeated);
    }
    let payload = match action {
        HookedAction::Message(text) => Payload::Message(text),
        HookedAction::Prompt { text, body } => {
            let webhook = body.map(|body| WebhookBody { hook: hook.clone(), body });
            let (session, unasked) = (JobConversation::Own, UnaskedCalls::default());
            Payload::Prompt { text, session, check: None, webhook, unasked }
        }
        HookedAction::Run { job, whose } => {
            return Ok(match order::handle(store, &whose, JobOrder::Run(job), now, zone)? {
                Err(words) => HookedOutcome::Refused(words),
                Ok(_) => {
                    note(store, &hook, &key, now, None)?;
                    HookedOutcome::Accepted
                }
            });
        }
    };
    if count_waiting(store, &hook)? >= WAITING_MAX {
        return Ok(HookedOutcome::Full);
    }
    let chat_kind = chat_kind.map_or_else(|| presence::chat_kind_of(store, &to), Ok)?;
    let (timing, missed) = (Timing::At(now), Missed::Once);
    // Values of the call may be in its text.
    let brief = JobDefinition {
        to,
        known_on,
        chat_kind,
        sender,
        timing,
        payload,
        needs: CommandNeeds::default(),
        missed,
        tainted: true,
    };
    let job = job::insert(store, &brief, now, now)?;
    note(store, &hook, &key, now, Some(job))?;
    Ok(HookedOutcome::Accepted)
}

fn note(
    store: &Connection,
    hook: &str,
    key: &str,
    now: DateTime<Utc>,
    job: Option<JobId>,
) -> rusqlite::Result<()> {
    store
        .prepare_cached("INSERT INTO webhook_calls (hook, key, at, job) VALUES (?, ?, ?, ?)")?
        .execute(params![hook, key, Time(now), job])
        .map(drop)
}

fn count_waiting(store: &Connection, hook: &str) -> rusqlite::Result<i64> {
    store
        .prepare_cached(
            "SELECT count(*) FROM webhook_calls c JOIN jobs j ON j.id = c.job
             WHERE c.hook = ? AND j.state = 'active'",
        )?
        .query_row([hook], |row| row.get(0))
}

/// Forgets calls before a time, a slice at a time; returns how many.
pub fn prune_hooked(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    store
        .prepare_cached(
            "DELETE FROM webhook_calls WHERE (hook, key) IN
             (SELECT hook, key FROM webhook_calls WHERE at < ? ORDER BY at LIMIT ?)",
        )?
        .execute(params![Time(before), slice()])
}
