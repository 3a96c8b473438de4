//! Socket Mode: nothing is acknowledged that is not kept, and nothing is kept twice.

use std::time::Duration;

use peacrab::channels::slack::{Config, Slack, SlackDeadlines, Threads};
use peacrab::channels::{Channel, ChannelError};
use peacrab::people::{Access, Groups};
use peacrab::secret::Secret;
use peacrab::store::StoreOptions;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{CREW, DEADLINES, address, config, slack};
use crate::support::adapter_fixture::{AdapterFixture, DEADLINE};
use crate::support::slack_api::line::{ADA, BOB, Line};
use crate::support::slack_api::socket::LinkFault;
use crate::support::slack_api::{APP_TOKEN, BOT_TOKEN, Fault, SlackApi};

fn from_ada(text: &str) -> Line {
    Line::im(&ADA, text)
}

fn in_crew(text: &str) -> Line {
    Line::channel(CREW, &BOB, text)
}

#[tokio::test]
async fn keeps_what_it_hears_and_then_acknowledges_it() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    api.say(&from_ada("one"));
    api.say(&in_crew("not for the bot"));
    fixture
        .listening(&slack(&api), async {
            api.wait_for_acknowledged().await;
            api.say(&in_crew("<@U0CRAB> two"));
            api.wait_for_acknowledged().await;
        })
        .await;
    assert_eq!(fixture.texts().await, ["one", "two"]);
    let state = fixture.link.state();
    assert_eq!((state.up, state.about.as_str()), (true, "@peacrab in The crew"));
    assert_eq!(api.offences(), Vec::<String>::new());
    let heard = fixture.bus.overheard.lines(&address(CREW, None));
    assert_eq!((heard[0].author.as_str(), heard[0].text.as_str()), ("Bob", "not for the bot"));
}

#[tokio::test]
async fn a_mention_is_heard_once_whichever_event_comes_first() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    fixture
        .listening(&slack(&api), async {
            api.say(&in_crew("<@U0CRAB> one"));
            api.wait_for_acknowledged().await;
            api.mention_first();
            api.say(&in_crew("<@U0CRAB> two"));
            api.wait_for_acknowledged().await;
        })
        .await;
    assert_eq!((fixture.texts().await, api.delivered()), (vec!["one".into(), "two".into()], 4));
}

#[tokio::test]
async fn acknowledges_nothing_that_could_not_be_kept() {
    let full = StoreOptions { pages_max: Some(1), ..StoreOptions::default() };
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::with(&full, |_| {}));
    api.say(&from_ada(&"long ".repeat(20_000)));
    let error = fixture.listen(&slack(&api)).await;
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    assert_eq!((api.unacknowledged(), fixture.texts().await), (1, vec![]));
}

#[tokio::test]
async fn hears_once_what_it_is_told_twice() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    let ts = api.say(&from_ada("one"));
    api.push_event(from_ada("one").event(&ts));
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    assert_eq!(fixture.texts().await, ["one"]);
}

#[tokio::test]
async fn what_was_not_acknowledged_comes_again_on_the_next_link() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    // The names take so long that the link is gone before anything is kept.
    api.fail("users.info", 1, &Fault::Hang);
    api.say(&from_ada("one"));
    fixture
        .listening(&slack(&api), async {
            api.wait_for_calls("users.info", 1).await;
        })
        .await;
    assert_eq!((api.unacknowledged(), fixture.texts().await.len()), (1, 0));
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    assert_eq!((fixture.texts().await, api.delivered()), (vec!["one".to_owned()], 2));
}

#[tokio::test]
async fn what_is_acknowledged_late_comes_again_and_is_heard_once() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    api.again_after(Duration::from_millis(100));
    api.fail("users.info", 1, &Fault::Hang);
    api.say(&from_ada("one"));
    let slow = SlackDeadlines { names: Duration::from_millis(500), ..DEADLINES };
    let slack = Slack::with_deadlines(&config(&api), slow).unwrap();
    fixture
        .listening(&slack, async {
            api.wait_for_acknowledged().await;
            api.say(&from_ada("two"));
            api.wait_for_acknowledged().await;
        })
        .await;
    assert_eq!(fixture.texts().await, ["one", "two"]);
    assert!(api.delivered() > 2, "{}", api.delivered());
    assert_eq!(api.offences(), Vec::<String>::new());
}

#[tokio::test]
async fn a_link_that_fell_silent_is_noticed() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    let silenced = async {
        api.wait_for_links(1).await;
        api.say(&from_ada("one"));
        api.wait_for_acknowledged().await;
        api.break_link(LinkFault::Silent);
    };
    // What notices it is the deadline of the link, the one for silence: nothing else ends.
    let adapter = slack(&api);
    let (error, ()) = tokio::join!(fixture.listen(&adapter), silenced);
    assert!(error.to_string().contains("silent"), "{error}");
    // In production it is as sure, and within a minute.
    let real = SlackDeadlines::default();
    assert!(real.silence + real.ping_every < Duration::from_secs(60));
}

#[tokio::test]
async fn a_quiet_link_is_not_a_silent_one() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    // It is enough that what we knock is answered.
    api.set_pings(Duration::from_secs(60));
    fixture
        .listening(&slack(&api), async {
            api.wait_for_links(1).await;
            // Longer than silence is borne, with nothing but pings.
            tokio::time::sleep(DEADLINES.silence + Duration::from_millis(300)).await;
            api.say(&from_ada("still here?"));
            api.wait_for_acknowledged().await;
        })
        .await;
    assert_eq!(api.links(), 1);
}

#[tokio::test]
async fn says_why_a_link_ended() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    for (fault, words) in [
        (LinkFault::Drop, "lost"),
        (LinkFault::Disconnect("too_many_websockets"), "too many programs"),
        (LinkFault::Disconnect("link_disabled"), "Socket Mode is off"),
    ] {
        let broken = async {
            let links = api.links();
            api.wait_for_links(links + 1).await;
            api.break_link(fault);
            std::future::pending::<()>().await;
        };
        let adapter = slack(&api);
        let error = tokio::select! {
            error = fixture.listen(&adapter) => error,
            () = broken => unreachable!(),
        };
        assert!(error.to_string().contains(words) || fault == LinkFault::Drop, "{error}");
        let closes = fault == LinkFault::Disconnect("link_disabled");
        assert_eq!(matches!(error, ChannelError::Closed(_)), closes, "{error}");
    }
    api.refuse_link("link_disabled");
    assert!(matches!(fixture.listen(&slack(&api)).await, ChannelError::Closed(_)));
}

#[tokio::test]
async fn takes_a_fresh_link_when_slack_wants_that() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    let refreshed = async {
        api.wait_for_links(1).await;
        api.break_link(LinkFault::Disconnect("refresh_requested"));
        std::future::pending::<()>().await;
    };
    let adapter = slack(&api);
    tokio::select! {
        // Too soon after the first; under back-off, then.
        ended = timeout(DEADLINE, adapter.listen(&fixture.publisher)) => ended.unwrap().unwrap(),
        () = refreshed => unreachable!(),
    }
    assert!(fixture.link.state().up, "this is no trouble");
}

#[tokio::test]
async fn nothing_falls_between_two_links() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    let soon = SlackDeadlines { steady: Duration::ZERO, ..DEADLINES };
    let slack = Slack::with_deadlines(&config(&api), soon).unwrap();
    fixture
        .listening(&slack, async {
            for round in 1..=3 {
                api.wait_for_links(round).await;
                api.break_link(LinkFault::Disconnect("warning"));
                api.say(&from_ada(&format!("round {round}")));
                api.wait_for_acknowledged().await;
            }
        })
        .await;
    assert_eq!(fixture.texts().await, ["round 1", "round 2", "round 3"]);
}

#[tokio::test]
async fn another_connection_of_the_app_is_named() {
    let (api, fixture, other) =
        (SlackApi::start().await, AdapterFixture::new(), AdapterFixture::new());
    let soon = SlackDeadlines { steady: Duration::ZERO, ..DEADLINES };
    let newcomer = Slack::with_deadlines(&config(&api), soon).unwrap();
    let (alone, crowded) = ("@peacrab in The crew", "; Slack counts 1 more connection of this app");
    // The newest link gets what comes, so it has been described once something is acknowledged.
    let describes = async |fixture: &AdapterFixture, links, expected: &str| {
        api.wait_for_links(links).await;
        api.say(&from_ada("hello"));
        api.wait_for_acknowledged().await;
        assert_eq!(fixture.link.state().about, expected);
    };
    let first = slack(&api);
    let both = async {
        describes(&other, 1, alone).await;
        let second = async {
            describes(&fixture, 2, &format!("{alone}{crowded}")).await;
            // Its own former link is none of the others.
            api.break_link(LinkFault::Disconnect("refresh_requested"));
            describes(&fixture, 3, &format!("{alone}{crowded}")).await;
        };
        fixture.listening(&newcomer, second).await;
    };
    other.listening(&first, both).await;
    api.wait_for_goodbyes(3).await;
    let only = async {
        describes(&fixture, 4, alone).await;
        api.break_link(LinkFault::Disconnect("refresh_requested"));
        describes(&fixture, 5, alone).await;
    };
    fixture.listening(&newcomer, only).await;
    assert_eq!(api.offences(), Vec::<String>::new());
}

#[tokio::test]
async fn nonsense_is_outlived() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    fixture
        .listening(&slack(&api), async {
            api.wait_for_links(1).await;
            api.break_link(LinkFault::Nonsense);
            api.push_envelope("of_next_year", json!({ "x": 1 }));
            api.say(&from_ada("hello"));
            api.wait_for_acknowledged().await;
        })
        .await;
    assert_eq!(fixture.texts().await, ["hello"]);
}

#[tokio::test]
async fn keeps_what_cannot_be_read_and_goes_on() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    api.say(&from_ada("garbled").with("ts", json!([1])));
    api.say(&from_ada("clear"));
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    let unreadable = fixture.count("SELECT count(*) FROM unreadable").await;
    assert_eq!((fixture.texts().await, unreadable), (vec!["clear".to_owned()], 1));
}

#[tokio::test]
async fn an_event_that_nests_too_deep_is_kept_raw_and_holds_up_nobody() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    let deep = (0..200).fold(json!(1), |deep, _| json!([deep]));
    api.say(&from_ada("garbled").with("ts", deep));
    api.say(&from_ada("clear"));
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    let unreadable = fixture.count("SELECT count(*) FROM unreadable").await;
    assert_eq!((fixture.texts().await, unreadable), (vec!["clear".to_owned()], 1));
}

#[tokio::test]
async fn is_not_troubled_by_what_is_in_no_book_yet() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    api.invent_fields();
    api.say(&from_ada("hello"));
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    assert_eq!(fixture.texts().await, ["hello"]);
}

#[tokio::test]
async fn understands_the_envelopes_of_slacks_own_documents() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    // As Slack's SDKs have them in their tests.
    for (kind, payload) in [
        (
            "slash_commands",
            json!({
                "token": "t", "team_id": "T111", "team_domain": "xxx", "channel_id": "C111",
                "channel_name": "random", "user_id": "U111", "user_name": "testxyz",
                "command": "/hello-socket-mode", "text": "", "api_app_id": "A111",
                "response_url": "https://hooks.slack.com/commands/T111/111/xxx",
                "trigger_id": "111.222.xxx"
            }),
        ),
        (
            "interactive",
            json!({
                "type": "shortcut", "token": "t", "action_ts": "1610198080.300836",
                "team": { "id": "T111", "domain": "testxyz" },
                "user": { "id": "U111", "username": "testxyz", "team_id": "T111" },
                "is_enterprise_install": false, "enterprise": null, "callback_id": "do-something",
                "trigger_id": "111.222.xxx"
            }),
        ),
        (
            "events_api",
            json!({
                "token": "t", "team_id": "T111", "api_app_id": "A111", "event": {
                    "client_msg_id": "f0582a78-72db-4feb-b2f3-1e47d66365c8", "type": "message",
                    "text": "<@U0CRAB> Hi here!", "user": "U222", "ts": "1610241741.000200",
                    "team": "T111", "channel": "C111", "event_ts": "1610241741.000200",
                    "channel_type": "channel"
                }, "type": "event_callback", "event_id": "Ev111", "event_time": 1_610_241_741,
            }),
        ),
    ] {
        api.push_envelope(kind, payload);
    }
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    assert_eq!(fixture.texts().await, ["/help", "Hi here!"]);
}

#[tokio::test]
async fn tokens_that_are_not_accepted_are_for_the_operator() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    let with = |bot: &str, app: &str| Config {
        token: Secret::new(bot),
        app_token: Secret::new(app),
        ..config(&api)
    };
    for (config, words) in [
        (with("xoxb-wrong", APP_TOKEN), "token not accepted"),
        (with(BOT_TOKEN, "xapp-wrong"), "token not accepted"),
        (with(APP_TOKEN, BOT_TOKEN), "wrong kind"),
    ] {
        let slack = Slack::with_deadlines(&config, DEADLINES).unwrap();
        let error = slack.listen(&fixture.publisher).await.unwrap_err();
        assert!(matches!(&error, ChannelError::Closed(why) if why.contains(words)), "{error}");
        assert!(error.to_string().contains("api.slack.com") || words == "wrong kind", "{error}");
        assert!(!fixture.link.state().up);
    }
    api.revoke(Some("token_revoked"));
    assert!(matches!(fixture.listen(&slack(&api)).await, ChannelError::Closed(_)));
    api.revoke(None);
    api.fail("apps.connections.open", 1, &Fault::Deny("missing_scope"));
    let error = fixture.listen(&slack(&api)).await;
    assert!(error.to_string().contains("channels:history is needed"), "{error}");
    assert!(error.to_string().contains("App-Level Tokens"), "{error}");
}

#[tokio::test]
async fn trouble_on_the_way_to_a_link_is_waited_out() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    for method in ["auth.test", "apps.connections.open"] {
        let faults =
            [Fault::Hang, Fault::Status(502), Fault::TooMany { after: Some(3) }, Fault::CutAfter];
        for fault in faults {
            api.fail(method, 1, &fault);
            let hasty = SlackDeadlines { call: Duration::from_millis(300), ..DEADLINES };
            let slack = Slack::with_deadlines(&config(&api), hasty).unwrap();
            let error = slack.listen(&fixture.publisher).await.unwrap_err();
            let after = match error {
                ChannelError::Unavailable { after, .. } => after,
                other => panic!("{other}"),
            };
            let waits = matches!(fault, Fault::TooMany { .. });
            assert_eq!(after, waits.then(|| Duration::from_secs(3)));
        }
    }
}

#[tokio::test]
async fn a_name_that_is_not_to_be_had_holds_nothing_up() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    api.fail("users.info", 1, &Fault::Deny("missing_scope"));
    api.say(&from_ada("one"));
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    let row = fixture.received().await.remove(0);
    assert!(format!("{:?}", row.cause).contains("U0ADA\""), "{row:?}");
    assert_eq!(api.calls("users.info").len(), 1);
}

fn desk_with(change: impl FnOnce(&mut Access)) -> AdapterFixture {
    AdapterFixture::with(&StoreOptions::default(), change)
}

#[tokio::test]
async fn answers_in_groups_as_the_config_says() {
    for (mode, expected) in [
        (Groups::Off, vec![]),
        (Groups::Mention, vec!["two", "four"]),
        (Groups::Always, vec!["one", "two", "three", "four"]),
    ] {
        let (api, fixture) = (SlackApi::start().await, desk_with(|access| access.groups = mode));
        api.say(&in_crew("one"));
        let root = api.say(&in_crew("<@U0CRAB> two"));
        api.say(&in_crew("three").in_thread("1700000001.000100"));
        // A reply in a thread that it takes part in is one to it.
        api.say(&in_crew("four").in_thread(&root));
        fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
        assert_eq!(fixture.texts().await, expected, "{mode:?}");
        let heard = fixture.bus.overheard.lines(&address(CREW, None));
        assert_eq!(heard.len(), usize::from(mode == Groups::Mention), "{mode:?}");
    }
}

#[tokio::test]
async fn listed_chats_have_rules_of_their_own() {
    let chats = [("C0QUIET".to_owned(), Groups::Off), ("T0CREW".to_owned(), Groups::Always)];
    let (api, fixture) = (SlackApi::start().await, desk_with(|access| access.chats = chats.into()));
    api.say(&in_crew("one"));
    api.say(&Line::channel("C0QUIET", &BOB, "<@U0CRAB> two"));
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    assert_eq!(fixture.texts().await, ["one"]);
}

#[tokio::test]
async fn other_bots_are_heard_only_if_the_config_names_them() {
    for (bots, expected) in [(vec![], 0), (vec!["B0BEEP"], 1), (vec!["U0BEEP"], 1)] {
        let bots = bots.into_iter().map(str::to_owned).collect();
        let (api, fixture) = (SlackApi::start().await, desk_with(|access| access.bots = bots));
        let beep = in_crew("<@U0CRAB> beep").with("user", "U0BEEP").with("bot_id", "B0BEEP");
        api.say(&beep);
        fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
        assert_eq!(fixture.received().await.len(), expected);
    }
}

#[tokio::test]
async fn an_edit_of_a_waiting_message_counts_and_a_deletion_takes_it_back() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    let (first, second) = (api.say(&from_ada("helo")), api.say(&from_ada("second")));
    fixture
        .listening(&slack(&api), async {
            api.wait_for_acknowledged().await;
            api.edit("D0ADA", &first, "hello");
            // A link unfolds.
            api.edit("D0ADA", &second, "second");
            api.delete("D0ADA", &second);
            api.wait_for_acknowledged().await;
        })
        .await;
    assert_eq!(fixture.texts().await, ["hello", "second"]);
    let waiting = "SELECT count(*) FROM inbound WHERE state = 'waiting'";
    assert_eq!(fixture.count(waiting).await, 1);
}

#[tokio::test]
async fn an_edit_that_begins_to_speak_to_it_is_heard() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    let ts = api.say(&in_crew("hello"));
    fixture
        .listening(&slack(&api), async {
            api.wait_for_acknowledged().await;
            api.edit(CREW, &ts, "<@U0CRAB> hello");
            api.wait_for_acknowledged().await;
        })
        .await;
    assert_eq!(fixture.texts().await, ["hello"]);
}

#[tokio::test]
async fn an_overheard_line_that_is_changed_is_remembered_as_it_is_now() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    let ts = api.say(&in_crew("the crab is blue"));
    let at = address(CREW, None);
    fixture
        .listening(&slack(&api), async {
            api.wait_for_acknowledged().await;
            api.edit(CREW, &ts, "the crab is green");
            api.wait_for_acknowledged().await;
            let heard = fixture.bus.overheard.lines(&at);
            assert_eq!(heard.iter().map(|it| &*it.text).collect::<Vec<_>>(), ["the crab is green"]);
            // What has been shown is not shown once more.
            fixture.bus.overheard.remove_shown(&at, 1);
            api.edit(CREW, &ts, "the crab is red");
            api.wait_for_acknowledged().await;
        })
        .await;
    assert_eq!((fixture.bus.overheard.lines(&at).len(), fixture.texts().await.len()), (0, 0));
}

#[tokio::test]
async fn a_channel_can_be_answered_without_threads() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    let config = Config { threads: Threads::Channel, ..config(&api) };
    let slack = Slack::with_deadlines(&config, DEADLINES).unwrap();
    api.say(&in_crew("<@U0CRAB> hi"));
    fixture.listening(&slack, api.wait_for_acknowledged()).await;
    assert_eq!(fixture.received().await[0].from, address(CREW, None));
}

#[tokio::test]
async fn a_slash_command_is_heard() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    api.slash(&ADA, CREW, "stop");
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    assert_eq!(fixture.texts().await, ["/stop"]);
    assert_eq!(api.answers(), [peacrab::replies::COMMAND_RECEIVED]);
    assert_eq!(api.offences(), Vec::<String>::new());
}

#[tokio::test]
async fn says_so_where_a_command_is_given_and_it_is_not_there() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    api.fail("conversations.history", 1, &Fault::Deny("channel_not_found"));
    // Two others' private chat.
    api.slash(&ADA, "D0OTHERS", "status");
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    assert_eq!(api.answers(), [peacrab::replies::COMMAND_ELSEWHERE]);
    assert_eq!(fixture.texts().await, Vec::<String>::new());
    // Where that cannot be found out, it is no private chat.
    api.fail("conversations.history", 1, &Fault::Deny("missing_scope"));
    api.slash(&ADA, "D0OTHERS", "status");
    fixture.listening(&slack(&api), api.wait_for_acknowledged()).await;
    assert_eq!(fixture.received().await[0].chat_kind, peacrab::types::message::ChatKind::Group);
}

#[tokio::test]
async fn an_old_line_that_is_changed_speaks_only_if_it_says_so() {
    let fixture = desk_with(|access| access.groups = Groups::Always);
    let api = SlackApi::start().await;
    let aside = api.say_unheard(&in_crew("nobody was there"));
    fixture
        .listening(&slack(&api), async {
            api.edit(CREW, &aside, "nobody is there");
            api.wait_for_acknowledged().await;
            api.say(&in_crew("after"));
            api.wait_for_acknowledged().await;
        })
        .await;
    assert_eq!(fixture.texts().await, ["after"]);
}

#[tokio::test]
async fn a_button_that_nobody_remembers_is_answered_in_private() {
    let (api, fixture) = (SlackApi::start().await, AdapterFixture::new());
    let adapter = slack(&api);
    let sent = super::sending::post(&adapter, address(CREW, None), "a question of last year").await;
    api.press(&BOB, sent.id.unwrap().as_str(), "p:77:0");
    fixture
        .listening(&adapter, async {
            let word = api.wait_for_words(CREW, "too old").await;
            assert_eq!(word.only_for.as_deref(), Some("U0BOB"));
            api.wait_for_acknowledged().await;
        })
        .await;
    assert_eq!((api.unacknowledged(), fixture.received().await.len()), (0, 0));
    let asked: Vec<Value> = api.calls("chat.postEphemeral");
    assert_eq!(asked.len(), 1);
}
