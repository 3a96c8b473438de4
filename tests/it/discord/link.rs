//! The link to the gateway: whatever happens to it, nothing is lost and nobody else suffers.

use std::time::Duration;

use peacrab::channels::ChannelError;
use peacrab::channels::discord::DiscordDeadlines;
use peacrab::channels::discord::Threads;

use super::{DEADLINES, discord, discord_with};
use crate::support::adapter_fixture::AdapterFixture;
use crate::support::discord_api::line::{ADA, Line};
use crate::support::discord_api::{ConnectionFault, DiscordApi, Fault};

fn from_ada(text: &str) -> Line {
    Line::private(&ADA, text)
}

#[tokio::test]
async fn loses_nothing_when_the_link_is_disturbed() {
    for disturb in [
        ConnectionFault::Close(None),
        ConnectionFault::Close(Some(1000)),
        ConnectionFault::Close(Some(4000)),
        ConnectionFault::Cut,
        ConnectionFault::Reconnect,
        ConnectionFault::InvalidSession { resumable: true },
        ConnectionFault::Garbage,
    ] {
        let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
        let disturbed = format!("{disturb:?}");
        fixture
            .listening(&discord(&api), async {
                api.wait_for_sessions(1, 0).await;
                api.say(&from_ada("one"));
                fixture.wait_for(1).await;
                api.disturb(disturb);
                api.say(&from_ada("two"));
                assert_eq!(fixture.wait_for(2).await, ["one", "two"], "{disturbed}");
                api.say(&from_ada("three"));
                assert_eq!(fixture.wait_for(3).await, ["one", "two", "three"], "{disturbed}");
            })
            .await;
        assert_eq!(api.sessions().0, 1, "{disturbed}: it resumes");
        assert_eq!(api.gateway_faults(), Vec::<String>::new(), "{disturbed}");
    }
}

#[tokio::test]
async fn a_session_that_became_invalid_is_begun_anew_and_read_back() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&from_ada("one"));
            fixture.wait_for(1).await;
            api.say_unheard(&from_ada("two"));
            api.disturb(ConnectionFault::InvalidSession { resumable: false });
            assert_eq!(fixture.wait_for(2).await, ["one", "two"]);
            api.wait_for_sessions(2, 0).await;
        })
        .await;
}

#[tokio::test]
async fn a_session_that_was_forgotten_is_given_up() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let discord = discord(&api);
    let (error, ()) = tokio::join!(fixture.listen(&discord), async {
        api.wait_for_sessions(1, 0).await;
        api.say(&from_ada("one"));
        fixture.wait_for(1).await;
        api.disturb(ConnectionFault::Close(Some(4009)));
    });
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    fixture
        .listening(&discord, async {
            api.wait_for_sessions(2, 0).await;
            api.say(&from_ada("two"));
            fixture.wait_for(2).await;
        })
        .await;
}

#[tokio::test]
async fn notices_a_link_that_went_silent() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let hasty = DiscordDeadlines { silence: Duration::from_millis(1500), ..DEADLINES };
    let discord = discord_with(&api, Threads::Reply, hasty);
    let (error, ()) = tokio::join!(fixture.listen(&discord), async {
        api.wait_for_sessions(1, 0).await;
        api.disturb(ConnectionFault::Freeze);
        api.say(&from_ada("into the void"));
    });
    assert!(error.to_string().contains("silent"), "{error}");
    // What was said meanwhile is told on the next link.
    fixture.listening(&discord, fixture.wait_for(1)).await;
    assert_eq!(fixture.texts().await, ["into the void"]);
}

#[tokio::test]
async fn heartbeats_keep_a_quiet_link_alive() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    api.set_heartbeat(Duration::from_millis(400));
    let hasty = DiscordDeadlines { silence: Duration::from_millis(1500), ..DEADLINES };
    fixture.listening(&discord_with(&api, Threads::Reply, hasty), api.wait_for_heartbeats(6)).await;
    assert_eq!(api.sessions(), (1, 0));
}

#[tokio::test]
async fn does_not_wait_for_a_gateway_that_says_nothing() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    // A link that is up may be silent for longer than a test waits.
    let silence = Duration::from_secs(600);
    let hasty = DiscordDeadlines { ready: Duration::from_secs(2), silence, ..DEADLINES };
    api.mute_gateway(1);
    let error = fixture.listen(&discord_with(&api, Threads::Reply, hasty)).await;
    assert!(error.to_string().contains("silent"), "{error}");
}

/// Heartbeats are acknowledged more often than anything is waited for.
const LIVELY: Duration = Duration::from_millis(300);
const IMPATIENT: DiscordDeadlines = DiscordDeadlines { ready: Duration::from_secs(2), ..DEADLINES };

#[tokio::test]
async fn a_resume_that_is_never_answered_gives_way_to_a_new_session() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    api.set_heartbeat(LIVELY);
    let discord = discord_with(&api, Threads::Reply, IMPATIENT);
    let (error, ()) = tokio::join!(fixture.listen(&discord), async {
        api.wait_for_sessions(1, 0).await;
        api.say(&from_ada("one"));
        fixture.wait_for(1).await;
        assert!(fixture.link.state().up);
        api.ignore_session();
        api.disturb(ConnectionFault::Cut);
        api.say(&from_ada("two"));
    });
    assert!(error.to_string().contains("does not answer"), "{error}");
    assert!(!fixture.link.state().up, "up is said of what was resumed only");
    fixture
        .listening(&discord, async {
            assert_eq!(fixture.wait_for(2).await, ["one", "two"]);
            assert!(fixture.link.state().up);
        })
        .await;
    assert_eq!(api.sessions(), (2, 0));
    assert_eq!(api.gateway_faults(), Vec::<String>::new());
}

#[tokio::test]
async fn a_stored_session_that_is_never_gone_on_with_gives_way_to_a_new_one() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    api.set_heartbeat(LIVELY);
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&from_ada("one"));
            fixture.wait_for(1).await;
        })
        .await;
    api.say(&from_ada("two"));
    // Two daemons after that one.
    for _ in 0..2 {
        api.ignore_session();
        let error = fixture.listen(&discord_with(&api, Threads::Reply, IMPATIENT)).await;
        assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    }
    fixture.listening(&discord(&api), fixture.wait_for(2)).await;
    assert_eq!((fixture.texts().await, api.sessions()), (vec!["one".into(), "two".into()], (2, 0)));
}

#[tokio::test]
async fn a_session_whose_resumes_all_fail_gives_way_to_a_new_one() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let discord = discord(&api);
    fixture
        .listening(&discord, async {
            api.wait_for_sessions(1, 0).await;
            api.say(&from_ada("one"));
            fixture.wait_for(1).await;
        })
        .await;
    api.say(&from_ada("two"));
    for _ in 0..8 {
        api.refuse_session(4000);
        let error = fixture.listen(&discord).await;
        assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
        assert_eq!(api.sessions(), (1, 0));
    }
    fixture.listening(&discord, fixture.wait_for(2)).await;
    assert_eq!((fixture.texts().await, api.sessions()), (vec!["one".into(), "two".into()], (2, 0)));
}

#[tokio::test]
async fn what_only_the_operator_can_mend_is_told_in_words() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let discord = discord(&api);
    for (code, words) in [
        (4004, "token not accepted"),
        (4010, "too many servers"),
        (4013, "does not know"),
        (4014, "Message Content Intent"),
    ] {
        api.refuse_session(code);
        let error = fixture.listen(&discord).await;
        assert!(matches!(&error, ChannelError::Closed(why) if why.contains(words)), "{error}");
    }
    api.forbid_message_content();
    let error = fixture.listen(&discord).await;
    assert!(matches!(&error, ChannelError::Closed(why) if why.contains("switch on")), "{error}");
    api.fail("GET /users/@me", 1, &Fault::UNAUTHORIZED);
    let error = fixture.listen(&discord).await;
    assert!(matches!(&error, ChannelError::Closed(why) if why.contains("Reset Token")), "{error}");
    assert!(!fixture.link.state().up);
}

#[tokio::test]
async fn begins_no_more_sessions_than_discord_allows() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    api.use_up_session_starts();
    let error = fixture.listen(&discord(&api)).await;
    assert!(
        matches!(&error, ChannelError::Unavailable { after: Some(after), .. } if after.as_secs() == 14_400),
        "{error}"
    );
    assert_eq!(api.sessions(), (0, 0));
}

#[tokio::test]
async fn being_dropped_loses_nothing() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let discord = discord(&api);
    let mut said = Vec::new();
    for n in 0..5 {
        let text = format!("line {n}");
        fixture
            .listening(&discord, async {
                api.wait_for_sessions(1, n).await;
                api.say(&from_ada(&text));
                fixture.wait_for(2 * n + 1).await;
            })
            .await;
        let between = format!("between {n}");
        api.say(&from_ada(&between));
        said.extend([text, between]);
    }
    fixture.listening(&discord, fixture.wait_for(10)).await;
    assert_eq!(fixture.texts().await, said);
}

#[tokio::test]
async fn goes_on_at_the_usual_address_when_the_other_is_gone() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    api.resume_at(&format!("ws://{}", free.local_addr().unwrap()));
    drop(free);
    let discord = discord(&api);
    fixture
        .listening(&discord, async {
            api.wait_for_sessions(1, 0).await;
            api.say(&from_ada("one"));
            fixture.wait_for(1).await;
            api.disturb(ConnectionFault::Cut);
            api.say(&from_ada("two"));
            fixture.wait_for(2).await;
        })
        .await;
    // A daemon after this one, too.
    api.say(&from_ada("three"));
    fixture.listening(&super::discord(&api), fixture.wait_for(3)).await;
    assert_eq!((fixture.texts().await.len(), api.sessions().0), (3, 1));
}

#[tokio::test]
async fn begins_no_session_after_session_by_itself() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    for _ in 0..2 {
        api.refuse_session(4000);
    }
    let error = fixture.listen(&discord(&api)).await;
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    // The other is still to be refused.
    let error = fixture.listen(&discord(&api)).await;
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    let discord = discord(&api);
    let (error, ()) = tokio::join!(fixture.listen(&discord), async {
        api.wait_for_sessions(1, 0).await;
        api.use_up_session_starts();
        api.disturb(ConnectionFault::InvalidSession { resumable: false });
    });
    assert!(error.to_string().contains("no more new sessions"), "{error}");
    assert_eq!(api.sessions(), (1, 0));
}
