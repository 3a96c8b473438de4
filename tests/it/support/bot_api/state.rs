//! What the stand-in knows, and what each call does to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use serde_json::{Map, Value, json};

use super::super::watched::{Calls, DebugState};
use super::super::wire::{HangingCalls, Upload};
use super::files::{self, SentFile};
use super::line::{Line, Person, chat_json};
use super::{BOT_NAME, Fault, html};

pub(crate) const TOKEN: &str = "4242:AAAA-this-is-a-token-of-the-right-length";
pub(crate) const ANOTHER_TOKEN: &str = "4343:BBBB-this-is-a-token-of-the-right-length";

/// Bot API, sendMessage; in UTF-16 units.
const TEXT_MAX: usize = 4096;

/// Bot API, sendPhoto and its like; in UTF-16 units.
const CAPTION_MAX: usize = 1024;

/// Bot API, InlineKeyboardButton; in bytes.
const BUTTON_DATA_MAX: usize = 64;

/// Bot API, answerCallbackQuery; in characters.
const NOTICE_MAX: usize = 200;

/// A message of the bot as people see it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) id: i64,
    pub(crate) chat: i64,
    pub(crate) thread: Option<i64>,
    pub(crate) reply_to: Option<i64>,
    /// As people see it: without markup.
    pub(crate) text: String,
    /// As it came, if it came as HTML.
    pub(crate) html: Option<String>,
    /// What stands on each button of each row.
    pub(crate) buttons: Vec<Vec<String>>,
    pub(crate) file: Option<SentFile>,
    pub(crate) edits: usize,
}

impl Sent {
    /// With its markup, as the store has it.
    pub(crate) fn as_it_came(&self) -> &str {
        self.html.as_deref().unwrap_or(&self.text)
    }
}

#[derive(Debug)]
pub(super) struct Denial {
    pub(super) code: u16,
    pub(super) description: String,
    pub(super) parameters: Option<Value>,
}

impl Denial {
    pub(super) fn new(code: u16, description: &str) -> Self {
        Self { code, description: description.to_owned(), parameters: None }
    }

    pub(super) fn bad(description: &str) -> Self {
        Self::new(400, &format!("Bad Request: {description}"))
    }

    pub(super) fn too_many(after: u64) -> Self {
        let description = format!("Too Many Requests: retry after {after}");
        Self { parameters: Some(json!({ "retry_after": after })), ..Self::new(429, &description) }
    }
}

pub(super) struct State {
    /// Its id.
    bot: u64,
    pub(super) token: &'static str,
    /// By update id; a poll's offset removes those below it.
    pub(super) pending: BTreeMap<i64, Value>,
    pub(super) next_update: i64,
    /// Counts polls, so that the latest one wins.
    pub(super) poll: u64,
    pub(super) sent: Vec<Sent>,
    pub(super) calls: Calls<Fault>,
    pub(super) hanging: HangingCalls,
    pub(super) invents: bool,
    /// The kinds of updates that the bot asked for.
    allowed: Vec<String>,
    /// By file id.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// Whether files are promised and never come.
    pub(super) files_hang: bool,
    /// Presses that nobody has answered yet.
    queries: BTreeSet<String>,
    /// What the bot said to who pressed, in order.
    answers: Vec<(String, Option<String>)>,
    pub(super) commands: Value,
    /// Whether BotFather was told to show the bot all that is said in groups.
    pub(super) sees_groups: bool,
    /// The address that gets the updates in the poller's place; empty: none.
    pub(super) webhook: String,
    /// The emoji that the bot put at messages, by chat and id.
    pub(super) reactions: BTreeMap<(i64, i64), String>,
    /// Whether no token is accepted any more.
    pub(super) is_revoked: bool,
    /// The last update, without its id.
    last: Value,
    next_message: i64,
    pub(super) chats: BTreeSet<i64>,
    topics: BTreeSet<(i64, i64)>,
    /// Everybody's messages, by chat and id.
    messages: BTreeMap<(i64, i64), Value>,
}

impl DebugState for State {
    fn debug_state(&self) -> Vec<&dyn Debug> {
        vec![&self.sent, &self.calls]
    }
}

impl State {
    pub(super) fn new(bot: u64, token: &'static str) -> Self {
        Self {
            bot,
            token,
            pending: BTreeMap::new(),
            next_update: 900,
            poll: 0,
            sent: Vec::new(),
            calls: Calls::default(),
            hanging: HangingCalls::default(),
            invents: false,
            allowed: Vec::new(),
            files: BTreeMap::new(),
            files_hang: false,
            queries: BTreeSet::new(),
            answers: Vec::new(),
            commands: json!([]),
            sees_groups: false,
            webhook: String::new(),
            reactions: BTreeMap::new(),
            is_revoked: false,
            last: Value::Null,
            next_message: 10,
            chats: BTreeSet::new(),
            topics: BTreeSet::new(),
            messages: BTreeMap::new(),
        }
    }

    pub(super) fn say(&mut self, line: &Line) -> i64 {
        let (id, message) = self.keep(line);
        self.push(json!({ "message": message }));
        id
    }

    pub(super) fn keep(&mut self, line: &Line) -> (i64, Value) {
        let id = self.next_id();
        let replied = line.reply_to.and_then(|id| self.messages.get(&(line.chat, id)).cloned());
        let message = line.json(id, replied);
        self.chats.insert(line.chat);
        self.topics.extend(line.topic.map(|topic| (line.chat, topic)));
        self.messages.insert((line.chat, id), message.clone());
        (id, message)
    }

    /// Somebody changes what they said.
    pub(super) fn edit_line(&mut self, id: i64, line: &Line) {
        let mut message = line.json(id, None);
        let date = message["date"].as_i64().unwrap_or_default();
        if message["edit_date"].is_null() {
            message["edit_date"] = (date + 60).into();
        }
        assert!(
            self.messages.insert((line.chat, id), message.clone()).is_some(),
            "no message {id}"
        );
        self.push(json!({ "edited_message": message }));
    }

    /// Somebody presses a button; gives the query's id. An old message is not shown to the bot.
    pub(super) fn press(&mut self, by: &Person, message: i64, label: &str, old: bool) -> String {
        let (shown, data) = self.button(message, label);
        let shown = if old {
            json!({ "message_id": message, "chat": shown["chat"], "date": 0 })
        } else {
            shown
        };
        self.query(by, &json!({ "data": data, "message": shown, "chat_instance": "1" }))
    }

    /// A message of the bot, and what a button under it says.
    pub(super) fn button(&self, message: i64, label: &str) -> (Value, Value) {
        let sent = self.sent.iter().find(|sent| sent.id == message).expect("no such message");
        let shown = self.messages[&(sent.chat, message)].clone();
        let rows = shown["reply_markup"]["inline_keyboard"].as_array().cloned();
        let buttons = rows
            .unwrap_or_default()
            .into_iter()
            .flat_map(|row| row.as_array().cloned().unwrap_or_default());
        let data = buttons.into_iter().find(|button| button["text"] == label);
        let data =
            data.unwrap_or_else(|| panic!("no button {label}: {shown}"))["callback_data"].clone();
        (shown, data)
    }

    pub(super) fn query(&mut self, by: &Person, fields: &Value) -> String {
        let id = format!("q{}", self.next_id());
        let mut query = json!({ "id": id, "from": by.json() });
        query.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.queries.insert(id.clone());
        self.push(json!({ "callback_query": query }));
        id
    }

    /// The updates that a poll gives: those of a kind that was not asked for stay away.
    pub(super) fn updates(&self, limit: usize) -> Vec<Value> {
        const KNOWN: [&str; 3] = ["message", "edited_message", "callback_query"];
        let kept_back = |update: &&Value| {
            let kind = KNOWN.into_iter().find(|kind| update.get(kind).is_some());
            kind.is_some_and(|kind| !self.allowed.iter().any(|allowed| allowed == kind))
        };
        self.pending.values().filter(|update| !kept_back(update)).take(limit).cloned().collect()
    }

    pub(super) fn repeat(&mut self) {
        self.push(self.last.clone());
    }

    pub(super) fn push(&mut self, mut update: Value) {
        let id = self.next_update;
        self.next_update += 1;
        self.last = update.clone();
        if self.invents {
            invent(&mut update);
        }
        let mut whole = json!({ "update_id": id });
        let fields = update.as_object().cloned().unwrap_or_default();
        whole.as_object_mut().unwrap().extend(fields);
        self.pending.insert(id, whole);
    }

    /// What the bot said to who pressed; none yet.
    pub(super) fn answer_to(&self, query: &str) -> Option<Option<String>> {
        self.answers.iter().find(|(id, _)| id == query).map(|(_, words)| words.clone())
    }

    pub(super) fn begin_poll(&mut self, parameters: &Map<String, Value>) -> u64 {
        if let Some(allowed) = parameters.get("allowed_updates") {
            self.allowed = serde_json::from_value(allowed.clone()).unwrap();
        }
        let offset = parameters.get("offset").and_then(Value::as_i64);
        if let Some(offset) = offset {
            self.pending.retain(|id, _| *id >= offset);
        }
        self.poll += 1;
        self.poll
    }

    pub(super) fn move_chat(&mut self, to: i64) -> Denial {
        self.chats.insert(to);
        Denial {
            parameters: Some(json!({ "migrate_to_chat_id": to })),
            ..Denial::bad("group chat was upgraded to a supergroup chat")
        }
    }

    pub(super) fn perform(
        &mut self,
        method: &str,
        parameters: &Map<String, Value>,
        file: Option<&Upload>,
    ) -> Result<Value, Denial> {
        if let Some(field) = files::field(method) {
            let file = files::check(field, file)?;
            return self.send(parameters, Some(file));
        }
        match method {
            "getMe" => Ok(me(self.bot, self.sees_groups)),
            "getWebhookInfo" => Ok(json!({
                "url": self.webhook, "has_custom_certificate": false, "pending_update_count": 0,
            })),
            "sendMessage" => self.send(parameters, None),
            "editMessageText" => self.edit(parameters),
            "deleteMessage" => self.delete(parameters),
            "sendChatAction" => {
                self.place(parameters)?;
                Ok(true.into())
            }
            "setMessageReaction" => self.react(parameters),
            "answerCallbackQuery" => self.answer(parameters),
            "getFile" => {
                let id = parameters["file_id"].as_str().unwrap_or_default();
                files::locate(id, self.files.get(id))
            }
            "getMyCommands" => Ok(self.commands.clone()),
            "setMyCommands" => {
                self.commands = parameters["commands"].clone();
                Ok(true.into())
            }
            _ => Ok(true.into()),
        }
    }

    fn send(
        &mut self,
        parameters: &Map<String, Value>,
        file: Option<SentFile>,
    ) -> Result<Value, Denial> {
        let text = match &file {
            None => text(parameters, "text", (TEXT_MAX, "message is too long"))?,
            Some(_) => text(parameters, "caption", (CAPTION_MAX, "message caption is too long"))?,
        };
        if text.is_empty() && file.is_none() {
            return Err(Denial::bad("message text is empty"));
        }
        let html = html_of(parameters, if file.is_some() { "caption" } else { "text" });
        let buttons = buttons(parameters)?;
        let (chat, thread) = self.place(parameters)?;
        let reply = parameters.get("reply_parameters");
        let wanted = reply.and_then(|reply| reply["message_id"].as_i64());
        let reply_to = wanted.filter(|id| self.messages.contains_key(&(chat, *id)));
        let may_fail = reply.is_some_and(|reply| reply["allow_sending_without_reply"] == true);
        if wanted.is_some() && reply_to.is_none() && !may_fail {
            return Err(Denial::bad("message to be replied not found"));
        }
        let id = self.next_id();
        let mut message = json!({
            "message_id": id, "from": bot(self.bot), "chat": chat_json(chat, "Somebody"),
            "date": 1_700_000_000 + id,
        });
        let words = if file.is_some() { "caption" } else { "text" };
        message[words] = text.clone().into();
        if let Some(thread) = thread {
            message["message_thread_id"] = thread.into();
            message["is_topic_message"] = true.into();
        }
        if let Some(markup) = parameters.get("reply_markup") {
            message["reply_markup"] = markup.clone();
        }
        self.messages.insert((chat, id), message.clone());
        self.sent.push(Sent { id, chat, thread, reply_to, text, html, buttons, file, edits: 0 });
        Ok(message)
    }

    fn edit(&mut self, parameters: &Map<String, Value>) -> Result<Value, Denial> {
        let text = text(parameters, "text", (TEXT_MAX, "MESSAGE_TOO_LONG"))?;
        if text.is_empty() {
            return Err(Denial::bad("message text is empty"));
        }
        let buttons = buttons(parameters)?;
        let (chat, _) = self.place(parameters)?;
        let id = parameters["message_id"].as_i64().unwrap_or_default();
        let Some(message) = self.messages.get_mut(&(chat, id)) else {
            return Err(Denial::bad("message to edit not found"));
        };
        let Some(sent) = self.sent.iter_mut().find(|sent| (sent.chat, sent.id) == (chat, id))
        else {
            return Err(Denial::bad("message can't be edited"));
        };
        if sent.file.is_some() {
            return Err(Denial::bad("there is no text in the message to edit"));
        }
        let html = html_of(parameters, "text");
        if (&sent.text, &sent.buttons, &sent.html) == (&text, &buttons, &html) {
            return Err(Denial::bad(
                "message is not modified: specified new message content and reply markup are \
                 exactly the same as a current content and reply markup of the message",
            ));
        }
        message["text"] = text.clone().into();
        message["reply_markup"] = parameters.get("reply_markup").cloned().unwrap_or_default();
        (sent.text, sent.html, sent.buttons) = (text, html, buttons);
        sent.edits += 1;
        Ok(message.clone())
    }

    fn delete(&mut self, parameters: &Map<String, Value>) -> Result<Value, Denial> {
        let (chat, _) = self.place(parameters)?;
        let id = parameters["message_id"].as_i64().unwrap_or_default();
        if self.messages.remove(&(chat, id)).is_none() {
            return Err(Denial::bad("message to delete not found"));
        }
        self.sent.retain(|sent| (sent.chat, sent.id) != (chat, id));
        Ok(true.into())
    }

    fn react(&mut self, parameters: &Map<String, Value>) -> Result<Value, Denial> {
        // Of the emoji that may be reactions, those that somebody might think of here.
        const ALLOWED: [&str; 6] = ["👀", "👌", "👍", "👎", "🔥", "✍"];
        let (chat, _) = self.place(parameters)?;
        let id = parameters["message_id"].as_i64().unwrap_or_default();
        if !self.messages.contains_key(&(chat, id)) {
            return Err(Denial::bad("message to react not found"));
        }
        let reactions = parameters.get("reaction").and_then(Value::as_array).cloned();
        let reactions = reactions.unwrap_or_default();
        let emoji = |reaction: &Value| reaction["emoji"].as_str().unwrap_or_default().to_owned();
        match &reactions[..] {
            [] => drop(self.reactions.remove(&(chat, id))),
            [one] if one["type"] == "emoji" && ALLOWED.contains(&emoji(one).as_str()) => {
                self.reactions.insert((chat, id), emoji(one));
            }
            [_] => return Err(Denial::bad("REACTION_INVALID")),
            _ => return Err(Denial::bad("REACTIONS_TOO_MANY")),
        }
        Ok(true.into())
    }

    fn answer(&mut self, parameters: &Map<String, Value>) -> Result<Value, Denial> {
        let id = parameters["callback_query_id"].as_str().unwrap_or_default().to_owned();
        if !self.queries.remove(&id) {
            return Err(Denial::bad(
                "query is too old and response timeout expired or query ID is invalid",
            ));
        }
        let text = parameters.get("text").and_then(Value::as_str).map(str::to_owned);
        if text.as_ref().is_some_and(|text| text.chars().count() > NOTICE_MAX) {
            return Err(Denial::bad("MESSAGE_TOO_LONG"));
        }
        self.answers.push((id, text));
        Ok(true.into())
    }

    fn place(&self, parameters: &Map<String, Value>) -> Result<(i64, Option<i64>), Denial> {
        let chat = parameters["chat_id"].as_i64().filter(|chat| self.chats.contains(chat));
        let chat = chat.ok_or_else(|| Denial::bad("chat not found"))?;
        let thread = parameters.get("message_thread_id").and_then(Value::as_i64);
        if thread.is_some_and(|thread| !self.topics.contains(&(chat, thread))) {
            return Err(Denial::bad("message thread not found"));
        }
        Ok((chat, thread))
    }

    fn next_id(&mut self) -> i64 {
        self.next_message += 1;
        self.next_message
    }
}

/// The text as Telegram takes it: read, trimmed, not too long.
fn text(
    parameters: &Map<String, Value>,
    name: &str,
    (max, too_long): (usize, &str),
) -> Result<String, Denial> {
    let text = parameters.get(name).and_then(Value::as_str).unwrap_or_default();
    let seen = match parameters.get("parse_mode").and_then(Value::as_str) {
        None => text.to_owned(),
        Some("HTML") => html::text(text).map_err(|why| Denial::new(400, &why))?,
        Some(_) => return Err(Denial::bad("unsupported parse_mode")),
    };
    if seen.trim().encode_utf16().count() > max {
        return Err(Denial::bad(too_long));
    }
    Ok(seen.trim().to_owned())
}

fn html_of(parameters: &Map<String, Value>, name: &str) -> Option<String> {
    parameters.get("parse_mode")?;
    parameters.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// What stands on the buttons, if they are as Telegram takes them.
fn buttons(parameters: &Map<String, Value>) -> Result<Vec<Vec<String>>, Denial> {
    let Some(markup) = parameters.get("reply_markup") else { return Ok(Vec::new()) };
    let invalid = || Denial::bad("can't parse reply keyboard markup JSON object");
    let rows = markup["inline_keyboard"].as_array().ok_or_else(invalid)?;
    let row = |row: &Value| row.as_array().ok_or_else(invalid)?.iter().map(label).collect();
    rows.iter().map(row).collect()
}

fn label(button: &Value) -> Result<String, Denial> {
    let text = button["text"].as_str().filter(|text| !text.trim().is_empty());
    let data = button["callback_data"].as_str().unwrap_or_default();
    if data.is_empty() || data.len() > BUTTON_DATA_MAX {
        return Err(Denial::bad("BUTTON_DATA_INVALID"));
    }
    text.map(str::to_owned)
        .ok_or_else(|| Denial::bad("text buttons are unallowed in the inline keyboard"))
}

fn bot(id: u64) -> Value {
    json!({ "id": id, "is_bot": true, "first_name": "Peacrab", "username": BOT_NAME })
}

fn me(id: u64, sees_groups: bool) -> Value {
    let mut me = bot(id);
    let abilities = [
        ("can_join_groups", true),
        ("can_read_all_group_messages", sees_groups),
        ("supports_inline_queries", false),
        ("can_connect_to_business", false),
        ("has_main_web_app", false),
    ];
    abilities.into_iter().for_each(|(ability, has)| me[ability] = has.into());
    me
}

/// Adds a field to every object.
fn invent(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.values_mut().for_each(invent);
            object.insert("field_of_next_year".to_owned(), json!({ "kind": ["new"] }));
        }
        Value::Array(items) => items.iter_mut().for_each(invent),
        _ => {}
    }
}
