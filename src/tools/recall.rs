//! The tool that searches memory, files and earlier conversations.

pub(crate) mod find;

use async_trait::async_trait;
use chrono::{DateTime, Days, NaiveDate, NaiveTime, TimeZone, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{CallPlace, Tool, ToolContext, ToolError, ToolOutput, ToolSpec, cut, tell};
use crate::conversation::delivered::{self, OpenedResult, RESULT};
use crate::conversation::transcript;
use crate::memory::recall::common::CommonTerms;
use crate::memory::recall::words;
use crate::short_text::escaped_path;
use crate::types::message::ChatKind;
use crate::types::session::TurnId;
use crate::types::source::{self, Source};
use crate::types::summary::SourcedSummary;
use find::{FoundPassage, PassageLocation, RecallReader, RecallRequest, SearchScope};

/// Maximum number of results.
const FOUND_MAX: usize = 10;

/// Maximum length of a search word, in characters.
const WORD_CHARS_MAX: usize = 100;

/// Maximum number of sources that are kept of one search.
const SOURCES_MAX: usize = 16;

pub struct MemorySearch;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchArgs {
    query: String,
    #[schemars(with = "SearchScope")]
    #[serde(default)]
    scope: Option<SearchScope>,
    /// 2026-11-30 or 7d
    #[serde(default)]
    since: String,
}

#[async_trait]
impl Tool for MemorySearch {
    type Args = SearchArgs;
    const SPEC: ToolSpec =
        ToolSpec::reads("memory_search", "Search memory, files and all that was said before.");

    fn check_args(&self, args: &SearchArgs, place: &CallPlace<'_>) -> Result<(), String> {
        let opens_result =
            args.scope == Some(SearchScope::Untrusted) && result_number(&args.query).is_some();
        if args.scope == Some(SearchScope::Summary) || opens_result {
            return Ok(());
        }
        parse_terms(&args.query)?;
        parse_since(&args.since, Utc::now().with_timezone(&place.zone)).map(drop)
    }

    async fn call(&self, args: SearchArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let SearchArgs { query, scope, since } = args;
        if scope == Some(SearchScope::Summary) {
            return whole_summary(cx).await;
        }
        if scope == Some(SearchScope::Untrusted)
            && let Some(number) = result_number(&query)
            && let Some(OpenedResult { text, sources }) = untrusted_result(cx, number).await?
        {
            let for_model = cut(&text, "The rest was sent, too.");
            return Ok(ToolOutput::Text { for_model, sources });
        }
        let terms = parse_terms(&query).map_err(ToolError::TellModel)?;
        let since = parse_since(&since, cx.now).map_err(ToolError::TellModel)?;
        let reader = RecallReader {
            at: cx.address.clone(),
            chat_kind: cx.chat_kind,
            who: cx.who.clone(),
            files: cx.reader(),
        };
        let request = RecallRequest {
            terms: terms.clone(),
            scope,
            since,
            limit: FOUND_MAX,
            needs_rare: false,
            seen: None,
            common: CommonTerms::default(),
        };
        let found = find::find(&cx.actions.store, &cx.workspace, &reader, &request).await?;
        let shown: Vec<_> =
            found.passages.iter().map(|it| format_passage(it, &terms, cx.now.timezone())).collect();
        let mut text = cut(&shown.join("\n\n"), "Search for something rarer.");
        if text.is_empty() {
            text.push_str("Nothing was found with these words.");
        }
        if found.untrusted > 0 {
            let count = found.untrusted;
            text.push_str(&format!(
                "\n\n[{count} more in untrusted content: scope \"untrusted\" shows them.]"
            ));
        }
        Ok(ToolOutput::Text { for_model: text, sources: sources(&found.passages, cx.chat_kind) })
    }
}

/// Returns the summary of the whole conversation, of which the model has seen only the trusted parts.
async fn whole_summary(cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let session = cx.session;
    let found = cx.actions.store.read(move |store| transcript::whole_summary(store, session)).await;
    match found? {
        Some(SourcedSummary { text, sources }) => {
            Ok(ToolOutput::Text { for_model: cut(&text, "The rest is lost."), sources })
        }
        None => tell("Nothing was left out of this conversation.".to_owned()),
    }
}

/// Returns the result of a background task that was sent here, and for which a reference stands in the conversation. Only a
/// private conversation has references.
async fn untrusted_result(
    cx: &ToolContext,
    number: TurnId,
) -> Result<Option<OpenedResult>, ToolError> {
    if cx.chat_kind != ChatKind::Private {
        return Ok(None);
    }
    let (reader, at) = (cx.who.clone(), cx.address.clone());
    let open = move |store: &Connection| delivered::open(store, number, &reader, &at);
    Ok(cx.actions.store.read(open).await?)
}

/// Returns the number in `result 12`, by which a reference names what was sent.
fn result_number(query: &str) -> Option<TurnId> {
    let mut words = query.split_whitespace();
    let (name, number) = (words.next()?, words.next()?);
    let is_result = name.eq_ignore_ascii_case(RESULT) && words.next().is_none();
    is_result.then(|| number.trim_start_matches('#').parse().ok().map(TurnId)).flatten()
}

/// Returns the sources of all results, up to a bound: one untrusted source is enough to mark them.
fn sources(found: &[FoundPassage], chat_kind: ChatKind) -> Vec<Source> {
    let mut all = Vec::new();
    let is_talk = |it: &FoundPassage| matches!(it.place, PassageLocation::Talk { .. });
    if found.iter().any(is_talk) {
        all.push(Source::Past { in_group: chat_kind == ChatKind::Group });
    }
    let untrusted = found.iter().filter(|it| it.is_untrusted);
    untrusted.flat_map(|it| &it.sources).for_each(|it| source::add(&mut all, it));
    let trusted = found.iter().filter(|it| !it.is_untrusted && !is_talk(it));
    trusted.flat_map(|it| &it.sources).for_each(|it| source::add(&mut all, it));
    all.truncate(SOURCES_MAX);
    all
}

/// Formats a result: its path and lines, its date, and the part around the first search word.
pub(crate) fn format_passage(found: &FoundPassage, terms: &[words::Term], zone: Tz) -> String {
    let (snippet, lines_before) = words::snippet(&found.hit.text, terms);
    // It must not look like a line of the program.
    let snippet = if snippet.starts_with('[') { format!(" {snippet}") } else { snippet };
    let at = found.hit.at.with_timezone(&zone);
    match &found.place {
        PassageLocation::File(path) => {
            let first = found.hit.line + lines_before;
            let last = found.hit.line + found.hit.text.trim_end().matches('\n').count();
            let lines = if last > first { format!("{first}-{last}") } else { first.to_string() };
            let path = escaped_path(path);
            format!("{path}:{lines} ({})\n{snippet}", at.format("%Y-%m-%d"))
        }
        PassageLocation::Talk { .. } => {
            format!("Conversation of {}\n{snippet}", at.format("%Y-%m-%d %H:%M"))
        }
        PassageLocation::Fact(id, _) => {
            format!("Fact #{} ({})\n{snippet}", id.0, at.format("%Y-%m-%d"))
        }
    }
}

/// Returns the words to search for.
fn parse_terms(query: &str) -> Result<Vec<words::Term>, String> {
    let is_long = |word: &str| word.chars().count() > WORD_CHARS_MAX;
    if query.split_whitespace().any(is_long) {
        return Err(format!("A word of `query` is longer than {WORD_CHARS_MAX} characters."));
    }
    let terms = words::terms(query);
    match terms.is_empty() {
        true => Err("`query` has no words.".to_owned()),
        false => Ok(terms),
    }
}

/// Parses a date, or a number of days before now. None for an empty text.
fn parse_since(text: &str, now: DateTime<Tz>) -> Result<Option<DateTime<Utc>>, String> {
    match text.trim() {
        "" => Ok(None),
        text => day_of(text, now).map(Some).ok_or_else(|| {
            "`since` is a date such as 2026-11-30, or a number of days such as 7d.".to_owned()
        }),
    }
}

fn day_of(text: &str, now: DateTime<Tz>) -> Option<DateTime<Utc>> {
    let day = match text.strip_suffix('d').and_then(|days| days.parse().ok()) {
        Some(days) => now.date_naive().checked_sub_days(Days::new(days))?,
        None => NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?,
    };
    let begin = now.timezone().from_local_datetime(&day.and_time(NaiveTime::MIN)).earliest();
    // None if the clocks skip midnight.
    Some(begin.map_or_else(|| day.and_time(NaiveTime::MIN).and_utc(), |begin| begin.to_utc()))
}
