//! Conversations under load: the cases, how one is measured, and its row of the table.

use std::ops::Range;
use std::path::Path;
use std::process;
use std::thread::sleep;
use std::time::{Duration, Instant};

use chrono::TimeDelta;

use super::daemon::{Daemon, Traced, configure};
use super::fakes::Fakes;
use super::people::Measured;
use super::stored::{History, Seed, fill};
use crate::measure::{Result, cpu_time};

const FIRST_CHAT: i64 = 1_000_001;

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
| after p50/p95/p99 ms | both p50/p95/p99 ms | syncs/turn | kB/turn | RSS MB | files | fakes ms/turn |
|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

    pub(crate) fn chats(&self) -> Range<i64> {
        FIRST_CHAT..FIRST_CHAT + i64::try_from(self.chats).unwrap_or(i64::MAX)
    }

    /// Measures for `window` and returns the row.
    pub(crate) fn row(&self, seed: &mut Seed, fakes: &Fakes, window: Duration) -> Result<String> {
        let home = seed.home(self.rows)?;
        let history = History {
            first_chat: FIRST_CHAT,
            chats: self.chats,
            turns: self.chats * self.messages / 2,
            oldest: TimeDelta::hours(2),
            newest: TimeDelta::hours(1),
        };
        fill(home.path(), &history)?;
        configure(home.path(), fakes, self.turns_max)?;
        let daemon = Daemon::start(home.path())?;
        let figures = self.measure(&daemon, fakes, window);
        let log = daemon.log();
        drop(daemon);
        let mut figures = figures.map_err(|error| format!("{error}\n{log}"))?;
        figures.syncs = self.syncs(home.path(), fakes).ok();
        fakes.people.forget();
        Ok(self.describe(figures))
    }

    fn measure(&self, daemon: &Daemon, fakes: &Fakes, window: Duration) -> Result<Figures> {
        let people = &fakes.people;
        people.forget();
        let pause = Duration::from_secs(self.pause);
        people.talk(self.chats(), pause);
        sleep(WARM_UP + pause);
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
        let traced = Traced::start(home)?;
        people.forget();
        let pause = Duration::from_secs(self.pause);
        people.talk(self.chats(), pause);
        sleep(TRACED + pause);
        people.hush();
        people.wait_until_quiet(QUIET_MAX);
        let turns = people.take_measured().turns;
        Ok(traced.count()? as f64 / turns.max(1) as f64)
    }

    fn describe(&self, figures: Figures) -> String {
        let Self { chats, pause, turns_max, messages, rows } = self;
        let Figures { seconds, measured, cpu, fakes_cpu, written, memory, files, syncs } = figures;
        let turns = measured.turns as f64;
        let each = |time: Duration| time.as_secs_f64() * 1e3 / turns;
        let [before, after, both] =
            [measured.before, measured.after, measured.both].map(percentiles);
        let written = shown(written.map(|bytes| format!("{:.0}", bytes as f64 / turns / 1e3)));
        let syncs = shown(syncs.map(|syncs| format!("{syncs:.2}")));
        let files = shown(files.map(|files| files.to_string()));
        format!(
            "| {chats} | {pause} | {turns_max} | {messages} | {rows} | {:.0} | {:.2} | {before} \
             | {after} | {both} | {syncs} | {written} | {:.0} | {files} | {:.2} |",
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
