//! Prints what the real daemon does under load, as Markdown: it runs as a child between a fake of
//! Telegram and a fake of a model API, which answer at once. It asserts nothing; times depend on the
//! machine, and on what else runs there, while counts (syncs, bytes, CPU) hardly do.
//!
//! `cargo bench --bench load` takes about ten minutes, `-- quick` two or three. Further words choose:
//! `cases`, `budgets`, `stop`, `start`, `prune`, `drain`, `jobs`, `peak`; among the cases `chats=10`, `pause=2`,
//! `turns_max=256`, `messages=5000`, `rows=1000000`; and `seconds=5` is how long each is measured.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use std::env;
use std::time::Duration;

#[path = "load/cases.rs"]
mod cases;
#[path = "load/daemon.rs"]
mod daemon;
#[path = "load/fakes.rs"]
mod fakes;
#[path = "load/http.rs"]
mod http;
mod measure;
#[path = "load/people.rs"]
mod people;
#[path = "load/scenarios.rs"]
mod scenarios;
#[path = "load/stored.rs"]
mod stored;

use cases::Case;
use fakes::Fakes;
use measure::Result;
use scenarios::Rows;
use stored::Seed;

/// Many rows, and how many a quick run has in their place.
const ROWS: usize = 1_000_000;
const ROWS_QUICK: usize = 60_000;

const SECONDS: u64 = 5;
const SECONDS_QUICK: u64 = 2;

const CASES: &[Case] = &[
    Case::new(1, 16),
    Case::new(10, 16),
    Case::new(100, 16),
    Case::new(1_000, 16),
    Case::new(1, 256),
    Case::new(10, 256),
    Case::new(100, 256),
    Case::new(1_000, 256),
    Case { pause: 2, ..Case::new(100, 16) },
    Case { pause: 2, ..Case::new(1_000, 256) },
    Case { messages: 5_000, ..Case::new(1, 16) },
    Case { messages: 5_000, ..Case::new(10, 16) },
    Case { messages: 5_000, ..Case::new(100, 256) },
    Case { rows: ROWS, ..Case::new(1, 16) },
    Case { rows: ROWS, ..Case::new(10, 16) },
    Case { rows: ROWS, ..Case::new(100, 256) },
    Case { rows: ROWS, ..Case::new(1_000, 16) },
    Case { rows: ROWS, messages: 5_000, ..Case::new(10, 16) },
];

const CASES_QUICK: &[Case] = &[
    Case::new(1, 16),
    Case::new(10, 16),
    Case::new(100, 256),
    Case { rows: ROWS, ..Case::new(10, 16) },
];

fn main() -> Result<()> {
    let wish = Wish::parse(env::args().skip(1))?;
    let fakes = Fakes::start()?;
    let mut seed = Seed::plant(&fakes)?;
    if wish.wants("cases") {
        println!("{}", Case::HEADER);
        for case in wish.cases() {
            match case.row(&mut seed, &fakes, wish.window) {
                Ok(row) => println!("{row}"),
                Err(why) => println!("\n{case:?} was not measured: {why}\n"),
            }
            fakes.people.forget();
        }
    }
    println!("\n| scenario | measured |\n|---|--:|");
    let rows = wish.rows;
    wish.print("budgets", || scenarios::budgets(&mut seed, &fakes, wish.window));
    wish.print("stop", || scenarios::stop_beside_searches(&mut seed, &fakes));
    wish.print("start", || scenarios::start(&mut seed, &fakes, rows));
    wish.print("prune", || scenarios::prune(&mut seed, &fakes, rows));
    wish.print("drain", || scenarios::drain(&mut seed, &fakes));
    wish.print("jobs", || scenarios::jobs(&mut seed, &fakes));
    if !wish.is_quick || wish.parts.iter().any(|part| part == "peak") {
        wish.print("peak", || scenarios::peak(&mut seed, &fakes));
    }
    Ok(())
}

/// What the command line asks for.
struct Wish {
    is_quick: bool,
    /// The parts by name; empty: all.
    parts: Vec<String>,
    /// What a case must have, by the names of the table's columns.
    filters: Vec<(String, usize)>,
    window: Duration,
    /// In the place of [`ROWS`].
    rows: usize,
}

impl Wish {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self> {
        // Cargo passes `--bench`.
        let words: Vec<_> = words.filter(|word| word != "--bench").collect();
        let is_quick = words.iter().any(|word| word == "quick");
        let (seconds, rows) = if is_quick { (SECONDS_QUICK, ROWS_QUICK) } else { (SECONDS, ROWS) };
        let window = Duration::from_secs(seconds);
        let (parts, filters) = (Vec::new(), Vec::new());
        let mut wish = Self { is_quick, parts, filters, window, rows };
        for word in words {
            match (word.as_str(), word.split_once('=')) {
                ("quick", _) => {}
                (
                    "cases" | "budgets" | "stop" | "start" | "prune" | "drain" | "jobs" | "peak",
                    _,
                ) => {
                    wish.parts.push(word);
                }
                (_, Some(("seconds", value))) => wish.window = Duration::from_secs(value.parse()?),
                (_, Some((key, value)))
                    if matches!(key, "chats" | "pause" | "turns_max" | "messages" | "rows") =>
                {
                    wish.filters.push((key.to_owned(), value.parse()?));
                }
                _ => {
                    return Err(
                        format!("cannot read `{word}`; benches/load.rs lists the words").into()
                    );
                }
            }
        }
        Ok(wish)
    }

    fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }

    fn cases(&self) -> impl Iterator<Item = Case> {
        let cases = if self.is_quick { CASES_QUICK } else { CASES };
        let cases = cases.iter().map(|case| Case {
            rows: if case.rows == ROWS { self.rows } else { case.rows },
            ..*case
        });
        cases.filter(|case| self.filters.iter().all(|(key, value)| has(case, key) == *value))
    }

    /// Prints the rows of a scenario, if it is wanted.
    fn print(&self, part: &str, measure: impl FnOnce() -> Result<Rows>) {
        if !self.wants(part) {
            return;
        }
        match measure() {
            Ok(rows) => rows.iter().for_each(|(what, figure)| println!("| {what} | {figure} |")),
            Err(why) => println!("\n`{part}` was not measured: {why}\n"),
        }
    }
}

/// What the column of that name says of a case.
fn has(case: &Case, column: &str) -> usize {
    match column {
        "chats" => case.chats,
        "pause" => usize::try_from(case.pause).unwrap_or(usize::MAX),
        "turns_max" => case.turns_max,
        "messages" => case.messages,
        _ => case.rows,
    }
}
