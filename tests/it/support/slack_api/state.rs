//! What the stand-in knows, and what each call does to it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::super::watched::{Calls, DebugState};
use super::line::{Line, PEOPLE, channel_type};
use super::socket::LinkFault;
use super::{APP, BOT_NAME, Fault, TEAM};

/// chat.postMessage, chat.update.
const TEXT_MAX: usize = 40_000;
const UPDATE_MAX: usize = 4_000;

/// Slack's own: an envelope that is not acknowledged within it comes again.
const AGAIN_AFTER: Duration = Duration::from_secs(3);

/// A message of the bot as people see it now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) ts: String,
    pub(crate) channel: String,
    pub(crate) thread: Option<String>,
    pub(crate) text: String,
    pub(crate) edits: usize,
    pub(crate) blocks: Value,
    /// Who alone sees it.
    pub(crate) only_for: Option<String>,
    pub(crate) metadata: Value,
    /// Names of the files that came with it.
    pub(crate) files: Vec<String>,
}

/// On its way to the bot.
pub(super) struct Envelope {
    pub(super) id: String,
    kind: &'static str,
    payload: Value,
    attempt: u32,
    /// By which link, and when.
    pub(super) sent: Option<(u64, Instant)>,
}

impl Envelope {
    /// Whether this may come with its acknowledgement.
    pub(super) fn takes(&self, payload: &Value) -> bool {
        self.kind == "slash_commands"
            && payload["response_type"] == "ephemeral"
            && payload["text"].as_str().is_some_and(|text| !text.is_empty())
    }

    pub(super) fn json(&mut self) -> Value {
        let mut envelope = json!({
            "envelope_id": self.id,
            "type": self.kind,
            "payload": self.payload,
            "accepts_response_payload": self.kind != "events_api",
        });
        if self.kind == "events_api" {
            envelope["retry_attempt"] = self.attempt.into();
            envelope["retry_reason"] = if self.attempt > 0 { "timeout" } else { "" }.into();
        }
        self.attempt += 1;
        envelope
    }
}

/// A file that people or the bot have put there.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) name: String,
    pub(crate) length: u64,
    pub(crate) content: Option<Vec<u8>>,
}

pub(super) struct State {
    /// The bot's, and the app's.
    pub(super) tokens: [&'static str; 2],
    /// For the link that is there now, or for the next that opens.
    pub(super) link_fault: Option<(LinkFault, bool)>,
    /// So many links are opened and never greeted.
    pub(super) greetings_withheld: usize,
    pub(super) again_after: Duration,
    /// How often a link is knocked at; Slack does every few seconds.
    pub(super) ping_every: Duration,
    /// The bot as a user, and as a bot.
    user: &'static str,
    bot: &'static str,
    pub(super) pending: VecDeque<Envelope>,
    pub(super) acknowledged: Vec<String>,
    /// What came with acknowledgements of commands.
    pub(super) answers: Vec<String>,
    /// Deliveries of envelopes, repeated ones too.
    pub(super) delivered: usize,
    /// The newest link; it gets what comes.
    pub(super) link: u64,
    /// Links that are open now, which the greeting counts.
    pub(super) open_links: u32,
    /// Links that the bot has closed properly.
    pub(super) goodbyes: u64,
    pub(super) tickets: Vec<String>,
    pub(super) sent: Vec<Sent>,
    pub(super) calls: Calls<Fault>,
    pub(super) reactions: Vec<(String, String, String)>,
    pub(super) invents: bool,
    pub(super) mention_first: bool,
    pub(super) revoked: Option<&'static str>,
    /// Of the bot's token.
    pub(super) scopes: Vec<&'static str>,
    pub(super) uploads: BTreeMap<String, Upload>,
    /// All that was done wrong on a link.
    pub(super) offences: Vec<String>,
    pub(super) url: String,
    pub(super) socket_url: String,
    last_event: Value,
    next: u64,
    /// Everybody's messages, by channel and time.
    messages: BTreeMap<(String, String), Value>,
}

impl DebugState for State {
    fn debug_state(&self) -> Vec<&dyn Debug> {
        vec![&self.sent, &self.calls]
    }
}

impl State {
    pub(super) fn new(
        tokens: [&'static str; 2],
        [user, bot]: [&'static str; 2],
        [url, socket_url]: [String; 2],
    ) -> Self {
        Self {
            tokens,
            link_fault: None,
            greetings_withheld: 0,
            again_after: AGAIN_AFTER,
            ping_every: Duration::from_millis(200),
            user,
            bot,
            pending: VecDeque::new(),
            acknowledged: Vec::new(),
            answers: Vec::new(),
            delivered: 0,
            link: 0,
            open_links: 0,
            goodbyes: 0,
            tickets: Vec::new(),
            sent: Vec::new(),
            calls: Calls::default(),
            reactions: Vec::new(),
            invents: false,
            mention_first: false,
            revoked: None,
            scopes: peacrab::channels::slack::manifest::BOT_SCOPES.to_vec(),
            uploads: BTreeMap::new(),
            offences: Vec::new(),
            url,
            socket_url,
            last_event: Value::Null,
            next: 0,
            messages: BTreeMap::new(),
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A message's id: the time, never the same twice.
    fn ts(&mut self) -> String {
        let now = chrono::Utc::now().timestamp();
        format!("{now}.{:06}", self.number())
    }

    pub(super) fn say(&mut self, line: &Line) -> String {
        let ts = self.keep(line);
        let mut events = vec![line.event(&ts)];
        if line.mentions_bot() && channel_type(&line.channel) != "im" {
            events.push(line.mention(&ts));
        }
        if self.mention_first {
            events.reverse();
        }
        for event in events {
            self.push_event(event);
        }
        ts
    }

    /// Said while nobody was connected, and never delivered.
    pub(super) fn keep(&mut self, line: &Line) -> String {
        let ts = self.ts();
        self.messages.insert((line.channel.clone(), ts.clone()), line.message(&ts));
        ts
    }

    pub(super) fn change(&mut self, channel: &str, ts: &str, text: &str) {
        let message = self.messages.get_mut(&(channel.to_owned(), ts.to_owned())).unwrap();
        let before = message.clone();
        message["text"] = text.into();
        if before["text"] != message["text"] {
            message["edited"] = json!({ "user": message["user"], "ts": ts });
        }
        let message = message.clone();
        self.tell_of(
            "message_changed",
            channel,
            &json!({
                "message": message, "previous_message": before
            }),
        );
    }

    pub(super) fn delete(&mut self, channel: &str, ts: &str) {
        let before = self.messages.remove(&(channel.to_owned(), ts.to_owned())).unwrap();
        self.tell_of(
            "message_deleted",
            channel,
            &json!({
                "previous_message": before, "deleted_ts": ts
            }),
        );
    }

    fn tell_of(&mut self, subtype: &str, channel: &str, fields: &Value) {
        let ts = self.ts();
        let mut event = json!({
            "type": "message", "subtype": subtype, "hidden": true, "channel": channel, "ts": ts,
            "event_ts": ts, "channel_type": channel_type(channel),
        });
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.push_event(event);
    }

    pub(super) fn repeat(&mut self) {
        self.push_event(self.last_event.clone());
    }

    pub(super) fn push_event(&mut self, mut event: Value) {
        self.last_event = event.clone();
        if self.invents {
            event["of_next_year"] = json!({ "deep": [1, null] });
            event["blocks"] = json!([{ "type": "hologram", "elements": 3 }]);
        }
        let number = self.number();
        let payload = json!({
            "token": "verification-token", "team_id": TEAM, "api_app_id": APP, "event": event,
            "type": "event_callback", "event_id": format!("Ev{number:09}"),
            "event_time": chrono::Utc::now().timestamp(),
            "authorizations": [{
                "enterprise_id": null, "team_id": TEAM, "user_id": self.user, "is_bot": true,
                "is_enterprise_install": false
            }],
            "is_ext_shared_channel": false, "event_context": format!("4-{number}"),
        });
        self.push("events_api", payload);
    }

    pub(super) fn push(&mut self, kind: &'static str, payload: Value) {
        let id = format!("envelope-{}", self.number());
        self.pending.push_back(Envelope { id, kind, payload, attempt: 0, sent: None });
    }

    /// A button under one of the bot's messages is pressed.
    pub(super) fn press(&mut self, by: &super::line::Person, ts: &str, action: &str) {
        let sent = self.sent.iter().find(|sent| sent.ts == ts).unwrap().clone();
        let action_ts = self.ts();
        let mut message = json!({
            "type": "message", "user": self.user, "bot_id": self.bot, "ts": ts, "text": sent.text,
            "blocks": sent.blocks,
        });
        let mut container = json!({
            "type": "message", "message_ts": ts, "channel_id": sent.channel, "is_ephemeral": false
        });
        if let Some(thread) = &sent.thread {
            message["thread_ts"] = thread.as_str().into();
            container["thread_ts"] = thread.as_str().into();
        }
        self.push(
            "interactive",
            json!({
                "type": "block_actions", "api_app_id": APP, "token": "verification-token",
                "user": { "id": by.id, "username": by.name, "name": by.name, "team_id": TEAM },
                "team": { "id": TEAM, "domain": "crew" }, "enterprise": null,
                "is_enterprise_install": false, "trigger_id": format!("1.2.{action_ts}"),
                "container": container, "message": message,
                "channel": { "id": sent.channel, "name": "crew" }, "state": { "values": {} },
                "response_url": "https://hooks.slack.com/actions/1/2/3",
                "actions": [{
                    "type": "button", "block_id": "b", "action_id": action, "value": action,
                    "action_ts": action_ts, "text": { "type": "plain_text", "text": "?" }
                }],
            }),
        );
    }

    /// What is to happen to a link, now or as it opens.
    pub(super) fn take_link_fault(&mut self, is_new: bool) -> Option<LinkFault> {
        self.link_fault.take_if(|(_, for_new)| *for_new == is_new).map(|(fault, _)| fault)
    }

    pub(super) fn perform(
        &mut self,
        method: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Value, &'static str> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let owned = |name: &str| text(name).unwrap_or_default().to_owned();
        match method {
            "auth.test" => Ok(json!({
                "url": "https://crew.slack.com/", "team": "The crew", "user": BOT_NAME,
                "team_id": TEAM, "user_id": self.user, "bot_id": self.bot, "is_enterprise_install": false
            })),
            "apps.connections.open" => {
                let ticket = format!("ticket-{}", self.number());
                self.tickets.push(ticket.clone());
                Ok(
                    json!({ "url": format!("{}/link/?ticket={ticket}&app_id={APP}", self.socket_url) }),
                )
            }
            "chat.postMessage" => self.post(arguments),
            "chat.update" => self.update(arguments),
            "chat.delete" => {
                let ts = owned("ts");
                let gone = self.messages.remove(&(owned("channel"), ts.clone()));
                self.sent.retain(|sent| sent.ts != ts);
                gone.map(|_| json!({ "channel": owned("channel"), "ts": ts }))
                    .ok_or("message_not_found")
            }
            "chat.postEphemeral" => {
                let ts = self.ts();
                let thread = text("thread_ts").map(str::to_owned);
                let mut sent = Sent::new(&ts, &owned("channel"), thread, &owned("text"));
                sent.only_for = Some(owned("user"));
                self.sent.push(sent);
                Ok(json!({ "message_ts": ts }))
            }
            "conversations.history" => self.history(arguments),
            "conversations.replies" => self.replies(arguments),
            "users.info" => {
                let person = PEOPLE.iter().find(|person| Some(person.id) == text("user"));
                let person = person.ok_or("user_not_found")?;
                Ok(json!({ "user": {
                    "id": person.id, "name": person.name.to_lowercase(), "team_id": TEAM,
                    "real_name": format!("{} Lovely", person.name), "is_bot": false,
                    "profile": { "display_name": person.name, "real_name": person.name }
                } }))
            }
            "reactions.add" => {
                let key = (owned("channel"), owned("timestamp"));
                if !self.messages.contains_key(&key) {
                    return Err("message_not_found");
                }
                let reaction = (key.0, key.1, owned("name"));
                if self.reactions.contains(&reaction) {
                    return Err("already_reacted");
                }
                self.reactions.push(reaction);
                Ok(json!({}))
            }
            "assistant.threads.setStatus" => {
                let is_im = channel_type(text("channel_id").unwrap_or_default()) == "im";
                if is_im { Ok(json!({})) } else { Err("method_not_supported_for_channel_type") }
            }
            "files.getUploadURLExternal" => {
                let id = format!("F{:07}", self.number());
                let length = arguments["length"].as_u64().unwrap_or_default();
                let upload = Upload { name: owned("filename"), length, content: None };
                self.uploads.insert(id.clone(), upload);
                Ok(json!({ "upload_url": format!("{}/upload/{id}", self.url), "file_id": id }))
            }
            "files.completeUploadExternal" => self.complete(arguments),
            other => panic!("{other} is known to the rules only"),
        }
    }

    fn post(&mut self, arguments: &Map<String, Value>) -> Result<Value, &'static str> {
        let text = arguments.get("text").and_then(Value::as_str).unwrap_or_default();
        let blocks = arguments.get("blocks").cloned().unwrap_or_else(|| json!([]));
        if text.trim().is_empty() && blocks == json!([]) {
            return Err("no_text");
        }
        if text.chars().count() > TEXT_MAX {
            return Err("msg_too_long");
        }
        let channel = arguments["channel"].as_str().unwrap_or_default().to_owned();
        let thread = arguments.get("thread_ts").and_then(Value::as_str).map(str::to_owned);
        let ts = self.ts();
        let mut sent = Sent::new(&ts, &channel, thread, text);
        sent.blocks = blocks;
        sent.metadata = arguments.get("metadata").cloned().unwrap_or_default();
        let message = sent.message([self.user, self.bot]);
        self.messages.insert((channel.clone(), ts.clone()), message.clone());
        self.sent.push(sent);
        Ok(json!({ "channel": channel, "ts": ts, "message": message }))
    }

    fn update(&mut self, arguments: &Map<String, Value>) -> Result<Value, &'static str> {
        let field = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let (channel, ts, text) = (field("channel"), field("ts"), field("text"));
        if text.chars().count() > UPDATE_MAX {
            return Err("msg_too_long");
        }
        let key = (channel.to_owned(), ts.to_owned());
        let author = self.messages.get(&key).map(|message| message["user"] == self.user);
        match author {
            None => return Err("message_not_found"),
            Some(false) => return Err("cant_update_message"),
            Some(true) => {}
        }
        let sent = self.sent.iter_mut().find(|sent| sent.ts == ts).unwrap();
        text.clone_into(&mut sent.text);
        sent.edits += 1;
        if let Some(blocks) = arguments.get("blocks") {
            sent.blocks = blocks.clone();
        }
        if let Some(metadata) = arguments.get("metadata") {
            sent.metadata = metadata.clone();
        }
        let message = sent.message([self.user, self.bot]);
        self.messages.insert(key, message);
        Ok(json!({ "channel": channel, "ts": ts, "text": text }))
    }

    fn complete(&mut self, arguments: &Map<String, Value>) -> Result<Value, &'static str> {
        let mut names = Vec::new();
        let mut files = Vec::new();
        for file in arguments["files"].as_array().unwrap() {
            let id = file["id"].as_str().unwrap();
            let upload = self.uploads.get(id).ok_or("file_not_found")?;
            if upload.content.as_ref().is_none_or(|content| content.len() as u64 != upload.length) {
                return Err("file_upload_size_mismatch");
            }
            names.push(upload.name.clone());
            files.push(json!({ "id": id, "title": file["title"], "name": upload.name }));
        }
        let field = |name: &str| arguments.get(name).and_then(Value::as_str);
        if let Some(channel) = field("channel_id") {
            let ts = self.ts();
            let text = field("initial_comment").unwrap_or_default();
            let mut sent = Sent::new(&ts, channel, field("thread_ts").map(str::to_owned), text);
            sent.files = names;
            let mut message = sent.message([self.user, self.bot]);
            message["files"] = files.clone().into();
            message["subtype"] = "file_share".into();
            self.messages.insert((channel.to_owned(), ts), message);
            self.sent.push(sent);
        }
        Ok(json!({ "files": files }))
    }

    fn history(&self, arguments: &Map<String, Value>) -> Result<Value, &'static str> {
        let channel = arguments["channel"].as_str().unwrap();
        let is_root = |message: &&Value| {
            message.get("thread_ts").is_none_or(|thread| *thread == message["ts"])
                || message["subtype"] == "thread_broadcast"
        };
        let roots = self.in_channel(channel).filter(is_root);
        let mut found: Vec<Value> = roots.map(|root| self.with_thread(channel, root)).collect();
        found.reverse();
        Ok(page(&found.iter().collect::<Vec<_>>(), None, arguments))
    }

    fn replies(&self, arguments: &Map<String, Value>) -> Result<Value, &'static str> {
        let (channel, ts) = (arguments["channel"].as_str().unwrap(), &arguments["ts"]);
        let root = self.in_channel(channel).find(|message| message["ts"] == *ts);
        let root = self.with_thread(channel, root.ok_or("thread_not_found")?);
        let replies = self.replies_to(channel, ts).cloned().map(|mut reply| {
            reply["parent_user_id"] = root["user"].clone();
            reply
        });
        let found: Vec<Value> = replies.collect();
        Ok(page(&found.iter().collect::<Vec<_>>(), Some(&root), arguments))
    }

    /// A message as it is told once there is a thread under it.
    fn with_thread(&self, channel: &str, root: &Value) -> Value {
        let mut told = root.clone();
        let replies: Vec<&Value> = self.replies_to(channel, &root["ts"]).collect();
        if let Some(latest) = replies.last() {
            told["thread_ts"] = root["ts"].clone();
            told["reply_count"] = replies.len().into();
            told["latest_reply"] = latest["ts"].clone();
        }
        told
    }

    fn replies_to<'a>(
        &'a self,
        channel: &'a str,
        ts: &'a Value,
    ) -> impl Iterator<Item = &'a Value> {
        let is_reply =
            move |message: &&Value| message.get("thread_ts") == Some(ts) && message["ts"] != *ts;
        self.in_channel(channel).filter(is_reply)
    }

    fn in_channel<'a>(&'a self, channel: &'a str) -> impl Iterator<Item = &'a Value> {
        self.messages.iter().filter(move |((there, _), _)| there == channel).map(|(_, m)| m)
    }
}

/// What of `found` was asked for, behind `first`.
fn page(found: &[&Value], first: Option<&Value>, arguments: &Map<String, Value>) -> Value {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let inclusive = arguments.get("inclusive") == Some(&json!(true));
    let within = |message: &&&Value| {
        let ts = message["ts"].as_str().unwrap();
        text("oldest").is_none_or(|oldest| ts > oldest || inclusive && ts == oldest)
            && text("latest").is_none_or(|latest| ts < latest || inclusive && ts == latest)
    };
    let limit = arguments.get("limit").and_then(Value::as_u64).unwrap_or(100).clamp(1, 1000);
    let begin: usize = text("cursor").and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let found: Vec<&Value> = found.iter().filter(within).copied().collect();
    let end = (begin + usize::try_from(limit).unwrap()).min(found.len());
    let mut messages: Vec<Value> =
        first.into_iter().chain(found[begin..end].iter().copied()).cloned().collect();
    if arguments.get("include_all_metadata") != Some(&json!(true)) {
        for message in &mut messages {
            message.as_object_mut().unwrap().remove("metadata");
        }
    }
    let next = if end < found.len() { end.to_string() } else { String::new() };
    json!({
        "messages": messages, "has_more": end < found.len(),
        "response_metadata": { "next_cursor": next }
    })
}

impl Sent {
    fn new(ts: &str, channel: &str, thread: Option<String>, text: &str) -> Self {
        Self {
            ts: ts.to_owned(),
            channel: channel.to_owned(),
            thread,
            text: text.to_owned(),
            edits: 0,
            blocks: json!([]),
            only_for: None,
            metadata: Value::Null,
            files: Vec::new(),
        }
    }

    fn message(&self, [user, bot]: [&str; 2]) -> Value {
        let mut message = json!({
            "type": "message", "user": user, "bot_id": bot, "app_id": APP, "team": TEAM,
            "ts": self.ts, "text": self.text, "blocks": self.blocks,
        });
        if let Some(thread) = &self.thread {
            message["thread_ts"] = thread.as_str().into();
        }
        if !self.metadata.is_null() {
            message["metadata"] = self.metadata.clone();
        }
        message
    }
}
