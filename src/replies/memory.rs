//! The bot's sentences about the facts that it keeps.

use std::fmt::Write as _;

use super::{as_is, shown_path};

pub const REMEMBER_USAGE: &str = "Use /remember with one or two sentences, such as: /remember My daughter Ada is seven. /memory shows what I know.";
pub const REMEMBER_IN_GROUPS: &str =
    "In a group, only an admin can tell me what to remember for the group.";
pub const FACTS_FULL: &str = "I can't keep more facts. /forget some first; /memory shows them.";
pub const NO_FACTS: &str = "I keep no facts about you yet. /remember TEXT keeps one. I can also search our past conversations.";
pub const NO_GROUP_FACTS: &str =
    "I keep no facts for this group yet. An admin can add one: /remember TEXT.";

pub fn fact_too_long(length: usize, most: usize) -> String {
    format!(
        "That has {length} characters, and a fact can have {most}. Say it in a sentence or two, or put it in a file."
    )
}

pub fn fact_saved(number: i64, text: &str) -> String {
    format!("I'll remember (#{number}): {}", as_is(text))
}

pub fn fact_already_known(number: i64) -> String {
    format!("I know that already (#{number}).")
}

/// A fact as people are shown it.
pub struct FactShown<'a> {
    pub number: i64,
    pub kind: &'a str,
    pub text: &'a str,
    /// Where it comes from.
    pub source: String,
    pub day: String,
    pub standing: FactStanding,
}

/// Where a fact stands, as people are told it.
pub enum FactStanding {
    InPrompt,
    /// Out of the prompt, and found again.
    Found,
    /// True until a day.
    Until(String),
    /// It waits for its person.
    Offered,
}

/// Where a fact comes from.
pub const SOURCE_YOU: &str = "you said so";
pub const SOURCE_OTHERS: &str = "someone else";
pub const SOURCE_NOTICED: &str = "noticed when we talked";
pub const SOURCE_KEPT: &str = "read somewhere, and you kept it";

/// The facts by kind; `more` are left out.
pub fn facts(facts: &[FactShown<'_>], more: usize) -> String {
    let mut text = String::new();
    let mut kind = "";
    for fact in facts {
        if fact.kind != kind {
            kind = fact.kind;
            let _ = writeln!(text, "{}:", heading(kind));
        }
        let FactShown { number, source, day, .. } = fact;
        let rested = match &fact.standing {
            FactStanding::InPrompt => String::new(),
            FactStanding::Found => "; recalled when relevant".to_owned(),
            FactStanding::Until(day) => format!("; until {day}"),
            FactStanding::Offered => "; not kept yet".to_owned(),
        };
        let _ = writeln!(text, "#{number} {} ({source}, {day}{rested})", as_is(fact.text));
    }
    if more > 0 {
        let _ = writeln!(text, "{more} more: /memory WORD shows those with a word in them.");
    }
    text.trim_end().to_owned()
}

fn heading(kind: &str) -> &'static str {
    match kind {
        "you" => "About you",
        "people" => "People",
        "wish" => "Wishes",
        "event" => "Events",
        _ => "Other facts",
    }
}

/// A fact in FACTS.md.
pub struct FactInFile<'a> {
    pub number: i64,
    pub kind: &'a str,
    pub text: &'a str,
    pub day: String,
}

/// The text of FACTS.md: facts by kind.
pub fn facts_file(facts: &[FactInFile<'_>]) -> String {
    let mut text = "# Facts\n\nI make this file from the facts that I keep about you. If you change, add or delete lines here, send \
         me `/memory FACTS.md`: I show what changed, and changes apply once you confirm.\n"
        .to_owned();
    let mut kind = "";
    for fact in facts {
        if fact.kind != kind {
            kind = fact.kind;
            let _ = writeln!(text, "\n## {}\n", heading(kind));
        }
        let _ = writeln!(text, "- {} (#{}, {})", fact.text, fact.number, fact.day);
    }
    text
}

pub const FACTS_FILE_UNCHANGED: &str = "FACTS.md has no changes.";
pub const FACTS_FILE_MADE_ANEW: &str = "I recreated FACTS.md, and kept the facts as they were.";
pub const EDITS_KEPT: &str = "Done. The facts are now as the file says.";
pub const KEEP_EDITS: &str = "Keep these changes";
pub const DROP_EDITS: &str = "Recreate the file";

pub fn facts_file_edits_too_many(number: usize, most: usize) -> String {
    format!(
        "FACTS.md has {number} changes, and I can show {most} at once. Change fewer lines, or have it recreated: \
         /memory FACTS.md no"
    )
}

/// A change in FACTS.md, as its person is shown it.
pub enum FactEditShown<'a> {
    New(&'a str),
    Instead { number: i64, from: &'a str, to: &'a str },
    Gone { number: i64, text: &'a str },
}

/// The changes in FACTS.md, whole.
pub fn facts_file_edits(edits: &[FactEditShown<'_>]) -> String {
    let mut text = "FACTS.md was changed. Shall I keep these changes?".to_owned();
    for edit in edits {
        let _ = match edit {
            FactEditShown::New(new) => write!(text, "\nnew: {}", as_is(new)),
            FactEditShown::Instead { number, from, to } => {
                write!(text, "\n#{number}: {} (before: {})", as_is(to), as_is(from))
            }
            FactEditShown::Gone { number, text: gone } => {
                write!(text, "\ndeleted: #{number} {}", as_is(gone))
            }
        };
    }
    text
}

/// Facts that were noticed in untrusted content, with their numbers; `more` are left out.
pub fn facts_offered(facts: &[(i64, &str)], more: usize) -> String {
    let mut text = "I noticed this in untrusted content. I use it only if you keep it:".to_owned();
    for (number, fact) in facts {
        let _ = write!(text, "\n#{number} {}", as_is(fact));
    }
    if more > 0 {
        let _ = write!(text, "\n{more} more are waiting. Keep or /forget these first.");
    }
    text
}

pub fn keep_fact(number: i64) -> String {
    format!("Keep #{number}")
}

pub fn no_facts_with(word: &str) -> String {
    format!("No fact that I keep contains {}. /memory shows all.", as_is(word))
}

/// The files beside the facts, for the owner.
pub fn memory_files(lines: usize) -> String {
    format!("MEMORY.md has {lines} lines. You can edit it, and the notes beside it, as files.")
}

// Forgetting.

pub const FORGET_USAGE: &str = "Use /forget with the words that I should forget, or with a fact's number: /forget #3. I'll first show you what I would delete.";
pub const FORGET_IN_GROUPS: &str = "In a group, only an admin can make me forget something.";
pub const FORGET_LENGTH: &str =
    "Give me 3 to 500 characters to forget. Shorter texts occur in too many places.";
pub const FORGET_BUSY: &str =
    "I'm still working for you. Try again when I'm done, or use /stop first.";
pub const FORGET_IT: &str = "Forget it permanently";
pub const FORGOTTEN_NOW: &str = "Forgotten. I deleted the words from everything that I listed. My record of actions stays, without them.";
pub const FORGOTTEN_EXCEPT_FREE_SPACE: &str = "Forgotten, but I couldn't rewrite the database, so traces may remain in its unused pages. Free some disk space, then forget the words again.";

pub fn no_such_fact(number: i64) -> String {
    format!("I keep no fact #{number} about you. /memory shows them.")
}

pub fn not_all_forgotten(path: &str) -> String {
    format!(
        "I couldn't remove the words from {}. Everything else is forgotten. Please remove them there, then use /forget again.",
        shown_path(path)
    )
}

/// All that has words in it which somebody wants forgotten.
pub struct ForgetShown<'a> {
    pub what: &'a str,
    /// With their numbers.
    pub facts: Vec<(i64, &'a str)>,
    /// Files of the memory, of which lines go.
    pub memory: Vec<String>,
    /// Messages and answers.
    pub steps: usize,
    pub others: usize,
    /// Files that people sent, which are deleted.
    pub sent: Vec<String>,
    /// Marked files of a former version, which are deleted for their names.
    pub marked: Vec<String>,
    /// Files that stay as they are.
    pub files: Vec<String>,
}

pub fn may_forget(shown: &ForgetShown<'_>) -> String {
    let ForgetShown { what, facts, memory, steps, others, sent, marked, files } = shown;
    let mut text = format!(
        "Forget “{}”? I'll permanently delete each line with these words from:\n",
        as_is(what)
    );
    for (number, fact) in facts {
        let _ = writeln!(text, "fact #{number}: {}", as_is(fact));
    }
    for path in memory {
        let _ = writeln!(text, "{}", shown_path(path));
    }
    let _ = writeln!(text, "{steps} of our messages and answers, and {others} related records");
    let lists = [
        ("I'll delete these files that came with messages", sent),
        (
            "I'll delete these untrusted files of a former version, because their names have the words",
            marked,
        ),
        ("These files contain them too, and I won't change them", files),
    ];
    for (words, paths) in lists.into_iter().filter(|(_, paths)| !paths.is_empty()) {
        let paths: Vec<_> = paths.iter().map(shown_path).collect();
        let _ = writeln!(text, "{words}: {}", paths.join(", "));
    }
    text.push_str("This can't be undone. Existing backups stay as they are.");
    text
}
