//! What the stand-in knows, and what each call does to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::time::{Duration, Instant};

use chrono::Utc;
use serde_json::{Value, json};

use super::super::watched::{Calls, DebugState};
use super::line::{
    ADA, BOB, CREW, FORUM, GUILD, LAB, Line, Person, ROLE, THREAD, id_at, message_json,
};
use super::sessions::Sessions;
use super::{Fault, rules};

/// A message of the bot as people see it now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) id: u64,
    pub(crate) channel: u64,
    pub(crate) reply_to: Option<u64>,
    pub(crate) text: String,
    pub(crate) nonce: Option<String>,
    pub(crate) edits: usize,
    /// Labels and ids of its buttons.
    pub(crate) buttons: Vec<(String, String)>,
    /// Names and contents of its files.
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

#[derive(Debug)]
pub(super) struct Denial {
    pub(super) status: u16,
    pub(super) code: u64,
    pub(super) message: String,
    pub(super) more: Option<Value>,
}

impl Denial {
    pub(super) fn new(status: u16, code: u64, message: &str) -> Self {
        Self { status, code, message: message.to_owned(), more: None }
    }

    /// Whether the request itself was wrong, rather than what it was about.
    pub(super) fn is_of_form(&self) -> bool {
        self.code == 50035 || (self.status, self.code) == (404, 0)
    }
}

/// A call, taken apart.
pub(super) struct Call<'a> {
    pub(super) method: &'a str,
    /// The path below `/api/v10`.
    pub(super) path: &'a [&'a str],
    pub(super) query: &'a HashMap<String, String>,
    pub(super) body: &'a Value,
    pub(super) files: Vec<(String, Vec<u8>)>,
}

#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub(super) kind: u8,
    pub(super) guild: Option<u64>,
    pub(super) parent: Option<u64>,
    pub(super) name: String,
}

/// A pressed button or an invoked command, and how it was answered.
#[derive(Clone, Debug)]
pub(crate) struct Interaction {
    pub(crate) token: String,
    /// The type of the answer, and its text.
    pub(crate) answer: Option<(u64, String)>,
    pub(crate) is_private: bool,
}

pub(super) struct State {
    pub(super) bot: Person,
    pub(super) token: &'static str,
    pub(super) gateway_url: String,
    /// Where files lie.
    pub(super) cdn_url: String,
    pub(super) channels: BTreeMap<u64, Channel>,
    /// Everybody's messages, by channel and id.
    pub(super) messages: BTreeMap<(u64, u64), Value>,
    pub(super) files: BTreeMap<String, Vec<u8>>,
    pub(super) sent: Vec<Sent>,
    pub(super) reactions: Vec<(u64, String)>,
    pub(super) calls: Calls<Fault>,
    pub(super) interactions: BTreeMap<u64, Interaction>,
    pub(super) commands: Vec<Value>,
    pub(super) sessions: Sessions,
    /// Whether no token is accepted any more.
    pub(super) is_revoked: bool,
    /// Calls that a bucket lets through within a window, once they are counted.
    pub(super) limit: Option<(u32, Duration)>,
    /// When each bucket's window began, and what was taken from it.
    buckets: HashMap<String, (Instant, u32)>,
    nonces: HashMap<(u64, String), u64>,
    last_id: u64,
}

impl DebugState for State {
    fn debug_state(&self) -> Vec<&dyn Debug> {
        vec![&self.sent, &self.calls, &self.sessions.faults]
    }
}

impl State {
    pub(super) fn new(
        (bot, token): (Person, &'static str),
        gateway_url: String,
        cdn_url: String,
    ) -> Self {
        let text = |name: &str| Channel {
            kind: 0,
            guild: Some(GUILD),
            parent: None,
            name: name.to_owned(),
        };
        let thread = Channel { kind: 11, parent: Some(CREW), ..text("old thread") };
        let dm = Channel { kind: 1, guild: None, parent: None, name: String::new() };
        Self {
            bot,
            token,
            gateway_url,
            cdn_url,
            channels: BTreeMap::from([
                (CREW, text("crew")),
                (LAB, text("lab")),
                (FORUM, Channel { kind: 15, ..text("forum") }),
                (THREAD, thread),
                (ADA.dm(), dm.clone()),
                (BOB.dm(), dm),
            ]),
            messages: BTreeMap::new(),
            files: BTreeMap::new(),
            sent: Vec::new(),
            reactions: Vec::new(),
            calls: Calls::default(),
            interactions: BTreeMap::new(),
            commands: Vec::new(),
            sessions: Sessions::default(),
            is_revoked: false,
            limit: None,
            buckets: HashMap::new(),
            nonces: HashMap::new(),
            last_id: 0,
        }
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id = id_at(Utc::now()).max(self.last_id + 1);
        self.last_id
    }

    pub(super) fn say(&mut self, line: &Line, tell: bool) -> u64 {
        let id = self.next_id();
        let replied = line.reply_to.and_then(|id| self.messages.get(&(line.channel, id)).cloned());
        self.messages.insert((line.channel, id), line.json(id, replied.clone()));
        if tell {
            self.sessions.dispatch("MESSAGE_CREATE", line.event(id, replied));
        }
        id
    }

    /// Somebody begins a post in a forum: a thread that holds what it begins with.
    pub(super) fn begin_post(&mut self, line: &Line) -> u64 {
        let id = self.next_id();
        let (parent, name) = (Some(line.channel), "post".to_owned());
        self.channels.insert(id, Channel { kind: 11, guild: line.guild, parent, name });
        let line = line.clone().moved_to(id);
        self.messages.insert((id, id), line.json(id, None));
        self.sessions.dispatch("MESSAGE_CREATE", line.event(id, None));
        id
    }

    /// Somebody changes what they said.
    pub(super) fn edit_line(&mut self, id: u64, line: &Line) {
        let line = line.clone().with("edited_timestamp", Utc::now().to_rfc3339());
        self.messages.insert((line.channel, id), line.json(id, None));
        self.sessions.dispatch("MESSAGE_UPDATE", line.event(id, None));
    }

    pub(super) fn delete(&mut self, channel: u64, id: u64) {
        self.messages.remove(&(channel, id));
        let guild = self.channels.get(&channel).and_then(|channel| channel.guild);
        let mut event = json!({ "id": id.to_string(), "channel_id": channel.to_string() });
        if let Some(guild) = guild {
            event["guild_id"] = guild.to_string().into();
        }
        self.sessions.dispatch("MESSAGE_DELETE", event);
    }

    /// A pressed button (type 3) or an invoked command (type 2); returns the interaction's id.
    pub(super) fn interact(
        &mut self,
        by: &Person,
        channel: u64,
        kind: u8,
        data: &Value,
        message: Option<u64>,
    ) -> u64 {
        let id = self.next_id();
        let token = format!("interaction-token-{id}");
        let mut event = json!({
            "id": id.to_string(), "application_id": self.bot.id.to_string(), "type": kind,
            "token": token, "version": 1, "data": data, "channel_id": channel.to_string(),
            "locale": "en-US", "entitlements": [], "authorizing_integration_owners": {},
            "attachment_size_limit": 10_485_760, "app_permissions": "0",
        });
        if let Some(told) = self.channels.get(&channel) {
            event["channel"] = told.json(channel);
        }
        match self.channels.get(&channel).and_then(|channel| channel.guild) {
            Some(guild) => {
                event["guild_id"] = guild.to_string().into();
                event["member"] = json!({ "user": by.json(), "roles": [], "nick": null });
            }
            None => event["user"] = by.json(),
        }
        if let Some(message) = message {
            event["message"] = self.messages[&(channel, message)].clone();
        }
        self.interactions.insert(id, Interaction { token, answer: None, is_private: false });
        self.sessions.dispatch("INTERACTION_CREATE", event);
        id
    }

    /// Takes one call from the bucket of its route: what is left and until when, or how long to wait.
    pub(super) fn take(&mut self, method: &str, path: &str) -> Result<(u32, Duration), Duration> {
        let Some((count, window)) = self.limit else { return Ok((4, Duration::from_secs(1))) };
        let route: Vec<&str> = path.split('/').take(3).collect();
        let bucket = self.buckets.entry(format!("{method} {}", route.join("/")));
        let (begun, taken) = bucket.or_insert((Instant::now(), 0));
        if begun.elapsed() >= window {
            (*begun, *taken) = (Instant::now(), 0);
        }
        let left = window.saturating_sub(begun.elapsed());
        if *taken >= count {
            return Err(left);
        }
        *taken += 1;
        Ok((count - *taken, left))
    }

    /// `None`: 204.
    pub(super) fn perform(&mut self, call: Call<'_>) -> Result<Option<Value>, Denial> {
        let bot = self.bot.id.to_string();
        match (call.method, call.path) {
            ("GET", ["gateway"]) => Ok(Some(json!({ "url": self.gateway_url }))),
            ("GET", ["gateway", "bot"]) => Ok(Some(json!({
                "url": self.gateway_url, "shards": 1,
                "session_start_limit": {
                    "total": 1000, "remaining": self.sessions.starts_left,
                    "reset_after": 14_400_000, "max_concurrency": 1,
                },
            }))),
            ("GET", ["users", "@me"]) => Ok(Some(self.bot.json())),
            ("GET", ["applications", "@me"] | ["oauth2", "applications", "@me"]) => {
                Ok(Some(json!({
                    "id": bot, "name": "Peacrab", "description": "",
                    "flags": if self.sessions.content_allowed { 1 << 19 } else { 0 },
                    "bot_public": true, "bot_require_code_grant": false, "verify_key": "",
                })))
            }
            ("GET", ["channels", channel]) => {
                let id = number(channel)?;
                Ok(Some(self.channel(id)?.json(id)))
            }
            ("GET", ["guilds", guild, "roles"]) if number(guild)? == GUILD => Ok(Some(json!([
                { "id": guild, "name": "@everyone" },
                { "id": "31", "name": "Crew", "tags": {} },
                { "id": ROLE.to_string(), "name": "Peacrab", "tags": { "bot_id": bot } },
            ]))),
            (method, ["channels", channel, rest @ ..]) => {
                let channel = number(channel)?;
                self.channel(channel)?;
                self.in_channel(method, channel, rest, call)
            }
            ("POST", ["interactions", id, token, "callback"]) => {
                self.answer_interaction(number(id)?, token, call.body)
            }
            ("POST", ["webhooks", application, token]) if *application == bot => {
                let known = self.interactions.values().any(|known| known.token == *token);
                known.then_some(()).ok_or_else(|| Denial::new(404, 10015, "Unknown Webhook"))?;
                rules::message(call.body, 0)?;
                Ok(Some(json!({ "id": "1" })))
            }
            ("GET", ["applications", application, "commands"]) if *application == bot => {
                Ok(Some(self.commands.clone().into()))
            }
            ("PUT", ["applications", application, "commands"]) if *application == bot => {
                rules::commands(call.body)?;
                let commands = call.body.as_array().into_iter().flatten();
                self.commands = commands
                    .map(|command| {
                        let mut command = command.clone();
                        command["id"] = self.last_id.to_string().into();
                        command["application_id"] = bot.clone().into();
                        command["version"] = "1".into();
                        command["default_member_permissions"] = Value::Null;
                        command["nsfw"] = false.into();
                        command
                    })
                    .collect();
                Ok(Some(self.commands.clone().into()))
            }
            _ => Err(Denial::new(404, 0, "404: Not Found")),
        }
    }

    fn in_channel(
        &mut self,
        method: &str,
        channel: u64,
        path: &[&str],
        call: Call<'_>,
    ) -> Result<Option<Value>, Denial> {
        match (method, path) {
            ("POST", ["typing"]) => Ok(None),
            ("GET", ["messages"]) => self.list(channel, call.query).map(Some),
            ("POST", ["messages"]) => self.create(channel, call).map(Some),
            (method, ["messages", id, rest @ ..]) => {
                let id = number(id)?;
                let unknown = || Denial::new(404, 10008, "Unknown Message");
                let message = self.messages.get(&(channel, id)).cloned().ok_or_else(unknown)?;
                match (method, rest) {
                    ("GET", []) => Ok(Some(message)),
                    ("DELETE", []) => {
                        self.messages.remove(&(channel, id));
                        self.sent.retain(|sent| (sent.channel, sent.id) != (channel, id));
                        Ok(None)
                    }
                    ("PATCH", []) => self.edit(channel, id, call.body).map(Some),
                    ("POST", ["threads"]) => self.open_thread(channel, id, call.body).map(Some),
                    ("PUT", ["reactions", emoji, "@me"]) => {
                        let emoji = percent_decoded(emoji);
                        self.reactions.push((id, emoji));
                        Ok(None)
                    }
                    _ => Err(Denial::new(405, 0, "405: Method Not Allowed")),
                }
            }
            _ => Err(Denial::new(404, 0, "404: Not Found")),
        }
    }

    /// Newest first, as Discord gives them: those right after `after`, or right before `before`.
    fn list(&self, channel: u64, query: &HashMap<String, String>) -> Result<Value, Denial> {
        let known: BTreeSet<_> = ["after", "before", "limit"].into();
        if query.keys().any(|key| !known.contains(key.as_str())) {
            return Err(Denial::new(400, 50035, "Invalid Form Body"));
        }
        let number = |key: &str| query.get(key).map(|text| number(text)).transpose();
        let limit = number("limit")?.unwrap_or(50);
        if !(1..=100).contains(&limit) {
            return Err(Denial::new(400, 50035, "Invalid Form Body"));
        }
        let limit = usize::try_from(limit).unwrap();
        let (after, before) = (number("after")?, number("before")?);
        let here = self.messages.range((channel, 0)..=(channel, u64::MAX));
        let mut found: Vec<Value> = here
            .filter(|((_, id), _)| {
                after.is_none_or(|after| *id > after) && before.is_none_or(|before| *id < before)
            })
            .map(|(_, message)| message.clone())
            .collect();
        if after.is_some() {
            found.truncate(limit);
        } else {
            found.drain(..found.len().saturating_sub(limit));
        }
        found.reverse();
        Ok(found.into())
    }

    fn create(&mut self, channel: u64, call: Call<'_>) -> Result<Value, Denial> {
        let Call { body, files, .. } = call;
        rules::message(body, files.len())?;
        let nonce = body["nonce"].as_str().map(str::to_owned);
        let again = nonce.clone().filter(|_| body["enforce_nonce"] == true);
        if let Some(id) = again.and_then(|nonce| self.nonces.get(&(channel, nonce))) {
            return Ok(self.messages[&(channel, *id)].clone());
        }
        let reference = &body["message_reference"];
        let wanted = rules::snowflake(&reference["message_id"]);
        let reply_to = wanted.filter(|id| self.messages.contains_key(&(channel, *id)));
        if wanted.is_some() && reply_to.is_none() && reference["fail_if_not_exists"] != false {
            return Err(Denial::new(400, 50035, "Invalid Form Body: unknown message"));
        }
        let elsewhere =
            |id: &u64| self.messages.keys().any(|(other, known)| known == id && *other != channel);
        if wanted.as_ref().is_some_and(elsewhere) {
            return Err(Denial::new(400, 50035, "Invalid Form Body: reply in another channel"));
        }
        let id = self.next_id();
        let text = body["content"].as_str().unwrap_or_default().trim().to_owned();
        let mut message = message_json(id, channel, &self.bot, &text);
        if let Some(reply_to) = reply_to {
            message["type"] = 19.into();
            message["message_reference"] = json!({
                "message_id": reply_to.to_string(), "channel_id": channel.to_string(),
            });
            message["referenced_message"] = self.messages[&(channel, reply_to)].clone();
        }
        if let Some(components) = body.get("components") {
            message["components"] = components.clone();
        }
        let attachments = files.iter().map(|(name, bytes)| self.store_file(channel, name, bytes));
        message["attachments"] = attachments.collect::<Vec<_>>().into();
        for (name, bytes) in &files {
            self.files.insert(format!("/attachments/{channel}/{name}"), bytes.clone());
        }
        self.messages.insert((channel, id), message.clone());
        if let Some(nonce) = &nonce {
            self.nonces.insert((channel, nonce.clone()), id);
        }
        let buttons = buttons(body);
        self.sent.push(Sent { id, channel, reply_to, text, nonce, edits: 0, buttons, files });
        // What the bot says itself comes along, like everything else.
        let mut event = message.clone();
        if let Some(guild) = self.channels.get(&channel).and_then(|channel| channel.guild) {
            event["guild_id"] = guild.to_string().into();
        }
        self.sessions.dispatch("MESSAGE_CREATE", event);
        message["nonce"] = body["nonce"].clone();
        Ok(message)
    }

    /// What a message says of a file.
    pub(super) fn store_file(&self, channel: u64, name: &str, bytes: &[u8]) -> Value {
        json!({
            "id": "77", "filename": name, "size": bytes.len(), "content_type": "text/plain",
            "url": format!("{}/attachments/{channel}/{name}?ex=1&is=2&hm=3", self.cdn_url),
            "proxy_url": format!("{}/attachments/{channel}/{name}?ex=1&is=2&hm=3", self.cdn_url),
        })
    }

    fn edit(&mut self, channel: u64, id: u64, body: &Value) -> Result<Value, Denial> {
        rules::edit(body)?;
        let sent = self.sent.iter_mut().find(|sent| (sent.channel, sent.id) == (channel, id));
        let sent = sent.ok_or_else(|| {
            Denial::new(403, 50005, "Cannot edit a message authored by another user")
        })?;
        let text = body["content"].as_str().unwrap_or_default().trim().to_owned();
        sent.text = text.clone();
        sent.edits += 1;
        let message = self.messages.get_mut(&(channel, id)).unwrap();
        message["content"] = text.into();
        message["edited_timestamp"] = Utc::now().to_rfc3339().into();
        if let Some(components) = body.get("components") {
            message["components"] = components.clone();
            sent.buttons = buttons(body);
        }
        Ok(message.clone())
    }

    fn open_thread(&mut self, channel: u64, message: u64, body: &Value) -> Result<Value, Denial> {
        let name = rules::thread(body)?;
        let Channel { kind, guild, .. } = self.channels[&channel].clone();
        if !matches!(kind, 0 | 5) {
            return Err(Denial::new(400, 50024, "Cannot execute action on this channel type"));
        }
        if self.channels.contains_key(&message) {
            let words = "A thread has already been created for this message";
            return Err(Denial::new(400, 160_004, words));
        }
        let thread = Channel { kind: 11, guild, parent: Some(channel), name };
        self.channels.insert(message, thread.clone());
        Ok(thread.json(message))
    }

    fn answer_interaction(
        &mut self,
        id: u64,
        token: &str,
        body: &Value,
    ) -> Result<Option<Value>, Denial> {
        let kind = rules::callback(body)?;
        let late = id + (3000 << 22) < id_at(Utc::now());
        let known = self.interactions.get_mut(&id).filter(|known| known.token == token && !late);
        let known = known.ok_or_else(|| Denial::new(404, 10062, "Unknown interaction"))?;
        if known.answer.is_some() {
            let words = "Interaction has already been acknowledged.";
            return Err(Denial::new(400, 40060, words));
        }
        let text = body["data"]["content"].as_str().unwrap_or_default();
        known.answer = Some((kind, text.to_owned()));
        known.is_private = body["data"]["flags"].as_u64().is_some_and(|flags| flags & 64 != 0);
        Ok(None)
    }

    fn channel(&self, id: u64) -> Result<&Channel, Denial> {
        self.channels.get(&id).ok_or_else(|| Denial::new(404, 10003, "Unknown Channel"))
    }
}

impl Channel {
    fn json(&self, id: u64) -> Value {
        let mut channel = json!({ "id": id.to_string(), "type": self.kind, "flags": 0 });
        if let Some(guild) = self.guild {
            channel["guild_id"] = guild.to_string().into();
            channel["name"] = self.name.clone().into();
            channel["parent_id"] = self.parent.map(|parent| parent.to_string()).into();
        }
        channel
    }
}

fn number(text: &str) -> Result<u64, Denial> {
    text.parse().map_err(|_| Denial::new(400, 50035, "Invalid Form Body: not a snowflake"))
}

fn buttons(body: &Value) -> Vec<(String, String)> {
    let rows = body["components"].as_array().into_iter().flatten();
    let buttons = rows.flat_map(|row| row["components"].as_array().into_iter().flatten());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    buttons.map(|button| (text(&button["label"]), text(&button["custom_id"]))).collect()
}

fn percent_decoded(text: &str) -> String {
    url::form_urlencoded::parse(format!("x={text}").as_bytes())
        .next()
        .map(|(_, text)| text.into_owned())
        .unwrap_or_default()
}
