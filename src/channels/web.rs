//! The page in the browser, and the API, as a channel. A chat is `PERSON/SESSION`. Sent messages stay in the outbox,
//! from which pages read them (`bus::feed`): a message counts as arrived at once, and a page that was away misses
//! none.

pub mod entrance;
pub mod files;
pub mod logins;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::{mpsc, oneshot, watch};

use super::listeners::Listeners;
use super::{
    Channel, ChannelError, Drafts, FileContent, GIVE_UP_AFTER, Markup, MediaSink, PlatformLimits,
    SendLookup, Sent, Unit,
};
use crate::bus::{Published, Publisher, feed};
use crate::types::message::{
    Address, Body, ChannelName, ChatId, Hint, Inbound, MediaRef, MessageId, Outbound, SenderId,
};
pub use entrance::{SignInLink, WebEntrance};
use files::Files;
use logins::SignInCodes;

/// Maximum length of a message, in characters. A longer one is split.
const TEXT_CHARS_MAX: usize = 1_000_000;

/// The largest file in either direction, in bytes.
pub const FILE_BYTES_MAX: u64 = 50_000_000;

/// Capacity of a page's queue. A page that misses notices still reads all messages from the store.
const BEHIND_MAX: usize = 16;

/// Maximum number of messages that wait to be stored.
const SUBMISSIONS_MAX: usize = 64;

/// Interval of the updates of a draft, each with the whole text.
const DRAFT_EVERY: Duration = Duration::from_millis(150);

/// Interval of typing indicators. A page shows each for longer.
const TYPING_EVERY: Duration = Duration::from_secs(5);

/// A notification for the pages of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageNotice {
    /// There are messages to read.
    NewMessages,
    /// There are messages to read in another session of the person.
    NewElsewhere,
    /// The answer so far.
    Draft(String),
    Typing,
}

/// The state of the port at which pages reach the channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayPort {
    /// It was not opened yet.
    Unopened,
    Open,
    /// It cannot be opened for this reason, and is tried again.
    Refused(String),
}

/// A message of a page, to be stored.
struct Submission {
    inbound: Box<Inbound>,
    stored: oneshot::Sender<Option<Published>>,
}

pub struct Web {
    name: ChannelName,
    posts: mpsc::Sender<Submission>,
    /// Locked by `listen` for as long as it runs.
    posted: tokio::sync::Mutex<mpsc::Receiver<Submission>>,
    pages: Listeners<PageNotice>,
    /// Changes when a sign-in has ended.
    ended_logins: watch::Sender<()>,
    /// Without the port, nobody reaches the channel.
    port: watch::Sender<GatewayPort>,
    /// The links with which people sign in.
    pub codes: SignInCodes,
    pub files: Files,
}

impl Web {
    /// `folder` is where files of people and of the bot are kept.
    pub fn new(name: ChannelName, folder: PathBuf) -> Self {
        let (posts, posted) = mpsc::channel(SUBMISSIONS_MAX);
        Self {
            name,
            posts,
            posted: tokio::sync::Mutex::new(posted),
            pages: Listeners::new(BEHIND_MAX),
            ended_logins: watch::Sender::new(()),
            port: watch::Sender::new(GatewayPort::Unopened),
            codes: SignInCodes::default(),
            files: Files::new(folder),
        }
    }

    pub fn name(&self) -> &ChannelName {
        &self.name
    }

    /// Returns the address of a session of a person.
    pub fn address(&self, person: &SenderId, session: &str) -> Address {
        let chat = format!("{person}/{session}").into();
        Address { channel: self.name.clone(), chat, thread: None }
    }

    /// Notes the state of the gateway's port, which is that of the channel.
    pub fn note_port(&self, state: GatewayPort) {
        self.port.send_if_modified(|known| {
            let is_new = *known != state;
            *known = state;
            is_new
        });
    }

    /// Returns a receiver with the state of the gateway's port.
    pub fn watch_port(&self) -> watch::Receiver<GatewayPort> {
        self.port.subscribe()
    }

    /// Attaches a page to a chat. It is detached when the receiver is dropped.
    pub fn attach(&self, chat: &ChatId) -> mpsc::Receiver<PageNotice> {
        self.pages.attach(chat)
    }

    /// Returns the number of attached pages.
    pub fn attached(&self) -> usize {
        self.pages.count()
    }

    /// Notifies open streams that a sign-in has ended, perhaps their own.
    pub fn note_ended_login(&self) {
        self.ended_logins.send_replace(());
    }

    /// Returns a receiver that changes when a sign-in has ended.
    pub fn ended_logins(&self) -> watch::Receiver<()> {
        self.ended_logins.subscribe()
    }

    /// Stores a message. None if it could not be stored.
    pub async fn post(&self, inbound: Inbound) -> Option<Published> {
        let chat = inbound.from.chat.clone();
        let (stored, was_stored) = oneshot::channel();
        self.posts.send(Submission { inbound: Box::new(inbound), stored }).await.ok()?;
        let published = was_stored.await.ok().flatten();
        self.announce_messages(&chat);
        published
    }

    /// Notifies the pages of a chat, and those of other sessions of its person, of messages.
    fn announce_messages(&self, chat: &ChatId) {
        self.send_to_pages(chat, &PageNotice::NewMessages);
        let Some((person, session)) = chat.as_str().split_once('/') else { return };
        if session.starts_with(feed::SINGLE_REQUEST_PREFIX) {
            return;
        }
        let others = self.pages.of_others(&format!("{person}/"), chat);
        others.iter().for_each(|page| send_notice(page, &PageNotice::NewElsewhere));
    }

    /// Sends a notice to the pages of a chat. A page that is behind misses drafts, and finds the messages later.
    fn send_to_pages(&self, chat: &ChatId, notice: &PageNotice) {
        self.pages.of(chat).iter().for_each(|page| send_notice(page, notice));
    }
}

/// Sends a notice to a page. A page that is behind misses all but the news of its own chat.
fn send_notice(page: &mpsc::Sender<PageNotice>, notice: &PageNotice) {
    // A full queue holds news, after which the page reads the store.
    if *notice == PageNotice::NewMessages || page.capacity() > BEHIND_MAX / 2 {
        page.try_send(notice.clone()).ok();
    }
}

#[async_trait]
impl Channel for Web {
    fn limits(&self) -> PlatformLimits {
        PlatformLimits {
            text_max: TEXT_CHARS_MAX,
            unit: Unit::Chars,
            caption_max: TEXT_CHARS_MAX,
            caption_previews: false,
            typing_every: Some(TYPING_EVERY),
            drafts: Drafts::Hinted { every: DRAFT_EVERY },
            ambiguity_pause: Duration::from_secs(1),
            give_up_after: GIVE_UP_AFTER,
            markup: Markup::Plain,
            file_max: FILE_BYTES_MAX,
            messages_max: usize::MAX,
            reacts: false,
            replies: false,
        }
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        let mut posted = self.posted.lock().await;
        let mut port = self.port.subscribe();
        port.mark_changed();
        loop {
            tokio::select! {
                biased;
                changed = port.changed() => {
                    changed.expect("we have the sender");
                    match &*port.borrow_and_update() {
                        GatewayPort::Unopened => {}
                        GatewayPort::Open => publisher.link_up("gateway".to_owned()),
                        GatewayPort::Refused(reason) => publisher.link_lost(reason),
                    }
                }
                submission = posted.recv() => {
                    let Some(Submission { inbound, stored }) = submission else { return Ok(()) };
                    let published = publisher.publish(*inbound).await;
                    stored.send(published.ok()).ok();
                }
            }
        }
    }

    async fn send(&self, message: &Outbound) -> Result<Sent, ChannelError> {
        self.announce_messages(&message.to.chat);
        Ok(Sent { id: Some(message_id(message)) })
    }

    async fn upload(&self, message: &Outbound, file: FileContent) -> Result<Sent, ChannelError> {
        let kept = self.files.keep_sent(message.id, file).await;
        kept.map_err(|error| ChannelError::unavailable(format!("cannot keep a file: {error}")))?;
        self.send(message).await
    }

    async fn fetch(&self, file: &MediaRef, sink: &mut MediaSink) -> Result<(), ChannelError> {
        self.files.read_uploaded(&file.handle, sink).await
    }

    async fn hint(&self, to: &Address, hint: Hint) -> Result<(), ChannelError> {
        match hint {
            // A trailing backslash may be half of an escape.
            Hint::Draft(text) => {
                self.send_to_pages(
                    &to.chat,
                    &PageNotice::Draft(text.trim_end_matches('\\').to_owned()),
                );
            }
            Hint::Typing => self.send_to_pages(&to.chat, &PageNotice::Typing),
            Hint::Erase(_) | Hint::React { .. } => {}
        }
        Ok(())
    }

    async fn find(&self, message: &Outbound, _: DateTime<Utc>) -> Result<SendLookup, ChannelError> {
        let is_there = match message.body {
            Body::File(_) => self.files.has_sent(message.id).await,
            Body::Text(_) | Body::Printed(_) | Body::Choice(_) => true,
        };
        let sent = SendLookup::Sent(Sent { id: Some(message_id(message)) });
        Ok(if is_there { sent } else { SendLookup::Absent })
    }
}

/// Returns the id by which a page knows a message of the bot: its delivery.
fn message_id(message: &Outbound) -> MessageId {
    message.id.0.to_string().into()
}
