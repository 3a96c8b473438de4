//! The pure parts: estimates, which turns stay whole, what a result is shortened to, what a summary is
//! asked for.

use peacrab::conversation::shorten::{self, WHOLE_CHARS_MAX};
use peacrab::conversation::tokens::{self, tokens};
use peacrab::turn::compaction::{KeptWhole, kept, parts, request, shown};
use peacrab::types::session::{
    Call, CallId, CallOutcome, Step, StepMark, TokenEstimate, Turn, TurnId, TurnOutcome,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::effort;
use crate::support::tool_context::said;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "\\PC{0,40}",
        ("\\PC{1,12}", 0_usize..900).prop_map(|(word, times)| word.repeat(times)),
        Just("蟹は小さい\n".repeat(300)),
    ]
}

fn outcome() -> impl Strategy<Value = CallOutcome> {
    prop_oneof![
        4 => text().prop_map(CallOutcome::Done),
        2 => text().prop_map(CallOutcome::Failed),
        1 => Just(CallOutcome::Planned),
        1 => Just(CallOutcome::Skipped),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let arguments = prop_oneof![
        Just(r#"{"path": "a.md"}"#.to_owned()),
        Just("{\"path\": ".to_owned()),
        "\\PC{0,300}".prop_map(|path| serde_json::json!({ "path": path }).to_string()),
    ];
    let tool = prop_oneof![Just("read_file".to_owned()), "\\PC{0,300}"];
    (tool, arguments, outcome()).prop_map(|(tool, arguments, outcome)| Call {
        id: CallId(1),
        wire_id: "w".to_owned(),
        tool,
        arguments,
        outcome,
        sources: Vec::new(),
        images: Vec::new(),
    })
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let step = (proptest::option::of(text()), text(), vec(call(), 0..4)).prop_map(heard_step);
    vec(vec(step, 1..4), 0..6).prop_map(|turns| {
        let turn = |(id, steps)| Turn {
            id: TurnId(id),
            by: "7".into(),
            steps,
            ending: Some(TurnOutcome::Answered),
        };
        (1..).zip(turns).map(turn).collect()
    })
}

fn heard_step((input, text, calls): (Option<String>, String, Vec<Call>)) -> Step {
    Step { input: input.as_deref().map(said), text, calls, ..Step::default() }
}

fn mark() -> impl Strategy<Value = StepMark> {
    (0_i64..8, 0_usize..6).prop_map(|(turn, step)| StepMark { turn: TurnId(turn), step })
}

/// What becomes of a conversation while its turns run.
#[derive(Clone, Debug)]
enum Doing {
    /// A turn begins, or is taken off again.
    Begin(Step),
    TakeOff,
    Step(Step),
    /// The last step gets what the model made, the one before what came of its calls.
    Fill(Step),
    Skip,
    Shorten(StepMark),
    Fold(usize),
}

fn doing() -> impl Strategy<Value = Doing> {
    let step = || (proptest::option::of(text()), text(), vec(call(), 0..3)).prop_map(heard_step);
    prop_oneof![
        2 => step().prop_map(Doing::Begin),
        1 => Just(Doing::TakeOff),
        4 => step().prop_map(Doing::Step),
        2 => step().prop_map(Doing::Fill),
        1 => Just(Doing::Skip),
        1 => mark().prop_map(Doing::Shorten),
        1 => (0_usize..4).prop_map(Doing::Fold),
    ]
}

fn happen(doing: Doing, turns: &mut Vec<Turn>, estimate: &mut TokenEstimate) {
    let id = TurnId(turns.iter().map(|turn| turn.id.0).max().unwrap_or_default() + 1);
    let turn = |step| Turn { id, by: "7".into(), steps: vec![step], ending: None };
    match (doing, turns.last_mut()) {
        (Doing::Begin(step), _) => turns.push(turn(step)),
        (Doing::TakeOff, _) => drop(turns.pop()),
        (Doing::Step(step), Some(last)) => last.steps.push(step),
        (Doing::Fill(step), Some(last)) => {
            last.steps.pop();
            last.steps.push(step);
        }
        (Doing::Skip, Some(last)) => {
            for call in last.steps.iter_mut().rev().take(2).flat_map(|step| &mut step.calls) {
                call.outcome = CallOutcome::Skipped;
            }
        }
        (Doing::Shorten(mark), _) => {
            shorten::apply(turns, mark);
            estimate.recount();
        }
        (Doing::Fold(count), _) => {
            turns.drain(..count.min(turns.len()));
            estimate.recount();
        }
        (Doing::Step(_) | Doing::Fill(_) | Doing::Skip, None) => {}
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(effort::cases(96)) }
}

#[test]
fn estimates_what_tokenizers_give() {
    for (text, least, most) in [
        ("The quick brown fox jumps over the lazy dog. ".repeat(10), 90, 130),
        ("蟹は小さい。".repeat(10), 45, 70),
        ("fn f(x: u32) -> u32 { x + 1 }".to_owned(), 7, 16),
        (String::new(), 0, 0),
    ] {
        let estimate = tokens(&text);
        assert!((least..=most).contains(&estimate), "{estimate} for {text}");
    }
}

#[test]
fn what_one_provider_taught_is_not_believed_of_the_next() {
    let mut estimate = TokenEstimate { used: 9_000, ..TokenEstimate::default() };
    estimate.learn(1_000, 2_000);
    estimate.lower_ceiling(10_000, 20_000);
    assert_eq!((estimate.counted(500), estimate.context_window(20_000)), (1_000, 9_000));
    estimate.forget_provider();
    assert_eq!(
        (estimate.counted(500), estimate.context_window(20_000), estimate.used),
        (500, 20_000, 9_000)
    );
}

#[test]
fn believes_the_provider_within_reason() {
    let mut estimate = TokenEstimate::default();
    assert_eq!(estimate.counted(700), 700);
    estimate.learn(1_000, 1_500);
    assert_eq!((estimate.counted(1_000), estimate.estimated(1_500)), (1_500, 1_000));
    estimate.learn(1_000, 0);
    assert_eq!(estimate.counted(1_000), 1_500);
    estimate.learn(100_000, 10);
    assert_eq!(estimate.counted(1_000), 500);
    estimate.lower_ceiling(10_000, 20_000);
    assert_eq!((estimate.context_window(20_000), estimate.context_window(5_000)), (9_000, 5_000));
    estimate.lower_ceiling(100, 20_000);
    assert_eq!(estimate.context_window(20_000), 5_000);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_longer_text_never_has_less_tokens(one in text(), more in text()) {
        let both = tokens(&format!("{one}{more}"));
        prop_assert!(both >= tokens(&one).max(tokens(&more)));
        prop_assert!(both <= tokens(&one) + tokens(&more));
    }

    #[test]
    fn the_kept_size_is_that_counted_anew(turns in turns(), more in vec(doing(), 0..30)) {
        let (mut turns, mut estimate) = (turns, TokenEstimate::default());
        for doing in more {
            happen(doing, &mut turns, &mut estimate);
            let anew: u64 = turns.iter().map(tokens::turn_tokens).sum();
            prop_assert_eq!(estimate.turns_tokens(&turns), anew);
            prop_assert_eq!(estimate.turns_tokens(&turns), anew);
        }
    }

    #[test]
    fn the_newest_turns_stay_whole(turns in turns(), turns_min in 1_usize..4, tokens_max in 0_u64..5_000) {
        let from = kept(&turns, KeptWhole { turns_min, tokens_max });
        let whole = &turns[from..];
        prop_assert!(whole.len() >= turns_min.min(turns.len()));
        let size: u64 = whole.iter().map(tokens::turn_tokens).sum();
        prop_assert!(whole.len() <= turns_min || size <= tokens_max);
        // No more is compacted than must be.
        if let Some(next) = from.checked_sub(1) {
            prop_assert!(size + tokens::turn_tokens(&turns[next]) > tokens_max);
        }
    }

    #[test]
    fn what_was_shortened_stays_as_it_is(turns in turns(), one in mark(), other in mark()) {
        let shortened = |mut turns: Vec<Turn>, mark| {
            shorten::apply(&mut turns, mark);
            turns
        };
        let once = shortened(turns.clone(), one);
        prop_assert_eq!(&shortened(once.clone(), one), &once);
        // In two moves as in one.
        let (less, more) = (one.min(other), one.max(other));
        prop_assert_eq!(
            shortened(shortened(turns.clone(), less), more),
            shortened(turns.clone(), more)
        );
        prop_assert!(shorten::saving(&once, one) == 0);
        for (before, after) in turns.iter().zip(&once) {
            for (at, (before_step, after_step)) in before.steps.iter().zip(&after.steps).enumerate() {
                let is_old = StepMark { turn: before.id, step: at } < one;
                prop_assert!(is_old || before_step == after_step);
                prop_assert_eq!(before_step.calls.len(), after_step.calls.len());
                for (call, short) in before_step.calls.iter().zip(&after_step.calls) {
                    let same = Call { outcome: call.outcome.clone(), ..short.clone() };
                    prop_assert_eq!(&same, call);
                    let long = |it: &Call| it.outcome.for_model().chars().count() > WHOLE_CHARS_MAX;
                    prop_assert!(!is_old || !long(short));
                    prop_assert!(long(call) || call == short);
                }
            }
        }
    }

    #[test]
    fn a_record_has_all_turns_in_parts_that_fit(turns in turns(), context_window in 0_u64..4_000) {
        let parts = parts(&turns, context_window);
        for part in &parts {
            prop_assert!(tokens(part) <= context_window.max(1_000) + 50, "{} tokens", tokens(part));
        }
        prop_assert!(parts.len() <= turns.len());
        let said = turns.iter().filter(|turn| turn.steps.iter().any(|step| !step.calls.is_empty()));
        prop_assert!(said.count() == 0 || !parts.is_empty());
    }

    #[test]
    fn nothing_in_a_record_passes_for_the_programs_words(
        words in vec("[\\[\\]| \n\r\u{2028}a-z]{0,30}", 3)
    ) {
        let whole = request(&words[0], &words[1], Some(&words[2]), 100) + "\n" + &shown(&words[0]);
        let own = whole.split(['\n', '\r', '\u{2028}']).filter(|line| !line.starts_with("| "));
        for line in own {
            prop_assert!(line.starts_with('[') && line.ends_with(']'), "{}", line);
        }
    }
}
