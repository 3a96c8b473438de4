//! Each sentence that the doctor has is quoted by a test of it, so that no line or advice comes without its fault.

use crate::tidy::{literals, none, rust_files};

/// A quotation of so many characters belongs to one sentence. Shorter parts of a sentence are quoted whole.
const QUOTED_CHARS: usize = 20;

/// The text that is written so in the code.
fn plain(literal: &str) -> String {
    // A backslash at the end of a line joins it with the words of the next.
    let mut lines = literal.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let text = lines.fold(first, |text, line| text + line.trim_start());
    text.replace("\\\"", "\"")
}

/// The longest part of a text that is always the same.
fn fixed_part(text: &str) -> &str {
    let parts = text.split('{').enumerate().map(|(at, part)| match at {
        0 => part,
        _ => part.split_once('}').map_or(part, |(_, rest)| rest),
    });
    parts.max_by_key(|part| part.len()).unwrap_or_default().trim()
}

/// Returns true if a text is one for people: words with a blank between them, and no format of a time.
fn is_sentence(text: &str) -> bool {
    text.trim().contains(' ') && !text.starts_with('%')
}

/// Returns true if a text is quoted in the texts of the tests.
fn is_quoted(text: &str, quotations: &str) -> bool {
    let part = fixed_part(text);
    let starts = part.char_indices().map(|(start, _)| start);
    let mut pieces = starts.filter_map(|start| part.get(start..start + QUOTED_CHARS)).peekable();
    let is_long = pieces.peek().is_some();
    match is_long {
        true => pieces.any(|piece| quotations.contains(piece)),
        false => quotations.contains(part),
    }
}

#[test]
fn each_sentence_of_the_doctor_is_shown_by_a_test() {
    let of_doctor = |name: &str| name.starts_with("src/doctor") || name == "src/cli/doctor.rs";
    let of_tests =
        |name: &str| name.starts_with("tests/it/doctor") && name != "tests/it/doctor/lines.rs";
    let texts = |is_wanted: &dyn Fn(&str) -> bool, folder: &str| -> Vec<(String, String)> {
        let files = rust_files(&[folder]).into_iter().filter(|file| is_wanted(&file.name()));
        let of_file = |file: crate::tidy::File| {
            let code: String = file.code().map(|(_, line)| format!("{line}\n")).collect();
            let texts = literals(&code).into_iter().map(plain);
            texts.map(|text| (file.name(), text)).collect::<Vec<_>>()
        };
        files.flat_map(of_file).collect()
    };
    let quotations: Vec<String> =
        texts(&of_tests, "tests/it").into_iter().map(|(_, text)| text).collect();
    let quotations = quotations.join("\n");
    let sentences: Vec<_> =
        texts(&of_doctor, "src").into_iter().filter(|(_, text)| is_sentence(text)).collect();
    assert!(sentences.len() > 100, "{sentences:?}");
    let unseen = sentences.iter().filter(|(_, text)| !is_quoted(text, &quotations));
    none(
        unseen.map(|(file, text)| format!("{file}: {text}")),
        "bring each of these about in a test in tests/it/doctor, and assert what the doctor says",
    );
}

#[test]
fn sentences_that_no_test_quotes_are_found() {
    let (long, short) =
        ("{shown} is not on its disk, because {mount} is not mounted", "it is {state}");
    assert_eq!(fixed_part(long), "is not on its disk, because");
    for (text, quotations, is_found) in [
        (long, "WRONG backups: /mnt is not on its disk, because", true),
        (long, "is not on its", false),
        (short, "warn  service: it is inactive", true),
        (short, "it was inactive", false),
    ] {
        assert_eq!(is_quoted(text, quotations), is_found, "{text}: {quotations}");
    }
    assert_eq!(plain("say \\\"on\\\" \\\n         twice"), "say \"on\" twice");
    assert!(
        is_sentence("it is read-only") && !is_sentence("store") && !is_sentence("%Y-%m-%d %H:%M")
    );
}
