//! Polling: nothing is confirmed that is not kept, and nothing is kept twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use peacrab::bus::{Bus, Link, Publisher};
use peacrab::channels::{Channel, ChannelError};
use peacrab::message::{Address, Body, DeliveryId, Inbound, Outbound};
use peacrab::people::{Access, People};
use peacrab::store::{Options, Store};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::timeout;

use super::{CREW, DEADLINES, telegram, telegram_at};
use crate::support::bot_api::line::{ADA, BOB, Line};
use crate::support::bot_api::{BotApi, Fault};

const DEADLINE: Duration = Duration::from_secs(20);

/// A bus that lets everybody in, and where it is kept.
struct Desk {
    bus: Bus,
    link: Arc<Link>,
    publisher: Publisher,
    _home: TempDir,
}

impl Desk {
    fn new(options: &Options) -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path(), options).unwrap();
        let access = Access { allow: vec!["*".to_owned()], ..Access::default() };
        let people = People::new(BTreeMap::from([("home".into(), access)]));
        let bus = Bus::new(store, people, 100);
        let link = Arc::new(Link::default());
        let (publisher, _) = bus.publisher(&"home".into(), Arc::clone(&link));
        Self { bus, link, publisher, _home: home }
    }

    /// Does something while the adapter listens.
    async fn listening<T>(&self, api: &BotApi, doing: impl Future<Output = T>) -> T {
        let telegram = telegram(api, DEADLINES);
        tokio::select! {
            ended = telegram.listen(&self.publisher) => panic!("stopped listening: {ended:?}"),
            done = doing => done,
        }
    }

    /// Listens until the link ends.
    async fn listen(&self, api: &BotApi) -> ChannelError {
        let telegram = telegram(api, DEADLINES);
        timeout(DEADLINE, telegram.listen(&self.publisher)).await.unwrap().unwrap_err()
    }

    async fn heard(&self) -> Vec<Inbound> {
        let rows = self.bus.store.read(|store| {
            let mut rows = store.prepare("SELECT message FROM inbound ORDER BY id")?;
            rows.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()
        });
        rows.await.unwrap().iter().map(|row| serde_json::from_str(row).unwrap()).collect()
    }

    async fn texts(&self) -> Vec<String> {
        self.heard().await.into_iter().map(|inbound| inbound.body.text).collect()
    }

    async fn count_unreadable(&self) -> i64 {
        let count = self
            .bus
            .store
            .read(|store| store.query_row("SELECT count(*) FROM unreadable", [], |row| row.get(0)));
        count.await.unwrap()
    }
}

fn from_ada(text: &str) -> Line {
    Line::private(&ADA, text)
}

#[tokio::test]
async fn keeps_what_it_hears_and_then_confirms_it() {
    let (api, desk) = (BotApi::start().await, Desk::new(&Options::default()));
    api.say(&from_ada("one"));
    api.say(&Line::group(CREW, &BOB, "not for the bot"));
    api.say(&from_ada("two"));
    desk.listening(&api, async {
        api.wait_for_confirmed().await;
        assert_eq!(desk.texts().await, ["one", "two"]);
        api.say(&from_ada("three"));
        api.wait_for_confirmed().await;
    })
    .await;
    assert_eq!(desk.texts().await, ["one", "two", "three"]);
    let state = desk.link.state();
    assert_eq!((state.up, state.about.as_str()), (true, "@peacrab_bot"));
}

#[tokio::test]
async fn confirms_nothing_that_could_not_be_kept() {
    let full = Options { pages_max: Some(1), ..Options::default() };
    let (api, desk) = (BotApi::start().await, Desk::new(&full));
    api.say(&from_ada(&"long ".repeat(20_000)));
    let error = desk.listen(&api).await;
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    assert_eq!((api.unconfirmed(), desk.texts().await), (1, vec![]));
}

#[tokio::test]
async fn being_dropped_confirms_nothing_and_loses_nothing() {
    let (api, desk) = (BotApi::start().await, Desk::new(&Options::default()));
    api.say(&from_ada("one"));
    let mut inbox = desk.bus.inbox.watch();
    desk.listening(&api, async { inbox.changed().await.unwrap() }).await;
    api.say(&from_ada("two"));
    desk.listening(&api, api.wait_for_confirmed()).await;
    assert_eq!(desk.texts().await, ["one", "two"]);
}

#[tokio::test]
async fn goes_on_from_its_mark_after_a_restart() {
    let (api, desk) = (BotApi::start().await, Desk::new(&Options::default()));
    api.say(&from_ada("one"));
    desk.listening(&api, api.wait_for_confirmed()).await;
    let before = api.received().len();
    desk.listening(&api, api.wait_for_calls("getUpdates", before + 1)).await;
    let first_poll = &api.received()[before..][1];
    assert_eq!(first_poll.body["offset"], 901, "{first_poll:?}");
}

#[tokio::test]
async fn follows_ids_that_become_lower() {
    let (api, desk) = (BotApi::start().await, Desk::new(&Options::default()));
    api.say(&from_ada("one"));
    desk.listening(&api, api.wait_for_confirmed()).await;
    api.pass_a_week(17);
    let week_ago = chrono::Utc::now() - chrono::Duration::days(7);
    age_mark(&desk, week_ago.timestamp_millis()).await;
    api.say(&from_ada("two"));
    desk.listening(&api, async {
        api.wait_for_confirmed().await;
        api.say(&from_ada("three"));
        api.wait_for_confirmed().await;
    })
    .await;
    assert_eq!(desk.texts().await, ["one", "two", "three"]);
}

async fn age_mark(desk: &Desk, at: i64) {
    let aged = desk.bus.store.write("age", peacrab::store::Sync::Now, move |store| {
        store.execute("UPDATE marks SET at = ?", [at])
    });
    assert_eq!(aged.await.unwrap(), 1);
}

#[tokio::test]
async fn keeps_what_cannot_be_read_and_goes_on() {
    let (api, desk) = (BotApi::start().await, Desk::new(&Options::default()));
    api.say_garbled(&from_ada("garbled"));
    api.push_update(json!({ "of_next_year": {} }));
    api.say(&from_ada("clear"));
    desk.listening(&api, api.wait_for_confirmed()).await;
    assert_eq!((desk.texts().await, desk.count_unreadable().await), (vec!["clear".to_owned()], 2));
}

#[tokio::test]
async fn is_not_troubled_by_fields_that_it_does_not_know() {
    let (api, desk) = (BotApi::start().await, Desk::new(&Options::default()));
    api.invent_fields();
    api.say(&from_ada("hello"));
    desk.listening(&api, api.wait_for_confirmed()).await;
    assert_eq!(desk.texts().await, ["hello"]);
}

#[tokio::test]
async fn a_wrong_token_is_for_the_operator() {
    let (api, desk) = (BotApi::start().await, Desk::new(&Options::default()));
    let stranger = telegram_at(api.url(), "4242:wrong", DEADLINES);
    let error = stranger.listen(&desk.publisher).await.unwrap_err();
    assert!(matches!(&error, ChannelError::Closed(why) if why.contains("@BotFather")), "{error}");
    assert!(!desk.link.state().up);
    api.fail("getUpdates", 1, &Fault::UNAUTHORIZED);
    assert!(matches!(desk.listen(&api).await, ChannelError::Closed(_)));
}

#[tokio::test]
async fn says_who_else_takes_its_messages() {
    let (api, desk) = (BotApi::start().await, Desk::new(&Options::default()));
    for (fault, words) in [(Fault::CONFLICT, "another program"), (Fault::WEBHOOK, "webhook")] {
        api.fail("getUpdates", 1, &fault);
        let error = desk.listen(&api).await;
        assert!(
            matches!(&error, ChannelError::Unavailable { reason, .. } if reason.contains(words)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn of_two_that_poll_the_later_wins() {
    let (api, desk) = (BotApi::start().await, Desk::new(&Options::default()));
    let second = async {
        api.wait_for_calls("getUpdates", 1).await;
        desk.listen(&api).await
    };
    // One of them ends; which one is a matter of who polls last.
    let error = tokio::select! {
        error = desk.listen(&api) => error,
        error = second => error,
    };
    assert!(error.to_string().contains("another program"), "{error}");
}

#[tokio::test]
async fn notices_a_link_that_went_silent() {
    let (api, desk) = (BotApi::start().await, Desk::new(&Options::default()));
    for fault in [Fault::Hang, Fault::Status(502), Fault::TooMany { after: 3 }, Fault::CutAfter] {
        api.fail("getUpdates", 1, &fault);
        let error = desk.listen(&api).await;
        assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    }
    api.fail("getUpdates", 1, &Fault::Garbage);
    assert!(desk.listen(&api).await.to_string().contains("cannot be read"));
}

#[tokio::test]
async fn hears_once_what_it_is_told_twice() {
    let (api, desk) = (BotApi::start().await, Desk::new(&Options::default()));
    api.say(&from_ada("one"));
    api.fail("getUpdates", 1, &Fault::CutAfter);
    desk.listen(&api).await;
    let again = json!({ "message": from_ada("one").json(11, None) });
    api.push_update(again);
    desk.listening(&api, api.wait_for_confirmed()).await;
    assert_eq!(desk.texts().await, ["one"]);
}

#[tokio::test]
async fn hears_who_replies_to_what_it_said() {
    let (api, desk) = (BotApi::start().await, Desk::new(&Options::default()));
    api.say(&Line::group(CREW, &BOB, "just talking"));
    let body = Body::Text("Shall I?".to_owned());
    let to = Address { channel: "home".into(), chat: CREW.to_string().into(), thread: None };
    let question =
        Outbound { id: DeliveryId(1), part: 0, to, reply_to: None, replaces: None, body };
    telegram(&api, DEADLINES).send(&question).await.unwrap();
    let said = api.wait_for_sent(1).await.remove(0);
    api.say(&Line::group(CREW, &BOB, "please do").replying_to(said.id));
    desk.listening(&api, api.wait_for_confirmed()).await;
    assert_eq!(desk.texts().await, ["please do"]);
}
