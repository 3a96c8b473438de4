//! The Telegram adapter, against the stand-in for the Bot API.

mod inbound;
mod listening;
mod sending;
mod stand_in;

use std::time::Duration;

use peacrab::channels::telegram::{Config, Deadlines, Telegram};
use peacrab::secret::Secret;

use crate::support::bot_api::BotApi;

const CREW: i64 = -1_001_234;
const FORUM: i64 = -1_000_000_001_234;

/// Short, so that what is never answered does not hold up the tests.
const DEADLINES: Deadlines = Deadlines {
    connect: Duration::from_secs(5),
    call: Duration::from_secs(5),
    poll: Duration::from_secs(1),
    poll_grace: Duration::from_secs(1),
};

fn telegram(api: &BotApi, deadlines: Deadlines) -> Telegram {
    telegram_at(api.url(), api.token(), deadlines)
}

fn telegram_at(url: &str, token: &str, deadlines: Deadlines) -> Telegram {
    let config = Config { token: Secret::new(token), api_url: url.to_owned() };
    Telegram::with_deadlines(&config, deadlines).unwrap()
}
