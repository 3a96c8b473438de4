//! What a failure to send means, and what Discord has when nobody knows.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use peacrab::channels::discord::Threads;
use peacrab::channels::discord::{Config, Discord, DiscordDeadlines};
use peacrab::channels::{Channel, ChannelError, SendLookup, Sent};
use peacrab::secret::Secret;
use peacrab::types::message::{DeliveryId, Outbound};
use tokio::net::TcpListener;

use super::sending::{message, start, to_ada};
use super::{DEADLINES, address, discord_with};
use crate::support::discord_api::line::{ADA, CREW, Line};
use crate::support::discord_api::{self, DiscordApi, Fault, TOKEN};

const POST: &str = "POST /channels/*/messages";
const PATCH: &str = "PATCH /channels/*/messages/*";

async fn failure(fault: Fault) -> (ChannelError, Vec<discord_api::Sent>) {
    let (api, discord) = start().await;
    api.fail(POST, 1, &fault);
    (discord.send(&to_ada("hi")).await.unwrap_err(), api.sent())
}

/// So long that Discord may not know a nonce from then.
fn long_ago() -> DateTime<Utc> {
    Utc::now() - chrono::Duration::minutes(5)
}

#[tokio::test]
async fn waits_as_long_as_discord_says() {
    let (error, sent) = failure(Fault::TooMany { after: 7.25, is_global: false }).await;
    let ChannelError::Unavailable { after: Some(after), .. } = error else { panic!("{error}") };
    assert_eq!((after.as_millis(), sent.len()), (7250, 0));
    let (error, _) = failure(Fault::TooManyBare).await;
    assert!(matches!(error, ChannelError::Unavailable { after: None, .. }), "{error}");
}

#[tokio::test]
async fn asks_nothing_of_a_route_that_must_rest() {
    let (api, discord) = start().await;
    api.fail(POST, 1, &Fault::TooMany { after: 30.0, is_global: false });
    for _ in 0..3 {
        let error = discord.send(&to_ada("hi")).await.unwrap_err();
        assert!(matches!(error, ChannelError::Unavailable { after: Some(_), .. }), "{error}");
    }
    assert_eq!(api.received().len(), 1);
    // Others go on.
    discord.send(&message(address(CREW, None), "hi")).await.unwrap();
    api.fail(POST, 1, &Fault::TooMany { after: 30.0, is_global: true });
    let other = Outbound { id: DeliveryId(2), ..message(address(CREW, None), "hi") };
    discord.send(&other).await.unwrap_err();
    let error = discord.find(&other, long_ago()).await.unwrap_err();
    assert!(error.to_string().contains("limits the rate"), "{error}");
}

#[tokio::test]
async fn keeps_within_the_limits_that_it_is_told() {
    let (api, discord) = start().await;
    api.limit_routes(2, Duration::from_millis(400));
    for n in 1..=6 {
        discord.send(&Outbound { id: DeliveryId(n), ..to_ada("hi") }).await.unwrap();
    }
    assert_eq!((api.sent().len(), api.received().len()), (6, 6), "none was sent in vain");
}

#[tokio::test]
async fn refusals_are_final_and_in_words() {
    for (fault, words) in [
        (Fault::NOT_TO_THIS_USER, "share no server"),
        (Fault::MISSING_ACCESS, "View Channel"),
        (Fault::MISSING_PERMISSIONS, "Send Messages"),
        (Fault::Deny(404, 10003, "Unknown Channel"), "no such channel"),
        (Fault::Deny(400, 160_005, "This thread is locked"), "thread is closed"),
        (Fault::Deny(400, 50035, "Invalid Form Body"), "Invalid Form Body"),
    ] {
        let (error, sent) = failure(fault).await;
        assert!(matches!(&error, ChannelError::Refused(why) if why.contains(words)), "{error}");
        assert_eq!(sent, []);
    }
    let (error, _) = failure(Fault::UNAUTHORIZED).await;
    assert!(matches!(error, ChannelError::Closed(_)), "{error}");
}

#[tokio::test]
async fn a_failing_server_is_noticed_at_once() {
    let begun = Instant::now();
    let (error, sent) = failure(Fault::Status(503)).await;
    assert!(matches!(error, ChannelError::Unavailable { after: None, .. }), "{error}");
    assert_eq!(sent, []);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_lost_answer_leaves_it_in_doubt() {
    let statuses = [500, 502, 504, 520, 524].map(Fault::StatusAfter);
    for fault in std::iter::once(Fault::CutAfter).chain(statuses) {
        let (error, sent) = failure(fault).await;
        assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
        assert_eq!(sent.len(), 1);
    }
    let (api, _) = start().await;
    let hasty = DiscordDeadlines { call: Duration::from_millis(300), ..DEADLINES };
    api.fail(POST, 1, &Fault::Hang);
    let error = discord_with(&api, Threads::Reply, hasty).send(&to_ada("hi")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
}

#[tokio::test]
async fn a_success_that_cannot_be_read_was_a_success() {
    let (api, discord) = start().await;
    api.fail(POST, 1, &Fault::Garbage);
    assert_eq!(discord.send(&to_ada("hi")).await.unwrap(), Sent { id: None });
    assert_eq!(api.sent().len(), 1);
}

#[tokio::test]
async fn an_edit_that_is_in_doubt_is_made_again() {
    let (api, discord) = start().await;
    let draft = discord.send(&to_ada("working…")).await.unwrap();
    let answer = Outbound { replaces: draft.id.clone(), ..to_ada("done") };
    let update = Outbound { id: DeliveryId(0), ..answer.clone() };
    for fault in [Fault::CutAfter, Fault::StatusAfter(500), Fault::Status(502)] {
        api.fail(PATCH, 2, &fault);
        let error = discord.send(&answer).await.unwrap_err();
        assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
        // A draft that comes late would take the answer's place.
        let error = discord.send(&update).await.unwrap_err();
        assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
        assert_eq!(discord.find(&answer, Utc::now()).await.unwrap(), SendLookup::Absent);
    }
    assert_eq!(discord.send(&answer).await.unwrap(), draft);
    assert_eq!(api.sent().len(), 1);
}

#[tokio::test]
async fn knows_whether_a_message_in_doubt_has_arrived() {
    let (api, discord) = start().await;
    let since = long_ago();
    let answer = message(address(CREW, None), "hi Ada");
    assert_eq!(discord.find(&answer, since).await.unwrap(), SendLookup::Absent);
    api.fail(POST, 1, &Fault::CutAfter);
    discord.send(&answer).await.unwrap_err();
    // What people say in the same words is not it.
    api.say(&Line::server(CREW, &ADA, "hi Ada"));
    let there = Sent { id: Some(api.sent()[0].id.to_string().into()) };
    assert_eq!(discord.find(&answer, since).await.unwrap(), SendLookup::Sent(there));
    let later = Utc::now() + chrono::Duration::hours(1);
    assert_eq!(discord.find(&answer, later).await.unwrap(), SendLookup::Absent);
    let other = Outbound { id: DeliveryId(2), ..message(address(CREW, None), "hi Bob") };
    assert_eq!(discord.find(&other, since).await.unwrap(), SendLookup::Absent);
}

#[tokio::test]
async fn the_same_words_to_another_question_are_another_message() {
    let (api, discord) = start().await;
    let since = long_ago();
    let [one, two] =
        [api.say(&Line::server(CREW, &ADA, "1")), api.say(&Line::server(CREW, &ADA, "2"))];
    let to = |asked: u64, id| Outbound {
        id: DeliveryId(id),
        reply_to: Some(asked.to_string().into()),
        ..message(address(CREW, None), "Yes.")
    };
    discord.send(&to(one, 1)).await.unwrap();
    assert_eq!(discord.find(&to(two, 2), since).await.unwrap(), SendLookup::Absent);
    assert!(matches!(discord.find(&to(one, 1), since).await.unwrap(), SendLookup::Sent(_)));
}

#[tokio::test]
async fn looks_through_a_busy_channel() {
    let (api, discord) = start().await;
    let since = long_ago();
    let chatter = |count: usize| {
        for _ in 0..count {
            api.say(&Line::server(CREW, &ADA, "chatter"));
        }
    };
    chatter(250);
    let answer = message(address(CREW, None), "hi Ada");
    discord.send(&answer).await.unwrap();
    chatter(50);
    assert!(matches!(discord.find(&answer, since).await.unwrap(), SendLookup::Sent(_)));
    chatter(300);
    let other = message(address(CREW, None), "hi Bob");
    assert_eq!(discord.find(&other, since).await.unwrap(), SendLookup::Unknowable);
}

#[tokio::test]
async fn who_cannot_be_asked_has_not_said_no() {
    let (api, discord) = start().await;
    for fault in [Fault::Status(502), Fault::CutAfter, Fault::Garbage] {
        api.fail("GET /channels/*/messages", 1, &fault);
        let error = discord.find(&to_ada("hi"), long_ago()).await.unwrap_err();
        assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    }
    // A thread that was never opened holds nothing.
    let unopened = message(address(CREW, Some(5)), "hi");
    assert_eq!(discord.find(&unopened, long_ago()).await.unwrap(), SendLookup::Absent);
}

#[tokio::test]
async fn nobody_at_the_other_end_is_certainly_not_sent() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api_url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let config = Config { token: Secret::new(TOKEN), api_url, threads: Threads::Reply };
    let discord = Discord::with_deadlines(&config, DEADLINES).unwrap();
    let error = discord.send(&to_ada("hi")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains(TOKEN));
}

#[tokio::test]
async fn a_token_that_is_not_ours_is_for_the_operator() {
    let api = DiscordApi::start().await;
    let config = Config {
        token: Secret::new("Bot wrong.token"),
        api_url: api.url().to_owned(),
        threads: Threads::Reply,
    };
    let discord = Discord::with_deadlines(&config, DEADLINES).unwrap();
    let error = discord.send(&to_ada("hi")).await.unwrap_err();
    assert!(matches!(&error, ChannelError::Closed(why) if why.contains("not accepted")), "{error}");
}

#[tokio::test]
async fn the_same_words_twice_in_a_row_are_two_answers() {
    let (api, discord) = start().await;
    let done = |id| Outbound { id: DeliveryId(id), ..message(address(CREW, None), "Done.") };
    discord.send(&done(1)).await.unwrap();
    let since = Utc::now();
    api.fail(POST, 1, &Fault::Status(502));
    discord.send(&done(2)).await.unwrap_err();
    assert_eq!(discord.find(&done(2), since).await.unwrap(), SendLookup::Absent);
    // Made again, it is there once, whether it had arrived or not.
    let sent = discord.send(&done(2)).await.unwrap();
    assert_eq!(discord.send(&done(2)).await.unwrap(), sent);
    assert_eq!(api.sent().len(), 2);
}

#[tokio::test]
async fn what_only_cannot_be_edited_is_said_anew() {
    let (api, discord) = start().await;
    let draft = discord.send(&to_ada("working…")).await.unwrap();
    let answer = Outbound { replaces: draft.id, ..to_ada("done") };
    for (fault, is_gone) in [
        (Fault::Deny(400, 50083, "Thread is archived"), true),
        (Fault::Deny(400, 30046, "Maximum number of edits to messages older than 1 hour"), true),
        (Fault::MISSING_PERMISSIONS, false),
    ] {
        api.fail(PATCH, 1, &fault);
        let error = discord.send(&answer).await.unwrap_err();
        assert_eq!(matches!(error, ChannelError::DraftGone), is_gone, "{fault:?}: {error}");
    }
}

#[tokio::test]
async fn a_page_of_something_on_the_way_is_no_refusal() {
    for fault in [
        Fault::Status(401),
        Fault::Status(403),
        Fault::Status(404),
        Fault::Deny(403, 40333, "internal network error"),
    ] {
        let (error, sent) = failure(fault.clone()).await;
        assert!(matches!(error, ChannelError::Unavailable { .. }), "{fault:?}: {error}");
        assert_eq!(sent, []);
    }
}
