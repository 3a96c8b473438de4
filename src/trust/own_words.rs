//! The words of a person that a call keeps as they stand: it is not asked about, also after untrusted content, since
//! nobody else can have chosen them. Pure.

use crate::short_text::one_line;
use crate::types::message::SenderId;
use crate::types::session::Session;
use crate::types::source::Source;

/// Signs that end a sentence. The second kind needs no space behind it.
const ENDS: &str = ".!?…";
const WIDE_ENDS: &str = "。！？";

/// Returns true if each line of a text stands in what this person said in the last turn of a private conversation, as a
/// whole line there, or as whole sentences of one. Quoted and forwarded words are not theirs.
pub fn are_said(session: &Session, by: &SenderId, text: &str) -> bool {
    let lines = said(session, by).into_iter().flat_map(str::lines);
    let said: Vec<Vec<String>> = lines.map(sentences).collect();
    let mut lines = text.lines().map(bare).filter(|line| !line.is_empty()).peekable();
    lines.peek().is_some() && lines.all(|line| said.iter().any(|there| has(there, &line)))
}

/// Returns what this person said in the last turn.
pub fn said<'a>(session: &'a Session, by: &SenderId) -> Vec<&'a str> {
    let steps = session.turns.last().into_iter().flat_map(|turn| &turn.steps);
    let parts = steps.filter_map(|step| step.input.as_ref()).flat_map(|input| input.iter());
    let own = parts.filter(|part| matches!(part.source, Source::Person { id, .. } if id == by));
    own.map(|part| part.text).collect()
}

/// Returns true if a line is one or more whole sentences in a row.
fn has(said: &[String], line: &str) -> bool {
    (0..said.len()).any(|first| {
        (first + 1..=said.len())
            .any(|end| without_stop(&said[first..end].join(" ")) == without_stop(line))
    })
}

/// The sentences of a line, without what marks it as an item of a list.
fn sentences(line: &str) -> Vec<String> {
    let line = bare(line);
    let mut found = vec![String::new()];
    let mut signs = line.chars().peekable();
    while let Some(sign) = signs.next() {
        if let Some(last) = found.last_mut() {
            last.push(sign);
        }
        let goes_on = signs.peek().is_some_and(|next| !next.is_whitespace());
        if WIDE_ENDS.contains(sign) || (ENDS.contains(sign) && !goes_on) {
            found.push(String::new());
        }
    }
    let trimmed = found.iter().map(|it| it.trim().to_owned());
    trimmed.filter(|it| !it.is_empty()).collect()
}

/// A line with single spaces, without the sign of an item.
fn bare(line: &str) -> String {
    let line = one_line(line);
    let item = ["- [ ] ", "- ", "* ", "+ "].iter().find_map(|sign| line.strip_prefix(sign));
    item.unwrap_or(&line).to_owned()
}

fn without_stop(text: &str) -> &str {
    text.strip_suffix('.').unwrap_or(text)
}
