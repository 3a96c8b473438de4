//! A long question that was decided shows its end, in which the code that others wrote stays code.

use peacrab::channels::Unit;
use peacrab::channels::markup::{Markup, render};
use peacrab::types::message::{AllowedPressers, Question};
use proptest::prelude::*;
use serde_json::json;

use super::approving;
use crate::support::rig::Rig;
use crate::support::script::{calls, says};

const LINK: &str = "[pay](https://evil.example)";

fn end(text: &str) -> String {
    Question::new(text.to_owned(), Vec::new(), AllowedPressers::Owner).end()
}

fn check(text: &str, expected: &str) {
    assert_eq!(end(text), expected, "{text}");
}

#[tokio::test]
async fn the_content_of_a_file_stays_code_once_its_question_is_decided() {
    let mut rig = Rig::of(approving(|_| {})).await;
    let content = format!("{LINK}\n").repeat(60);
    let writes = calls(&[("write_file", json!({"path": "note.md", "content": content}))]);
    rig.model.on("write", [writes, says("Written.")]);
    let question = rig.ask("1", "write it").await;
    assert!(question.contains(LINK), "{question}");
    rig.say("1", "/deny 1");
    let heard = rig.next_messages("1", 3).await;
    let closed = heard.iter().find(|text| text.contains("→ No")).expect("it is closed");
    assert!(closed.starts_with("```\n") && closed.contains(LINK), "{closed}");
    assert!(closed.contains("Approve?"), "{closed}");
    assert!(!shows_link(closed), "{closed}");
    rig.finish().await;
}

/// Returns true if a chat would show the link as one.
fn shows_link(text: &str) -> bool {
    let shown = render(text, Markup::TelegramHtml, 4_000, Unit::Utf16).concat();
    shown.contains("<a href")
}

#[test]
fn it_begins_at_a_line_or_opens_its_fence_again() {
    check("```\nshort\n```\nApprove?", "```\nshort\n```\nApprove?");
    let code = "x".repeat(600);
    check(
        &format!("a\n````diff\n{code}\n````\nOk?"),
        &format!("````\n{}\n````\nOk?", &code[..491]),
    );
    // The cut is in the line that closes the fence, or in the one that opens it.
    let rest = "y".repeat(498);
    check(&format!("a\n```\n{LINK}\n```\n{rest}"), &rest);
    let rest = "y".repeat(489);
    check(&format!("a\n```json\n{rest}\n```\nOk?"), &format!("```\n{rest}\n```\nOk?"));
    // Prose begins at the next line, or at the next word of the last line.
    check(&format!("{code}\nOk?"), "Ok?");
    check(&format!("a {} b {}", "c".repeat(9), "d".repeat(494)), &format!("b {}", "d".repeat(494)));
    check(&code, &code[..500]);
    check("", "");
}

proptest! {
    #[test]
    fn code_stays_code_wherever_the_cut_is(lines in 1..80_usize, words in 0..560_usize) {
        let code = format!("{LINK}\n").repeat(lines);
        let text = format!("I'd like to run it with:\n```diff\n{code}```\n{}", "w".repeat(words));
        prop_assert!(!shows_link(&end(&text)), "{}", end(&text));
        prop_assert!(shows_link(LINK));
    }
}
