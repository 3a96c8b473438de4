//! Conversations under load: the cases, how one is measured, and its row of the table.

use std::path::Path;
use std::process;
use std::thread::sleep;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use tempfile::TempDir;

use super::daemon::{Daemon, Traced, configure, configure_with};
use super::fakes::Fakes;
use super::people::{Measured, Talk};
use super::stored::{History, Seed, fill};
use crate::measure::{Result, cpu_time};

const FIRST_CHAT: i64 = 1_000_001;
/// Conversations that are short stay so: there are at least so many, in which people talk in turn.
const CHATS_MIN: usize = 4_000;
const MESSAGES_FEW: usize = 100;

/// Until connections are open and caches are warm.
const WARM_UP: Duration = Duration::from_secs(2);
/// How long syncs are counted.
const TRACED: Duration = Duration::from_secs(2);
/// How long answers that are under way are waited for.
const QUIET_MAX: Duration = Duration::from_secs(3);

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) chats: usize,
    /// Seconds from an answer to the person's next message.
    pub(crate) pause: u64,
    pub(crate) turns_max: usize,
    /// In each conversation, before it is measured.
    pub(crate) messages: usize,
    /// Rows of other conversations in the store.
    pub(crate) rows: usize,
}

/// What was measured in one case.
struct Figures {
    seconds: f64,
    measured: Measured,
    cpu: Duration,
    fakes_cpu: Duration,
    written: Option<u64>,
    memory: u64,
    files: Option<usize>,
    /// Of a turn; none where strace may not trace.
    syncs: Option<f64>,
}

impl Case {
    pub(crate) const fn new(chats: usize, turns_max: usize) -> Self {
        Self { chats, pause: 0, turns_max, messages: 10, rows: 0 }
    }

    pub(crate) const HEADER: &str = "\
| chats | pause s | turns_max | messages | rows | turns/s | CPU ms/turn | before p50/p95/p99 ms \
| after p50/p95/p99 ms | said → heard p50/p95/p99 ms | syncs/turn | kB/turn | RSS MB | files | fakes ms/turn |
|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

    pub(crate) fn talk(&self) -> Talk {
        // Long conversations hardly grow while they are measured, and are too large to have many.
        let times = if self.messages > MESSAGES_FEW { 1 } else { (CHATS_MIN / self.chats).max(1) };
        let chats = i64::try_from(self.chats * times).unwrap_or(i64::MAX);
        Talk {
            chats: FIRST_CHAT..FIRST_CHAT + chats,
            at_once: self.chats,
            turns: self.messages.max(1) as u64,
            pause: Duration::from_secs(self.pause),
        }
    }

    /// Measures for `window` and returns the row.
    pub(crate) fn row(&self, seed: &mut Seed, fakes: &Fakes, window: Duration) -> Result<String> {
        let home = self.home(seed)?;
        let mut figures = self.run(home.path(), fakes, window)?;
        figures.syncs = self.syncs(home.path(), fakes).ok();
        Ok(self.describe(figures))
    }

    /// A home with the conversations and all else that is stored.
    pub(crate) fn home(&self, seed: &mut Seed) -> Result<TempDir> {
        let home = seed.home(self.rows)?;
        let chats = self.talk().chats.count();
        let history = History {
            first_chat: FIRST_CHAT,
            chats,
            turns: chats * self.messages / 2,
            oldest: TimeDelta::hours(2),
            newest: TimeDelta::hours(1),
        };
        fill(home.path(), &history)?;
        Ok(home)
    }

    /// Turns in a second, and milliseconds of CPU for each.
    pub(crate) fn speed(&self, home: &Path, fakes: &Fakes, window: Duration) -> Result<String> {
        let Figures { measured, seconds, cpu, .. } = self.run(home, fakes, window)?;
        let (turns, cpu) = (measured.turns as f64, cpu.as_secs_f64() * 1e3);
        Ok(format!("{:.0} turns/s, {:.2} ms CPU a turn", turns / seconds, cpu / turns))
    }

    /// Speed, CPU, bytes and syncs of a turn with these budgets.
    pub(crate) fn with_budgets(
        &self,
        home: &Path,
        fakes: &Fakes,
        window: Duration,
        budgets: &str,
    ) -> Result<String> {
        configure_with(home, fakes, self.turns_max, budgets)?;
        let Figures { measured, seconds, cpu, written, .. } = self.observe(home, fakes, window)?;
        let syncs = self.syncs(home, fakes).ok();
        let turns = measured.turns as f64;
        Ok(format!(
            "{:.0} turns/s, {:.3} ms CPU, {} kB, {} syncs a turn; {:.0} bytes a request",
            turns / seconds,
            cpu.as_secs_f64() * 1e3 / turns,
            shown(written.map(|bytes| format!("{:.1}", bytes as f64 / turns / 1e3))),
            shown(syncs.map(|syncs| format!("{syncs:.2}"))),
            measured.request_bytes as f64 / measured.requests.max(1) as f64,
        ))
    }

    fn run(&self, home: &Path, fakes: &Fakes, window: Duration) -> Result<Figures> {
        configure(home, fakes, self.turns_max)?;
        self.observe(home, fakes, window)
    }

    fn observe(&self, home: &Path, fakes: &Fakes, window: Duration) -> Result<Figures> {
        let daemon = Daemon::start(home)?;
        let figures = self.measure(&daemon, fakes, window);
        Ok(figures.map_err(|error| format!("{error}\n{}", daemon.log()))?)
    }

    fn measure(&self, daemon: &Daemon, fakes: &Fakes, window: Duration) -> Result<Figures> {
        let people = &fakes.people;
        people.forget();
        let talk = self.talk();
        people.talk(&talk);
        sleep(WARM_UP + talk.pause);
        let (before, ours_before) = (daemon.counters()?, cpu_time(process::id())?);
        people.take_measured();
        let begun = Instant::now();
        sleep(window);
        let (measured, seconds) = (people.take_measured(), begun.elapsed().as_secs_f64());
        let (after, ours_after) = (daemon.counters()?, cpu_time(process::id())?);
        let (memory, files) = (daemon.memory()?, daemon.open_files());
        people.hush();
        people.wait_until_quiet(QUIET_MAX);
        if measured.turns == 0 {
            return Err("no turn ended".into());
        }
        Ok(Figures {
            seconds,
            measured,
            cpu: after.cpu - before.cpu,
            fakes_cpu: ours_after - ours_before,
            written: after.written.zip(before.written).map(|(after, before)| after - before),
            memory,
            files,
            syncs: None,
        })
    }

    /// Counts the syncs of a second run, in which strace looks on.
    fn syncs(&self, home: &Path, fakes: &Fakes) -> Result<f64> {
        let people = &fakes.people;
        people.forget();
        let traced = Traced::start(home)?;
        let talk = self.talk();
        people.talk(&talk);
        sleep(WARM_UP + talk.pause);
        let before = traced.syncs()?;
        people.take_measured();
        sleep(TRACED);
        let (turns, after) = (people.take_measured().turns, traced.syncs()?);
        Ok((after - before) as f64 / turns.max(1) as f64)
    }

    fn describe(&self, figures: Figures) -> String {
        let Self { chats, pause, turns_max, messages, rows } = self;
        let Figures { seconds, measured, cpu, fakes_cpu, written, memory, files, syncs } = figures;
        let turns = measured.turns as f64;
        let each = |time: Duration| time.as_secs_f64() * 1e3 / turns;
        let [before, after, whole] =
            [measured.before, measured.after, measured.whole].map(percentiles);
        let written = shown(written.map(|bytes| format!("{:.0}", bytes as f64 / turns / 1e3)));
        let syncs = shown(syncs.map(|syncs| format!("{syncs:.2}")));
        let files = shown(files.map(|files| files.to_string()));
        format!(
            "| {chats} | {pause} | {turns_max} | {messages} | {rows} | {:.0} | {:.2} | {before} \
             | {after} | {whole} | {syncs} | {written} | {:.0} | {files} | {:.2} |",
            turns / seconds,
            each(cpu),
            memory as f64 / 1e6,
            each(fakes_cpu)
        )
    }
}

fn shown(figure: Option<String>) -> String {
    figure.unwrap_or_else(|| "–".to_owned())
}

/// The 50th, 95th and 99th percentile, in milliseconds.
fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |percent: usize| {
        let place = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(place).map_or("–".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1e3))
    };
    [50, 95, 99].map(at).join(" / ")
}
