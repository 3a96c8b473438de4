//! Chat templates that drop the tools: the server's count gives them away, and the owner is told once.

use peacrab::provider::{Delta, StopReason, Usage};
use peacrab::replies;
use peacrab::turn::run::unseen_tools::has_tools;
use serde_json::json;

use crate::support::rig::Rig;
use crate::support::script::{Reply, calls, says};

/// An answer to a prompt that has so many tokens, as the server counts.
fn counted(text: &str, input: u64) -> Reply {
    let usage = Usage { input, output: 2, ..Usage::default() };
    let text = Delta::Text(text.to_owned());
    Reply::Says(vec![text, Delta::Usage(usage), Delta::End(StopReason::Done)])
}

#[test]
fn a_count_tells_whether_the_tools_were_there() {
    // The first prompt of an owner by Qwen's tokenizer: 3,677 tokens, and 1,105 where the template drops the tools.
    assert_eq!(has_tools(820, 1_900, 3_677), Some(true));
    assert_eq!(has_tools(820, 1_900, 1_105), Some(false));
    // By o200k_base.
    assert_eq!(has_tools(820, 1_900, 2_976), Some(true));
    // A template that writes tools in half the tokens.
    assert_eq!(has_tools(820, 1_900, 900 + 950), Some(true));
    // Few tools, a long conversation, or a count of what was not in the cache.
    assert_eq!(has_tools(820, 200, 900), None);
    assert_eq!(has_tools(4_000, 1_900, 4_100), None);
    assert_eq!(has_tools(820, 1_900, 60), None);
}

#[tokio::test]
async fn the_owner_is_told_once_of_a_template_that_drops_the_tools() {
    let mut rig = Rig::new().await;
    rig.model.on("hello", [counted("Hi.", 1_000), counted("Hi again.", 1_010)]);
    let mut heard = vec![rig.ask("1", "hello").await, rig.next_message("1").await];
    heard.sort();
    let told = "script (none) does not seem to see its tools: its server counted 1000 tokens";
    assert!(heard[0] == "Hi." && heard[1].starts_with(told), "{heard:?}");
    let line = "The model seems not to see its tools: set tools = \"text\" for its provider.";
    assert!(rig.ask("1", "/status").await.contains(line));
    assert_eq!(rig.ask("1", "hello").await, "Hi again.");
    // A model that calls a tool sees it.
    rig.model.on("look", [calls(&[("list_files", json!({}))]), says("I have looked.")]);
    assert_eq!(rig.ask("1", "look").await, "I have looked.");
    assert!(!rig.ask("1", "/status").await.contains(line));
    rig.finish().await;
}

#[tokio::test]
async fn nobody_is_told_of_a_count_with_the_tools() {
    let mut rig = Rig::new().await;
    rig.model.on("hello", [counted("Hi.", 3_000)]);
    rig.model.on("tools", [counted("None.", 1_000)]);
    assert_eq!(rig.ask("1", "hello").await, "Hi.");
    assert_eq!(rig.ask("1", "tools?").await, "None.");
    assert_eq!(rig.ask("1", "/help").await, rig.ask("1", "/help").await);
    let words = replies::tools_dropped("script (none)", 1_000, 1);
    let begins = words.split_once(':').unwrap().0;
    assert!(rig.query("SELECT body FROM outbox").iter().all(|body| !body.contains(begins)));
    rig.finish().await;
}
