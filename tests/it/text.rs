//! Cutting long texts into messages.

use peacrab::channels::Unit;
use peacrab::channels::text::{CHUNK_MIN, length, split};
use proptest::prelude::*;

fn check(text: &str, max: usize, expected: &[&str]) {
    assert_eq!(split(text, max, Unit::Utf16), expected);
}

#[test]
fn leaves_short_texts_alone() {
    check("Hello.\n\n  indented\n", 100, &["Hello.\n\n  indented"]);
    check("", 100, &[]);
    check(" \n\t\n", 100, &[]);
}

#[test]
fn prefers_paragraphs_then_lines_then_sentences_then_words() {
    check("one two\nthree\n\nfour five six", 20, &["one two\nthree", "four five six"]);
    check("one two three\nfour five six", 20, &["one two three", "four five six"]);
    check("One two three. Four five six.", 20, &["One two three.", "Four five six."]);
    check("one two three four five", 18, &["one two three four", "five"]);
    check(
        "一二三四五六七八九。一二三四五六七八九",
        16,
        &["一二三四五六七八九。", "一二三四五六七八九"],
    );
    check("abcdefghijklmnopqrstuvwxyz", 16, &["abcdefghijklmnop", "qrstuvwxyz"]);
}

#[test]
fn keeps_the_indentation_of_a_line_after_a_cut() {
    check("- first point\n  - second", 16, &["- first point", "  - second"]);
}

#[test]
fn counts_what_the_platform_counts() {
    let text = "🦀".repeat(20);
    assert_eq!(length(&text, Unit::Utf16), 40);
    assert_eq!(split(&text, 20, Unit::Utf16), ["🦀".repeat(10), "🦀".repeat(10)]);
    assert_eq!(split(&text, 20, Unit::Chars), ["🦀".repeat(20)]);
}

#[test]
fn does_not_part_an_emoji_from_its_skin_tone() {
    check(&format!("{}👍🏽", "a".repeat(14)), 16, &["aaaaaaaaaaaaaa", "👍🏽"]);
}

#[test]
fn closes_a_cut_fence_and_opens_it_again_with_its_language() {
    check(
        "Look:\n```rust\nlet a = 1;\n    let b = 2;\nlet c = 3;\n```\nDone.",
        35,
        &[
            "Look:\n```rust\nlet a = 1;\n```",
            "```rust\n    let b = 2;\n```",
            "```rust\nlet c = 3;\n```\nDone.",
        ],
    );
}

#[test]
fn makes_no_empty_code_blocks() {
    check(
        "Some words here\n```\ncode1\ncode2\n```",
        24,
        &["Some words here", "```\ncode1\ncode2\n```"],
    );
    check(
        "```\naaaaaaaaaaaa\n```\nafter that comes",
        20,
        &["```\naaaaaaaaaaaa\n```", "after that comes"],
    );
}

/// Text as people and models write it: words, emoji, blank lines, fences.
fn writing() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        3 => "[a-z]{1,12}[.!?]? ",
        1 => "[a-z ]{0,90}",
        1 => "\\PC{0,30}",
        1 => Just("👩‍👩‍👧‍👦 🇩🇪 é ".to_owned()),
        1 => "\n{1,3} {0,4}",
        1 => "\n```(rust|)\n([a-z(){};]{0,30}\n {0,4}){0,6}```\n",
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// All that is not white space and not part of a fence's line.
fn substance(text: &str) -> String {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("```"))
        .flat_map(str::chars)
        .filter(|char| !char.is_whitespace())
        .collect()
}

/// The text without code blocks in which there is nothing: their language is not shown either.
fn without_empty_blocks(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut opener = None;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        match opener {
            None if is_fence => opener = Some(lines.len()),
            Some(at) if is_fence => {
                opener = None;
                if lines[at + 1..].iter().all(|line| line.trim().is_empty()) {
                    lines.truncate(at);
                    continue;
                }
            }
            _ => {}
        }
        lines.push(line);
    }
    lines.join("\n")
}

fn ink(text: &str) -> Vec<char> {
    text.chars().filter(|char| !char.is_whitespace()).collect()
}

/// Whether `part` can be had from `whole` by leaving characters out.
fn is_within(part: &[char], whole: &[char]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|char| whole.any(|other| other == char))
}

fn units() -> impl Strategy<Value = Unit> {
    prop_oneof![Just(Unit::Utf16), Just(Unit::Chars)]
}

proptest! {
    #[test]
    fn chunks_fit_and_are_not_blank(text in prop_oneof![writing(), any::<String>()], max in CHUNK_MIN..200, unit in units()) {
        for chunk in split(&text, max, unit) {
            prop_assert!(length(&chunk, unit) <= max, "{chunk:?}");
            prop_assert!(!chunk.trim().is_empty());
        }
    }

    #[test]
    fn nothing_is_lost(text in prop_oneof![writing(), any::<String>()], max in CHUNK_MIN..200, unit in units()) {
        let chunks = split(&text, max, unit);
        prop_assert_eq!(substance(&chunks.join("\n")).len() >= substance(&text).len(), true);
        // Fences are added, and a closing one may stand for the text's own.
        let without = |text: &str| ink(text).into_iter().filter(|char| !"`~".contains(*char)).collect::<Vec<_>>();
        let whole = without(&without_empty_blocks(&text));
        prop_assert!(is_within(&whole, &without(&chunks.join("\n"))), "{chunks:?}");
    }

    #[test]
    fn plain_text_comes_through_as_it_was(text in "[a-zé🦀 .\n]{0,400}", max in CHUNK_MIN..200) {
        let chunks = split(&text, max, Unit::Utf16);
        prop_assert_eq!(ink(&chunks.concat()), ink(&text));
    }

    #[test]
    fn every_chunk_but_the_last_has_whole_fences(text in writing(), max in 40_usize..200) {
        let chunks = split(&text, max, Unit::Utf16);
        for chunk in chunks.iter().rev().skip(1) {
            prop_assert!(is_whole(chunk), "{chunk:?}");
        }
    }
}

/// Whether each fence that is opened with backticks is closed.
fn is_whole(chunk: &str) -> bool {
    let mut open = None;
    for line in chunk.lines() {
        let body = line.trim_start_matches(' ');
        let ticks = body.len() - body.trim_start_matches('`').len();
        let info = &body[ticks..];
        if line.len() - body.len() > 3 || ticks < 3 {
            continue;
        }
        open = match open {
            None if !info.contains('`') => Some(ticks),
            Some(before) if ticks >= before && info.trim().is_empty() => None,
            same => same,
        };
    }
    open.is_none()
}
