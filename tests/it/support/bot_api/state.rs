//! What the stand-in knows, and what each call does to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value, json};

use super::line::{Line, chat_json};
use super::{BOT_NAME, Fault};

pub(super) const TOKEN: &str = "4242:AAAA-this-is-a-token-of-the-right-length";
pub(super) const ANOTHER_TOKEN: &str = "4343:BBBB-this-is-a-token-of-the-right-length";

/// Bot API, sendMessage; in UTF-16 units.
const TEXT_MAX: usize = 4096;

/// A message of the bot as people see it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) id: i64,
    pub(crate) chat: i64,
    pub(crate) thread: Option<i64>,
    pub(crate) reply_to: Option<i64>,
    pub(crate) text: String,
    pub(crate) edits: usize,
}

/// A call that was well-formed.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) body: Value,
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

    fn bad(description: &str) -> Self {
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
    /// By update id; a poll's offset removes those below it.
    pub(super) pending: BTreeMap<i64, Value>,
    pub(super) next_update: i64,
    /// Counts polls, so that the latest one wins.
    pub(super) poll: u64,
    pub(super) sent: Vec<Sent>,
    pub(super) received: Vec<Request>,
    pub(super) faults: VecDeque<(&'static str, Fault)>,
    pub(super) invents: bool,
    next_message: i64,
    chats: BTreeSet<i64>,
    topics: BTreeSet<(i64, i64)>,
    /// Everybody's messages, by chat and id.
    messages: BTreeMap<(i64, i64), Value>,
}

impl State {
    pub(super) fn new(bot: u64) -> Self {
        Self {
            bot,
            pending: BTreeMap::new(),
            next_update: 900,
            poll: 0,
            sent: Vec::new(),
            received: Vec::new(),
            faults: VecDeque::new(),
            invents: false,
            next_message: 10,
            chats: BTreeSet::new(),
            topics: BTreeSet::new(),
            messages: BTreeMap::new(),
        }
    }

    pub(super) fn say(&mut self, line: &Line) -> i64 {
        let id = self.next_id();
        let replied = line.reply_to.and_then(|id| self.messages.get(&(line.chat, id)).cloned());
        let message = line.json(id, replied);
        self.chats.insert(line.chat);
        self.topics.extend(line.topic.map(|topic| (line.chat, topic)));
        self.messages.insert((line.chat, id), message.clone());
        self.push(json!({ "message": message }));
        id
    }

    pub(super) fn push(&mut self, mut update: Value) {
        let id = self.next_update;
        self.next_update += 1;
        if self.invents {
            invent(&mut update);
        }
        let mut whole = json!({ "update_id": id });
        let fields = update.as_object().cloned().unwrap_or_default();
        whole.as_object_mut().unwrap().extend(fields);
        self.pending.insert(id, whole);
    }

    /// Notes a call, and says what is to go wrong with it.
    pub(super) fn receive(&mut self, method: &'static str, body: Value) -> Option<Fault> {
        self.received.push(Request { method, body });
        let at = self.faults.iter().position(|(failing, _)| *failing == method)?;
        self.faults.remove(at).map(|(_, fault)| fault)
    }

    pub(super) fn begin_poll(&mut self, offset: Option<i64>) -> u64 {
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
    ) -> Result<Value, Denial> {
        match method {
            "getMe" => Ok(me(self.bot)),
            "sendMessage" => self.send(parameters),
            "editMessageText" => self.edit(parameters),
            "sendChatAction" => {
                self.place(parameters)?;
                Ok(true.into())
            }
            _ => Ok(true.into()),
        }
    }

    fn send(&mut self, parameters: &Map<String, Value>) -> Result<Value, Denial> {
        let text = text(parameters, "message is too long")?;
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
            "date": 1_700_000_000 + id, "text": text,
        });
        if let Some(thread) = thread {
            message["message_thread_id"] = thread.into();
            message["is_topic_message"] = true.into();
        }
        self.messages.insert((chat, id), message.clone());
        self.sent.push(Sent { id, chat, thread, reply_to, text, edits: 0 });
        Ok(message)
    }

    fn edit(&mut self, parameters: &Map<String, Value>) -> Result<Value, Denial> {
        let text = text(parameters, "MESSAGE_TOO_LONG")?;
        let (chat, _) = self.place(parameters)?;
        let id = parameters["message_id"].as_i64().unwrap_or_default();
        let Some(message) = self.messages.get_mut(&(chat, id)) else {
            return Err(Denial::bad("message to edit not found"));
        };
        let Some(sent) = self.sent.iter_mut().find(|sent| (sent.chat, sent.id) == (chat, id))
        else {
            return Err(Denial::bad("message can't be edited"));
        };
        if sent.text == text {
            return Err(Denial::bad(
                "message is not modified: specified new message content and reply markup are \
                 exactly the same as a current content and reply markup of the message",
            ));
        }
        message["text"] = text.clone().into();
        sent.text = text;
        sent.edits += 1;
        Ok(message.clone())
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

/// The text as Telegram takes it: trimmed, not empty, not too long.
fn text(parameters: &Map<String, Value>, too_long: &str) -> Result<String, Denial> {
    let text = parameters["text"].as_str().unwrap_or_default().trim();
    if text.is_empty() {
        return Err(Denial::bad("message text is empty"));
    }
    if text.encode_utf16().count() > TEXT_MAX {
        return Err(Denial::bad(too_long));
    }
    Ok(text.to_owned())
}

fn bot(id: u64) -> Value {
    json!({ "id": id, "is_bot": true, "first_name": "Peacrab", "username": BOT_NAME })
}

fn me(id: u64) -> Value {
    let mut me = bot(id);
    let abilities = [
        ("can_join_groups", true),
        ("can_read_all_group_messages", false),
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
