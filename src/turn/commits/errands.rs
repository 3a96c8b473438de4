//! Commits of errands: however the turn of one ends, what follows from it is made in the same
//! transaction, without another word of a model.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::bus::journal::{self, Fate, RowId};
use crate::bus::outbox;
use crate::conversation::errands::{self, Errand, Kind};
use crate::conversation::sessions::{self, Note};
use crate::conversation::transcript;
use crate::replies;
use crate::store::{Store, Sync};
use crate::tasks::heartbeat::{self, BeatId};
use crate::tasks::schedule::{self, Brief, Ended, JobId, Order, Run, State as JobState, Whose};
use crate::tasks::subagents::{State, SubagentId};
use crate::turn::commits::delegated::{self, Came};
use crate::turn::commits::{CommitError, End, guarded};
use crate::turn::prompt;
use crate::types::message::{Address, SenderId};
use crate::types::session::{Ending, SessionId, TurnId};

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
            job_ended(store, JobId(errand.number), (Some(turn), end.zone), (ended(end), came))
        }
        Kind::Heartbeat => {
            let came = end.words.as_deref().map(|result| Came { result, tainted: end.tainted });
            let ended = match end.ending {
                Ending::Answered => heartbeat::Ended::Said,
                Ending::Silent => heartbeat::Ended::Silent,
                Ending::Stopped => heartbeat::Ended::Stopped,
                Ending::Failed => heartbeat::Ended::Failed,
            };
            beat_ended(store, &end.to, Some(turn), (ended, came), end.is_quiet)
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
    Ok(words.map(|words| schedule::told(&run, words, end.zone)))
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
pub(crate) async fn gave_up(
    store: &Store,
    turn: TurnId,
    (errand, at): (Errand, Address),
) -> Result<(), CommitError> {
    guarded(store, "errand given up", Sync::Now, turn, move |store| {
        given_up(store, turn, (errand, &at))
    })
    .await
}

/// The same within a transaction.
pub(super) fn given_up(
    store: &Connection,
    turn: TurnId,
    (errand, at): (Errand, &Address),
) -> rusqlite::Result<()> {
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
            job_ended(store, JobId(errand.number), (Some(turn), Tz::UTC), outcome)
        }
        Kind::Heartbeat => {
            let came = Some(Came::ours(replies::JOB_CUT_OFF));
            let outcome = (heartbeat::Ended::Interrupted, came);
            beat_ended(store, at, Some(turn), outcome, false)
        }
    }
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
            job_ended(store, JobId(errand.number), (None, Tz::UTC), outcome)
        }
        Kind::Heartbeat => {
            let outcome = (heartbeat::Ended::Failed, Some(Came::ours(replies::JOB_BROKE)));
            beat_ended(store, at, None, outcome, false)
        }
    }
}

/// A run in a session of its own has ended: what came of it goes to the address that asked, whose
/// conversation has one turn more, so that the model knows of it when it is next spoken to.
fn job_ended(
    store: &Connection,
    job: JobId,
    (turn, zone): (Option<TurnId>, Tz),
    (ended, came): (Ended, Option<Came<'_>>),
) -> rusqlite::Result<()> {
    let Some(run) = schedule::of_job(store, job)? else { return Ok(()) };
    let brief = &run.job.brief;
    if let (Ended::Done, Some(came)) = (ended, &came) {
        outbox::put(store, &brief.to, None, &schedule::told(&run, came.result, zone))?;
        if let Some(turn) = turn {
            let (sender, provider) = transcript::who_answers_whom(store, turn)?;
            schedule::note(store, &run, (&sender, &provider), (came.result, came.tainted))?;
        }
    }
    schedule::settle(store, &run, ended, came.map(|came| came.result), Utc::now())?;
    errands::close(store, job.errand(), &brief.known_on)
}

/// A beat has ended: what it has to say goes out, and its owner's conversation knows of it.
fn beat_ended(
    store: &Connection,
    at: &Address,
    turn: Option<TurnId>,
    (ended, came): (heartbeat::Ended, Option<Came<'_>>),
    is_quiet: bool,
) -> rusqlite::Result<()> {
    let Some(errand) = Errand::of(at) else { return Ok(()) };
    // It may have been settled without it.
    if let Some(beat) = heartbeat::get(store, BeatId(errand.number))? {
        let said = came.as_ref().map(|came| (came.result, came.tainted));
        let is_told = heartbeat::settle(store, &beat, ended, said, is_quiet)?;
        if let (true, Some(turn), Some(came)) = (is_told, turn, came) {
            let session = transcript::open_or_begin(store, &beat.to, beat.place)?;
            let heard = prompt::heartbeat_told(came.tainted);
            add_turn(store, (session, turn), heard, sessions::shortened(came.result))?;
        }
    }
    errands::close(store, errand, &errands::channel_of(at))
}

/// A conversation has one turn more, on behalf of another: what was heard, and told as the model's own words.
pub(super) fn add_turn(
    store: &Connection,
    (session, of): (SessionId, TurnId),
    heard: String,
    said: String,
) -> rusqlite::Result<()> {
    let (sender, provider) = transcript::who_answers_whom(store, of)?;
    let note = Note { sender: &sender, provider: &provider, heard, said };
    sessions::note(store, session, &note)
}

/// Changes jobs as somebody wishes, and says what came of it. What works on a job that is done no more ends
/// with that.
pub fn obey_order(
    store: &Connection,
    whose: &Whose,
    order: Order,
    now: (DateTime<Utc>, Tz),
) -> rusqlite::Result<Result<String, String>> {
    let ends = match order {
        Order::Remove(id) | Order::Pause(id) => schedule::of_job(store, id)?,
        _ => None,
    };
    let obeyed = schedule::obey(store, whose, order, now)?;
    Ok(match (obeyed, ends) {
        (Ok(words), Some(run)) => {
            // Turns of them that still run find that they have ended with what they next write down.
            stop_run(store, &run, None)?;
            match is_over(store, &run)? {
                true => Ok(replies::job_stopped_for_good(run.job.id)),
                false => Ok(format!("{words} {}", replies::RUN_ENDED)),
            }
        }
        (obeyed, _) => obeyed,
    })
}

/// Whether a job has nothing more to wait for: it was for once, and that is past.
fn is_over(store: &Connection, run: &Run) -> rusqlite::Result<bool> {
    let job = schedule::get(store, run.job.id, &Whose::All)?;
    Ok(job.is_some_and(|job| job.state == JobState::Done))
}

/// Ends what works on a run: a turn of its own, one in a conversation with the subagents that it waits for,
/// or a command. Gives those subagents' addresses.
fn stop_run(store: &Connection, run: &Run, why: Option<&str>) -> rusqlite::Result<Vec<Address>> {
    let Brief { known_on, to, .. } = &run.job.brief;
    let mut subagents = Vec::new();
    if run.is_here {
        if let Some(row) = run.row {
            journal::settle(store, row, Fate::Stopped)?;
        }
        if let Some(turn) = run.turn {
            subagents = delegated::stop_awaited(store, to, turn)?;
            if transcript::runs(store, turn)? {
                transcript::end_turn(store, turn, Ending::Stopped)?;
            }
            journal::settle_turn(store, turn, Fate::Stopped)?;
        }
    } else {
        withdraw(store, &run.job.id.errand().address(known_on))?;
        errands::close(store, run.job.id.errand(), known_on)?;
    }
    schedule::settle(store, run, Ended::Stopped, why, Utc::now())?;
    Ok(subagents)
}

/// A turn was interrupted by what somebody has said, which may have worked on a job.
pub(super) fn interrupted(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    let Some(run) = schedule::of_turn(store, turn)? else { return Ok(()) };
    let words = Some(replies::JOB_SPOKEN_INTO);
    schedule::settle(store, &run, Ended::Stopped, words, Utc::now())
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
        stopped.extend(stop_run(store, &run, None)?);
        stopped.push(run.job.id.errand().address(&run.job.brief.known_on));
    }
    // It is the owner's.
    if let (None, Some(beat)) = (whose, heartbeat::running_for(store, at)?) {
        let address = beat.id.errand().address(&beat.known_on);
        withdraw(store, &address)?;
        heartbeat::settle(store, &beat, heartbeat::Ended::Stopped, None, false)?;
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
