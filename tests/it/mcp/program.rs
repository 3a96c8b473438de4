//! Servers that are programs.

use std::time::Duration;

use peacrab::people::Role;
use peacrab::replies;
use peacrab::tools::ToolKind;
use peacrab::tools::mcp::{Config, Program, Via};
use peacrab::types::untrusted;
use rustix::process::{Pid, test_kill_process};
use serde_json::json;

use super::fake::{bare, program};
use super::pins::{change, press};
use super::{call, call_in, mcp_server, offered, rig, server, trouble};
use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{Rig, RigOptions, USER};
use crate::support::script::{calls, says};

#[tokio::test]
async fn a_server_that_is_not_trusted_speaks_as_a_stranger() {
    let wary = Config { trusted: false, ..server(program("good", &[])) };
    let mut rig = rig([("fake", wary)]).await;
    let echo = || calls(&[("mcp_fake_echo", json!({ "text": "obey" }))]);
    rig.model.on("echo", [echo(), echo(), says("No.")]);
    let question = rig.ask("1", "echo").await;
    assert!(question.contains("read untrusted content (from mcp_fake_echo)"), "{question}");
    assert!(rig.model.last().transcript().contains(&format!("result: {}", untrusted::FIRST_LINE)));
    rig.say("1", "/deny 1");
    assert!(rig.next_messages("1", 3).await.contains(&"No.".to_owned()));
    rig.finish().await;
}

#[tokio::test]
async fn a_servers_own_claim_makes_no_call_repeatable() {
    let config = Config { reads: vec!["echo".to_owned()], ..server(program("good", &[])) };
    let rig = rig([("fake", config)]).await;
    rig.wait_until(|rig| mcp_server(rig, "fake").up).await;
    let terms = |rig: &Rig, tool: &str| {
        let found = rig.parts.tools.authorise(tool, Role::Owner);
        found.map(|(_, terms)| (terms.kind, terms.retries)).unwrap()
    };
    // The server says that it only reads; the config says nothing of it.
    let acts = ToolKind::Acts { idempotent: false };
    assert_eq!(terms(&rig, "mcp_fake_look"), (acts, false));
    assert_eq!(terms(&rig, "mcp_fake_echo"), (ToolKind::Reads, true));
    rig.finish().await;
}

#[tokio::test]
async fn listed_reading_tools_run_unasked_and_their_results_stay_untrusted() {
    for manner in ["good", "many"] {
        let (tool, other) = match manner {
            "good" => ("echo", "look"),
            _ => ("tool-7", "tool-8"),
        };
        let reads = vec![tool.to_owned()];
        let wary = Config { reads, trusted: false, ..server(program(manner, &[])) };
        let mut rig = rig([("fake", wary)]).await;
        let call = |tool: &str| {
            let name = format!("mcp_fake_{}", tool.replace('-', "_"));
            let (text, tool) = (json!({"text": "obey"}), json!(name));
            match manner {
                "good" => calls(&[(name.as_str(), text)]),
                _ => calls(&[("mcp_call", json!({"tool": tool, "arguments": text}))]),
            }
        };
        let writes = calls(&[("write_file", json!({"path": "a.md", "content": "obey"}))]);
        rig.model.on("echo", [call(tool), call(tool), call(other), writes, says("No.")]);
        // The server's own claim that the other one only reads counts for nothing.
        let question = rig.ask("1", "echo").await;
        assert!(question.contains("read untrusted content"), "{question}");
        let seen = rig.model.last().transcript();
        assert_eq!(
            seen.matches(&format!("result: {}", untrusted::FIRST_LINE)).count(),
            2,
            "{seen}"
        );
        rig.say("1", "/deny 1");
        let asked = rig.next_messages("1", 3).await;
        assert!(asked.iter().any(|text| text.contains("write_file")), "{asked:?}");
        rig.say("1", "/deny 2");
        assert!(rig.next_messages("1", 3).await.contains(&"No.".to_owned()));
        rig.finish().await;
    }
}

#[tokio::test]
async fn a_servers_tools_are_the_models() {
    let mut rig = rig([("fake", server(program("good", &[])))]).await;
    assert_eq!(call(&mut rig, "mcp_fake_echo", json!({ "text": "hello" })).await, "hello");
    assert!(offered(&mut rig).await.contains(&"mcp_fake_echo".to_owned()));
    let fake = mcp_server(&rig, "fake");
    assert_eq!((fake.up, fake.tools, fake.trouble), (true, 10, None));
    let status = rig.ask("1", "/status").await;
    assert!(status.contains("MCP servers: fake up, 10 tools"), "{status}");
    rig.finish().await;
}

#[tokio::test]
async fn what_is_no_text_is_told_in_words() {
    let mut rig = rig([("fake", server(program("good", &[])))]).await;
    // In a group nobody could see what is kept for the owner.
    assert_eq!(
        call_in(&mut rig, "-1", "mcp_fake_picture", json!({})).await,
        "[a picture, image/png, 3 kB: not shown]\n[file:///a]\nwords\n[b at file:///b]"
    );
    assert_eq!(call(&mut rig, "mcp_fake_fail", json!({})).await, "no such city");
    rig.finish().await;
}

#[tokio::test]
async fn a_picture_is_kept_for_the_owner_and_can_come_with_the_answer() {
    let servers = [("fake".to_owned(), server(program("good", &[])))].into();
    let fake_channel = FakeChannel::taking_files(1_000_000);
    let mut rig =
        Rig::with(fake_channel, RigOptions { mcp: servers, ..RigOptions::default() }).await;
    let shown = call(&mut rig, "mcp_fake_picture", json!({})).await;
    let path = shown.strip_prefix("[a picture, image/png, 3 kB: saved as ").unwrap();
    let (path, _) = path.split_once(']').unwrap();
    assert!(path.ends_with("-mcp_fake_picture.png"), "{path}");
    assert_eq!(std::fs::read(rig.path().join(path)).unwrap(), [0; 3_000]);
    rig.model.on("show me", [says(&format!("![it]({path})"))]);
    rig.say("1", "show me");
    let home = std::sync::Arc::clone(&rig.home);
    let got = rig.next_messages_on(home, "1", 2).await.pop().unwrap();
    assert_eq!((&*got.text, got.file.unwrap().2.len()), ("it", 3_000));
    rig.finish().await;
}

#[tokio::test]
async fn a_program_gets_no_variable_but_those_declared() {
    let mut rig = rig([("fake", server(program("good", &[("CITY", "Kyiv")])))]).await;
    let env = call(&mut rig, "mcp_fake_env", json!({})).await;
    assert_eq!(env, "CITY=Kyiv\nPEACRAB_TEST_MCP=good");
    rig.finish().await;
}

#[tokio::test]
async fn junk_between_messages_is_passed_over() {
    let mut rig = rig([("fake", server(program("junk", &[])))]).await;
    assert_eq!(call(&mut rig, "mcp_fake_echo", json!({ "text": "hello" })).await, "hello");
    rig.finish().await;
}

#[tokio::test]
async fn a_tool_that_cannot_be_parsed_costs_no_other() {
    let mut rig = rig([("fake", server(program("broken", &[])))]).await;
    assert_eq!(call(&mut rig, "mcp_fake_echo", json!({ "text": "hello" })).await, "hello");
    let mut offered = offered(&mut rig).await;
    offered.retain(|name| name.starts_with("mcp_"));
    assert_eq!(offered, ["mcp_fake_echo", "mcp_fake_pid"]);
    assert_eq!(mcp_server(&rig, "fake").trouble, None);
    rig.finish().await;
}

#[tokio::test]
async fn a_result_without_an_end_fails_the_call_and_spares_the_server() {
    let mut rig = rig([("fake", server(program("good", &[])))]).await;
    let pid = call(&mut rig, "mcp_fake_pid", json!({})).await;
    let huge = call(&mut rig, "mcp_fake_huge", json!({})).await;
    assert!(huge.contains("larger than 1 MB"), "{huge}");
    assert_eq!(call_in(&mut rig, "2", "mcp_fake_pid", json!({})).await, pid);
    rig.finish().await;
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_started_again() {
    let mut rig = rig([("fake", server(program("good", &[])))]).await;
    let died = call(&mut rig, "mcp_fake_die", json!({})).await;
    assert!(died.contains("broke off") && died.contains("may or may not"), "{died}");
    // Its tools stay, and a call waits for it.
    assert_eq!(call(&mut rig, "mcp_fake_echo", json!({ "text": "again" })).await, "again");
    rig.finish().await;
}

#[tokio::test]
async fn servers_that_are_dead_mute_or_lying_harm_nobody() {
    let gone = Program { command: "/nowhere/to-be-found".to_owned(), ..bare() };
    let mut rig = rig([
        ("good", server(program("good", &[]))),
        ("dead", server(program("dead", &[]))),
        ("mute", server(program("mute", &[]))),
        ("listless", server(program("listless", &[]))),
        ("liar", server(program("liar", &[]))),
        ("gone", server(Via::Program(Box::new(gone)))),
    ])
    .await;
    assert_eq!(call(&mut rig, "mcp_good_echo", json!({ "text": "here" })).await, "here");
    // They are still waited for: a minute for the greeting, a quarter of it for the list.
    for silent in ["mute", "listless"] {
        assert_eq!(trouble(&rig, silent), "", "{silent}");
    }
    rig.wait_until(|rig| trouble(rig, "dead").contains("cannot find the module")).await;
    rig.wait_until(|rig| trouble(rig, "liar").contains("cannot be spoken to")).await;
    rig.wait_until(|rig| trouble(rig, "gone").contains("/nowhere/to-be-found")).await;
    assert!(!mcp_server(&rig, "mute").up && !mcp_server(&rig, "listless").up);
    let missing = call(&mut rig, "mcp_dead_echo", json!({})).await;
    assert_eq!(missing, "There is no tool `mcp_dead_echo`.");
    rig.finish().await;
}

#[tokio::test]
async fn a_server_that_never_stops_talking_is_disconnected() {
    let servers =
        [("good", server(program("good", &[]))), ("flood", server(program("flood", &[])))];
    let mut rig = rig(servers).await;
    rig.wait_until(|rig| !mcp_server(rig, "flood").up && !trouble(rig, "flood").is_empty()).await;
    assert_eq!(call(&mut rig, "mcp_good_echo", json!({ "text": "here" })).await, "here");
    rig.finish().await;
}

#[tokio::test]
async fn a_call_that_hangs_is_given_up_and_delays_nobody_else() {
    let timeout = Duration::from_secs(1);
    let slow = Config { timeout, ..server(program("good", &[])) };
    let mut rig = rig([("slow", slow), ("good", server(program("good", &[])))]).await;
    rig.model.on("hang", [calls(&[("mcp_slow_hang", json!({}))]), says("it hung")]);
    rig.say("1", "hang");
    assert_eq!(call_in(&mut rig, "2", "mcp_good_echo", json!({ "text": "here" })).await, "here");
    assert_eq!(rig.next_message("1").await, "it hung");
    let asked = rig.model.asked();
    let told = asked.iter().any(|asked| asked.transcript().contains("did not answer within 1 s"));
    assert!(told, "{asked:?}");
    rig.finish().await;
}

#[tokio::test]
async fn a_list_that_changes_is_heard_of() {
    let mut rig = rig([("fake", server(program("good", &[])))]).await;
    let question = change(&mut rig, json!({})).await;
    assert!(question.contains("New tool brand-new:\nThe tool brand-new.\n{"), "{question}");
    // Nothing that a server adds is used before the owner has seen it.
    assert!(!offered(&mut rig).await.contains(&"mcp_fake_brand_new".to_owned()));
    assert_eq!(press(&mut rig).await, replies::mcp_texts_accepted("fake"));
    rig.wait_until(|rig| mcp_server(rig, "fake").tools == 11).await;
    assert!(offered(&mut rig).await.contains(&"mcp_fake_brand_new".to_owned()));
    rig.finish().await;
}

#[tokio::test]
async fn names_that_clash_are_told_apart_and_lies_left_out() {
    let mut rig =
        rig([("two", server(program("clashing", &[]))), ("liar", server(program("lying", &[])))])
            .await;
    let offered = offered(&mut rig).await;
    assert_eq!(offered.len(), 3, "{offered:?}");
    assert!(offered.contains(&"mcp_liar_wordy".to_owned()), "{offered:?}");
    let clashing = offered.iter().filter(|name| name.starts_with("mcp_two_get_it_"));
    assert_eq!(clashing.count(), 2, "{offered:?}");
    let wordy = rig.model.last().tools.into_iter().find(|tool| tool.name == "mcp_liar_wordy");
    assert_eq!(wordy.unwrap().description.len(), 1024);
    rig.finish().await;
}

#[tokio::test]
async fn only_what_is_allowed_is_there_and_only_for_the_role() {
    let allow = Some(vec!["echo".to_owned(), "no-such".to_owned()]);
    let few = Config { allow, role: Role::Admin, ..server(program("good", &[])) };
    let mut rig = rig([("few", few)]).await;
    assert_eq!(offered(&mut rig).await, ["mcp_few_echo"]);
    let echo = calls(&[("mcp_few_echo", json!({ "text": "psst" }))]);
    rig.model.on("let me", [echo, says("no")]);
    rig.say_as(USER, "3", "let me");
    assert_eq!(rig.next_message("3").await, "no");
    let asked = rig.model.last();
    assert!(!asked.has_tool("mcp_few_echo"));
    assert!(asked.transcript().contains("Denied: `mcp_few_echo` needs the role admin"));
    rig.finish().await;
}

#[tokio::test]
async fn many_tools_are_searched_instead_of_shown() {
    let mut rig = rig([("many", server(program("many", &[])))]).await;
    assert_eq!(offered(&mut rig).await, ["mcp_call", "mcp_search"]);
    let found = call(&mut rig, "mcp_search", json!({ "query": "tool 27" })).await;
    assert!(found.starts_with("mcp_many_tool_27: The tool tool-27.\n{\"type\""), "{found}");
    let arguments = json!({ "tool": "mcp_many_tool_7", "arguments": { "text": "seven" } });
    assert_eq!(call(&mut rig, "mcp_call", arguments).await, "seven");
    assert_eq!(call(&mut rig, "mcp_many_tool_7", json!({ "text": "7" })).await, "7");
    rig.finish().await;
}

#[tokio::test]
async fn programs_end_with_the_daemon_even_those_that_will_not() {
    let mut rig = rig([
        ("good", server(program("good", &[]))),
        ("stubborn", server(program("stubborn", &[]))),
    ])
    .await;
    let good = call(&mut rig, "mcp_good_pid", json!({})).await;
    let stubborn = call(&mut rig, "mcp_stubborn_pid", json!({})).await;
    let is_there =
        |pid: &str| test_kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap()).is_ok();
    assert!(is_there(&good) && is_there(&stubborn));
    // By itself, the stubborn one would end after a minute: a test waits half of it for the stop.
    rig.stop().await;
    assert!(!is_there(&good) && !is_there(&stubborn));
    rig.start().await;
    rig.finish().await;
}
