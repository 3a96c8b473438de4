//! What was said while there was no link: it is looked up, all of it, once, and slowly enough.

use std::time::Duration;

use chrono::Utc;
use peacrab::channels::slack::{Slack, SlackDeadlines};
use peacrab::store::Sync;
use serde_json::Value;

use super::{CREW, DEADLINES, address, config, slack};
use crate::support::adapter_fixture::AdapterFixture;
use crate::support::slack_api::line::{ADA, BOB, Line};
use crate::support::slack_api::{Fault, SlackApi};

fn from_ada(text: &str) -> Line {
    Line::im(&ADA, text)
}

fn in_crew(text: &str) -> Line {
    Line::channel(CREW, &BOB, text)
}

async fn wait_for(fixture: &AdapterFixture, count: usize) {
    while fixture.texts().await.len() < count {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn forget_state(fixture: &AdapterFixture) {
    let aged = fixture
        .bus
        .store
        .write("age", Sync::Now, |store| store.execute("UPDATE inbound SET state = 'done'", []));
    aged.await.unwrap();
}

#[tokio::test]
async fn finds_what_was_said_while_nobody_listened() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    let root = api.say(&in_crew("<@U0CRAB> before"));
    api.say(&from_ada("before, in private"));
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    forget_state(&fixture).await;
    api.say_unheard(&from_ada("missed, in private"));
    api.say_unheard(&in_crew("missed, in the thread").in_thread(&root));
    api.say_unheard(&in_crew("missed, and not for the bot"));
    api.say_unheard(&in_crew("<@U0CRAB> missed, in the channel"));
    api.say_unheard(&Line::im(&BOB, "said where it never was"));
    fixture
        .listening(&slack(&api), async {
            // The last of the places.
            api.wait_for_calls("conversations.replies", 1).await;
            api.say(&from_ada("live"));
            api.wait_for_acknowledged().await;
        })
        .await;
    let mut texts = fixture.texts().await;
    assert_eq!(texts.split_off(texts.len() - 1), ["live"], "what was missed comes first");
    texts.sort();
    let expected = [
        "before",
        "before, in private",
        "missed, in private",
        "missed, in the channel",
        "missed, in the thread",
    ];
    assert_eq!(texts, expected);
}

#[tokio::test]
async fn a_place_that_cannot_be_looked_at_holds_up_no_other() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    api.say(&from_ada("before"));
    api.say(&Line::im(&BOB, "before"));
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    api.say_unheard(&from_ada("missed"));
    api.say_unheard(&Line::im(&BOB, "missed"));
    api.fail("conversations.history", 1, &Fault::Deny("missing_scope"));
    fixture
        .listening(&slack(&api), async {
            api.wait_for_calls("conversations.history", 2).await;
            api.say(&from_ada("live"));
            api.wait_for_acknowledged().await;
        })
        .await;
    let missed = fixture.texts().await.iter().filter(|text| *text == "missed").count();
    assert_eq!(missed, 1);
}

#[tokio::test]
async fn what_was_missed_is_looked_up_as_slowly_as_slack_wants() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    api.say(&from_ada("before"));
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    api.say_unheard(&from_ada("missed"));
    api.fail("conversations.history", 1, &Fault::TooMany { after: Some(1) });
    fixture
        .listening(&slack(&api), async {
            api.wait_for_calls("conversations.history", 2).await;
            api.say(&from_ada("live"));
            api.wait_for_acknowledged().await;
        })
        .await;
    assert_eq!(fixture.texts().await, ["before", "missed", "live"]);
}

#[tokio::test]
async fn what_could_not_be_looked_up_is_looked_up_later() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    api.say(&from_ada("before"));
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    api.say_unheard(&from_ada("missed"));
    let slack = slack(&api);
    // For longer than new events wait for it.
    api.fail("conversations.history", 12, &Fault::Status(500));
    // What is heard meanwhile does not make up for it; nor does a new link.
    fixture
        .listening(&slack, async {
            api.wait_for_calls("conversations.history", 1).await;
            api.say(&from_ada("live"));
            api.wait_for_acknowledged().await;
        })
        .await;
    fixture
        .listening(&slack, async {
            while fixture.texts().await.len() < 3 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    assert_eq!(fixture.texts().await, ["before", "live", "missed"]);
}

#[tokio::test]
async fn what_is_still_to_be_looked_up_outlives_a_restart() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    api.say(&from_ada("before"));
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    api.say_unheard(&from_ada("missed"));
    // As often as it is tried at first.
    api.fail("conversations.history", 3, &Fault::Status(500));
    // So long that it ends before it looks again.
    let patient = SlackDeadlines { retry_pause: Duration::from_secs(60), ..DEADLINES };
    let patient = Slack::with_deadlines(&config(&api), patient).unwrap();
    fixture
        .listening(&patient, async {
            api.wait_for_calls("conversations.history", 3).await;
            // In the same place, and so after the gap.
            api.say(&from_ada("live"));
            api.wait_for_acknowledged().await;
        })
        .await;
    fixture.listening(&slack(&api), wait_for(&fixture, 3)).await;
    assert_eq!(fixture.texts().await, ["before", "live", "missed"]);
}

#[tokio::test]
async fn finds_questions_in_threads_that_are_new_to_it() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    let adapter = slack(&api);
    let pane = super::sending::post(&adapter, address("D0ADA", None), "How can I help?").await;
    let news = super::sending::post(&adapter, address(CREW, None), "The news of today").await;
    let old = api.say_unheard(&in_crew("a thread from before"));
    api.say(&from_ada("before"));
    api.say(&in_crew("<@U0CRAB> before, too"));
    fixture.listening(&adapter, api.wait_for_acknowledged()).await;
    let [pane, news] = [pane, news].map(|sent| sent.id.unwrap().as_str().to_owned());
    api.say_unheard(&from_ada("in the pane").in_thread(&pane));
    api.say_unheard(&in_crew("under its own post").in_thread(&news));
    api.say_unheard(&in_crew("<@U0CRAB> in an old thread").in_thread(&old));
    let new = api.say_unheard(&in_crew("a thread of now"));
    api.say_unheard(&in_crew("not for the bot").in_thread(&new));
    api.say_unheard(&in_crew("<@U0CRAB> in a new thread").in_thread(&new));
    // A daemon after that one.
    fixture.listening(&slack(&api), wait_for(&fixture, 6)).await;
    let heard = fixture.received().await.split_off(2);
    let mut found: Vec<_> = heard.into_iter().map(|it| (it.body.text, it.from)).collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let expected = [
        ("in a new thread", address(CREW, Some(&new))),
        ("in an old thread", address(CREW, Some(&old))),
        ("in the pane", address("D0ADA", Some(&pane))),
        ("under its own post", address(CREW, Some(&news))),
    ];
    assert_eq!(found, expected.map(|(text, at)| (text.to_owned(), at)));
}

#[tokio::test]
async fn looks_up_nothing_from_before_it_last_listened() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    let begun = Utc::now().timestamp();
    let day_ago = format!("{}.000100", Utc::now().timestamp() - 24 * 60 * 60);
    api.push_event(from_ada("long ago").event(&day_ago));
    fixture
        .listening(&slack(&api), async {
            api.wait_for_acknowledged().await;
            api.say(&in_crew("heard, and not for the bot"));
            api.wait_for_acknowledged().await;
        })
        .await;
    let heard_until = Utc::now().timestamp();
    let looks = api.calls("conversations.history").len();
    fixture.listening(&slack(&api), api.wait_for_calls("conversations.history", looks + 1)).await;
    let look: &Value = &api.calls("conversations.history")[looks];
    let oldest: i64 = look["oldest"].as_str().unwrap().split('.').next().unwrap().parse().unwrap();
    // Slack may tell late of what was said.
    assert!((begun - 310..=heard_until - 290).contains(&oldest), "{look}");
}

#[tokio::test]
async fn looks_up_a_busy_channel_to_its_end() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    api.say(&in_crew("<@U0CRAB> before"));
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    api.say_unheard(&in_crew("<@U0CRAB> the first"));
    for n in 0..1050 {
        api.say_unheard(&in_crew(&format!("chatter {n}")));
    }
    api.say_unheard(&in_crew("<@U0CRAB> the last"));
    // A busy machine answers pings late while it takes all of that in.
    let patient = SlackDeadlines { silence: Duration::from_secs(10), ..DEADLINES };
    let slack = Slack::with_deadlines(&config(&api), patient).unwrap();
    fixture.listening(&slack, wait_for(&fixture, 3)).await;
    assert_eq!(fixture.texts().await, ["before", "the last", "the first"]);
}
