//! Groups: answers go to whoever spoke to the bot, where they did.

use crate::support::binary::{ProgramFixture, home, now, said};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::{ADA, BOB, Line, Person};

const CREW: i64 = -1_001_234;
const FORUM: i64 = -1_000_000_001_234;
const EVE: Person = Person { id: 7005, name: "Eve", is_bot: false };

#[tokio::test]
async fn answers_who_mentions_it_or_replies_to_it_in_the_same_topic() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    let in_topic = |text: &str| now(Line::group(FORUM, &BOB, text)).in_topic(77);

    api.say(&in_topic("just talking"));
    let asked = api.say(&in_topic("@peacrab_bot one"));
    let first = api.wait_for_words(FORUM, "You said:").await;
    assert_eq!((first.thread, first.reply_to), (Some(77), Some(asked)), "{first:?}");
    assert!(first.text.contains("one"), "{first:?}");

    let asked = api.say(&in_topic("two").replying_to(first.id));
    let second = api.wait_for_words(FORUM, "two").await;
    assert_eq!((second.thread, second.reply_to), (Some(77), Some(asked)), "{second:?}");

    // A plain group has no topics.
    let asked = api.say(&now(Line::group(CREW, &ADA, "hey @peacrab_bot three")));
    let third = api.wait_for_words(CREW, "three").await;
    assert_eq!((third.thread, third.reply_to), (None, Some(asked)), "{third:?}");
    assert_eq!(api.sent().len(), 3, "{:?}", api.sent());
}

#[tokio::test]
async fn says_nothing_to_strangers_in_groups_nor_to_lines_between_people() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    let asked = api.say(&now(Line::group(CREW, &ADA, "@peacrab_bot hello")));
    let answer = api.wait_for_words(CREW, "hello").await;
    assert_eq!(answer.reply_to, Some(asked));

    api.say(&now(Line::group(CREW, &EVE, "@peacrab_bot let me in")));
    api.say(&now(Line::group(CREW, &EVE, "and me").replying_to(answer.id)));
    api.say(&now(Line::group(CREW, &BOB, "do you hear, @somebody_else?")));
    let reply = now(Line::group(CREW, &BOB, "I do").replying_to(asked));
    api.say(&reply);
    api.say(&said(&ADA, "anything new?"));
    api.wait_for_words(ADA.id, "anything new?").await;
    assert_eq!(api.sent().len(), 2, "{:?}", api.sent());
}
