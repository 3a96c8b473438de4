//! What a turn works for — a conversation with people, a task that a subagent was handed, a job — and
//! what ends it.

use std::time::Duration;

use rusqlite::Connection;

use crate::bus::journal::Fate;
use crate::conversation::errands::{Errand, Kind};
use crate::conversation::transcript;
use crate::provider::ASK_QUESTION;
use crate::provider::{Completion, StopReason};
use crate::replies;
use crate::store::StoreError;
use crate::tasks::heartbeat::{self, BeatId};
use crate::tasks::schedule::{self, JobId};
use crate::tasks::subagents::{self, SubagentId};
use crate::tools::{Caller, delegate, finish};
use crate::turn::means::Means;
use crate::turn::prompt;
use crate::turn::run::{Active, TURN_TIME_MAX, TurnError, is_no_reply};
use crate::types::message::Address;
use crate::types::session::{Call, Ending, Finish, Outcome, Session, Step, TurnId};

/// What an errand may use, read and written: a long task, not a runaway.
const ERRAND_TOKENS_MAX: u64 = 200_000;

/// A model that does not understand by then will not, and its text is better than none.
const REMINDERS_MAX: usize = 3;

/// Nobody sees it work, so nobody would stop it.
const ERRAND_TIME_MAX: Duration = Duration::from_secs(600);

pub(super) struct Part {
    pub(super) caller: Caller,
    /// None of a conversation with people.
    pub(super) errand: Option<Errand>,
    pub(super) finish: Finish,
    /// Where people are who can be asked, and to whom files came.
    pub(super) people_at: Address,
    pub(super) steps_max: usize,
    tokens_max: Option<u64>,
    pub(super) time_max: Duration,
    /// The part of that which was used before the turn was last suspended.
    pub(super) worked: Duration,
    /// It ends when quiet hours begin: a beat that nobody asked for.
    pub(super) keeps_quiet: bool,
}

/// What a turn has ended with by a call.
pub(super) struct Finished {
    said: String,
    is_silence: bool,
}

/// A bound that was reached: what the model is told, and what its person.
pub(super) struct UsedUp {
    pub(super) note: String,
    pub(super) words: String,
}

impl Part {
    /// The part of a turn at an address.
    pub(super) async fn of(
        means: &Means,
        address: &Address,
        turn: TurnId,
    ) -> Result<Self, StoreError> {
        let store = &means.bus.store;
        let Some(errand) = Errand::of(address) else {
            let look = move |store: &Connection| {
                Ok((schedule::of_turn(store, turn)?.is_some(), transcript::worked(store, turn)?))
            };
            let (is_job, worked) = store.read(look).await?;
            return Ok(Self {
                caller: match is_job {
                    true => Caller::JobHere(means.finish),
                    false => Caller::Conversation(means.finish),
                },
                errand: None,
                finish: means.finish,
                people_at: address.clone(),
                steps_max: means.steps_max,
                tokens_max: None,
                time_max: TURN_TIME_MAX,
                worked,
                keeps_quiet: false,
            });
        };
        let mut keeps_quiet = false;
        let (caller, asked_at) = match errand.kind {
            Kind::Subagent => {
                let id = SubagentId(errand.number);
                (Caller::Subagent, store.read(move |it| subagents::asked_at(it, id)).await?)
            }
            Kind::Job => {
                let run = store.read(move |it| schedule::of_job(it, JobId(errand.number)));
                (Caller::Job, run.await?.map(|run| run.job.brief.to))
            }
            Kind::Heartbeat => {
                let beat = store.read(move |it| heartbeat::get(it, BeatId(errand.number)));
                let beat = beat.await?;
                keeps_quiet = beat.as_ref().is_some_and(|beat| !beat.asked);
                (Caller::Heartbeat, beat.map(|beat| beat.to))
            }
        };
        let worked = store.read(move |store| transcript::worked(store, turn)).await?;
        let is_beat = errand.kind == Kind::Heartbeat;
        Ok(Self {
            caller,
            errand: Some(errand),
            finish: Finish::Explicit,
            people_at: asked_at.unwrap_or_else(|| address.clone()),
            steps_max: match is_beat {
                true => means.heart.config.steps_max,
                false => means.subagent_steps_max,
            },
            tokens_max: Some(match is_beat {
                true => {
                    let used = store.read(move |store| transcript::used_in(store, turn)).await?;
                    (means.heart.tokens_left().await? + used).min(ERRAND_TOKENS_MAX)
                }
                false => ERRAND_TOKENS_MAX,
            }),
            time_max: ERRAND_TIME_MAX,
            worked,
            keeps_quiet,
        })
    }

    /// What is said of a turn that took too long.
    pub(super) fn too_slow(&self) -> String {
        match self.errand {
            None => replies::SOMETHING_BROKE.to_owned(),
            Some(_) => replies::errand_too_slow(self.time_max),
        }
    }
}

impl Active<'_> {
    /// The bound that the turn has reached, before another step.
    pub(super) async fn used_up(&self) -> Result<Option<UsedUp>, TurnError> {
        let steps = self.part.steps_max;
        if self.steps_made() >= steps {
            let words = match self.part.errand {
                None => replies::steps_exhausted(steps),
                Some(_) => replies::errand_steps_used_up(steps),
            };
            let note = match self.part.caller {
                Caller::Heartbeat => prompt::beat_steps_used_up(steps),
                _ => prompt::steps_used_up(steps),
            };
            return Ok(Some(UsedUp { note, words }));
        }
        if self.part.keeps_quiet && self.means.heart.is_quiet() {
            let (note, words) = (prompt::QUIET_HOURS_BEGAN, replies::QUIET_HOURS_BEGAN);
            return Ok(Some(UsedUp { note: note.to_owned(), words: words.to_owned() }));
        }
        let Some(most) = self.part.tokens_max else { return Ok(None) };
        let turn = self.turn;
        let used = self.means.bus.store.read(move |store| transcript::used_in(store, turn)).await?;
        let (note, words) = (prompt::TOKENS_USED_UP, replies::errand_tokens_used_up(most));
        Ok((used >= most).then(|| UsedUp { note: note.to_owned(), words }))
    }

    /// What is said with the call that has ended the turn, in its last step.
    pub(super) fn finished(&self) -> Option<Finished> {
        let last = self.steps().last().filter(|_| self.part.finish == Finish::Explicit)?;
        let (_, said) = finish::ended_with(&last.calls)?;
        let finished = match self.part.caller {
            Caller::Heartbeat => self.told_by_beat(),
            _ => Finished { said: said.to_owned(), is_silence: is_no_reply(said) },
        };
        // It was said before the model knew what would come of these.
        last.calls.iter().all(came_as_meant).then_some(finished)
    }

    /// A beat tells what it has said by `converse`, also before it knew that it could not end with that.
    fn told_by_beat(&self) -> Finished {
        let calls = self.steps().iter().flat_map(|step| &step.calls);
        let told = calls.filter_map(|call| match &call.outcome {
            Outcome::Done(said) if call.tool == finish::CONVERSE => heartbeat::alert(said),
            _ => None,
        });
        let said = told.collect::<Vec<_>>().join("\n\n");
        Finished { is_silence: said.is_empty(), said }
    }

    /// Ends with what a call has said; the model says nothing more.
    pub(super) async fn finish(self, finished: Finished) -> Result<Option<Session>, TurnError> {
        let Finished { said, is_silence } = finished;
        let mut end = self.end_with(self.with_thoughts(&said));
        (end.ending, end.fate) = (Ending::Answered, Fate::Answered);
        if is_silence {
            (end.ending, end.words) = (Ending::Silent, None);
        }
        self.end(end, None).await
    }

    /// The reminder that the model's next step begins with, if its last one was a text where only a
    /// call ends the turn.
    pub(super) fn reminder(&self) -> Option<String> {
        let is_due =
            self.part.finish == Finish::Explicit && self.steps().last().is_some_and(is_text_alone);
        let calls: &[&str] = match self.part.caller {
            Caller::Heartbeat => return is_due.then(|| prompt::BEAT_REMINDER.to_owned()),
            Caller::Conversation(_) | Caller::JobHere(_) => &[finish::COMPLETION, finish::CONVERSE],
            Caller::Subagent | Caller::Job => &[finish::COMPLETION],
        };
        is_due.then(|| prompt::reminder(calls))
    }

    /// Which reminder a text would lead to; none if it is the answer all the same.
    pub(super) fn reminds(&self, completion: &Completion) -> Option<u32> {
        let text = completion.text.trim();
        let is_cut = matches!(completion.stop, Some(StopReason::MaxTokens | StopReason::Refused));
        let is_silence = match self.part.caller {
            Caller::Heartbeat => heartbeat::alert(text).is_none(),
            _ => is_no_reply(text),
        };
        if self.part.finish == Finish::Answer || text.is_empty() || is_cut || is_silence {
            return None;
        }
        let before = self.steps().iter().filter(|step| is_text_alone(step)).count();
        (before < REMINDERS_MAX).then(|| u32::try_from(before + 1).unwrap_or(u32::MAX))
    }
}

fn is_text_alone(step: &Step) -> bool {
    !step.text.is_empty() && step.calls.is_empty()
}

/// Whether a call went well, and told nothing that the model could not have known.
fn came_as_meant(call: &Call) -> bool {
    let is_news = [ASK_QUESTION, delegate::SUBAGENT].contains(&call.tool.as_str());
    matches!(call.outcome, Outcome::Done(_)) && !is_news
}
