//! Sentences about the page in the browser.

use std::fmt::Write as _;
use std::net::SocketAddr;

use chrono::{DateTime, Utc};

pub const WEB_IS_OFF: &str = "The page in the browser is off. Add this to config.toml, and run `peacrab reload`:\n\n\
    [gateway]\nlisten = \"127.0.0.1:7450\"\n\nThen `peacrab web`, or /web in a private chat, makes a link to sign in.";
pub const WEB_IS_OFF_HERE: &str =
    "The page in the browser is off. The owner of this bot can switch it on.";
pub const WEB_PRIVATELY: &str =
    "A sign-in link is for you alone. Please send me /web in a private chat.";
pub const WEB_FROM_ELSEWHERE: &str = "You are signed in here already. For another browser, send /web to me in \
    another chat, or run `peacrab web`.";
pub const WEB_WITHOUT_ACCOUNT: &str = "The page is for people the owner has added. Ask the owner to make \
    you a user: /people lists everybody.";
pub const WEB_TOO_OFTEN: &str =
    "You already have several links. Use the last one, or try again in a minute.";
pub const WEB_DOES_NOT_LISTEN: &str =
    "The gateway isn't listening, perhaps because another program uses its port. See the log.";
/// Why nobody reaches the page and the API.
pub fn gateway_cannot_listen(address: SocketAddr, error: &std::io::Error) -> String {
    format!(
        "the page, the API and webhooks cannot be reached, because {address} cannot be opened: {error}. It is tried again \
         every few seconds; if another program uses that port, choose another one in `listen` of [gateway], and run \
         `peacrab reload`"
    )
}

/// Tells the owner that the port could not be opened for some minutes, for the reason above.
pub fn gateway_is_closed(reason: &str) -> String {
    format!("For some minutes now, {reason}. I'll write once it works again.")
}

pub fn gateway_listens_again(address: SocketAddr) -> String {
    format!("The page, the API and webhooks can be reached again: {address} is open.")
}

pub const WEB_NOT_BUILT: &str =
    "This program was built without the gateway. Build it with the Cargo feature gateway.";
pub const NO_SUCH_LOGIN: &str = "There is no such sign-in. `peacrab web --sessions` lists them.";
pub const NO_LOGINS: &str = "No browser is signed in.";

pub const API_NO_ANSWER: &str = "I have no answer. My log may show why.";

/// For a program that has no buttons: the texts that they stand for.
pub fn api_choices<'c>(session: &str, says: impl Iterator<Item = &'c str>) -> String {
    let says: Vec<_> = says.map(|says| format!("`{says}`")).collect();
    format!("Answer in the session `{session}` with one of: {}", says.join(", "))
}

pub fn api_waits_for_others(session: &str) -> String {
    format!(
        "This is waiting for somebody's approval. The result will be in the session `{session}`."
    )
}

pub fn web_link(link: &str) -> String {
    format!(
        "Open this link in a browser and press the button. It works once, for 10 minutes:\n{link}"
    )
}

/// The link as an answer to `/web`.
pub fn web_link_in_chat(link: &str, is_local: bool) -> String {
    let words = web_link(link);
    match is_local {
        true => format!(
            "{words}\n\nIt opens only on the computer on which I run. For other devices, the owner sets `url` in \
             [gateway]."
        ),
        false => words,
    }
}

pub fn web_stranger(person: &str) -> String {
    format!(
        "[gateway] has no person `{person}`. Add the name to `allow` or `admins` there, and run `peacrab reload`. Or write \
         the number of somebody who is let in elsewhere, such as p5: `peacrab people` lists them."
    )
}

pub fn logins_ended(ended: usize) -> String {
    match ended {
        1 => "1 browser is signed out.".to_owned(),
        ended => format!("{ended} browsers are signed out."),
    }
}

/// One sign-in in a list.
pub struct LoginLine<'a> {
    pub id: &'a str,
    pub person: &'a str,
    pub since: DateTime<Utc>,
    pub seen: DateTime<Utc>,
    pub agent: &'a str,
}

pub fn logins(lines: &[LoginLine<'_>]) -> String {
    if lines.is_empty() {
        return NO_LOGINS.to_owned();
    }
    let mut words = String::new();
    for LoginLine { id, person, since, seen, agent } in lines {
        let (since, seen) = (since.format("%Y-%m-%d"), seen.format("%Y-%m-%d %H:%M UTC"));
        writeln!(words, "{id}  {person}, last seen {seen}, signed in {since}, {agent}")
            .expect("a String takes all");
    }
    words + "`peacrab web --revoke ID` ends one, and `--revoke all` ends all."
}
