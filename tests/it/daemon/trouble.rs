//! Telegram is away, refuses, hangs or cuts off: the right words, and recovery by itself.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::models::answer;
use crate::support::binary::{
    PATIENCE, ProgramFixture, channel, home, home_at, model, said, until,
};
use crate::support::bot_api::line::{ADA, BOB};
use crate::support::bot_api::{BotApi, Fault, Sent};
use crate::support::model_api::{ModelApi, Platform, Reply};
use crate::support::wire::closed_port;

const TOKEN: &str = "4242:AAAA-this-is-a-token-of-the-right-length";
const MARK: &str = "(perhaps sent twice)";

fn to(api: &BotApi, chat: i64, words: &str) -> Vec<Sent> {
    let fits = |sent: &Sent| sent.chat == chat && sent.text.contains(words);
    api.sent().into_iter().filter(fits).collect()
}

/// Ada says a last thing and is answered, so that what must not arrive would have.
async fn bring_to_end(api: &BotApi) {
    api.say(&said(&ADA, "the last one"));
    api.wait_for_words(ADA.id, "the last one").await;
}

#[tokio::test]
async fn a_start_without_network_answers_once_there_is_one() {
    let (socket, url) = closed_port();
    let fixture = ProgramFixture::new(&home_at(&url, TOKEN));
    let _daemon = fixture.daemon().await;
    fixture.wait_for_trouble("no connection").await;
    let shown = fixture.run(&["status"]).await.out;
    let line = shown.lines().find(|line| line.starts_with("channel home")).unwrap();
    assert!(line.starts_with("channel home: down: telegram"), "{line}");
    let api = BotApi::start_at(socket.listen(64).unwrap());
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    let home = fixture.status().await["channels"]["home"].clone();
    assert!(home["up"] == true && home["trouble"].is_null(), "{home}");
    let about = home["about"].as_str().unwrap();
    assert!(about.starts_with("@peacrab_bot"), "{about}");
}

#[tokio::test]
async fn a_token_that_is_not_accepted_is_said_and_ends_nothing() {
    let api = BotApi::start().await;
    let fixture =
        ProgramFixture::new(&home_at(api.url(), "4242:CCCC-this-is-a-token-that-nobody-knows"));
    let mut daemon = fixture.daemon().await;
    fixture.wait_for_trouble("token").await;
    // What is to be done comes last.
    let shown = fixture.run(&["status"]).await.out;
    let line = shown.lines().find(|line| line.starts_with("channel home")).unwrap();
    assert!(line.ends_with(&format!("and run {}reload`", fixture.here())), "{line}");
    let ended = fixture.run(&["chat", "-m", "hello"]).await;
    assert!(ended.code == Some(0) && ended.out.contains("You said: hello"), "{ended:?}");
    assert!(daemon.is_running());
    assert!(!daemon.log().contains("CCCC"), "{}", daemon.log());
}

#[tokio::test]
async fn another_program_with_the_same_token_is_said_and_outlived() {
    let api = BotApi::start().await;
    api.fail("getUpdates", 2, &Fault::CONFLICT);
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    fixture.wait_for_trouble("another program").await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    fixture.wait_for_link().await;
}

#[tokio::test]
async fn the_log_tells_once_that_a_link_is_lost_and_once_that_it_is_back() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    let count = |words: &str| daemon.log().matches(words).count();
    // It has been up for long enough to be lost.
    sleep(Duration::from_millis(2500)).await;
    api.fail("getUpdates", 3, &Fault::CONFLICT);
    until("the link", async || (count("is up again") > 0).then_some(())).await;
    assert_eq!((count("Lost the channel"), count("Cannot reach")), (1, 0), "{}", daemon.log());
    bring_to_end(&api).await;
    assert_eq!(count("is up again"), 1, "{}", daemon.log());
    let log = daemon.log();
    let line = log.lines().find(|line| line.contains("is up again")).unwrap();
    assert!(line.contains("INFO") && line.contains("down_for="), "{line}");
}

#[tokio::test]
async fn waits_as_long_as_telegram_says_and_sends_once() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    api.fail("sendMessage", 1, &Fault::TooMany { after: 2 });
    api.say(&said(&ADA, "hello"));
    api.wait_for_calls("sendMessage", 1).await;
    let refused = Instant::now();
    api.wait_for_words(ADA.id, "You said: hello").await;
    assert!(refused.elapsed() >= Duration::from_millis(1900), "{:?}", refused.elapsed());
    bring_to_end(&api).await;
    assert_eq!(to(&api, ADA.id, "hello").len(), 1, "{:?}", api.sent());
}

#[tokio::test]
async fn outlives_errors_of_telegrams_servers() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    api.fail("sendMessage", 1, &Fault::Status(502));
    api.fail("getUpdates", 1, &Fault::Status(503));
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    bring_to_end(&api).await;
    let copies = to(&api, ADA.id, "hello");
    assert_eq!(copies.len(), 1, "{:?}", api.sent());
    assert!(copies[0].text.starts_with(MARK), "a server that fails may have sent it: {copies:?}");
}

#[tokio::test]
async fn marks_what_may_arrive_twice() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    api.fail("sendMessage", 1, &Fault::CutAfter);
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, MARK).await;
    bring_to_end(&api).await;
    let copies = to(&api, ADA.id, "You said: hello");
    assert_eq!(copies.len(), 2, "{copies:?}");
    assert!(!copies[0].text.contains(MARK) && copies[1].text.starts_with(MARK), "{copies:?}");
}

#[tokio::test]
async fn a_success_that_cannot_be_read_was_one() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    api.fail("sendMessage", 1, &Fault::Garbage);
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    bring_to_end(&api).await;
    assert_eq!(to(&api, ADA.id, "hello").len(), 1, "{:?}", api.sent());
}

#[tokio::test]
async fn a_send_that_hangs_holds_up_no_other_chat() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    api.fail("sendMessage", 1, &Fault::Hang);
    api.say(&said(&BOB, "hello from Bob"));
    api.wait_for_calls("sendMessage", 1).await;
    bring_to_end(&api).await;
    assert_eq!(api.hanging_calls(), 1);
    // Nobody knows whether it arrived; a call may take 20 seconds.
    let fits = || to(&api, BOB.id, "hello from Bob").pop();
    let sent = until("Bob's answer", async || fits()).await;
    assert!(sent.text.starts_with(MARK), "{sent:?}");
}

#[tokio::test]
async fn who_has_blocked_the_bot_is_given_up_and_the_owner_told() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    api.fail("sendMessage", 1, &Fault::BLOCKED);
    api.say(&said(&BOB, "bye"));
    let told = api.wait_for_words(ADA.id, "I couldn't deliver").await;
    assert!(told.text.contains("blocked"), "{told:?}");
    bring_to_end(&api).await;
    assert_eq!(to(&api, BOB.id, ""), vec![]);
    assert_eq!(fixture.status().await["channels"]["home"]["pending"], 0);
}

fn two_bots(home: &BotApi, other: (&str, &str)) -> ProgramFixture {
    let owner = ADA.id;
    let other = channel("other", other.0, other.1) + &format!("owners = [{owner}]\n");
    ProgramFixture::new(&(self::home(home) + &other))
}

#[tokio::test]
async fn two_bots_answer_each_its_own() {
    let (first, second) = (BotApi::start().await, BotApi::start_another().await);
    let fixture = two_bots(&first, (second.url(), second.token()));
    let _daemon = fixture.daemon().await;
    first.say(&said(&ADA, "to the first"));
    second.say(&said(&ADA, "to the second"));
    first.wait_for_words(ADA.id, "You said: to the first").await;
    second.wait_for_words(ADA.id, "You said: to the second").await;
    assert_eq!((first.sent().len(), second.sent().len()), (1, 1));
    let channels = fixture.status().await["channels"].clone();
    assert!(channels["home"]["up"] == true && channels["other"]["up"] == true, "{channels}");
}

#[tokio::test]
async fn a_bot_whose_platform_is_dead_delays_no_other() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hangs = format!("http://{}", listener.local_addr().unwrap());
    let (_socket, refuses) = closed_port();
    for (dead, accepts) in [(hangs, true), (refuses, false)] {
        let api = BotApi::start().await;
        let fixture = two_bots(&api, (&dead, "4343:BBBB-this-is-a-token-of-the-right-length"));
        let daemon = fixture.daemon().await;
        let mut first_call = JoinSet::new();
        if accepts {
            let (mut call, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
            // It ends when the daemon gives up.
            first_call.spawn(async move { call.read_to_end(&mut Vec::new()).await });
        }
        for text in ["one", "two", "three"] {
            api.say(&said(&ADA, text));
            api.wait_for_words(ADA.id, &format!("You said: {text}")).await;
        }
        assert!(first_call.try_join_next().is_none(), "the answers came after the first call");
        assert_eq!(fixture.status().await["channels"]["other"]["up"], false);
        daemon.end_by_itself().await;
    }
}

#[tokio::test]
async fn a_model_that_rejects_every_request_is_in_the_status_until_it_answers() {
    let main = ModelApi::start(Platform::OpenAi).await;
    let fixture = ProgramFixture::new(&model("main", &main));
    let _daemon = fixture.daemon().await;
    let shown = fixture.run(&["status"]).await.out;
    assert!(!shown.contains("model main"), "{shown}");
    for _ in 0..2 {
        main.reply(Reply::error(401, &json!({"error": {"message": "no such key"}})));
        let ended = fixture.run(&["chat", "-m", "hello"]).await;
        assert!(ended.out.contains("rejected my request"), "{ended:?}");
    }
    let ended = fixture.run(&["status"]).await;
    let line = ended.out.lines().find(|line| line.starts_with("model main: fails since 20"));
    let line = line.unwrap_or_else(|| panic!("{ended:?}"));
    assert!(
        line.ends_with("UTC: the key was not accepted; copy it again (401: no such key)"),
        "{line}"
    );
    // As channels do not, it makes nothing unhealthy.
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let trouble = fixture.status().await["model_troubles"]["main"].clone();
    assert!(trouble["since"].is_string() && trouble["reason"].is_string(), "{trouble}");
    main.reply(answer("Here I am."));
    let ended = fixture.run(&["chat", "-m", "hello"]).await;
    assert!(ended.out.contains("Here I am."), "{ended:?}");
    assert_eq!(fixture.status().await["model_troubles"], json!({}));
    main.finish();
}
