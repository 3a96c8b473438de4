//! Tools' names, as APIs take them and back.

use peacrab::provider::names::ToolNames;
use peacrab::provider::{ToolSchema, wire};

#[test]
fn respells_what_an_api_does_not_take_and_knows_it_again() {
    let long = format!("mcp_files_{}", "x".repeat(80));
    let given = ["look", "mcp_git_repo.read", "mcp_git_repo/read", "mcp_a_ü", &long];
    let tools = given.map(|name| ToolSchema {
        name: name.to_owned(),
        description: String::new(),
        parameters: serde_json::json!({}),
    });
    let names = ToolNames::of(&tools);
    let sent = given.map(|name| names.api_name(name));
    for (at, name) in sent.iter().enumerate() {
        assert!(name.len() <= 64 && wire::tool_name(name) == *name, "{name}");
        assert!(!sent[..at].contains(name), "{name} twice");
        assert_eq!(names.own_name(name.clone()), given[at]);
    }
    assert_eq!(sent[..2], ["look", "mcp_git_repo_read"]);
    assert_eq!(names.own_name("made.up".to_owned()), "made.up");
    assert_eq!(names.api_name("made.up"), "made_up");
}
