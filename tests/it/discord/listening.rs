//! Hearing: nothing counts as heard that is not kept, nothing is kept twice, and what was missed is
//! read back.

use std::time::Duration;

use peacrab::channels::discord::{DiscordDeadlines, Threads};
use peacrab::channels::{Channel, ChannelError};
use peacrab::people::Groups;
use peacrab::store::StoreOptions;
use peacrab::types::message::{Body, DeliveryId, Outbound};

use super::{DEADLINES, address, discord, discord_with};
use crate::support::adapter_fixture::AdapterFixture;
use crate::support::discord_api::line::{
    ADA, BOB, BOT, CREW, FORUM, GUILD, LAB, Line, Person, ROLE, THREAD,
};
use crate::support::discord_api::{DiscordApi, Fault};

fn from_ada(text: &str) -> Line {
    Line::private(&ADA, text)
}

fn to_us(channel: u64, text: &str) -> Line {
    Line::server(channel, &BOB, &format!("{} {text}", BOT.mention()))
}

#[tokio::test]
async fn keeps_what_it_hears() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&from_ada("one"));
            api.say(&Line::server(CREW, &BOB, "not for the bot"));
            api.say(&to_us(CREW, "two"));
            api.say(&to_us(THREAD, "three"));
            assert_eq!(fixture.wait_for(3).await, ["one", "two", "three"]);
        })
        .await;
    let places: Vec<_> = fixture.received().await.into_iter().map(|inbound| inbound.from).collect();
    let expected = [address(ADA.dm(), None), address(CREW, None), address(CREW, Some(THREAD))];
    assert_eq!(places, expected);
    let state = fixture.link.state();
    assert_eq!((state.up, state.about.as_str()), (true, "@peacrab"));
    assert_eq!(api.gateway_faults(), Vec::<String>::new());
}

#[tokio::test]
async fn keeps_the_order_in_which_people_speak() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let said: Vec<String> = (0..50).map(|n| format!("line {n}")).collect();
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            for text in &said {
                api.say(&from_ada(text));
            }
            assert_eq!(fixture.wait_for(50).await, said);
        })
        .await;
}

#[tokio::test]
async fn hears_once_what_it_is_told_twice() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&from_ada("one"));
            api.repeat_last_event();
            api.hold_events();
            api.say(&from_ada("three"));
            api.say(&Line::private(&BOB, "two"));
            api.release_in_reverse();
            assert_eq!(fixture.wait_for(3).await, ["one", "two", "three"]);
        })
        .await;
    assert_eq!(fixture.texts().await.len(), 3);
}

#[tokio::test]
async fn what_could_not_be_kept_is_told_again() {
    let full = StoreOptions { pages_max: Some(1), ..StoreOptions::default() };
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::with(&full, |_| {}));
    let discord = discord(&api);
    let (error, ()) = tokio::join!(fixture.listen(&discord), async {
        api.wait_for_sessions(1, 0).await;
        for _ in 0..200 {
            api.say(&from_ada(&"long ".repeat(390)));
        }
    });
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    // Nothing new is said, and yet it fails again: the same is told.
    let error = fixture.listen(&discord).await;
    assert!(error.to_string().contains("cannot keep"), "{error}");
    assert_eq!(api.sessions().0, 1);
}

#[tokio::test]
async fn goes_on_in_its_session_after_a_restart() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&from_ada("one"));
            fixture.wait_for(1).await;
        })
        .await;
    // Somebody who has never spoken to it before: no reading back would find this.
    api.say(&Line::private(&BOB, "two"));
    fixture.listening(&discord(&api), fixture.wait_for(2)).await;
    assert_eq!(fixture.texts().await, ["one", "two"]);
    assert_eq!(api.sessions(), (1, 1));
}

#[tokio::test]
async fn reads_back_what_was_said_while_its_session_was_lost() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&from_ada("before"));
            api.say(&to_us(CREW, "here"));
            api.say(&to_us(THREAD, "there"));
            fixture.wait_for(3).await;
        })
        .await;
    api.forget_sessions();
    let missed: Vec<String> = (0..230).map(|n| format!("missed {n}")).collect();
    for text in &missed {
        api.say_unheard(&from_ada(text));
    }
    api.say_unheard(&Line::server(CREW, &BOB, "not for the bot"));
    api.say_unheard(&to_us(CREW, "asked meanwhile"));
    api.say_unheard(&to_us(THREAD, "asked in the thread"));
    api.say_unheard(&to_us(LAB, "where it never was"));
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(2, 0).await;
            fixture.wait_for(3 + 232).await;
            api.say(&from_ada("after"));
            fixture.wait_for(3 + 233).await;
        })
        .await;
    let texts = fixture.texts().await;
    let of_ada: Vec<_> = texts.iter().filter(|text| text.starts_with("missed")).collect();
    assert_eq!(of_ada, missed.iter().collect::<Vec<_>>());
    assert_eq!(texts.last().unwrap(), "after");
    let count = |words: &str| texts.iter().filter(|text| *text == words).count();
    assert_eq!(
        ["asked meanwhile", "asked in the thread", "where it never was"].map(count),
        [1, 1, 0]
    );
}

#[tokio::test]
async fn reads_back_questions_that_get_threads_of_their_own() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let discord = || discord_with(&api, Threads::Open, DEADLINES);
    fixture
        .listening(&discord(), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&to_us(CREW, "one"));
            fixture.wait_for(1).await;
        })
        .await;
    api.forget_sessions();
    let missed = api.say_unheard(&to_us(CREW, "two"));
    fixture.listening(&discord(), fixture.wait_for(2)).await;
    assert_eq!(fixture.received().await[1].from, address(CREW, Some(missed)));
}

#[tokio::test]
async fn a_place_that_cannot_be_read_back_holds_up_no_other() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&to_us(CREW, "here"));
            api.say(&from_ada("before"));
            fixture.wait_for(2).await;
        })
        .await;
    api.forget_sessions();
    api.say_unheard(&from_ada("missed"));
    api.remove_channel(CREW);
    api.fail("GET /applications/*/commands", 1, &Fault::MISSING_ACCESS);
    fixture.listening(&discord(&api), fixture.wait_for(3)).await;
    assert_eq!(fixture.texts().await, ["here", "before", "missed"]);
}

#[tokio::test]
async fn hears_who_replies_to_what_it_said() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let discord = discord(&api);
    let body = Body::Text("Shall I?".to_owned());
    let to = address(CREW, None);
    let question = Outbound {
        id: DeliveryId(1),
        chunk_index: 0,
        to,
        reply_to: None,
        overtakes: false,
        replaces: None,
        body,
    };
    discord.send(&question).await.unwrap();
    let said = api.wait_for_sent(1).await.remove(0);
    fixture
        .listening(&discord, async {
            api.wait_for_sessions(1, 0).await;
            api.say(&Line::server(CREW, &BOB, "please do").replying_to(said.id));
            assert_eq!(fixture.wait_for(1).await, ["please do"]);
        })
        .await;
}

#[tokio::test]
async fn goes_along_with_edits_and_deletions() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            let first = api.say(&from_ada("frist"));
            let second = api.say(&from_ada("second"));
            let aside = api.say(&Line::server(CREW, &ADA, "what do you think?"));
            fixture.wait_for(2).await;
            // A preview of a link is no word of anybody.
            api.tell("MESSAGE_UPDATE", from_ada("frist").event(first, None));
            api.edit(first, &from_ada("first"));
            api.delete(ADA.dm(), second);
            api.edit(aside, &to_us(CREW, "what do you think?"));
            api.say(&from_ada("last"));
            fixture.wait_for(4).await;
        })
        .await;
    assert_eq!(fixture.texts().await, ["first", "second", "what do you think?", "last"]);
    let open = fixture.bus.store.read(|store| {
        let sql = "SELECT count(*) FROM inbound WHERE state = 'waiting'";
        store.query_row(sql, [], |row| row.get::<_, i64>(0))
    });
    assert_eq!(open.await.unwrap(), 3);
}

#[tokio::test]
async fn keeps_lines_between_people_as_context() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&Line::server(CREW, &ADA, "it rains"));
            let gone = api.say(&Line::server(CREW, &ADA, "it does not"));
            api.delete(CREW, gone);
            api.say(&to_us(CREW, "does it?"));
            fixture.wait_for(1).await;
        })
        .await;
    let lines = fixture.bus.overheard.lines(&address(CREW, None));
    let lines: Vec<_> = lines.iter().map(|line| (&*line.author, &*line.text)).collect();
    assert_eq!(lines, [("Ada", "it rains")]);
}

#[tokio::test]
async fn a_server_a_channel_or_a_thread_can_have_its_own_setting() {
    let own = |groups: [(u64, Groups); 3]| {
        let chats = groups.map(|(id, groups)| (id.to_string(), groups));
        AdapterFixture::with(&StoreOptions::default(), |access| access.chats = chats.into())
    };
    let api = DiscordApi::start().await;
    let fixture = own([(GUILD, Groups::Off), (CREW, Groups::Always), (THREAD, Groups::Mention)]);
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&to_us(LAB, "off in the server"));
            api.say(&Line::server(LAB, &ADA, "nor is this overheard"));
            api.say(&Line::server(CREW, &ADA, "always in the channel"));
            api.say(&Line::server(THREAD, &ADA, "not in the thread"));
            api.say(&from_ada("in private"));
            assert_eq!(fixture.wait_for(2).await, ["always in the channel", "in private"]);
        })
        .await;
    assert!(fixture.bus.overheard.lines(&address(LAB, None)).is_empty());
    assert_eq!(fixture.bus.overheard.lines(&address(CREW, Some(THREAD))).len(), 1);
}

#[tokio::test]
async fn takes_part_in_a_thread_that_spoke_to_it() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&Line::server(THREAD, &BOB, "before"));
            api.say(&to_us(THREAD, "look"));
            fixture.wait_for(1).await;
            api.say(&Line::server(THREAD, &BOB, "and this?"));
            api.say(&Line::server(CREW, &BOB, "not this"));
            assert_eq!(fixture.wait_for(2).await, ["look", "and this?"]);
        })
        .await;
}

#[tokio::test]
async fn a_mention_of_its_role_is_one_of_it() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let say = |role: u64| {
        let line = Line::server(CREW, &BOB, &format!("<@&{role}> hi {role}"));
        api.say(&line.with("mention_roles", serde_json::json!([role.to_string()])));
    };
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            [31, ROLE, ROLE].into_iter().for_each(say);
            let hi = format!("hi {ROLE}");
            assert_eq!(fixture.wait_for(2).await, [hi.clone(), hi]);
        })
        .await;
    let asked = |call: &&crate::support::watched::Received| call.call.ends_with("/roles");
    assert_eq!(api.received().iter().filter(asked).count(), 1);
}

#[tokio::test]
async fn a_place_that_it_may_not_look_at_is_heard_all_the_same() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    api.fail("GET /channels/*", 1, &Fault::MISSING_ACCESS);
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&to_us(CREW, "hi"));
            fixture.wait_for(1).await;
        })
        .await;
    assert_eq!(fixture.received().await[0].from, address(CREW, None));
}

#[tokio::test]
async fn lets_only_those_bots_speak_that_it_is_told_to() {
    let api = DiscordApi::start().await;
    let fixture = AdapterFixture::with(&StoreOptions::default(), |access| {
        access.bots = vec!["77".to_owned()]
    });
    let bot = |id, name| Person { id, name, is_bot: true };
    let say = |person: &Person| api.say(&Line::server(CREW, person, &BOT.mention()));
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            say(&bot(78, "Stray"));
            say(&bot(77, "Friend"));
            fixture.wait_for(1).await;
        })
        .await;
    let heard = fixture.received().await;
    let sender = heard[0].cause.sender();
    assert_eq!((sender.name.as_str(), sender.bot), ("Friend", true));
}

#[tokio::test]
async fn an_event_that_nests_too_deep_is_kept_raw_and_holds_up_nobody() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            let mut garbled = from_ada("hi").event(5, None);
            garbled["author"] = (0..200).fold(1.into(), |deep, _| serde_json::json!([deep]));
            api.tell("MESSAGE_CREATE", garbled);
            api.say(&from_ada("after"));
            fixture.wait_for(1).await;
        })
        .await;
    let keys = fixture.bus.store.read(|store| {
        store.query_row("SELECT key FROM unreadable", [], |row| row.get::<_, String>(0))
    });
    assert_eq!(keys.await.unwrap(), format!("discord:{}:5", BOT.id));
}

#[tokio::test]
async fn keeps_what_cannot_be_read() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            let mut garbled = from_ada("hi").event(5, None);
            garbled["author"] = "somebody".into();
            api.tell("MESSAGE_CREATE", garbled);
            api.tell("EVENT_OF_NEXT_YEAR", serde_json::json!({ "a": 1 }));
            api.say(&from_ada("after"));
            fixture.wait_for(1).await;
        })
        .await;
    let keys = fixture.bus.store.read(|store| {
        store.query_row("SELECT key FROM unreadable", [], |row| row.get::<_, String>(0))
    });
    assert_eq!(keys.await.unwrap(), format!("discord:{}:5", BOT.id));
}

#[tokio::test]
async fn a_channel_that_it_may_not_look_at_is_no_private_chat() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let discord = discord(&api);
    // Something is said there, with the server unknown, before the gateway tells of it.
    api.fail("GET /channels/*", 1, &Fault::MISSING_ACCESS);
    let asked = api.say_unheard(&to_us(CREW, "hi"));
    let body = Body::Text("hello".to_owned());
    let (to, reply_to) = (address(CREW, None), Some(asked.to_string().into()));
    let answer = Outbound {
        id: DeliveryId(1),
        chunk_index: 0,
        to,
        reply_to,
        overtakes: false,
        replaces: None,
        body,
    };
    discord.send(&answer).await.unwrap();
    assert_eq!(api.sent()[0].reply_to, Some(asked), "a group, if in doubt");
    fixture
        .listening(&discord, async {
            api.wait_for_sessions(1, 0).await;
            api.say(&Line::server(CREW, &BOB, "not for the bot"));
            api.say(&to_us(CREW, "for the bot"));
            assert_eq!(fixture.wait_for(1).await, ["for the bot"]);
        })
        .await;
    // Nor when it is read back.
    api.forget_sessions();
    api.say_unheard(&Line::server(CREW, &BOB, "nor this"));
    api.fail("GET /channels/*", 4, &Fault::MISSING_ACCESS);
    fixture
        .listening(&super::discord(&api), async {
            api.wait_for_sessions(2, 0).await;
            api.say(&from_ada("after"));
            assert_eq!(fixture.wait_for(2).await, ["for the bot", "after"]);
        })
        .await;
}

/// A message is heard, and after the session is lost another one is missed.
async fn with_a_missed_message() -> (DiscordApi, AdapterFixture) {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&from_ada("before"));
            fixture.wait_for(1).await;
        })
        .await;
    api.forget_sessions();
    api.say_unheard(&from_ada("missed"));
    (api, fixture)
}

#[tokio::test]
async fn a_sick_channel_holds_up_nobody_and_is_read_later() {
    let (api, fixture) = with_a_missed_message().await;
    // More often than it is tried at first.
    api.fail("GET /channels/*/messages", 4, &Fault::Status(500));
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(2, 0).await;
            api.say(&Line::private(&BOB, "live"));
            assert_eq!(fixture.wait_for(3).await, ["before", "live", "missed"]);
        })
        .await;
}

#[tokio::test]
async fn whoever_speaks_while_a_channel_hangs_is_heard() {
    let (api, fixture) = with_a_missed_message().await;
    api.fail("GET /channels/*/messages", 2, &Fault::Hang);
    let hasty = DiscordDeadlines {
        call: Duration::from_secs(2),
        catch_up: Duration::from_millis(300),
        ..DEADLINES
    };
    fixture
        .listening(&discord_with(&api, Threads::Reply, hasty), async {
            api.wait_for_sessions(2, 0).await;
            api.say(&from_ada("/stop"));
            assert_eq!(fixture.wait_for(2).await, ["before", "/stop"]);
            assert_eq!(fixture.wait_for(3).await, ["before", "/stop", "missed"]);
        })
        .await;
    assert!(DiscordDeadlines::default().catch_up <= Duration::from_secs(5));
}

#[tokio::test]
async fn what_is_still_to_be_read_back_outlives_a_restart() {
    for loses_its_session in [false, true] {
        let (api, fixture) = with_a_missed_message().await;
        api.fail("GET /channels/*/messages", 3, &Fault::Status(500));
        // So long that it ends before it looks again.
        let patient = DiscordDeadlines { retry_pause: Duration::from_secs(60), ..DEADLINES };
        fixture
            .listening(&discord_with(&api, Threads::Reply, patient), async {
                api.wait_for_sessions(2, 0).await;
                // In the same place, and so after the gap.
                api.say(&from_ada("live"));
                fixture.wait_for(2).await;
                api.say(&from_ada("live too"));
                fixture.wait_for(3).await;
            })
            .await;
        if loses_its_session {
            api.forget_sessions();
        }
        fixture
            .listening(&discord(&api), async {
                assert_eq!(fixture.wait_for(4).await, ["before", "live", "live too", "missed"]);
                // It goes on in a session that is still there.
                let begun = 2 + usize::from(loses_its_session);
                api.wait_for_sessions(begun, 3 - begun).await;
                assert_eq!(api.sessions(), (begun, 3 - begun));
            })
            .await;
    }
}

#[tokio::test]
async fn reads_back_nothing_from_before_it_last_listened() {
    let always = |access: &mut peacrab::people::Access| access.groups = Groups::Always;
    let (api, fixture) =
        (DiscordApi::start().await, AdapterFixture::with(&StoreOptions::default(), always));
    let discord = discord(&api);
    fixture
        .listening(&discord, async {
            api.wait_for_sessions(1, 0).await;
            api.say(&Line::server(CREW, &BOB, "first"));
            fixture.wait_for(1).await;
            // As if this was said to others: it was there, and is not asked for again.
            api.say_unheard(&Line::server(CREW, &BOB, "while it listened"));
            api.disturb(crate::support::discord_api::ConnectionFault::Reconnect);
            api.wait_for_sessions(1, 1).await;
            api.say(&from_ada("second"));
            fixture.wait_for(2).await;
        })
        .await;
    api.forget_sessions();
    api.say_unheard(&Line::server(CREW, &BOB, "missed"));
    fixture.listening(&discord, fixture.wait_for(3)).await;
    assert_eq!(fixture.texts().await, ["first", "second", "missed"]);
}

#[tokio::test]
async fn an_old_line_that_is_changed_speaks_only_if_it_says_so() {
    let always = |access: &mut peacrab::people::Access| access.groups = Groups::Always;
    let (api, fixture) =
        (DiscordApi::start().await, AdapterFixture::with(&StoreOptions::default(), always));
    let aside = api.say(&Line::server(CREW, &BOB, "nobody was there"));
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.edit(aside, &Line::server(CREW, &BOB, "nobody is there"));
            // Of years ago.
            api.edit(1_200_000_000_000_000_055, &to_us(CREW, "long ago"));
            api.say(&Line::server(CREW, &BOB, "after"));
            assert_eq!(fixture.wait_for(1).await, ["after"]);
        })
        .await;
}

#[tokio::test]
async fn in_its_threads_what_calls_others_is_not_for_it() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let line = |text: &str| Line::server(THREAD, &BOB, text);
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&to_us(THREAD, "look"));
            fixture.wait_for(1).await;
            api.say(&line("@everyone come").with("mention_everyone", true));
            api.say(&line("<@&31> come").with("mention_roles", serde_json::json!(["31"])));
            api.say(&line("and now?"));
            assert_eq!(fixture.wait_for(2).await, ["look", "and now?"]);
        })
        .await;
}

#[tokio::test]
async fn what_begins_a_forums_post_stands_inside_of_it() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let discord = discord(&api);
    let post = fixture
        .listening(&discord, async {
            api.wait_for_sessions(1, 0).await;
            let post = api.begin_post(&to_us(FORUM, "who knows this?"));
            fixture.wait_for(1).await;
            post
        })
        .await;
    let at = address(FORUM, Some(post));
    assert_eq!(fixture.received().await[0].from, at);
    let message = peacrab::types::message::MessageId::from(post.to_string());
    let with = peacrab::types::message::Reaction::Seen;
    let seen = peacrab::types::message::Hint::React { message: message.clone(), with };
    discord.hint(&at, seen).await.unwrap();
    assert_eq!(api.reactions().len(), 1);
    let (reply_to, body) = (Some(message), Body::Text("I do".to_owned()));
    let answer = Outbound {
        id: DeliveryId(1),
        chunk_index: 0,
        to: at,
        reply_to,
        overtakes: false,
        replaces: None,
        body,
    };
    discord.send(&answer).await.unwrap();
    assert_eq!((api.sent()[0].channel, api.sent()[0].reply_to), (post, Some(post)));
}
