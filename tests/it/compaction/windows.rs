//! Small windows and long memories: few calls of the model for each message, and nothing that is too long for it.

use std::fs;

use peacrab::conversation::tokens::tokens;
use peacrab::provider::{Delta, StopReason, ToolCall};
use peacrab::replies;
use serde_json::json;

use super::{NOTES, RECORD, asked_for, has_summaries, long, plain, rig};
use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{Rig, RigOptions};
use crate::support::script::{Asked, Reply, ScriptedModel, calls};

/// Short turns that a conversation has.
const TURNS: usize = 40;

async fn with_memory(context_window: u64, memory_bytes: usize) -> Rig {
    let mut rig = Rig::at_rest(FakeChannel::with(false, 1_000_000), RigOptions::default());
    rig.model = ScriptedModel::with_room(context_window);
    fs::create_dir_all(rig.workspace()).unwrap();
    rig.start().await;
    let fact = "- The crab in the garden pond likes to be fed at seven in the evening.\n";
    let memory = fact.repeat(memory_bytes / fact.len());
    fs::write(rig.workspace().join("memory/MEMORY.md"), format!("# Memory\n\n{memory}")).unwrap();
    rig
}

fn size(asked: &Asked) -> u64 {
    let tools: u64 = asked.tools.iter().map(peacrab::provider::ToolSchema::tokens).sum();
    tools + tokens(&asked.system.concat()) + tokens(&asked.transcript())
}

/// The answer to a message, and what else was said before it.
async fn answered(rig: &mut Rig, text: &str) -> Vec<String> {
    rig.say("1", text);
    let mut others = Vec::new();
    loop {
        let input = rig.next_message("1").await;
        if input.starts_with("re: ") {
            return others;
        }
        others.push(input);
    }
}

#[tokio::test]
async fn a_long_memory_does_not_make_each_message_dear() {
    for window in [2_048_u64, 4_096, 8_192, 32_768] {
        let context_window = window - window / 8;
        let mut rig = with_memory(context_window, 18_000).await;
        rig.model.on(RECORD, (0..50).map(|_| plain("They talk of the weather.")));
        // Nobody counts its tokens, so that ours stand.
        rig.model
            .on("on the weather", (0..TURNS).map(|_| plain("re: It will rain, and then not.")));
        let mut told = Vec::new();
        for n in 0..TURNS {
            told.extend(answered(&mut rig, &format!("message {n} on the weather of today")).await);
        }
        rig.settled().await;
        let asked = rig.model.asked();
        assert!(asked.len() <= TURNS * 3 / 2, "{} calls at {window}", asked.len());
        for asked in &asked {
            assert!(
                size(asked) <= context_window,
                "{} of {context_window} tokens: {}",
                size(asked),
                asked.transcript()
            );
        }
        let changed = asked.windows(2).filter(|pair| pair[0].messages[0] != pair[1].messages[0]);
        assert!(changed.count() <= TURNS / 3, "the beginning changed too often at {window}");
        // The owner is told once that the memory is too long.
        assert_eq!(told.len(), 1, "at {window}: {told:?}");
        assert!(told[0].starts_with("Your MEMORY.md is too long for "), "{}", told[0]);
        let answer = rig.ask("1", "/new").await;
        assert!(answered(&mut rig, "once more").await.is_empty(), "after {answer}");
        // Nobody knows how many of the replies were needed.
        rig.stop().await;
    }
}

#[tokio::test]
async fn notes_are_taken_only_after_much_was_said() {
    let mut rig = rig().await;
    rig.model.on(RECORD, [plain("The key is 4711."), plain("The key is 4711. It rained.")]);
    super::fill(&mut rig, "1", "n").await;
    has_summaries(&mut rig, 1).await;
    rig.model.on("m0", [plain(&long())]);
    rig.ask("1", "m0").await;
    let rained = "SELECT count(*) FROM sessions WHERE summary LIKE '%rained%'";
    rig.wait_for_count(rained, 1).await;
    assert_eq!(asked_for(&rig, RECORD).len(), 2);
    assert_eq!(asked_for(&rig, NOTES).len(), 1);
    rig.finish().await;
}

/// A step in which the model thinks aloud before it looks.
fn thinks_aloud(n: usize) -> Reply {
    let call = ToolCall {
        id: format!("call_{n}"),
        name: "list_files".to_owned(),
        arguments: json!({"depth": n + 1}).to_string(),
    };
    let text = format!("thought{n} {}", long());
    Reply::Says(vec![Delta::Text(text), Delta::Call(call), Delta::End(StopReason::Calls)])
}

#[tokio::test]
async fn a_single_long_turn_is_compacted_within() {
    let mut rig = rig().await;
    rig.model.on(RECORD, [plain("I thought 4711."), plain("I thought 4711 and 4712.")]);
    rig.model.on("look around", (0..6).map(thinks_aloud).chain([plain("done")]));
    assert_eq!(rig.ask("1", "look around").await, "done");
    let last = rig.model.last();
    let transcript = last.transcript();
    assert!(transcript.contains("| I thought 4711") && transcript.contains("look around"));
    assert!(!transcript.contains("thought0") && transcript.contains("thought5"), "{transcript}");
    assert!(asked_for(&rig, RECORD)[0].transcript().contains("thought0"));
    assert!(asked_for(&rig, NOTES).is_empty());
    // The same after a restart; the store has all of it.
    rig.stop_and_start_again().await;
    rig.model.on("and now", [plain("yes")]);
    rig.ask("1", "and now").await;
    let after = rig.model.last();
    assert_eq!(after.messages[..last.messages.len()], last.messages);
    assert_eq!(rig.query("SELECT text FROM steps WHERE text LIKE 'thought0%'").len(), 1);
    rig.finish().await;
}

#[tokio::test]
async fn compact_sees_what_was_noted_since_the_last_turn() {
    let mut rig = rig().await;
    for n in 0..2 {
        rig.ask("1", &format!("n{n}")).await;
    }
    rig.model.on("go", [calls(&[("spawn", json!({"task": "count"}))]), plain("It counts.")]);
    rig.model.on("count", [calls(&[("task_completion", json!({"result": "42"}))])]);
    rig.say("1", "go");
    rig.next_messages("1", 2).await;
    rig.settled().await;
    rig.model.on(RECORD, [plain("A talk of numbers.")]);
    // The turn with the result and the one before it stay whole.
    assert_eq!(rig.ask("1", "/compact").await, replies::compacted(2, 4));
    rig.finish().await;
}
