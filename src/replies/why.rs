//! Explanations of `/why`: who asked, and what the model had read.

use super::memory::{FactShown, FactStanding};
use super::visible::visible;
use super::{as_is, shown_name};
use crate::short_text::shortened;
use crate::types::source::Source;

pub const WHY_USAGE: &str = "Use /why for my last answer here, /why NUMBER for an action, /why PATH for a file, or /why fact NUMBER. /actions and /memory show the numbers.";
pub const NOTHING_TO_EXPLAIN: &str = "I haven't answered anything in this conversation yet.";
pub const SOMEONE_ELSE: &str = "someone else";
pub const YOU: &str = "you";
pub const UNDO_IT: &str = "Undo it";

/// Lists of sources are cut at so many lines: a screen of a phone.
const SOURCES_MAX: usize = 12;

/// Characters of a name or an address on a line.
const NAME_CHARS_MAX: usize = 100;

/// An explanation, ready to be written.
pub struct Explanation<'a> {
    /// The action in one line. None for an answer.
    pub action: Option<String>,
    pub at: String,
    pub person: &'a str,
    /// The background task. None for a conversation.
    pub task: Option<String>,
    /// None if they are not for the person who asks.
    pub sources: Option<ExplainedSources>,
    pub undo: Option<i64>,
}

/// Sources as the person who asks may see them.
pub struct ExplainedSources {
    pub of_turn: Vec<String>,
    pub earlier: Vec<String>,
}

pub fn explanation(explanation: &Explanation<'_>) -> String {
    let Explanation { action, at, person, task, sources, undo } = explanation;
    let what = match action {
        None => "My last answer here".to_owned(),
        Some(action) => format!("Action {}", as_is(action)),
    };
    let task = task.as_ref().map(|task| format!(" in {task}")).unwrap_or_default();
    let mut lines = vec![what, format!("Started {at} for {}{task}.", shown_name(person))];
    match sources {
        None => lines.push("I show its sources only to that person.".to_owned()),
        Some(ExplainedSources { of_turn, earlier }) => {
            match of_turn.is_empty() {
                true => lines.push("I had read nothing new for it.".to_owned()),
                false => lines.push("I had read:".to_owned()),
            }
            lines.extend(listed(of_turn));
            if !earlier.is_empty() {
                lines.push("Earlier in the same conversation:".to_owned());
                lines.extend(listed(earlier));
            }
        }
    }
    lines.extend(undo.map(|id| format!("To take it back: /undo {id}")));
    lines.join("\n")
}

fn listed(sources: &[String]) -> Vec<String> {
    let mut lines: Vec<_> =
        sources.iter().take(SOURCES_MAX).map(|line| format!("- {line}")).collect();
    if sources.len() > SOURCES_MAX {
        lines.push(format!("- and {} more", sources.len() - SOURCES_MAX));
    }
    lines
}

/// A fact of `/why`, ready to be written.
pub struct FactExplanation<'a> {
    pub fact: FactShown<'a>,
    /// Messages that it was of use for.
    pub uses: u32,
    pub sources: Vec<String>,
    /// Its former words, each with the day until which they held.
    pub former: Vec<(&'a str, String)>,
}

pub fn fact_explained(explanation: &FactExplanation<'_>) -> String {
    let FactExplanation { fact, uses, sources, former } = explanation;
    let FactShown { number, text, source, day, .. } = fact;
    let mut lines = vec![format!("Fact #{number}: {}", as_is(text))];
    lines.push(format!("Kept since {day}: {source}."));
    lines.push(match &fact.standing {
        FactStanding::InPrompt => "It is in my prompts.".to_owned(),
        FactStanding::Found => "I look it up when relevant.".to_owned(),
        FactStanding::Until(day) => format!("It was true until {day}; I keep it as history."),
        FactStanding::Offered => "It is in no prompt until you keep it: see /memory.".to_owned(),
    });
    lines.push(match uses {
        0 => "I haven't used it yet.".to_owned(),
        1 => "I have used it once.".to_owned(),
        uses => format!("I have used it {uses} times."),
    });
    match sources.is_empty() {
        true => lines.push("I don't know its source.".to_owned()),
        false => lines.push("It was made from:".to_owned()),
    }
    lines.extend(listed(sources));
    if !former.is_empty() {
        lines.push("Earlier versions:".to_owned());
        let former: Vec<_> =
            former.iter().map(|(text, day)| format!("{} (until {day})", as_is(text))).collect();
        lines.extend(listed(&former));
    }
    lines.push(format!("To delete it: /forget #{number}"));
    lines.join("\n")
}

/// A source on a line; none for the program's own lines, which explain nothing. `is_own` is true if the person who
/// asks is its author.
pub fn source_line(source: &Source, is_own: bool, is_untrusted: bool) -> Option<String> {
    let words = match source {
        Source::Program => return None,
        Source::Person { .. } if is_own => "your messages".to_owned(),
        Source::Person { .. } => format!("messages of {SOMEONE_ELSE}"),
        Source::Button { .. } if is_own => "a button that you pressed".to_owned(),
        Source::Button { .. } => format!("a button that {SOMEONE_ELSE} pressed"),
        Source::Quoted { author, .. } => format!("a quoted message of {}", shown_name(author)),
        Source::Overheard { author } => format!("what {} said in the group", shown_name(author)),
        Source::Skill { name } => format!("the skill {}", short(name)),
        Source::Memory => "the memory and the notes".to_owned(),
        Source::Plan { .. } => "my plan".to_owned(),
        Source::Proposal { .. } => "a proposal of mine".to_owned(),
        Source::Task { kind, number: Some(number), .. } => format!("{} {number}", kind.as_str()),
        Source::Task { kind, number: None, .. } => format!("results of a {}", kind.as_str()),
        Source::Page { url } => format!("the page {}", short(url)),
        Source::Search { engine, .. } => format!("search results of {}", short(engine)),
        Source::McpServer { name, .. } => format!("the MCP server {}", short(name)),
        Source::Command { .. } => "the output of a command".to_owned(),
        Source::File { path } => format!("the file {}", short(path)),
        Source::LinkedFile { path } => {
            format!("the file {}, which has a second name (hard link)", short(path))
        }
        Source::MarkedFile { path } => {
            format!("the file {}, which others may have written", short(path))
        }
        Source::Past { .. } => "earlier conversations".to_owned(),
        Source::Unknown => "something from an unknown source".to_owned(),
    };
    Some(if is_untrusted { format!("{words} (untrusted)") } else { words })
}

fn short(name: &str) -> String {
    as_is(shortened(&visible(name), NAME_CHARS_MAX))
}
