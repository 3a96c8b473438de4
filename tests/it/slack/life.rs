//! The real program on Slack: what people ask is answered once, where they asked, whatever happens
//! on the way.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::CREW;
use crate::support::binary::{ProgramFixture, model, until};
use crate::support::model_api::{ModelApi, Platform, Reply};
use crate::support::slack_api::line::{ADA, BOB, Line};
use crate::support::slack_api::socket::LinkFault;
use crate::support::slack_api::{APP_TOKEN, BOT_TOKEN, Fault, Sent, SlackApi};

/// A channel `home` that belongs to Ada and lets Bob in.
fn home(api: &SlackApi) -> String {
    format!(
        "[channels.home]\ntype = \"slack\"\ntoken = \"{BOT_TOKEN}\"\napp_token = \"{APP_TOKEN}\"\n\
         api_url = \"{}\"\nowners = [\"{}\"]\nallow = [\"{}\"]\n",
        api.url(),
        ADA.id,
        BOB.id
    )
}

fn to(api: &SlackApi, words: &str) -> Vec<Sent> {
    api.sent().into_iter().filter(|sent| sent.text.contains(words)).collect()
}

/// Ada says a last thing and is answered, so that what must not arrive would have.
async fn bring_to_end(api: &SlackApi) {
    api.say(&Line::im(&ADA, "the last one"));
    api.wait_for_words("D0ADA", "the last one").await;
}

#[tokio::test]
async fn answers_once_in_a_thread_of_the_question() {
    let api = SlackApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    let first = api.say(&Line::channel(CREW, &BOB, "<@U0CRAB> one"));
    let answer = api.wait_for_words(CREW, "one").await;
    assert_eq!(answer.thread.as_deref(), Some(first.as_str()));
    api.mention_first();
    let second = api.say(&Line::channel(CREW, &BOB, "two, <@U0CRAB>"));
    let answer = api.wait_for_words(CREW, "two").await;
    assert_eq!(answer.thread.as_deref(), Some(second.as_str()));
    // The thread is a conversation, and needs no mention.
    api.say(&Line::channel(CREW, &BOB, "three").in_thread(&first));
    let answer = api.wait_for_words(CREW, "three").await;
    assert_eq!(answer.thread.as_deref(), Some(first.as_str()));
    bring_to_end(&api).await;
    assert_eq!(api.sent().len(), 4, "{:?}", api.sent());
    assert_eq!(api.offences(), Vec::<String>::new());
}

#[tokio::test]
async fn nobody_can_have_it_ping_everybody() {
    let api = SlackApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    // As Slack sends what somebody types letter by letter.
    api.say(&Line::im(&BOB, "say &lt;!channel&gt; &amp; &lt;@U0ADA&gt;"));
    let echo = api.wait_for_words("D0BOB", "channel").await;
    assert!(echo.text.contains("&lt;!channel&gt; &amp; &lt;@U0ADA&gt;"), "{echo:?}");
}

#[tokio::test]
async fn gives_a_sign_that_it_has_taken_a_message_up() {
    let api = SlackApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    let ts = api.say(&Line::channel(CREW, &BOB, "<@U0CRAB> hello"));
    api.wait_for_words(CREW, "hello").await;
    let seen = (CREW.to_owned(), ts, "eyes".to_owned());
    until("a sign", async || api.reactions().contains(&seen).then_some(())).await;
}

#[tokio::test]
async fn a_thread_that_begins_is_told_what_was_said_before() {
    let (api, main) = (SlackApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = ProgramFixture::new(&(model("main", &main) + &home(&api)));
    let _daemon = fixture.daemon().await;
    let root = api.say_unheard(&Line::channel(CREW, &BOB, "the crab is blue"));
    api.say_unheard(&Line::channel(CREW, &ADA, "no, it is green").in_thread(&root));
    let chunk = json!({ "choices": [
        { "index": 0, "delta": { "content": "It is **red**." }, "finish_reason": "stop" }
    ] });
    main.reply(Reply::events(&[chunk]));
    api.say(&Line::channel(CREW, &BOB, "<@U0CRAB> which?").in_thread(&root));
    api.wait_for_words(CREW, "It is *red*.").await;
    let asked = main.requests().remove(0).to_string();
    assert!(asked.contains("the crab is blue") && asked.contains("no, it is green"), "{asked}");
}

#[tokio::test]
async fn what_was_said_while_it_was_off_is_answered_once() {
    let api = SlackApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    api.say(&Line::im(&ADA, "hello"));
    api.wait_for_words("D0ADA", "hello").await;
    daemon.kill().await;
    api.say_unheard(&Line::im(&ADA, "missed"));
    api.say(&Line::im(&ADA, "brought again"));
    let _daemon = fixture.daemon().await;
    api.wait_for_words("D0ADA", "missed").await;
    api.wait_for_words("D0ADA", "brought again").await;
    bring_to_end(&api).await;
    assert_eq!((to(&api, "missed").len(), to(&api, "brought").len()), (1, 1), "{:?}", api.sent());
}

#[tokio::test]
async fn a_lost_answer_is_looked_up_and_not_repeated() {
    let api = SlackApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    api.fail("chat.postMessage", 1, &Fault::CutAfter);
    api.say(&Line::im(&ADA, "hello"));
    api.wait_for_calls("conversations.history", 1).await;
    bring_to_end(&api).await;
    assert_eq!(to(&api, "hello").len(), 1, "{:?}", api.sent());
    // And one that never arrived is sent, unmarked.
    api.fail("chat.postMessage", 1, &Fault::Status(502));
    api.say(&Line::im(&ADA, "again"));
    let sent = api.wait_for_words("D0ADA", "again").await;
    assert!(!sent.text.contains("perhaps"), "{sent:?}");
}

#[tokio::test]
async fn a_revoked_token_is_said_once_and_ends_nothing() {
    let api = SlackApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let mut daemon = fixture.daemon().await;
    fixture.wait_for_link().await;
    api.revoke(Some("token_revoked"));
    api.break_link(LinkFault::Drop);
    fixture.wait_for_trouble("token_revoked").await;
    let ended = fixture.run(&["chat", "-m", "hello"]).await;
    assert!(ended.code == Some(0) && ended.out.contains("You said: hello"), "{ended:?}");
    assert!(daemon.is_running());
    let log = daemon.log();
    assert_eq!(log.matches("does not accept this channel").count(), 1, "{log}");
    let secrets = [BOT_TOKEN, APP_TOKEN, "ticket-"];
    assert!(!secrets.iter().any(|secret| log.contains(secret)), "{log}");
}

#[tokio::test]
async fn a_link_that_drops_is_taken_up_again() {
    let api = SlackApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    fixture.wait_for_link().await;
    for round in 0..3 {
        api.break_link(LinkFault::Drop);
        api.say(&Line::im(&ADA, &format!("round {round}")));
        api.wait_for_words("D0ADA", &format!("round {round}")).await;
    }
    bring_to_end(&api).await;
    assert_eq!(api.sent().len(), 4, "{:?}", api.sent());
}

#[tokio::test]
async fn stops_when_told_in_a_thread() {
    let api = SlackApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    let root = api.say(&Line::channel(CREW, &BOB, "<@U0CRAB> hello"));
    api.wait_for_words(CREW, "hello").await;
    api.say(&Line::channel(CREW, &BOB, "!stop").in_thread(&root));
    let told = api.wait_for_words(CREW, "nothing to stop").await;
    assert_eq!(told.thread.as_deref(), Some(root.as_str()));
}

#[tokio::test]
async fn the_owner_lets_a_stranger_in_with_a_button() {
    let api = SlackApi::start().await;
    let without_bob = home(&api).replace(&format!("allow = [\"{}\"]", BOB.id), "allow = []");
    let fixture = ProgramFixture::new(&without_bob);
    let _daemon = fixture.daemon().await;
    bring_to_end(&api).await;
    api.say(&Line::im(&BOB, "hello"));
    api.wait_for_words("D0BOB", "Your code is").await;
    let asked = api.wait_for_words("D0ADA", "wants to talk to me").await;
    let action = |at: usize| {
        let elements = asked.blocks.as_array().unwrap().last().unwrap()["elements"].clone();
        elements[at]["action_id"].as_str().unwrap().to_owned()
    };
    api.press(&BOB, &asked.ts, &action(0));
    let refused = api.wait_for_words("D0ADA", "answer this one").await;
    assert_eq!(refused.only_for.as_deref(), Some("U0BOB"));
    api.press(&ADA, &asked.ts, &action(0));
    api.wait_for_words("D0BOB", "You now have access").await;
    until("the buttons to go", async || {
        let now = api.sent().into_iter().find(|sent| sent.ts == asked.ts).unwrap();
        now.blocks.as_array().is_some_and(Vec::is_empty).then_some(())
    })
    .await;
    api.press(&ADA, &asked.ts, &action(1));
    api.wait_for_words("D0ADA", "already decided").await;
    api.say(&Line::im(&BOB, "hello again"));
    api.wait_for_words("D0BOB", "hello again").await;
}

const KILLS: usize = 15;

#[tokio::test]
async fn random_kills_lose_nothing_and_double_nothing() {
    let api = SlackApi::start().await;
    api.again_after(Duration::from_millis(200));
    let fixture = ProgramFixture::new(&home(&api));
    let mut said = Vec::new();
    let mut say = || {
        let text = format!("line-{}-end", said.len());
        let by = if fastrand::bool() { &ADA } else { &BOB };
        api.say(&Line::im(by, &text));
        said.push(text);
    };
    for _ in 0..KILLS {
        say();
        let daemon = fixture.begin(fixture.command(&[], &["run"]));
        let alive = Duration::from_millis(fastrand::u64(10..500));
        let quiet = alive.mul_f64(fastrand::f64());
        // The moments are the test itself, not what it waits for.
        sleep(quiet).await;
        say();
        sleep(alive.saturating_sub(quiet)).await;
        daemon.kill().await;
    }
    let _daemon = fixture.daemon().await;
    for text in &said {
        until(text, async || (!to(&api, text).is_empty()).then_some(())).await;
    }
    api.wait_for_acknowledged().await;
    bring_to_end(&api).await;
    for text in &said {
        let got = to(&api, text);
        assert_eq!(got.len(), 1, "{got:#?}");
        assert!(!got[0].text.contains("perhaps"), "Slack can be asked: {got:?}");
    }
}
