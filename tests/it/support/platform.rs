//! A platform that outlives the daemon: what people said and what they got are files, so that the
//! daemon can be killed at any instruction. It misbehaves on demand.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use peacrab::bus::Publisher;
use peacrab::channels::{
    Channel, ChannelError, Drafts, GIVE_UP_AFTER, Markup, MediaSink, PlatformLimits, SendLookup,
    Sent, Unit,
};
use peacrab::types::message::{
    Address, Body, Cause, ChatKind, Hint, Inbound, InboundContent, MediaKind, MediaRef, MessageId,
    Outbound, Press, Quote, Sender,
};
use serde::{Deserialize, Serialize};

use crate::support::documents::pdf;

pub(crate) const OWNER: &str = "7";

/// The file that comes with whatever speaks of a photo.
pub(crate) const PHOTO: &[u8] = &[b'x'; 300];

/// What a line says with which a PDF comes.
pub(crate) const DOCUMENT: &str = "a document";

/// That PDF.
pub(crate) fn document() -> Vec<u8> {
    pdf(&["Lease agreement", "The rent is 800 crowns."])
}

/// How the platform behaves.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct PlatformBehavior {
    /// Can be asked what it has, as Discord and Slack can and Telegram cannot.
    pub(crate) knows: bool,
    /// Delivers everything twice and chats in any order, and refuses, loses and swallows sends at
    /// random.
    pub(crate) misbehaves: bool,
    /// Some sends never return.
    pub(crate) hangs: bool,
    pub(crate) text_max: usize,
}

/// The name that every message gets.
const SENT: &str = "sent";

/// A line that a person said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) chat: String,
    pub(crate) text: String,
    /// A button that was pressed, instead of words.
    pub(crate) press: Option<Press>,
    /// What the words reply to.
    pub(crate) quotes: Option<String>,
}

/// A message that a person got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReceivedMessage {
    pub(crate) delivery: i64,
    /// Which part of it: two parts may read the same.
    pub(crate) part: u32,
    pub(crate) chat: String,
    pub(crate) text: String,
    /// What stands on its buttons.
    pub(crate) choices: Vec<String>,
}

/// The platform's side, in a folder.
pub(crate) struct Platform {
    folder: PathBuf,
    manners: PlatformBehavior,
}

impl Platform {
    pub(crate) fn new(folder: &Path, manners: PlatformBehavior) -> Self {
        fs::create_dir_all(folder).unwrap();
        Self { folder: folder.to_owned(), manners }
    }

    /// Somebody says something.
    pub(crate) fn say(&self, chat: &str, text: &str) {
        self.hears(&Line { chat: chat.to_owned(), text: text.to_owned(), ..Line::default() });
    }

    pub(crate) fn hears(&self, line: &Line) {
        append(&self.folder.join("said"), line);
    }

    pub(crate) fn said(&self) -> Vec<Line> {
        read(&self.folder.join("said"))
    }

    /// What people got, in the order in which they got it.
    pub(crate) fn got(&self) -> Vec<ReceivedMessage> {
        read(&self.folder.join("got"))
    }

    /// Takes a message; an edit that changes nothing is taken as done.
    fn give(&self, message: &Outbound) {
        let text = message.body.text().to_owned();
        let same = |got: &ReceivedMessage| {
            (got.delivery, got.part) == (message.id.0, message.chunk_index) && got.text == *text
        };
        if message.replaces.is_some() && self.got().iter().any(same) {
            return;
        }
        assert!(text.chars().count() <= self.manners.text_max, "too long for the platform: {text}");
        assert!(!text.trim().is_empty(), "the platform takes no empty messages");
        let got = ReceivedMessage {
            delivery: message.id.0,
            part: message.chunk_index,
            chat: message.to.chat.to_string(),
            text: text.clone(),
            choices: match &message.body {
                Body::Choice(question) => {
                    question.choices.iter().map(|choice| choice.label.clone()).collect()
                }
                Body::Text(_) | Body::Printed(_) | Body::File(_) => Vec::new(),
            },
        };
        append(&self.folder.join("got"), &got);
    }

    fn acknowledged(&self) -> usize {
        let path = self.folder.join("acknowledged");
        fs::read_to_string(path).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

#[async_trait]
impl Channel for Platform {
    fn limits(&self) -> PlatformLimits {
        PlatformLimits {
            text_max: self.manners.text_max,
            unit: Unit::Chars,
            caption_max: self.manners.text_max,
            caption_previews: false,
            typing_every: Some(Duration::from_millis(20)),
            ambiguity_pause: Duration::from_millis(300),
            give_up_after: GIVE_UP_AFTER,
            drafts: Drafts::Edited {
                every: Duration::from_millis(5),
                every_in_groups: Duration::from_millis(5),
            },
            markup: Markup::Plain,
            file_max: 0,
            messages_max: usize::MAX,
            reacts: false,
            replies: true,
        }
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        publisher.link_up("a folder".to_owned());
        loop {
            let mut lines: Vec<_> =
                self.said().into_iter().enumerate().skip(self.acknowledged()).collect();
            let up_to = lines.last().map(|(at, _)| at + 1);
            if self.manners.misbehaves {
                let salt = fastrand::usize(..7);
                lines.sort_by_key(|(_, line)| (usize::from(line.chat.as_bytes()[0]) + salt) % 7);
            }
            for (at, line) in lines {
                let inbound = inbound(publisher, at, &line);
                for _ in 0..=usize::from(self.manners.misbehaves) {
                    publisher
                        .publish(inbound.clone())
                        .await
                        .map_err(|error| ChannelError::unavailable(error.to_string()))?;
                }
            }
            if let Some(up_to) = up_to {
                fs::write(self.folder.join("acknowledged"), up_to.to_string()).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn send(&self, message: &Outbound) -> Result<Sent, ChannelError> {
        let luck = if self.manners.misbehaves { fastrand::u8(..100) } else { 100 };
        if self.manners.hangs && fastrand::u8(..100) < 5 {
            if fastrand::bool() {
                self.give(message);
            }
            std::future::pending::<()>().await;
        }
        if luck < 10 {
            let after = Some(Duration::from_millis(5));
            return Err(ChannelError::Unavailable { after, reason: "busy".to_owned() });
        }
        if luck < 13 {
            return Err(ChannelError::Ambiguous("cut off before it arrived".to_owned()));
        }
        self.give(message);
        if luck < 16 {
            return Err(ChannelError::Ambiguous("cut off after it arrived".to_owned()));
        }
        Ok(Sent { id: Some(MessageId::from(SENT)) })
    }

    async fn fetch(&self, media: &MediaRef, into: &mut MediaSink) -> Result<(), ChannelError> {
        if self.manners.misbehaves && fastrand::u8(..100) < 10 {
            let after = Some(Duration::from_millis(5));
            return Err(ChannelError::Unavailable { after, reason: "busy".to_owned() });
        }
        let document = document();
        let content = if media.handle == DOCUMENT { &document } else { PHOTO };
        for piece in content.chunks(100) {
            into.write(piece).await?;
        }
        assert!([DOCUMENT, "photo"].contains(&media.handle.as_str()));
        Ok(())
    }

    async fn hint(&self, _: &Address, _: Hint) -> Result<(), ChannelError> {
        Ok(())
    }

    async fn find(&self, message: &Outbound, _: DateTime<Utc>) -> Result<SendLookup, ChannelError> {
        if !self.manners.knows {
            return Ok(SendLookup::Unknowable);
        }
        let text = message.body.text().to_owned();
        let has = self.got().iter().any(|got| {
            (got.delivery, got.part) == (message.id.0, message.chunk_index) && got.text == *text
        });
        Ok(if has { SendLookup::Sent(Sent { id: None }) } else { SendLookup::Absent })
    }
}

fn inbound(publisher: &Publisher, at: usize, line: &Line) -> Inbound {
    let from = Address {
        channel: publisher.channel().clone(),
        chat: line.chat.as_str().into(),
        thread: None,
    };
    let photo = MediaRef {
        kind: MediaKind::Image,
        name: Some("crab.png".to_owned()),
        mime: None,
        size: None,
        handle: "photo".to_owned(),
        fetched: None,
        quoted: false,
    };
    let document = MediaRef {
        kind: MediaKind::Document,
        name: Some("lease.pdf".to_owned()),
        handle: DOCUMENT.to_owned(),
        ..photo.clone()
    };
    let photo = line.text.contains("photo").then_some(photo);
    let media = photo.into_iter().chain(line.text.contains(DOCUMENT).then_some(document)).collect();
    Inbound {
        key: format!("platform:{at}").into(),
        at: Utc::now(),
        from,
        chat_kind: ChatKind::Private,
        within: Vec::new(),
        cause: Cause::Person(Sender::person(OWNER, "Ada")),
        // A press is known by the message whose button it is.
        id: Some(line.press.map_or_else(|| at.to_string(), |_| SENT.to_owned()).into()),
        body: InboundContent {
            media,
            press: line.press,
            quoted: line.quotes.clone().map(|text| Quote {
                author: "Peacrab".to_owned(),
                text,
                by_others: false,
                by_bot: true,
            }),
            ..InboundContent::text(line.text.clone())
        },
    }
}

/// One write, so that a crash leaves a whole line or none.
fn append(path: &Path, line: &impl Serialize) {
    let mut text = serde_json::to_string(line).unwrap();
    text.push('\n');
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Vec<T> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
