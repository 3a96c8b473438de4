//! The model marks the facts that an answer rests on: they are counted, and nobody sees the mark.

use peacrab::provider::{
    Attempts, Config, Delta, Effort, Pictures, PromptMessage, Request, StopReason, Structured,
    complete, connect,
};
use peacrab::types::event::EventKind;

use serde_json::{Value, json};

use crate::support::model_api::{ModelApi, Platform, Reply as ApiReply};
use crate::support::rig::{OWNER, Rig, RigOptions, USER};
use crate::support::script::{Reply, ScriptedModel, says};

/// The text and the numbers of an answer that comes in these pieces, and the text as it was seen on the way.
async fn completed(pieces: &[&str]) -> (String, Vec<i64>, String) {
    let script = ScriptedModel::default();
    let pieces = pieces.iter().map(|piece| Delta::Text((*piece).to_owned()));
    script.on("", [Reply::Says(pieces.chain([Delta::End(StopReason::Done)]).collect())]);
    let pictures = Pictures::default();
    let request = Request {
        system: &[],
        tools: &[],
        facts: &[1, 2, 3, 20],
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
    rig.next_message("2").await;
    rig.ask("1", "/remember Ada is seven").await;
    rig.ask("1", "/remember The bicycle is red").await;
    let mut events = rig.events.as_ref().unwrap().subscribe();
    let answer = "She is seven.\n\n[used #2 #1 #99]";
    rig.model.on("how old", [says(answer)]);
    assert_eq!(rig.ask("1", "how old is she?").await, "She is seven.");
    // Another person's fact, and one that there is not, are not counted.
    assert_eq!(rig.query(ACCESSES), ["1: 0", "2: 1", "3: 0"]);
    assert_eq!(rig.query("SELECT text FROM steps WHERE text <> ''"), ["She is seven."]);
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
    assert_eq!(rig.query(ACCESSES), ["1: 0", "2: 1", "3: 1"]);
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
    rig.next_message("-3").await;
    assert!(!rig.model.last().whole().contains("[used"));
    rig.finish().await;
}

/// What a model says in an answer of the schema.
fn answers(api: &ModelApi, text: &str, used: &Value) {
    let json = json!({"text": text, "used": used}).to_string();
    let (first, rest) = json.split_at(json.len() / 2);
    let chunk = |delta: &Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let ends = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let said = [chunk(&json!({"content": first})), chunk(&json!({"content": rest})), ends];
    api.reply(ApiReply::events(&said));
}

/// The facts that the schema of a request allows; null without a schema.
fn allowed(body: &Value) -> &Value {
    &body["response_format"]["json_schema"]["schema"]["properties"]["used"]["items"]["enum"]
}

#[tokio::test]
async fn a_schema_stays_the_same_until_the_next_conversation_and_counts_only_what_was_shown() {
    let api = ModelApi::start(Platform::OpenAi).await;
    let config = Config { structured: Structured::On, ..api.config() };
    let provider = connect("main", &config).unwrap();
    let mut rig = Rig::of(RigOptions { provider: Some(provider), ..RigOptions::default() }).await;
    answers(&api, "Hi.", &json!([]));
    rig.say("1", "hello");
    // Without facts the answer is a text as ever, whatever it looks like.
    assert_eq!(rig.next_message("1").await, json!({"text": "Hi.", "used": []}).to_string());
    rig.ask("1", "/new").await;
    rig.say_as(USER, "2", "/remember Zoe likes figs");
    rig.next_message("2").await;
    rig.ask("1", "/remember Ada is seven").await;
    let mut events = rig.events.as_ref().unwrap().subscribe();
    answers(&api, "She is “seven”.", &json!([1, 2, 3]));
    assert_eq!(rig.ask("1", "how old is she?").await, "She is “seven”.");
    let mut seen = String::new();
    loop {
        match events.next().await.unwrap().what {
            EventKind::Text { text } => seen.push_str(&text),
            EventKind::TurnEnd { .. } => break,
            _ => {}
        }
    }
    assert_eq!(seen, "She is “seven”.");
    // The model is told of the new fact beside the message, and the schema stays.
    rig.ask("1", "/remember The bicycle is red").await;
    answers(&api, "Red. [used #2]", &json!([3]));
    assert_eq!(rig.ask("1", "and the wheels?").await, "Red.");
    rig.ask("1", "/new").await;
    answers(&api, "Hello.", &json!([]));
    assert_eq!(rig.ask("1", "hello").await, "Hello.");
    let bodies = api.requests();
    let allowed: Vec<_> = bodies.iter().map(allowed).collect();
    assert_eq!(allowed, [&Value::Null, &json!([2]), &json!([2]), &json!([2, 3])]);
    assert_eq!(bodies[1]["response_format"], bodies[2]["response_format"]);
    assert_eq!(bodies[1]["messages"][0], bodies[2]["messages"][0]);
    assert_eq!(rig.query(ACCESSES), ["1: 0", "2: 2", "3: 0"]);
    assert_eq!(rig.query("SELECT text FROM steps WHERE text LIKE '%used%'").len(), 1);
    api.finish();
    rig.finish().await;
}

#[tokio::test]
async fn a_conversation_of_an_older_version_is_not_asked() {
    let mut rig = Rig::new().await;
    rig.ask("1", "/remember Ada is seven").await;
    rig.ask("1", "hello").await;
    assert_eq!(rig.model.last().facts, [1]);
    rig.stop().await;
    rig.execute(
        "UPDATE sessions SET frozen = json_remove(frozen, '$.facts.ids', '$.facts.told_ids')",
    );
    rig.start().await;
    rig.ask("1", "hello again").await;
    assert!(rig.model.last().whole().contains("Ada is seven"));
    assert_eq!(rig.model.last().facts, [0_i64; 0]);
    rig.finish().await;
}
