//! Discord with the real program: people write through the stand-in, and the daemon is begun,
//! killed and begun again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tokio::time::sleep;

use crate::support::binary::{ProgramFixture, until};
use crate::support::discord_api::line::{ADA, BOB, BOT, CREW, Line, THREAD};
use crate::support::discord_api::{DiscordApi, Fault, TOKEN};

const KILLS: usize = 16;

/// A channel that Ada owns, where Bob is let in.
fn home(api: &DiscordApi, more: &str) -> String {
    let (url, owner, user) = (api.url(), ADA.id, BOB.id);
    format!(
        "[channels.home]\ntype = \"discord\"\ntoken = \"{TOKEN}\"\napi_url = \"{url}\"\n\
         owners = [{owner}]\nallow = [{user}]\n{more}\n"
    )
}

fn mention(text: &str) -> String {
    format!("{} {text}", BOT.mention())
}

#[tokio::test]
async fn answers_two_people_in_private_in_the_server_and_in_a_thread() {
    let api = DiscordApi::start().await;
    let fixture = ProgramFixture::new(&home(&api, ""));
    let _daemon = fixture.daemon().await;
    api.wait_for_sessions(1, 0).await;
    api.say(&Line::private(&ADA, "one"));
    api.say(&Line::private(&BOB, "two"));
    let [to_ada, to_bob] =
        [api.wait_for_words(ADA.dm(), "one").await, api.wait_for_words(BOB.dm(), "two").await];
    assert_eq!((to_ada.reply_to, to_bob.reply_to), (None, None));

    api.say(&Line::server(CREW, &BOB, "just talking"));
    let asked = api.say(&Line::server(CREW, &BOB, &mention("three")));
    let answer = api.wait_for_words(CREW, "three").await;
    assert_eq!(answer.reply_to, Some(asked));
    let again = api.say(&Line::server(CREW, &ADA, "four").replying_to(answer.id));
    let answer = api.wait_for_words(CREW, "four").await;
    assert_eq!(answer.reply_to, Some(again));

    api.say(&Line::server(THREAD, &ADA, &mention("five")));
    api.wait_for_words(THREAD, "five").await;
    api.say(&Line::server(THREAD, &ADA, "six"));
    api.wait_for_words(THREAD, "six").await;
    assert_eq!(api.sent().len(), 6, "{:?}", api.sent());

    let status = fixture.status().await;
    let link = &status["channels"]["home"];
    assert_eq!((&link["up"], &link["about"]), (&true.into(), &"@peacrab".into()), "{status}");
}

#[tokio::test]
async fn each_question_gets_a_thread_of_its_own() {
    let api = DiscordApi::start().await;
    let fixture = ProgramFixture::new(&home(&api, "threads = \"open\""));
    let _daemon = fixture.daemon().await;
    api.wait_for_sessions(1, 0).await;
    let asked = api.say(&Line::server(CREW, &BOB, &mention("what is up?")));
    api.wait_for_words(asked, "what is up?").await;
    assert_eq!(api.thread_name(asked).as_deref(), Some("what is up?"));
    api.say(&Line::server(asked, &BOB, "and down?"));
    api.wait_for_words(asked, "and down?").await;
    let other = api.say(&Line::server(CREW, &ADA, &mention("what else?")));
    api.wait_for_words(other, "what else?").await;
    assert_eq!(api.sent().len(), 3, "{:?}", api.sent());
}

#[tokio::test]
async fn hears_after_a_restart_what_was_said_meanwhile() {
    let api = DiscordApi::start().await;
    let fixture = ProgramFixture::new(&home(&api, ""));
    let daemon = fixture.daemon().await;
    api.wait_for_sessions(1, 0).await;
    api.say(&Line::private(&ADA, "one"));
    api.wait_for_words(ADA.dm(), "one").await;
    daemon.kill().await;
    // Its session is still there, and tells it all.
    api.say(&Line::private(&BOB, "two"));
    let daemon = fixture.daemon().await;
    api.wait_for_words(BOB.dm(), "two").await;
    daemon.kill().await;
    // It is not any more: what is missed is read back.
    api.forget_sessions();
    api.say(&Line::private(&ADA, "three"));
    let _daemon = fixture.daemon().await;
    api.wait_for_words(ADA.dm(), "three").await;
    assert_eq!(api.sent().len(), 3, "{:?}", api.sent());
}

#[tokio::test]
async fn a_long_answer_is_one_message_that_grows() {
    let api = DiscordApi::start().await;
    let fixture = ProgramFixture::new(&home(&api, ""));
    let _daemon = fixture.daemon().await;
    api.wait_for_sessions(1, 0).await;
    api.say(&Line::private(&ADA, "wait 5"));
    let answer = api.wait_for_words(ADA.dm(), "seconds have passed").await;
    assert_eq!(api.sent().len(), 1, "{:?}", api.sent());
    assert!(answer.edits >= 1, "{answer:?}");
}

#[tokio::test]
async fn an_answer_that_was_lost_on_its_way_is_looked_for_and_not_doubled() {
    let api = DiscordApi::start().await;
    let fixture = ProgramFixture::new(&home(&api, ""));
    let _daemon = fixture.daemon().await;
    api.wait_for_sessions(1, 0).await;
    api.fail("POST /channels/*/messages", 1, &Fault::CutAfter);
    api.say(&Line::private(&ADA, "one"));
    api.wait_for_words(ADA.dm(), "one").await;
    api.fail("POST /channels/*/messages", 1, &Fault::Status(502));
    api.say(&Line::private(&ADA, "two"));
    api.wait_for_words(ADA.dm(), "two").await;
    settled(&fixture.home(), 2).await;
    assert_eq!(api.sent().len(), 2, "{:?}", api.sent());
}

#[tokio::test]
async fn a_stranger_is_let_in_by_a_button() {
    let api = DiscordApi::start().await;
    let fixture =
        ProgramFixture::new(&home(&api, "").replace(&format!("allow = [{}]", BOB.id), ""));
    let _daemon = fixture.daemon().await;
    api.wait_for_sessions(1, 0).await;
    api.say(&Line::private(&ADA, "hello"));
    api.wait_for_words(ADA.dm(), "hello").await;
    api.say(&Line::private(&BOB, "let me in"));
    let question = api.wait_for_words(ADA.dm(), "wants to talk to me").await;
    let pressed = api.press(&ADA, &question, &question.buttons[0].1);
    assert_eq!(api.wait_for_answer(pressed).await.answer, Some((6, String::new())));
    api.wait_for_words(BOB.dm(), "You now have access").await;
    let decided = until("the buttons to go", async || {
        let sent = api.sent();
        sent.into_iter().find(|sent| sent.id == question.id && sent.buttons.is_empty())
    });
    assert!(decided.await.edits > 0);
    api.say(&Line::private(&BOB, "thank you"));
    api.wait_for_words(BOB.dm(), "thank you").await;
}

#[tokio::test]
async fn keeps_files_that_people_send() {
    let api = DiscordApi::start().await;
    let fixture = ProgramFixture::new(&home(&api, ""));
    let _daemon = fixture.daemon().await;
    api.wait_for_sessions(1, 0).await;
    let plan = api.attachment(ADA.dm(), "plan.txt", b"first");
    let line = Line::private(&ADA, "here is the plan");
    api.say(&line.with("attachments", serde_json::json!([plan])));
    api.wait_for_words(ADA.dm(), "plan").await;
    let inbox = fixture.home().join("downloads");
    let months = std::fs::read_dir(inbox).unwrap().flatten();
    let files: Vec<_> =
        months.flat_map(|month| std::fs::read_dir(month.path()).unwrap().flatten()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(std::fs::read(files[0].path()).unwrap(), b"first");
}

#[tokio::test]
async fn says_what_is_wrong_with_its_token_and_its_rights() {
    let api = DiscordApi::start().await;
    let fixture = ProgramFixture::new(&home(&api, ""));
    api.forbid_message_content();
    let daemon = fixture.daemon().await;
    fixture.wait_for_trouble("Message Content Intent").await;
    daemon.kill().await;
    let fixture = ProgramFixture::new(&home(&api, "").replace(TOKEN, "wrong.token.of-some-length"));
    let _daemon = fixture.daemon().await;
    fixture.wait_for_trouble("token not accepted").await;
}

#[tokio::test]
async fn random_kills_lose_nothing_and_double_nothing() {
    let api = DiscordApi::start().await;
    let fixture = ProgramFixture::new(&home(&api, ""));
    let mut sayings = 0;
    let mut say = || {
        let person = if fastrand::bool() { &ADA } else { &BOB };
        api.say(&Line::private(person, &format!("hello {sayings}")));
        sayings += 1;
    };
    // What is said before the first session is told to nobody, and there is nowhere to look for it.
    let daemon = fixture.daemon().await;
    api.wait_for_sessions(1, 0).await;
    say();
    until("the first to be kept", async || is_settled(&fixture.home(), 1).then_some(())).await;
    daemon.kill().await;
    for _ in 0..KILLS {
        say();
        let daemon = fixture.begin(fixture.command(&[], &["run"]));
        // It connects after a second; the moments are the test itself, not what it waits for.
        let alive = Duration::from_millis(fastrand::u64(900..1500));
        let quiet = alive.mul_f64(fastrand::f64());
        sleep(quiet).await;
        say();
        sleep(alive.saturating_sub(quiet)).await;
        daemon.kill().await;
    }
    say();
    let daemon = fixture.daemon().await;
    settled(&fixture.home(), sayings).await;
    daemon.kill().await;
    each_chunk_arrived_once(&fixture.home(), &api);
}

async fn settled(home: &Path, said: usize) {
    until("everything to be done", async || is_settled(home, said).then_some(())).await;
}

fn open(home: &Path) -> Option<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(home.join("state.db"), flags).ok()
}

fn is_settled(home: &Path, said: usize) -> bool {
    let Some(store) = open(home) else { return false };
    let count = |sql| store.query_row(sql, [], |row| row.get::<_, usize>(0)).ok();
    count("SELECT count(*) FROM inbound WHERE state = 'done'") == Some(said)
        && count("SELECT count(*) FROM outbox WHERE state = 'pending'") == Some(0)
        && count("SELECT count(*) FROM turns WHERE ending IS NULL") == Some(0)
}

/// Discord can be asked what it has, so there are no perhapses.
fn each_chunk_arrived_once(home: &Path, api: &DiscordApi) {
    let store = open(home).unwrap();
    let sql = "SELECT o.chat, c.body FROM chunks c JOIN outbox o ON o.id = c.delivery
               WHERE c.state = 'sent'";
    let mut rows = store.prepare(sql).unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let mut meant: BTreeMap<(String, String), i32> = BTreeMap::new();
    for row in rows {
        let (chat, body): (String, String) = row.unwrap();
        let body: peacrab::types::message::Body = serde_json::from_str(&body).unwrap();
        *meant.entry((chat, body.text().trim().to_owned())).or_default() += 1;
    }
    for sent in api.sent() {
        *meant.entry((sent.channel.to_string(), sent.text)).or_default() -= 1;
    }
    meant.retain(|_, difference| *difference != 0);
    assert_eq!(meant, BTreeMap::new(), "meant more often (+) or sent more often (-)");
}
