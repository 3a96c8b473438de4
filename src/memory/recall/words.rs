//! Splits texts: into passages, into the words for the index, and into the terms of a query. Also returns the part of a
//! passage that a hit shows.

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

use super::PASSAGE_CHARS_MAX;
use crate::short_text::one_line;

/// Maximum number of words of a query that are searched for.
const WORDS_MAX: usize = 12;

/// Number of parts of a text without spaces that count as one word, because most words have this many.
const PARTS_OF_WORD: usize = 3;

/// Length of the text that a hit shows around the first term, in characters.
const SNIPPET_CHARS: usize = 300;

/// Stop words of some languages, which say nothing about a message's subject: no passages are recalled for them.
const COMMON: &str = "a about after all also am an and any are as at be been but by can could did do does for from get \
    had has have he her him his how i if in into is it its just know let like look make me mine more my need no not now of on one or \
    our out please see she should show so some tell than that the their them then there they this to today tomorrow up us want \
    was we were what when where which who why will with would yes you your hello hi hey thanks thank ok okay go again \
    aber als am an auch auf aus bei bin bist da das dass dem den der des die doch du ein eine einen er es für hast hat \
    ich im in ist ja kann mein mir mit nach nicht noch nur ob oder sich sie sind so und uns von war was wann wer wie \
    wir wo zu zum au aux avec ce ces dans de des du elle en est et il je la le les ma mais me mes mon ne nous on ou \
    par pas pour qu que qui sa se ses si son sont sur ta te tu un une vous al como con cuando de del el es esta este \
    la las lo los mi no para pero por que se si su un una y yo che ci da di gli ho il io le ma mi non per sono una \
    今天 明天 昨天 现在 什么 怎么 多少 哪天 哪里 是哪 是什 为什 么时 时候 我们 你们 他们 我的 你的 一个 这个 那个 可以 没有 知道 \
    不是 是不 请问 谢谢 你好 帮我 告诉 诉我 一下 今日 明日 昨日 いつ どこ です すか ます した して いる ない この その これ それ から \
    まで には では って くだ ださ さい";

/// A passage of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage<'a> {
    /// Its first line in the text, from 1.
    pub line: usize,
    pub text: &'a str,
}

/// Cuts a text into passages of whole lines, unless a line is too long. Leaves out blank passages.
pub fn passages(text: &str) -> Vec<Passage<'_>> {
    let mut passages = Vec::new();
    let (mut begin, mut end, mut chars) = (0, 0, 0);
    let (mut line, mut first) = (1, 1);
    for piece in text.split_inclusive('\n').flat_map(pieces) {
        let length = piece.chars().count();
        if chars > 0 && chars + length > PASSAGE_CHARS_MAX {
            passages.push(Passage { line: first, text: &text[begin..end] });
            (begin, first, chars) = (end, line, 0);
        }
        chars += length;
        end += piece.len();
        line += usize::from(piece.ends_with('\n'));
    }
    passages.push(Passage { line: first, text: &text[begin..end] });
    passages.retain(|passage| !passage.text.trim().is_empty());
    passages
}

/// Cuts a long line into pieces that fit into a passage.
fn pieces(line: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some((at, _)) = rest.char_indices().nth(PASSAGE_CHARS_MAX) {
        let (piece, after) = rest.split_at(at);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// Returns a text in the form for the index. Scripts without spaces between words become overlapping pairs of characters.
/// Rows are removed from the index with the same form, so a change of this function needs a new index.
pub fn indexed(text: &str) -> String {
    let mut indexed = String::with_capacity(text.len());
    let mut before = None;
    for character in text.chars() {
        if !is_unspaced(character) {
            if before.take().is_some() {
                indexed.push(' ');
            }
            indexed.push(character);
            continue;
        }
        indexed.push(' ');
        if let Some(before) = before {
            indexed.push(before);
        }
        indexed.push(character);
        before = Some(character);
    }
    indexed
}

/// Returns true for characters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese
/// (Unicode, Blocks.txt).
fn is_unspaced(character: char) -> bool {
    matches!(
        character,
        '\u{e00}'..='\u{eff}'
            | '\u{1000}'..='\u{109f}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{3040}'..='\u{30ff}'
            | '\u{3400}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff66}'..='\u{ff9f}'
            | '\u{20000}'..='\u{2fa1f}'
    )
}

/// A searched word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    /// In lower case.
    pub word: String,
}

impl Term {
    /// Returns the word in the index's query language. It cannot contain a quotation mark.
    pub fn exact(&self) -> String {
        let mut characters = self.word.chars();
        match (characters.next(), characters.next()) {
            (Some(only), None) if is_unspaced(only) => format!("\"{only}\" *"),
            (Some(first), Some(_)) if is_unspaced(first) => {
                let characters: Vec<char> = self.word.chars().collect();
                let pairs: Vec<String> = characters.windows(2).map(String::from_iter).collect();
                format!("\"{}\"", pairs.join(" "))
            }
            _ => format!("\"{}\"", self.word),
        }
    }

    /// Returns the beginning of the word, which its other forms share. None if the word is short.
    pub fn other_forms(&self) -> Option<String> {
        let length = self.word.chars().count();
        let is_spaced = self.word.chars().all(|character| !is_unspaced(character));
        let kept = if length >= 7 { length - 2 } else { length };
        (is_spaced && length >= 5).then(|| {
            let stem: String = self.word.chars().take(kept).collect();
            format!("\"{stem}\" *")
        })
    }

    /// Returns the part of the word by which it is found in a text.
    fn stem(&self) -> String {
        let length = self.word.chars().count();
        self.word.chars().take(if length > 5 { length - 2 } else { length }).collect()
    }
}

/// Returns the terms of a query, each once, in order.
pub fn terms(query: &str) -> Vec<Term> {
    distinct(query, |_| true)
}

/// Returns the terms of a message that are not stop words.
pub fn significant_terms(message: &str) -> Vec<Term> {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| COMMON.split_whitespace().collect());
    distinct(message, |word| {
        let is_long = word.chars().count() > 2 || word.chars().any(is_unspaced);
        is_long && !WORDS.contains(word)
    })
}

/// Returns the wanted terms of a text, each once, in order, up to the number that a search uses.
fn distinct(text: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<Term> {
    let words = text.split(|character: char| !character.is_alphanumeric() && !is_mark(character));
    let parts = words.flat_map(runs).flat_map(parts).map(|part| part.to_lowercase());
    let mut known = BTreeSet::new();
    let parts = parts.filter(|part| is_wanted(part) && known.insert(part.clone()));
    let mut remaining = WORDS_MAX * PARTS_OF_WORD;
    let fits = |part: &String| {
        let cost = if part.chars().any(is_unspaced) { 1 } else { PARTS_OF_WORD };
        let rest = remaining.checked_sub(cost);
        remaining = rest.unwrap_or_default();
        rest.is_some()
    };
    parts.take_while(fits).map(|word| Term { word }).collect()
}

/// Returns the searched parts of a run of characters: the run itself, or overlapping parts in scripts without spaces,
/// where the ends of words are unknown. In Chinese and Japanese two characters are mostly a word; in the others,
/// characters are letters.
fn parts(run: &str) -> Vec<String> {
    let characters: Vec<char> = run.chars().collect();
    let length = match characters.first() {
        Some('\u{3040}'..) if characters.iter().all(|character| is_unspaced(*character)) => 2,
        Some(first) if is_unspaced(*first) => 4,
        _ => characters.len(),
    };
    match characters.len() > length {
        true => characters.windows(length).map(String::from_iter).collect(),
        false => vec![run.to_owned()],
    }
}

/// Returns true for vowels and tones written as marks within words of scripts without spaces.
fn is_mark(character: char) -> bool {
    is_unspaced(character)
}

/// Returns the runs of a word in scripts with and without spaces.
fn runs(word: &str) -> Vec<&str> {
    let mut runs = Vec::new();
    let mut begin = 0;
    let mut before = None;
    for (index, character) in word.char_indices() {
        let unspaced = is_unspaced(character);
        if before.is_some_and(|before| before != unspaced) {
            runs.push(&word[begin..index]);
            begin = index;
        }
        before = Some(unspaced);
    }
    if begin < word.len() {
        runs.push(&word[begin..]);
    }
    runs
}

/// Returns the number of occurrences of a term in a text, at least 1: the index has found it, perhaps in another form.
pub fn occurrences(text: &str, term: &Term) -> usize {
    text.to_lowercase().matches(&term.stem()).count().max(1)
}

/// Returns the part of a passage around the first of the terms, on one line, and the number of lines before it.
pub fn snippet(text: &str, terms: &[Term]) -> (String, usize) {
    let lower = text.to_lowercase();
    let byte_offset = terms.iter().filter_map(|term| lower.find(&term.stem())).min().unwrap_or(0);
    // A character in lower case may have another length, so positions are counted in characters.
    let char_offset = lower[..byte_offset].chars().count();
    let before: String = text.chars().take(char_offset).collect();
    let lines = before.matches('\n').count();
    let begin = before.split_whitespace().map(|word| word.chars().count() + 1).sum::<usize>();
    let begin = begin.saturating_sub(SNIPPET_CHARS / 3);
    let line = one_line(text);
    let length = line.chars().count();
    let begin = if length <= SNIPPET_CHARS { 0 } else { begin };
    let middle: String = line.chars().skip(begin).take(SNIPPET_CHARS).collect();
    let cut_before = if begin > 0 { "…" } else { "" };
    let cut_after = if begin + SNIPPET_CHARS < length { "…" } else { "" };
    (format!("{cut_before}{middle}{cut_after}"), lines)
}
