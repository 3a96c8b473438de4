//! What else must not take long: `/stop` beside searches, a start and pruning with much that is stored,
//! messages that wait to be delivered, many jobs, and what is left open after a peak. Each returns its rows of the
//! table: what, and how much.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use rusqlite::{Connection, OpenFlags};

use super::cases::Case;
use super::daemon::{Daemon, OWNER, configure};
use super::fakes::Fakes;
use super::people::{Model, Talk};
use super::stored::{Copied, History, Seed, fill, fill_jobs, open};
use crate::measure::Result;

/// How long something is waited for that must come.
const PATIENCE: Duration = Duration::from_secs(60);
/// Somebody who is no other person of the bench.
const GUEST: i64 = 4_000_001;

pub(crate) type Rows = Vec<(String, String)>;

/// Turns in the conversation that is searched.
const SEARCHED_TURNS: usize = 20_000;
/// Of 20 bytes, in each answer there: about as long as models write them.
const SEARCHED_SENTENCES: i64 = 100;
const SEARCHES: usize = 4;
/// Until the searches have begun.
const SEARCH_BEGINS: Duration = Duration::from_millis(200);

/// `/stop` in one chat while another one's searches run.
pub(crate) fn stop_beside_searches(seed: &mut Seed, fakes: &Fakes) -> Result<Rows> {
    let home = seed.home(0)?;
    let (oldest, newest) = (TimeDelta::days(60), TimeDelta::hours(1));
    let turns = SEARCHED_TURNS;
    fill(home.path(), &History { first_chat: OWNER, chats: 1, turns, oldest, newest })?;
    let store = open(home.path())?;
    let longer =
        "UPDATE steps SET text = text || replace(hex(zeroblob(?)), '00', ' Rope, salt and tea.')";
    store.execute(longer, [SEARCHED_SENTENCES])?;
    // As after compaction: the model sees the last turn only.
    store.execute(
        "UPDATE sessions SET summary = 'Tea, rope, sandpaper.',
         begins = (SELECT max(id) FROM turns WHERE session = sessions.id) WHERE chat = ?",
        [OWNER.to_string()],
    )?;
    drop(store);
    configure(home.path(), fakes, 16)?;
    let people = &fakes.people;
    people.forget();
    let daemon = Daemon::start(home.path())?;
    people.ask(OWNER, Model::Searches(1));
    let one = people.wait_until_called(OWNER, PATIENCE);
    people.wait_until_quiet(PATIENCE);
    people.ask(GUEST, Model::Hangs);
    people.wait_until_asked(GUEST, PATIENCE).ok_or("the guest's turn does not begin")?;
    people.ask(OWNER, Model::Searches(SEARCHES));
    people.wait_until_asked(OWNER, PATIENCE).ok_or("the searches do not begin")?;
    sleep(SEARCH_BEGINS);
    people.say(GUEST, "/stop");
    let stopped = people.wait_until_heard(GUEST, PATIENCE);
    people.release(GUEST);
    let all = people.wait_until_called(OWNER, PATIENCE);
    drop(daemon);
    people.forget();
    Ok(vec![
        (format!("one `memory_search` over {turns} turns of 2 kB"), shown(one)),
        (format!("{SEARCHES} at once"), shown(all)),
        (format!("`/stop` in another chat beside those {SEARCHES}"), shown(stopped)),
    ])
}

/// Nobody has a budget.
const NO_BUDGETS: &str = "[budgets.guest]\ntokens_per_month = 0\n";

/// All that can count for a guest's call, none of it ever used up. Prompts are the same as without.
const ALL_BUDGETS: &str = "\
[budgets.total]
tokens_per_day = 1000000000
dollars_per_day = 1000000
[budgets.guest]
tokens_per_day = 1000000000
tokens_per_month = 1000000000
[personas.everybody]
default = true
tokens_per_day = 1000000000
tokens_per_month = 1000000000
";

/// The same persona without budgets, as a persona alone changes prompts.
const PERSONA_ALONE: &str = "[personas.everybody]\ndefault = true\n";

/// Budgets are measured so often, one after the other, so that the machine's moods show.
const BUDGET_ROUNDS: usize = 3;

/// The cost of budgets: the same conversations without and with all kinds of them, by turns.
pub(crate) fn budgets(seed: &mut Seed, fakes: &Fakes, window: Duration) -> Result<Rows> {
    let case = Case::new(10, 16);
    let without = format!("{NO_BUDGETS}{PERSONA_ALONE}");
    let mut figures = Rows::new();
    for round in 1..=BUDGET_ROUNDS {
        for (what, budgets) in [("without budgets", &*without), ("with six", ALL_BUDGETS)] {
            let home = case.home(seed)?;
            let figure = case.with_budgets(home.path(), fakes, window, budgets)?;
            fakes.people.forget();
            figures.push((format!("guests {what}, round {round}"), figure));
        }
    }
    Ok(figures)
}

const STARTS: usize = 3;

/// From the start of the process to ready, with nothing and with so many rows stored.
pub(crate) fn start(seed: &mut Seed, fakes: &Fakes, rows: usize) -> Result<Rows> {
    let mut figures = Rows::new();
    for rows in [0, rows] {
        let home = seed.home(rows)?;
        configure(home.path(), fakes, 16)?;
        let mut times = Vec::new();
        for _ in 0..STARTS {
            let daemon = Daemon::start(home.path())?;
            times.push(daemon.ready);
            daemon.stop()?;
        }
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied();
        figures
            .push((format!("start → ready with {rows} rows (median of {STARTS})"), shown(median)));
    }
    Ok(figures)
}

/// How long pruning is watched.
const PRUNING_MAX: Duration = Duration::from_secs(20);
const PRUNING_LOOK: Duration = Duration::from_millis(50);
/// Between the answer and the next message of whoever talks meanwhile.
const PROBE_PAUSE: Duration = Duration::from_millis(20);

/// Runs of a job that are to be pruned: three weeks of one a minute.
const RUNS: usize = 30_000;
const FIRST_RUN: i64 = 6_000_000;

/// A start with so many rows, and one with many runs of jobs, that are to be pruned.
pub(crate) fn prune(seed: &mut Seed, fakes: &Fakes, rows: usize) -> Result<Rows> {
    let (oldest, newest) = (TimeDelta::days(400), TimeDelta::days(200));
    let home = seed.home(0)?;
    let copied = fill(home.path(), &History::of_others(rows, oldest, newest))?;
    let what = format!("{rows} rows to prune");
    let mut figures = watch_pruning(home.path(), fakes, &what, &copied)?;
    let home = seed.home(0)?;
    // Each run had a conversation of its own.
    let (first_chat, chats, turns) = (FIRST_RUN, RUNS, RUNS);
    let copied = fill(home.path(), &History { first_chat, chats, turns, oldest, newest })?;
    let (after, until) = copied.of("sessions");
    open(home.path())?.execute(
        "UPDATE sessions SET kind = 'job', closed = opened WHERE id > ? AND id <= ?",
        [after, until],
    )?;
    let what = format!("{RUNS} runs of a job to prune");
    figures.extend(watch_pruning(home.path(), fakes, &what, &copied)?);
    Ok(figures)
}

/// Starts a daemon with what was copied to be pruned, while somebody talks.
fn watch_pruning(home: &Path, fakes: &Fakes, what: &str, copied: &Copied) -> Result<Rows> {
    configure(home, fakes, 16)?;
    let people = &fakes.people;
    people.forget();
    let chats = GUEST..GUEST + 1;
    people.talk(&Talk { chats, at_once: 1, turns: 1, pause: PROBE_PAUSE });
    let begun = Instant::now();
    let daemon = Daemon::start(home)?;
    let ready = daemon.ready;
    let store = look_into(home)?;
    let mut left = left(&store, copied)?;
    while !left.is_empty() && begun.elapsed() < ready + PRUNING_MAX {
        sleep(PRUNING_LOOK);
        left = self::left(&store, copied)?;
    }
    let took = shown(Some(begun.elapsed()));
    people.hush();
    people.wait_until_quiet(PATIENCE);
    let measured = people.take_measured();
    drop(daemon);
    people.forget();
    let pruned = if left.is_empty() { took } else { format!("left: {}", left.join(", ")) };
    let waits = [measured.confirmed, measured.before, measured.after].map(|it| longest(&it));
    Ok(vec![
        (format!("start → ready with {what}"), shown(Some(ready))),
        ("start → all pruned".to_owned(), pruned),
        ("longest wait meanwhile: journal / model / sending".to_owned(), waits.join(" / ")),
    ])
}

fn look_into(home: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let store = Connection::open_with_flags(home.join("state.db"), flags)?;
    store.busy_timeout(PATIENCE)?;
    Ok(store)
}

/// The tables that still have one of the rows that were copied.
fn left(store: &Connection, copied: &Copied) -> Result<Vec<&'static str>> {
    let mut left = Vec::new();
    for table in ["inbound", "outbox", "turns", "ledger"] {
        let (after, until) = copied.of(table);
        let exists = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE id > ? AND id <= ?)");
        if store.query_row(&exists, [after, until], |row| row.get(0))? {
            left.push(table);
        }
    }
    Ok(left)
}

fn longest(times: &[Duration]) -> String {
    shown(times.iter().max().copied())
}

/// Messages that wait when the daemon starts, and their chats.
const WAITING: usize = 20_000;
const WAITING_CHATS: usize = 2_000;
/// How long they are watched.
const DRAIN_MAX: Duration = Duration::from_secs(30);
/// When the fresh chat speaks.
const FRESH_AFTER: Duration = Duration::from_secs(2);

/// Messages that wait to be delivered, and somebody new who speaks meanwhile.
pub(crate) fn drain(seed: &mut Seed, fakes: &Fakes) -> Result<Rows> {
    let home = seed.home(0)?;
    let (oldest, newest) = (TimeDelta::hours(2), TimeDelta::hours(1));
    let (first_chat, chats, turns) = (2_000_001, WAITING_CHATS, WAITING);
    let copied = fill(home.path(), &History { first_chat, chats, turns, oldest, newest })?;
    let (after, until) = copied.of("outbox");
    let store = open(home.path())?;
    store.execute("DELETE FROM chunks WHERE delivery > ? AND delivery <= ?", [after, until])?;
    let wait = "UPDATE outbox SET state = 'pending' WHERE id > ? AND id <= ?";
    store.execute(wait, [after, until])?;
    drop(store);
    configure(home.path(), fakes, 16)?;
    let people = &fakes.people;
    people.forget();
    let daemon = Daemon::start(home.path())?;
    let begun = Instant::now();
    people.take_measured();
    sleep(FRESH_AFTER);
    people.ask(GUEST, Model::Answers);
    let fresh = people.wait_until_heard(GUEST, DRAIN_MAX);
    let is_drained = people.wait_until_sent(WAITING, DRAIN_MAX.saturating_sub(begun.elapsed()));
    let seconds = begun.elapsed().as_secs_f64();
    let sends = people.take_measured().sends;
    drop(daemon);
    people.forget();
    let how_far = if is_drained { "all" } else { "not all" };
    let rate =
        format!("{:.0} sends/s ({how_far}: {sends} in {seconds:.1} s)", sends as f64 / seconds);
    let fresh = fresh.map_or(format!("not within {DRAIN_MAX:?}"), |time| shown(Some(time)));
    Ok(vec![
        (format!("drain of {WAITING} messages for {WAITING_CHATS} chats"), rate),
        ("answer to a fresh chat beside them".to_owned(), fresh),
    ])
}

const JOBS: usize = 10_000;
const JOBS_CASE: Case = Case::new(10, 16);
const JOBS_WINDOW: Duration = Duration::from_secs(3);

/// Turns while many jobs wait for their time.
pub(crate) fn jobs(seed: &mut Seed, fakes: &Fakes) -> Result<Rows> {
    let mut figures = Rows::new();
    for jobs in [1, JOBS] {
        let home = JOBS_CASE.home(seed)?;
        fill_jobs(home.path(), jobs - 1)?;
        let speed = JOBS_CASE.speed(home.path(), fakes, JOBS_WINDOW)?;
        figures.push((
            format!("{} chats, jobs that wait for their time: {jobs}", JOBS_CASE.chats),
            speed,
        ));
    }
    Ok(figures)
}

const PEAK: Case = Case::new(1_000, 256);
/// Until as many turns as may run have asked the model, which does not answer them yet.
const PEAK_BEGINS: Duration = Duration::from_secs(10);
const PEAK_LASTS: Duration = Duration::from_secs(3);
/// How long connections and memory are given to fall back.
const REST: Duration = Duration::from_secs(40);

/// What is open at a peak of turns, and some time after it.
pub(crate) fn peak(seed: &mut Seed, fakes: &Fakes) -> Result<Rows> {
    let home = seed.home(0)?;
    configure(home.path(), fakes, PEAK.turns_max)?;
    let people = &fakes.people;
    people.forget();
    let daemon = Daemon::start(home.path())?;
    let look = |when: &str| -> Result<(String, String)> {
        let files = daemon.open_files().map_or("–".to_owned(), |files| files.to_string());
        let memory = daemon.memory()? as f64 / 1e6;
        Ok((format!("open files, RSS {when}"), format!("{files}, {memory:.1} MB")))
    };
    let before = look("after the start")?;
    people.hang(true);
    people.talk(&PEAK.talk());
    people.wait_until_at_model(PEAK.turns_max, PEAK_BEGINS);
    let at_peak = look(&format!("with turns_max = {} and a model that hangs", PEAK.turns_max))?;
    people.hang(false);
    sleep(PEAK_LASTS);
    people.hush();
    people.wait_until_quiet(PATIENCE);
    sleep(REST);
    let rested = look(&format!("{} s after the last answer", REST.as_secs()))?;
    drop(daemon);
    people.forget();
    Ok(vec![before, at_peak, rested])
}

fn shown(time: Option<Duration>) -> String {
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    time.map_or(format!("not within {PATIENCE:?}"), ms)
}
