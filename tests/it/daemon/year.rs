//! A year in fast motion. Between two months the daemon is stopped, and all times in the store become thirty days older. In
//! each month people talk, jobs are due, one thing happens that happens in a year, and the next one begins with the store of
//! a former version. In the end every message has its answer, once, and nothing is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use chrono::Utc;
use peacrab::replies;
use rusqlite::Connection;

use crate::support::binary::{Daemon, Ended, ProgramFixture, home, said, until};
use crate::support::bot_api::line::{ADA, BOB, Person};
use crate::support::bot_api::{BotApi, Fault, Sent};
use crate::support::disk::Disk;
use crate::support::former_store::{BASE, OLDEST_BACK, go_back, make_store, newest};

const MONTH_MS: i64 = 30 * 24 * 3600 * 1000;

/// Times are in milliseconds; these are of the years 2020 to 2060.
const TIMES: std::ops::Range<i64> = 1_577_000_000_000..2_840_000_000_000;

/// The line above a message of which nobody knows whether it has arrived before.
const MARK: &str = "(perhaps sent twice)";

/// What a message of the job that appends a line to a file has in it.
const TIDE: &str = "tide.md (now ";

const REMINDER: &str = "Renew the passport.";

/// The month in which the reminder is late: it was wished for after 75 days.
const REMINDED_IN: usize = 3;

/// What happens in a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Reload,
    /// Connections are cut in the middle of polls.
    PollsCut,
    /// A connection is cut while a message is sent.
    SendCut,
    Kill,
    Undo,
    Restore,
    FullDisk,
    Restart,
}

const EVENTS: [Event; 12] = [
    Event::Reload,
    Event::PollsCut,
    Event::FullDisk,
    Event::Kill,
    Event::Restore,
    Event::SendCut,
    Event::Restart,
    Event::Undo,
    Event::FullDisk,
    Event::Kill,
    Event::SendCut,
    Event::Restore,
];

/// A message of a person, which is repeated to them.
struct SaidLine {
    by: Person,
    text: String,
}

/// The bot, its people, and what was said.
struct Year {
    fixture: ProgramFixture,
    api: BotApi,
    /// A disk of its own, where one can be mounted.
    disk: Option<Disk>,
    said: Vec<SaidLine>,
    /// The messages whose answers may have come twice, because a kill or a cut connection left open if they had arrived.
    unclear: BTreeSet<String>,
}

impl Year {
    async fn begin_daemon(&self) -> Daemon {
        let daemon = match &self.disk {
            Some(disk) => disk.begin(&self.fixture),
            None => self.fixture.begin(self.fixture.command(&[], &["run"])),
        };
        until("the daemon to start", async || daemon.log().contains("Started").then_some(())).await;
        daemon
    }

    async fn run(&self, args: &[&str]) -> Ended {
        let ended = match &self.disk {
            Some(disk) => {
                let wrapper = disk.wrapper();
                let wrapper: Vec<&OsStr> = wrapper.iter().map(AsRef::as_ref).collect();
                self.fixture.run_with(self.fixture.command(&wrapper, args), "").await
            }
            None => self.fixture.run(args).await,
        };
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
        ended
    }

    /// The home, as it is seen from here.
    fn home(&self) -> PathBuf {
        self.disk.as_ref().map_or_else(|| self.fixture.home(), |disk| disk.home.clone())
    }

    /// A file of the owner's workspace.
    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.home().join("workspace").join(name)).unwrap()
    }

    /// The files of the store, of which the second may be missing after an orderly end.
    fn store_files(&self) -> [PathBuf; 2] {
        ["state.db", "state.db-wal"].map(|name| self.home().join(name))
    }

    /// Works on a copy of the store, while no daemon runs: SQLite does not find a file on the disk of another mount
    /// namespace.
    fn with_copy<T>(&self, work: impl FnOnce(&Connection) -> T) -> T {
        let copies = ["copy.db", "copy.db-wal"].map(|name| self.fixture.folder().join(name));
        for (file, copy) in self.store_files().iter().zip(&copies) {
            fs::remove_file(copy).ok();
            if file.exists() {
                fs::copy(file, copy).unwrap();
            }
        }
        work(&Connection::open(&copies[0]).unwrap())
    }

    /// Changes the store, while no daemon runs.
    fn change_store(&self, change: impl FnOnce(&Connection)) {
        self.with_copy(|store| {
            change(store);
            store.pragma_update(None, "journal_mode", "delete").unwrap();
        });
        self.put_store(&self.fixture.folder().join("copy.db"));
    }

    fn put_store(&self, made: &Path) {
        let [store, log] = self.store_files();
        fs::remove_file(log).ok();
        fs::copy(made, store).unwrap();
    }

    /// Somebody writes; the answer may come later.
    fn say(&mut self, by: &Person, words: &str) {
        let text = format!("{words} {}", self.said.len());
        self.api.say(&said(by, &text));
        self.said.push(SaidLine { by: by.clone(), text });
    }

    /// Waits for the answers to the last messages.
    async fn hear(&self, count: usize) {
        for SaidLine { by, text } in &self.said[self.said.len() - count..] {
            self.api.wait_for_words(by.id, &format!("You said: {text}\n")).await;
        }
    }

    async fn ask(&mut self, by: &Person, words: &str) {
        self.say(by, words);
        self.hear(1).await;
    }

    /// Somebody gives an order, which is not repeated to them. Waits for the answer with these words.
    async fn order(&self, by: &Person, order: &str, answer: &str) {
        let before = self.heard(by, answer);
        self.api.say(&said(by, order));
        until(answer, async || (self.heard(by, answer) > before).then_some(())).await;
    }

    /// Counts the messages to somebody with these words, of those that came once for sure.
    fn heard(&self, by: &Person, words: &str) -> usize {
        let is_one = |sent: &&Sent| {
            sent.chat == by.id && sent.text.contains(words) && !sent.text.starts_with(MARK)
        };
        self.api.sent().iter().filter(is_one).count()
    }

    /// Waits until the owner has heard of all that was due by the beginning of a month.
    async fn hear_of_jobs(&self, month: usize) {
        until("the jobs of the month", async || {
            let is_reminded = month < REMINDED_IN || self.heard(&ADA, "(This was due ") == 1;
            let all = [TIDE, "Low tide."].map(|words| self.heard(&ADA, words) == month);
            (is_reminded && all == [true; 2]).then_some(())
        })
        .await;
    }

    /// Thirty days pass, as far as the store knows.
    fn let_a_month_pass(&self) {
        self.change_store(|store| {
            // A search index has tables of its own, whose numbers are no times.
            let tables = "WITH indices AS (SELECT name FROM sqlite_schema WHERE sql LIKE '%VIRTUAL%')
                          SELECT name FROM sqlite_schema AS it WHERE type = 'table' AND name NOT LIKE 'sqlite%'
                          AND NOT EXISTS (SELECT 1 FROM indices WHERE it.name = indices.name
                                          OR it.name LIKE indices.name || '!_%' ESCAPE '!')";
            let columns = |table: &str| {
                texts(store, &format!("SELECT name FROM pragma_table_info('{table}')"))
            };
            let all = texts(store, tables).into_iter().flat_map(|table| {
                columns(&table).into_iter().map(move |column| (table.clone(), column))
            });
            let pass = all.map(|(table, column)| {
                let pass = format!(
                    "UPDATE {table} SET {column} = {column} - {MONTH_MS}
                     WHERE typeof({column}) = 'integer' AND {column} BETWEEN {} AND {}",
                    TIMES.start, TIMES.end
                );
                store.execute(&pass, []).unwrap()
            });
            let changed: usize = pass.sum();
            assert!(changed > 0, "no time has passed");
            // The one time that is a text. Jobs that repeat do so in days, of which thirty have passed.
            let reminders = "UPDATE jobs SET timing = json_set(timing, '$.at',
                                 strftime('%Y-%m-%dT%H:%M:%SZ', json_extract(timing, '$.at'), '-30 days'))
                             WHERE json_extract(timing, '$.at') IS NOT NULL";
            store.execute(reminders, []).unwrap();
        });
    }

    /// A former version leaves the store: the next start brings it up to date.
    fn go_back(&self, month: usize) {
        let version = newest() - 1 - u32::try_from(month).unwrap();
        self.change_store(|store| go_back(store, version.max(OLDEST_BACK)));
    }

    /// What people set up in the first month.
    async fn set_up(&self) {
        self.order(&ADA, "/remember I like tea with lemon.", "I'll remember (#").await;
        self.order(&BOB, "/remember I sail on Sundays.", "I'll remember (#").await;
        self.order(&ADA, "write a crab to crab.md", "crab.md (now ").await;
        self.order(&BOB, "write red sails to boat.md", "boat.md (now ").await;
        self.order(&ADA, "/jobs add every 30d | append tide to tide.md", "Created: job 1").await;
        self.order(&ADA, "/jobs message every 1d | Low tide.", "Created: job 2").await;
        let reminder = format!("/jobs message 75d | {REMINDER}");
        self.order(&ADA, &reminder, "Created: job 3").await;
    }

    /// Reads the config again with a limit, which counts, and once more without it.
    async fn reload(&mut self, daemon: &Daemon) {
        let file = self.fixture.folder().join("config.toml");
        let limits = "[limits]\nmessages_per_minute = ";
        let started = async |times: usize| {
            until("the next daemon", async || {
                (daemon.log().matches("Started").count() == times).then_some(())
            })
            .await;
        };
        self.say(&ADA, "before the reload");
        fs::write(&file, format!("{}{limits}1\n", home(&self.api))).unwrap();
        self.run(&["reload"]).await;
        self.hear(1).await;
        started(2).await;
        self.ask(&BOB, "with a limit").await;
        self.order(&BOB, "too much", &replies::too_fast(1)).await;
        fs::write(&file, home(&self.api)).unwrap();
        self.run(&["reload"]).await;
        started(3).await;
        self.ask(&BOB, "without a limit").await;
    }

    async fn fill_disk(&mut self, daemon: &Daemon) {
        let Some(disk) = &self.disk else { return };
        let before = self.heard(&ADA, replies::DISK_IS_FULL);
        // The answer to a message before may have been heard, and can't be noted as sent on the full disk.
        self.unclear.extend(self.said.iter().rev().take(3).map(|it| it.text.clone()));
        disk.fill();
        self.say(&ADA, "on the full disk");
        until("the word about the disk", async || {
            let is_told = self.heard(&ADA, replies::DISK_IS_FULL) > before;
            (is_told || daemon.log().contains("disk")).then_some(())
        })
        .await;
        self.disk.as_ref().unwrap().make_room();
        self.hear(1).await;
    }

    async fn restore(&mut self, month: usize, daemon: Daemon) -> Daemon {
        let file = self.fixture.folder().join(format!("backup-{month}.tar.gz"));
        let file = file.to_str().unwrap();
        self.run(&["backup", file]).await;
        self.ask(&ADA, "after the backup").await;
        assert!(daemon.terminate().await.success());
        self.run(&["restore", file, "--replace"]).await;
        // What was there before would fill the small disk.
        for entry in fs::read_dir(self.home()).unwrap().map(Result::unwrap) {
            if entry.file_name().to_string_lossy().starts_with("before-restore-") {
                fs::remove_dir_all(entry.path()).unwrap();
            }
        }
        let daemon = self.begin_daemon().await;
        self.ask(&ADA, "after the restore").await;
        daemon
    }

    /// Undoes the last change of a file by its number, which the store tells after an end.
    async fn undo(&self, name: &str, number: &str) {
        let undone = format!("{name} is as it was before.");
        self.order(&ADA, &format!("/undo {number}"), &undone).await;
        assert_eq!(self.file(name), "first\n");
    }

    async fn write_twice(&self, name: &str) {
        for content in ["first", "second"] {
            let answer = format!("{name} (now ");
            self.order(&ADA, &format!("write {content} to {name}"), &answer).await;
        }
    }

    /// The number of the last change of a file.
    fn last_change(&self, name: &str) -> String {
        let numbers = format!(
            "SELECT CAST(max(id) AS TEXT) FROM calls WHERE tool = 'write_file' AND arguments LIKE '%{name}%'"
        );
        self.with_copy(|store| texts(store, &numbers)).remove(0)
    }

    /// Carries out an event, while the daemon runs. Returns the daemon that runs afterwards.
    async fn happen(&mut self, event: Event, month: usize, daemon: Daemon) -> Daemon {
        match event {
            Event::Reload => {
                self.reload(&daemon).await;
                daemon
            }
            Event::PollsCut => {
                self.api.fail("getUpdates", 2, &Fault::CutAfter);
                self.ask(&ADA, "before the polls are cut").await;
                self.say(&ADA, "while the polls are cut");
                self.say(&BOB, "while the polls are cut");
                self.hear(2).await;
                daemon
            }
            Event::SendCut => {
                self.api.fail("sendMessage", 1, &Fault::CutAfter);
                self.say(&ADA, "while a send is cut");
                let text = self.said.last().unwrap().text.clone();
                self.api.wait_for_words(ADA.id, &format!("{MARK}\nYou said: {text}\n")).await;
                self.unclear.insert(text);
                daemon
            }
            Event::FullDisk => {
                self.fill_disk(&daemon).await;
                daemon
            }
            Event::Kill => {
                self.say(&ADA, "just before the power cut");
                // The answer to a message before may have been heard, and not yet be noted as sent.
                self.unclear.extend(self.said.iter().rev().take(3).map(|it| it.text.clone()));
                daemon.kill().await;
                let daemon = self.begin_daemon().await;
                self.hear(1).await;
                daemon
            }
            Event::Undo => {
                self.write_twice("draft.md").await;
                assert!(daemon.terminate().await.success());
                let number = self.last_change("draft.md");
                let daemon = self.begin_daemon().await;
                self.undo("draft.md", &number).await;
                daemon
            }
            Event::Restore => self.restore(month, daemon).await,
            Event::Restart => {
                self.ask(&BOB, "before the restart").await;
                assert!(daemon.terminate().await.success());
                self.begin_daemon().await
            }
        }
    }

    /// One month, from the start of the daemon to its end.
    async fn live(&mut self, month: usize, event: Event) {
        // Telegram begins anew with its numbers after quiet weeks.
        self.api.pass_a_week(1_000 * (1 + i64::try_from(month).unwrap()));
        let daemon = self.begin_daemon().await;
        self.ask(&ADA, "good morning").await;
        self.ask(&BOB, "ahoy").await;
        if month == 0 {
            self.set_up().await;
        }
        self.hear_of_jobs(month).await;
        let daemon = self.happen(event, month, daemon).await;
        self.ask(&ADA, "good night").await;
        if month + 1 == EVENTS.len() {
            self.write_twice("letter.md").await;
        }
        assert!(daemon.terminate().await.success());
    }

    /// All that was set up is there, and of use.
    async fn look_around(&self, months: usize) {
        let change = self.last_change("letter.md");
        let daemon = self.begin_daemon().await;
        self.undo("letter.md", &change).await;
        self.order(&ADA, "read crab.md", "a crab").await;
        self.order(&BOB, "read boat.md", "red sails").await;
        self.order(&BOB, "/memory", "I sail on Sundays").await;
        let facts = self.run(&["memory", "--json"]).await.out;
        assert!(facts.contains("I like tea with lemon.") && !facts.contains("sail"), "{facts}");
        self.hear_of_jobs(months - 1).await;
        assert_eq!(self.file("tide.md"), "tide\n".repeat(months - 1));
        assert_eq!(self.file("crab.md"), "a crab\n");
        assert!(daemon.terminate().await.success());
    }

    /// Each message has its answer, once. Where nobody could know if it had arrived, there may be another one, marked.
    fn check_answers(&self) {
        let mut answers: BTreeMap<(i64, String), [usize; 2]> = BTreeMap::new();
        for Sent { chat, text, .. } in self.api.sent() {
            let Some((before, said)) = text.split_once("You said: ") else { continue };
            let said = said.lines().next().unwrap().to_owned();
            let [clear, marked] = answers.entry((chat, said)).or_default();
            *(if before.starts_with(MARK) { marked } else { clear }) += 1;
        }
        for SaidLine { by, text } in &self.said {
            let found = answers.remove(&(by.id, text.clone())).unwrap_or_default();
            let is_right = match found {
                [1, 0] => true,
                [1, 1] | [0, 1] => self.unclear.contains(text),
                _ => false,
            };
            assert!(is_right, "{} said {text}: {found:?}", by.name);
        }
        assert!(answers.is_empty(), "nobody said {answers:?}");
    }
}

fn texts(store: &Connection, sql: &str) -> Vec<String> {
    let mut rows = store.prepare(sql).unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn in_a_year_of_trouble_every_message_is_answered_once_and_nothing_is_lost() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let disk = Disk::of(&fixture).await;
    let mut year = Year { fixture, api, disk, said: Vec::new(), unclear: BTreeSet::new() };
    // It begins with the store of the oldest version, in which somebody has talked.
    fs::create_dir_all(year.home()).unwrap();
    fs::set_permissions(year.home(), fs::Permissions::from_mode(0o700)).unwrap();
    let oldest = year.fixture.folder().join("oldest");
    make_store(&oldest, BASE);
    year.put_store(&oldest.join("state.db"));
    for (month, event) in EVENTS.into_iter().enumerate() {
        Box::pin(year.live(month, event)).await;
        if month + 1 < EVENTS.len() {
            year.let_a_month_pass();
        }
        year.go_back(month);
    }
    Box::pin(year.look_around(EVENTS.len())).await;

    year.check_answers();
    assert_eq!(year.heard(&ADA, &format!("\n{REMINDER}")), 1, "{:?}", year.api.sent());
    // The old is gone or whole, and nothing waits.
    year.with_copy(|store| {
        assert_eq!(texts(store, "PRAGMA integrity_check"), ["ok"]);
        assert!(texts(store, "SELECT \"table\" FROM pragma_foreign_key_check").is_empty());
        assert!(
            texts(store, "SELECT key FROM inbound WHERE state IN ('waiting', 'in turn')")
                .is_empty()
        );
        assert!(texts(store, "SELECT chat FROM outbox WHERE state = 'pending'").is_empty());
        // Each due time has one run, which came to its end.
        let runs = "SELECT job || ' ' || state || ' ' || count(*) FROM tasks WHERE job IN (1, 2)
                    GROUP BY job, state ORDER BY job, state";
        let expected = [1, 2].map(|job| format!("{job} done {}", EVENTS.len() - 1));
        assert_eq!(texts(store, runs), expected);
        let oldest = store.query_row("SELECT min(received) FROM inbound", [], |row| row.get(0));
        let oldest: i64 = oldest.unwrap();
        assert!(Utc::now().timestamp_millis() - oldest > MONTH_MS, "the months did not pass");
    });
}
