//! The link to the gateway: whatever happens to it, nothing is lost and nobody else suffers.

use std::time::{Duration, Instant};

use peacrab::channels::ChannelError;
use peacrab::channels::discord::DiscordDeadlines;
use peacrab::channels::discord::Threads;

use super::{DEADLINES, discord, discord_with};
use crate::support::desk::Desk;
use crate::support::discord_api::line::{ADA, Line};
use crate::support::discord_api::{DiscordApi, Disturb, Fault};

fn from_ada(text: &str) -> Line {
    Line::private(&ADA, text)
}

#[tokio::test]
async fn loses_nothing_when_the_link_is_disturbed() {
    for disturb in [
        Disturb::Close(None),
        Disturb::Close(Some(1000)),
        Disturb::Close(Some(4000)),
        Disturb::Cut,
        Disturb::Reconnect,
        Disturb::InvalidSession { resumable: true },
        Disturb::Garbage,
    ] {
        let (api, desk) = (DiscordApi::start().await, Desk::new());
        let disturbed = format!("{disturb:?}");
        desk.listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&from_ada("one"));
            desk.wait_for(1).await;
            api.disturb(disturb);
            api.say(&from_ada("two"));
            assert_eq!(desk.wait_for(2).await, ["one", "two"], "{disturbed}");
            api.say(&from_ada("three"));
            assert_eq!(desk.wait_for(3).await, ["one", "two", "three"], "{disturbed}");
        })
        .await;
        assert_eq!(api.sessions().0, 1, "{disturbed}: it resumes");
        assert_eq!(api.gateway_faults(), Vec::<String>::new(), "{disturbed}");
    }
}

#[tokio::test]
async fn a_session_that_became_invalid_is_begun_anew_and_read_back() {
    let (api, desk) = (DiscordApi::start().await, Desk::new());
    desk.listening(&discord(&api), async {
        api.wait_for_sessions(1, 0).await;
        api.say(&from_ada("one"));
        desk.wait_for(1).await;
        api.say_unheard(&from_ada("two"));
        api.disturb(Disturb::InvalidSession { resumable: false });
        assert_eq!(desk.wait_for(2).await, ["one", "two"]);
        api.wait_for_sessions(2, 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_session_that_was_forgotten_is_given_up() {
    let (api, desk) = (DiscordApi::start().await, Desk::new());
    let discord = discord(&api);
    let (error, ()) = tokio::join!(desk.listen(&discord), async {
        api.wait_for_sessions(1, 0).await;
        api.say(&from_ada("one"));
        desk.wait_for(1).await;
        api.disturb(Disturb::Close(Some(4009)));
    });
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    desk.listening(&discord, async {
        api.wait_for_sessions(2, 0).await;
        api.say(&from_ada("two"));
        desk.wait_for(2).await;
    })
    .await;
}

#[tokio::test]
async fn notices_a_link_that_went_silent() {
    let (api, desk) = (DiscordApi::start().await, Desk::new());
    let hasty = DiscordDeadlines { silence: Duration::from_millis(1500), ..DEADLINES };
    let discord = discord_with(&api, Threads::Reply, hasty);
    let (error, ()) = tokio::join!(desk.listen(&discord), async {
        api.wait_for_sessions(1, 0).await;
        api.disturb(Disturb::Freeze);
        api.say(&from_ada("into the void"));
    });
    assert!(error.to_string().contains("silent"), "{error}");
    // What was said meanwhile is told on the next link.
    desk.listening(&discord, desk.wait_for(1)).await;
    assert_eq!(desk.texts().await, ["into the void"]);
}

#[tokio::test]
async fn heartbeats_keep_a_quiet_link_alive() {
    let (api, desk) = (DiscordApi::start().await, Desk::new());
    api.set_heartbeat(Duration::from_millis(400));
    let hasty = DiscordDeadlines { silence: Duration::from_millis(1500), ..DEADLINES };
    desk.listening(&discord_with(&api, Threads::Reply, hasty), api.wait_for_heartbeats(6)).await;
    assert_eq!(api.sessions(), (1, 0));
}

#[tokio::test]
async fn does_not_wait_for_a_gateway_that_says_nothing() {
    let (api, desk) = (DiscordApi::start().await, Desk::new());
    let hasty = DiscordDeadlines { ready: Duration::from_secs(2), ..DEADLINES };
    api.mute_gateway(1);
    let begun = Instant::now();
    let error = desk.listen(&discord_with(&api, Threads::Reply, hasty)).await;
    assert!(error.to_string().contains("silent"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(6));
}

/// Heartbeats are acknowledged more often than anything is waited for.
const LIVELY: Duration = Duration::from_millis(300);
const IMPATIENT: DiscordDeadlines = DiscordDeadlines { ready: Duration::from_secs(2), ..DEADLINES };

#[tokio::test]
async fn a_resume_that_is_never_answered_gives_way_to_a_new_session() {
    let (api, desk) = (DiscordApi::start().await, Desk::new());
    api.set_heartbeat(LIVELY);
    let discord = discord_with(&api, Threads::Reply, IMPATIENT);
    let (error, ()) = tokio::join!(desk.listen(&discord), async {
        api.wait_for_sessions(1, 0).await;
        api.say(&from_ada("one"));
        desk.wait_for(1).await;
        assert!(desk.link.state().up);
        api.ignore_session();
        api.disturb(Disturb::Cut);
        api.say(&from_ada("two"));
    });
    assert!(error.to_string().contains("does not answer"), "{error}");
    assert!(!desk.link.state().up, "up is said of what was resumed only");
    desk.listening(&discord, async {
        assert_eq!(desk.wait_for(2).await, ["one", "two"]);
        assert!(desk.link.state().up);
    })
    .await;
    assert_eq!(api.sessions(), (2, 0));
    assert_eq!(api.gateway_faults(), Vec::<String>::new());
}

#[tokio::test]
async fn a_stored_session_that_is_never_gone_on_with_gives_way_to_a_new_one() {
    let (api, desk) = (DiscordApi::start().await, Desk::new());
    api.set_heartbeat(LIVELY);
    desk.listening(&discord(&api), async {
        api.wait_for_sessions(1, 0).await;
        api.say(&from_ada("one"));
        desk.wait_for(1).await;
    })
    .await;
    api.say(&from_ada("two"));
    // Two daemons after that one.
    for _ in 0..2 {
        api.ignore_session();
        let error = desk.listen(&discord_with(&api, Threads::Reply, IMPATIENT)).await;
        assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    }
    desk.listening(&discord(&api), desk.wait_for(2)).await;
    assert_eq!((desk.texts().await, api.sessions()), (vec!["one".into(), "two".into()], (2, 0)));
}

#[tokio::test]
async fn a_session_whose_resumes_all_fail_gives_way_to_a_new_one() {
    let (api, desk) = (DiscordApi::start().await, Desk::new());
    let discord = discord(&api);
    desk.listening(&discord, async {
        api.wait_for_sessions(1, 0).await;
        api.say(&from_ada("one"));
        desk.wait_for(1).await;
    })
    .await;
    api.say(&from_ada("two"));
    for _ in 0..8 {
        api.refuse_session(4000);
        let error = desk.listen(&discord).await;
        assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
        assert_eq!(api.sessions(), (1, 0));
    }
    desk.listening(&discord, desk.wait_for(2)).await;
    assert_eq!((desk.texts().await, api.sessions()), (vec!["one".into(), "two".into()], (2, 0)));
}

#[tokio::test]
async fn what_only_the_operator_can_mend_is_told_in_words() {
    let (api, desk) = (DiscordApi::start().await, Desk::new());
    let discord = discord(&api);
    for (code, words) in [
        (4004, "token not accepted"),
        (4010, "too many servers"),
        (4013, "does not know"),
        (4014, "Message Content Intent"),
    ] {
        api.refuse_session(code);
        let error = desk.listen(&discord).await;
        assert!(matches!(&error, ChannelError::Closed(why) if why.contains(words)), "{error}");
    }
    api.forbid_message_content();
    let error = desk.listen(&discord).await;
    assert!(matches!(&error, ChannelError::Closed(why) if why.contains("switch on")), "{error}");
    api.fail("GET /users/@me", 1, &Fault::UNAUTHORIZED);
    let error = desk.listen(&discord).await;
    assert!(matches!(&error, ChannelError::Closed(why) if why.contains("Reset Token")), "{error}");
    assert!(!desk.link.state().up);
}

#[tokio::test]
async fn begins_no_more_sessions_than_discord_allows() {
    let (api, desk) = (DiscordApi::start().await, Desk::new());
    api.use_up_session_starts();
    let error = desk.listen(&discord(&api)).await;
    assert!(
        matches!(&error, ChannelError::Unavailable { after: Some(after), .. } if after.as_secs() == 14_400),
        "{error}"
    );
    assert_eq!(api.sessions(), (0, 0));
}

#[tokio::test]
async fn being_dropped_loses_nothing() {
    let (api, desk) = (DiscordApi::start().await, Desk::new());
    let discord = discord(&api);
    let mut said = Vec::new();
    for n in 0..5 {
        let text = format!("line {n}");
        desk.listening(&discord, async {
            api.wait_for_sessions(1, n).await;
            api.say(&from_ada(&text));
            desk.wait_for(2 * n + 1).await;
        })
        .await;
        let between = format!("between {n}");
        api.say(&from_ada(&between));
        said.extend([text, between]);
    }
    desk.listening(&discord, desk.wait_for(10)).await;
    assert_eq!(desk.texts().await, said);
}

#[tokio::test]
async fn goes_on_at_the_usual_address_when_the_other_is_gone() {
    let (api, desk) = (DiscordApi::start().await, Desk::new());
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    api.resume_at(&format!("ws://{}", free.local_addr().unwrap()));
    drop(free);
    let discord = discord(&api);
    desk.listening(&discord, async {
        api.wait_for_sessions(1, 0).await;
        api.say(&from_ada("one"));
        desk.wait_for(1).await;
        api.disturb(Disturb::Cut);
        api.say(&from_ada("two"));
        desk.wait_for(2).await;
    })
    .await;
    // A daemon after this one, too.
    api.say(&from_ada("three"));
    desk.listening(&super::discord(&api), desk.wait_for(3)).await;
    assert_eq!((desk.texts().await.len(), api.sessions().0), (3, 1));
}

#[tokio::test]
async fn begins_no_session_after_session_by_itself() {
    let (api, desk) = (DiscordApi::start().await, Desk::new());
    for _ in 0..2 {
        api.refuse_session(4000);
    }
    let error = desk.listen(&discord(&api)).await;
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    // The other is still to be refused.
    let error = desk.listen(&discord(&api)).await;
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    let discord = discord(&api);
    let (error, ()) = tokio::join!(desk.listen(&discord), async {
        api.wait_for_sessions(1, 0).await;
        api.use_up_session_starts();
        api.disturb(Disturb::InvalidSession { resumable: false });
    });
    assert!(error.to_string().contains("no more new sessions"), "{error}");
    assert_eq!(api.sessions(), (1, 0));
}
