//! Every history that can be is sent in a form that the APIs accept, and so that consecutive
//! requests share their beginning.

use peacrab::conversation::shorten;
use peacrab::turn::compaction::shown;
use peacrab::types::session::{Intent, StepMark, Thinking};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;

use crate::support::tool_context::said;

const BOTH: [Platform; 2] = [Platform::OpenAi, Platform::Anthropic];

fn words() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" \n".to_owned()), Just("Hi 🦀".to_owned()), "\\PC{0,8}"]
}

fn outcome() -> impl Strategy<Value = CallOutcome> {
    prop_oneof![
        Just(CallOutcome::Planned),
        running(),
        words().prop_map(CallOutcome::Done),
        Just(CallOutcome::Done("seen ".repeat(500))),
        words().prop_map(CallOutcome::Failed),
        Just(CallOutcome::Interrupted),
        Just(CallOutcome::Skipped),
    ]
}

fn running() -> impl Strategy<Value = CallOutcome> {
    let intent = Intent::File {
        path: "a".to_owned(),
        before: None,
        after: Some("0".to_owned()),
        undoes: None,
    };
    words().prop_map(move |result| CallOutcome::Running { intent: intent.clone(), result })
}

fn any_call() -> impl Strategy<Value = Call> {
    let wire_id = prop_oneof![Just("call_1".to_owned()), Just(String::new()), "\\PC{0,60}"];
    let tool = prop_oneof![Just("look".to_owned()), "\\PC{0,80}"];
    let arguments = prop_oneof![
        Just(r#"{"path": "a", "list": [1, {"b": null}]}"#.to_owned()),
        Just("{\"path\": ".to_owned()),
        Just("[1]".to_owned()),
        Just(String::new()),
    ];
    (wire_id, tool, arguments, outcome()).prop_map(|(wire_id, tool, arguments, outcome)| Call {
        id: CallId(1),
        wire_id,
        tool,
        arguments,
        outcome,
        sources: Vec::new(),
        images: Vec::new(),
    })
}

fn thinking() -> impl Strategy<Value = Thinking> {
    let model = prop_oneof![Just(MODEL.to_owned()), Just("other".to_owned())];
    let block = prop_oneof![
        Just(json!({"type": "thinking", "thinking": "Hm.", "signature": "s"})),
        Just(json!({"type": "redacted_thinking", "data": "d"})),
        Just(json!("not a block")),
    ];
    (model, block).prop_map(|(model, block)| Thinking { model, block })
}

fn step() -> impl Strategy<Value = Step> {
    (option::of(words()), words(), vec(thinking(), 0..3), vec(any_call(), 0..4)).prop_map(
        |(input, text, thinking, calls)| {
            let input = input.as_deref().map(said);
            Step { input, images: Vec::new(), text, thinking, calls, is_summarized: false }
        },
    )
}

fn ending() -> impl Strategy<Value = Option<TurnOutcome>> {
    prop_oneof![
        Just(None),
        Just(Some(TurnOutcome::Answered)),
        Just(Some(TurnOutcome::Silent)),
        Just(Some(TurnOutcome::Stopped)),
        Just(Some(TurnOutcome::Failed)),
    ]
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    vec((vec(step(), 0..4), ending()).prop_map(|(steps, ending)| turn(steps, ending)), 0..4)
}

/// What is sent of a long conversation: a summary in place of the oldest turns, old results shortened.
fn fold(mut turns: Vec<Turn>, count: usize, step: usize) -> Vec<Turn> {
    turns.drain(..count.min(turns.len()));
    shorten::apply(&mut turns, StepMark { turn: TurnId(1), step });
    if let Some(first) = turns.first_mut().and_then(|turn| turn.steps.first_mut()) {
        let input = first.input.take().unwrap_or_default();
        first.input = Some(said(&format!("{}\n\n{input}", shown("It rained."))));
    }
    turns
}

#[test]
fn is_always_accepted() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for platform in BOTH {
        let api = runtime.block_on(ModelApi::start(platform));
        let provider = provider(&api);
        let cases = (turns(), option::of(words()), option::of((0_usize..4, 0_usize..4)));
        TestRunner::new(ProptestConfig::with_cases(crate::support::effort::cases(128)))
            .run(&cases, |(turns, input, compacted)| {
                let turns =
                    compacted.map_or(turns.clone(), |(count, mark)| fold(turns, count, mark));
                api.reply(Reply::events(&answer(platform, "Hi")));
                let asking = ask_after(&*provider, &turns, input.as_deref());
                let (completion, _) = runtime.block_on(asking);
                prop_assert_eq!(
                    completion.map(|it| it.text).map_err(|it| it.to_string()),
                    Ok("Hi".to_owned())
                );
                Ok(())
            })
            .unwrap();
        api.finish();
    }
}

/// The whole body as sent, but for the cache breakpoints, which move.
fn bytes(body: &Value) -> String {
    body.to_string().replace(r#","cache_control":{"type":"ephemeral"}"#, "")
}

#[tokio::test]
async fn grows_at_its_end_only() {
    let seen = |id: &str| call(id, CallOutcome::Done("seen".to_owned()));
    let input = |text: &str| Some(said(text));
    let first = Step { input: input("See?"), calls: vec![seen("a"), seen("b")], ..Step::default() };
    let second = Step { text: "I saw it.".to_owned(), ..Step::default() };
    let third = Step { input: input("Again."), calls: vec![seen("a")], ..Step::default() };
    let done = || turn(vec![first.clone(), second.clone()], Some(TurnOutcome::Answered));
    let requests = [
        (vec![], Some("See?")),
        (vec![turn(vec![first.clone()], None)], None),
        (vec![done()], Some("Again.")),
        (vec![done(), turn(vec![third.clone()], None)], None),
        (vec![done(), turn(vec![third.clone()], None)], Some("Stop that.")),
    ];
    for platform in BOTH {
        let api = ModelApi::start(platform).await;
        let provider = provider(&api);
        for (turns, input) in &requests {
            api.reply(Reply::events(&answer(platform, "Hi")));
            ask_after(&*provider, turns, *input).await.0.unwrap();
        }
        let sent: Vec<_> = api.requests().iter().map(bytes).collect();
        for (before, after) in sent.iter().zip(&sent[1..]) {
            // All but the brackets that end it.
            let kept = before.trim_end_matches(['}', ']']);
            assert!(after.starts_with(kept), "\n{before}\n{after}");
        }
        api.finish();
    }
}

#[tokio::test]
async fn says_how_a_turn_ended_that_has_no_answer() {
    let api = ModelApi::start(Platform::OpenAi).await;
    api.reply(Reply::events(&answer(Platform::OpenAi, "Hi")));
    let input = |text: &str| Step { input: Some(said(text)), ..Step::default() };
    let turns = [
        turn(vec![input("One")], Some(TurnOutcome::Silent)),
        turn(vec![input("Two")], Some(TurnOutcome::Stopped)),
        turn(vec![input("Three")], Some(TurnOutcome::Failed)),
    ];
    ask_after(&*provider(&api), &turns, Some("Four")).await.0.unwrap();
    let requests = api.requests();
    let said: Vec<_> = requests[0]["messages"].as_array().unwrap()[1..]
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(
        said,
        [
            "One",
            "NO_REPLY",
            "Two",
            "[Stopped by the person.]",
            "Three",
            "[This failed; the person was told why.]",
            "Four"
        ]
    );
    api.finish();
}
