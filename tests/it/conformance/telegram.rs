//! Telegram.

use std::sync::Arc;
use std::time::Duration;

use peacrab::channels::Channel;
use peacrab::channels::telegram::{Config, Telegram, TelegramDeadlines};
use peacrab::secret::Secret;
use serde_json::json;
use tokio::net::TcpListener;

use super::stage::{Act, Bot, Place, Seen, Stage, Trouble, Who};
use crate::support::bot_api::line::{ADA, BOB, Line, Person};
use crate::support::bot_api::{ANOTHER_TOKEN, BOT_NAME, BotApi, Fault, TOKEN};

const EVE: Person = Person { id: 7005, name: "Eve", is_bot: false };
const ROBOT: Person = Person { id: 7009, name: "Robot", is_bot: true };

/// A forum; what is in none of its topics is its own.
const CREW: i64 = -1_000_000_001_234;
const TOPIC: i64 = 5;

/// Short, so that what is never answered does not hold up the tests.
const DEADLINES: TelegramDeadlines = TelegramDeadlines {
    connect: Duration::from_secs(5),
    call: Duration::from_millis(1500),
    press: Duration::from_millis(1500),
    file: Duration::from_secs(5),
    poll: Duration::from_secs(1),
    poll_grace: Duration::from_millis(500),
    ask_again: Duration::from_millis(20),
};

pub(super) struct OnTelegram(BotApi);

super::conforms!(OnTelegram);

fn person(who: Who) -> &'static Person {
    match who {
        Who::Ada => &ADA,
        Who::Bob => &BOB,
        Who::Eve => &EVE,
        Who::Robot => &ROBOT,
    }
}

fn place_of(chat: i64, thread: Option<i64>) -> Place {
    let private = [Who::Ada, Who::Bob, Who::Eve].into_iter().find(|who| person(*who).id == chat);
    match (private, chat, thread) {
        (Some(who), _, None) => Place::Private(who),
        (None, CREW, None) => Place::Group,
        (None, CREW, Some(TOPIC)) => Place::Thread,
        _ => Place::Elsewhere,
    }
}

/// What is found a day late is not answered, so all is said just now.
fn line(place: Place, by: Who, words: &str) -> Line {
    let by = person(by);
    let line = match place {
        Place::Private(who) => Line::group(person(who).id, by, words),
        Place::Group => Line::group(CREW, by, words),
        Place::Thread => Line::group(CREW, by, words).in_topic(TOPIC),
        Place::Pane(_) | Place::Elsewhere => panic!("Telegram has no such place"),
    };
    line.with("date", chrono::Utc::now().timestamp())
}

fn method(act: Act) -> &'static str {
    match act {
        Act::Send => "sendMessage",
        Act::Edit => "editMessageText",
        Act::Upload => "sendDocument",
    }
}

fn number(id: &str) -> i64 {
    id.parse().unwrap()
}

impl OnTelegram {
    fn of(api: BotApi) -> Self {
        api.turn_privacy_off();
        Self(api)
    }
}

impl Stage for OnTelegram {
    const TELLS_OF_DELETIONS: bool = false;
    const CAN_BE_ASKED: bool = false;
    const FOLLOWS_THREADS: bool = false;
    const TOKENS: &'static [&'static str] = &[TOKEN];
    const TYPES_IN: Place = Place::Private(Who::Ada);

    async fn start() -> Self {
        Self::of(BotApi::start().await)
    }

    async fn start_at(listener: TcpListener) -> Self {
        Self::of(BotApi::start_at(listener))
    }

    async fn start_another() -> Self {
        Self::of(BotApi::start_another().await)
    }

    fn base(&self) -> String {
        self.0.url().to_owned()
    }

    fn adapter(base: &str, bot: Bot) -> Arc<dyn Channel> {
        let token = match bot {
            Bot::First => TOKEN,
            Bot::Another => ANOTHER_TOKEN,
        };
        let config = Config { token: Secret::new(token), api_url: base.to_owned() };
        Arc::new(Telegram::with_deadlines(&config, DEADLINES).unwrap())
    }

    fn id(who: Who) -> String {
        person(who).id.to_string()
    }

    fn mention(words: &str) -> String {
        format!("@{BOT_NAME} {words}")
    }

    fn say(&self, place: Place, by: Who, words: &str) -> String {
        self.0.say(&line(place, by, words)).to_string()
    }

    fn send_file(&self, by: Who, (name, bytes): (&str, &[u8]), words: &str) {
        self.0.keep_file("f1", bytes);
        let file = json!({
            "file_id": "f1", "file_unique_id": "u1", "file_name": name, "file_size": bytes.len(),
        });
        let line = line(Place::Private(by), by, "");
        self.0.say(&line.media("document", file).with("caption", words));
    }

    fn edit(&self, place: Place, by: Who, message: &str, words: &str) {
        self.0.edit(number(message), &line(place, by, words));
    }

    fn edit_old(&self, place: Place, by: Who, words: &str) {
        let now = chrono::Utc::now().timestamp();
        let old = |words: &str| line(place, by, words).with("date", now - 2 * 60 * 60);
        let message = self.0.say_unheard(&old("as it was"));
        self.0.edit(message, &old(words).with("edit_date", now));
    }

    fn delete(&self, _: Place, _: &str) {
        panic!("Telegram does not tell bots of deletions");
    }

    fn repeat(&self) {
        self.0.repeat_last_update();
    }

    fn button(&self, seen: &Seen, label: &str) -> String {
        self.0.button(number(&seen.id), label)
    }

    fn press(&self, by: Who, seen: &Seen, button: &str) -> String {
        let chat = json!({ "id": CREW, "type": "supergroup", "title": "The crew" });
        let message = json!({ "message_id": number(&seen.id), "date": 0, "chat": chat });
        self.0.press_other(person(by), &json!({ "data": button, "message": message }))
    }

    fn told(&self, _: Who, press: &str) -> Option<String> {
        self.0.answer_to(press).map(Option::unwrap_or_default)
    }

    fn seen(&self) -> Vec<Seen> {
        let sent = self.0.sent().into_iter();
        sent.map(|sent| Seen {
            id: sent.id.to_string(),
            place: place_of(sent.chat, sent.thread),
            answers: sent.reply_to.map(|id| id.to_string()),
            text: sent.text,
            buttons: sent.buttons.concat(),
            file: sent.file.map(|file| (file.name, file.bytes)),
            edits: sent.edits,
        })
        .collect()
    }

    fn typings(&self) -> usize {
        let received = self.0.received();
        received.iter().filter(|call| call.call == "sendChatAction").count()
    }

    fn reacted(&self, place: Place, message: &str) -> bool {
        let chat = match place {
            Place::Private(who) => person(who).id,
            _ => CREW,
        };
        self.0.reaction(chat, number(message)).is_some()
    }

    fn pings(&self) -> Vec<String> {
        // Nothing that a bot writes there pings all.
        Vec::new()
    }

    fn offences(&self) -> Vec<String> {
        Vec::new()
    }

    fn fail(&self, act: Act, times: usize, trouble: Trouble) {
        let fault = match trouble {
            Trouble::RateLimitedWith => Fault::TooMany { after: 1 },
            Trouble::RateLimitedWithout => Fault::Status(429),
            Trouble::ServerError => Fault::Status(502),
            Trouble::Hang => Fault::Hang,
            Trouble::CutAfterAcceptance => Fault::CutAfter,
            Trouble::Garbage => Fault::Garbage,
            Trouble::Slow(time) => Fault::Slow(time),
        };
        self.0.fail(method(act), times, &fault);
    }

    fn heal(&self) {
        self.0.heal();
    }

    fn calls(&self, act: Act) -> usize {
        self.0.received().iter().filter(|call| call.call == method(act)).count()
    }

    fn drop_link(&self) {
        self.0.fail("getUpdates", 1, &Fault::CutAfter);
    }

    fn ignore_handshake(&self) {
        // Who has been told who it is need not ask again.
        for method in ["getMe", "getUpdates"] {
            self.0.fail(method, 1, &Fault::Hang);
        }
    }

    fn silence_link(&self) {
        self.0.fail("getUpdates", 1, &Fault::Hang);
    }

    fn revoke_token(&self) {
        self.0.revoke();
    }
}
