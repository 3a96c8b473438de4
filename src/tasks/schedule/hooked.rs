//! Calls of webhooks. Each creates a job that is due at once, or runs an existing job now, so that it is stored, bounded,
//! unattended and reported like every job.

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

/// Maximum number of calls of a webhook whose jobs have not ended. Further calls are refused.
const WAITING_MAX: i64 = 10;

/// An authorized call of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookedCall {
    pub hook: String,
    /// The key of the call, which a repeated call shares.
    pub key: String,
    /// The person on whose behalf it works, and the channel on which they are known.
    pub sender: Sender,
    pub known_on: ChannelName,
    /// The address for its result.
    pub to: Address,
    /// None if it must be looked up in earlier conversations.
    pub chat_kind: Option<ChatKind>,
    pub action: HookedAction,
}

/// The action of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookedAction {
    /// A model works on it.
    Prompt { text: String, body: Option<String> },
    /// A text is sent.
    Message(String),
    /// A job is run now, without any content of the call.
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
    /// The job cannot be run, for this reason.
    Refused(String),
}

/// Accepts a call, in the transaction around it.
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
                Err(reason) => HookedOutcome::Refused(reason),
                Ok(_) => {
                    record_call(store, &hook, &key, now, None)?;
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
    // Tainted, because its text may contain values of the call.
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
    record_call(store, &hook, &key, now, Some(job))?;
    Ok(HookedOutcome::Accepted)
}

fn record_call(
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

/// Deletes a slice of the calls before a time. Returns their number.
pub fn prune_hooked(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    store
        .prepare_cached(
            "DELETE FROM webhook_calls WHERE (hook, key) IN
             (SELECT hook, key FROM webhook_calls WHERE at < ? ORDER BY at LIMIT ?)",
        )?
        .execute(params![Time(before), slice()])
}
