//! Slack.

use std::sync::Arc;
use std::time::Duration;

use peacrab::channels::slack::{Config, Slack, SlackDeadlines, Threads};
use peacrab::channels::{Channel, Markup, Unit, markup};
use peacrab::secret::Secret;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::stage::{Act, Bot, Place, Seen, Stage, Trouble, Who};
use crate::support::slack_api::line::{ADA, BOB, Line, Person, channel_type};
use crate::support::slack_api::socket::LinkFault;
use crate::support::slack_api::{
    ANOTHER_APP_TOKEN, ANOTHER_BOT_TOKEN, APP_TOKEN, BOT, BOT_TOKEN, Fault, Sent, SlackApi,
};

const EVE: Person = Person { id: "U0EVE", name: "Eve" };
const ROBOT: Person = Person { id: "U0ROBOT", name: "Robot" };
const CREW: &str = "C0CREW";

/// Short, so that what is never answered does not hold up the tests.
const DEADLINES: SlackDeadlines = SlackDeadlines {
    connect: Duration::from_secs(5),
    call: Duration::from_millis(1500),
    names: Duration::from_secs(1),
    ping_every: Duration::from_millis(300),
    silence: Duration::from_millis(1500),
    catch_up: Duration::from_secs(2),
    steady: Duration::from_secs(10),
    retry_pause: Duration::from_millis(300),
};

pub(super) struct OnSlack {
    api: SlackApi,
    /// What the thread of the channel hangs on.
    root: String,
    /// The same, of that in Ada's private chat.
    pane: String,
}

super::conforms!(OnSlack);

fn person(who: Who) -> &'static Person {
    match who {
        Who::Ada => &ADA,
        Who::Bob => &BOB,
        Who::Eve => &EVE,
        Who::Robot => &ROBOT,
    }
}

fn method(act: Act) -> &'static str {
    match act {
        Act::Send => "chat.postMessage",
        Act::Edit => "chat.update",
        Act::Upload => "files.completeUploadExternal",
    }
}

fn channel(place: Place) -> String {
    match place {
        Place::Private(who) | Place::Pane(who) => person(who).im(),
        _ => CREW.to_owned(),
    }
}

impl OnSlack {
    fn of(api: SlackApi) -> Self {
        let root = api.say_unheard(&Line::channel(CREW, &BOB, "the thread"));
        let pane = api.say_unheard(&Line::im(&ADA, "the pane"));
        Self { api, root, pane }
    }

    fn line(&self, place: Place, by: Who, words: &str) -> Line {
        let line = Line::channel(&channel(place), person(by), words);
        let line = if by == Who::Robot { line.with("bot_id", "B0ROBOT") } else { line };
        match place {
            Place::Thread => line.in_thread(&self.root),
            Place::Pane(_) => line.in_thread(&self.pane),
            Place::Private(_) | Place::Group => line,
            Place::Elsewhere => panic!("there is no such place"),
        }
    }

    fn place_of(&self, sent: &Sent) -> Place {
        let private =
            [Who::Ada, Who::Bob].into_iter().find(|who| person(*who).im() == sent.channel);
        match (private, &sent.thread) {
            (Some(who), None) => Place::Private(who),
            (Some(who), Some(thread)) if *thread == self.pane => Place::Pane(who),
            (None, Some(thread)) if *thread == self.root => Place::Thread,
            // A question in the channel is answered in a thread of its own.
            (None, _) if sent.channel == CREW => Place::Group,
            _ => Place::Elsewhere,
        }
    }

    fn seen_of(&self, sent: Sent) -> Seen {
        let uploads = self.api.uploads();
        let file = sent.files.first().map(|name| {
            let upload = uploads.iter().find(|upload| upload.name == *name).unwrap();
            (name.clone(), upload.content.clone().unwrap_or_default())
        });
        let place = self.place_of(&sent);
        Seen {
            place,
            id: sent.ts,
            answers: sent.thread.filter(|_| place == Place::Group),
            text: markup::plain(&sent.text, Markup::Slack, usize::MAX, Unit::Utf16),
            buttons: buttons(&sent.blocks).map(|(label, _)| label).collect(),
            file,
            edits: sent.edits,
        }
    }

    fn sent(&self, id: &str) -> Sent {
        self.api.sent().into_iter().find(|sent| sent.ts == id).unwrap()
    }
}

/// Labels and ids.
fn buttons(blocks: &Value) -> impl Iterator<Item = (String, String)> {
    let rows = blocks.as_array().into_iter().flatten();
    let elements = rows.flat_map(|row| row["elements"].as_array().into_iter().flatten());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let buttons = elements.filter(|element| element["type"] == "button");
    buttons.map(move |button| (text(&button["text"]["text"]), text(&button["action_id"])))
}

impl Stage for OnSlack {
    const TELLS_OF_DELETIONS: bool = true;
    const CAN_BE_ASKED: bool = true;
    const FOLLOWS_THREADS: bool = true;
    const TOKENS: &'static [&'static str] = &[BOT_TOKEN, APP_TOKEN];
    const TYPES_IN: Place = Place::Pane(Who::Ada);

    async fn start() -> Self {
        Self::of(SlackApi::start().await)
    }

    async fn start_at(listener: TcpListener) -> Self {
        Self::of(SlackApi::start_at(listener).await)
    }

    async fn start_another() -> Self {
        Self::of(SlackApi::start_another().await)
    }

    fn base(&self) -> String {
        self.api.url().trim_end_matches("/api").to_owned()
    }

    fn adapter(base: &str, bot: Bot) -> Arc<dyn Channel> {
        let [token, app_token] = match bot {
            Bot::First => [BOT_TOKEN, APP_TOKEN],
            Bot::Another => [ANOTHER_BOT_TOKEN, ANOTHER_APP_TOKEN],
        };
        let config = Config {
            token: Secret::new(token),
            app_token: Secret::new(app_token),
            api_url: format!("{base}/api"),
            threads: Threads::Thread,
        };
        Arc::new(Slack::with_deadlines(&config, DEADLINES).unwrap())
    }

    fn id(who: Who) -> String {
        person(who).id.to_owned()
    }

    fn mention(words: &str) -> String {
        format!("<@{BOT}> {words}")
    }

    fn say(&self, place: Place, by: Who, words: &str) -> String {
        self.api.say(&self.line(place, by, words))
    }

    fn send_file(&self, by: Who, (name, bytes): (&str, &[u8]), words: &str) {
        let url = self.api.put_file(name, bytes);
        let file = json!({
            "id": "F0PLAN", "name": name, "title": name, "mimetype": "text/plain",
            "size": bytes.len(), "url_private": url, "url_private_download": url,
        });
        let line = self.line(Place::Private(by), by, words).with("subtype", "file_share");
        self.api.say(&line.with("files", json!([file])));
    }

    fn edit(&self, place: Place, _: Who, message: &str, words: &str) {
        self.api.edit(&channel(place), message, words);
    }

    fn edit_old(&self, place: Place, by: Who, words: &str) {
        let now = chrono::Utc::now().timestamp();
        let (said, changed) = (format!("{}.000100", now - 2 * 60 * 60), format!("{now}.000900"));
        let [before, after] =
            ["as it was", words].map(|words| self.line(place, by, words).message(&said));
        self.api.push_event(json!({
            "type": "message", "subtype": "message_changed", "hidden": true,
            "channel": channel(place), "channel_type": channel_type(&channel(place)),
            "ts": changed, "event_ts": changed, "message": after, "previous_message": before,
        }));
    }

    fn delete(&self, place: Place, message: &str) {
        self.api.delete(&channel(place), message);
    }

    fn repeat(&self) {
        self.api.repeat_last_event();
    }

    fn button(&self, seen: &Seen, label: &str) -> String {
        let sent = self.sent(&seen.id);
        buttons(&sent.blocks).find(|(shown, _)| shown == label).unwrap().1
    }

    fn press(&self, by: Who, seen: &Seen, button: &str) -> String {
        let whispers = self.api.sent().into_iter().filter(|sent| sent.only_for.is_some());
        let before = whispers.count();
        self.api.press(person(by), &seen.id, button);
        before.to_string()
    }

    fn told(&self, by: Who, press: &str) -> Option<String> {
        let whispers = self.api.sent().into_iter().filter(|sent| sent.only_for.is_some());
        let whisper = whispers.into_iter().nth(press.parse().unwrap())?;
        assert_eq!(whisper.only_for.as_deref(), Some(person(by).id));
        Some(whisper.text)
    }

    fn seen(&self) -> Vec<Seen> {
        let sent = self.api.sent().into_iter().filter(|sent| sent.only_for.is_none());
        sent.map(|sent| self.seen_of(sent)).collect()
    }

    fn typings(&self) -> usize {
        self.api.calls("assistant.threads.setStatus").len()
    }

    fn reacted(&self, place: Place, message: &str) -> bool {
        let channel = channel(place);
        self.api.reactions().iter().any(|(at, ts, _)| *at == channel && ts == message)
    }

    fn pings(&self) -> Vec<String> {
        let texts = self.api.sent().into_iter().map(|sent| sent.text);
        texts.filter(|text| text.contains("<!") || text.contains("<@")).collect()
    }

    fn offences(&self) -> Vec<String> {
        self.api.offences()
    }

    fn fail(&self, act: Act, times: usize, trouble: Trouble) {
        let fault = match trouble {
            Trouble::RateLimitedWith => Fault::TooMany { after: Some(1) },
            Trouble::RateLimitedWithout => Fault::TooMany { after: None },
            Trouble::ServerError => Fault::Status(502),
            Trouble::Hang => Fault::Hang,
            Trouble::CutAfterAcceptance => Fault::CutAfter,
            Trouble::Garbage => Fault::Garbage,
            Trouble::Slow(time) => Fault::Slow(time),
        };
        self.api.fail(method(act), times, &fault);
    }

    fn heal(&self) {
        self.api.heal();
    }

    fn calls(&self, act: Act) -> usize {
        self.api.calls(method(act)).len()
    }

    fn drop_link(&self) {
        self.api.break_link(LinkFault::Drop);
    }

    fn ignore_handshake(&self) {
        self.api.withhold_greeting();
    }

    fn silence_link(&self) {
        self.api.break_link(LinkFault::Silent);
    }

    fn revoke_token(&self) {
        self.api.revoke(Some("token_revoked"));
        self.api.break_link(LinkFault::Drop);
    }
}
