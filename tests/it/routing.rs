//! The inbound pipeline: what becomes of an event, whichever platform it is of.

use chrono::{DateTime, Duration, Utc};
use peacrab::bus::Published;
use peacrab::channels::backlog::Position;
use peacrab::channels::routing::{
    Addressee, AddressingRules, DecodedMessage, EDIT_AGE_MAX, EventOutcome, InboundEvent, Route,
    receive, receive_one, route,
};
use peacrab::people::Groups;
use peacrab::store::StoreOptions;
use peacrab::types::message::{Address, Cause, ChatKind, Inbound, InboundContent, Sender};

use crate::support::adapter_fixture::AdapterFixture;

fn at() -> Address {
    Address { channel: "home".into(), chat: "-1".into(), thread: None }
}

/// What Bob says in a group.
fn message(id: &str, addressee: Addressee, text: &str) -> DecodedMessage {
    let inbound = Inbound {
        key: format!("key of {id}").into(),
        at: Utc::now(),
        from: at(),
        chat_kind: ChatKind::Group,
        within: Vec::new(),
        cause: Cause::Person(Sender::person("2", "Bob")),
        id: Some(id.into()),
        body: InboundContent::text(text),
    };
    let context = text.to_owned();
    DecodedMessage { inbound, addressee, context_address: at(), context, bot_ids: Vec::new() }
}

fn edited(message: DecodedMessage, sent_at: DateTime<Utc>) -> InboundEvent {
    InboundEvent::Edited { message, sent_at }
}

fn overheard(fixture: &AdapterFixture) -> Vec<String> {
    fixture.bus.overheard.lines(&at()).into_iter().map(|line| line.text).collect()
}

#[test]
fn knows_what_is_said_to_the_bot() {
    use Addressee::{AnotherBot, Bot, Others, Thread};
    use Groups::{Always, Mention, Off};
    use Route::{Ignored, Overheard, ToBot};
    // Addressed to whom, in which groups, in a thread that the bot takes part in: and read again.
    for (addressee, groups, was_addressed, expected, strict) in [
        (Bot, Off, false, Ignored, Ignored),
        (Bot, Mention, false, ToBot, ToBot),
        (Bot, Always, false, ToBot, ToBot),
        (Thread, Mention, false, Overheard, Overheard),
        (Thread, Mention, true, ToBot, Overheard),
        (Thread, Always, false, ToBot, Overheard),
        (Others, Off, true, Ignored, Ignored),
        (Others, Mention, true, Overheard, Overheard),
        (Others, Always, false, ToBot, Overheard),
        (AnotherBot, Always, true, Ignored, Ignored),
    ] {
        let (said, rules) =
            (message("1", addressee, "hi"), AddressingRules { groups, was_addressed });
        assert_eq!(route(&said, rules), expected, "{addressee:?} {rules:?}");
        assert_eq!(route(&said, rules.strict()), strict, "strictly {addressee:?} {rules:?}");
    }
    // A command to stop needs no mention, but is not for another bot.
    for (addressee, groups, text, expected) in [
        (Others, Mention, "/stop", ToBot),
        (Thread, Mention, " /Stop it, please", ToBot),
        (Others, Mention, "please /stop", Overheard),
        (Others, Mention, "/stopping", Overheard),
        (Others, Mention, "/new", Overheard),
        (Others, Off, "/stop", Ignored),
        (AnotherBot, Mention, "/stop", Ignored),
    ] {
        let (said, rules) =
            (message("1", addressee, text), AddressingRules { groups, was_addressed: false });
        assert_eq!(route(&said, rules), expected, "{addressee:?} {groups:?} {text}");
        assert_eq!(route(&said, rules.strict()), expected, "strictly {addressee:?} {text}");
    }
    let mut private = message("1", Addressee::Others, "hi");
    private.inbound.chat_kind = ChatKind::Private;
    assert_eq!(
        route(&private, AddressingRules { groups: Groups::Off, was_addressed: false }),
        Route::ToBot
    );
}

#[tokio::test]
async fn an_edit_is_answered_as_long_as_it_is_not_old() {
    let fixture = AdapterFixture::new();
    let now = Utc::now();
    for (id, age, expected) in [
        ("1", EDIT_AGE_MAX, EventOutcome::Published(Published::Accepted)),
        ("2", EDIT_AGE_MAX + Duration::seconds(1), EventOutcome::Ignored),
    ] {
        let mut message = message(id, Addressee::Bot, "what is it?");
        message.inbound.at = now;
        let outcome = receive_one(&fixture.publisher, edited(message, now - age)).await.unwrap();
        assert_eq!(outcome, expected);
    }
    // However old a message is that waits, it is answered as it is now, to whomever it speaks.
    let changed = message("1", Addressee::Others, "what was it?");
    let outcome = receive_one(&fixture.publisher, edited(changed, now - Duration::days(1))).await;
    assert_eq!(outcome.unwrap(), EventOutcome::Published(Published::Repeated));
    assert_eq!(fixture.texts().await, ["what was it?"]);
}

#[tokio::test]
async fn an_edit_by_somebody_else_changes_no_words() {
    let fixture = AdapterFixture::new();
    let asked = InboundEvent::New(message("1", Addressee::Bot, "what is it?"));
    let outcome = receive_one(&fixture.publisher, asked).await.unwrap();
    assert_eq!(outcome, EventOutcome::Published(Published::Accepted));
    for addressee in [Addressee::Bot, Addressee::Others] {
        let mut forged = message("1", addressee, "tell me all");
        forged.inbound.cause = Cause::Person(Sender::person("3", "Eve"));
        let outcome = receive_one(&fixture.publisher, edited(forged, Utc::now())).await.unwrap();
        assert_eq!(outcome, EventOutcome::Published(Published::Repeated));
        assert_eq!(fixture.texts().await, ["what is it?"]);
    }
}

#[tokio::test]
async fn of_events_that_come_together_each_is_decided_on_in_order() {
    let fixture = AdapterFixture::new();
    let line = |text: &str| message("1", Addressee::Others, text);
    let deleted = InboundEvent::Deleted { address: at(), id: "3".into(), key: "key of 3".into() };
    let outcomes = receive(
        &fixture.publisher,
        vec![
            InboundEvent::New(line("it rains")),
            InboundEvent::New(message("2", Addressee::Bot, "does it?")),
            edited(line("it pours"), Utc::now()),
            InboundEvent::New(message("3", Addressee::Others, "no")),
            deleted,
            InboundEvent::Unreadable { key: "key of 4".into(), raw: "{}".to_owned() },
            InboundEvent::Ignored,
        ],
        Some("the mark".to_owned()),
    );
    let expected = [
        EventOutcome::Ignored,
        EventOutcome::Published(Published::Accepted),
        EventOutcome::Ignored,
        EventOutcome::Ignored,
        EventOutcome::Stored,
        EventOutcome::Stored,
        EventOutcome::Ignored,
    ];
    assert_eq!(outcomes.await.unwrap(), expected);
    assert_eq!(fixture.texts().await, ["does it?"]);
    assert_eq!(overheard(&fixture), ["it pours"]);
    let (mark, _) = fixture.publisher.mark().await.unwrap().unwrap();
    assert_eq!(mark, "the mark");
}

#[tokio::test]
async fn what_is_read_again_is_not_overheard_again() {
    let fixture = AdapterFixture::new();
    let line = || message("1", Addressee::Others, "it rains");
    receive_one(&fixture.publisher, InboundEvent::New(line())).await.unwrap();
    fixture.bus.overheard.remove_shown(&at(), 1);
    receive_one(&fixture.publisher, InboundEvent::Reread(line())).await.unwrap();
    let asked = message("2", Addressee::Bot, "does it?");
    receive_one(&fixture.publisher, InboundEvent::Reread(asked)).await.unwrap();
    assert_eq!((overheard(&fixture).len(), fixture.texts().await.len()), (0, 1));
}

#[tokio::test]
async fn a_button_in_a_group_that_is_off_is_turned_away() {
    for (groups, expected) in
        [(Groups::Off, Published::TurnedAway), (Groups::Mention, Published::Gone)]
    {
        let fixture =
            AdapterFixture::with(&StoreOptions::default(), |access| access.groups = groups);
        let mut press = message("1", Addressee::Others, "").inbound;
        press.body.press = Some("p:9:0".parse().unwrap());
        let outcome = receive_one(&fixture.publisher, InboundEvent::Pressed(press)).await.unwrap();
        assert_eq!(outcome, EventOutcome::Published(expected));
    }
}

#[test]
fn positions_are_in_the_order_in_which_things_were_said() {
    let positions = ["", "999", "1000", "1001", "1700000055.000200", "1700000055.000300"];
    let positions = positions.map(|at| Position(at.to_owned()));
    assert!(positions.is_sorted(), "{positions:?}");
}
