//! Commits of errands: however the turn of one ends, what follows from it is made in the same
//! transaction, without another word of a model.

use chrono::Utc;
use rusqlite::Connection;

use super::delegated::{self, Came};
use super::{CommitError, End, guarded};
use crate::agent::{prompt, transcript};
use crate::bus::journal::{self, Fate, RowId};
use crate::bus::outbox;
use crate::errands::{self, Errand, Kind};
use crate::heartbeat::{self, BeatId};
use crate::message::{Address, SenderId};
use crate::replies;
use crate::schedule::{self, Ended, JobId, Run};
use crate::session::{Ending, SessionId, Step, TurnId};
use crate::store::{Store, Sync};
use crate::subagents::{State, SubagentId};
use crate::tools;

/// An errand's turn has ended in this way.
pub(super) fn turn_ended(
    store: &Connection,
    (turn, errand): (TurnId, Errand),
    end: &End,
) -> rusqlite::Result<()> {
    match errand.kind {
        Kind::Subagent => delegated::turn_ended(store, SubagentId(errand.number), end),
        Kind::Job => {
            let came = end.words.as_deref().map(|result| Came { result, tainted: end.tainted });
            job_ended(store, JobId(errand.number), Some(turn), (ended(end), came))
        }
        Kind::Heartbeat => {
            let came = end.words.as_deref().map(|result| Came { result, tainted: end.tainted });
            let ended = match end.ending {
                Ending::Answered => heartbeat::Ended::Said,
                Ending::Silent => heartbeat::Ended::Silent,
                Ending::Stopped => heartbeat::Ended::Stopped,
                Ending::Failed => heartbeat::Ended::Failed,
            };
            beat_ended(store, &end.to, Some(turn), (ended, came))
        }
    }
}

/// A turn in a conversation has ended, which may have worked on a job. Gives the words as they are sent.
pub(super) fn conversation_ended(
    store: &Connection,
    turn: TurnId,
    end: &End,
) -> rusqlite::Result<Option<String>> {
    let words = end.words.as_deref();
    let Some(run) = schedule::of_turn(store, turn)? else { return Ok(words.map(str::to_owned)) };
    schedule::settle(store, &run, ended(end), words, Utc::now())?;
    Ok(words.map(|words| schedule::told(&run, words)))
}

fn ended(end: &End) -> Ended {
    match end.ending {
        Ending::Answered => Ended::Done,
        Ending::Silent => Ended::Silent,
        Ending::Stopped => Ended::Stopped,
        Ending::Failed => Ended::Failed,
    }
}

/// An errand's turn was cut off too often, and ends.
pub(in crate::agent) async fn gave_up(
    store: &Store,
    turn: TurnId,
    (errand, at): (Errand, Address),
) -> Result<(), CommitError> {
    guarded(store, "errand given up", Sync::Now, turn, move |store| {
        transcript::end_turn(store, turn, Ending::Failed)?;
        journal::settle_turn(store, turn, Fate::Refused)?;
        match errand.kind {
            Kind::Subagent => {
                let id = SubagentId(errand.number);
                let came = Came::ours(replies::SUBAGENT_GAVE_UP);
                delegated::ended(store, id, State::Interrupted, came)
            }
            Kind::Job => {
                let outcome = (Ended::Interrupted, Some(Came::ours(replies::JOB_CUT_OFF)));
                job_ended(store, JobId(errand.number), Some(turn), outcome)
            }
            Kind::Heartbeat => {
                let came = Some(Came::ours(replies::JOB_CUT_OFF));
                let outcome = (heartbeat::Ended::Interrupted, came);
                beat_ended(store, &at, Some(turn), outcome)
            }
        }
    })
    .await
}

/// An errand broke before it was a turn.
pub(super) fn broke(store: &Connection, errand: Errand, at: &Address) -> rusqlite::Result<()> {
    match errand.kind {
        Kind::Subagent => {
            let id = SubagentId(errand.number);
            delegated::ended(store, id, State::Failed, Came::ours(replies::SUBAGENT_BROKE))
        }
        Kind::Job => {
            let outcome = (Ended::Failed, Some(Came::ours(replies::JOB_BROKE)));
            job_ended(store, JobId(errand.number), None, outcome)
        }
        Kind::Heartbeat => {
            let outcome = (heartbeat::Ended::Failed, Some(Came::ours(replies::JOB_BROKE)));
            beat_ended(store, at, None, outcome)
        }
    }
}

/// A run in a session of its own has ended: what came of it goes to the address that asked, whose
/// conversation has one turn more, so that the model knows of it when it is next spoken to.
fn job_ended(
    store: &Connection,
    job: JobId,
    turn: Option<TurnId>,
    (ended, came): (Ended, Option<Came<'_>>),
) -> rusqlite::Result<()> {
    let Some(run) = schedule::of_job(store, job)? else { return Ok(()) };
    if let (Ended::Done, Some(came)) = (ended, &came) {
        outbox::put(store, &run.job.to, None, &schedule::told(&run, came.result))?;
        turn.map_or(Ok(()), |turn| note(store, &run, turn, came))?;
    }
    schedule::settle(store, &run, ended, came.map(|came| came.result), Utc::now())?;
    errands::close(store, job.errand(), &run.job.known_on)
}

/// A beat has ended: what it has to say goes out, and its owner's conversation knows of it.
fn beat_ended(
    store: &Connection,
    at: &Address,
    turn: Option<TurnId>,
    (ended, came): (heartbeat::Ended, Option<Came<'_>>),
) -> rusqlite::Result<()> {
    let Some(errand) = Errand::of(at) else { return Ok(()) };
    // It may have been settled without it.
    if let Some(beat) = heartbeat::get(store, BeatId(errand.number))? {
        let said = came.as_ref().map(|came| (came.result, came.tainted));
        let is_told = heartbeat::settle(store, &beat, ended, said)?;
        if let (true, Some(turn), Some(came)) = (is_told, turn, came) {
            let session = transcript::open_or_begin(store, &beat.to, beat.place)?;
            let heard = prompt::heartbeat_told(came.tainted);
            let told = tools::cut(came.result, "The rest is lost to you.");
            add_turn(store, (session, turn), heard, told)?;
        }
    }
    errands::close(store, errand, &errands::channel_of(at))
}

fn note(store: &Connection, run: &Run, turn: TurnId, came: &Came<'_>) -> rusqlite::Result<()> {
    let session = transcript::open_or_begin(store, &run.job.to, run.job.place)?;
    let heard = prompt::job_done(run.job.id, run.job.payload.text(), came.tainted);
    let told = tools::cut(came.result, "The rest is lost to you.");
    add_turn(store, (session, turn), heard, told)
}

/// A conversation has one turn more, on behalf of another: what was heard, and told as the model's own words.
pub(super) fn add_turn(
    store: &Connection,
    (session, of): (SessionId, TurnId),
    heard: String,
    told: String,
) -> rusqlite::Result<()> {
    let (sender, provider) = transcript::who_answers_whom(store, of)?;
    let turn = transcript::begin_turn(store, session, &sender, None, &provider)?;
    let step = Step { heard: Some(heard), text: told, ..Step::default() };
    transcript::put_step(store, turn, 0, &step)?;
    transcript::end_turn(store, turn, Ending::Answered)
}

/// Ends the errands that work for an address, all or one person's, without a word; gives their own
/// addresses.
pub(super) fn stop(
    store: &Connection,
    at: &Address,
    whose: Option<&SenderId>,
) -> rusqlite::Result<Vec<Address>> {
    let mut stopped = delegated::stop(store, at, whose)?;
    for run in schedule::running_for(store, at, whose)? {
        let address = run.job.id.errand().address(&run.job.known_on);
        withdraw(store, &address)?;
        schedule::settle(store, &run, Ended::Stopped, None, Utc::now())?;
        errands::close(store, run.job.id.errand(), &run.job.known_on)?;
        stopped.push(address);
    }
    // It is the owner's.
    if let (None, Some(beat)) = (whose, heartbeat::running_for(store, at)?) {
        let address = beat.id.errand().address(&beat.known_on);
        withdraw(store, &address)?;
        heartbeat::settle(store, &beat, heartbeat::Ended::Stopped, None)?;
        errands::close(store, beat.id.errand(), &beat.known_on)?;
        stopped.push(address);
    }
    Ok(stopped)
}

/// Ends the turn at an errand's address, and takes its task back if it has not begun.
pub(super) fn withdraw(store: &Connection, at: &Address) -> rusqlite::Result<()> {
    for turn in transcript::unfinished(store)?.into_iter().filter(|turn| turn.address == *at) {
        transcript::end_turn(store, turn.turn, Ending::Stopped)?;
        journal::settle_turn(store, turn.turn, Fate::Stopped)?;
    }
    journal::withdraw(store, at, RowId(i64::MAX), None).map(drop)
}
