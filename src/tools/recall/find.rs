//! Finds passages for a person. Untrusted passages are only counted, unless they are asked for.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::conversation::history::{self, SeenTurns};
use crate::memory::facts::{self, FactId, FactStatus};
use crate::memory::recall::common::CommonTerms;
use crate::memory::recall::files::{self, FileKeys, Survey};
use crate::memory::recall::query::{self, RecallHit, RecallQuery};
use crate::memory::recall::words::Term;
use crate::memory::recall::{self, RecallKind};
use crate::store::{Store, StoreError};
use crate::tools::ToolReader;
use crate::trust::taint;
use crate::types::message::{Address, ChatKind, Sender};
use crate::types::session::{SessionId, TurnId};
use crate::types::source::Source;
use crate::workspace::{Workspace, WorkspacePath};

/// Passages that are looked at for each requested one: some are left out, because they are untrusted or gone.
const SPARE: usize = 3;

// No doc comments: each prompt would contain them. Memory: MEMORY.md, notes and facts. Past: conversations. Untrusted:
// files of others, and conversations that have read untrusted content. Summary: the parts of this conversation that
// compaction has left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum SearchScope {
    Memory,
    Files,
    Past,
    Untrusted,
    // Offered only by a conversation that was compacted in this way.
    #[schemars(skip)]
    Summary,
}

/// The person for whom passages are looked up, and where.
#[derive(Clone)]
pub(crate) struct RecallReader {
    pub(crate) at: Address,
    pub(crate) chat_kind: ChatKind,
    pub(crate) who: Sender,
    pub(crate) files: ToolReader,
}

/// A search of the index.
#[derive(Clone)]
pub(crate) struct RecallRequest {
    pub(crate) terms: Vec<Term>,
    /// None means everything trusted.
    pub(crate) scope: Option<SearchScope>,
    pub(crate) since: Option<DateTime<Utc>>,
    pub(crate) limit: usize,
    /// Nothing is found if all terms are frequent.
    pub(crate) needs_rare: bool,
    /// Turns that are left out.
    pub(crate) seen: Option<SeenTurns>,
    /// Frequent terms that former searches found.
    pub(crate) common: CommonTerms,
}

/// The results of a search.
pub(crate) struct FoundPassages {
    pub(crate) passages: Vec<FoundPassage>,
    /// The number of untrusted passages that are left out.
    pub(crate) untrusted: usize,
}

/// The place of a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PassageLocation {
    /// The path as the person's tools name it.
    File(String),
    Talk {
        session: SessionId,
        turn: TurnId,
    },
    Fact(FactId, FactStatus),
}

/// A passage with its sources.
pub(crate) struct FoundPassage {
    pub(crate) hit: RecallHit,
    pub(crate) place: PassageLocation,
    pub(crate) sources: Vec<Source>,
    pub(crate) is_untrusted: bool,
}

/// Finds passages. Files that were changed are indexed first.
pub(crate) async fn find(
    store: &Store,
    workspace: &Workspace,
    reader: &RecallReader,
    request: &RecallRequest,
) -> Result<FoundPassages, StoreError> {
    let scope = &reader.files.scope;
    let survey = match request.scope {
        Some(SearchScope::Past) => None,
        _ => Some(files::survey(workspace, scope).await),
    };
    let hits = match look_up(store, workspace, reader, request, survey).await? {
        Some(hits) => hits,
        None => {
            files::refresh(store, workspace, scope).await?;
            look_up(store, workspace, reader, request, None).await?.unwrap_or_default()
        }
    };
    let mut passages = Vec::new();
    let mut untrusted = 0;
    for LookedUp { hit, place, sources } in hits {
        // A group's conversations are read together with all that their members wrote.
        let is_talk_of_group =
            reader.chat_kind == ChatKind::Group && matches!(place, PassageLocation::Talk { .. });
        let audience = reader.files.audience;
        let is_untrusted = sources.iter().any(|source| taint::is_untrusted(source, audience));
        let is_wanted = match request.scope {
            Some(SearchScope::Untrusted) => is_untrusted,
            _ => !is_untrusted || is_talk_of_group,
        };
        if !is_wanted {
            untrusted += usize::from(is_untrusted);
        } else if passages.len() < request.limit {
            passages.push(FoundPassage { hit, place, sources, is_untrusted });
        }
    }
    Ok(FoundPassages { passages, untrusted })
}

/// A hit with its place and its sources.
struct LookedUp {
    hit: RecallHit,
    place: PassageLocation,
    sources: Vec<Source>,
}

/// Returns the hits of the index. None if files have changed since they were indexed.
async fn look_up(
    store: &Store,
    workspace: &Workspace,
    reader: &RecallReader,
    request: &RecallRequest,
    survey: Option<Survey>,
) -> Result<Option<Vec<LookedUp>>, StoreError> {
    let (workspace, reader, request) = (workspace.clone(), reader.clone(), request.clone());
    let search = move |store: &rusqlite::Connection| {
        let keys = FileKeys::of(&reader.files.scope);
        if let Some(survey) = survey
            && !files::is_indexed(store, &keys, &survey)?
        {
            return Ok(None);
        }
        let hits = hits(store, keys, &reader, &request)?;
        let of = |kind| hits.iter().filter(move |hit| hit.kind == kind).map(|hit| hit.source);
        let turns: Vec<_> = of(RecallKind::Turn).map(TurnId).collect();
        let turns = history::found_turns(store, &turns, request.seen)?;
        let facts: Vec<_> = of(RecallKind::Fact).map(FactId).collect();
        let facts = facts::find_by_ids(store, &facts)?;
        let mut found = Vec::new();
        for hit in hits {
            let looked_up = match hit.kind {
                RecallKind::File => {
                    let path = files::path_of(store, hit.source)?;
                    path.and_then(|path| check_file(&workspace, &reader.files, &path))
                }
                RecallKind::Turn => turns.get(&TurnId(hit.source)).map(|turn| {
                    let (session, turn_id) = (turn.session, TurnId(hit.source));
                    (PassageLocation::Talk { session, turn: turn_id }, turn.sources.clone())
                }),
                RecallKind::Fact => facts.get(&FactId(hit.source)).map(|fact| {
                    (PassageLocation::Fact(fact.id, fact.status), fact.deciding_sources())
                }),
            };
            found.extend(looked_up.map(|(place, sources)| LookedUp { hit, place, sources }));
        }
        Ok(Some(found))
    };
    store.search(search).await
}

fn hits(
    store: &rusqlite::Connection,
    keys: FileKeys,
    reader: &RecallReader,
    request: &RecallRequest,
) -> rusqlite::Result<Vec<RecallHit>> {
    let talks = recall::conversation_keys(store, &reader.at, reader.chat_kind, &reader.who.id)?;
    let FileKeys { memory, own, untrusted } = keys;
    let facts = talks.iter().map(facts::index_key);
    let memory: Vec<_> = memory.into_iter().chain(facts).collect();
    let keys = match request.scope {
        Some(SearchScope::Memory) => memory,
        Some(SearchScope::Files) => own.into_iter().collect(),
        Some(SearchScope::Past) => talks,
        // Not a search: `recall.rs` reads the summary.
        Some(SearchScope::Summary) => Vec::new(),
        None | Some(SearchScope::Untrusted) => {
            [talks, memory, own.into_iter().collect(), untrusted].concat()
        }
    };
    let query = RecallQuery {
        keys,
        terms: request.terms.clone(),
        since: request.since,
        now: Utc::now(),
        limit: request.limit * SPARE,
        needs_rare: request.needs_rare,
    };
    query::search_with_cache(store, &query, &request.common)
}

/// Returns the place and the source of a file, if the person can still read it.
fn check_file(
    workspace: &Workspace,
    reader: &ToolReader,
    path: &str,
) -> Option<(PassageLocation, Vec<Source>)> {
    let path: WorkspacePath = path.parse().ok()?;
    let file = workspace.open_for(&path, &reader.scope).ok()?;
    let shown = shown_path(reader, file.path());
    Some((PassageLocation::File(shown), vec![file.source()]))
}

/// Returns a path as the person's tools name it: without the person's own folder.
fn shown_path(reader: &ToolReader, path: &WorkspacePath) -> String {
    let downloads = reader.scope.downloads();
    let below = |folder: &WorkspacePath| {
        let rest = path.as_str().strip_prefix(folder.as_str())?;
        rest.strip_prefix('/').map(str::to_owned)
    };
    let own = reader.scope.root().and_then(|root| below(&root));
    own.or_else(|| below(&downloads).map(|rest| format!("downloads/{rest}")))
        .unwrap_or_else(|| path.to_string())
}
