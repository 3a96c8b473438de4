//! Recognizes a call that keeps a person's own words literally. It needs no approval, even after untrusted content,
//! because nobody else can have chosen the words. Pure.

use crate::short_text::one_line;
use crate::types::message::SenderId;
use crate::types::session::Session;
use crate::types::source::Source;

/// Characters that end a sentence. The wide ones need no space behind them.
const ENDS: &str = ".!?…";
const WIDE_ENDS: &str = "。！？";

/// A colon that needs a space behind it, unlike those in `12:30` and `https://`, and the wide one, which needs none.
const COLON: char = ':';
const WIDE_COLON: char = '：';

/// Characters that begin or end words of somebody else.
const QUOTATION_MARKS: &str = "\"'`´“”„‟‘’‚‛«»‹›「」『』＂＇";

/// Words before a colon that turn the meaning of those behind it. Only some of the ways and languages to do so: words
/// that are kept are shown, and can be taken back.
const NEGATIONS: [&str; 30] = [
    "no", "not", "never", "nobody", "nothing", "none", "neither", "nor", "cannot", "without",
    "nicht", "nie", "niemals", "kein", "keine", "keinen", "nichts", "ohne", "ne", "pas", "jamais",
    "rien", "non", "nunca", "nada", "niet", "geen", "nooit", "не", "нет",
];

/// Returns true if each line of a text occurs in this person's messages of the last turn of a private conversation: see
/// [`stand_in`]. Quoted and forwarded words do not count.
pub fn are_own_words(session: &Session, by: &SenderId, text: &str) -> bool {
    stand_in(said(session, by), text)
}

/// Returns true if each line of a text occurs in these texts, as a whole line, as whole sentences of one line, or as what
/// stands there behind a colon.
pub fn stand_in<'a>(said: impl IntoIterator<Item = &'a str>, text: &str) -> bool {
    let lines = said.into_iter().flat_map(str::lines);
    let said: Vec<Vec<SaidSentence>> = lines.map(sentences).collect();
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

/// A sentence of a person.
struct SaidSentence {
    whole: String,
    /// The words behind its colon, as in "Please remember: the code is 4711".
    behind_colon: Option<String>,
}

/// Returns true if a line is one whole sentence of these, or several in a row. The first may be the words behind a colon,
/// which models begin with a capital letter.
fn has(said: &[SaidSentence], line: &str) -> bool {
    said.iter().enumerate().any(|(at, first)| {
        let rest = &said[at + 1..];
        let behind_colon = first.behind_colon.as_deref();
        is_run(&first.whole, rest, line)
            || behind_colon
                .is_some_and(|words| is_run(&small_first(words), rest, &small_first(line)))
    })
}

/// Returns true if a line is this begin, with any number of the sentences that follow it.
fn is_run(begin: &str, rest: &[SaidSentence], line: &str) -> bool {
    let mut run = begin.to_owned();
    for next in rest {
        if run.len() >= line.len() {
            break;
        }
        if without_stop(&run) == without_stop(line) {
            return true;
        }
        run.push(' ');
        run.push_str(&next.whole);
    }
    without_stop(&run) == without_stop(line)
}

/// Returns the sentences of a line, without the marker of a list item.
fn sentences(line: &str) -> Vec<SaidSentence> {
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
    // A line of somebody else, as people paste it.
    let mut is_quoting = line.starts_with('>');
    let trimmed = found.iter().map(|it| it.trim().to_owned());
    let of_words = |whole: String| {
        let own_part = behind_colon(&whole).filter(|_| !is_quoting).map(str::to_owned);
        is_quoting |= has_quotation_mark(&whole);
        SaidSentence { whole, behind_colon: own_part }
    };
    trimmed.filter(|it| !it.is_empty()).map(of_words).collect()
}

/// Returns the words of a sentence behind its first colon. None if those before it quote somebody or deny something.
fn behind_colon(sentence: &str) -> Option<&str> {
    let mut colons = sentence.char_indices().filter(|(_, sign)| [COLON, WIDE_COLON].contains(sign));
    let (at, colon) = colons.find(|(at, sign)| is_before_words(sentence, *at, *sign))?;
    let (before, behind) = (&sentence[..at], sentence[at + colon.len_utf8()..].trim());
    let is_own = !before.trim().is_empty() && !has_quotation_mark(before) && !denies(before);
    (is_own && !behind.is_empty()).then_some(behind)
}

/// Returns true for a colon that words follow, and not the rest of an address or a time.
fn is_before_words(sentence: &str, at: usize, colon: char) -> bool {
    let (before, behind) = (&sentence[..at], &sentence[at + colon.len_utf8()..]);
    let is_in_number =
        before.ends_with(char::is_numeric) && behind.trim_start().starts_with(char::is_numeric);
    let is_apart = match colon {
        WIDE_COLON => !behind.starts_with(['/', '／']),
        _ => behind.starts_with(char::is_whitespace),
    };
    is_apart && !is_in_number
}

/// Returns true if a text has a quotation mark. An apostrophe within a word is none.
fn has_quotation_mark(text: &str) -> bool {
    let mut before = ' ';
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        let is_within =
            before.is_alphanumeric() && signs.peek().is_some_and(|it| it.is_alphanumeric());
        let is_apostrophe = ['\'', '’'].contains(&sign) && is_within;
        if QUOTATION_MARKS.contains(sign) && !is_apostrophe {
            return true;
        }
        before = sign;
    }
    false
}

/// Returns true if a text has one of the words that turn a meaning.
fn denies(text: &str) -> bool {
    let text = text.to_lowercase().replace('’', "'");
    let mut words = text.split(|sign: char| !sign.is_alphanumeric() && sign != '\'');
    words.any(|word| word.ends_with("n't") || NEGATIONS.contains(&word))
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

/// Returns a text with a small first letter.
fn small_first(text: &str) -> String {
    let mut signs = text.chars();
    let first = signs.next().map(char::to_lowercase);
    first.into_iter().flatten().chain(signs).collect()
}
