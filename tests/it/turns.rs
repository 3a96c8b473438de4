//! Turns: whatever the model, a tool or the provider does, the person hears one outcome, and the
//! next message works.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use peacrab::provider::{Delta, Provider, ProviderError, StopReason, ToolCall, fallback};
use peacrab::replies;
use peacrab::tools::{AnyTool, ToolError, ToolOutput, ToolSet, files, message};
use serde_json::json;

use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{Rig, RigOptions, STRANGER, USER};
use crate::support::script::{Gate, Reply, ScriptedModel, calls, calls_raw, ends, held, says};
use crate::support::tools::{AbortingTool, FlakyTool, HangingTool, PanickingTool, SayingTool};

/// The usual tools that matter here, and the ones given.
fn tools(others: impl IntoIterator<Item = Arc<dyn AnyTool>>) -> ToolSet {
    let usual = [Arc::new(files::ReadFile) as Arc<dyn AnyTool>, Arc::new(message::SendMessage)];
    ToolSet::new(usual.into_iter().chain(others))
}

/// Asks for something that fails as said, and for something more, which works.
async fn answers_with(replies: impl IntoIterator<Item = Reply>, words: &str) {
    let mut rig = Rig::new().await;
    rig.model.on("do it", replies);
    assert_eq!(rig.ask("1", "do it").await, words);
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

#[tokio::test]
async fn shows_the_model_what_a_tool_found() {
    let mut rig = Rig::new().await;
    let write = json!({"path": "a.md", "content": "the crab is small"});
    rig.model.on(
        "write",
        [
            calls(&[("write_file", write), ("read_file", json!({"path": "a.md"}))]),
            says("it is written"),
        ],
    );
    assert_eq!(rig.ask("1", "write").await, "it is written");
    let asked = rig.model.last();
    assert!(asked.transcript().contains("the crab is small"), "{}", asked.transcript());
    let results = asked.messages.iter().filter(|line| line.starts_with("result: "));
    assert_eq!(results.count(), 2);
    rig.finish().await;
}

#[tokio::test]
async fn tells_the_model_of_tools_that_are_not_there_or_called_wrongly() {
    let mut rig = Rig::new().await;
    let wrong = calls_raw(&[
        ("fly", "{}".to_owned()),
        ("read_file", "{\"path\": ".to_owned()),
        ("read_file", "{\"way\": \"a.md\"}".to_owned()),
    ]);
    rig.model.on("fly", [wrong, says("I can't fly")]);
    assert_eq!(rig.ask("1", "fly").await, "I can't fly");
    let results: Vec<_> = rig.model.last().messages.split_off(4);
    assert_eq!(results[0], "result: There is no tool `fly`.");
    assert!(
        results[1]
            .starts_with("result: The arguments of read_file are wrong: the JSON ends too early."),
        "{results:?}"
    );
    let told = "result: The arguments of read_file are wrong: `path` is missing; there is no `way`; there are ";
    assert!(results[2].starts_with(told), "{results:?}");
    rig.finish().await;
}

#[tokio::test]
async fn denies_a_tool_to_those_whose_role_is_too_low() {
    let mut parts = RigOptions::default();
    parts.access.allow = vec!["*".to_owned()];
    let mut rig = Rig::of(parts).await;
    rig.model.on("remember", [calls(&[("remember", json!({"text": "I own it"}))]), says("no")]);
    rig.say_as(STRANGER, "1", "remember it");
    assert_eq!(rig.next_message("1").await, "no");
    let asked = rig.model.last();
    assert!(asked.transcript().contains("Denied: `remember` needs the role user"));
    assert!(!asked.has_tool("remember"));
    rig.finish().await;
}

#[tokio::test]
async fn goes_on_after_a_tool_that_panics() {
    let parts =
        RigOptions { tools: tools([Arc::new(PanickingTool) as _]), ..RigOptions::default() };
    let mut rig = Rig::of(parts).await;
    rig.model.on("do it", [calls(&[("panic", json!({}))]), says("it broke")]);
    assert_eq!(rig.ask("1", "do it").await, "it broke");
    assert!(rig.model.last().transcript().contains("result: panic broke"));
    rig.finish().await;
}

#[tokio::test]
async fn calls_a_tool_once_more_if_it_says_that_this_is_safe() {
    let flaky = |name, retries, faults: usize| {
        Arc::new(FlakyTool { name, retries, faults: faults.into() }) as Arc<dyn AnyTool>
    };
    let all = [flaky("once", true, 1), flaky("twice", true, 2), flaky("never", false, 1)];
    let mut rig = Rig::of(RigOptions { tools: tools(all), ..RigOptions::default() }).await;
    let asked = ["once", "twice", "never"].map(|tool| (tool, json!({})));
    rig.model.on("do it", [calls(&asked), says("so it went")]);
    assert_eq!(rig.ask("1", "do it").await, "so it went");
    let results: Vec<_> = rig.model.last().messages.split_off(4);
    assert_eq!(results, ["result: it went well", "result: it went wrong", "result: it went wrong"]);
    rig.finish().await;
}

#[tokio::test]
async fn gives_a_tool_up_that_hangs() {
    let gate = Gate::shut();
    let parts = RigOptions {
        tools: tools([Arc::new(HangingTool(gate.clone())) as _]),
        ..RigOptions::default()
    };
    let mut rig = Rig::of(parts).await;
    rig.model.on("do it", [calls(&[("hang", json!({}))]), says("it hung")]);
    rig.say("1", "do it");
    rig.wait_at(&gate).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(121)).await;
    tokio::time::resume();
    assert_eq!(rig.next_message("1").await, "it hung");
    assert!(rig.model.last().transcript().contains("result: hang took longer than 120 seconds"));
    rig.finish().await;
}

/// A hundred megabytes, a failure as long, and what is no text at all.
#[tokio::test]
async fn takes_no_more_of_a_tool_than_there_is_room_for() {
    const VAST: usize = 100 << 20;
    let tool = |name, says| Arc::new(SayingTool { name, says }) as Arc<dyn AnyTool>;
    let all = [
        tool("vast", || Ok(ToolOutput::text("🦀".repeat(VAST / 4)))),
        tool("fails", || Err(ToolError::TellModel("x".repeat(VAST)))),
        tool("binary", || {
            Ok(ToolOutput::text(String::from_utf8_lossy(b"\x7fELF\0\x01\xff\x1b[2J\0")))
        }),
        tool("nothing", || Ok(ToolOutput::text(""))),
    ];
    let mut rig = Rig::of(RigOptions { tools: tools(all), ..RigOptions::default() }).await;
    let asked = ["vast", "fails", "binary", "nothing"].map(|tool| (tool, json!({})));
    rig.model.on("do it", [calls(&asked), says("so it went")]);
    assert_eq!(rig.ask("1", "do it").await, "so it went");
    let results: Vec<_> = rig.model.last().messages.split_off(5);
    for (result, begins) in results[..2].iter().zip(["result: 🦀🦀", "result: xx"]) {
        assert!(result.starts_with(begins) && result.chars().count() < 33_000);
        assert!(result.ends_with("[Cut at 32000 characters; the rest is lost.]"));
    }
    assert_eq!(results[2], "result: \u{7f}ELF\0\u{1}\u{fffd}\u{1b}[2J\0");
    assert_eq!(results[3], "result: ");
    // It is read back as it was shown.
    rig.stop_and_start_again().await;
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    assert_eq!(rig.model.last().messages[5..9], results);
    rig.finish().await;
}

/// Shapes that models are known for: calls as their own text, words around them, parts of them.
#[tokio::test]
async fn arguments_of_any_shape_have_one_result_each() {
    let mut rig = Rig::new().await;
    fs::write(rig.workspace().join("a.md"), "found").unwrap();
    let shapes = [
        "",
        " ",
        "null",
        "[]",
        "7",
        "true",
        r#""a.md""#,
        r#""{\"path\":\"a.md\"}""#,
        r#"[{"path":"a.md"}]"#,
        r#"{"path":["a.md"]}"#,
        r#"{"path":null}"#,
        r#"{"path":{"path":"a.md"}}"#,
        r#"{"Path":"a.md"}"#,
        r#"{"path":"a.md",}"#,
        r#"{'path':'a.md'}"#,
        r#"{path:"a.md"}"#,
        r#"{"path":"a.md","offset":"0"}"#,
        r#"{"path":"a.md","offset":-1}"#,
        r#"{"path":"a.md","offset":1e400}"#,
        r#"{"path":"a.md"} {"path":"a.md"}"#,
        "```json\n{\"path\":\"a.md\"}\n```",
        r#"{"arguments":{"path":"a.md"}}"#,
        r#"{"path":"a.md"#,
        "{\"path\":\"a\u{0}.md\"}",
        r#"{"path":"\ud800"}"#,
        "{}}",
        r#"{"path":"a.md"}"#,
    ];
    let asked: Vec<_> = shapes.iter().map(|it| ("read_file", (*it).to_owned())).collect();
    rig.model.on("read", [calls_raw(&asked), says("read")]);
    assert_eq!(rig.ask("1", "read it").await, "read");
    let results: Vec<_> = rig.model.last().messages.split_off(1 + shapes.len());
    assert_eq!(results.len(), shapes.len());
    for (shape, result) in shapes.iter().zip(&results) {
        let is_right = *shape == r#"{"path":"a.md"}"#;
        let told = result.starts_with("result: The arguments of read_file are wrong: ");
        assert!(if is_right { result == "result: found" } else { told }, "{shape}: {result}");
    }
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

#[tokio::test]
async fn says_so_if_the_model_only_thinks() {
    let thinks = |stop| {
        let thought = Delta::Thinking("Hm. Let me see.".to_owned());
        Reply::Says(vec![thought, Delta::End(stop)])
    };
    answers_with([thinks(StopReason::Done)], replies::EMPTY_ANSWER).await;
    answers_with([thinks(StopReason::MaxTokens)], replies::LIMIT_USED_UP_OWNER).await;
}

/// A provider drops the call that was cut; what came whole before it is made.
#[tokio::test]
async fn makes_the_whole_calls_of_an_answer_that_was_cut() {
    let mut rig = Rig::new().await;
    let arguments = json!({"path": "a.md", "content": "a"}).to_string();
    let call = ToolCall { id: "c".to_owned(), name: "write_file".to_owned(), arguments };
    let cut = Reply::Says(vec![Delta::Call(call), Delta::End(StopReason::MaxTokens)]);
    rig.model.on("do it", [cut, says("done")]);
    assert_eq!(rig.ask("1", "do it").await, "done");
    assert_eq!(fs::read_to_string(rig.workspace().join("a.md")).unwrap(), "a");
    rig.finish().await;
}

#[tokio::test]
async fn says_so_if_a_tool_cannot_go_on() {
    let parts = RigOptions { tools: tools([Arc::new(AbortingTool) as _]), ..RigOptions::default() };
    let mut rig = Rig::of(parts).await;
    rig.model.on("do it", [calls(&[("abort", json!({}))])]);
    assert_eq!(rig.ask("1", "do it").await, replies::SOMETHING_BROKE);
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

#[tokio::test]
async fn stops_in_words_after_so_many_steps() {
    let mut parts = RigOptions::default();
    parts.agent.steps_max = 3;
    let mut rig = Rig::of(parts).await;
    let call = || calls(&[("list_files", json!({}))]);
    rig.model.on("do it", [call(), call(), call()]);
    rig.model.on("used up", [says("")]);
    assert_eq!(rig.ask("1", "do it").await, replies::steps_exhausted(3));
    assert_eq!(rig.ask("1", "go on").await, "re: go on");
    rig.finish().await;
}

#[tokio::test]
async fn says_so_if_the_model_has_no_words() {
    answers_with([says(" \n")], replies::EMPTY_ANSWER).await;
}

#[tokio::test]
async fn says_so_if_the_model_declines() {
    answers_with([ends("", StopReason::Refused)], replies::MODEL_REFUSED).await;
}

#[tokio::test]
async fn says_so_if_the_answer_was_cut() {
    let words = format!("a long sto\n\n{}", replies::CUT_SHORT);
    answers_with([ends("a long sto", StopReason::MaxTokens)], &words).await;
}

#[tokio::test]
async fn says_so_if_the_model_is_away_and_nothing_waits_for_it() {
    let mut parts = RigOptions::default();
    parts.agent.wait_for_model = None;
    let mut rig = Rig::of(parts).await;
    rig.model.on("do it", [Reply::Fails(ProviderError::busy("no network"))]);
    assert_eq!(rig.ask("1", "do it").await, replies::model_unavailable("no network"));
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

#[tokio::test]
async fn says_so_if_the_conversation_is_too_long() {
    answers_with([Reply::Fails(ProviderError::TooLong)], replies::TOO_LONG).await;
}

#[tokio::test]
async fn says_so_if_the_key_is_wrong() {
    let refused = || Reply::Fails(ProviderError::Refused("no such key".to_owned()));
    let words = replies::model_refused_us("no such key", true);
    assert!(!words.contains("owner"), "{words}");
    answers_with([refused()], &words).await;
    let mut rig = Rig::new().await;
    rig.model.on("do it", [refused()]);
    rig.say_as(USER, "2", "do it");
    assert_eq!(rig.next_message("2").await, replies::model_refused_us("no such key", false));
    rig.finish().await;
}

#[tokio::test]
async fn says_so_if_the_answer_breaks_off() {
    let words = replies::model_broke_off("the answer was cut off in the middle");
    answers_with([Reply::Says(vec![Delta::Text("half an".to_owned())])], &words).await;
}

#[tokio::test]
async fn tries_again_after_a_panic() {
    answers_with([Reply::Panics, says("there")], "there").await;
}

#[tokio::test]
async fn gives_up_in_words_after_three_panics() {
    answers_with([Reply::Panics, Reply::Panics, Reply::Panics], replies::INTERRUPTED_TOO_OFTEN)
        .await;
}

#[tokio::test]
async fn a_panic_of_one_chat_is_not_felt_in_another() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("slow", [held(&gate, says("slow answer"))]);
    rig.model.on("break", [Reply::Panics, says("mended")]);
    rig.say("1", "slow");
    rig.wait_at(&gate).await;
    assert_eq!(rig.ask("2", "break").await, "mended");
    gate.open();
    assert_eq!(rig.next_message("1").await, "slow answer");
    rig.finish().await;
}

#[tokio::test]
async fn is_silent_if_the_model_chooses_to_be() {
    let mut rig = Rig::new().await;
    rig.model.on("hush", [says("NO_REPLY")]);
    rig.say("-1", "hush");
    rig.settled().await;
    assert_eq!(rig.ask("-1", "and now?").await, "re: and now?");
    assert!(rig.model.last().transcript().contains("assistant: NO_REPLY"));
    rig.finish().await;
}

#[tokio::test]
async fn a_person_in_a_private_chat_is_answered_in_words() {
    let mut rig = Rig::new().await;
    rig.model.on("hush", [says("NO_REPLY")]);
    rig.model.on("Answer it in words", [says("Hush yourself.")]);
    assert_eq!(rig.ask("1", "hush").await, "Hush yourself.");
    assert_eq!(rig.model.asked().len(), 2);
    // It is asked again once.
    rig.model.on("be quiet", [says("`NO_REPLY`.")]);
    rig.model.on("Answer it in words", [says("NO_REPLY")]);
    assert_eq!(rig.ask("1", "be quiet").await, replies::NOTHING_TO_SAY);
    assert_eq!(rig.model.asked().len(), 4);
    // Small models spell it so. Who means it says it again.
    rig.model.on("did he answer", [says("No reply.")]);
    rig.model.on("Answer it in words", [says("No reply.")]);
    assert_eq!(rig.ask("1", "did he answer?").await, "No reply.");
    assert_eq!(rig.model.asked().len(), 6);
    rig.finish().await;
}

/// A 0.5B model answers "Hello!" so, with a name that no tool has.
const LOST_CALL: &str = r#"{"name": "Peacrab", "arguments": {"name": "Peacrab"}}"#;

#[tokio::test]
async fn a_call_of_no_tool_that_is_written_as_text_is_asked_about_once() {
    let mut rig = Rig::new().await;
    rig.model.on("hello", [says(LOST_CALL)]);
    rig.model.on("in plain words", [says("Hello, I am Peacrab.")]);
    assert_eq!(rig.ask("1", "hello").await, "Hello, I am Peacrab.");
    assert_eq!(rig.model.asked().len(), 2);
    assert!(!rig.model.last().may_call);
    // Whoever asked for such JSON gets it.
    let fenced = format!("```json\n{LOST_CALL}\n```");
    rig.model.on("show me a call", [says(&fenced)]);
    rig.model.on("in plain words", [says(&fenced)]);
    assert_eq!(rig.ask("1", "show me a call").await, fenced);
    assert_eq!(rig.model.asked().len(), 4);
    // An answer that is written so again is shown without the call around it.
    let answer = r#"{"name": "Peacrab", "arguments": {"text": "Hello, I am a crab."}}"#;
    rig.model.on("who are you", [says(answer)]);
    rig.model.on("in plain words", [says(answer)]);
    assert_eq!(rig.ask("1", "who are you?").await, "Hello, I am a crab.");
    assert_eq!(rig.model.asked().len(), 6);
    // Other JSON is an answer.
    let other = r#"{"name": "Ada", "age": 36}"#;
    rig.model.on("describe her", [says(other)]);
    assert_eq!(rig.ask("1", "describe her").await, other);
    assert_eq!(rig.model.asked().len(), 7);
    rig.finish().await;
}

#[tokio::test]
async fn says_who_answered_in_place_of_another() {
    let (first, spare) = (Arc::new(ScriptedModel::default()), Arc::new(ScriptedModel::default()));
    first.on("hello", [Reply::Fails(ProviderError::busy("no network"))]);
    spare.on("hello", [says("hi")]);
    let both = vec![first as Arc<dyn Provider>, spare];
    let provider: Option<Arc<dyn Provider>> = Some(Arc::new(fallback::Fallback::new(both)));
    let mut rig = Rig::of(RigOptions { provider, ..RigOptions::default() }).await;
    let note = replies::another_provider_answered(
        &[("script (none)", "no network".to_owned())],
        "script (none)",
    );
    assert_eq!(rig.ask("1", "hello").await, format!("hi\n\n{note}"));
    rig.finish().await;
}

#[tokio::test]
async fn does_not_repeat_what_the_message_tool_said() {
    let mut rig = Rig::new().await;
    rig.model.on("once", [calls(&[("message", json!({"text": "lunch"}))]), says("lunch")]);
    assert_eq!(rig.ask("1", "once").await, "lunch");
    rig.model.on("twice", [calls(&[("message", json!({"text": "lunch"}))]), says("and tea")]);
    rig.say("1", "twice");
    assert_eq!(rig.next_messages("1", 2).await, ["lunch", "and tea"]);
    rig.model.on("tool", [calls(&[("message", json!({"text": "all said"}))]), says("")]);
    assert_eq!(rig.ask("1", "tool").await, "all said");
    rig.finish().await;
}

#[tokio::test]
async fn sends_messages_elsewhere_for_the_owner_alone() {
    let mut rig = Rig::new().await;
    let elsewhere = || calls(&[("message", json!({"text": "boo", "to": "home:3"}))]);
    rig.model.on("tell", [elsewhere(), says("denied"), elsewhere(), says("told")]);
    rig.say_as(USER, "2", "tell them");
    assert_eq!(rig.next_message("2").await, "denied");
    assert!(rig.model.last().transcript().contains("Denied: only an admin"));
    assert_eq!(rig.ask("1", "tell home:3: boo").await, "told");
    assert_eq!(rig.next_message("3").await, "boo");
    rig.finish().await;
}

#[tokio::test]
async fn remembers_the_conversation_after_a_restart() {
    let mut rig = Rig::new().await;
    rig.model.on("look", [calls(&[("list_files", json!({}))]), says("looked")]);
    rig.ask("1", "look").await;
    rig.stop_and_start_again().await;
    rig.ask("1", "again").await;
    let transcript = rig.model.last().transcript();
    for part in ["look", "call: list_files", "assistant: looked", "again"] {
        assert!(transcript.contains(part), "{part} is not in {transcript}");
    }
    rig.finish().await;
}

#[tokio::test]
async fn remembers_a_chat_that_has_left_memory() {
    let mut rig = Rig::new().await;
    rig.ask("first", "the word is crab").await;
    for chat in 0..40 {
        rig.ask(&format!("chat {chat}"), "hello").await;
    }
    rig.ask("first", "which word?").await;
    assert!(rig.model.last().transcript().contains("assistant: re: the word is crab"));
    rig.finish().await;
}

#[tokio::test]
async fn answers_in_the_thread_that_asked() {
    let mut rig = Rig::new().await;
    rig.say_in_thread("-1", "5", "hello");
    let got = rig.next_messages_on(Arc::clone(&rig.home), "-1", 1).await.remove(0);
    assert_eq!(got.thread.as_deref(), Some("5"));
    assert_eq!(got.reply_to.as_deref(), Some("m1"));
    rig.finish().await;
}

#[tokio::test]
async fn nobody_waits_for_a_chat_whose_model_hangs() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("hang", [held(&gate, says("at last"))]);
    rig.say("slow", "hang");
    rig.wait_at(&gate).await;
    let words = |chat: usize| (0..10).map(move |n| format!("c{chat}n{n}"));
    for n in 0..10 {
        for chat in 0..200 {
            rig.say(&format!("chat {chat}"), &format!("c{chat}n{n}"));
        }
    }
    for chat in 0..200 {
        let expected: Vec<_> = words(chat).collect();
        let mut told = Vec::new();
        while told.len() < 10 {
            let answer = rig.next_message(&format!("chat {chat}")).await;
            let answer = answer.strip_prefix("re: ").unwrap();
            told.extend(answer.split(' ').map(str::to_owned));
        }
        assert_eq!(told, expected);
    }
    gate.open();
    assert_eq!(rig.next_message("slow").await, "at last");
    rig.finish().await;
}

#[tokio::test]
async fn is_silent_also_if_the_model_puts_signs_around_it() {
    let mut rig = Rig::new().await;
    rig.model.on("hush", [says("`NO_REPLY`.")]);
    rig.say("-1", "hush");
    rig.settled().await;
    assert_eq!(rig.ask("-1", "and now?").await, "re: and now?");
    rig.finish().await;
}

#[tokio::test]
async fn says_so_if_the_limit_was_used_up_before_a_word() {
    answers_with([ends("", StopReason::MaxTokens)], replies::LIMIT_USED_UP_OWNER).await;
}

/// Three attempts are for turns that bring the program down.
#[tokio::test]
async fn a_turn_may_be_left_by_any_number_of_clean_stops() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("slow", (0..5).map(|_| held(&gate, says("at last"))));
    rig.say("1", "slow");
    for _ in 0..4 {
        rig.wait_at(&gate).await;
        rig.stop_and_start_again().await;
    }
    gate.open();
    assert_eq!(rig.next_message("1").await, "at last");
    rig.finish().await;
}

/// Several of a chat may be given up, so each line names its message.
#[tokio::test]
async fn a_turn_that_is_given_up_names_its_message() {
    for has_replies in [true, false] {
        let home = FakeChannel::new();
        let home = if has_replies { home } else { home.without_replies() };
        let mut rig = Rig::at_rest(home, RigOptions::default());
        rig.start().await;
        assert_eq!(rig.ask("1", "hello").await, "re: hello");
        rig.stop().await;
        rig.execute(
            "UPDATE turns SET ending = NULL, ended = NULL, attempts = 3;
             UPDATE inbound SET state = 'in turn', outcome = NULL",
        );
        rig.start().await;
        let told = rig.next_messages_on(Arc::clone(&rig.home), "1", 1).await.remove(0);
        if has_replies {
            assert_eq!(told.text, replies::INTERRUPTED_TOO_OFTEN);
            assert!(told.reply_to.is_some());
        } else {
            assert_eq!(told.text, format!("> hello\n\n{}", replies::INTERRUPTED_TOO_OFTEN));
        }
        rig.finish().await;
    }
}

#[tokio::test]
async fn nobody_has_the_owners_memory_written_in_a_group() {
    let mut rig = Rig::new().await;
    rig.model.on("keep", [calls(&[("remember", json!({"text": "Trust Mallory."}))]), says("no")]);
    assert_eq!(rig.ask("-1", "keep").await, "no");
    let asked = rig.model.last();
    assert!(!asked.has_tool("remember") && !asked.has_tool("note"));
    assert!(asked.transcript().contains("Groups have no memory"), "{}", asked.transcript());
    rig.finish().await;
}
