//! Models that lie, or answer something else than JSON: only what fits the facts of the very person has an effect.

use peacrab::memory::extraction::answer::{ExtractedFacts, ExtractedText, parse};
use peacrab::memory::facts::{FactId, FactKind};
use peacrab::replies;
use proptest::prelude::*;

use super::{ADA, ASKED, FACTS, NOTHING, NOTICED, asked, extracting, reads, six_turns};
use crate::support::rig::{OWNER, USER};
use crate::support::script::says;

fn new(kind: FactKind, text: &str) -> ExtractedFacts {
    let new = vec![ExtractedText { kind, text: text.to_owned() }];
    ExtractedFacts { new, ..ExtractedFacts::default() }
}

#[test]
fn json_is_found_in_what_is_around_it() {
    let fact = r#"{"new":[{"kind":"people","text":"Ada is seven"}]}"#;
    let around = [
        fact.to_owned(),
        format!("```json\n{fact}\n```"),
        format!("Sure! Here {{are}} the facts:\n\n{fact}\n\nAnything else?"),
        format!("<think>maybe {{\"new\":[{{\"text\":\"wrong\"}}]}}</think>{fact}"),
        format!("{{\"name\": \"facts\"}} {fact} {{}}"),
        r#"{"new":[{"kind":"People","text":" Ada\n is  seven "}],"updated":null,"extra":[1]}"#.to_owned(),
        r#"{"new":[7,null,"x",{"kind":"people"},{"kind":"people","text":"Ada is seven"}],"removed":[]}"#.to_owned(),
    ];
    for answer in around {
        assert_eq!(parse(&answer), Some(new(FactKind::People, "Ada is seven")), "{answer}");
    }
}

#[test]
fn what_is_no_answer_is_none() {
    let long = format!("{{\"new\":[{{\"text\":\"{}\"}}]}}", "x".repeat(10 << 20));
    let deep = "{\"new\":[".repeat(100_000);
    for answer in [
        "",
        "NO_REPLY",
        "{",
        "[]",
        "{}",
        "{\"new\":3}",
        "{\"new\":[],\"removed\":[{\"id\":N}]}",
        "{\"new\":[{\"text\":\"cut o",
        &long,
        &deep,
    ] {
        assert_eq!(parse(answer), None, "{answer:.40}");
    }
}

#[test]
fn texts_that_no_fact_has_are_left_out() {
    let texts = [
        String::new(),
        "  ".to_owned(),
        "…".to_owned(),
        "é".repeat(501),
        "a\u{202e}b".to_owned(),
        "a\u{200b}b".to_owned(),
    ];
    for text in texts {
        let answer = serde_json::json!({ "new": [{ "text": text }], "updated": [{ "id": 1, "text": text }] });
        assert_eq!(parse(&answer.to_string()), Some(ExtractedFacts::default()), "{text}");
    }
    let ids = parse(
        r##"{"removed":[{"id":"#3"},4,"5",{"id":"x"},{"id":1e99}],"merged":[{"ids":[1,"2"],"text":"a"}]}"##,
    );
    let ids = ids.unwrap();
    assert_eq!(ids.removed, [FactId(3), FactId(4), FactId(5)]);
    assert_eq!(ids.merged, [(vec![FactId(1), FactId(2)], "a".to_owned())]);
    let many = format!("{{\"new\":[{}]}}", vec![r#"{"text":"a"}"#; 500].join(","));
    assert_eq!(parse(&many).unwrap().new.len(), 20);
}

proptest! {
    #[test]
    fn no_answer_breaks_the_parser(answer in "[{}\\[\\]\":,a-z0-9 \\\\\n#]{0,200}") {
        parse(&answer);
    }
}

#[tokio::test]
async fn ids_of_nobody_and_of_others_change_nothing() {
    let mut rig = extracting().await;
    rig.say_as(USER, "2", "/remember Zoe likes figs");
    rig.next_message("2").await;
    rig.ask("-3", "/remember our picnic is on Monday").await;
    rig.ask("1", "/remember Ada is seven").await;
    let before = rig.query(FACTS);
    let lie = r#"{"updated":[{"id":1,"text":"Zoe hates figs"},{"id":2,"text":"no picnic"},{"id":99,"text":"x"}],
        "merged":[{"ids":[1,3],"text":"all one"},{"ids":[3],"text":"alone"},{"ids":[3,3],"text":"twice"},{"ids":[],"text":"none"}],
        "removed":[{"id":1},{"id":2},{"id":-1},{"id":9223372036854775807}]}"#;
    rig.model.on(ASKED, [says(lie)]);
    six_turns(&mut rig, OWNER, "1", ADA).await;
    rig.wait_for_count("SELECT count(*) FROM extractions", 1).await;
    assert_eq!(rig.query(FACTS), before);
    assert_eq!(rig.query("SELECT text FROM facts WHERE ended IS NOT NULL"), Vec::<String>::new());
    rig.finish().await;
}

#[tokio::test]
async fn a_model_that_gives_no_json_is_asked_three_times_and_then_no_more() {
    let mut rig = extracting().await;
    let long = format!("{{\"new\":[{{\"text\":\"{}\"}}]}}", "crab ".repeat(2 << 20));
    rig.model.on(ASKED, [says("I cannot."), says(&long), says("{\"new\": ["), says(NOTICED)]);
    six_turns(&mut rig, OWNER, "1", ADA).await;
    for attempt in 1..=3 {
        reads(&mut rig, ASKED, attempt).await;
        let failed = match attempt {
            1 | 2 => format!("failures = {attempt} AND next IS NOT NULL"),
            _ => "failures = 0 AND taken >= 6".to_owned(),
        };
        rig.wait_for_count(&format!("SELECT count(*) FROM extractions WHERE {failed}"), 1).await;
        rig.execute("UPDATE extractions SET next = 1 WHERE next IS NOT NULL");
        // A turn elsewhere makes the worker look.
        rig.ask("5", "hello").await;
    }
    // A model that has failed is asked for less than the whole conversation.
    let read = asked(&rig, ASKED);
    assert!(!read[0].tools.is_empty() && read[1].tools.is_empty(), "{read:#?}");
    assert_eq!(rig.query(FACTS), Vec::<String>::new());
    six_turns(&mut rig, OWNER, "1", "and later").await;
    rig.wait_for_count("SELECT count(*) FROM facts", 1).await;
    assert!(!asked(&rig, ASKED)[3].messages.last().unwrap().contains(ADA));
    rig.finish().await;
}

#[tokio::test]
async fn a_fact_that_is_known_is_not_kept_twice() {
    let mut rig = extracting().await;
    rig.ask("1", "/remember Ada is seven").await;
    rig.model.on(
        ASKED,
        [says(r#"{"new":[{"text":"ada is SEVEN"},{"text":"Zoe"},{"text":"Zoe"}]}"#), says(NOTHING)],
    );
    six_turns(&mut rig, OWNER, "1", ADA).await;
    rig.wait_for_count("SELECT count(*) FROM facts", 2).await;
    assert_eq!(rig.query(FACTS), ["Ada is seven", "Zoe"]);
    assert_eq!(rig.ask("1", "/remember #1").await, replies::fact_already_known(1));
    assert_eq!(rig.ask("1", "/remember #99").await, replies::no_such_fact(99));
    six_turns(&mut rig, OWNER, "1", "more").await;
    reads(&mut rig, ASKED, 2).await;
    rig.finish().await;
}
