//! The context of a heartbeat run: information in addition to the file's requests.

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, params};

use crate::bus::journal::address_params;
use crate::conversation::plans;
use crate::people::LOCAL;
use crate::short_text::{first_chars, one_line};
use crate::store::{LenientJson, Time};
use crate::tasks::heartbeat::run::{NewHeartbeatRun, WORKED};
use crate::tasks::schedule::Payload;
use crate::types::message::{Address, ChatKind};
use crate::types::session::Plan;
use crate::types::source::Author;

/// Time for which the same alert is not repeated.
pub(super) const REPEAT_AFTER: Duration = Duration::hours(24);

/// Maximum number of jobs, and of earlier alerts, in the context.
const LISTED_MAX: usize = 10;

/// Maximum length of a line, in characters.
const LINE_CHARS_MAX: usize = 200;

/// The context of a heartbeat run.
pub(super) struct HeartbeatContext {
    /// The person for whom it acts.
    pub(super) by: Author,
    pub(super) plan: Option<Plan>,
    pub(super) ran: Vec<String>,
    pub(super) told: Vec<String>,
    /// True if an author of it had read untrusted content.
    pub(super) tainted: bool,
}

/// Returns the context for an address. In a group it has only what was sent there, and nothing private.
pub(super) fn read_context(
    store: &Connection,
    new: &NewHeartbeatRun,
    now: DateTime<Utc>,
) -> rusqlite::Result<HeartbeatContext> {
    let plan = plans::at(store, &new.to)?;
    let plan = plan.filter(Plan::is_open);
    let sent = sent_since(store, &new.to, now - REPEAT_AFTER, now)?;
    let sent = &sent[..sent.len().min(LISTED_MAX)];
    Ok(HeartbeatContext {
        by: Author { channel: new.known_on.clone(), id: new.sender.clone() },
        tainted: plan.as_ref().is_some_and(|plan| plan.tainted)
            || sent.iter().any(|(_, tainted)| *tainted),
        plan,
        ran: if new.chat_kind == ChatKind::Private { ran(store, new, now)? } else { Vec::new() },
        told: sent.iter().map(|(words, _)| line(words)).collect(),
    })
}

/// Returns the owner's jobs that ran since the last successful heartbeat run, without their results, which may be
/// untrusted and were sent to the owner.
fn ran(
    store: &Connection,
    new: &NewHeartbeatRun,
    now: DateTime<Utc>,
) -> rusqlite::Result<Vec<String>> {
    let last: Option<Time> = store
        .prepare_cached(&format!(
            "SELECT max(begun) FROM tasks WHERE kind = 'heartbeat' AND state IN ({WORKED})
             AND begun <= ?"
        ))?
        .query_row([Time(now)], |row| row.get(0))?;
    let earliest = Time(now - REPEAT_AFTER);
    let since = last.map_or(earliest, |last| last.max(earliest));
    let mut rows = store.prepare_cached(
        "SELECT r.job, r.state, j.payload FROM tasks r JOIN jobs j ON j.id = r.job
         WHERE r.kind = 'job' AND r.ended >= ? AND NOT j.tainted
         AND (iif(json_valid(j.sender), json_extract(j.sender, '$.id'), NULL) = ?
           OR (j.known_on = ? AND iif(json_valid(j.sender), json_extract(j.sender, '$.id'), NULL) = ?))
         ORDER BY r.id DESC LIMIT ?",
    )?;
    let (sender, known_on) = (&new.sender, &new.known_on);
    let rows = rows.query_map(params![since, LOCAL, known_on, sender, LISTED_MAX], |row| {
        let (job, state): (i64, String) = (row.get(0)?, row.get(1)?);
        let LenientJson(about) = row.get::<_, LenientJson<Payload>>(2)?;
        let about = about.map(|payload| line(payload.text())).unwrap_or_default();
        Ok(format!("job {job} ({about}): {state}"))
    })?;
    rows.collect()
}

/// Returns the beginning of a text, on one line.
pub(super) fn line(text: &str) -> String {
    first_chars(&one_line(text), LINE_CHARS_MAX).to_owned()
}

/// Returns the alerts and messages that heartbeat runs sent to an address, newest first, for runs that began after
/// `after` and until `until`. The flag is true if the run had read untrusted content.
pub(super) fn sent_since(
    store: &Connection,
    at: &Address,
    after: DateTime<Utc>,
    until: DateTime<Utc>,
) -> rusqlite::Result<Vec<(String, bool)>> {
    let (channel, chat, thread) = address_params(at);
    let mut rows = store.prepare_cached(
        "SELECT words, tainted FROM (
             SELECT id, begun, channel, chat, thread, words, tainted FROM tasks
             WHERE kind = 'heartbeat' AND state = 'done'
             UNION ALL SELECT t.id, t.begun, m.channel, m.chat, m.thread, m.words, m.tainted
             FROM task_messages m JOIN tasks t ON t.id = m.task)
         WHERE begun > ? AND begun <= ? AND channel = ? AND chat = ?
         AND ifnull(thread, '') = ifnull(?, '') ORDER BY id DESC",
    )?;
    rows.query_map(params![Time(after), Time(until), channel, chat, thread], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?
    .collect()
}
