//! Answers that repeat themselves are cut, and nothing else is.

use peacrab::provider::repetition::{BLOCK_MAX, RepetitionWatch, TIMES, WithoutRepetition};
use peacrab::replies;

use proptest::prelude::*;

use super::*;

fn kept(text: &str, chunk: usize) -> Option<String> {
    let mut watch = RepetitionWatch::default();
    let signs: Vec<char> = text.chars().collect();
    signs.chunks(chunk).find_map(|piece| watch.push(&piece.iter().collect::<String>()))
}

#[test]
fn a_block_that_repeats_is_cut_to_one() {
    let check = |before: &str, block: &str, times: usize, expected: &str| {
        let text = format!("{before}{}", block.repeat(times));
        assert_eq!(kept(&text, 3).as_deref(), Some(expected), "{block}");
    };
    check("Being ", "_creative", 400, "Being _creative");
    check("", "I am a helpful assistant. ", 30, "I am a helpful assistant.");
    check("Well:\n", "And then\nit rained.\n", 25, "Well:\nAnd then\nit rained.");
    check("The answer is ", "a", 100, "The answer is a");
    check("", "🦀 x ", 30, "🦀 x");
    check("Rule: ", "-", 400, "Rule: -");
}

#[test]
fn what_is_meant_is_not_cut() {
    let rows = "| 0 | 0 | 0 | yes |\n".repeat(200);
    let lines = "    x = x + 1\n".repeat(200);
    for text in [
        format!("A table:\n\n| a | b | c | d |\n|---|---|---|---|\n{rows}\nThat is all."),
        format!("```python\n{lines}```\nThat is all."),
        format!("~~~\n{lines}~~~\n"),
        format!("1{}", "0".repeat(100)),
        format!("Title\n{}\ntext\n{}\n", "=".repeat(80), "-".repeat(120)),
        format!("ha{}!", "ha".repeat(15)),
        (1..200).map(|n| format!("- item {n}\n")).collect(),
        "- [ ] \n".repeat(30),
        "na ".repeat(16) + "Batman!",
    ] {
        assert_eq!(kept(&text, 7), None, "{text}");
    }
}

/// Behind a code block and a table the watch goes on.
#[test]
fn words_behind_code_are_watched() {
    let text = format!("```\nx\n```\n| a |\n{}", "and so on ".repeat(40));
    assert_eq!(kept(&text, 5).as_deref(), Some("```\nx\n```\n| a |\nand so on"));
}

#[tokio::test]
async fn the_answer_ends_with_a_note() {
    let api = ModelApi::start(Platform::OpenAi).await;
    let mut events: Vec<_> =
        (0..200).map(|_| super::openai::chunk(&json!({"content": "_creative"}))).collect();
    events.push(super::openai::finish("stop"));
    api.reply(Reply::events(&events));
    let watched = WithoutRepetition::new(provider(&api));
    let (completion, deltas) = ask(&watched).await;
    let completion = completion.unwrap();
    assert_eq!(completion.text, "_creative");
    assert_eq!(completion.note.as_deref(), Some(replies::REPEATED));
    let passed = deltas.iter().filter(|delta| matches!(delta, Delta::Text(_))).count();
    assert!(passed <= TIMES + 1, "{passed}");
    api.finish();
}

/// Words that follow each other as they like.
fn prose() -> impl Strategy<Value = String> {
    let word = "[a-zäöü]{1,9}";
    let sentence = prop::collection::vec(word, 3..14).prop_map(|words| words.join(" ") + ". ");
    prop::collection::vec(sentence, 1..12).prop_map(|sentences| sentences.concat())
}

proptest! {
    #[test]
    fn ordinary_text_is_never_cut(text in prose(), chunk in 1_usize..40) {
        prop_assert_eq!(kept(&text, chunk), None);
    }

    #[test]
    fn code_tables_and_lists_are_never_cut(line in "[a-z ]{0,30}", times in 1_usize..80, chunk in 1_usize..40) {
        let code = format!("So:\n```\n{}```\nDone.", format!("{line}\n").repeat(times));
        prop_assert_eq!(kept(&code, chunk), None);
        let table = format!("So:\n{}\nDone.", format!("| {line} |\n").repeat(times));
        prop_assert_eq!(kept(&table, chunk), None);
        let list: String = (0..times).map(|n| format!("{n}. {line}\n")).collect();
        prop_assert_eq!(kept(&list, chunk), None);
    }

    #[test]
    fn repeated_blocks_are_always_cut(before in prose(), block in "[a-z][a-z0-9 ,.äß🦀_-]{0,199}", chunk in 1_usize..300) {
        let length = block.chars().count();
        prop_assert!(length <= BLOCK_MAX);
        let times = TIMES.max(60_usize.div_ceil(length)) + 1;
        let text = format!("{before}\n{}", block.repeat(times));
        let kept = kept(&text, chunk);
        prop_assert!(kept.is_some());
        let kept = kept.unwrap_or_default();
        prop_assert!(text.starts_with(&kept));
        prop_assert!(kept.chars().count() <= before.chars().count() + 1 + 2 * length);
    }
}
