//! What configs say of the stand-in for Telegram, and what is said there now.

use super::super::bot_api::BotApi;
use super::super::bot_api::line::{ADA, BOB, Line, Person};

/// A channel `home` that belongs to Ada and lets Bob in.
pub(crate) fn home(api: &BotApi) -> String {
    home_at(api.url(), api.token())
}

pub(crate) fn home_at(url: &str, token: &str) -> String {
    let (owner, user) = (ADA.id, BOB.id);
    channel("home", url, token) + &format!("owners = [{owner}]\nallow = [{user}]\n")
}

/// A channel of the name that belongs to nobody.
pub(crate) fn channel(name: &str, url: &str, token: &str) -> String {
    format!("[channels.{name}]\ntype = \"telegram\"\ntoken = \"{token}\"\napi_url = \"{url}\"\n")
}

/// Said in private, just now.
pub(crate) fn said(by: &Person, text: &str) -> Line {
    now(Line::private(by, text))
}

/// Said just now; what is found a day late is not answered.
pub(crate) fn now(line: Line) -> Line {
    line.with("date", chrono::Utc::now().timestamp())
}
