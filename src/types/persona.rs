//! A persona: how the bot is with some people or in some places, and what it may use there. Which one counts is
//! decided elsewhere.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::types::session::Finish;
use crate::types::words::words;

/// The most bytes of a persona's name, as of each name of a section in the config.
const NAME_BYTES_MAX: usize = 32;

/// The name of a persona, which is a section of the config: letters, digits, `-` and `_`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PersonaName {
    bytes: [u8; NAME_BYTES_MAX],
    length: u8,
}

impl PersonaName {
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length)).unwrap_or_default();
        // It was made from ASCII.
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl FromStr for PersonaName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_name = |sign: u8| sign.is_ascii_alphanumeric() || b"-_".contains(&sign);
        if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(is_name) {
            return Err(());
        }
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes.iter_mut().zip(text.bytes()).for_each(|(into, byte)| *into = byte);
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
    /// The tools that it leaves out.
    fn without(self) -> &'static [&'static str] {
        match self {
            Self::Person => &[],
            Self::Place => &["remember", "note"],
            Self::None => &["remember", "note", "memory_search"],
        }
    }
}

/// The tools that may be called, by name. Roles bound them, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedTools {
    /// None: all. `web_*` stands for all names that begin with `web_`.
    names: Option<Arc<[String]>>,
    without: &'static [&'static str],
    /// Those that a conversation does not have that leaves nothing behind.
    hidden: &'static [&'static str],
}

impl AllowedTools {
    /// All tools.
    pub const ALL: Self = Self { names: None, without: &[], hidden: &[] };

    /// The tools of these names, less those of a memory that the persona does not have.
    pub fn new(names: Option<Vec<String>>, memory: PersonaMemory) -> Self {
        let names = names.filter(|names| !names.iter().any(|name| name == "*"));
        Self { names: names.map(Into::into), without: memory.without(), hidden: &[] }
    }

    pub fn allow(&self, tool: &str) -> bool {
        let is_named = |name: &String| match name.strip_suffix('*') {
            Some(beginning) => tool.starts_with(beginning),
            None => tool == name,
        };
        let are_named = self.names.as_ref().is_none_or(|names| names.iter().any(is_named));
        are_named && !self.without.contains(&tool) && !self.hidden.contains(&tool)
    }

    /// The same tools, less these.
    pub fn hiding(&self, names: &'static [&'static str]) -> Self {
        Self { names: self.names.clone(), without: self.without, hidden: names }
    }

    /// The names as the config has them; none if all are allowed.
    pub fn names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }
}

/// The bot's behaviour with some people or in some places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Persona {
    /// None where no persona of the config fits. Its words are `personas/NAME.md`.
    pub name: Option<PersonaName>,
    pub tools: AllowedTools,
    /// The first answers, and a conversation can choose only among them. Empty: as elsewhere.
    pub providers: Vec<String>,
    /// The longest answer, in tokens.
    pub tokens_max: Option<u32>,
    /// None: as the config says for all.
    pub finish: Option<Finish>,
    pub memory: PersonaMemory,
}

impl Persona {
    /// Returns the provider that answers: the chosen one, if the persona has it.
    pub fn provider<'a>(&'a self, chosen: Option<&'a str>) -> Option<&'a str> {
        match self.providers.first() {
            None => chosen,
            Some(first) => {
                let has = |name: &&str| self.providers.iter().any(|own| own == name);
                Some(chosen.filter(has).unwrap_or(first))
            }
        }
    }
}
