//! Telegram, by long polling. What an update means to us is in [`inbound`]; what a failed call
//! means is in `call`. An update is confirmed by asking for the next one, and that only after
//! `publish` has returned: nothing else here talks to the platform about it.

mod call;
pub mod inbound;
pub mod offset;

use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use teloxide::payloads::{
    DeleteMessage, EditMessageText, GetMe, GetUpdates, SendChatAction, SendChatActionSetters,
    SendMessage, SendMessageSetters,
};
use teloxide::types::{
    AllowedUpdate, ChatAction, ChatId, MessageId as TelegramMessageId, ReplyParameters, ThreadId,
};

pub use super::config::TelegramConfig as Config;
use super::{Channel, ChannelError, Drafts, Found, Limits, Markup, Sent, Unit};
use crate::bus::{PublishError, Publisher};
use crate::message::{Address, Hint, MessageId, Outbound};

use call::{Api, CallError};
use inbound::{Identity, Reading};
use offset::Offset;

/// Telegram's limit, in UTF-16 units (Bot API, sendMessage).
const TEXT_MAX: usize = 4096;

/// A typing sign goes away after five seconds (Bot API, sendChatAction).
const TYPING_EVERY: Duration = Duration::from_secs(4);

/// A poll that ends sooner, with nothing, was not a long poll: something between us and Telegram
/// does not wait, and without a pause we would ask it thousands of times per second.
const EMPTY_POLL_MIN: Duration = Duration::from_secs(1);

/// How long to wait for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    pub connect: Duration,
    /// For a whole call but a poll.
    pub call: Duration,
    /// How long the server holds a poll open; whole seconds.
    pub poll: Duration,
    /// How much later than that its answer may come, before the link counts as dead.
    pub poll_grace: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            call: Duration::from_secs(20),
            // Below the 30 s after which some routers forget a silent connection.
            poll: Duration::from_secs(25),
            // A half-open socket is noticed in 40 s.
            poll_grace: Duration::from_secs(15),
        }
    }
}

/// Telegram's short troubles are over by then; a chunk is sent at most three times.
const DOUBT_PAUSE: Duration = Duration::from_secs(10);

/// Groups may be written to 20 times a minute (Bot API, "Broadcasting to Users").
const DRAFT_EVERY: Duration = Duration::from_secs(3);

/// One bot.
pub struct Telegram {
    api: Api,
    deadlines: Deadlines,
}

/// Of a sent message, all that we need; whatever else Telegram tells of it cannot then be
/// mistaken for a failure.
#[derive(Deserialize)]
struct Posted {
    message_id: i64,
}

/// An update before it is understood.
type RawUpdate = Value;

impl Telegram {
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        Self::with_deadlines(config, Deadlines::default())
    }

    pub fn with_deadlines(config: &Config, deadlines: Deadlines) -> anyhow::Result<Self> {
        Ok(Self { api: Api::new(config, &deadlines)?, deadlines })
    }

    async fn get_me(&self) -> Result<Identity, ChannelError> {
        let me = self.api.call(&GetMe::new(), self.deadlines.call).await;
        me.map_err(CallError::while_asking)
    }

    async fn poll(&self, offset: Option<i32>) -> Result<Vec<RawUpdate>, ChannelError> {
        let Deadlines { poll, poll_grace, .. } = self.deadlines;
        let ask = GetUpdates {
            offset,
            limit: None,
            timeout: u32::try_from(poll.as_secs()).ok(),
            allowed_updates: Some(vec![AllowedUpdate::Message]),
        };
        self.api.call(&ask, poll + poll_grace).await.map_err(CallError::while_asking)
    }

    async fn post(&self, to: Place, message: &Outbound, text: &str) -> Result<Sent, CallError> {
        let mut payload = SendMessage::new(to.chat, text);
        payload.message_thread_id = to.thread;
        // In private it is plain what is answered. Groups have negative ids.
        let asked = message.reply_to.as_ref().filter(|_| to.chat.0 < 0);
        if let Some(id) = asked.and_then(parse_message_id) {
            // The question may have been deleted meanwhile; its answer is still wanted.
            payload =
                payload.reply_parameters(ReplyParameters::new(id).allow_sending_without_reply());
        }
        match self.api.call::<_, Posted>(&payload, self.deadlines.call).await {
            Ok(posted) => Ok(Sent { id: Some(posted.message_id.to_string().into()) }),
            Err(CallError::Unreadable(reason)) => {
                tracing::warn!(%reason, "Telegram took a message, with an answer that cannot be read");
                Ok(Sent { id: None })
            }
            Err(error) => Err(error),
        }
    }

    /// Puts `text` into the place of a draft.
    async fn edit(&self, to: Place, draft: &MessageId, text: &str) -> Result<Sent, ChannelError> {
        let Some(id) = parse_message_id(draft) else { return Err(ChannelError::DraftGone) };
        let sent = Sent { id: Some(draft.clone()) };
        let payload = EditMessageText::new(to.chat, id, text);
        match self.api.call::<_, Value>(&payload, self.deadlines.call).await {
            Ok(_) | Err(CallError::Unreadable(_)) => Ok(sent),
            Err(error) if error.says(&["message is not modified"]) => Ok(sent),
            Err(error) if error.says(GONE_DRAFT) => Err(ChannelError::DraftGone),
            // An edit may be repeated without harm, so "perhaps" is "not yet".
            Err(CallError::Lost(reason)) => {
                Err(ChannelError::unavailable(format!("telegram: {reason}")))
            }
            Err(error) => Err(error.while_sending()),
        }
    }

    /// Accepts one update: once this returns, it may be confirmed.
    async fn accept(
        &self,
        update: &RawUpdate,
        bot: &Identity,
        publisher: &Publisher,
    ) -> Result<(), ChannelError> {
        let chat = update["message"]["chat"]["id"].to_string();
        let groups = publisher.groups([chat.as_str()]);
        match inbound::read(update, bot, publisher.channel(), groups) {
            Reading::Speaks(inbound) => publisher.publish(*inbound).await.map(drop),
            Reading::Ignored => Ok(()),
            Reading::Unreadable(key) => publisher.keep_raw(key, update.to_string()).await,
        }
        .map_err(|error| not_kept(&error))
    }
}

/// What editMessageText says when there is nothing to edit.
const GONE_DRAFT: &[&str] = &[
    "message to edit not found",
    "message can't be edited",
    "message_id_invalid",
    "message identifier is not specified",
    "there is no text in the message to edit",
];

#[async_trait]
impl Channel for Telegram {
    fn limits(&self) -> Limits {
        Limits {
            text_max: TEXT_MAX,
            unit: Unit::Utf16,
            typing_every: Some(TYPING_EVERY),
            doubt_pause: DOUBT_PAUSE,
            drafts: Drafts::Edited { every: DRAFT_EVERY },
            markup: Markup::Plain,
            file_max: 0,
            messages_max: usize::MAX,
            reacts: false,
        }
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        let bot = self.get_me().await?;
        publisher.heard_byte();
        publisher.link_up(format!("@{}", bot.username));
        let mark = publisher.mark().await.map_err(|error| not_kept(&error))?;
        let mut offset = Offset::from_mark(bot.id, mark);
        loop {
            let asked = Instant::now();
            let updates = self.poll(offset.ask(Utc::now())).await?;
            publisher.heard_byte();
            for update in &updates {
                self.accept(update, &bot, publisher).await?;
                offset.advance(update_id(update)?, Utc::now());
            }
            match offset.mark() {
                Some(mark) if !updates.is_empty() => {
                    publisher.set_mark(mark).await.map_err(|error| not_kept(&error))?;
                }
                _ if asked.elapsed() < EMPTY_POLL_MIN => {
                    tokio::time::sleep(EMPTY_POLL_MIN).await;
                }
                _ => {}
            }
        }
    }

    async fn send(&self, message: &Outbound) -> Result<Sent, ChannelError> {
        let text = message.body.text();
        let mut to = Place::of(&message.to).map_err(ChannelError::Refused)?;
        if let Some(draft) = &message.replaces {
            return self.edit(to, draft, text).await;
        }
        let mut sent = self.post(to, message, text).await;
        if let Err(CallError::Denied(denial)) = &sent
            && let Some(supergroup) = denial.moved_to
        {
            // The group has become a supergroup, and nothing was sent.
            to.chat = ChatId(supergroup);
            sent = self.post(to, message, text).await;
        }
        sent.map_err(CallError::while_sending)
    }

    async fn hint(&self, to: &Address, hint: Hint) -> Result<(), ChannelError> {
        match hint {
            Hint::Typing => {
                let to = Place::of(to).map_err(ChannelError::Refused)?;
                let mut payload = SendChatAction::new(to.chat, ChatAction::Typing);
                if let Some(thread) = to.thread {
                    payload = payload.message_thread_id(thread);
                }
                let shown = self.api.call::<_, Value>(&payload, self.deadlines.call).await;
                shown.map(drop).map_err(CallError::while_sending)
            }
            Hint::Erase(draft) => {
                let (to, id) =
                    (Place::of(to).map_err(ChannelError::Refused)?, parse_message_id(&draft));
                let Some(id) = id else { return Ok(()) };
                let payload = DeleteMessage::new(to.chat, id);
                let erased = self.api.call::<_, Value>(&payload, self.deadlines.call).await;
                erased.map(drop).map_err(CallError::while_sending)
            }
            Hint::Draft(_) | Hint::React { .. } => Ok(()),
        }
    }

    /// A bot cannot look at what it has sent.
    async fn find(
        &self,
        _message: &Outbound,
        _since: DateTime<Utc>,
    ) -> Result<Found, ChannelError> {
        Ok(Found::Unknowable)
    }
}

/// An [`Address`] in Telegram's terms.
#[derive(Clone, Copy)]
struct Place {
    chat: ChatId,
    thread: Option<ThreadId>,
}

impl Place {
    fn of(address: &Address) -> Result<Self, String> {
        let no_such_place = || format!("`{address}` is not a place on Telegram: ids are numbers");
        let chat = address.chat.as_str().parse().map_err(|_| no_such_place())?;
        let thread = match &address.thread {
            Some(thread) => {
                let id = thread.as_str().parse().map_err(|_| no_such_place())?;
                Some(ThreadId(TelegramMessageId(id)))
            }
            None => None,
        };
        Ok(Self { chat: ChatId(chat), thread })
    }
}

fn parse_message_id(id: &MessageId) -> Option<TelegramMessageId> {
    id.as_str().parse().ok().map(TelegramMessageId)
}

fn update_id(update: &RawUpdate) -> Result<i32, ChannelError> {
    let id = update.get("update_id").and_then(Value::as_i64);
    id.and_then(|id| i32::try_from(id).ok()).ok_or_else(|| {
        ChannelError::unavailable(
            "telegram sent an update without an id, which cannot be confirmed",
        )
    })
}

fn not_kept(error: &PublishError) -> ChannelError {
    ChannelError::unavailable(error.to_string())
}
