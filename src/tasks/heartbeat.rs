//! The heartbeat: a model regularly works on the requests of the owner's HEARTBEAT.md, in a new session,
//! and reports what the owner should know. It costs nothing if there are no requests. A heartbeat run is a
//! background task; this module begins it.

pub mod held;
mod run;
mod quiet_hours;
mod context;
mod requests;

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::ValueEnum;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub use quiet_hours::QuietHours;
pub use requests::{FILE, active_requests, alert};
pub use run::{
    HeartbeatReport, HeartbeatRunId, RunningHeartbeat, get, may_send, running_for, settle,
};

use crate::bus::Notifier;
use crate::conversation::{ledger, presence};
use crate::memory;
use crate::people::{self, LOCAL, Role};
use crate::replies::{self, HeartbeatShown};
use crate::services::Services;
use crate::store::{StoreError, Sync};
use crate::tasks::schedule::{self, Clock, after_failures};
use crate::types::message::{Address, ChannelName, ChatKind, SenderId};
use crate::types::origin::TaskKind;
use crate::workspace::{FileError, FileScope};
use run::{HeartbeatState, NewHeartbeatRun};

/// Minimum time from the start of the daemon to the first heartbeat run, so that a daemon which restarts repeatedly
/// does not begin one each time.
const FIRST_AFTER: chrono::Duration = chrono::Duration::minutes(1);

/// The pause before the next check while the owner's conversation is in a turn.
const BUSY_PAUSE: chrono::Duration = chrono::Duration::minutes(1);

/// The retention of heartbeat runs: usage reports cover a month.
pub const HEARTBEAT_RUNS_KEPT: chrono::Duration = chrono::Duration::days(31);

/// The pause of the task when the store fails.
const STORE_PAUSE: Duration = Duration::from_secs(2);

/// The `[heartbeat]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The interval. None means that it runs only on request.
    pub every: Option<Duration>,
    /// The hours in which the heartbeat does not run by itself.
    pub quiet: Option<QuietHours>,
    /// The config section of the provider, which exists. None means the provider that answers.
    pub provider: Option<String>,
    /// The address of alerts. None means the owner's last private chat.
    pub to: Option<Address>,
    /// Maximum number of completions of one heartbeat run.
    pub steps_max: usize,
    /// Maximum number of tokens, read and written, in a day of the owner's time zone.
    pub tokens_max: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            every: Some(Duration::from_secs(30 * 60)),
            quiet: Some(QuietHours::NIGHT),
            provider: None,
            to: None,
            steps_max: 10,
            tokens_max: 200_000,
        }
    }
}

/// A request of a person to the heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum HeartbeatRequest {
    /// Show its state
    Show,
    /// Look now, whatever the time
    Now,
    On,
    Off,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeartbeatCheck {
    Begun,
    /// There is no recipient, or this daemon does not have their channel.
    Nobody,
    /// The file has no requests.
    Nothing,
    /// The file cannot be read.
    Unreadable,
    /// The last heartbeat run has not ended.
    Works,
    /// The recipient's conversation is in a turn.
    Busy,
    /// The day's tokens are used up.
    Spent,
}

/// Begins heartbeat runs, and switches them on and off. Clones share their state.
#[derive(Clone)]
pub struct HeartbeatControl {
    pub config: Config,
    pub services: Services,
    pub clock: Clock,
    /// The channel of the local terminal, on which the owner of the machine is known.
    pub terminal: ChannelName,
    /// Time of the next run, as far as the task knows.
    pub next: watch::Sender<Option<DateTime<Utc>>>,
    /// Wakes when the heartbeat was switched on or off.
    pub switched: Notifier,
}

/// The recipient of alerts, on whose behalf the runs act.
struct Recipient {
    to: Address,
    known_on: ChannelName,
    sender: SenderId,
    chat_kind: ChatKind,
}

/// The inputs of a new heartbeat run.
struct HeartbeatInputs {
    new: NewHeartbeatRun,
    watched: String,
    notes: String,
    now: DateTime<Utc>,
    channels: BTreeSet<ChannelName>,
}

impl HeartbeatInputs {
    fn begin(self, store: &Connection) -> rusqlite::Result<HeartbeatCheck> {
        let Self { new, watched, notes, now, channels } = self;
        run::clear(store, &channels)?;
        let context = context::read_context(store, &new, now)?;
        let text = requests::task(&watched, &notes, &context);
        let asked = new.asked;
        if run::begin(store, new, &text, context.tainted, now)? {
            return Ok(HeartbeatCheck::Begun);
        }
        if asked {
            run::ask(store)?;
        }
        Ok(HeartbeatCheck::Works)
    }
}

/// Begins heartbeat runs until `stop`.
pub async fn run(heartbeat: HeartbeatControl, stop: CancellationToken) {
    let mut switched = heartbeat.switched.watch();
    let mut due = None;
    loop {
        switched.mark_unchanged();
        let now = heartbeat.clock.now();
        let next = heartbeat.pulse(&mut due, now).await;
        let wait = async {
            match next {
                Ok(next) => heartbeat.clock.reaches(next, now).await,
                Err(error) => {
                    tracing::error!(%error, "The heartbeat failed and pauses");
                    sleep(STORE_PAUSE).await;
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = wait => {}
            changed = switched.changed() => match changed {
                Ok(()) => due = None,
                Err(_) => return,
            },
        }
    }
}

impl HeartbeatControl {
    /// Begins a run if one is due. Returns the time of the next check; None while the heartbeat does not run by itself.
    /// `due` is the last known time of the next run.
    async fn pulse(
        &self,
        due: &mut Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Result<Option<DateTime<Utc>>, StoreError> {
        let state = self.services.bus.store.read(move |store| run::state(store, now)).await?;
        let quiet_ends = Some(self.awake(now)).filter(|awake| *awake > now);
        if state.holds && quiet_ends.is_none() {
            self.services.bus.store.write("held alerts", Sync::Now, run::release).await?;
            self.services.bus.outbox.notify();
        }
        let release = quiet_ends.filter(|_| state.holds);
        let every = self.config.every.and_then(|every| chrono::Duration::from_std(every).ok());
        let every = every.filter(|_| state.off.is_none() && now >= schedule::release());
        let Some(every) = every else {
            *due = None;
            self.next.send_replace(None);
            return Ok(release);
        };
        let first = || state.last.map_or(now, |last| last + every).max(now + FIRST_AFTER);
        // No later than a pause from now: the clock may have been set back.
        let planned = due.unwrap_or_else(first).min(now + every);
        let mut next = self.awake(self.after(&state, planned).max(now));
        if next <= now {
            let looked = self.heartbeat_run(now).await?;
            tracing::debug!(?looked, "The heartbeat was due");
            let pause = if looked == HeartbeatCheck::Busy { BUSY_PAUSE.min(every) } else { every };
            next = self.awake(now + pause);
            *due = Some(now + pause);
        } else {
            *due = Some(planned);
        }
        self.next.send_replace(Some(next));
        Ok(Some(release.map_or(next, |release| release.min(next))))
    }

    /// Returns the time of the next run, later than `usual` after failures.
    fn after(&self, state: &HeartbeatState, usual: DateTime<Utc>) -> DateTime<Utc> {
        match (state.failures, state.last) {
            (failures @ 1.., Some(last)) => after_failures(failures, usual, last),
            _ => usual,
        }
    }

    /// Returns `at`, or the end of the quiet hours that contain it.
    fn awake(&self, at: DateTime<Utc>) -> DateTime<Utc> {
        let quiet = self.config.quiet.as_ref();
        quiet.and_then(|quiet| quiet.ends(at, self.services.zone)).unwrap_or(at)
    }

    /// Returns true within quiet hours.
    pub fn is_quiet(&self) -> bool {
        let now = self.clock.now();
        self.awake(now) > now
    }

    /// Begins a heartbeat run, if there is a recipient and a request.
    async fn heartbeat_run(&self, now: DateTime<Utc>) -> Result<HeartbeatCheck, StoreError> {
        let inputs = match self.ready(now, false).await? {
            Ok(inputs) => inputs,
            Err(check) => return Ok(check),
        };
        let begin = move |store: &Connection| inputs.begin(store);
        let check = self.services.bus.store.write("heartbeat", Sync::Later, begin).await?;
        self.services.bus.inbox.notify();
        Ok(check)
    }

    /// Returns the inputs of a heartbeat run, or the reason why it cannot begin. A requested run does not wait for a
    /// turn to end.
    async fn ready(
        &self,
        now: DateTime<Utc>,
        asked: bool,
    ) -> Result<Result<HeartbeatInputs, HeartbeatCheck>, StoreError> {
        let Some(target) = self.recipient().await? else { return Ok(Err(HeartbeatCheck::Nobody)) };
        let watched = match self.watched().await {
            Ok(Some(watched)) => watched,
            Ok(None) => return Ok(Err(HeartbeatCheck::Nothing)),
            Err(error) => {
                tracing::warn!(%error, "The heartbeat cannot read HEARTBEAT.md");
                return Ok(Err(HeartbeatCheck::Unreadable));
            }
        };
        if !asked && self.is_busy(&target.to).await? {
            return Ok(Err(HeartbeatCheck::Busy));
        }
        if self.tokens_left().await? == 0 {
            return Ok(Err(HeartbeatCheck::Spent));
        }
        let notes = self.notes(now, target.chat_kind).await;
        let provider = self.config.provider.clone();
        let Recipient { to, known_on, sender, chat_kind } = target;
        let new = NewHeartbeatRun { to, known_on, sender, chat_kind, provider, asked };
        Ok(Ok(HeartbeatInputs {
            new,
            watched,
            notes,
            now,
            channels: self.services.channels.keys().cloned().collect(),
        }))
    }

    /// Returns the recipient of alerts. None if there is none, or if they are no longer an owner.
    async fn recipient(&self) -> Result<Option<Recipient>, StoreError> {
        let (people, fixed) = (self.services.bus.people.clone(), self.config.to.clone());
        let (terminal, is_fixed) = (self.terminal.clone(), fixed.is_some());
        let look = move |store: &Connection| {
            let owner = people::owner(store)?;
            let Some(to) = fixed.or_else(|| Some(owner.as_ref()?.0.clone())) else {
                return Ok(None);
            };
            // The last person in a private chat at the address, if they are an owner.
            let last_speaker = match owner {
                Some((at, sender)) if at == to => sender,
                _ => presence::last_in_private(store, &to)?,
            };
            let is_owner = |channel: &ChannelName, sender: &SenderId| {
                let role = people.role_of(store, channel, sender);
                role.map(|role| role == Some(Role::Owner))
            };
            if let Some(sender) = last_speaker
                && is_owner(&to.channel, &sender)?
            {
                let known_on = to.channel.clone();
                return Ok(Some(Recipient { to, known_on, sender, chat_kind: ChatKind::Private }));
            }
            // At another address it acts for the owner of the machine, and reports nothing private.
            let chat_kind = ChatKind::Group;
            let local = Recipient { to, known_on: terminal, sender: LOCAL.into(), chat_kind };
            Ok(is_fixed.then_some(local))
        };
        let found = self.services.bus.store.read(look).await?;
        let is_here = |channel: &ChannelName| self.services.channels.contains_key(channel);
        Ok(found.filter(|found| is_here(&found.to.channel) && is_here(&found.known_on)))
    }

    /// Returns the requests of HEARTBEAT.md. None if there are none.
    async fn watched(&self) -> Result<Option<String>, FileError> {
        self.services.workspace.run_blocking(requests::read).await
    }

    /// Returns today's notes. Empty for a group, which may not read them.
    async fn notes(&self, now: DateTime<Utc>, chat_kind: ChatKind) -> String {
        if chat_kind == ChatKind::Group {
            return String::new();
        }
        let today = now.with_timezone(&self.services.zone).date_naive();
        self.services
            .workspace
            .run_blocking(move |workspace| {
                memory::recent_notes(workspace, &FileScope::Owner, today, 1)
            })
            .await
    }

    async fn is_busy(&self, at: &Address) -> Result<bool, StoreError> {
        let at = at.clone();
        self.services.bus.store.read(move |store| presence::is_busy(store, &at)).await
    }

    /// Returns the tokens that may still be used today.
    pub async fn tokens_left(&self) -> Result<u64, StoreError> {
        let now = self.clock.now();
        let since = schedule::midnight(now, self.services.zone);
        let used = self
            .services
            .bus
            .store
            .read(move |store| ledger::used_by_tasks(store, TaskKind::Heartbeat, since, now))
            .await?;
        Ok(self.config.tokens_max.saturating_sub(used))
    }

    /// Returns the state of the heartbeat, described in sentences.
    pub async fn describe(&self) -> Result<String, StoreError> {
        Ok(replies::heartbeat(&self.shown(self.clock.now()).await?))
    }

    /// Returns a closure that carries out a request of an entitled person in a transaction, and returns the answer.
    pub async fn prepare_request(
        &self,
        request: HeartbeatRequest,
    ) -> Result<impl FnOnce(&Connection) -> rusqlite::Result<String> + Send + use<>, StoreError>
    {
        let now = self.clock.now();
        let is_on = self.config.every.is_some();
        let shown = match request {
            HeartbeatRequest::Show => self.describe().await?,
            HeartbeatRequest::Now | HeartbeatRequest::On | HeartbeatRequest::Off => String::new(),
        };
        let ready = match request {
            HeartbeatRequest::Now => self.ready(now, true).await?,
            HeartbeatRequest::Show | HeartbeatRequest::On | HeartbeatRequest::Off => {
                Err(HeartbeatCheck::Nothing)
            }
        };
        Ok(move |store: &Connection| {
            let answer = match request {
                HeartbeatRequest::Show => return Ok(shown),
                HeartbeatRequest::Now => match ready.map_or_else(Ok, |ready| ready.begin(store))? {
                    HeartbeatCheck::Begun => replies::HEARTBEAT_BEGUN,
                    HeartbeatCheck::Nobody => replies::HEARTBEAT_WITHOUT_RECIPIENT,
                    HeartbeatCheck::Nothing => replies::HEARTBEAT_HAS_NOTHING,
                    HeartbeatCheck::Unreadable => replies::HEARTBEAT_UNREADABLE,
                    HeartbeatCheck::Works | HeartbeatCheck::Busy => replies::HEARTBEAT_WORKS,
                    HeartbeatCheck::Spent => replies::HEARTBEAT_OVER_BUDGET,
                },
                HeartbeatRequest::On if !is_on => replies::HEARTBEAT_OFF_BY_CONFIG,
                HeartbeatRequest::On => {
                    run::switch(store, None)?;
                    replies::HEARTBEAT_ON
                }
                HeartbeatRequest::Off => {
                    run::switch(store, Some(""))?;
                    replies::HEARTBEAT_OFF
                }
            };
            Ok(answer.to_owned())
        })
    }

    /// Wakes the tasks concerned after a request was carried out.
    pub fn wake_after(&self, request: HeartbeatRequest) {
        match request {
            HeartbeatRequest::Show => {}
            HeartbeatRequest::Now => self.services.bus.inbox.notify(),
            HeartbeatRequest::On | HeartbeatRequest::Off => self.switched.notify(),
        }
    }

    /// Returns the state of the heartbeat, and the outcomes of the last runs.
    pub async fn shown(&self, now: DateTime<Utc>) -> Result<HeartbeatShown, StoreError> {
        let read_state =
            move |store: &Connection| Ok((run::state(store, now)?, run::last_day(store, now)?));
        let (state, last_day) = self.services.bus.store.read(read_state).await?;
        let left = self.tokens_left().await?;
        let asks = self.watched().await.ok().map(|watched| watched.is_some());
        let has_somebody = self.recipient().await?.is_some();
        let next = *self.next.borrow();
        let local_now = now.with_timezone(&self.services.zone);
        let format_time = |at| replies::time_relative_to(local_now, at);
        Ok(HeartbeatShown {
            every_minutes: self.config.every.map(|every| every.as_secs() / 60),
            quiet: self.config.quiet.as_ref().map(ToString::to_string),
            off: state.off,
            next: next.map(format_time),
            asks,
            has_somebody,
            last: last_day.last.map(|(at, state, words)| (format_time(at), state, words)),
            counts: last_day.counts,
            tokens: (
                self.config.tokens_max - left.min(self.config.tokens_max),
                self.config.tokens_max,
            ),
        })
    }
}
