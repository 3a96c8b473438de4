//! The terminals of this machine. A client that reaches the control socket speaks as the owner. A chat is
//! a session's name. A message to a chat without a terminal waits in the outbox.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::listeners::Listeners;
use super::markup::unescaped;
use super::{
    Channel, ChannelError, Drafts, GIVE_UP_AFTER, Markup, PlatformLimits, SendLookup, Sent, Unit,
};
use crate::bus::Publisher;
use crate::people::LOCAL;
use crate::replies;
use crate::types::hex::random_hex;
use crate::types::message::{
    Address, Body, Cause, ChannelName, ChatId, ChatKind, DedupKey, Hint, Inbound, InboundContent,
    Outbound, Sender,
};

/// Maximum length of a message, in characters. A longer one is split.
const TEXT_CHARS_MAX: usize = 100_000;

/// Capacity of a terminal's queue, in messages.
const BEHIND_MAX: usize = 32;

/// Maximum number of typed lines that wait.
const TYPED_MAX: usize = 16;

/// Retry pause of a message whose chat has no terminal. A terminal that attaches shortens it.
const NOBODY_THERE: Duration = Duration::from_secs(3600);

/// Retry pause of a message whose terminal is attached but slow.
const BEHIND: Duration = Duration::from_secs(1);

/// Output for a terminal.
#[derive(Debug)]
pub enum TerminalOutput {
    /// The text so far.
    Draft(String),
    Message(TerminalMessage),
}

/// A whole message for a terminal.
#[derive(Debug)]
pub struct TerminalMessage {
    pub text: String,
    /// True for a question, whose answer the person types now.
    pub asks: bool,
    /// Notified once it is written.
    pub written: oneshot::Sender<()>,
}

/// A line that a person typed.
struct TypedLine {
    chat: ChatId,
    key: DedupKey,
    content: InboundContent,
    stored: oneshot::Sender<bool>,
}

pub struct Terminal {
    name: ChannelName,
    lines: mpsc::Sender<TypedLine>,
    /// Locked by `listen` for as long as it runs.
    typed: tokio::sync::Mutex<mpsc::Receiver<TypedLine>>,
    terminals: Listeners<TerminalOutput>,
}

impl Terminal {
    pub fn new(name: ChannelName) -> Self {
        let (lines, typed) = mpsc::channel(TYPED_MAX);
        let terminals = Listeners::new(BEHIND_MAX);
        Self { name, lines, typed: tokio::sync::Mutex::new(typed), terminals }
    }

    pub fn name(&self) -> &ChannelName {
        &self.name
    }

    /// Attaches a terminal to a chat. It is detached when the receiver is dropped.
    pub fn attach(&self, chat: &ChatId) -> mpsc::Receiver<TerminalOutput> {
        self.terminals.attach(chat)
    }

    /// Submits a typed line. Returns its key once it is stored, or none if it could not be.
    pub async fn submit(&self, chat: &ChatId, content: InboundContent) -> Option<DedupKey> {
        let key = DedupKey::from(format!("{}:{}", self.name, random_hex::<16>()));
        let (stored, was_stored) = oneshot::channel();
        let line = TypedLine { chat: chat.clone(), key: key.clone(), content, stored };
        self.lines.send(line).await.ok()?;
        was_stored.await.unwrap_or(false).then_some(key)
    }
}

#[async_trait]
impl Channel for Terminal {
    fn limits(&self) -> PlatformLimits {
        PlatformLimits {
            text_max: TEXT_CHARS_MAX,
            unit: Unit::Chars,
            caption_max: TEXT_CHARS_MAX,
            caption_previews: false,
            typing_every: None,
            ambiguity_pause: Duration::from_secs(1),
            give_up_after: GIVE_UP_AFTER,
            drafts: Drafts::Hinted { every: Duration::from_millis(40) },
            markup: Markup::Terminal,
            file_max: 0,
            messages_max: usize::MAX,
            reacts: false,
            replies: false,
        }
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        let mut typed = self.typed.lock().await;
        publisher.link_up("control socket".to_owned());
        while let Some(TypedLine { chat, key, content, stored }) = typed.recv().await {
            let from = Address { channel: self.name.clone(), chat, thread: None };
            let sender = Sender::person(LOCAL, "owner");
            let inbound = Inbound {
                key,
                at: Utc::now(),
                from,
                chat_kind: ChatKind::Private,
                within: Vec::new(),
                cause: Cause::Person(sender),
                id: None,
                body: content,
            };
            let published = publisher.publish(inbound).await;
            stored.send(published.is_ok()).ok();
        }
        Ok(())
    }

    async fn send(&self, message: &Outbound) -> Result<Sent, ChannelError> {
        let text = shown_text(&message.body);
        let (mut shown, mut behind) = (false, false);
        for terminal in self.terminals.of(&message.to.chat) {
            let (written, is_written) = oneshot::channel();
            let asks = matches!(message.body, Body::Choice(_));
            let whole = TerminalMessage { text: text.clone(), asks, written };
            match terminal.try_send(TerminalOutput::Message(whole)) {
                Ok(()) => shown |= is_written.await.is_ok(),
                Err(error) => behind |= matches!(error, TrySendError::Full(_)),
            }
        }
        let (after, reason) = match (shown, behind) {
            (true, _) => return Ok(Sent { id: None }),
            (false, true) => (BEHIND, "the terminal is slow"),
            (false, false) => (NOBODY_THERE, "nobody sits at this terminal"),
        };
        Err(ChannelError::Unavailable { after: Some(after), reason: reason.to_owned() })
    }

    async fn hint(&self, to: &Address, hint: Hint) -> Result<(), ChannelError> {
        if let Hint::Draft(text) = hint {
            // A trailing backslash may be half of an escape.
            let text = unescaped(text.trim_end_matches('\\'));
            for terminal in self.terminals.of(&to.chat) {
                // Half of the queue is reserved for messages.
                if terminal.capacity() > BEHIND_MAX / 2 {
                    terminal.try_send(TerminalOutput::Draft(text.clone())).ok();
                }
            }
        }
        Ok(())
    }

    async fn find(&self, _: &Outbound, _: DateTime<Utc>) -> Result<SendLookup, ChannelError> {
        Ok(SendLookup::Unknowable)
    }
}

/// Returns the text to show. A question lists the answers that can be typed.
fn shown_text(body: &Body) -> String {
    match body {
        Body::Choice(question) => {
            let choices = question.choices.iter().map(|choice| (&choice.label, &choice.says));
            replies::question_with_choices(&question.text, choices)
        }
        Body::Text(_) | Body::Printed(_) | Body::File(_) => body.text().to_owned(),
    }
}
