//! The program is killed at random while people keep writing through Telegram's stand-in, which
//! delivers again what was not confirmed.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tokio::time::sleep;

use crate::support::binary::{ProgramFixture, home, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::{ADA, BOB};

const KILLS: usize = 40;

/// The mark of what may have been sent before (docs/faq.md tells people of it).
pub(super) const MARK: &str = "(perhaps sent twice)\n";

/// People speak as fast as they can.
pub(super) const NO_LIMITS: &str =
    "[limits]\nmessages_per_minute = 0\nchat_messages_per_minute = 0\n";

#[tokio::test]
async fn forty_random_kills_lose_nothing_and_double_nothing_unmarked() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&(home(&api) + NO_LIMITS));
    let mut sayings = Vec::new();
    let mut say = || {
        let at = sayings.len();
        let text = match fastrand::u8(..3) {
            0 => format!("append crab-{at} to log.md then append shell-{at} to log.md"),
            _ => format!("hello {at}"),
        };
        api.say(&said(if fastrand::bool() { &ADA } else { &BOB }, &text));
        sayings.push(text);
    };
    for _ in 0..KILLS {
        say();
        let daemon = fixture.begin(fixture.command(&[], &["run"]));
        let alive = Duration::from_millis(fastrand::u64(10..300));
        let quiet = alive.mul_f64(fastrand::f64());
        // The moments are the test itself, not what it waits for.
        sleep(quiet).await;
        say();
        sleep(alive.saturating_sub(quiet)).await;
        daemon.kill().await;
    }
    say();
    let daemon = fixture.daemon().await;
    until("everything to be done", async || {
        is_settled(&fixture.home(), sayings.len()).then_some(())
    })
    .await;
    assert_eq!(api.unconfirmed(), 0);
    daemon.kill().await;
    all_had_one_outcome(&fixture.home(), sayings.len());
    nothing_is_sent_twice_unmarked(&open(&fixture.home()).unwrap(), &api);
}

pub(super) fn open(home: &Path) -> Option<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(home.join("state.db"), flags).ok()
}

fn count(store: &Connection, sql: &str) -> Option<usize> {
    store.query_row(sql, [], |row| row.get(0)).ok()
}

pub(super) fn is_settled(home: &Path, said: usize) -> bool {
    let Some(store) = open(home) else { return false };
    count(&store, "SELECT count(*) FROM inbound WHERE state = 'done'") == Some(said)
        && count(&store, "SELECT count(*) FROM outbox WHERE state = 'pending'") == Some(0)
        && count(&store, "SELECT count(*) FROM turns WHERE ending IS NULL") == Some(0)
}

/// All were heard once, answered by one message for each turn, and done once.
pub(super) fn all_had_one_outcome(home: &Path, said: usize) {
    let store = open(home).unwrap();
    let fates =
        "SELECT count(*) FROM inbound WHERE outcome IN ('answered', 'refused') AND turn > 0";
    assert_eq!(count(&store, fates), Some(said), "each has its outcome");
    let turns = count(&store, "SELECT count(*) FROM turns").unwrap();
    let deliveries = count(&store, "SELECT count(*) FROM outbox").unwrap();
    let undelivered =
        count(&store, "SELECT count(*) FROM outbox WHERE body LIKE '%I couldn''t deliver%'");
    // After several kills the owner hears of the safe mode, too.
    let safe = count(&store, "SELECT count(*) FROM outbox WHERE body LIKE '%in safe mode%'");
    let others = undelivered.unwrap() + safe.unwrap();
    assert_eq!(deliveries, turns + others, "one answer a turn");

    let log = std::fs::read_to_string(home.join("workspace/log.md")).unwrap_or_default();
    let lines: HashSet<_> = log.lines().collect();
    assert_eq!(lines.len(), log.lines().count(), "appended twice: {log}");
}

fn nothing_is_sent_twice_unmarked(store: &Connection, api: &BotApi) {
    let sql = "SELECT o.chat, json_extract(c.body, '$.text'), c.state FROM chunks c JOIN outbox o ON o.id = c.delivery";
    let mut rows = store.prepare(sql).unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let mut meant: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
    for row in rows {
        let (chat, text, state): (String, String, String) = row.unwrap();
        let (all, sent) = meant.entry((chat, text)).or_default();
        *all += 1;
        *sent += usize::from(state == "sent");
    }
    let sent = api.sent();
    let copies = |chat: &str, text: &str| {
        let fits = |sent: &&_| {
            let sent: &crate::support::bot_api::Sent = sent;
            sent.chat.to_string() == chat && sent.as_it_came().trim() == text.trim()
        };
        sent.iter().filter(fits).count()
    };
    for ((chat, text), (all, arrived)) in &meant {
        let (plain, marked) = (copies(chat, text), copies(chat, &format!("{MARK}{text}")));
        assert!(plain <= *all, "sent {plain} times: {text}\n{sent:#?}");
        assert!(plain + marked >= *arrived, "never arrived: {text}\n{sent:#?}");
    }
    let known = sent.iter().all(|sent| {
        let text = sent.as_it_came().trim();
        let text = text.strip_prefix(MARK).unwrap_or(text).to_owned();
        meant.keys().any(|(chat, meant)| *chat == sent.chat.to_string() && meant.trim() == text)
    });
    assert!(known, "something was sent that the store does not know: {sent:#?}");
}
