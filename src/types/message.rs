//! Messages between people and the agent, in and out, with hints, names and addresses. Data only.

mod cause;
mod press;
mod question_end;

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

pub use cause::{Cause, MessageAuthor, Printed};
pub use press::Press;

use crate::short_text::clean_name;
pub use crate::types::address::{
    Address, ChannelName, ChatId, DedupKey, MessageId, SenderId, ThreadId,
};
use crate::types::row_id::TurnId;
use crate::types::source::{Source, SourceSpan};

/// The sender of a message on a platform: the account and its visible name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    pub id: SenderId,
    pub name: String,
    /// True for another bot, which the config admits.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bot: bool,
}

impl Sender {
    pub fn person(id: impl Into<SenderId>, name: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), bot: false }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Writes the sender for people: the name as it may stand in a question, and the id, which is exact.
impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = clean_name(&self.name);
        write!(f, "{} (id {})", name.as_deref().unwrap_or("somebody"), self.id)
    }
}

/// Kind of a chat: private, or readable by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatKind {
    Private,
    Group,
}

/// A message of a channel that addresses the bot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inbound {
    pub key: DedupKey,
    /// Time at which it was sent, by the platform's clock.
    pub at: DateTime<Utc>,
    pub from: Address,
    #[serde(alias = "place")]
    pub chat_kind: ChatKind,
    /// Containers of the chat by which it may be admitted: a Discord server's id, for example.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<ChatId>,
    pub cause: Cause,
    /// The message that an answer in a group replies to.
    pub id: Option<MessageId>,
    pub body: InboundContent,
}

impl Inbound {
    /// Returns the ids by which a config may name its address: the thread, the chat, the containers of the chat.
    pub fn config_ids(&self) -> impl Iterator<Item = &str> + Clone {
        let thread = self.from.thread.iter().map(ThreadId::as_str);
        let containers = self.within.iter().map(ChatId::as_str);
        thread.chain([self.from.chat.as_str()]).chain(containers)
    }
}

/// The author of the speech in an audio file.
const SPEAKER: &str = "an audio file";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboundContent {
    pub text: String,
    /// The forwarded message, or the message that this one replies to, if the platform includes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted: Option<Quote>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediaRef>,
    /// The pressed button. Its text becomes the message's text once the press is admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub press: Option<Press>,
    /// True if more may follow at once: one picture of an album, or a text of the maximum length.
    #[serde(default, skip_serializing_if = "is_false")]
    pub more: bool,
    /// The sources of its text. Empty if its author is the person or task in the cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceSpan>,
}

impl InboundContent {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a message with a text that the person did not write. `author` names its author for people.
    pub fn of_others(text: String, author: &str) -> Self {
        let mut content = Self::text(text);
        content.set_author(author);
        content
    }

    fn set_author(&mut self, author: &str) {
        let source = Source::Quoted { author: author.to_owned(), by_others: true };
        self.sources = vec![SourceSpan(source, self.text.len())];
    }

    /// Returns true if the author of its text is the person or task in the cause. Any other text is no command.
    pub fn is_own_text(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns true if attached files have not been fetched yet.
    pub fn awaits_files(&self) -> bool {
        self.media.iter().any(|media| media.fetched.is_none())
    }

    /// Records the outcomes of its files. The transcript of the message's own audio goes above the text. The
    /// transcript of a quoted file stays with that file.
    pub fn record_files(&mut self, files: &[MediaRef]) {
        let mut transcripts = Vec::new();
        let mut are_all_voice = true;
        let pending = self.media.iter_mut().enumerate().filter(|(_, own)| own.fetched.is_none());
        for (index, own) in pending {
            let is_same_file = |file: &&MediaRef| {
                file.fetched.is_some()
                    && (file.kind, &file.handle, file.quoted) == (own.kind, &own.handle, own.quoted)
            };
            let file =
                files.get(index).filter(is_same_file).or_else(|| files.iter().find(is_same_file));
            let Some(file) = file else { continue };
            own.clone_from(file);
            if let Some(Fetched::Transcribed { words: spoken, .. }) = &own.fetched
                && !own.quoted
            {
                transcripts.push(spoken.clone());
                are_all_voice &= own.kind == MediaKind::Voice;
            }
        }
        if !transcripts.is_empty() {
            transcripts.extend(
                Some(std::mem::take(&mut self.text)).filter(|text| !text.trim().is_empty()),
            );
            self.text = transcripts.join("\n\n");
        }
        if !are_all_voice {
            // Unlike a voice message, an audio file may contain anybody's speech.
            self.set_author(SPEAKER);
        }
    }
}

/// An attached file of an incoming message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaRef {
    pub kind: MediaKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// MIME type reported by the platform. For a fetched picture, detected from its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// In bytes, if the platform reports it. For a fetched file, the real size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The platform's reference to the file. Only its adapter can interpret it.
    pub handle: String,
    /// The outcome. None until it was fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched: Option<Fetched>,
    /// True if it belongs to the quoted or forwarded message: its transcript is not the sender's own text.
    #[serde(default, skip_serializing_if = "is_false")]
    pub quoted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaKind {
    Image,
    Audio,
    /// A voice message, which replaces a text.
    Voice,
    Video,
    Document,
    Sticker,
}

/// Outcome of an attached file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fetched {
    /// In the workspace, at this path.
    Workspace(String),
    /// In the workspace, with a transcript, which the message's text contains or quotes.
    Transcribed { path: String, words: String },
    /// In the workspace, without a transcript, for this reason.
    Untranscribed { path: String, reason: String },
    /// In the workspace, with the beginning of its text.
    Read { path: String, begins: String },
    /// A document in the workspace whose text is unknown, for this reason.
    Unread { path: String, reason: String },
    /// Missing, for this reason.
    Failed(String),
}

impl Fetched {
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Workspace(path)
            | Self::Transcribed { path, .. }
            | Self::Untranscribed { path, .. }
            | Self::Read { path, .. }
            | Self::Unread { path, .. } => Some(path),
            Self::Failed(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    pub author: String,
    pub text: String,
    /// True if it is neither the bot's own text nor the sender's, or if the bot wrote it after it had read untrusted
    /// content.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_others: bool,
    /// True if the bot sent it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_bot: bool,
}

/// A row of the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeliveryId(pub i64);

/// A message to an address, or one chunk of it. Durable until the platform has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    pub id: DeliveryId,
    /// Index of this chunk in the delivery.
    pub chunk_index: u32,
    pub to: Address,
    pub reply_to: Option<MessageId>,
    /// True if it is sent before an older one: even a private chat then needs to see which message it answers.
    pub overtakes: bool,
    /// The draft that this message replaces.
    pub replaces: Option<MessageId>,
    pub body: Body,
}

/// Content of an outgoing message. In the outbox a text is CommonMark, as models write it. An adapter
/// gets chunks, whose text is in the platform's own markup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    Text(String),
    /// The output of a program: shown verbatim, without parsing markup. Sent as texts.
    Printed(String),
    Choice(Question),
    File(Attachment),
}

impl Body {
    /// Returns the body as one that the model of a turn wrote.
    pub fn written_in(self, turn: TurnId) -> Self {
        match self {
            Self::Choice(question) => Self::Choice(Question { written_in: Some(turn), ..question }),
            body => body,
        }
    }

    /// Returns the text, the question, or the file's caption.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Printed(text) | Self::Choice(Question { text, .. }) => text,
            Self::File(file) => &file.caption,
        }
    }

    pub fn text_mut(&mut self) -> &mut String {
        match self {
            Self::Text(text) | Self::Printed(text) | Self::Choice(Question { text, .. }) => text,
            Self::File(file) => &mut file.caption,
        }
    }
}

/// A text with buttons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub text: String,
    pub choices: Vec<Choice>,
    pub who: AllowedPressers,
    /// The proposal that a press decides: the first choice accepts it, any other declines it.
    pub proposal: Option<i64>,
    /// The turn whose model wrote the text and the choices. None if the program wrote them; its choices are commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_in: Option<TurnId>,
}

impl Question {
    /// Creates a question of the program.
    pub fn new(text: String, choices: Vec<Choice>, who: AllowedPressers) -> Self {
        Self { text, choices, who, proposal: None, written_in: None }
    }

    /// Returns about the last 500 characters of its text. Only those are shown of a long text once it is decided. Code in
    /// it stays code.
    pub fn end(&self) -> String {
        question_end::end(&self.text)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The text on the button.
    pub label: String,
    /// The text that pressing it sends: a command, or an answer.
    pub says: String,
}

/// People who may press a button.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllowedPressers {
    /// Everybody who is admitted to the chat.
    Anyone,
    Only(SenderId),
    /// Admins and the owner.
    Admins,
    Owner,
}

/// A file of an outgoing message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub name: String,
    pub kind: MediaKind,
    pub caption: String,
    /// True if a program printed the caption or the text: they are shown verbatim, without parsing
    /// markup.
    #[serde(default, skip_serializing_if = "is_false")]
    pub printed: bool,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// A path in the workspace, read when it is sent.
    Workspace(String),
    /// A copy in the workspace, made when the message was written, and the path of its original.
    Copy { copy: String, original: String },
    /// The content itself.
    Text(String),
}

/// A sign of activity next to the answer. It is best effort: it may be dropped, and never delays an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    Typing,
    /// The whole text so far.
    Draft(String),
    /// Deletes a draft.
    Erase(MessageId),
    /// Adds a reaction to a person's message.
    React {
        message: MessageId,
        with: Reaction,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// The message is being worked on.
    Seen,
    /// The message has joined a running turn.
    Steered,
}

/// A received line that does not address the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverheardLine {
    pub at: DateTime<Utc>,
    pub author: String,
    pub text: String,
}
