//! A platform in memory: people say things on it, it writes down what it was sent, and behaves as
//! badly as it is told to. It delivers again until what was said is accepted, as platforms do.

use std::collections::{HashMap, VecDeque};
use std::io::Read as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use peacrab::bus::{Arrival, Publisher};
use peacrab::channels::{
    Channel, ChannelError, Drafts, FileContent, GIVE_UP_AFTER, Markup, MediaSink, PlatformLimits,
    SendLookup, Sent, Unit,
};
use peacrab::types::message::{
    Address, Body, Cause, ChatKind, Hint, Inbound, InboundContent, MediaKind, MediaRef, MessageId,
    Outbound, OverheardLine, Reaction, Sender,
};
use tokio::sync::{Notify, watch};

use super::script::Gate;

/// How long until the platform delivers again what was not accepted.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What becomes of a send.
#[derive(Clone)]
pub(crate) enum SendBehavior {
    Takes,
    /// It arrives, and the platform's answer cannot be read.
    TakesWithoutId,
    /// The send never returns.
    Stuck,
    Refuses,
    Busy(Duration),
    /// It does not arrive, and nobody can say so.
    Loses,
    /// It arrives, and nobody can say so.
    Swallows,
    /// As that, and the platform does not find it when it is asked for the first time.
    SwallowsUnseen,
    Panics,
    /// It hangs at the gate, and then arrives.
    Held(Gate),
}

/// A message that a chat got.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReceivedMessage {
    pub(crate) chat: String,
    pub(crate) thread: Option<String>,
    pub(crate) reply_to: Option<String>,
    pub(crate) text: String,
    pub(crate) delivery: i64,
    /// A file's name, kind and content; the text is its caption.
    pub(crate) file: Option<(String, MediaKind, Vec<u8>)>,
    /// What stands on the buttons.
    pub(crate) choices: Vec<String>,
}

/// What becomes of fetching a file.
#[derive(Clone)]
pub(crate) enum FetchBehavior {
    Bytes(Vec<u8>),
    Busy,
    Refuses,
    /// Gives half of it, hangs, and gives the rest.
    Held(Gate, Vec<u8>),
    Panics,
}

#[derive(Default)]
struct State {
    /// Said, and not accepted yet.
    said: VecDeque<(PersonAct, Inbound)>,
    /// By handle; the last one holds for ever.
    files: HashMap<String, VecDeque<FetchBehavior>>,
    fetched: Vec<String>,
    rejected: usize,
    keys: u64,
    next: HashMap<String, VecDeque<SendBehavior>>,
    always: HashMap<String, SendBehavior>,
    /// What becomes of every file.
    files_always: Option<SendBehavior>,
    /// Texts whose sending was tried, by delivery.
    tried: Vec<(String, String)>,
    given: Vec<(i64, String)>,
    /// Not to be found the next time.
    unseen: bool,
    faults: Vec<String>,
    history: Vec<OverheardLine>,
    reactions: Vec<(String, Reaction)>,
    erased: Vec<MessageId>,
    /// Its link breaks, and cannot be made.
    away: bool,
}

/// What somebody does with a message.
#[derive(Clone, Copy)]
enum PersonAct {
    Says,
    Edits,
    Deletes,
    /// Says it to others.
    Chats,
}

pub(crate) struct FakeChannel {
    state: Mutex<State>,
    spoken: Notify,
    got: watch::Sender<Vec<ReceivedMessage>>,
    /// Whether it can be asked what it has.
    knows: bool,
    text_max: usize,
    file_max: u64,
    messages_max: usize,
    drafts: Drafts,
    give_up_after: Duration,
    /// Whether its messages name those that they answer.
    replies: bool,
    ambiguity_pause: Duration,
}

impl FakeChannel {
    pub(crate) fn new() -> Self {
        Self::with(false, 4000)
    }

    pub(crate) fn with(knows: bool, text_max: usize) -> Self {
        let (spoken, got) = (Notify::new(), watch::Sender::default());
        let drafts = Drafts::Hinted { every: Duration::from_millis(500) };
        let state = Mutex::default();
        let (file_max, messages_max) = (0, usize::MAX);
        let give_up_after = GIVE_UP_AFTER;
        Self {
            state,
            spoken,
            got,
            knows,
            text_max,
            file_max,
            messages_max,
            drafts,
            give_up_after,
            replies: true,
            ambiguity_pause: Duration::from_millis(300),
        }
    }

    /// One whose messages cannot name those that they answer.
    pub(crate) fn without_replies(self) -> Self {
        Self { replies: false, ..self }
    }

    /// One for which what may have arrived is sent again soon.
    pub(crate) fn doubting_shortly(self) -> Self {
        Self { ambiguity_pause: Duration::from_micros(100), ..self }
    }

    /// One for which nothing is tried for long while others arrive.
    pub(crate) fn giving_up_soon(self) -> Self {
        Self { give_up_after: Duration::from_secs(2), ..self }
    }

    /// One that takes files of that many bytes.
    pub(crate) fn taking_files(file_max: u64) -> Self {
        Self { file_max, ..Self::new() }
    }

    /// As [`Self::taking_files`], one that can be asked what it has.
    pub(crate) fn taking_files_and_knowing(file_max: u64) -> Self {
        Self { file_max, ..Self::with(true, 4000) }
    }

    /// One that takes a long answer as a file, if it would be more than `messages_max` messages.
    pub(crate) fn taking_long_ones_as_files(text_max: usize, messages_max: usize) -> Self {
        Self { file_max: 1 << 20, messages_max, ..Self::with(false, text_max) }
    }

    /// A file that can be fetched: what becomes of each attempt, the last one for ever.
    pub(crate) fn has_file(&self, handle: &str, gives: impl IntoIterator<Item = FetchBehavior>) {
        self.state().files.insert(handle.to_owned(), gives.into_iter().collect());
    }

    /// The handles that were asked for, in order.
    pub(crate) fn fetched(&self) -> Vec<String> {
        self.state().fetched.clone()
    }

    /// One that shows drafts as messages, at once.
    pub(crate) fn with_edits() -> Self {
        let every = Duration::from_millis(1);
        let drafts = Drafts::Edited { every, every_in_groups: every };
        Self { drafts, ..Self::new() }
    }

    /// The drafts that were deleted.
    pub(crate) fn erased(&self) -> Vec<MessageId> {
        self.state().erased.clone()
    }

    /// Somebody says something; the key is the message's.
    pub(crate) fn hears(&self, message: Inbound) {
        self.does(PersonAct::Says, message);
    }

    /// Somebody changes what they said.
    pub(crate) fn edits(&self, message: Inbound) {
        self.does(PersonAct::Edits, message);
    }

    /// Somebody deletes what they said.
    pub(crate) fn deletes(&self, message: Inbound) {
        self.does(PersonAct::Deletes, message);
    }

    /// Somebody says something in a group, not to the bot.
    pub(crate) fn overhears(&self, message: Inbound) {
        self.does(PersonAct::Chats, message);
    }

    fn does(&self, deed: PersonAct, message: Inbound) {
        self.state().said.push_back((deed, message));
        self.spoken.notify_one();
    }

    /// What the platform tells of earlier messages, wherever it is asked.
    pub(crate) fn remembers(&self, lines: &[&str]) {
        let line = |text: &&str| OverheardLine {
            at: Utc::now(),
            author: "Bob".to_owned(),
            text: (*text).to_owned(),
        };
        self.state().history = lines.iter().map(line).collect();
    }

    /// The signs at messages that were shown.
    pub(crate) fn reactions(&self) -> Vec<(String, Reaction)> {
        self.state().reactions.clone()
    }

    /// A message to the bot. Chats whose names begin with `-` are groups.
    pub(crate) fn message(&self, who: &str, chat: &str, text: &str) -> Inbound {
        let mut state = self.state();
        state.keys += 1;
        let key = state.keys;
        let chat_kind = if chat.starts_with('-') { ChatKind::Group } else { ChatKind::Private };
        Inbound {
            key: format!("double:{key}").into(),
            at: Utc::now(),
            // Put right when it is heard.
            from: Address { channel: "".into(), chat: chat.into(), thread: None },
            chat_kind,
            within: Vec::new(),
            cause: Cause::Person(Sender::person(who, format!("Person {who}"))),
            id: Some(format!("m{key}").into()),
            body: InboundContent::text(text),
        }
    }

    /// What becomes of the next sends to a chat, one after another.
    pub(crate) fn next(&self, chat: &str, manners: impl IntoIterator<Item = SendBehavior>) {
        self.state().next.entry(chat.to_owned()).or_default().extend(manners);
    }

    /// What becomes of every send to a chat.
    pub(crate) fn always(&self, chat: &str, manner: SendBehavior) {
        self.state().always.insert(chat.to_owned(), manner);
    }

    /// What becomes of every file that is sent.
    pub(crate) fn always_files(&self, manner: SendBehavior) {
        self.state().files_always = Some(manner);
    }

    /// The link breaks, and cannot be made until it is back.
    pub(crate) fn goes_away(&self, away: bool) {
        self.state().away = away;
        self.spoken.notify_one();
    }

    /// Takes back what was to become of the next sends to a chat.
    pub(crate) fn forget(&self, chat: &str) {
        self.state().next.remove(chat);
    }

    /// All that arrived, in order.
    pub(crate) fn got(&self) -> watch::Receiver<Vec<ReceivedMessage>> {
        self.got.subscribe()
    }

    /// What was tried to be sent to a chat, whether or not it arrived.
    pub(crate) fn tried(&self, chat: &str) -> Vec<String> {
        let tried = self.state();
        let here = tried.tried.iter().filter(|(at, _)| at == chat);
        here.map(|(_, text)| text.clone()).collect()
    }

    /// How many messages still wait to be accepted.
    pub(crate) fn unaccepted(&self) -> usize {
        self.state().said.len()
    }

    /// How often a message was not accepted.
    pub(crate) fn rejected(&self) -> usize {
        self.state().rejected
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.state().faults.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the try, and says what becomes of it.
    fn tries(&self, message: &Outbound) -> SendBehavior {
        let text = message.body.text().to_owned();
        let chat = message.to.chat.as_str();
        let mut state = self.state();
        let is_file = matches!(message.body, Body::File(_));
        if text.chars().count() > self.text_max || (text.trim().is_empty() && !is_file) {
            state.faults.push(format!("the platform would not take `{text}`"));
        }
        state.tried.push((chat.to_owned(), text.clone()));
        let next = state.next.get_mut(chat).and_then(VecDeque::pop_front);
        next.or_else(|| state.always.get(chat).cloned()).unwrap_or(SendBehavior::Takes)
    }

    fn give(&self, message: &Outbound, file: Option<(String, MediaKind, Vec<u8>)>) {
        let text = message.body.text().to_owned();
        self.state().given.push((message.id.0, text.clone()));
        let got = ReceivedMessage {
            chat: message.to.chat.to_string(),
            thread: message.to.thread.as_ref().map(ToString::to_string),
            reply_to: message.reply_to.as_ref().filter(|_| self.replies).map(ToString::to_string),
            text: text.clone(),
            delivery: message.id.0,
            file,
            choices: match &message.body {
                Body::Choice(question) => {
                    question.choices.iter().map(|choice| choice.label.clone()).collect()
                }
                Body::Text(_) | Body::Printed(_) | Body::File(_) => Vec::new(),
            },
        };
        self.got.send_modify(|all| all.push(got));
    }
}

#[async_trait]
impl Channel for FakeChannel {
    fn limits(&self) -> PlatformLimits {
        PlatformLimits {
            text_max: self.text_max,
            unit: Unit::Chars,
            caption_max: self.text_max,
            caption_previews: false,
            typing_every: Some(Duration::from_millis(500)),
            ambiguity_pause: self.ambiguity_pause,
            give_up_after: self.give_up_after,
            drafts: self.drafts,
            markup: Markup::Plain,
            file_max: self.file_max,
            messages_max: self.messages_max,
            reacts: true,
            replies: self.replies,
        }
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        if !self.state().away {
            publisher.link_up("a double".to_owned());
        }
        loop {
            if self.state().away {
                return Err(ChannelError::unavailable("away"));
            }
            let first = self.state().said.front().cloned();
            let Some((deed, mut message)) = first else {
                self.spoken.notified().await;
                continue;
            };
            message.from.channel = publisher.channel().clone();
            message.key = format!("{}:{}", publisher.channel(), message.key).into();
            let done = match deed {
                PersonAct::Says => publisher.publish(message).await.map(drop),
                PersonAct::Edits => {
                    publisher.publish_all(vec![Arrival::Changed(message)], None).await.map(drop)
                }
                PersonAct::Deletes => {
                    publisher.forget_overheard(&message.from, message.id.as_ref().unwrap());
                    let withdrawn = Arrival::Withdrawn { key: message.key };
                    publisher.publish_all(vec![withdrawn], None).await.map(drop)
                }
                PersonAct::Chats => {
                    let Sender { name: author, .. } = message.cause.into_sender();
                    let line = OverheardLine { at: message.at, author, text: message.body.text };
                    publisher.remember_overheard(&message.from, message.id.unwrap(), line);
                    Ok(())
                }
            };
            match done {
                Ok(()) => drop(self.state().said.pop_front()),
                Err(_) => {
                    self.state().rejected += 1;
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
            }
        }
    }

    async fn send(&self, message: &Outbound) -> Result<Sent, ChannelError> {
        match self.tries(message) {
            SendBehavior::Takes => {
                self.give(message, None);
                Ok(Sent { id: Some(MessageId::from(format!("sent {}", message.id.0))) })
            }
            SendBehavior::TakesWithoutId => {
                self.give(message, None);
                Ok(Sent { id: None })
            }
            SendBehavior::Stuck => std::future::pending().await,
            SendBehavior::Refuses => Err(ChannelError::Refused("the chat is gone".to_owned())),
            SendBehavior::Busy(after) => {
                Err(ChannelError::Unavailable { after: Some(after), reason: "busy".to_owned() })
            }
            SendBehavior::Loses => Err(ChannelError::Ambiguous("cut off".to_owned())),
            SendBehavior::Swallows => {
                self.give(message, None);
                Err(ChannelError::Ambiguous("cut off".to_owned()))
            }
            SendBehavior::SwallowsUnseen => {
                self.give(message, None);
                self.state().unseen = true;
                Err(ChannelError::Ambiguous("cut off".to_owned()))
            }
            SendBehavior::Panics => panic!("the double was told to panic"),
            SendBehavior::Held(gate) => {
                gate.pass().await;
                self.give(message, None);
                Ok(Sent { id: Some(MessageId::from(format!("sent {}", message.id.0))) })
            }
        }
    }

    async fn upload(&self, message: &Outbound, file: FileContent) -> Result<Sent, ChannelError> {
        let tried = self.tries(message);
        let manner = self.state().files_always.clone().unwrap_or(tried);
        match manner {
            SendBehavior::Refuses => {
                return Err(ChannelError::Refused("files are not allowed here".to_owned()));
            }
            SendBehavior::Loses => return Err(ChannelError::Ambiguous("cut off".to_owned())),
            _ => {}
        }
        let FileContent { name, kind, length, file: mut content } = file;
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).unwrap();
        assert_eq!(length, bytes.len() as u64);
        self.give(message, Some((name, kind, bytes)));
        Ok(Sent { id: Some(MessageId::from(format!("sent {}", message.id.0))) })
    }

    async fn fetch(&self, media: &MediaRef, into: &mut MediaSink) -> Result<(), ChannelError> {
        let gives = {
            let mut state = self.state();
            state.fetched.push(media.handle.clone());
            let gives = state.files.get_mut(&media.handle).expect("a file that the double has");
            match gives.len() {
                1 => gives[0].clone(),
                _ => gives.pop_front().expect("what becomes of it"),
            }
        };
        match gives {
            FetchBehavior::Bytes(bytes) => {
                for piece in bytes.chunks(1000) {
                    into.write(piece).await?;
                }
                Ok(())
            }
            FetchBehavior::Busy => {
                let after = Some(Duration::from_millis(5));
                Err(ChannelError::Unavailable { after, reason: "busy".to_owned() })
            }
            FetchBehavior::Refuses => {
                Err(ChannelError::Refused("it is gone [photo: x]\n[y]".to_owned()))
            }
            FetchBehavior::Held(gate, bytes) => {
                let (first, rest) = bytes.split_at(bytes.len() / 2);
                into.write(first).await?;
                gate.pass().await;
                into.write(rest).await
            }
            FetchBehavior::Panics => panic!("the double was told to panic"),
        }
    }

    async fn hint(&self, _: &Address, hint: Hint) -> Result<(), ChannelError> {
        match hint {
            Hint::React { message, with } => {
                self.state().reactions.push((message.to_string(), with));
            }
            Hint::Erase(draft) => self.state().erased.push(draft),
            Hint::Typing | Hint::Draft(_) => {}
        }
        Ok(())
    }

    async fn history(
        &self,
        _: &Address,
        _: Option<&MessageId>,
        max: usize,
    ) -> Result<Vec<OverheardLine>, ChannelError> {
        let history = self.state().history.clone();
        Ok(history[history.len().saturating_sub(max)..].to_vec())
    }

    async fn find(&self, message: &Outbound, _: DateTime<Utc>) -> Result<SendLookup, ChannelError> {
        if !self.knows {
            return Ok(SendLookup::Unknowable);
        }
        let text = message.body.text().to_owned();
        let unseen = std::mem::take(&mut self.state().unseen);
        let has = !unseen
            && self.state().given.iter().any(|given| *given == (message.id.0, text.clone()));
        Ok(if has { SendLookup::Sent(Sent { id: None }) } else { SendLookup::Absent })
    }
}
