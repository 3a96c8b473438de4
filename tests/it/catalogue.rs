//! The bot's own sentences stand in `src/replies` and nowhere else, each is used, and none is a part of a prompt. Checked by
//! reading the source as text, as `tidy` does.

use std::collections::BTreeSet;

use crate::tidy::{File, is_name, literals, none, rust_files};

/// The functions that send a text to people, and the values that hold one.
const SENDS: [&str; 5] = [
    "outbox::put(",
    "outbox::put_replacement(",
    "outbox::put_urgent(",
    "outbox::put_body(",
    "Body::Text(",
];

/// Where sentences stand that the bot does not say to people in a chat.
const OTHER_READERS: [(&str, &str); 17] = [
    ("src/cli", "the person who types a command"),
    ("src/conversation/shorten.rs", "the model"),
    ("src/gateway/http/metrics.rs", "Prometheus"),
    ("src/provider/probe.rs", "the model"),
    ("src/provider/rehearsal.rs", "answers of the model's stand-in"),
    ("src/provider/used_marker.rs", "the model"),
    ("src/tasks/schedule/note.rs", "the model"),
    ("src/tools", "the model"),
    ("src/turn/background/subagent.rs", "the model"),
    ("src/turn/calls.rs", "the model"),
    ("src/turn/compaction.rs", "the model"),
    ("src/turn/extraction/record.rs", "the model"),
    ("src/turn/notes.rs", "the model"),
    ("src/turn/prompt.rs", "the model"),
    ("src/turn/run/permitting.rs", "the model"),
    ("src/workspace/file_reads.rs", "the log"),
    // The descriptions of commands are the menus' and the page's, and `/help` takes them from there.
    ("src/types/", "menus, and calls that the model sees as not run"),
];

/// The files that make prompts: the system prompt, the messages, the summaries, and their form for each API.
const PROMPTS: [&str; 12] = [
    "src/conversation/shorten.rs",
    "src/memory",
    "src/provider/anthropic",
    "src/provider/request.rs",
    "src/provider/openai",
    "src/provider/text_tools",
    "src/turn/compaction",
    "src/turn/extraction",
    "src/turn/instructions",
    "src/turn/notes.rs",
    "src/turn/prompt",
    "src/workspace",
];

/// A function of the catalogue that makes no sentence: the check for invisible characters.
const NO_SENTENCE: &str = "is_invisible";

#[test]
fn every_sentence_is_used() {
    let (catalogue, others) = sources();
    let inside: String = catalogue.iter().map(code_of).collect();
    let outside: String = others.iter().map(code_of).collect();
    let mut names = 0;
    let mut unused = Vec::new();
    for file in &catalogue {
        for (_, line) in file.code() {
            let Some(name) = defined(line) else { continue };
            names += 1;
            if !is_used_outside(&outside, name) && uses(&inside, name) < 2 {
                unused.push(format!("{}: {name}", file.name()));
            }
        }
    }
    assert!(names > 400, "only {names} sentences were found");
    none(unused, "take these out of the catalogue, or say them");
}

#[test]
fn unused_sentences_are_found() {
    let outside =
        "use crate::replies::{self, LAST};\nreplies::said(1); other::never(); x.replies::FULL_STOP";
    assert!(is_used_outside(outside, "said") && is_used_outside(outside, "LAST"));
    assert!(!is_used_outside(outside, "never") && !is_used_outside(outside, "FULL"));
    assert_eq!(defined("pub const fn every(seconds: i64) -> String {"), Some("every"));
    assert_eq!(defined("pub const STOPPED: &str = \"Stopped.\";"), Some("STOPPED"));
    assert_eq!(defined("const QUOTED_CHARS_MAX: usize = 60;"), None);
    assert_eq!(uses("pub const A: &str = \"a\"; say(A_B, A)", "A"), 2);
}

#[test]
fn sentences_for_people_stand_in_the_catalogue() {
    let (_, others) = sources();
    let mut found = Vec::new();
    for file in &others {
        let code = code_of(file);
        for send in SENDS {
            let calls = code.match_indices(send).map(|(at, _)| arguments(&code[at + send.len()..]));
            let written = calls.filter(|arguments| !literals(arguments).is_empty());
            found.extend(written.map(|it| format!("{}: {send}{it})", file.name())));
        }
        if OTHER_READERS.iter().any(|(place, _)| file.name().starts_with(place)) {
            continue;
        }
        let sentences = literals(&code).into_iter().filter(|text| is_sentence(text));
        found.extend(sentences.map(|text| format!("{}: {text}", file.name())));
    }
    none(found, "move these to src/replies, or name their readers in OTHER_READERS");
}

#[test]
fn sentences_are_told_from_other_texts() {
    for text in
        ["Nothing is waiting for approval.", "Job {id} is paused. Resume it?", "“{}” goes on!"]
    {
        assert!(is_sentence(text), "{text}");
    }
    for text in [
        "Cannot reach the channel, will keep trying",
        "it is too large",
        "SELECT 1 FROM a.",
        "Stop.",
    ] {
        assert!(!is_sentence(text), "{text}");
    }
    assert_eq!(arguments("store, &f(\"a\"), x) + \"b\""), "store, &f(\"a\"), x");
}

#[test]
fn no_sentence_enters_a_prompt() {
    let (_, others) = sources();
    let mut makers = BTreeSet::new();
    let mut found = Vec::new();
    for file in &others {
        let Some(maker) = PROMPTS.iter().find(|it| file.name().starts_with(**it)) else { continue };
        makers.insert(*maker);
        for (at, line) in file.code().filter(|(_, line)| line.contains("replies")) {
            if !line.contains(NO_SENTENCE) {
                found.push(format!("{}:{at}: {}", file.name(), line.trim()));
            }
        }
    }
    assert_eq!(makers, BTreeSet::from(PROMPTS), "correct the names in PROMPTS");
    none(found, "write words for the model in `turn::prompt`: the catalogue may be translated");
}

#[test]
#[expect(clippy::print_stdout, reason = "its cost is read by people")]
fn the_catalogue_is_small() {
    let (catalogue, _) = sources();
    let texts: Vec<_> = catalogue.iter().map(code_of).collect();
    let texts: Vec<_> = texts.iter().flat_map(|code| literals(code)).collect();
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    // They lie in the program's read-only data, from which the kernel loads the pages that are used.
    println!(
        "the catalogue has {} texts with {bytes} bytes, and needs no other memory",
        texts.len()
    );
    assert!(bytes < 100_000, "{bytes} bytes of text");
}

/// The files of the catalogue, and all others.
fn sources() -> (Vec<File>, Vec<File>) {
    rust_files(&["src"]).into_iter().partition(|file| file.name().starts_with("src/replies"))
}

/// The code without comments, which may quote a sentence.
fn code_of(file: &File) -> String {
    file.code().map(|(_, line)| format!("{line}\n")).collect()
}

/// The name of the sentence that a line defines.
fn defined(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let rest = rest.strip_prefix("const ").unwrap_or(rest);
    let is_function = rest.starts_with("fn ");
    if !is_function && !line.starts_with("pub const ") {
        return None;
    }
    let rest = rest.strip_prefix("fn ").unwrap_or(rest);
    let end = rest.find(|c: char| !is_name(c))?;
    Some(&rest[..end])
}

/// The number of times that a name stands in code.
fn uses(code: &str, name: &str) -> usize {
    let ends = |at: usize| !code[at + name.len()..].starts_with(is_name);
    code.match_indices(name).filter(|(at, _)| !code[..*at].ends_with(is_name) && ends(*at)).count()
}

/// Returns true if code of another module names a sentence by its path, or imports it.
fn is_used_outside(code: &str, name: &str) -> bool {
    let mut named = code.match_indices("replies::").map(|(at, path)| &code[at + path.len()..]);
    named.any(|rest| match rest.strip_prefix('{') {
        Some(group) => uses(group.split('}').next().unwrap_or_default(), name) > 0,
        None => rest.strip_prefix(name).is_some_and(|rest| !rest.starts_with(is_name)),
    })
}

/// The arguments of a call whose opening bracket was just before.
fn arguments(code: &str) -> &str {
    let mut depth = 1;
    let end = code.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    &code[..end.unwrap_or(code.len())]
}

/// Returns true for three words or more that begin with a capital letter or a quotation mark, and end as a sentence does.
fn is_sentence(text: &str) -> bool {
    const SQL: [&str; 6] = ["SELECT", "INSERT", "UPDATE", "DELETE", "FROM", "WHERE"];
    let text = text.trim();
    let words: Vec<_> = text.split_whitespace().collect();
    words.len() >= 3
        && text.starts_with(|c: char| c.is_uppercase() || c == '“')
        && text.trim_end_matches([')', '”', '"']).ends_with(['.', '!', '?'])
        && !words.iter().any(|word| SQL.contains(word))
}
