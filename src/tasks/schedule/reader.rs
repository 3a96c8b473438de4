//! The people who read the results of a job. A run that reports to a private chat of somebody else than the job's person
//! works as in a group: without that person's files, memory and conversations. One whose reader has no access any more does
//! not run. Not here: its role (`turn`).

use std::borrow::Cow;

use rusqlite::{Connection, params};

use crate::bus::outbox;
use crate::conversation::{presence, sessions};
use crate::people::persons::PersonAccount;
use crate::people::{self, LOCAL, People};
use crate::replies;
use crate::tasks::schedule::job::{self, Job, JobDefinition, JobState};
use crate::types::message::{Address, ChatKind};

/// Returns the kind of chat for which the runs of a person's job work if its results go to this address: private in a
/// private chat of that person, else a group.
pub fn chat_kind_for(
    store: &Connection,
    people: &People,
    person: &PersonAccount,
    to: &Address,
) -> rusqlite::Result<ChatKind> {
    let is_own = presence::chat_kind_of(store, to)? == ChatKind::Private
        && is_read_by(store, people, person, to)?;
    Ok(if is_own { ChatKind::Private } else { ChatKind::Group })
}

/// Returns the job as it may run now. If an older version let it run for its person and report to a private chat of
/// somebody else, it is a copy whose runs work as in a group.
pub(super) fn restrict<'a>(
    store: &Connection,
    people: &People,
    job: &'a Job,
) -> rusqlite::Result<Cow<'a, Job>> {
    let definition = &job.definition;
    let person = PersonAccount {
        channel: definition.known_on.clone(),
        sender: definition.sender.id.clone(),
    };
    if definition.chat_kind == ChatKind::Group
        || is_read_by(store, people, &person, &definition.to)?
    {
        return Ok(Cow::Borrowed(job));
    }
    let mut job = job.clone();
    job.definition.chat_kind = ChatKind::Group;
    Ok(Cow::Owned(job))
}

/// Returns true if a job reports to a private chat of somebody else than its person, or to a chat of which nothing is known.
pub(super) fn is_for_somebody_else(
    store: &Connection,
    definition: &JobDefinition,
) -> rusqlite::Result<bool> {
    Ok(definition.chat_kind == ChatKind::Group && !presence::is_known_group(store, &definition.to)?)
}

fn is_read_by(
    store: &Connection,
    people: &People,
    person: &PersonAccount,
    at: &Address,
) -> rusqlite::Result<bool> {
    let Some(reader) = presence::private_reader(store, at)? else {
        // Its conversations were deleted. A job of an account of the same channel was made there.
        return Ok(person.channel == at.channel);
    };
    let reader = PersonAccount { channel: at.channel.clone(), sender: reader.id };
    people.are_same(store, person, &reader)
}

/// Returns true if an address is a private chat whose reader has no access any more.
pub fn has_lost_reader(
    store: &Connection,
    people: &People,
    at: &Address,
) -> rusqlite::Result<bool> {
    match presence::private_reader(store, at)? {
        Some(reader) => Ok(people.role_of(store, &at.channel, &reader.id)?.is_none()),
        None => presence::has_removed_speaker(store, at),
    }
}

/// Returns true if a job that reports to a chat is paused, because the reader has no access any more.
pub fn is_paused_without_reader(store: &Connection, at: &Address) -> rusqlite::Result<bool> {
    store
        .prepare_cached(
            "SELECT 1 FROM jobs WHERE state = 'paused' AND why = ? AND channel = ? AND chat = ?",
        )?
        .exists(params![replies::READER_WITHOUT_ACCESS, at.channel, at.chat])
}

/// Pauses a job whose reader has no access any more, and tells who made it, or the owner. Of jobs that run once, such as
/// calls of webhooks, they hear only of the first.
pub fn pause_without_reader(store: &Connection, job: &Job) -> rusqlite::Result<()> {
    let definition = &job.definition;
    // Its run may have been its last.
    let Some(now) = job::find_even_removed(store, job.id)? else { return Ok(()) };
    let is_told = !definition.timing.recurs() && is_paused_without_reader(store, &definition.to)?;
    match now.state {
        JobState::Active => job::pause(store, job.id, replies::READER_WITHOUT_ACCESS).map(drop)?,
        JobState::Done => {}
        JobState::Paused | JobState::Removed => return Ok(()),
    }
    tracing::info!(job = %job.id, "A job does not run, because its reader has no access any more");
    if !is_told && let Some(at) = maker_address(store, definition)? {
        let about = definition.payload.text();
        let notice = replies::job_reader_without_access(job.id, about, &definition.to);
        outbox::put(store, &at, None, &notice)?;
    }
    Ok(())
}

/// Returns the private chat of the person who made a job, or else the owner's.
fn maker_address(
    store: &Connection,
    definition: &JobDefinition,
) -> rusqlite::Result<Option<Address>> {
    let owner = people::owner_address(store)?;
    if definition.sender.id.as_str() == LOCAL {
        return Ok(owner);
    }
    let maker = PersonAccount {
        channel: definition.known_on.clone(),
        sender: definition.sender.id.clone(),
    };
    let mut own = sessions::private_of(store, &maker)?;
    own.retain(|at| *at != definition.to);
    Ok(match owner {
        Some(owner) if own.is_empty() || own.contains(&owner) => Some(owner),
        _ => own.pop(),
    })
}
