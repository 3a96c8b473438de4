//! Polling: nothing is confirmed that is not kept, and nothing is kept twice.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use peacrab::bus::outbox;
use peacrab::channels::telegram::TelegramDeadlines;
use peacrab::channels::telegram::poll_conflict::PollConflicts;
use peacrab::channels::{Channel, ChannelError};
use peacrab::replies;
use peacrab::store::{CommitEvent, Phase, StoreOptions, Sync};
use peacrab::types::commands;
use peacrab::types::message::{AllowedPressers, Body, Choice, Outbound, Question};
use serde_json::json;

use super::{CREW, DEADLINES, acquainted, address, message, telegram, telegram_at, to_ada};
use crate::support::adapter_fixture::AdapterFixture;
use crate::support::bot_api::line::{ADA, BOB, Line};
use crate::support::bot_api::{BotApi, Fault};

const UNREADABLE: &str = "SELECT count(*) FROM unreadable";

fn from_ada(text: &str) -> Line {
    Line::private(&ADA, text)
}

#[tokio::test]
async fn keeps_what_it_hears_and_then_confirms_it() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    api.say(&from_ada("one"));
    api.say(&Line::group(CREW, &BOB, "not for the bot"));
    api.say(&from_ada("two"));
    fixture
        .listening(&telegram(&api, DEADLINES), async {
            api.wait_for_confirmed().await;
            assert_eq!(fixture.texts().await, ["one", "two"]);
            api.say(&from_ada("three"));
            api.wait_for_confirmed().await;
        })
        .await;
    assert_eq!(fixture.texts().await, ["one", "two", "three"]);
    let state = fixture.link.state();
    let about = "@peacrab_bot, sees only messages to the bot in groups (privacy mode)";
    assert_eq!((state.up, state.about.as_str()), (true, about));
}

#[tokio::test]
async fn confirms_nothing_that_could_not_be_kept() {
    let full = StoreOptions { pages_max: Some(1), ..StoreOptions::default() };
    let (api, fixture) = (BotApi::start().await, AdapterFixture::with(&full, |_| {}));
    api.say(&from_ada(&"long ".repeat(20_000)));
    let error = fixture.listen(&telegram(&api, DEADLINES)).await;
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    assert_eq!((api.unconfirmed(), fixture.texts().await), (1, vec![]));
}

#[tokio::test]
async fn what_one_poll_brings_is_kept_with_one_commit() {
    let commits: Arc<Mutex<Vec<Vec<&'static str>>>> = Arc::default();
    let seen = Arc::clone(&commits);
    let observer = Arc::new(move |moment: CommitEvent<'_>| {
        if moment.phase == Phase::After {
            seen.lock().unwrap().push(moment.labels.to_vec());
        }
    });
    let options = StoreOptions { observer: Some(observer), ..StoreOptions::default() };
    let (api, fixture) = (BotApi::start().await, AdapterFixture::with(&options, |_| {}));
    api.say(&from_ada("one"));
    let two = api.say(&from_ada("two"));
    api.say(&Line::private(&BOB, "three"));
    api.edit(two, &from_ada("changed"));
    fixture.listening(&telegram(&api, DEADLINES), api.wait_for_confirmed()).await;
    assert_eq!(fixture.texts().await, ["one", "changed", "three"]);
    assert_eq!(*commits.lock().unwrap(), [["publish"]]);
}

#[tokio::test]
async fn of_what_comes_together_nothing_overtakes_what_cannot_be_kept() {
    let full = StoreOptions { pages_max: Some(1), ..StoreOptions::default() };
    let (api, fixture) = (BotApi::start().await, AdapterFixture::with(&full, |_| {}));
    for text in ["one".to_owned(), "long ".repeat(20_000), "three".to_owned()] {
        api.say(&from_ada(&text));
    }
    let error = fixture.listen(&telegram(&api, DEADLINES)).await;
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    assert_eq!((api.unconfirmed(), fixture.texts().await), (3, vec!["one".to_owned()]));
}

#[tokio::test]
async fn being_dropped_confirms_nothing_and_loses_nothing() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    api.say(&from_ada("one"));
    let mut inbox = fixture.bus.inbox.watch();
    fixture.listening(&telegram(&api, DEADLINES), async { inbox.changed().await.unwrap() }).await;
    api.say(&from_ada("two"));
    fixture.listening(&telegram(&api, DEADLINES), api.wait_for_confirmed()).await;
    assert_eq!(fixture.texts().await, ["one", "two"]);
}

#[tokio::test]
async fn goes_on_from_its_mark_after_a_restart() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    api.say(&from_ada("one"));
    fixture.listening(&telegram(&api, DEADLINES), api.wait_for_confirmed()).await;
    let received = api.received();
    let (before, polls) =
        (received.len(), received.iter().filter(|call| call.call == "getUpdates").count());
    fixture
        .listening(&telegram(&api, DEADLINES), api.wait_for_calls("getUpdates", polls + 1))
        .await;
    let received = api.received();
    let first_poll = received[before..].iter().find(|call| call.call == "getUpdates").unwrap();
    assert_eq!(first_poll.body["offset"], 901, "{first_poll:?}");
}

#[tokio::test]
async fn follows_ids_that_become_lower() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    api.say(&from_ada("one"));
    fixture.listening(&telegram(&api, DEADLINES), api.wait_for_confirmed()).await;
    api.pass_a_week(17);
    let week_ago = chrono::Utc::now() - chrono::Duration::days(7);
    age_mark(&fixture, week_ago.timestamp_millis()).await;
    api.say(&from_ada("two"));
    fixture
        .listening(&telegram(&api, DEADLINES), async {
            api.wait_for_confirmed().await;
            api.say(&from_ada("three"));
            api.wait_for_confirmed().await;
        })
        .await;
    assert_eq!(fixture.texts().await, ["one", "two", "three"]);
}

async fn age_mark(fixture: &AdapterFixture, at: i64) {
    let aged = fixture
        .bus
        .store
        .write("age", Sync::Now, move |store| store.execute("UPDATE marks SET at = ?", [at]));
    assert_eq!(aged.await.unwrap(), 1);
}

#[tokio::test]
async fn keeps_what_cannot_be_read_and_goes_on() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    api.say_garbled(&from_ada("garbled"));
    api.push_update(json!({ "of_next_year": {} }));
    api.say(&from_ada("clear"));
    fixture.listening(&telegram(&api, DEADLINES), api.wait_for_confirmed()).await;
    assert_eq!(
        (fixture.texts().await, fixture.count(UNREADABLE).await),
        (vec!["clear".to_owned()], 2)
    );
}

#[tokio::test]
async fn an_update_that_nests_too_deep_is_kept_raw_and_holds_up_nobody() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    let deep = (0..200).fold(json!(1), |deep, _| json!([deep]));
    api.push_update(json!({ "of_next_year": deep }));
    api.say(&from_ada("clear"));
    fixture.listening(&telegram(&api, DEADLINES), api.wait_for_confirmed()).await;
    assert_eq!(
        (fixture.texts().await, fixture.count(UNREADABLE).await),
        (vec!["clear".to_owned()], 1)
    );
}

#[tokio::test]
async fn is_not_troubled_by_fields_that_it_does_not_know() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    api.invent_fields();
    api.say(&from_ada("hello"));
    fixture.listening(&telegram(&api, DEADLINES), api.wait_for_confirmed()).await;
    assert_eq!(fixture.texts().await, ["hello"]);
}

#[tokio::test]
async fn a_wrong_token_is_for_the_operator() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    let stranger = telegram_at(api.url(), "4242:wrong", DEADLINES);
    let error = stranger.listen(&fixture.publisher).await.unwrap_err();
    assert!(matches!(&error, ChannelError::Closed(why) if why.contains("@BotFather")), "{error}");
    assert!(!fixture.link.state().up);
    api.fail("getUpdates", 1, &Fault::UNAUTHORIZED);
    assert!(matches!(fixture.listen(&telegram(&api, DEADLINES)).await, ChannelError::Closed(_)));
}

#[tokio::test]
async fn says_who_else_takes_its_messages() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    for (fault, words) in [(Fault::CONFLICT, "another program"), (Fault::WEBHOOK, "webhook")] {
        api.fail("getUpdates", 1, &fault);
        let error = fixture.listen(&telegram(&api, DEADLINES)).await;
        assert!(
            matches!(&error, ChannelError::Unavailable { reason, .. } if reason.contains(words)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_newcomer_makes_way_for_a_program_that_polls_already() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    let bot = telegram(&api, DEADLINES);
    // So many may be its own former poll, or a restart of the other.
    api.fail("getUpdates", 5, &Fault::CONFLICT);
    for _ in 0..4 {
        assert!(matches!(fixture.listen(&bot).await, ChannelError::Unavailable { .. }));
    }
    let error = fixture.listen(&bot).await;
    assert!(
        matches!(&error, ChannelError::Closed(reason) if reason.contains("makes way")),
        "{error}"
    );
}

#[test]
fn who_polled_first_goes_on() {
    let begun = Instant::now();
    let after = |seconds| begun + Duration::from_secs(seconds);
    let conflicts = |poll_conflicts: &mut PollConflicts, times| {
        (0..times).any(|_| poll_conflicts.note_conflict())
    };
    let mut poll_conflicts = PollConflicts::default();
    poll_conflicts.note_poll(begun);
    poll_conflicts.note_poll(after(299));
    assert!(
        !conflicts(&mut poll_conflicts, 4) && poll_conflicts.note_conflict(),
        "five minutes are not over"
    );
    // The other one has gone.
    poll_conflicts.note_poll(after(600));
    poll_conflicts.note_poll(after(900));
    assert!(!conflicts(&mut poll_conflicts, 100), "it is the first now");
}

#[tokio::test]
async fn of_two_that_poll_the_later_wins() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    let (one, other) = (telegram(&api, DEADLINES), telegram(&api, DEADLINES));
    let second = async {
        api.wait_for_calls("getUpdates", 1).await;
        fixture.listen(&other).await
    };
    // One of them ends; which one is a matter of who polls last.
    let error = tokio::select! {
        error = fixture.listen(&one) => error,
        error = second => error,
    };
    assert!(error.to_string().contains("another program"), "{error}");
}

#[tokio::test]
async fn notices_a_link_that_went_silent() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    for fault in [Fault::Hang, Fault::Status(502), Fault::TooMany { after: 3 }, Fault::CutAfter] {
        api.fail("getUpdates", 1, &fault);
        let error = fixture.listen(&telegram(&api, DEADLINES)).await;
        assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    }
    api.fail("getUpdates", 1, &Fault::Garbage);
    assert!(
        fixture.listen(&telegram(&api, DEADLINES)).await.to_string().contains("cannot be read")
    );
}

#[tokio::test]
async fn hears_once_what_it_is_told_twice() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    api.say(&from_ada("one"));
    api.fail("getUpdates", 1, &Fault::CutAfter);
    fixture.listen(&telegram(&api, DEADLINES)).await;
    let again = json!({ "message": from_ada("one").json(11, None) });
    api.push_update(again);
    fixture.listening(&telegram(&api, DEADLINES), api.wait_for_confirmed()).await;
    assert_eq!(fixture.texts().await, ["one"]);
}

#[tokio::test]
async fn hears_who_replies_to_what_it_said() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    api.say(&Line::group(CREW, &BOB, "just talking"));
    let question = message(address(CREW, None), "Shall I?");
    telegram(&api, DEADLINES).send(&question).await.unwrap();
    let said = api.wait_for_sent(1).await.remove(0);
    api.say(&Line::group(CREW, &BOB, "please do").replying_to(said.id));
    fixture.listening(&telegram(&api, DEADLINES), api.wait_for_confirmed()).await;
    assert_eq!(fixture.texts().await, ["please do"]);
}

#[tokio::test]
async fn says_in_its_status_whether_it_sees_all_of_groups() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    api.turn_privacy_off();
    fixture.listening(&telegram(&api, DEADLINES), api.wait_for_calls("getUpdates", 2)).await;
    assert_eq!(fixture.link.state().about, "@peacrab_bot");
}

#[tokio::test]
async fn has_its_commands_listed_once() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    let polls = |count| api.wait_for_calls("getUpdates", count);
    // They are listed after the first poll of a link.
    fixture.listening(&telegram(&api, DEADLINES), polls(2)).await;
    assert_eq!(api.commands()[0]["command"], "stop");
    assert_eq!(api.commands().as_array().unwrap().len(), commands::menu().count());
    fixture.listening(&telegram(&api, DEADLINES), polls(4)).await;
    let told = api.received().iter().filter(|call| call.call == "setMyCommands").count();
    assert_eq!(told, 1);
}

#[tokio::test]
async fn a_poll_that_fails_repeats_nothing_else() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    let telegram = telegram(&api, DEADLINES);
    fixture.listening(&telegram, api.wait_for_calls("getUpdates", 2)).await;
    for _ in 0..6 {
        api.fail("getUpdates", 1, &Fault::Status(502));
        fixture.listen(&telegram).await;
    }
    api.say(&from_ada("hello"));
    fixture.listening(&telegram, api.wait_for_confirmed()).await;
    assert_eq!(fixture.texts().await, ["hello"]);
    let calls = api.received();
    let others: Vec<_> =
        calls.iter().map(|call| &call.call).filter(|call| *call != "getUpdates").collect();
    assert_eq!(others, ["getMe", "getMyCommands", "setMyCommands"]);
}

#[tokio::test]
async fn is_up_once_a_poll_is_answered() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    for fault in [Fault::CONFLICT, Fault::Status(502), Fault::Hang] {
        api.fail("getUpdates", 1, &fault);
        fixture.listen(&telegram(&api, DEADLINES)).await;
        assert!(!fixture.link.state().up, "{fault:?}");
    }
    fixture.listening(&telegram(&api, DEADLINES), api.wait_for_calls("getUpdates", 5)).await;
    assert!(fixture.link.state().up);
}

#[tokio::test]
async fn hears_though_its_commands_cannot_be_listed() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    api.fail("getMyCommands", 1, &Fault::TooMany { after: 60 });
    api.say(&from_ada("hello"));
    fixture.listening(&telegram(&api, DEADLINES), api.wait_for_confirmed()).await;
    assert_eq!(fixture.texts().await, ["hello"]);
}

#[tokio::test]
async fn an_edit_changes_what_waits() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    let id = api.say(&from_ada("hallo"));
    fixture
        .listening(&telegram(&api, DEADLINES), async {
            api.wait_for_confirmed().await;
            api.edit(id, &from_ada("hello"));
            api.wait_for_confirmed().await;
        })
        .await;
    assert_eq!(fixture.texts().await, ["hello"]);
}

#[tokio::test]
async fn an_edit_that_begins_to_speak_to_the_bot_is_heard() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    let id = api.say(&Line::group(CREW, &BOB, "what is the time?"));
    fixture
        .listening(&telegram(&api, DEADLINES), async {
            api.wait_for_confirmed().await;
            api.edit(id, &Line::group(CREW, &BOB, "@peacrab_bot what is the time?"));
            api.wait_for_confirmed().await;
        })
        .await;
    assert_eq!(fixture.texts().await, ["what is the time?"]);
}

#[tokio::test]
async fn all_of_an_album_is_said_to_whom_its_words_are() {
    let (api, fixture) = (BotApi::start().await, AdapterFixture::new());
    let photo = |album: &str, id: &str| {
        let sizes = json!([{ "file_id": id, "file_unique_id": id, "width": 9, "height": 9 }]);
        Line::group(CREW, &BOB, "").media("photo", sizes).with("media_group_id", album)
    };
    let mention = json!([{ "type": "mention", "offset": 0, "length": 12 }]);
    let spoken = photo("a", "one")
        .with("caption", "@peacrab_bot which is best?")
        .with("caption_entities", mention);
    let others = Line::private(&ADA, "").media(
        "photo",
        json!([{ "file_id": "hers", "file_unique_id": "hers", "width": 9, "height": 9 }]),
    );
    for line in [spoken, others.with("media_group_id", "c"), photo("a", "two"), photo("b", "x")] {
        api.say(&line);
    }
    // Whichever link hears the rest of it.
    let telegram = telegram(&api, DEADLINES);
    tokio::select! {
        ended = telegram.listen(&fixture.publisher) => panic!("stopped listening: {ended:?}"),
        () = async { api.wait_for_confirmed().await; } => {}
    }
    api.say(&photo("a", "three"));
    tokio::select! {
        ended = telegram.listen(&fixture.publisher) => panic!("stopped listening: {ended:?}"),
        () = async { api.wait_for_confirmed().await; } => {}
    }
    let heard = fixture.received().await;
    let handles: Vec<_> = heard.iter().map(|heard| heard.body.media[0].handle.as_str()).collect();
    assert_eq!(handles, ["one", "hers", "two", "three"]);
    assert!(heard.iter().all(|heard| heard.body.more), "{heard:?}");
}

/// A question in Ada's chat, as it was asked.
async fn asked(api: &BotApi, fixture: &AdapterFixture, who: AllowedPressers) -> i64 {
    let choice = |label: &str| Choice { label: label.to_owned(), says: format!("I say {label}") };
    let choices = vec![choice("yes"), choice("no")];
    let body = Body::Choice(Question::new("Shall I?".to_owned(), choices, who));
    let (to, stored) = (address(ADA.id, None), body.clone());
    let put = move |store: &_| outbox::put_body(store, &to, &stored);
    let id = fixture.bus.store.write("put", Sync::Now, put).await.unwrap();
    let question = Outbound { id, body, ..to_ada("") };
    let sent = telegram(api, DEADLINES).send(&question).await.unwrap();
    sent.id.unwrap().as_str().parse().unwrap()
}

#[tokio::test]
async fn a_press_is_heard_and_answered_once_it_is_kept() {
    let ((api, _), fixture) = (acquainted().await, AdapterFixture::new());
    let question = asked(&api, &fixture, AllowedPressers::Anyone).await;
    fixture
        .listening(&telegram(&api, DEADLINES), async {
            let pressed = api.press(&ADA, question, "no");
            assert_eq!(api.wait_for_answer(&pressed).await, None);
            assert_eq!(fixture.texts().await, ["hello", "I say no"]);
            let again = api.press(&BOB, question, "yes");
            let words = api.wait_for_answer(&again).await;
            assert_eq!(words.as_deref(), Some(replies::ALREADY_DECIDED));
            api.wait_for_confirmed().await;
        })
        .await;
    assert_eq!(fixture.texts().await, ["hello", "I say no"]);
}

#[tokio::test]
async fn who_may_not_decide_is_told_so() {
    let ((api, _), fixture) = (acquainted().await, AdapterFixture::new());
    let question = asked(&api, &fixture, AllowedPressers::Only("1".into())).await;
    fixture
        .listening(&telegram(&api, DEADLINES), async {
            let pressed = api.press(&ADA, question, "yes");
            let words = api.wait_for_answer(&pressed).await;
            assert_eq!(words.as_deref(), Some(replies::NOT_YOURS_TO_PRESS));
        })
        .await;
    assert_eq!(fixture.texts().await, ["hello"]);
}

#[tokio::test]
async fn a_button_that_nobody_remembers_is_answered() {
    let ((api, _), fixture) = (acquainted().await, AdapterFixture::new());
    let chat = json!({ "id": ADA.id, "type": "private", "first_name": "Ada" });
    let message = json!({ "message_id": 3, "chat": chat, "date": 0 });
    fixture
        .listening(&telegram(&api, DEADLINES), async {
            let pressed = api.press_other(&ADA, &json!({ "data": "p:999:0", "message": message }));
            let words = api.wait_for_answer(&pressed).await;
            assert_eq!(words.as_deref(), Some(replies::BUTTON_TOO_OLD));
            for data in ["vote:7", "p:x:0", "p:1", ""] {
                let pressed = api.press_other(&ADA, &json!({ "data": data, "message": message }));
                assert_eq!(api.wait_for_answer(&pressed).await, None, "{data}");
            }
            let inline =
                api.press_other(&ADA, &json!({ "data": "p:1:0", "inline_message_id": "i" }));
            assert_eq!(api.wait_for_answer(&inline).await, None);
            api.wait_for_confirmed().await;
        })
        .await;
    assert_eq!(
        (fixture.texts().await, fixture.count(UNREADABLE).await),
        (vec!["hello".to_owned()], 0)
    );
}

#[tokio::test]
async fn a_press_of_which_nobody_can_be_told_is_heard_all_the_same() {
    let ((api, _), fixture) = (acquainted().await, AdapterFixture::new());
    let question = asked(&api, &fixture, AllowedPressers::Anyone).await;
    api.fail("answerCallbackQuery", 1, &Fault::Hang);
    api.press_old(&ADA, question, "yes");
    api.say(&from_ada("and?"));
    fixture.listening(&telegram(&api, DEADLINES), api.wait_for_confirmed()).await;
    assert_eq!(fixture.texts().await, ["hello", "I say yes", "and?"]);
}

#[tokio::test]
async fn a_press_that_telegram_does_not_answer_holds_up_nobody() {
    let ((api, _), fixture) = (acquainted().await, AdapterFixture::new());
    let question = asked(&api, &fixture, AllowedPressers::Anyone).await;
    api.fail("answerCallbackQuery", 1, &Fault::Hang);
    api.press_old(&ADA, question, "yes");
    // Longer than the test waits for anything.
    let patient = TelegramDeadlines { press: Duration::from_secs(600), ..DEADLINES };
    fixture
        .listening(&telegram(&api, patient), async {
            while fixture.texts().await.len() < 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            api.wait_for_calls("answerCallbackQuery", 1).await;
            api.say(&from_ada("and?"));
            api.wait_for_confirmed().await;
            assert_eq!(api.hanging_calls(), 1);
        })
        .await;
    assert_eq!(fixture.texts().await, ["hello", "I say yes", "and?"]);
}
