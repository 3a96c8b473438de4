//! A persona: the bot's behaviour with some people or in some places, and the tools and models it may use there. Not
//! here: the choice of the persona for a message.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::types::session::Finish;
use crate::types::words::words;

/// Maximum length of a persona's name in bytes: the limit for all names of config sections.
const NAME_BYTES_MAX: usize = 32;

/// The name of a persona's config section: letters, digits, `-` and `_`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PersonaName {
    bytes: [u8; NAME_BYTES_MAX],
    length: u8,
}

impl PersonaName {
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length)).unwrap_or_default();
        // `from_str` accepts only ASCII.
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl FromStr for PersonaName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(is_name) {
            return Err(());
        }
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes.iter_mut().zip(text.bytes()).for_each(|(target, byte)| *target = byte);
        Ok(Self { bytes, length: u8::try_from(text.len()).map_err(drop)? })
    }
}

impl fmt::Display for PersonaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for PersonaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// The memory that a persona has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PersonaMemory {
    /// All that it remembers of the person.
    #[default]
    Person,
    /// The words of the chat, and nothing of the person.
    Place,
    /// The part of the conversation that the model still sees.
    None,
}

words!(PersonaMemory { Person = "person", Place = "place", None = "none" });

impl PersonaMemory {
    /// Returns the tools that are not available with this memory.
    fn denied_tools(self) -> &'static [&'static str] {
        match self {
            Self::Person => &[],
            Self::Place => &["remember", "note"],
            Self::None => &["remember", "note", "memory_search"],
        }
    }
}

/// The tools that may be called, by name. Roles limit them further.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedTools {
    /// None means all. `web_*` stands for all names that begin with `web_`.
    names: Option<Arc<[String]>>,
    without: &'static [&'static str],
    /// Tools that an incognito conversation does not have.
    hidden: &'static [&'static str],
}

impl AllowedTools {
    /// All tools.
    pub const ALL: Self = Self { names: None, without: &[], hidden: &[] };

    /// Returns the tools of these names, without those that need more memory than the persona has.
    pub fn new(names: Option<Vec<String>>, memory: PersonaMemory) -> Self {
        let names = names.filter(|names| !names.iter().any(|name| name == "*"));
        Self { names: names.map(Into::into), without: memory.denied_tools(), hidden: &[] }
    }

    pub fn allow(&self, tool: &str) -> bool {
        let is_named = |name: &String| match name.strip_suffix('*') {
            Some(prefix) => tool.starts_with(prefix),
            None => tool == name,
        };
        let is_listed = self.names.as_ref().is_none_or(|names| names.iter().any(is_named));
        is_listed && !self.without.contains(&tool) && !self.hidden.contains(&tool)
    }

    /// Returns the same tools without `names`.
    pub fn hiding(&self, names: &'static [&'static str]) -> Self {
        Self { names: self.names.clone(), without: self.without, hidden: names }
    }

    /// Returns the names from the config. None if all tools are allowed.
    pub fn names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }
}

/// The bot's behaviour with some people or in some places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Persona {
    /// None if no persona of the config applies. Its instructions are in `personas/NAME.md`.
    pub name: Option<PersonaName>,
    pub tools: AllowedTools,
    /// The first one answers, and a conversation can choose only among them. Empty means all providers of the config.
    pub providers: Vec<String>,
    /// The longest answer, in tokens.
    pub tokens_max: Option<u32>,
    /// None means the config's general value.
    pub finish: Option<Finish>,
    pub memory: PersonaMemory,
}

impl Persona {
    /// Returns the provider that answers: the chosen one if the persona has it, else the persona's first.
    pub fn provider<'a>(&'a self, chosen: Option<&'a str>) -> Option<&'a str> {
        match self.providers.first() {
            None => chosen,
            Some(first) => {
                let is_available = |name: &&str| self.providers.iter().any(|own| own == name);
                Some(chosen.filter(is_available).unwrap_or(first))
            }
        }
    }
}
