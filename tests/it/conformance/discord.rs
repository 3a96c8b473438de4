//! Discord.

use std::sync::Arc;
use std::time::Duration;

use peacrab::channels::discord::{Config, Discord, DiscordDeadlines, Threads};
use peacrab::channels::{Channel, Markup, Unit, markup};
use peacrab::secret::Secret;
use serde_json::json;
use tokio::net::TcpListener;

use super::stage::{Act, Bot, Place, Seen, Stage, Trouble, Who};
use crate::support::discord_api::line::{ADA, BOB, BOT, CREW, Line, Person, THREAD, id_at};
use crate::support::discord_api::{ANOTHER_TOKEN, ConnectionFault, DiscordApi, Fault, TOKEN};

const EVE: Person = Person { id: 800_000_000_000_000_005, name: "Eve", is_bot: false };
const ROBOT: Person = Person { id: 800_000_000_000_000_009, name: "Robot", is_bot: true };

/// Short, so that what is never answered does not hold up the tests.
const DEADLINES: DiscordDeadlines = DiscordDeadlines {
    connect: Duration::from_secs(5),
    call: Duration::from_millis(1500),
    ready: Duration::from_secs(5),
    silence: Duration::from_millis(1500),
    identify: Duration::from_millis(10),
    catch_up: Duration::from_secs(5),
    retry_pause: Duration::from_millis(300),
};

/// Below `silence`, as Discord's are.
const HEARTBEAT: Duration = Duration::from_millis(400);

pub(super) struct OnDiscord(DiscordApi);

super::conforms!(OnDiscord);

fn person(who: Who) -> &'static Person {
    match who {
        Who::Ada => &ADA,
        Who::Bob => &BOB,
        Who::Eve => &EVE,
        Who::Robot => &ROBOT,
    }
}

fn channel(place: Place) -> u64 {
    match place {
        Place::Private(who) => person(who).dm(),
        Place::Group => CREW,
        Place::Thread => THREAD,
        Place::Pane(_) | Place::Elsewhere => panic!("Discord has no such place"),
    }
}

fn place_of(place: u64) -> Place {
    let private = [Who::Ada, Who::Bob].map(Place::Private);
    let known = private.into_iter().chain([Place::Group, Place::Thread]);
    known.into_iter().find(|known| channel(*known) == place).unwrap_or(Place::Elsewhere)
}

fn line(place: Place, by: Who, words: &str) -> Line {
    match place {
        Place::Private(_) => Line::private(person(by), words),
        _ => Line::server(channel(place), person(by), words),
    }
}

fn number(id: &str) -> u64 {
    id.parse().unwrap()
}

impl OnDiscord {
    fn of(api: DiscordApi) -> Self {
        api.set_heartbeat(HEARTBEAT);
        Self(api)
    }
}

impl Stage for OnDiscord {
    const TELLS_OF_DELETIONS: bool = true;
    const CAN_BE_ASKED: bool = true;
    const FOLLOWS_THREADS: bool = true;
    const TOKENS: &'static [&'static str] = &[TOKEN];
    const TYPES_IN: Place = Place::Private(Who::Ada);

    async fn start() -> Self {
        Self::of(DiscordApi::start().await)
    }

    async fn start_at(listener: TcpListener) -> Self {
        Self::of(DiscordApi::start_at(listener).await)
    }

    async fn start_another() -> Self {
        Self::of(DiscordApi::start_another().await)
    }

    fn base(&self) -> String {
        self.0.url().to_owned()
    }

    fn adapter(base: &str, bot: Bot) -> Arc<dyn Channel> {
        let token = match bot {
            Bot::First => TOKEN,
            Bot::Another => ANOTHER_TOKEN,
        };
        let (token, api_url) = (Secret::new(token), base.to_owned());
        let config = Config { token, api_url, threads: Threads::Reply };
        Arc::new(Discord::with_deadlines(&config, DEADLINES).unwrap())
    }

    fn id(who: Who) -> String {
        person(who).id.to_string()
    }

    fn mention(words: &str) -> String {
        format!("{} {words}", BOT.mention())
    }

    fn say(&self, place: Place, by: Who, words: &str) -> String {
        self.0.say(&line(place, by, words)).to_string()
    }

    fn send_file(&self, by: Who, (name, bytes): (&str, &[u8]), words: &str) {
        let file = self.0.attachment(person(by).dm(), name, bytes);
        self.0.say(&line(Place::Private(by), by, words).with("attachments", json!([file])));
    }

    fn edit(&self, place: Place, by: Who, message: &str, words: &str) {
        self.0.edit(number(message), &line(place, by, words));
    }

    fn edit_old(&self, place: Place, by: Who, words: &str) {
        let said = id_at(chrono::Utc::now() - chrono::Duration::hours(2));
        self.0.edit(said, &line(place, by, words));
    }

    fn delete(&self, place: Place, message: &str) {
        self.0.delete(channel(place), number(message));
    }

    fn repeat(&self) {
        self.0.repeat_last_event();
    }

    fn button(&self, seen: &Seen, label: &str) -> String {
        let sent = self.0.sent().into_iter().find(|sent| sent.id == number(&seen.id)).unwrap();
        sent.buttons.into_iter().find(|(shown, _)| shown == label).unwrap().1
    }

    fn press(&self, by: Who, seen: &Seen, button: &str) -> String {
        let sent = self.0.sent().into_iter().find(|sent| sent.id == number(&seen.id)).unwrap();
        self.0.press(person(by), &sent, button).to_string()
    }

    fn told(&self, _: Who, press: &str) -> Option<String> {
        let press = self.0.interaction(number(press));
        let (_, words) = press.answer?;
        assert!(words.is_empty() || press.is_private, "all see that {words}");
        Some(words)
    }

    fn seen(&self) -> Vec<Seen> {
        let sent = self.0.sent().into_iter();
        sent.map(|sent| Seen {
            id: sent.id.to_string(),
            place: place_of(sent.channel),
            answers: sent.reply_to.map(|id| id.to_string()),
            text: markup::plain(&sent.text, Markup::Discord, usize::MAX, Unit::Utf16),
            buttons: sent.buttons.into_iter().map(|(label, _)| label).collect(),
            file: sent.files.into_iter().next(),
            edits: sent.edits,
        })
        .collect()
    }

    fn typings(&self) -> usize {
        self.0.received().iter().filter(|call| call.call.ends_with("/typing")).count()
    }

    fn reacted(&self, _: Place, message: &str) -> bool {
        self.0.reactions().iter().any(|(id, _)| *id == number(message))
    }

    fn pings(&self) -> Vec<String> {
        let received = self.0.received().into_iter();
        let says = received.filter(|call| call.body.get("content").is_some());
        let loud = says.filter(|call| call.body["allowed_mentions"]["parse"] != json!([]));
        loud.map(|call| call.body.to_string()).collect()
    }

    fn offences(&self) -> Vec<String> {
        self.0.gateway_faults()
    }

    fn fail(&self, act: Act, times: usize, trouble: Trouble) {
        let call = match act {
            Act::Send => "POST /channels/*/messages",
            Act::Edit => "PATCH /channels/*/messages/*",
            Act::Upload => "POST /channels/*/messages with a file",
        };
        let fault = match trouble {
            Trouble::RateLimitedWith => Fault::TooMany { after: 1.0, is_global: false },
            Trouble::RateLimitedWithout => Fault::TooManyBare,
            Trouble::ServerError => Fault::Status(502),
            Trouble::Hang => Fault::Hang,
            Trouble::CutAfterAcceptance => Fault::CutAfter,
            Trouble::Garbage => Fault::Garbage,
            Trouble::Slow(time) => Fault::Slow(time),
        };
        self.0.fail(call, times, &fault);
    }

    fn heal(&self) {
        self.0.heal();
    }

    fn calls(&self, act: Act) -> usize {
        let method = match act {
            Act::Send | Act::Upload => "POST",
            Act::Edit => "PATCH",
        };
        let received = self.0.received().into_iter();
        received.filter(|it| it.call.starts_with(method) && it.call.contains("/messages")).count()
    }

    fn drop_link(&self) {
        self.0.disturb(ConnectionFault::Cut);
    }

    fn ignore_handshake(&self) {
        self.0.ignore_session();
    }

    fn silence_link(&self) {
        self.0.disturb(ConnectionFault::Freeze);
    }

    fn revoke_token(&self) {
        self.0.revoke();
    }
}
