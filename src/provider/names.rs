//! Converts names of tools to those that an API accepts, and back. Ours pass unchanged; those of MCP servers
//! may contain dots, slashes and anything else, and be long.

use sha2::{Digest, Sha256};

use super::{ToolSchema, wire};
use crate::types::hex::hex;

/// Digits of the hash that distinguishes names with the same spelling for the API.
const HASH_CHARS: usize = 8;

/// The names that are respelt for one request: ours, with the API's.
pub struct ToolNames(Vec<(String, String)>);

impl ToolNames {
    /// Returns the names of a request that offers `tools`.
    pub fn of(tools: &[ToolSchema]) -> Self {
        let fits = |name: &str| wire::tool_name(name) == name;
        let mut taken: Vec<_> =
            tools.iter().map(|tool| tool.name.clone()).filter(|name| fits(name)).collect();
        let mut pairs = Vec::new();
        for tool in tools.iter().filter(|tool| !fits(&tool.name)) {
            let mut sent = wire::tool_name(&tool.name);
            if taken.contains(&sent) || tool.name.chars().count() > sent.len() {
                sent = hashed(&tool.name, sent);
            }
            taken.push(sent.clone());
            pairs.push((tool.name.clone(), sent));
        }
        Self(pairs)
    }

    /// Returns the API's name of the tool that we call `ours`.
    pub fn api_name(&self, ours: &str) -> String {
        let pair = self.0.iter().find(|(name, _)| name == ours);
        pair.map_or_else(|| wire::tool_name(ours), |(_, sent)| sent.clone())
    }

    /// Returns our name of the tool that the API calls `sent`.
    pub fn own_name(&self, sent: String) -> String {
        let pair = self.0.iter().find(|(_, name)| *name == sent);
        pair.map_or(sent, |(ours, _)| ours.clone())
    }
}

/// Returns the name with a hash, which is the same in every request.
fn hashed(name: &str, mut sent: String) -> String {
    let digest = Sha256::digest(name);
    let hash = hex(&digest);
    sent.truncate(wire::NAME_CHARS_MAX - HASH_CHARS - 1);
    format!("{sent}_{}", &hash[..HASH_CHARS])
}
