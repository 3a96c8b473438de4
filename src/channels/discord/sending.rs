//! Outgoing calls: messages with a nonce by which Discord recognizes a repetition, edits, threads that
//! are opened for their first message, files, reactions.

use chrono::{DateTime, Utc};
use futures_util::stream;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use serenity::builder::{CreateActionRow, CreateAllowedMentions, CreateButton, CreateThread};
use serenity::model::application::ButtonStyle;
use serenity::model::id;
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt as _;

use super::Discord;
use super::call::{
    DiscordCallError, NO_THREADS, SUPPRESS_EMBEDS, THREAD_IS_THERE, UNKNOWN_CHANNEL,
};
use super::endpoints::Endpoint;
use super::ids::{channel_id, message_id};
use crate::channels::discord::wire::{self, DiscordMessage, DiscordSentMessage};
use crate::channels::{ChannelError, FileContent, SendLookup, Sent};
use crate::short_text::one_line;
use crate::types::hex::hex;
use crate::types::message::{Address, Body, MessageId, Outbound, Question, Reaction};

/// Maximum length of a nonce (Message resource, create message).
const NONCE_CHARS: usize = 25;

/// Maximum length of a thread's name, in characters (Channel resource).
const NAME_CHARS_MAX: usize = 100;
const LABEL_CHARS_MAX: usize = 80;
const BUTTONS_IN_ROW: usize = 5;
const ROWS_MAX: usize = 5;

/// Maximum lag of Discord's clock behind ours. It is short, because an equal text from just before belongs
/// to another answer.
const SKEW: chrono::Duration = chrono::Duration::seconds(2);

/// Time for which Discord certainly remembers a nonce. It documents "the past few minutes" (Message
/// resource, create message).
const NONCE_TIME: chrono::Duration = chrono::Duration::minutes(2);

/// Messages of one request (Message resource, get channel messages), and requests for one message.
const PAGE: usize = 100;
const PAGES_MAX: usize = 5;

/// Bytes of a file that are in memory at a time.
const PIECE: usize = 64 * 1024;

/// An [`Address`] in Discord's terms.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiscordTarget {
    pub(super) chat: id::ChannelId,
    pub(super) thread: Option<id::ChannelId>,
}

impl DiscordTarget {
    pub(super) fn of(address: &Address) -> Result<Self, ChannelError> {
        let invalid = |_| {
            ChannelError::Refused(format!("`{address}` is not a Discord address: ids are numbers"))
        };
        let chat = channel_id(address.chat.as_str()).map_err(invalid)?;
        let thread = address.thread.as_ref().map(|thread| channel_id(thread.as_str()));
        Ok(Self { chat, thread: thread.transpose().map_err(invalid)? })
    }

    /// The channel to write to: a thread is a channel of its own.
    pub(super) fn channel(self) -> id::ChannelId {
        self.thread.unwrap_or(self.chat)
    }
}

/// Outcome for the thread that a call needed.
enum Thread {
    /// The thread was not the problem.
    Fine,
    /// It exists now: repeat the call.
    Opened,
    /// It cannot be opened: repeat the call in the channel around it.
    Barred,
}

impl Discord {
    /// Returns the target of an address: the channel around a thread that cannot be opened.
    fn target(&self, address: &Address) -> Result<DiscordTarget, ChannelError> {
        let to = DiscordTarget::of(address)?;
        let is_barred =
            address.thread.as_ref().is_some_and(|at| self.addresses.is_barred(at.as_str()));
        Ok(if is_barred { DiscordTarget { thread: None, ..to } } else { to })
    }

    /// Returns the channel of a message. The message that a thread was made from is outside of it, except
    /// in a forum's post.
    fn channel_of(&self, to: DiscordTarget, message: id::MessageId) -> id::ChannelId {
        let holds = |thread: &id::ChannelId| {
            thread.get() != message.get() || self.addresses.is_post(&thread.to_string())
        };
        to.thread.filter(holds).unwrap_or(to.chat)
    }

    /// Sends a message, in a thread that is opened for it if necessary.
    pub(super) async fn post(&self, message: &Outbound) -> Result<Sent, ChannelError> {
        loop {
            let to = self.target(&message.to)?;
            let body = self.body_of(message, to).await?;
            let post = || {
                self.api.send::<DiscordSentMessage>(Endpoint::CreateMessage(to.channel()), &body)
            };
            let posted = post().await;
            let thread =
                self.open_if_missing(to, &posted).await.map_err(DiscordCallError::while_sending)?;
            match thread {
                Thread::Fine => return sent(posted),
                Thread::Opened => return sent(post().await),
                // Happens once: the next attempt wants no thread.
                Thread::Barred => {}
            }
        }
    }

    pub(super) async fn post_file(
        &self,
        message: &Outbound,
        file: FileContent,
    ) -> Result<Sent, ChannelError> {
        loop {
            let to = self.target(&message.to)?;
            let mut body = self.body_of(message, to).await?;
            body["attachments"] = json!([{ "id": "0", "filename": file.name }]);
            let post = || {
                let form = form(&body, &file).map_err(|error| {
                    ChannelError::unavailable(format!("cannot read {}: {error}", file.name))
                })?;
                let endpoint = Endpoint::CreateMessage(to.channel());
                Ok::<_, ChannelError>(self.api.upload::<DiscordSentMessage>(endpoint, form))
            };
            let posted = post()?.await;
            let thread =
                self.open_if_missing(to, &posted).await.map_err(DiscordCallError::while_sending)?;
            match thread {
                Thread::Fine => return sent(posted),
                Thread::Opened => return sent(post()?.await),
                Thread::Barred => {}
            }
        }
    }

    /// Replaces `draft` by `message`.
    pub(super) async fn edit(
        &self,
        message: &Outbound,
        draft: &MessageId,
    ) -> Result<Sent, ChannelError> {
        let to = self.target(&message.to)?;
        let Ok(message_id) = message_id(draft.as_str()) else {
            return Err(ChannelError::DraftGone);
        };
        let body = json!({
            "content": message.body.text(),
            "allowed_mentions": allowed_mentions(),
            "flags": SUPPRESS_EMBEDS,
            // Removes those of a question that is decided.
            "components": buttons(message),
        });
        let channel_id = self.channel_of(to, message_id);
        let endpoint = Endpoint::EditMessage(channel_id, message_id);
        match self.api.send::<Value>(endpoint, &body).await {
            Ok(_) | Err(DiscordCallError::Unreadable(_)) => Ok(Sent { id: Some(draft.clone()) }),
            // A draft that arrives late would replace the answer.
            Err(error) => Err(error.while_editing(message.id.0 == 0)),
        }
    }

    pub(super) async fn show_typing(&self, to: &Address) -> Result<(), ChannelError> {
        let address = to;
        let to = self.target(address)?;
        let typing =
            |to: DiscordTarget| self.api.order(Endpoint::TriggerTyping(to.channel()), None);
        let typed = typing(to).await;
        let typed =
            match self.open_if_missing(to, &typed).await.map_err(DiscordCallError::while_asking)? {
                Thread::Fine => typed,
                Thread::Opened => typing(to).await,
                Thread::Barred => typing(self.target(address)?).await,
            };
        typed.map_err(DiscordCallError::while_asking)
    }

    pub(super) async fn erase(&self, to: &Address, draft: &MessageId) -> Result<(), ChannelError> {
        let to = self.target(to)?;
        let message_id = message_id(draft.as_str()).map_err(ChannelError::Refused)?;
        let channel_id = self.channel_of(to, message_id);
        let erased = self.api.order(Endpoint::DeleteMessage(channel_id, message_id), None).await;
        erased.map_err(DiscordCallError::while_asking)
    }

    pub(super) async fn react(
        &self,
        to: &Address,
        message: &MessageId,
        with: Reaction,
    ) -> Result<(), ChannelError> {
        let to = self.target(to)?;
        let message_id = message_id(message.as_str()).map_err(ChannelError::Refused)?;
        let reaction = match with {
            Reaction::Seen => "%F0%9F%91%80",    // 👀
            Reaction::Steered => "%F0%9F%91%8C", // 👌
        };
        let channel_id = self.channel_of(to, message_id);
        let endpoint = Endpoint::CreateReaction(channel_id, message_id, reaction);
        let reacted = self.api.order(endpoint, None).await;
        reacted.map_err(DiscordCallError::while_asking)
    }

    /// Searches for a message among those written since its sending began: by its nonce if Discord still
    /// reports it, else by its text and the message it replies to.
    pub(super) async fn look_for(
        &self,
        message: &Outbound,
        since: DateTime<Utc>,
    ) -> Result<SendLookup, ChannelError> {
        if nonce(message).is_some() && Utc::now() - since < NONCE_TIME {
            // Sending it again gives the same message in both cases. Its text might be found in another
            // answer.
            return Ok(SendLookup::Absent);
        }
        let to = self.target(&message.to)?;
        let bot = self.identity().await?;
        let mut after = wire::id_before(since - SKEW);
        for _ in 0..PAGES_MAX {
            let query = [("after", after.to_string()), ("limit", PAGE.to_string())];
            let endpoint = Endpoint::Messages(to.channel());
            let mut page: Vec<DiscordMessage> = match self.api.get(endpoint, &query).await {
                Ok(page) => page,
                // A thread that does not exist contains nothing.
                Err(error) if error.is(UNKNOWN_CHANNEL) => return Ok(SendLookup::Absent),
                Err(error) => return Err(error.while_asking()),
            };
            page.sort_by_key(|found| wire::order_of(&found.id));
            let ours = page.iter().filter(|found| found.author.id == bot.id);
            if let Some(found) = ours.into_iter().find(|found| is_same(found, message)) {
                return Ok(SendLookup::Sent(Sent { id: Some(found.id.as_str().into()) }));
            }
            match page.last() {
                Some(last) if page.len() >= PAGE => after = wire::order_of(&last.id),
                _ => return Ok(SendLookup::Absent),
            }
        }
        Ok(SendLookup::Unknowable)
    }

    /// Opens the thread if a call failed because it was missing.
    async fn open_if_missing<T>(
        &self,
        to: DiscordTarget,
        done: &Result<T, DiscordCallError>,
    ) -> Result<Thread, DiscordCallError> {
        let thread = match (done, to.thread) {
            (Err(error), Some(thread)) if error.is(UNKNOWN_CHANNEL) => thread,
            _ => return Ok(Thread::Fine),
        };
        match self.open_thread(to.chat, thread).await {
            Ok(()) => Ok(Thread::Opened),
            Err(error) if error.is_one_of(&NO_THREADS) => {
                tracing::warn!(%thread, ?error, "Cannot open a thread, will answer outside it");
                self.addresses.note_barred(&thread.to_string());
                Ok(Thread::Barred)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the thread of a message. It has the message's id.
    async fn open_thread(
        &self,
        channel_id: id::ChannelId,
        thread: id::ChannelId,
    ) -> Result<(), DiscordCallError> {
        let message_id = id::MessageId::new(thread.get());
        let endpoint = Endpoint::Message(channel_id, message_id);
        let starter: DiscordMessage = self.api.get(endpoint, &[]).await?;
        let bot = self.me.get().cloned().unwrap_or_default();
        let name = thread_name(&super::inbound::words_of(&starter, &bot));
        let endpoint = Endpoint::StartThread(channel_id, message_id);
        match self.api.send::<Value>(endpoint, &CreateThread::new(name)).await {
            Ok(_) | Err(DiscordCallError::Unreadable(_)) => Ok(()),
            Err(error) if error.is(THREAD_IS_THERE) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn body_of(&self, message: &Outbound, to: DiscordTarget) -> Result<Value, ChannelError> {
        let mut body = json!({
            "content": message.body.text(),
            "allowed_mentions": allowed_mentions(),
            "flags": SUPPRESS_EMBEDS,
        });
        if let Some(nonce) = nonce(message) {
            body["nonce"] = nonce.into();
            body["enforce_nonce"] = true.into();
        }
        if let rows @ [_, ..] = buttons(message).as_slice() {
            body["components"] = json!(rows);
        }
        // Outside of a thread that cannot be opened, the reply names the message that the thread belongs
        // to.
        let barred = message.to.thread.as_ref().filter(|_| to.thread.is_none());
        let reply_to = message.reply_to.as_ref().map(MessageId::as_str);
        let reply_to = barred.map(|thread| thread.as_str()).or(reply_to);
        let reply_to = reply_to.and_then(|id| message_id(id).ok());
        // The message that a thread was made from is outside of it.
        let reply_to = reply_to.filter(|id| self.channel_of(to, *id) == to.channel());
        if let Some(id) = reply_to
            && (message.overtakes || !self.is_private(to).await?)
        {
            // The question may have been deleted meanwhile. Its answer is still wanted.
            body["message_reference"] =
                json!({ "message_id": id.to_string(), "fail_if_not_exists": false });
        }
        Ok(body)
    }

    /// Returns true for a private chat, where the question is obvious unless the answer overtakes an older
    /// one.
    async fn is_private(&self, to: DiscordTarget) -> Result<bool, ChannelError> {
        if to.thread.is_some() {
            return Ok(false);
        }
        let place = self.addresses.look_up(&self.api, &to.chat.to_string()).await;
        Ok(place.is_ok_and(|place| place.is_some_and(|place| place.guild.is_none())))
    }
}

fn sent(posted: Result<DiscordSentMessage, DiscordCallError>) -> Result<Sent, ChannelError> {
    match posted {
        Ok(posted) => Ok(Sent { id: Some(posted.id.into()) }),
        Err(DiscordCallError::Unreadable(reason)) => {
            tracing::warn!(%reason, "Discord accepted a message, but its response cannot be read");
            Ok(Sent { id: None })
        }
        Err(error) => Err(error.while_sending()),
    }
}

/// Returns the allowed mentions: a model's text pings nobody, except the person it answers.
fn allowed_mentions() -> CreateAllowedMentions {
    CreateAllowedMentions::new().replied_user(true)
}

/// Returns the nonce by which Discord recognizes the same chunk for some minutes. Drafts and notices are
/// no deliveries, and have none.
fn nonce(message: &Outbound) -> Option<String> {
    let Outbound { id, chunk_index, to, reply_to, .. } = message;
    if id.0 == 0 {
        return None;
    }
    let reply_to = reply_to.as_ref().map(MessageId::as_str).unwrap_or_default();
    let digest = Sha256::digest(format!("{} {chunk_index} {to} {reply_to}", id.0));
    Some(hex(&digest)[..NONCE_CHARS].to_owned())
}

fn is_same(found: &DiscordMessage, message: &Outbound) -> bool {
    if let (Some(Value::String(theirs)), Some(ours)) = (&found.nonce, nonce(message)) {
        return *theirs == ours;
    }
    let replies_to =
        found.message_reference.as_ref().and_then(|reference| reference.message_id.as_deref());
    let reply_to = message.reply_to.as_ref().map(MessageId::as_str);
    let carries_file = matches!(message.body, Body::File(_));
    found.content.trim() == message.body.text().trim()
        && found.attachments.is_empty() != carries_file
        && (replies_to.is_none() || replies_to == reply_to)
}

fn buttons(message: &Outbound) -> Vec<CreateActionRow> {
    let Body::Choice(Question { choices, .. }) = &message.body else { return Vec::new() };
    let delivery = message.id;
    let buttons: Vec<CreateButton> = (0..)
        .zip(choices)
        .map(|(choice, shown)| {
            let press = crate::types::message::Press { delivery, choice };
            let label: String = shown.label.chars().take(LABEL_CHARS_MAX).collect();
            CreateButton::new(press.to_string()).label(label).style(ButtonStyle::Secondary)
        })
        .collect();
    let rows = buttons.chunks(BUTTONS_IN_ROW).take(ROWS_MAX);
    rows.map(|row| CreateActionRow::Buttons(row.to_vec())).collect()
}

/// Returns a thread's name: the first words of a question.
fn thread_name(text: &str) -> String {
    let line = one_line(text);
    if line.is_empty() {
        return crate::replies::THREAD_NAME.to_owned();
    }
    if line.chars().count() <= NAME_CHARS_MAX {
        return line;
    }
    let cut: String = line.chars().take(NAME_CHARS_MAX - 1).collect();
    let whole = cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words);
    format!("{whole}…")
}

fn form(body: &Value, file: &FileContent) -> std::io::Result<Form> {
    let mut content_file = file.file.try_clone()?;
    std::io::Seek::rewind(&mut content_file)?;
    let file_pieces =
        stream::try_unfold(tokio::fs::File::from_std(content_file), async |mut file| {
            let mut piece = vec![0; PIECE];
            let read = file.read(&mut piece).await?;
            piece.truncate(read);
            Ok::<_, std::io::Error>((read > 0).then_some((piece, file)))
        });
    let content = reqwest::Body::wrap_stream(Box::pin(file_pieces));
    let part = Part::stream_with_length(content, file.length).file_name(file.name.clone());
    Ok(Form::new().text("payload_json", body.to_string()).part("files[0]", part))
}
