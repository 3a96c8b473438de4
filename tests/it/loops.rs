//! A turn that goes in circles is told so, and then ended; one whose steps are used up has a last word.

use peacrab::replies;
use peacrab::turn::loops::{LoopVerdict, verdict};
use peacrab::types::session::{Call, CallId, CallOutcome, Step};
use serde_json::json;

use crate::support::rig::{Rig, RigOptions};
use crate::support::script::{calls, says};

/// A step for each letter: the same letter is the same call with the same result; a capital failed.
fn steps(letters: &str) -> Vec<Step> {
    let call = |letter: char| Call {
        id: CallId(1),
        wire_id: "w".to_owned(),
        tool: "look".to_owned(),
        arguments: letter.to_string(),
        outcome: match letter {
            '?' => CallOutcome::Planned,
            letter if letter.is_uppercase() => CallOutcome::Failed(letter.to_string()),
            letter => CallOutcome::Done(letter.to_string()),
        },
        sources: Vec::new(),
        images: Vec::new(),
    };
    letters.chars().map(|letter| Step { calls: vec![call(letter)], ..Step::default() }).collect()
}

#[test]
fn knows_circles_from_progress() {
    use LoopVerdict::{Fine, Stop, Warn};
    for (letters, expected) in [
        ("", Fine),
        ("aa", Fine),
        ("abcabd", Fine),
        ("baa", Fine),
        ("aaa", Warn),
        ("aaab", Fine),
        ("xaaaa", Warn),
        ("aaaaa", Stop),
        ("aaaa?", Warn),
        ("abab", Fine),
        ("ababab", Warn),
        ("xababababab", Stop),
        ("ABCD", Fine),
        ("ABCDE", Warn),
        ("ABCDEFGH", Stop),
        ("ABCDEFGx", Fine),
    ] {
        assert_eq!(verdict(&steps(letters)), expected, "{letters}");
    }
}

#[test]
fn counts_steps_however_many_calls_they_have() {
    use LoopVerdict::{Fine, Stop, Warn};
    for (letters, expected) in [
        ("ABCDEFGH", Fine),
        ("aaaaa", Fine),
        ("ABCD EFGH", Fine),
        ("AB CD EF GH", Fine),
        ("AB CD EF GH IJ", Warn),
        ("AB CD EF GH IJ KL MN OP", Stop),
        ("AB CD EF GH IJ KL MN Op", Fine),
        ("ab ab ab", Warn),
        ("ab ba ab", Fine),
        ("ab abc ab", Fine),
        ("ab ab ab ab ab", Stop),
    ] {
        let step = |letters: &str| Step {
            calls: steps(letters).into_iter().flat_map(|step| step.calls).collect(),
            ..Step::default()
        };
        let steps: Vec<_> = letters.split(' ').map(step).collect();
        assert_eq!(verdict(&steps), expected, "{letters}");
    }
}

#[tokio::test]
async fn a_model_sees_what_came_of_many_calls_that_failed_at_once() {
    let mut rig = Rig::new().await;
    let paths: Vec<_> = (0..8).map(|n| json!({ "path": format!("missing-{n}.md") })).collect();
    let all: Vec<_> = paths.iter().map(|path| ("read_file", path.clone())).collect();
    rig.model.on("do it", [calls(&all), says("None of them is there.")]);
    assert_eq!(rig.ask("1", "do it").await, "None of them is there.");
    assert!(!rig.model.last().whole().contains("same calls with the same results"));
    rig.finish().await;
}

#[tokio::test]
async fn warns_a_model_that_goes_in_circles_and_then_ends_its_turn_in_words() {
    let mut rig = Rig::new().await;
    let again = |n| (0..n).map(|_| calls(&[("list_files", json!({}))]));
    rig.model.on("do it", again(3));
    rig.model.on("same calls", again(2));
    assert_eq!(rig.ask("1", "do it").await, replies::REPEATED_CALLS);
    let asked = rig.model.asked();
    let warned = |at: usize| asked[at].whole().contains("same calls with the same results");
    assert_eq!((asked.len(), warned(2), warned(3)), (5, false, true));
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

#[tokio::test]
async fn a_model_whose_steps_are_used_up_says_what_it_has() {
    let mut parts = RigOptions::default();
    parts.agent.steps_max = 2;
    let mut rig = Rig::of(parts).await;
    let call = || calls(&[("list_files", json!({}))]);
    rig.model.on("do it", [call(), call()]);
    rig.model.on("used up", [says("half of it")]);
    let words = rig.ask("1", "do it").await;
    assert_eq!(words, format!("half of it\n\n{}", replies::steps_exhausted(2)));
    assert!(!rig.model.last().may_call);
    rig.finish().await;
}
