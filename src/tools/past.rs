//! The tool that searches earlier messages of the conversation, also those that the model no longer sees.

use async_trait::async_trait;
use chrono_tz::Tz;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSpec, cut, tell};
use crate::conversation::history::{self, HistoryMatch};
use crate::people::Role;
use crate::trust::taint;
use crate::types::message::ChatKind;
use crate::types::source::{self, Source};
use crate::workspace::Audience;

const FOUND_MAX: usize = 10;

/// Maximum length of a search word, in characters: SQLite compares a word at each place of a text, and
/// cannot be interrupted within a text.
const WORD_CHARS_MAX: usize = 100;

/// Maximum number of untrusted sources that are kept of one search.
const SOURCES_MAX: usize = 16;

/// Characters that are shown of one text, around the first word.
const SHOWN_CHARS: usize = 300;

pub struct SearchPast;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Words that all occur.
    query: String,
}

#[async_trait]
impl Tool for SearchPast {
    type Args = Args;
    const SPEC: ToolSpec = ToolSpec {
        name: "search_past",
        description: "Search all that was said here before, word for word.",
        role: Role::User,
        kind: ToolKind::Reads,
        retries: true,
    };

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let words: Vec<String> = args.query.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return tell("`query` is empty.".to_owned());
        }
        if words.iter().any(|word| word.chars().count() > WORD_CHARS_MAX) {
            return tell(format!("A word of `query` is longer than {WORD_CHARS_MAX} characters."));
        }
        let (at, session) = (cx.address.clone(), cx.session);
        let wanted = words.clone();
        let look = move |store: &_| history::search(store, &at, &wanted, FOUND_MAX + 1);
        let mut found = cx.actions.store.search(look).await?;
        // The present question contains the words, too.
        let newest = found.iter().map(|it| it.turn).max();
        found
            .retain(|it| it.session != session || Some(it.turn) != newest || !is_asked(it, &words));
        found.truncate(FOUND_MAX);
        if found.is_empty() {
            return Ok(ToolOutput::text("Nothing was said here with these words."));
        }
        let shown: Vec<_> = found.iter().map(|it| shown(it, &words, cx.now.timezone())).collect();
        let text = cut(&shown.join("\n\n"), "Search for something rarer.");
        let in_group = cx.place == ChatKind::Group;
        let mut sources = vec![Source::Past { in_group }];
        sources.extend(untrusted(&found, cx.reader().audience));
        Ok(ToolOutput::Text { for_model: text, sources })
    }
}

/// Returns the untrusted sources of the results, or the first of many: one is enough to mark them as
/// untrusted.
fn untrusted(found: &[HistoryMatch], audience: Audience) -> Vec<Source> {
    let mut all = Vec::new();
    let sources = found.iter().flat_map(|found| &found.sources);
    let untrusted = sources.filter(|source| taint::is_untrusted(source, audience));
    untrusted.for_each(|found| source::add(&mut all, found));
    all.truncate(SOURCES_MAX);
    all
}

/// Returns true if the words were only in a message to the bot, not in its answer: the present question.
fn is_asked(found: &HistoryMatch, words: &[String]) -> bool {
    !has_all(&found.said, words)
}

fn has_all(text: &str, words: &[String]) -> bool {
    let text = text.to_lowercase();
    words.iter().all(|word| text.contains(&word.to_lowercase()))
}

fn shown(found: &HistoryMatch, words: &[String], zone: Tz) -> String {
    let at = found.at.with_timezone(&zone).format("%Y-%m-%d %H:%M");
    let input = found.input.as_deref().map(|input| format!("> {}", around(input, words)));
    let said = (!found.said.is_empty()).then(|| format!("You: {}", around(&found.said, words)));
    let lines: Vec<_> = input.into_iter().chain(said).collect();
    format!("{at}\n{}", lines.join("\n"))
}

/// Returns the text around the first of the words, on one line.
fn around(text: &str, words: &[String]) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let lower = line.to_lowercase();
    let byte = words.iter().filter_map(|word| lower.find(&word.to_lowercase())).min().unwrap_or(0);
    let place = lower[..byte].chars().count();
    let begin = place.saturating_sub(SHOWN_CHARS / 3);
    let length = line.chars().count();
    let middle: String = line.chars().skip(begin).take(SHOWN_CHARS).collect();
    let before = if begin > 0 { "…" } else { "" };
    let after = if begin + SHOWN_CHARS < length { "…" } else { "" };
    format!("{before}{middle}{after}")
}
