//! A year in fast motion. Between two months the daemon is stopped, and all times in the store become thirty days older. In
//! each month somebody talks, and one thing happens that happens in a year. In the end every message has its answer, once.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use chrono::Utc;
use peacrab::replies;
use rusqlite::Connection;

use crate::support::binary::{Daemon, Ended, ProgramFixture, home, said, until};
use crate::support::bot_api::line::ADA;
use crate::support::bot_api::{BotApi, Fault};
use crate::support::disk::Disk;

const MONTH_MS: i64 = 30 * 24 * 3600 * 1000;

/// Times are in milliseconds; these are of the years 2020 to 2060.
const TIMES: std::ops::Range<i64> = 1_577_000_000_000..2_840_000_000_000;

/// What happens in a month.
#[derive(Clone, Copy, Debug)]
enum Event {
    Reload,
    Kill,
    NetworkCut,
    Restore,
    FullDisk,
    Restart,
}

const EVENTS: [Event; 6] = [
    Event::Reload,
    Event::NetworkCut,
    Event::FullDisk,
    Event::Kill,
    Event::Restore,
    Event::Restart,
];

/// The bot, its owner, and what was said.
struct Year {
    fixture: ProgramFixture,
    api: BotApi,
    /// A disk of its own, where one can be mounted.
    disk: Option<Disk>,
    said: Vec<String>,
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

    /// The files of the store, of which the second may be missing after an orderly end.
    fn store_files(&self) -> [PathBuf; 2] {
        let home = self.disk.as_ref().map_or_else(|| self.fixture.home(), |disk| disk.home.clone());
        ["state.db", "state.db-wal"].map(|name| home.join(name))
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

    /// Ada writes; the answer may come later.
    fn say(&mut self, words: &str) {
        let text = format!("{words} {}", self.said.len());
        self.api.say(&said(&ADA, &text));
        self.said.push(text);
    }

    async fn hear(&self) {
        let last = self.said.last().unwrap();
        self.api.wait_for_words(ADA.id, &format!("You said: {last}\n")).await;
    }

    async fn ask(&mut self, words: &str) {
        self.say(words);
        self.hear().await;
    }

    /// Thirty days pass, as far as the store knows.
    fn let_a_month_pass(&self) {
        // A search index has tables of its own, whose numbers are no times.
        let tables = "WITH indices AS (SELECT name FROM sqlite_schema WHERE sql LIKE '%VIRTUAL%')
                      SELECT name FROM sqlite_schema AS it WHERE type = 'table' AND name NOT LIKE 'sqlite%'
                      AND NOT EXISTS (SELECT 1 FROM indices WHERE it.name = indices.name
                                      OR it.name LIKE indices.name || '!_%' ESCAPE '!')";
        let changed: usize = self.with_copy(|store| {
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
            let changed = pass.sum();
            store.pragma_update(None, "journal_mode", "delete").unwrap();
            changed
        });
        assert!(changed > 0, "no time has passed");
        let [store, log] = self.store_files();
        fs::remove_file(log).ok();
        fs::copy(self.fixture.folder().join("copy.db"), store).unwrap();
    }

    /// Carries out an event, while the daemon runs. Returns the daemon that runs afterwards.
    async fn happen(&mut self, event: Event, month: usize, daemon: Daemon) -> Daemon {
        match event {
            Event::Reload => {
                let config = format!("[agent]\nsteps_max = {}\n{}", 10 + month, home(&self.api));
                fs::write(self.fixture.folder().join("config.toml"), config).unwrap();
                self.say("before the reload");
                self.run(&["reload"]).await;
                self.hear().await;
                daemon
            }
            Event::NetworkCut => {
                self.api.fail("getUpdates", 3, &Fault::Status(502));
                self.ask("while the network is cut").await;
                daemon
            }
            Event::FullDisk => {
                let Some(disk) = &self.disk else { return daemon };
                disk.fill();
                self.say("on the full disk");
                let full = |year: &Self| {
                    let sent = year.api.sent();
                    sent.iter().filter(|sent| sent.text == replies::DISK_IS_FULL).count()
                };
                let before = full(self);
                until("the word about the disk", async || {
                    (full(self) > before || daemon.log().contains("disk")).then_some(())
                })
                .await;
                self.disk.as_ref().unwrap().make_room();
                self.hear().await;
                daemon
            }
            Event::Kill => {
                self.say("just before the power cut");
                daemon.kill().await;
                let daemon = self.begin_daemon().await;
                self.hear().await;
                daemon
            }
            Event::Restore => {
                let file: PathBuf = self.fixture.folder().join(format!("backup-{month}.tar.gz"));
                let file = file.to_str().unwrap();
                self.run(&["backup", file]).await;
                self.ask("after the backup").await;
                assert!(daemon.terminate().await.success());
                self.run(&["restore", file, "--replace"]).await;
                let daemon = self.begin_daemon().await;
                self.ask("after the restore").await;
                daemon
            }
            Event::Restart => {
                self.say("before the restart");
                self.hear().await;
                assert!(daemon.terminate().await.success());
                self.begin_daemon().await
            }
        }
    }
}

fn texts(store: &Connection, sql: &str) -> Vec<String> {
    let mut rows = store.prepare(sql).unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn in_a_year_of_trouble_every_message_is_answered_once() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let disk = Disk::of(&fixture).await;
    let mut year = Year { fixture, api, disk, said: Vec::new() };
    for month in 0..12 {
        // Telegram begins anew with its numbers after quiet weeks.
        year.api.pass_a_week(1_000 * (1 + i64::try_from(month).unwrap()));
        let daemon = year.begin_daemon().await;
        year.ask("good morning").await;
        let daemon = year.happen(EVENTS[month % EVENTS.len()], month, daemon).await;
        year.ask("good night").await;
        assert!(daemon.terminate().await.success());
        year.let_a_month_pass();
    }

    let mut answers = BTreeMap::new();
    for sent in year.api.sent() {
        if let Some(said) = sent.text.strip_prefix("You said: ") {
            *answers.entry(said.lines().next().unwrap().to_owned()).or_insert(0) += 1;
        }
    }
    let expected: BTreeMap<_, _> = year.said.iter().map(|said| (said.clone(), 1)).collect();
    assert_eq!(answers, expected);
    // The old is gone or whole, and nothing waits.
    year.with_copy(|store| {
        assert_eq!(texts(store, "PRAGMA integrity_check"), ["ok"]);
        assert!(texts(store, "SELECT \"table\" FROM pragma_foreign_key_check").is_empty());
        assert!(
            texts(store, "SELECT key FROM inbound WHERE state IN ('waiting', 'in turn')")
                .is_empty()
        );
        assert!(texts(store, "SELECT chat FROM outbox WHERE state = 'pending'").is_empty());
        let oldest = store.query_row("SELECT min(received) FROM inbound", [], |row| row.get(0));
        let oldest: i64 = oldest.unwrap();
        assert!(Utc::now().timestamp_millis() - oldest > MONTH_MS, "the months did not pass");
    });
}
