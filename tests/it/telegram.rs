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
use peacrab::channels::routing::{AddressingRules, InboundEvent, Route, route};
use peacrab::channels::telegram::inbound::{
    Decoded, TelegramIdentity, TelegramReadingContext, decode,
};
use peacrab::channels::telegram::{Config, Telegram, TelegramDeadlines};
use peacrab::people::Groups;
use peacrab::secret::Secret;
use peacrab::types::message::{Address, DedupKey, Inbound, MessageId, Outbound};
use serde_json::{Value, json};

use crate::support::bot_api::line::{ADA, Line};
use crate::support::bot_api::{BOT_ID, BOT_NAME, BotApi};
use crate::support::outbound::text_to;

const CREW: i64 = -1_001_234;
const FORUM: i64 = -1_000_000_001_234;

/// Short, so that what is never answered does not hold up the tests.
const DEADLINES: TelegramDeadlines = TelegramDeadlines {
    connect: Duration::from_secs(5),
    call: Duration::from_secs(5),
    press: Duration::from_secs(3),
    file: Duration::from_secs(5),
    poll: Duration::from_secs(1),
    poll_grace: Duration::from_secs(1),
    ask_again: Duration::from_millis(20),
};

fn telegram(api: &BotApi, deadlines: TelegramDeadlines) -> Telegram {
    telegram_at(api.url(), api.token(), deadlines)
}

fn telegram_at(url: &str, token: &str, deadlines: TelegramDeadlines) -> Telegram {
    let config = Config { token: Secret::new(token), api_url: url.to_owned() };
    Telegram::with_deadlines(&config, deadlines).unwrap()
}

/// The id of another bot, which may speak.
const FRIEND: i64 = 808;

/// What becomes of an update, as far as that can be told without a store.
#[derive(Debug, PartialEq)]
enum Reading {
    Speaks(Box<Inbound>),
    Changed(Box<Inbound>),
    Pressed { query: String, press: Box<Inbound> },
    Overheard { at: Address, id: MessageId, line: peacrab::types::message::OverheardLine },
    Ignored,
    Unreadable(DedupKey),
}

/// What the bot makes of an update, having just been spoken to by an album.
fn reading_after(update: &Value, groups: Groups, album: Option<&str>) -> Reading {
    let bot = TelegramIdentity {
        id: BOT_ID,
        username: BOT_NAME.to_owned(),
        can_read_all_group_messages: true,
    };
    let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
    let context = TelegramReadingContext { bot: &bot, channel: &"home".into(), album, now };
    let Decoded { event, query } = decode(update, &context);
    let (message, to_bot): (_, fn(Box<Inbound>) -> Reading) = match event {
        InboundEvent::New(message) => (message, Reading::Speaks),
        InboundEvent::Edited { message, .. } => (message, Reading::Changed),
        InboundEvent::Pressed(press) => {
            return Reading::Pressed { query: query.unwrap(), press: Box::new(press) };
        }
        InboundEvent::Unreadable { key, raw } => {
            assert_eq!(raw, update.to_string());
            return Reading::Unreadable(key);
        }
        InboundEvent::Ignored => return Reading::Ignored,
        other => panic!("{other:?}"),
    };
    let is_friend = message.bot_ids == [FRIEND.to_string().into()];
    if !message.bot_ids.is_empty() && !is_friend {
        return Reading::Ignored;
    }
    let listed = message.inbound.config_ids().any(|id| id == "77");
    let groups = if listed { Groups::Always } else { groups };
    match (route(&message, AddressingRules { groups, was_addressed: false }), message.line()) {
        (Route::ToBot, _) => to_bot(Box::new(message.inbound)),
        (Route::Overheard, Some(line)) => Reading::Overheard {
            at: message.context_address,
            id: message.inbound.id.unwrap(),
            line,
        },
        (Route::Overheard, None) | (Route::Ignored, _) => Reading::Ignored,
    }
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
    text_to(1, to, text)
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
