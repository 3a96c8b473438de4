//! The people who read the results of a job. A run that reports to a private chat of somebody else than the job's person
//! works as in a group: without that person's files, memory and conversations. Not here: its role (`turn`).

use std::borrow::Cow;

use rusqlite::Connection;

use crate::conversation::presence;
use crate::people::People;
use crate::people::persons::PersonAccount;
use crate::tasks::schedule::job::{Job, JobDefinition};
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
