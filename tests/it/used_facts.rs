//! The model marks the facts that an answer rests on: they are counted, and nobody sees the mark.

use peacrab::provider::{
    Attempts, Delta, Effort, Pictures, PromptMessage, Request, StopReason, complete,
};
use peacrab::types::event::EventKind;

use crate::support::rig::{OWNER, Rig, USER};
use crate::support::script::{Reply, Script, says};

/// The text and the numbers of an answer that comes in these pieces, and the text as it was seen on the way.
async fn completed(pieces: &[&str]) -> (String, Vec<i64>, String) {
    let script = Script::default();
    let pieces = pieces.iter().map(|piece| Delta::Text((*piece).to_owned()));
    script.on("", [Reply::Says(pieces.chain([Delta::End(StopReason::Done)]).collect())]);
    let pictures = Pictures::default();
    let request = Request {
        system: &[],
        tools: &[],
        may_call: false,
        effort: Effort::Default,
        attempts: Attempts::Usual,
        tokens_max: None,
        messages: vec![PromptMessage::User { text: "hello".to_owned(), images: Vec::new() }],
        pictures: &pictures,
    };
    let mut seen = String::new();
    let watch = |delta: &Delta| {
        if let Delta::Text(text) = delta {
            seen.push_str(text);
        }
    };
    let done = complete(&script, &request, watch).await.unwrap();
    (done.text, done.used_facts, seen)
}

#[tokio::test]
async fn the_mark_is_taken_out_however_it_is_cut_into_pieces() {
    let cases: [(&str, &str, &[i64]); 9] = [
        ("Seven.\n\n[used #1 #20]", "Seven.", &[1, 20]),
        ("Seven. [used #1, 2]\n", "Seven.", &[1, 2]),
        ("[used #3]", "", &[3]),
        ("Seven.\n", "Seven.\n", &[]),
        ("Buy [used #1] bikes.", "Buy [used #1] bikes.", &[]),
        ("A list [x] and [used cars]", "A list [x] and [used cars]", &[]),
        ("An open [used #1", "An open [used #1", &[]),
        ("Seven.\n[used #99999999999999999999]", "Seven.\n[used #99999999999999999999]", &[]),
        ("[", "[", &[]),
    ];
    for (answer, text, used) in cases {
        for first in 0..=answer.len() {
            for second in first..=answer.len() {
                let pieces = [&answer[..first], &answer[first..second], &answer[second..]];
                let (got, numbers, seen) = completed(&pieces).await;
                assert_eq!(
                    (got.as_str(), &*numbers, seen.as_str()),
                    (text, used, text),
                    "{pieces:?}"
                );
            }
        }
    }
}

const ACCESSES: &str = "SELECT id || ': ' || accesses FROM facts ORDER BY id";

#[tokio::test]
async fn marked_facts_are_counted_and_nobody_sees_the_mark() {
    let mut rig = Rig::new().await;
    rig.say_as(USER, "2", "/remember Zoe likes figs");
    rig.hear("2").await;
    rig.ask("1", "/remember Ada is seven").await;
    rig.ask("1", "/remember The bicycle is red").await;
    let mut events = rig.events.as_ref().unwrap().subscribe();
    let answer = "She is seven.\n\n[used #2 #1 #99]";
    rig.model.on("how old", [says(answer)]);
    assert_eq!(rig.ask("1", "how old is she?").await, "She is seven.");
    // Another person's fact, and one that there is not, are not counted.
    assert_eq!(rig.look(ACCESSES), ["1: 0", "2: 1", "3: 0"]);
    assert_eq!(rig.look("SELECT text FROM steps WHERE text <> ''"), ["She is seven."]);
    let mut seen = String::new();
    loop {
        match events.next().await.unwrap().what {
            EventKind::Text { text } => seen.push_str(&text),
            EventKind::TurnEnd { .. } => break,
            _ => {}
        }
    }
    assert_eq!(seen, "She is seven.");
    rig.ask("1", "hello").await;
    assert!(!rig.model.last().transcript().contains("[used"));
    // A mark for a fact that the message had to do with counts once.
    rig.model.on("bicycle", [says("Red.\n[used #3]")]);
    rig.ask("1", "what colour has my bicycle?").await;
    assert_eq!(rig.look(ACCESSES), ["1: 0", "2: 1", "3: 1"]);
    rig.finish().await;
}

#[tokio::test]
async fn only_who_has_facts_is_told_of_the_mark() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    assert!(!rig.model.last().whole().contains("[used"));
    rig.ask("1", "/remember Ada is seven").await;
    rig.ask("1", "/new").await;
    rig.ask("1", "hello").await;
    assert!(rig.model.last().system.join("\n").contains("[used #"));
    rig.say_as(OWNER, "-3", "hello");
    rig.hear("-3").await;
    assert!(!rig.model.last().whole().contains("[used"));
    rig.finish().await;
}
