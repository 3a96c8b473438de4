//! The Slack adapter, in Socket Mode. [`inbound`] decodes events, `socket` is the link, and `failure` has the
//! meaning of a failed call. An envelope is acknowledged only after `publish` has returned. Slack repeats an
//! envelope that is not acknowledged.

mod call;
mod deadlines;
mod events;
mod failure;
mod files;
pub mod inbound;
pub mod interaction;
mod history;
pub mod manifest;
mod mrkdwn;
mod names;
mod pages;
mod probe;
mod progress;
mod sending;
mod socket;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use slack_morphism::api::SlackApiAppsConnectionOpenRequest;
use tokio::time::timeout;

use super::backlog::Backlog;
pub use super::config::{SlackConfig as Config, SlackThreads as Threads};
use super::{
    Channel, ChannelError, ChannelProbe, Drafts, FileContent, GIVE_UP_AFTER, Markup, MediaSink,
    PlatformLimits, SendLookup, Sent, Unit,
};
use crate::bus::Publisher;
use crate::replies;
use crate::types::message::{Address, ChatId, Hint, MediaRef, MessageId, Outbound, OverheardLine};
pub use deadlines::SlackDeadlines;

use call::{AuthTest, SlackApi};
use events::SlackListener;
use failure::SlackCallError;
use inbound::SlackIdentity;
use names::Names;
use progress::SlackProgress;
use socket::Socket;

/// Maximum length of a message, in characters. Messages may be longer, but edits may not (chat.update),
/// and drafts are edited.
const TEXT_MAX: usize = 4000;

/// Maximum number of messages for one answer. A longer one is easier to read as a file.
const MESSAGES_MAX: usize = 4;

/// Interval of statuses, which disappear after two minutes (assistant.threads.setStatus).
const TYPING_EVERY: Duration = Duration::from_secs(60);

/// Interval of edits. A workspace may edit 50 times a minute (tier 3, chat.update).
const DRAFT_EVERY: Duration = Duration::from_secs(3);

/// Pause after which Slack's brief outages are over, and a posted message is in the history.
const AMBIGUITY_PAUSE: Duration = Duration::from_secs(5);

/// Maximum number of addresses whose status is remembered. The status of the others disappears by itself.
const STATUSES_MAX: usize = 1000;

/// One Slack app in one workspace.
pub struct Slack {
    api: SlackApi,
    deadlines: SlackDeadlines,
    threads: Threads,
    names: Names,
    /// Our identity, once Slack has reported it. A token belongs to one bot forever.
    bot: OnceLock<SlackIdentity>,
    /// True once Slack has reported that it shows no status of this app.
    no_status: AtomicBool,
    /// Connections of the app that are not ours, by Slack's last count.
    others: AtomicU64,
    /// The position in the events. A mutex, because the next listener takes it over from one that was
    /// dropped. Locked only briefly.
    progress: Mutex<SlackProgress>,
    backlog: Backlog,
    /// Addresses at which a status is shown.
    statuses: Mutex<BTreeSet<Address>>,
    /// Chats that the bot is certainly a member of.
    own_chats: Mutex<BTreeSet<ChatId>>,
}

#[derive(Deserialize)]
struct OpenedSocket {
    url: String,
}

impl Slack {
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        Self::with_deadlines(config, SlackDeadlines::default())
    }

    pub fn with_deadlines(config: &Config, deadlines: SlackDeadlines) -> anyhow::Result<Self> {
        Ok(Self {
            api: SlackApi::new(config, &deadlines)?,
            deadlines,
            threads: config.threads,
            names: Names::default(),
            bot: OnceLock::new(),
            no_status: AtomicBool::new(false),
            others: AtomicU64::new(0),
            progress: Mutex::default(),
            backlog: Backlog::default(),
            statuses: Mutex::default(),
            own_chats: Mutex::default(),
        })
    }

    /// Requests our identity.
    async fn identity(&self) -> Result<SlackIdentity, ChannelError> {
        let bot: SlackIdentity =
            self.api.call(&AuthTest {}).await.map_err(SlackCallError::while_asking)?;
        self.bot.set(bot.clone()).ok();
        Ok(bot)
    }

    /// Returns our identity, remembered or requested.
    async fn known_identity(&self) -> Result<SlackIdentity, ChannelError> {
        match self.bot.get() {
            Some(bot) => Ok(bot.clone()),
            None => self.identity().await,
        }
    }

    fn statuses(&self) -> MutexGuard<'_, BTreeSet<Address>> {
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_status(&self, at: &Address) {
        let mut statuses = self.statuses();
        if statuses.len() >= STATUSES_MAX {
            statuses.clear();
        }
        statuses.insert(at.clone());
    }

    /// Clears the status. Slack clears it for a new message, but not for an edited draft. Best effort
    /// with a short deadline, because the answer is there already.
    async fn clear_status(&self, at: &Address) {
        if self.statuses().remove(at) {
            let clearing = sending::show_status(&self.api, at, "", &self.no_status);
            if let Ok(Err(error)) = timeout(self.deadlines.names, clearing).await {
                tracing::debug!(%at, %error, "Could not clear a status");
            }
        }
    }

    async fn connect(&self) -> Result<Socket, ChannelError> {
        let url = self.socket_address().await?;
        Socket::open(&url, self.api.is_here(), self.deadlines).await
    }

    /// Describes a new link for `status`, and warns once if Slack counts connections beside it and `own` others of this
    /// program. Slack sends each event to one connection of an app. But it may also count a connection for hours after
    /// its network has gone, so the count does not prove that another program runs: this one goes on.
    fn describe_link(&self, bot: &SlackIdentity, link: &Socket, own: u64) -> String {
        let about = format!("@{} in {}", bot.name, bot.team_name);
        let others = link.connections().saturating_sub(1 + own);
        let known = self.others.swap(others, Ordering::Relaxed);
        if others == 0 {
            return about;
        }
        if others != known {
            tracing::warn!(
                others,
                "Slack counts other connections of this app. If another program uses its token, each gets a part of \
                 the messages: stop one of them. Slack forgets the remains of a lost connection by itself"
            );
        }
        let plural = if others == 1 { "" } else { "s" };
        format!("{about}; Slack counts {others} more connection{plural} of this app")
    }

    /// Requests the URL of a new link. Opens no connection, but checks the app's token.
    async fn socket_address(&self) -> Result<String, ChannelError> {
        let open = SlackApiAppsConnectionOpenRequest::new();
        let opened = self.api.call::<_, OpenedSocket>(&open).await;
        let opened = opened.map_err(|error| match error.missing_scope() {
            Some(scope) => ChannelError::Closed(format!(
                "the app-level token may not do this: {scope} is needed. Make one with the scope \
                 connections:write at https://api.slack.com/apps under Basic Information, \
                 App-Level Tokens. A bot that is in the config already takes it from where its `app_token` is read, after `peacrab \
                 reload`"
            )),
            None => error.while_asking(),
        })?;
        Ok(opened.url)
    }
}

#[async_trait]
impl Channel for Slack {
    fn limits(&self) -> PlatformLimits {
        PlatformLimits {
            text_max: TEXT_MAX,
            unit: Unit::Chars,
            caption_max: TEXT_MAX,
            caption_previews: true,
            typing_every: Some(TYPING_EVERY),
            ambiguity_pause: AMBIGUITY_PAUSE,
            give_up_after: GIVE_UP_AFTER,
            drafts: Drafts::Edited { every: DRAFT_EVERY, every_in_groups: DRAFT_EVERY },
            markup: Markup::Slack,
            file_max: files::FILE_MAX,
            messages_max: MESSAGES_MAX,
            reacts: true,
            replies: false,
        }
    }

    async fn probe(&self) -> Result<ChannelProbe, ChannelError> {
        self.probe_account().await
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        let bot = self.identity().await?;
        publisher.note_bytes();
        let mut socket = self.connect().await?;
        publisher.link_up(self.describe_link(&bot, &socket, 0));
        loop {
            SlackListener { slack: self, bot: &bot, publisher }.receive(&mut socket).await?;
            if socket.age() < self.deadlines.steady {
                return Ok(());
            }
            // The new link is open before the old one closes, so that no event is missed in between.
            let fresh = self.connect().await?;
            publisher.note_bytes();
            publisher.link_up(self.describe_link(&bot, &fresh, 1));
            socket = fresh;
        }
    }

    async fn send(&self, message: &Outbound) -> Result<Sent, ChannelError> {
        let sent = sending::send(&self.api, message).await?;
        match &message.replaces {
            Some(_) if message.id.0 != 0 => self.clear_status(&message.to).await,
            Some(_) => {}
            None => {
                self.statuses().remove(&message.to);
            }
        }
        Ok(sent)
    }

    async fn upload(&self, message: &Outbound, file: FileContent) -> Result<Sent, ChannelError> {
        files::upload(&self.api, message, file).await
    }

    async fn fetch(&self, media: &MediaRef, into: &mut MediaSink) -> Result<(), ChannelError> {
        files::fetch(&self.api, media, into).await
    }

    async fn history(
        &self,
        at: &Address,
        before: Option<&MessageId>,
        max: usize,
    ) -> Result<Vec<OverheardLine>, ChannelError> {
        self.read_before(at, before, max).await
    }

    async fn hint(&self, to: &Address, hint: Hint) -> Result<(), ChannelError> {
        match hint {
            Hint::Typing => {
                self.note_status(to);
                sending::show_status(&self.api, to, replies::WORKING, &self.no_status).await
            }
            Hint::React { message, with } => sending::react(&self.api, to, &message, with).await,
            Hint::Erase(draft) => {
                self.clear_status(to).await;
                sending::erase(&self.api, to, &draft).await
            }
            Hint::Draft(_) => Ok(()),
        }
    }

    async fn find(
        &self,
        message: &Outbound,
        since: DateTime<Utc>,
    ) -> Result<SendLookup, ChannelError> {
        sending::find(&self.api, &self.known_identity().await?, message, since).await
    }
}
