//! The live view of a turn for a page that comes in its middle.

use serde_json::{Value, json};

use super::browser::{Browser, Stream, rig, url};
use crate::support::script::{Gate, calls, held, says};

/// The activity of a stream up to what is wanted.
async fn activity_until(stream: &mut Stream, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut seen = Vec::new();
    while !seen.last().is_some_and(&wanted) {
        seen.push(stream.next("activity").await.unwrap().data);
    }
    seen
}

#[tokio::test]
async fn a_page_that_comes_in_the_middle_of_a_turn_sees_its_earlier_steps() {
    let mut rig = rig().await;
    std::fs::write(rig.path().join("downloads/_page_[1].txt"), "what others wrote").unwrap();
    let gate = Gate::shut();
    let read = calls(&[("read_file", json!({"path": "downloads/_page_[1].txt"}))]);
    let wrong = calls(&[("read_file", json!({"path": "none.txt"}))]);
    rig.model.on("page", [read, wrong, held(&gate, says("Read."))]);
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    owner.say("main", "message-1", "the page").await;
    rig.wait_at(&gate).await;
    let mut late = owner.stream("main", "0.0").await;
    let mut elsewhere = owner.stream("other", "0.0").await;
    let mut bens = ben.stream("main", "0.0").await;
    let seen = activity_until(&mut late, |it| it["step"] == 2).await;
    assert_eq!(seen[0], json!({ "turn": "start", "id": 1 }));
    let calls: Vec<_> = seen.iter().filter(|it| it["ms"].is_u64()).collect();
    assert_eq!(calls.len(), 2, "{seen:?}");
    assert_eq!((&calls[0]["state"], &calls[1]["state"]), (&json!("done"), &json!("failed")));
    assert!(
        seen.iter().any(|it| it["args"] == "{\"path\":\"downloads/_page_[1].txt\"}"),
        "{seen:?}"
    );
    let source = json!(["the file downloads/_page_[1].txt (untrusted)"]);
    assert!(seen.iter().any(|it| it["sources"] == source), "{seen:?}");
    assert_eq!(seen.iter().filter(|it| it["usage"]["input"].is_u64()).count(), 2, "{seen:?}");
    // It goes on from there.
    gate.open();
    let seen = activity_until(&mut late, |it| it["turn"] == "end").await;
    assert!(seen.iter().any(|it| it["step"] == 2 && it["usage"]["input"].is_u64()), "{seen:?}");
    assert_eq!(late.answer().await, "Read.");
    rig.settled().await;
    // Nobody else was shown it, and nothing of it is shown once it is over.
    ben.say("main", "message-1", "hello").await;
    assert_eq!(bens.next("activity").await.unwrap().data, json!({ "turn": "start", "id": 2 }));
    rig.settled().await;
    owner.say("other", "message-2", "hello").await;
    assert_eq!(elsewhere.next("activity").await.unwrap().data, json!({ "turn": "start", "id": 3 }));
    let mut after = owner.stream("main", "0.0").await;
    assert_eq!(after.answer().await, "Read.");
    owner.say("main", "message-3", "and now?").await;
    assert_eq!(after.next("activity").await.unwrap().data, json!({ "turn": "start", "id": 4 }));
    rig.finish().await;
}

#[tokio::test]
async fn a_turn_that_waits_or_was_interrupted_shows_its_earlier_steps() {
    let mut rig = rig().await;
    let gate = Gate::shut();
    let list = calls(&[("list_files", json!({}))]);
    let asks = calls(&[("ask_question", json!({"question": "Which?"}))]);
    rig.model.on("paint", [list, asks, held(&gate, says("Blue it is."))]);
    let owner = Browser::owner(&rig).await;
    owner.say("main", "message-1", "paint it").await;
    rig.wait_for_count("SELECT count(*) FROM asks WHERE state = 'open'", 1).await;
    let started = |seen: &[Value]| -> Vec<String> {
        let starts = seen.iter().filter(|it| it["state"] == "start");
        starts.map(|it| it["tool"].as_str().unwrap().to_owned()).collect()
    };
    let mut stream = owner.stream("main", "0.0").await;
    let seen = activity_until(&mut stream, |it| it["tool"] == "ask_question").await;
    assert_eq!(started(&seen), ["list_files", "ask_question"]);
    drop(stream);
    rig.stop_and_start_again().await;
    let owner = Browser { url: url(&rig).await, ..owner };
    let mut stream = owner.stream("main", "0.0").await;
    let seen = activity_until(&mut stream, |it| it["tool"] == "ask_question").await;
    assert_eq!(started(&seen), ["list_files", "ask_question"]);
    // It goes on as the same turn.
    owner.say("main", "message-2", "blue").await;
    let seen = activity_until(&mut stream, |it| it["turn"] == "start").await;
    assert_eq!(seen.last().unwrap(), &json!({ "turn": "start", "id": 1 }));
    gate.open();
    while stream.answer().await != "Blue it is." {}
    rig.finish().await;
}
