//! Recognizes a call that keeps a person's own words literally. It needs no approval, even after untrusted content,
//! because nobody else can have chosen the words. Pure.

use crate::short_text::one_line;
use crate::types::message::SenderId;
use crate::types::session::Session;
use crate::types::source::Source;

/// Characters that end a sentence. The wide ones need no space behind them.
const ENDS: &str = ".!?…";
const WIDE_ENDS: &str = "。！？";

/// Returns true if each line of a text occurs in this person's messages of the last turn of a private conversation: see
/// [`stand_in`]. Quoted and forwarded words do not count.
pub fn are_own_words(session: &Session, by: &SenderId, text: &str) -> bool {
    stand_in(said(session, by), text)
}

/// Returns true if each line of a text occurs in these texts, as a whole line, or as whole sentences of one line. A part
/// of a sentence may mean the contrary of the whole, also what stands behind a colon.
pub fn stand_in<'a>(said: impl IntoIterator<Item = &'a str>, text: &str) -> bool {
    let lines = said.into_iter().flat_map(str::lines);
    let said: Vec<Vec<String>> = lines.map(sentences).collect();
    let mut lines = text.lines().map(bare).filter(|line| !line.is_empty()).peekable();
    lines.peek().is_some() && lines.all(|line| said.iter().any(|said_line| has(said_line, &line)))
}

/// Returns the texts of this person in the last turn.
pub fn said<'a>(session: &'a Session, by: &SenderId) -> Vec<&'a str> {
    let steps = session.turns.last().into_iter().flat_map(|turn| &turn.steps);
    let parts = steps.filter_map(|step| step.input.as_ref()).flat_map(|input| input.iter());
    let own = parts.filter(|part| matches!(part.source, Source::Person { id, .. } if id == by));
    own.map(|part| part.text).collect()
}

/// Returns true if a line is one whole sentence of these, or several in a row.
fn has(said: &[String], line: &str) -> bool {
    said.iter().enumerate().any(|(at, first)| is_run(first, &said[at + 1..], line))
}

/// Returns true if a line is this begin, with any number of the sentences that follow it.
fn is_run(begin: &str, rest: &[String], line: &str) -> bool {
    let mut run = begin.to_owned();
    for next in rest {
        if run.len() >= line.len() {
            break;
        }
        if without_stop(&run) == without_stop(line) {
            return true;
        }
        run.push(' ');
        run.push_str(next);
    }
    without_stop(&run) == without_stop(line)
}

/// Returns the sentences of a line, without the marker of a list item.
fn sentences(line: &str) -> Vec<String> {
    let line = bare(line);
    let mut found = vec![String::new()];
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if let Some(last) = found.last_mut() {
            last.push(c);
        }
        let continues = chars.peek().is_some_and(|next| !next.is_whitespace());
        if WIDE_ENDS.contains(c) || (ENDS.contains(c) && !continues) {
            found.push(String::new());
        }
    }
    let trimmed = found.iter().map(|it| it.trim().to_owned());
    trimmed.filter(|it| !it.is_empty()).collect()
}

/// Returns a line with single spaces, without the marker of a list item.
fn bare(line: &str) -> String {
    let line = one_line(line);
    let item = ["- [ ] ", "- ", "* ", "+ "].iter().find_map(|sign| line.strip_prefix(sign));
    item.unwrap_or(&line).to_owned()
}

fn without_stop(text: &str) -> &str {
    text.strip_suffix('.').unwrap_or(text)
}
