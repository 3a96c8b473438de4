//! The Telegram adapter, against the stand-in for the Bot API.

mod buttons;
mod files;
mod inbound;
mod listening;
mod media;
mod sending;
mod stand_in;

use std::time::Duration;

use chrono::DateTime;
use peacrab::channels::telegram::inbound::{Ears, Identity, Reading, read};
use peacrab::channels::telegram::{Config, Deadlines, Telegram};
use peacrab::people::Groups;
use peacrab::secret::Secret;
use peacrab::types::message::{Address, Body, DeliveryId, Inbound, Outbound, SenderId};
use serde_json::{Value, json};

use crate::support::bot_api::line::{ADA, Line};
use crate::support::bot_api::{BOT_ID, BOT_NAME, BotApi};

const CREW: i64 = -1_001_234;
const FORUM: i64 = -1_000_000_001_234;

/// Short, so that what is never answered does not hold up the tests.
const DEADLINES: Deadlines = Deadlines {
    connect: Duration::from_secs(5),
    call: Duration::from_secs(5),
    file: Duration::from_secs(5),
    poll: Duration::from_secs(1),
    poll_grace: Duration::from_secs(1),
    ask_again: Duration::from_millis(20),
};

fn telegram(api: &BotApi, deadlines: Deadlines) -> Telegram {
    telegram_at(api.url(), api.token(), deadlines)
}

fn telegram_at(url: &str, token: &str, deadlines: Deadlines) -> Telegram {
    let config = Config { token: Secret::new(token), api_url: url.to_owned() };
    Telegram::with_deadlines(&config, deadlines).unwrap()
}

/// The id of another bot, which may speak.
const FRIEND: i64 = 808;

/// What the bot makes of an update, having just been spoken to by an album.
fn reading_after(update: &Value, groups: Groups, album: Option<&str>) -> Reading {
    let bot =
        Identity { id: BOT_ID, username: BOT_NAME.to_owned(), can_read_all_group_messages: true };
    let ears = Ears {
        bot: &bot,
        channel: &"home".into(),
        groups: &|ids: &[&str]| if ids.contains(&"77") { Groups::Always } else { groups },
        lets_bot: &|id: &SenderId| id.as_str() == FRIEND.to_string(),
        album,
        now: DateTime::from_timestamp(1_800_000_000, 0).unwrap(),
    };
    read(update, &ears)
}

fn reading(update: &Value, groups: Groups) -> Reading {
    reading_after(update, groups, None)
}

fn hear_in(line: &Line, replied: Option<Value>, groups: Groups) -> Option<Inbound> {
    let update = json!({ "update_id": 1, "message": line.json(55, replied) });
    match reading(&update, groups) {
        Reading::Speaks(inbound) => Some(*inbound),
        Reading::Ignored | Reading::Overheard { .. } => None,
        other => panic!("{other:?}"),
    }
}

fn address(chat: i64, thread: Option<i64>) -> Address {
    Address {
        channel: "home".into(),
        chat: chat.to_string().into(),
        thread: thread.map(|thread| thread.to_string().into()),
    }
}

fn message(to: Address, text: &str) -> Outbound {
    let body = Body::Text(text.to_owned());
    Outbound {
        id: DeliveryId(1),
        part: 0,
        to,
        reply_to: None,
        overtakes: false,
        replaces: None,
        body,
    }
}

fn to_ada(text: &str) -> Outbound {
    message(address(ADA.id, None), text)
}

/// A bot whom Ada has written to.
async fn acquainted() -> (BotApi, Telegram) {
    let api = BotApi::start().await;
    api.say(&Line::private(&ADA, "hello"));
    let telegram = telegram(&api, DEADLINES);
    (api, telegram)
}
