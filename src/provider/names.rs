//! Tools' names as an API takes them, and back. Ours pass unchanged; those of MCP servers may hold
//! dots, slashes and anything else, and be long.

use sha2::{Digest, Sha256};

use super::{ToolSchema, wire};

/// Letters of the hash that tells names apart which are respelt alike.
const HASH_CHARS: usize = 8;

/// The names that are respelt for one request: ours, and how the API is told.
pub(super) struct Names(Vec<(String, String)>);

impl Names {
    pub(super) fn of(tools: &[ToolSchema]) -> Self {
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

    pub(super) fn sent(&self, ours: &str) -> String {
        let pair = self.0.iter().find(|(name, _)| name == ours);
        pair.map_or_else(|| wire::tool_name(ours), |(_, sent)| sent.clone())
    }

    pub(super) fn ours(&self, sent: String) -> String {
        let pair = self.0.iter().find(|(_, name)| *name == sent);
        pair.map_or(sent, |(ours, _)| ours.clone())
    }
}

/// The same for the same name in every request.
fn hashed(name: &str, mut sent: String) -> String {
    let digest = Sha256::digest(name);
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    sent.truncate(wire::NAME_CHARS_MAX - HASH_CHARS - 1);
    format!("{sent}_{}", &hash[..HASH_CHARS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn respells_what_an_api_does_not_take_and_knows_it_again() {
        let long = format!("mcp_files_{}", "x".repeat(80));
        let given = ["look", "mcp_git_repo.read", "mcp_git_repo/read", "mcp_a_ü", &long];
        let tools = given.map(|name| ToolSchema {
            name: name.to_owned(),
            description: String::new(),
            parameters: serde_json::json!({}),
        });
        let names = Names::of(&tools);
        let sent = given.map(|name| names.sent(name));
        for (at, name) in sent.iter().enumerate() {
            assert!(name.len() <= 64 && wire::tool_name(name) == *name, "{name}");
            assert!(!sent[..at].contains(name), "{name} twice");
            assert_eq!(names.ours(name.clone()), given[at]);
        }
        assert_eq!(sent[..2], ["look", "mcp_git_repo_read"]);
        assert_eq!(names.ours("made.up".to_owned()), "made.up");
        assert_eq!(names.sent("made.up"), "made_up");
    }
}
