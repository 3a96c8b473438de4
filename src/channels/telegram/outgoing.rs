//! Outgoing calls, except files: texts and questions as new messages or as edits, reactions, and answers
//! to pressed buttons. Sent in Telegram's HTML, and as plain text if Telegram rejects that.

use serde::Deserialize;
use serde_json::Value;
use teloxide::payloads::{
    AnswerCallbackQuery, DeleteMessage, EditMessageText, SendChatAction, SendMessage,
    SendMessageSetters, SetMessageReaction,
};
use teloxide::types::{
    CallbackQueryId, ChatAction, ChatId, InlineKeyboardButton, InlineKeyboardMarkup,
    LinkPreviewOptions, MessageId as TelegramMessageId, ParseMode, ReactionType, ReplyMarkup,
    ReplyParameters, ThreadId,
};

use super::call::TelegramCallError;
use super::{CAPTION_MAX, MARKUP, TEXT_MAX, Telegram};
use crate::bus::Published;
use crate::channels::{ChannelError, Markup, Sent, Unit, markup, routing};
use crate::types::message::{
    Address, Body, Choice, MessageId, Outbound, Press, Question, Reaction,
};

/// Maximum characters of labels in one row. Longer ones get a row of their own, to be readable on a telephone.
const LABEL_CHARS_IN_ROW: usize = 16;
const IN_ROW_MAX: usize = 3;

/// Maximum characters of a button's label. Telegram shows no more of it.
const LABEL_CHARS_MAX: usize = 64;

/// Telegram's errors for markup that it cannot parse. Nothing was sent then.
const MARKUP_REJECTED: &[&str] =
    &["can't parse", "unsupported start tag", "entity", "entities_too_long"];

/// Errors of editMessageText if there is nothing to edit.
const DRAFT_GONE: &[&str] = &[
    "message to edit not found",
    "message can't be edited",
    "message_id_invalid",
    "message identifier is not specified",
    "there is no text in the message to edit",
];

/// The needed part of a sent message. Other fields are ignored, so they cannot be mistaken for a failure.
#[derive(Deserialize)]
pub(super) struct TelegramSentMessage {
    message_id: i64,
}

/// An [`Address`] in Telegram's terms.
#[derive(Clone, Copy)]
pub(super) struct TelegramAddress {
    pub(super) chat: ChatId,
    pub(super) thread: Option<ThreadId>,
}

impl TelegramAddress {
    pub(super) fn of(address: &Address) -> Result<Self, ChannelError> {
        let invalid_address = || {
            let reason = format!("`{address}` is not a Telegram address: ids are numbers");
            ChannelError::Refused(reason)
        };
        let chat = address.chat.as_str().parse().map_err(|_| invalid_address())?;
        let thread = match &address.thread {
            Some(thread) => {
                let id = thread.as_str().parse().map_err(|_| invalid_address())?;
                Some(ThreadId(TelegramMessageId(id)))
            }
            None => None,
        };
        Ok(Self { chat: ChatId(chat), thread })
    }
}

/// An attempt to send a message. It is changed if Telegram's error shows how.
pub(super) struct SendAttempt {
    pub(super) to: TelegramAddress,
    pub(super) reply_to: Option<TelegramMessageId>,
    pub(super) text: String,
    markup: Markup,
    /// Maximum length of its text, in UTF-16 units.
    text_max: usize,
    moved: bool,
}

impl SendAttempt {
    pub(super) fn new(message: &Outbound) -> Result<Self, ChannelError> {
        let to = TelegramAddress::of(&message.to)?;
        // In private the question is obvious, except for an overtaking answer. Groups have negative ids.
        let question = message.reply_to.as_ref().filter(|_| to.chat.0 < 0 || message.overtakes);
        let reply_to = question.and_then(parse_message_id);
        let text = message.body.text().to_owned();
        let text_max = match message.body {
            Body::File(_) => CAPTION_MAX,
            Body::Text(_) | Body::Printed(_) | Body::Choice(_) => TEXT_MAX,
        };
        Ok(Self { to, reply_to, text, markup: MARKUP, text_max, moved: false })
    }

    pub(super) fn parse_mode(&self) -> Option<ParseMode> {
        (self.markup == Markup::TelegramHtml && !self.text.is_empty()).then_some(ParseMode::Html)
    }

    pub(super) fn reply_parameters(&self) -> Option<ReplyParameters> {
        // The question may have been deleted meanwhile. Its answer is still wanted.
        self.reply_to.map(|id| ReplyParameters::new(id).allow_sending_without_reply())
    }

    /// Changes the attempt after an error with which nothing was sent. Returns true if it should be
    /// repeated.
    pub(super) fn adapt_to(&mut self, error: &TelegramCallError) -> bool {
        if self.parse_mode().is_some() && error.is_refused_with(MARKUP_REJECTED) {
            tracing::warn!("Telegram does not accept our markup, sending plain text");
            self.text = markup::plain(&self.text, self.markup, self.text_max, Unit::Utf16);
            self.markup = Markup::Plain;
            return true;
        }
        match error {
            // The group has become a supergroup.
            TelegramCallError::Denied(denial) if !self.moved => {
                let Some(supergroup) = denial.details.moved_to else { return false };
                (self.to.chat, self.moved) = (ChatId(supergroup), true);
                true
            }
            _ => false,
        }
    }
}

/// Converts the result of sending a message. An unreadable response counts as sent.
pub(super) fn posted(
    result: Result<TelegramSentMessage, TelegramCallError>,
) -> Result<Sent, TelegramCallError> {
    match result {
        Ok(posted) => Ok(Sent { id: Some(posted.message_id.to_string().into()) }),
        Err(TelegramCallError::Unreadable(reason)) => {
            tracing::warn!(%reason, "Telegram accepted a message, but its response cannot be read");
            Ok(Sent { id: None })
        }
        Err(error) => Err(error),
    }
}

impl Telegram {
    /// Sends a text or a question.
    pub(super) async fn send_text(&self, message: &Outbound) -> Result<Sent, ChannelError> {
        let mut attempt = SendAttempt::new(message)?;
        if let Some(draft) = &message.replaces {
            let id = parse_message_id(draft).ok_or(ChannelError::DraftGone)?;
            let edited = loop {
                match self.edit(&attempt, id, message).await {
                    Err(error) if attempt.adapt_to(&error) => {}
                    edited => break edited,
                }
            };
            return match edited {
                Ok(()) => Ok(Sent { id: Some(draft.clone()) }),
                Err(error) if error.is_refused_with(DRAFT_GONE) => Err(ChannelError::DraftGone),
                // An edit may be repeated without harm, so an ambiguous one is `Unavailable`. But an
                // ambiguous edit of a draft may arrive after the answer's, and replace it: the caller
                // must not edit that message again.
                Err(error) => match error.while_sending() {
                    ChannelError::Ambiguous(reason) if !is_draft(message) => {
                        Err(ChannelError::unavailable(reason))
                    }
                    error => Err(error),
                },
            };
        }
        loop {
            match self.post(&attempt, message).await {
                Err(error) if attempt.adapt_to(&error) => {}
                posted => return posted.map_err(TelegramCallError::while_sending),
            }
        }
    }

    async fn post(
        &self,
        attempt: &SendAttempt,
        message: &Outbound,
    ) -> Result<Sent, TelegramCallError> {
        let mut payload = SendMessage::new(attempt.to.chat, &attempt.text);
        payload.message_thread_id = attempt.to.thread;
        payload.parse_mode = attempt.parse_mode();
        payload.reply_parameters = attempt.reply_parameters();
        payload.link_preview_options = Some(no_preview());
        if let Some(keyboard) = keyboard(message) {
            payload = payload.reply_markup(ReplyMarkup::InlineKeyboard(keyboard));
        }
        posted(self.api.call(&payload, self.deadlines.call).await)
    }

    /// Replaces a draft or a question by a text. Its buttons disappear unless there are new ones.
    async fn edit(
        &self,
        attempt: &SendAttempt,
        draft: TelegramMessageId,
        message: &Outbound,
    ) -> Result<(), TelegramCallError> {
        let mut payload = EditMessageText::new(attempt.to.chat, draft, &attempt.text);
        payload.parse_mode = attempt.parse_mode();
        payload.reply_markup = keyboard(message);
        payload.link_preview_options = Some(no_preview());
        match self.api.call::<_, Value>(&payload, self.deadlines.call).await {
            Ok(_) | Err(TelegramCallError::Unreadable(_)) => Ok(()),
            Err(error) if error.is_refused_with(&["message is not modified"]) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn show_typing(&self, to: &Address) -> Result<(), ChannelError> {
        let to = TelegramAddress::of(to)?;
        let mut payload = SendChatAction::new(to.chat, ChatAction::Typing);
        payload.message_thread_id = to.thread;
        let shown = self.api.call::<_, Value>(&payload, self.deadlines.call).await;
        shown.map(drop).map_err(TelegramCallError::while_sending)
    }

    pub(super) async fn erase(&self, at: &Address, draft: &MessageId) -> Result<(), ChannelError> {
        let Some(id) = parse_message_id(draft) else { return Ok(()) };
        let payload = DeleteMessage::new(TelegramAddress::of(at)?.chat, id);
        let erased = self.api.call::<_, Value>(&payload, self.deadlines.call).await;
        erased.map(drop).map_err(TelegramCallError::while_sending)
    }

    pub(super) async fn react(
        &self,
        to: &Address,
        message: &MessageId,
        with: Reaction,
    ) -> Result<(), ChannelError> {
        let Some(id) = parse_message_id(message) else { return Ok(()) };
        // Only some emoji may be a reaction (Bot API, ReactionTypeEmoji).
        let emoji = match with {
            Reaction::Seen => "👀",
            Reaction::Steered => "👌",
        };
        let mut payload = SetMessageReaction::new(TelegramAddress::of(to)?.chat, id);
        payload.reaction = Some(vec![ReactionType::Emoji { emoji: emoji.to_owned() }]);
        let shown = self.api.call::<_, Value>(&payload, self.deadlines.call).await;
        shown.map(drop).map_err(TelegramCallError::while_sending)
    }

    /// Shows the result to the person who pressed a button. Best effort: the press itself is stored.
    pub(super) async fn answer_press(&self, query: String, published: Option<Published>) {
        let text = published.and_then(routing::reply_to_press);
        let mut payload = AnswerCallbackQuery::new(CallbackQueryId(query));
        payload.text = text.map(str::to_owned);
        if let Err(error) = self.api.call::<_, Value>(&payload, self.deadlines.press).await {
            let error = error.while_asking();
            tracing::debug!(%error, "Could not answer the press of a button");
        }
    }
}

/// Disables link previews: Telegram would fetch an address that a model wrote, which may leak data to its server.
/// Captions have no previews.
fn no_preview() -> LinkPreviewOptions {
    LinkPreviewOptions {
        is_disabled: true,
        url: None,
        prefer_small_media: false,
        prefer_large_media: false,
        show_above_text: false,
    }
}

/// Returns true for a draft, which is not in the outbox and has no id.
fn is_draft(message: &Outbound) -> bool {
    message.id.0 == 0
}

pub(super) fn parse_message_id(id: &MessageId) -> Option<TelegramMessageId> {
    id.as_str().parse().ok().map(TelegramMessageId)
}

/// Returns the buttons of a question.
fn keyboard(message: &Outbound) -> Option<InlineKeyboardMarkup> {
    let Body::Choice(Question { choices, .. }) = &message.body else { return None };
    let is_short = choices.iter().all(|choice| choice.label.chars().count() <= LABEL_CHARS_IN_ROW);
    let buttons: Vec<_> = choices
        .iter()
        .enumerate()
        .map(|(choice, Choice { label, .. })| {
            let label: String = label.chars().take(LABEL_CHARS_MAX).collect();
            let press = Press { delivery: message.id, choice };
            InlineKeyboardButton::callback(label, press.to_string())
        })
        .collect();
    let rows = buttons.chunks(if is_short { IN_ROW_MAX } else { 1 }).map(<[_]>::to_vec);
    Some(InlineKeyboardMarkup::new(rows))
}
