//! Slack, in Socket Mode. What an event means to us is in [`inbound`], the link itself in `socket`,
//! what a failed call means in `failure`. An envelope is acknowledged only after `publish` has
//! returned; Slack brings again what was not.

mod call;
mod catch_up;
mod failure;
mod files;
mod hearing;
pub mod inbound;
pub mod interaction;
mod looking;
mod mrkdwn;
mod names;
mod sending;
mod socket;

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use slack_morphism::api::SlackApiAppsConnectionOpenRequest;

pub use super::config::{SlackConfig as Config, SlackThreads as Threads};
use super::{
    Channel, ChannelError, Drafts, FileContent, Found, Limits, Markup, MediaSink, Sent, Unit,
};
use crate::bus::Publisher;
use crate::message::{Address, Hint, Line, MediaRef, MessageId, Outbound};

use call::{Api, AuthTest};
use failure::CallError;
use hearing::Ears;
use inbound::Identity;
use names::Names;
use socket::Socket;

/// In characters. Messages may be longer, but edits may not (chat.update), and drafts are edited.
const TEXT_MAX: usize = 4000;

/// Longer answers are nicer to read in one piece.
const MESSAGES_MAX: usize = 4;

/// A status goes away after two minutes (assistant.threads.setStatus).
const TYPING_EVERY: Duration = Duration::from_secs(60);

/// A workspace may edit 50 times a minute (tier 3, chat.update).
const DRAFT_EVERY: Duration = Duration::from_secs(3);

/// Slack's own short troubles are over by then, and what was posted is in the history.
const DOUBT_PAUSE: Duration = Duration::from_secs(5);

/// How long to wait for Slack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    pub connect: Duration,
    /// For a whole call.
    pub call: Duration,
    /// For the names of an event's people, before it is kept under their ids.
    pub names: Duration,
    /// How often we knock at a link.
    pub ping_every: Duration,
    /// A link on which not a byte came for so long is dead.
    pub silence: Duration,
    /// How long new events wait for what was missed before them.
    pub catch_up: Duration,
    /// A link that ends sooner was none: the next is begun under back-off.
    pub steady: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            call: Duration::from_secs(15),
            // Slack brings an event again that is not acknowledged after three seconds.
            names: Duration::from_secs(1),
            ping_every: Duration::from_secs(15),
            // Slack itself knocks every few seconds, too.
            silence: Duration::from_secs(40),
            catch_up: Duration::from_secs(2),
            steady: Duration::from_secs(10),
        }
    }
}

/// One app in one workspace.
pub struct Slack {
    api: Api,
    deadlines: Deadlines,
    threads: Threads,
    names: Names,
    /// Who we are, once Slack has told: a token belongs to one bot for ever.
    bot: OnceLock<Identity>,
    /// Slack has told us that it shows no status of this app.
    no_status: AtomicBool,
}

#[derive(Deserialize)]
struct Opened {
    url: String,
}

impl Slack {
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        Self::with_deadlines(config, Deadlines::default())
    }

    pub fn with_deadlines(config: &Config, deadlines: Deadlines) -> anyhow::Result<Self> {
        Ok(Self {
            api: Api::new(config, &deadlines)?,
            deadlines,
            threads: config.threads,
            names: Names::default(),
            bot: OnceLock::new(),
            no_status: AtomicBool::new(false),
        })
    }

    async fn identity(&self) -> Result<Identity, ChannelError> {
        let bot: Identity = self.api.call(&AuthTest {}).await.map_err(CallError::while_asking)?;
        self.bot.set(bot.clone()).ok();
        Ok(bot)
    }

    async fn known_identity(&self) -> Result<Identity, ChannelError> {
        match self.bot.get() {
            Some(bot) => Ok(bot.clone()),
            None => self.identity().await,
        }
    }

    async fn connect(&self) -> Result<Socket, ChannelError> {
        let open = SlackApiAppsConnectionOpenRequest::new();
        let opened: Opened = self.api.call(&open).await.map_err(CallError::while_asking)?;
        Socket::open(&opened.url, self.api.is_here(), self.deadlines).await
    }
}

#[async_trait]
impl Channel for Slack {
    fn limits(&self) -> Limits {
        Limits {
            text_max: TEXT_MAX,
            unit: Unit::Chars,
            caption_max: TEXT_MAX,
            typing_every: Some(TYPING_EVERY),
            doubt_pause: DOUBT_PAUSE,
            drafts: Drafts::Edited { every: DRAFT_EVERY, every_in_groups: DRAFT_EVERY },
            markup: Markup::Slack,
            file_max: files::FILE_MAX,
            messages_max: MESSAGES_MAX,
            reacts: true,
        }
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        let bot = self.identity().await?;
        publisher.heard_byte();
        let mut socket = self.connect().await?;
        let about = format!("@{} in {}", bot.name, bot.team_name);
        publisher.link_up(about);
        loop {
            Ears { slack: self, bot: &bot, publisher }.hear(&mut socket).await?;
            if socket.age() < self.deadlines.steady {
                return Ok(());
            }
            // The new link is there before the old one goes, so that nothing falls in between.
            socket = self.connect().await?;
            publisher.heard_byte();
        }
    }

    async fn send(&self, message: &Outbound) -> Result<Sent, ChannelError> {
        sending::send(&self.api, message).await
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
    ) -> Result<Vec<Line>, ChannelError> {
        self.look_back(at, before, max).await
    }

    async fn hint(&self, to: &Address, hint: Hint) -> Result<(), ChannelError> {
        match hint {
            Hint::Typing => sending::show_status(&self.api, to, &self.no_status).await,
            Hint::React { message, with } => sending::react(&self.api, to, &message, with).await,
            Hint::Erase(draft) => sending::erase(&self.api, to, &draft).await,
            Hint::Draft(_) => Ok(()),
        }
    }

    async fn find(&self, message: &Outbound, since: DateTime<Utc>) -> Result<Found, ChannelError> {
        sending::find(&self.api, &self.known_identity().await?, message, since).await
    }
}
