//! Finds passages for a person, and separates the trusted from the untrusted: the latter are only counted, unless they
//! are asked for.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::conversation::history::{self, SeenTurns};
use crate::memory::facts::{self, FactId, FactStatus};
use crate::memory::recall::files::{self, FileKeys};
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

/// Passages that are looked at for each that is wanted: some are left out, because they are untrusted or gone.
const SPARE: usize = 3;

// Without doc comments, which the model would be told with each prompt. Memory: MEMORY.md, notes and facts. Past:
// conversations. Untrusted: files of others, and conversations that have read untrusted content. Summary: what compaction
// has left out of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum SearchScope {
    Memory,
    Files,
    Past,
    Untrusted,
    // Only a conversation that has been compacted so is told of it.
    #[schemars(skip)]
    Summary,
}

/// The person for whom passages are looked up, and where.
pub(crate) struct RecallReader {
    pub(crate) at: Address,
    pub(crate) place: ChatKind,
    pub(crate) who: Sender,
    pub(crate) files: ToolReader,
}

/// A search of the index.
pub(crate) struct RecallWish {
    pub(crate) terms: Vec<Term>,
    /// None: everything trusted.
    pub(crate) scope: Option<SearchScope>,
    pub(crate) since: Option<DateTime<Utc>>,
    pub(crate) limit: usize,
    /// Nothing is found if all terms are frequent.
    pub(crate) needs_rare: bool,
    /// Turns that are not looked for.
    pub(crate) seen: Option<SeenTurns>,
}

/// The results of a search.
pub(crate) struct FoundPassages {
    pub(crate) passages: Vec<FoundPassage>,
    /// The number of untrusted ones, which are left out.
    pub(crate) untrusted: usize,
}

/// The place of a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FoundPlace {
    /// As the person's tools name it.
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
    pub(crate) place: FoundPlace,
    pub(crate) sources: Vec<Source>,
    pub(crate) is_untrusted: bool,
}

/// Finds passages. Files that were changed are indexed first.
pub(crate) async fn find(
    store: &Store,
    workspace: &Workspace,
    reader: &RecallReader,
    wish: RecallWish,
) -> Result<FoundPassages, StoreError> {
    let RecallWish { scope, limit, .. } = wish;
    if scope != Some(SearchScope::Past) {
        files::refresh(store, workspace, &reader.files.scope).await?;
    }
    let hits = look_up(store, reader, wish).await?;
    let (file_reader, audience) = (reader.files.clone(), reader.files.audience);
    let found = workspace.off_thread(move |workspace| {
        let checked = hits.into_iter().filter_map(|LookedUp { hit, source }| match source {
            LookedUpSource::Stored(place, sources) => Some((hit, place, sources)),
            LookedUpSource::File(path) => {
                let (place, source) = check_file(workspace, &file_reader, &path)?;
                Some((hit, place, vec![source]))
            }
        });
        checked.collect::<Vec<_>>()
    });
    let mut passages = Vec::new();
    let mut untrusted = 0;
    for (hit, place, sources) in found.await {
        // A group's conversations are read together with all that their members wrote.
        let is_talk_of_group =
            reader.place == ChatKind::Group && matches!(place, FoundPlace::Talk { .. });
        let is_untrusted = sources.iter().any(|source| taint::is_untrusted(source, audience));
        let is_wanted = match scope {
            Some(SearchScope::Untrusted) => is_untrusted,
            _ => !is_untrusted || is_talk_of_group,
        };
        if !is_wanted {
            untrusted += usize::from(is_untrusted);
        } else if passages.len() < limit {
            passages.push(FoundPassage { hit, place, sources, is_untrusted });
        }
    }
    Ok(FoundPassages { passages, untrusted })
}

/// A hit with what the store knows of its source.
struct LookedUp {
    hit: RecallHit,
    source: LookedUpSource,
}

enum LookedUpSource {
    File(String),
    Stored(FoundPlace, Vec<Source>),
}

async fn look_up(
    store: &Store,
    reader: &RecallReader,
    wish: RecallWish,
) -> Result<Vec<LookedUp>, StoreError> {
    let (at, place, who) = (reader.at.clone(), reader.place, reader.who.id.clone());
    let keys = FileKeys::of(&reader.files.scope);
    let look = move |store: &rusqlite::Connection| {
        let talks = recall::keys_of_talks(store, &at, place, &who)?;
        let FileKeys { memory, own, untrusted } = keys;
        let facts = talks.iter().map(facts::index_key);
        let memory: Vec<_> = memory.into_iter().chain(facts).collect();
        let keys = match wish.scope {
            Some(SearchScope::Memory) => memory,
            Some(SearchScope::Files) => own.into_iter().collect(),
            Some(SearchScope::Past) => talks,
            // It is no search.
            Some(SearchScope::Summary) => Vec::new(),
            None | Some(SearchScope::Untrusted) => {
                [talks, memory, own.into_iter().collect(), untrusted].concat()
            }
        };
        let RecallWish { terms, since, limit, needs_rare, seen, .. } = wish;
        let limit = limit * SPARE;
        let query = RecallQuery { keys, terms, since, now: Utc::now(), limit, needs_rare };
        let hits = query::search(store, &query)?;
        let of = |kind| hits.iter().filter(move |hit| hit.kind == kind).map(|hit| hit.source);
        let turns: Vec<_> = of(RecallKind::Turn).map(TurnId).collect();
        let turns = history::found_turns(store, &turns, seen)?;
        let facts: Vec<_> = of(RecallKind::Fact).map(FactId).collect();
        let facts = facts::found(store, &facts)?;
        let mut found = Vec::new();
        for hit in hits {
            found.extend(match hit.kind {
                RecallKind::File => files::path_of(store, hit.source)?
                    .map(|path| LookedUp { hit, source: LookedUpSource::File(path) }),
                RecallKind::Turn => turns.get(&TurnId(hit.source)).map(|turn| {
                    let place =
                        FoundPlace::Talk { session: turn.session, turn: TurnId(hit.source) };
                    let source = LookedUpSource::Stored(place, turn.sources.clone());
                    LookedUp { hit, source }
                }),
                RecallKind::Fact => facts.get(&FactId(hit.source)).map(|fact| {
                    let place = FoundPlace::Fact(fact.id, fact.status);
                    let source = LookedUpSource::Stored(place, fact.deciding_sources());
                    LookedUp { hit, source }
                }),
            });
        }
        Ok(found)
    };
    store.search(look).await
}

/// The place and the source of a file, if the person can still read it.
fn check_file(
    workspace: &Workspace,
    reader: &ToolReader,
    path: &str,
) -> Option<(FoundPlace, Source)> {
    let path: WorkspacePath = path.parse().ok()?;
    let file = workspace.open_for(&path, &reader.scope).ok()?;
    let path = file.path().to_string();
    let shown = shown_path(reader, file.path());
    let source = match file.has_other_names() {
        true => Source::LinkedFile { path },
        false => Source::File { path },
    };
    Some((FoundPlace::File(shown), source))
}

/// A path as the person's tools name it: of one's own folder without the folder.
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
