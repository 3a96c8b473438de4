//! Within a turn: old results are shortened, then the conversation is compacted at once, and a prompt that
//! is too long all the same is made shorter twice.

use std::fs;

use peacrab::provider::ProviderError;
use peacrab::replies;
use serde_json::{Value, json};

use super::{RECORD, asked_for, long, plain, rig};
use crate::support::rig::Rig;
use crate::support::script::{Reply, calls, says};

const LEFT_OUT: &str = "characters are left out here";

/// Files of about 2,000 tokens each, and the calls that read the first of them.
fn files(rig: &Rig, n: usize) {
    for n in 0..n {
        let text = format!("begin{n} {} end{n}", "lorem ipsum sit ".repeat(480));
        fs::write(rig.workspace().join(format!("f{n}.md")), text).unwrap();
    }
}

fn reads(files: impl IntoIterator<Item = usize>) -> Reply {
    let calls_of = files.into_iter().map(|n| ("read_file", json!({"path": format!("f{n}.md")})));
    let all: Vec<(&str, Value)> = calls_of.collect();
    calls(&all)
}

#[tokio::test]
async fn shortens_old_results_within_a_long_turn() {
    let mut rig = rig().await;
    files(&rig, 8);
    rig.model.on("read", (0..8).map(|n| reads([n])).chain([plain("done")]));
    assert_eq!(rig.ask("1", "read").await, "done");
    let asked = rig.model.asked();
    let last = asked.last().unwrap();
    let results: Vec<_> = last.messages.iter().filter(|it| it.starts_with("result: ")).collect();
    assert_eq!(results.len(), 8);
    let shortened = results.iter().filter(|it| it.contains(LEFT_OUT)).count();
    assert!((1..=6).contains(&shortened), "{shortened} are shortened");
    assert!(results[0].contains("begin0") && results[0].contains("end0"), "{}", results[0]);
    assert!(results[0].contains("Read f0.md again if you need them."), "{}", results[0]);
    assert!(!results[6].contains(LEFT_OUT) && !results[7].contains(LEFT_OUT));
    // The cache breaks now and then, not each time.
    let grows = |pair: &&[_]| {
        let [before, after]: &[super::Asked; 2] = (*pair).try_into().unwrap();
        after.messages[..before.messages.len()] == before.messages
    };
    let broken = asked.windows(2).filter(|pair| !grows(pair)).count();
    assert!((1..=3).contains(&broken), "it broke {broken} times");
    // The same after a restart; the store has all of it.
    rig.stop_and_start_again().await;
    rig.model.on("and now", [plain("yes")]);
    rig.ask("1", "and now").await;
    let after = rig.model.last();
    assert_eq!(after.messages[..last.messages.len()], last.messages);
    assert!(
        rig.query(&format!("SELECT output FROM calls WHERE output LIKE '%{LEFT_OUT}%'")).is_empty()
    );
    rig.finish().await;
}

#[tokio::test]
async fn folds_the_conversation_within_a_turn_that_needs_the_room() {
    let mut rig = rig().await;
    files(&rig, 7);
    for n in ["n0", "n1"] {
        rig.model.on(n, [plain(&format!("{}{}{n}", long(), "lorem ipsum sit ".repeat(100)))]);
        rig.ask("1", n).await;
    }
    rig.model.on("read", [reads([0, 1, 2]), reads([3, 4, 5, 6]), plain("done")]);
    rig.model.on(RECORD, [plain("The key is 4711.")]);
    assert_eq!(rig.ask("1", "read").await, "done");
    let transcript = rig.model.last().transcript();
    assert!(transcript.contains("| The key is 4711.") && !transcript.contains("sit n0"));
    // The turn that runs stays whole, and the one before it would leave too little room.
    assert!(!transcript.contains("sit n1") && transcript.contains("begin6"), "{transcript}");
    assert_eq!(asked_for(&rig, RECORD).len(), 1);
    rig.finish().await;
}

/// Four short turns, and a question that the model finds too long so often.
async fn too_long(times: usize, summaries: Vec<Reply>) -> (Rig, String) {
    let mut rig = Rig::new().await;
    for n in 0..4 {
        rig.ask("1", &format!("n{n}")).await;
    }
    let fails = (0..times).map(|_| Reply::Fails(ProviderError::TooLong));
    rig.model.on("what now", fails.chain((times < 3).then(|| plain("better"))));
    rig.model.on(RECORD, summaries);
    let answer = rig.ask("1", "what now").await;
    (rig, answer)
}

#[tokio::test]
async fn compacts_for_a_model_with_less_room() {
    let (rig, answer) = too_long(1, vec![plain("The key is 4711.")]).await;
    assert_eq!(answer, "better");
    let transcript = rig.model.last().transcript();
    assert!(transcript.contains("4711") && transcript.contains("n3"), "{transcript}");
    assert!(!transcript.contains("n2"), "{transcript}");
    rig.finish().await;
}

#[tokio::test]
async fn compacts_twice_for_a_model_with_less_room() {
    let summaries = vec![plain("The key is 4711."), plain("The key is still 4711.")];
    let (rig, answer) = too_long(2, summaries).await;
    assert_eq!(answer, "better");
    let transcript = rig.model.last().transcript();
    assert!(transcript.contains("still 4711") && !transcript.contains("n3"), "{transcript}");
    rig.finish().await;
}

/// A model with less room than it was thought to have, in the middle of a long turn.
#[tokio::test]
async fn compacts_the_steps_of_a_turn_and_records_their_calls() {
    let mut rig = Rig::new().await;
    fs::write(rig.workspace().join("a.md"), "crab").unwrap();
    let write =
        |path: &str| calls(&[("write_file", json!({"path": path, "content": "one\ntwo [three]"}))]);
    let read = |path: &str| calls(&[("read_file", json!({"path": path}))]);
    let steps = [write("b.md"), read("none.md"), read("a.md"), read("b.md")];
    let too_long = Reply::Fails(ProviderError::TooLong);
    rig.model.on("do it", steps.into_iter().chain([too_long]));
    rig.model.on(RECORD, [plain("The key is 4711.")]);
    rig.model.on("You have made these calls", [plain("done")]);
    assert_eq!(rig.ask("1", "do it").await, "done");
    let last = rig.model.last().transcript();
    let record = "\n- write_file `b.md`: done\n- read_file `none.md`: failed]\ncall: read_file";
    assert!(last.contains("| The key is 4711.") && last.contains(record), "{last}");
    assert!(last.contains("do it"), "{last}");
    assert_eq!(last.matches("result: ").count(), 2, "{last}");
    // The same from now on, also after a restart.
    rig.stop_and_start_again().await;
    rig.model.on("thanks", [plain("welcome")]);
    assert_eq!(rig.ask("1", "thanks").await, "welcome");
    assert!(rig.model.last().transcript().starts_with(&last), "{}", rig.model.last().transcript());
    rig.finish().await;
}

#[tokio::test]
async fn says_so_if_it_is_too_long_after_two_compactions() {
    let summaries = vec![plain("The key is 4711."), plain("The key is still 4711.")];
    let (mut rig, answer) = too_long(3, summaries).await;
    assert_eq!(answer, replies::TOO_LONG);
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

/// The result of a subagent that came while a turn waits stands before that turn, and is the younger one.
#[tokio::test]
async fn a_turn_that_has_heard_of_a_subagent_outlives_a_compaction() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    let asks = calls(&[
        ("spawn", json!({"task": "count"})),
        ("ask_question", json!({"question": "Which?"})),
    ]);
    let too_long = Reply::Fails(ProviderError::TooLong);
    rig.model.on("go", [asks, too_long, says("Red it is.")]);
    rig.model.on("count", [calls(&[("task_completion", json!({"result": "42"}))])]);
    rig.model.on("the new summary", [says("They said hello.")]);
    rig.say("1", "go");
    let mut input = rig.next_messages("1", 2).await;
    input.sort();
    assert_eq!(input, [replies::subagent_ended(1, "count", true, "42"), "Which?".to_owned()]);
    assert_eq!(rig.ask("1", "red").await, "Red it is.");
    let told = rig.model.last().transcript();
    assert!(told.contains("They said hello.") && told.contains("assistant: 42"), "{told}");
    assert!(told.ends_with("red"), "{told}");
    rig.ask("1", "thanks").await;
    assert!(rig.model.last().transcript().contains("Red it is."));
    rig.finish().await;
}

#[tokio::test]
async fn forgets_the_older_half_if_there_is_no_summary() {
    let refused = Reply::Fails(ProviderError::Refused("no".to_owned()));
    let (mut rig, answer) = too_long(1, vec![refused]).await;
    assert_eq!(answer, "better");
    let transcript = rig.model.last().transcript();
    assert!(transcript.contains("n2") && !transcript.contains("n1"), "{transcript}");
    rig.stop_and_start_again().await;
    rig.ask("1", "and now?").await;
    assert!(!rig.model.last().transcript().contains("n1"));
    rig.finish().await;
}
