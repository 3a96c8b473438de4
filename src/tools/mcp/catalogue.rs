//! The tools that servers offer, bounded and named for models. Pure. Nothing else that a server claims about its
//! tools is trusted.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::trust::mcp_pins::PinnedTool;

/// Maximum number of tools of a server: more than any needs. Further ones are dropped.
pub const TOOLS_MAX: usize = 100;

const DESCRIPTION_CHARS_MAX: usize = 1024;
const SCHEMA_BYTES_MAX: usize = 16 * 1024;

/// The vendors' limit for the name of a tool.
pub const NAME_CHARS_MAX: usize = 64;

/// Maximum number of tools, and of bytes of schemas, in every prompt. Beyond it, models search for tools.
const SHOWN_TOOLS_MAX: usize = 20;
const SHOWN_BYTES_MAX: usize = 8 * 1024;

/// Maximum number of results of a search.
const FOUND_MAX: usize = 5;

/// A tool that a server offers.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedTool {
    /// The operator's name of the server.
    pub server: String,
    /// The server's name of the tool.
    pub tool: String,
    pub description: String,
    pub parameters: Value,
    /// The server claims that it changes nothing.
    pub read_only: bool,
}

impl OfferedTool {
    /// Checks a server's description of a tool. The error explains why the tool cannot be used.
    pub fn new(
        server: &str,
        tool: &str,
        description: &str,
        mut schema: Map<String, Value>,
        read_only: bool,
    ) -> Result<Self, &'static str> {
        if tool.is_empty() || tool.len() > 256 {
            return Err("its name is empty or endless");
        }
        if *schema.entry("type").or_insert_with(|| "object".into()) != "object" {
            return Err("its schema is not one of an object");
        }
        schema.remove("$schema");
        if !schema.contains_key("properties") {
            // Some model APIs require it.
            schema.insert("properties".to_owned(), Map::new().into());
        }
        let parameters = Value::Object(schema);
        if parameters.to_string().len() > SCHEMA_BYTES_MAX {
            return Err("its schema is too large");
        }
        let clean = description.chars().filter(|c| !c.is_control() || *c == '\n');
        let description = clean.take(DESCRIPTION_CHARS_MAX).collect::<String>().trim().to_owned();
        let (server, tool) = (server.to_owned(), tool.to_owned());
        Ok(Self { server, tool, description, parameters, read_only })
    }

    /// Returns a tool of a server with its accepted texts.
    pub fn pinned(server: &str, texts: PinnedTool) -> Self {
        let PinnedTool { tool, description, parameters, read_only } = texts;
        Self { server: server.to_owned(), tool, description, parameters, read_only }
    }

    /// Returns its texts, for a prompt.
    pub fn into_texts(self) -> PinnedTool {
        let Self { tool, description, parameters, read_only, .. } = self;
        PinnedTool { tool, description, parameters, read_only }
    }
}

/// Returns the models' names of the offers, in order: `mcp_SERVER_TOOL`. A name that is too long or not
/// unique ends with a hash of the offer, so that it does not depend on the order of the servers.
pub fn names(offers: &[&OfferedTool]) -> Vec<String> {
    let plain: Vec<_> = offers.iter().map(|offer| plain_name(offer)).collect();
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    plain.iter().for_each(|name| *uses.entry(name).or_default() += 1);
    let name = |(name, offer): (&String, &&OfferedTool)| {
        if uses[name.as_str()] == 1 && name.len() <= NAME_CHARS_MAX {
            return name.clone();
        }
        let hash = Sha256::digest(format!("{}\0{}", offer.server, offer.tool));
        let hash = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
        format!("{}_{hash:08x}", &name[..name.len().min(NAME_CHARS_MAX - 9)])
    };
    plain.iter().zip(offers).map(name).collect()
}

fn plain_name(offer: &OfferedTool) -> String {
    let name_char = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    format!("mcp_{}_{}", offer.server, offer.tool).chars().map(name_char).collect()
}

/// Returns true if there are so many offers that models have to search for them.
pub fn is_large(offers: &[&OfferedTool]) -> bool {
    let bytes: usize = offers
        .iter()
        .map(|offer| offer.parameters.to_string().len() + offer.description.len())
        .sum();
    offers.len() > SHOWN_TOOLS_MAX || bytes > SHOWN_BYTES_MAX
}

/// Returns the indices of the offers that match a query, best first.
pub fn search(offers: &[(&str, &OfferedTool)], query: &str) -> Vec<usize> {
    let query = query.to_lowercase();
    let words: Vec<_> =
        query.split(|c: char| !c.is_alphanumeric()).filter(|w| w.len() > 1).collect();
    let score = |(name, offer): &(&str, &OfferedTool)| -> usize {
        let description = offer.description.to_lowercase();
        let hits = words.iter().map(|word| {
            4 * usize::from(name.contains(word)) + usize::from(description.contains(word))
        });
        hits.sum()
    };
    let mut found: Vec<_> =
        offers.iter().map(score).enumerate().filter(|(_, score)| *score > 0).collect();
    found.sort_by_key(|(at, score)| (std::cmp::Reverse(*score), *at));
    found.into_iter().take(FOUND_MAX).map(|(at, _)| at).collect()
}
