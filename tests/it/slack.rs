//! The Slack adapter, against the stand-in for the Web API and Socket Mode.

mod inbound;
mod life;
mod listening;
mod looking;
mod missed;
mod sending;
mod stand_in;

use std::time::Duration;

use peacrab::channels::slack::{Config, Slack, SlackDeadlines, Threads};
use peacrab::secret::Secret;
use peacrab::types::message::Address;

use crate::support::slack_api::{APP_TOKEN, BOT_TOKEN, SlackApi};

const CREW: &str = "C0CREW";

/// Short, so that what is never answered does not hold up the tests.
const DEADLINES: SlackDeadlines = SlackDeadlines {
    connect: Duration::from_secs(5),
    call: Duration::from_secs(5),
    names: Duration::from_secs(2),
    ping_every: Duration::from_millis(300),
    silence: Duration::from_millis(1000),
    catch_up: Duration::from_secs(2),
    steady: Duration::from_secs(10),
    retry_pause: Duration::from_millis(200),
};

fn config(api: &SlackApi) -> Config {
    Config {
        token: Secret::new(BOT_TOKEN),
        app_token: Secret::new(APP_TOKEN),
        api_url: api.url(),
        threads: Threads::Thread,
    }
}

fn slack(api: &SlackApi) -> Slack {
    Slack::with_deadlines(&config(api), DEADLINES).unwrap()
}

fn address(chat: &str, thread: Option<&str>) -> Address {
    Address { channel: "home".into(), chat: chat.into(), thread: thread.map(Into::into) }
}
