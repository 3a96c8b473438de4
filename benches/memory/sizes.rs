//! Searches at different sizes of the index: time, and bytes on disk.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use fastrand::Rng;
use peacrab::memory::recall::query::{self, RecallQuery};
use peacrab::memory::recall::words::terms;
use peacrab::memory::recall::{self, RecallKey, RecallKind, RecallText};
use peacrab::store::{Store, Sync};
use rusqlite::Connection;

use crate::Done;

/// Words of the language that is made up. The n-th is said n times less often than the first (Zipf).
const VOCABULARY: usize = 30_000;

/// Words of an entry: some sentences.
const WORDS: usize = 30;

/// Persons whose entries lie in the index. Those of one are searched.
const PERSONS: usize = 4;

/// Entries that are written in one transaction.
const SLICE: usize = 5_000;

/// Searches of each kind.
const SEARCHES: usize = 500;

pub(crate) const HEADING: &str =
    "\n## Searches\n\n|entries|search|p50 ms|p99 ms|most ms|\n|--:|---|--:|--:|--:|";

/// Fills an index, searches, and prints the rows of a table.
pub(crate) async fn print(store: &Store, home: &Path, size: usize) -> Done {
    let mut random = Rng::with_seed(18);
    for first in (0..size).step_by(SLICE) {
        let count = SLICE.min(size - first);
        let texts: Vec<_> = (0..count).map(|_| sentence(&mut random, WORDS, 0)).collect();
        store.write("bench", Sync::Later, move |store| fill(store, first, &texts)).await?;
    }
    store.checkpoint().await;
    // The first words are the most common ones.
    for (name, words, least) in
        [("two rare words", 2, 2_000), ("eight words", 8, 0), ("a long message", 40, 0)]
    {
        let mut times = Vec::new();
        for _ in 0..SEARCHES {
            times.push(search(store, &sentence(&mut random, words, least)).await?);
        }
        row(size, name, times);
    }
    let mut times = Vec::new();
    for _ in 0..SEARCHES {
        times.push(search(store, "w1 w2 w3 w4").await?);
    }
    row(size, "four common words", times);
    let index = |store: &Connection| {
        let bytes = "SELECT sum(length(block)) FROM recall_index_data";
        let texts = "SELECT sum(length(text)) FROM recall_entries";
        Ok((number(store, bytes)?, number(store, texts)?))
    };
    let (index, texts) = store.read(index).await?;
    let database = fs::metadata(home.join("state.db"))?.len();
    let status = fs::read_to_string("/proc/self/status")?;
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    println!(
        "\n{size} entries: texts {} kB, words in the index {} kB, whole database {} kB; memory of the bench so far \
         {}.\n",
        texts / 1_000,
        index / 1_000,
        database / 1_000,
        most.trim()
    );
    Ok(())
}

fn number(store: &Connection, sql: &str) -> rusqlite::Result<u64> {
    store.query_row(sql, [], |row| row.get(0))
}

fn row(size: usize, name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1_000.0;
    println!("|{size}|{name}|{:.2}|{:.2}|{:.2}|", at(50), at(99), at(100));
}

/// Searches as one person, and returns how long it took.
async fn search(store: &Store, words: &str) -> Result<Duration, Box<dyn std::error::Error>> {
    let wanted = RecallQuery {
        keys: vec![key(0)],
        terms: terms(words),
        since: None,
        now: now(),
        limit: 5,
        needs_rare: false,
    };
    let look = move |store: &Connection| {
        let begun = Instant::now();
        query::search(store, &wanted)?;
        Ok(begun.elapsed())
    };
    Ok(store.read(look).await?)
}

/// Words of the language from a rank on.
fn sentence(random: &mut Rng, words: usize, least: usize) -> String {
    let spread = ((VOCABULARY - least) as f64).ln();
    let word = |random: &mut Rng| {
        let rank = (random.f64() * spread).exp() as usize + least;
        format!("w{rank}")
    };
    (0..words).map(|_| word(random)).collect::<Vec<_>>().join(" ")
}

fn key(person: usize) -> RecallKey {
    RecallKey::of_folder(&format!("bench {person}"))
}

fn now() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000)
}

fn fill(store: &Connection, first: usize, texts: &[String]) -> rusqlite::Result<()> {
    let keys: Vec<_> = (0..PERSONS).map(key).collect();
    for (at, text) in texts.iter().enumerate() {
        let number = first + at;
        let source = number as i64 + 1;
        let at = now() - TimeDelta::minutes(source % 500_000);
        let kind = RecallKind::Turn;
        recall::put(store, &RecallText { key: &keys[number % PERSONS], kind, source, at, text })?;
    }
    Ok(())
}
