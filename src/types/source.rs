//! Sources: the author of each part of the model's input, and its place. They are stored in that
//! form. `trust::taint` decides at use for whom a source is trusted.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::types::address::{ChannelName, SenderId};
use crate::types::origin::TaskKind;

/// A person as the author of something, by their account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Author {
    /// The channel on which they are known.
    pub channel: ChannelName,
    pub id: SenderId,
}

/// The author of a part of the model's input, and its place. `by` is the person for whom a model or the program made it.
/// None if a former version stored it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The program: the line with time and speaker, reminders, lines about files.
    Program,
    /// A person who addresses the bot.
    Person { channel: ChannelName, id: SenderId },
    /// A message that a person replied to or forwarded.
    Quoted {
        author: String,
        /// True if neither the bot nor the person who quotes it wrote it.
        by_others: bool,
    },
    /// A line in a group that did not address the bot.
    Overheard { author: String },
    /// The text of a button, which the bot wrote and a person pressed.
    Button { channel: ChannelName, id: SenderId },
    /// A skill that a person invoked.
    Skill { name: String },
    /// A change of the memory or of the notes.
    Memory,
    /// The plan of the conversation.
    Plan {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Author>,
        read_others: bool,
    },
    /// An earlier suggestion of the model, which the prompt repeats.
    Proposal {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Author>,
        read_others: bool,
    },
    /// The input of a background task, or its result.
    Task {
        kind: TaskKind,
        /// None if the text may be about several tasks.
        number: Option<i64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Author>,
        /// True if the model that wrote the text had read untrusted content.
        read_others: bool,
    },
    /// A page of the web.
    Page { url: String },
    /// Results of a search engine.
    Search {
        engine: String,
        /// The URLs of the results of one search. Empty in rows of a former version, and in a list of the sources of
        /// several texts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        urls: Vec<String>,
    },
    /// A tool of an MCP server. `is_trusted` is the config's value for the server at the time of the
    /// call.
    McpServer { name: String, is_trusted: bool },
    /// The output of a command.
    Command {
        /// True if it had access to the network, or opened files that others wrote.
        read_others: bool,
    },
    /// A file of the workspace. Its path shows its folder.
    File { path: String },
    /// A file of the workspace with a second hard link. Its folder is ambiguous, so it counts as untrusted for
    /// everybody.
    LinkedFile { path: String },
    /// A file of the workspace that others may have written in a former version, so that it counts as untrusted for
    /// everybody.
    MarkedFile { path: String },
    /// Earlier conversations that a search found.
    Past { in_group: bool },
    /// An unknown source, untrusted for everybody.
    Unknown,
}

/// A part of a text, and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcedPart<'a> {
    pub source: &'a Source,
    pub text: &'a str,
}

/// The source of the next bytes of a text, and the number of these bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSpan(pub Source, pub usize);

/// A text in parts, each with its source. It dereferences to the whole text, which is what a model gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcedText {
    text: String,
    spans: Vec<SourceSpan>,
}

impl Source {
    /// Returns the word for its variant in the stored form.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Person { .. } => "person",
            Self::Quoted { .. } => "quoted",
            Self::Overheard { .. } => "overheard",
            Self::Button { .. } => "button",
            Self::Skill { .. } => "skill",
            Self::Memory => "memory",
            Self::Plan { .. } => "plan",
            Self::Proposal { .. } => "proposal",
            Self::Task { .. } => "task",
            Self::Page { .. } => "page",
            Self::Search { .. } => "search",
            Self::McpServer { .. } => "mcp_server",
            Self::Command { .. } => "command",
            Self::File { .. } => "file",
            Self::LinkedFile { .. } => "linked_file",
            Self::MarkedFile { .. } => "marked_file",
            Self::Past { .. } => "past",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the text in it that others chose: the name of an author, a skill or an engine, a URL, or a path.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Quoted { author: name, .. }
            | Self::Overheard { author: name }
            | Self::Skill { name }
            | Self::Page { url: name }
            | Self::Search { engine: name, .. }
            | Self::File { path: name }
            | Self::LinkedFile { path: name }
            | Self::MarkedFile { path: name } => Some(name),
            _ => None,
        }
    }

    /// Returns the person who said it, or for whom it was made.
    pub fn author(&self) -> Option<Author> {
        match self {
            Self::Person { channel, id } | Self::Button { channel, id } => {
                Some(Author { channel: channel.clone(), id: id.clone() })
            }
            Self::Plan { by, .. } | Self::Proposal { by, .. } | Self::Task { by, .. } => by.clone(),
            _ => None,
        }
    }

    /// Returns the source for a list of the sources of several texts, which does not name the results of a search.
    pub fn without_results(&self) -> Cow<'_, Self> {
        match self {
            Self::Search { engine, urls } if !urls.is_empty() => {
                Cow::Owned(Self::Search { engine: engine.clone(), urls: Vec::new() })
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// Returns true for parts that the program adds to a message: its own lines, and texts from memory.
    pub fn is_added(&self) -> bool {
        matches!(
            self,
            Self::Program
                | Self::Memory
                | Self::Plan { .. }
                | Self::Skill { .. }
                | Self::Past { .. }
        )
    }
}

impl SourcedText {
    /// Creates a text with one source.
    pub fn of(source: Source, text: impl AsRef<str>) -> Self {
        let mut parts = Self::default();
        parts.push(source, text);
        parts
    }

    /// Restores a stored text with its spans. If they do not fit the text, its source is unknown.
    pub fn from_stored(text: String, spans: Vec<SourceSpan>) -> Self {
        let mut end = 0_usize;
        let fits = spans.iter().all(|SourceSpan(_, bytes)| {
            end = end.saturating_add(*bytes);
            text.is_char_boundary(end)
        });
        match fits && end == text.len() {
            true => Self { text, spans },
            false => Self::of(Source::Unknown, text),
        }
    }

    /// Appends a part.
    pub fn push(&mut self, source: Source, text: impl AsRef<str>) {
        let text = text.as_ref();
        if text.is_empty() {
            return;
        }
        self.text.push_str(text);
        match self.spans.last_mut() {
            Some(SourceSpan(last, bytes)) if *last == source => *bytes += text.len(),
            _ => self.spans.push(SourceSpan(source, text.len())),
        }
    }

    /// Appends a part that the program wrote.
    pub fn push_program(&mut self, text: impl AsRef<str>) {
        self.push(Source::Program, text);
    }

    /// Appends all parts of another text.
    pub fn append(&mut self, other: &Self) {
        for SourcedPart { source, text } in other.iter() {
            self.push(source.clone(), text);
        }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = SourcedPart<'_>> {
        let mut begin = 0;
        let spans = self.spans.iter().map(move |SourceSpan(source, bytes)| {
            let text = &self.text[begin..begin + bytes];
            begin += bytes;
            SourcedPart { source, text }
        });
        spans.collect::<Vec<_>>().into_iter()
    }

    pub fn spans(&self) -> &[SourceSpan] {
        &self.spans
    }

    /// Returns each source once, in the order of first occurrence.
    pub fn sources(&self) -> Vec<Source> {
        let mut sources = Vec::new();
        self.spans.iter().for_each(|SourceSpan(source, _)| add(&mut sources, source));
        sources
    }
}

impl Deref for SourcedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for SourcedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Adds a source unless the list contains it.
pub fn add(sources: &mut Vec<Source>, source: &Source) {
    let source = source.without_results();
    if !sources.contains(&source) {
        sources.push(source.into_owned());
    }
}
