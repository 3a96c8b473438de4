//! A home of a former version: files of the owner's workspace that others wrote, or turns that had read untrusted content,
//! are marked as untrusted, jobs that name them pause, and the owner gets one list. Nothing is moved or published until the
//! owner says so. Old conversations offer `/clean` once.

use std::collections::BTreeMap;

use chrono::{Duration, Utc};
use rusqlite::Connection;

use crate::bus::journal::WaitingMessage;
use crate::bus::outbox;
use crate::conversation::former_home::{WrittenFile, open_private_chats, written_files};
use crate::conversation::sources;
use crate::memory;
use crate::people::{self, People, Role};
use crate::replies;
use crate::services::{Services, load};
use crate::store::{StoreError, Sync};
use crate::tasks::schedule::{self, JobId};
use crate::trust::marked_files::{self, FormerHomeState, MarkedFile};
use crate::trust::taint;
use crate::turn::commits;
use crate::types::message::{Address, Body, ChatKind, Choice, Entitled, Question};
use crate::types::session::{SessionId, TurnId};
use crate::types::words::words;
use crate::workspace::{
    Audience, FileChange, FileError, Hash, OpenedFile, Workspace, WorkspacePath,
};

/// `/clean` is offered in conversations that went on since.
const OFFERED_WITHIN: Duration = Duration::days(30);

/// The tool that writes a file as a whole.
const WRITES_WHOLE: &str = "write_file";

/// Where marked files are moved to.
const MOVED: &str = "downloads/marked";

/// The first word of an order of `/trust` about marked files.
const MARKED: &str = "marked";

/// Larger files are not moved, in bytes.
const MOVED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Looks a home of a former version through, once, before anything runs in it. Reads the marks.
pub async fn review(services: &Services) -> Result<(), StoreError> {
    let store = &services.bus.store;
    let mut state = store.read(marked_files::former_home).await?;
    if state == Some(FormerHomeState::Due) {
        mark(services).await?;
        state = Some(FormerHomeState::Found);
    }
    if state == Some(FormerHomeState::Found) {
        tell(services).await?;
    }
    let marked = store.read(marked_files::list).await?;
    services.workspace.set_marked(marked.into_iter().map(|file| file.path));
    Ok(())
}

async fn mark(services: &Services) -> Result<(), StoreError> {
    let (store, people) = (&services.bus.store, services.bus.people.clone());
    let found = store.read(move |store| find(store, &people)).await?;
    let hash = |workspace: &Workspace| {
        let mut marked = Vec::new();
        for (path, author) in found {
            if let Some(hash) = hash_of(workspace, &path) {
                marked.push(MarkedFile { path, hash, author });
            }
        }
        marked
    };
    let marked = services.workspace.off_thread(hash).await;
    tracing::info!(files = marked.len(), "Looked through the files of a former version");
    let keep = move |store: &Connection| {
        marked.iter().try_for_each(|file| marked_files::mark(store, file))?;
        let paths: Vec<_> = marked.into_iter().map(|file| file.path).collect();
        schedule::pause_those_naming(store, &paths)?;
        marked_files::set_former_home(store, FormerHomeState::Found)
    };
    store.write("files of a former version", Sync::Now, keep).await
}

/// Finds the files in the owner's workspace that others or tainted turns have written last.
fn find(
    store: &Connection,
    people: &People,
) -> rusqlite::Result<BTreeMap<WorkspacePath, Option<String>>> {
    let (mut found, mut tainted) = (BTreeMap::new(), BTreeMap::new());
    for file in written_files(store)? {
        let Ok(path) = file.path.parse::<WorkspacePath>() else { continue };
        // These were asked about before, or are untrusted by their folder.
        let is_asked = path.is_shown_changed() || memory::is_memory(&path);
        if path.is_beside() || path.is_of_others() || is_asked {
            continue;
        }
        let author = match other_author(store, people, &file)? {
            Some(name) => FileAuthor::Other(name),
            None if is_tainted(store, &file, &mut tainted)? => FileAuthor::Tainted,
            None => FileAuthor::Owner,
        };
        match author {
            FileAuthor::Owner if file.tool == WRITES_WHOLE => {
                found.remove(&path);
            }
            FileAuthor::Owner => {}
            FileAuthor::Other(name) => {
                found.insert(path, Some(name));
            }
            FileAuthor::Tainted => {
                found.entry(path).or_insert(None);
            }
        }
    }
    Ok(found)
}

enum FileAuthor {
    /// In a clean turn, or asked.
    Owner,
    Tainted,
    Other(String),
}

/// Returns the name of the person for whom a file was written, if that is not the owner.
fn other_author(
    store: &Connection,
    people: &People,
    file: &WrittenFile,
) -> rusqlite::Result<Option<String>> {
    let Some(sender) = &file.sender else { return Ok(Some(replies::SOMEBODY.to_owned())) };
    let role = people.role_of(store, file.origin.channel(), &sender.id)?;
    Ok((role != Some(Role::Owner)).then(|| sender.to_string()))
}

/// Returns true if the turn had read untrusted content, and nobody has allowed the call. `first` has the first such turn
/// of each session that was looked at.
fn is_tainted(
    store: &Connection,
    file: &WrittenFile,
    first: &mut BTreeMap<SessionId, Option<TurnId>>,
) -> rusqlite::Result<bool> {
    if file.was_allowed {
        return Ok(false);
    }
    let audience = match file.chat_kind {
        Some(ChatKind::Private) => Audience::Owner,
        Some(ChatKind::Group) | None => Audience::Others,
    };
    let first = match first.get(&file.session) {
        Some(first) => *first,
        None => {
            let shown = sources::up_to(store, file.session, TurnId(i64::MAX))?;
            let untrusted = shown.iter().filter(|it| taint::is_untrusted(&it.1, audience));
            let turn = untrusted.map(|it| it.0).min();
            first.insert(file.session, turn);
            turn
        }
    };
    Ok(first.is_some_and(|first| first <= file.turn))
}

/// Sends the list to the owner, and offers `/clean` in old conversations, in one transaction. Waits for a start at which
/// it is known where the owner is.
async fn tell(services: &Services) -> Result<(), StoreError> {
    let offered = tainted_chats(services).await?;
    let tell = move |store: &Connection| {
        let list = list(store)?;
        match (people::owner_place(store)?, list) {
            (None, Some(_)) => return Ok(()),
            (Some(owner), Some(list)) => {
                outbox::put_body(store, &owner, &list)?;
            }
            (_, None) => {}
        }
        for at in &offered {
            outbox::put_body(store, at, &offer())?;
        }
        marked_files::set_former_home(store, FormerHomeState::Told)
    };
    services.bus.store.write("a former version's owner is told", Sync::Now, tell).await
}

/// The private chats whose conversations show untrusted content.
async fn tainted_chats(services: &Services) -> Result<Vec<Address>, StoreError> {
    let store = &services.bus.store;
    let since = Utc::now() - OFFERED_WITHIN;
    let chats = store.read(move |store| open_private_chats(store, since)).await?;
    let mut tainted = Vec::new();
    for at in chats {
        let Some(session) = load(services, at.clone()).await? else { continue };
        let Some(by) = session.turns.last().map(|turn| turn.by.clone()) else { continue };
        let (people, channel) = (services.bus.people.clone(), at.channel.clone());
        let role = store.read(move |store| people.role_of(store, &channel, &by)).await?;
        if role.is_some_and(|role| taint::of_one(&session, role).is_some()) {
            tainted.push(at);
        }
    }
    Ok(tainted)
}

fn offer() -> Body {
    let choice = Choice { label: replies::CLEAN_OLD.to_owned(), says: "/clean".to_owned() };
    question(replies::OFFERS_CLEAN.to_owned(), vec![choice], Entitled::Anyone)
}

fn question(text: String, choices: Vec<Choice>, who: Entitled) -> Body {
    Body::Choice(Question { text, choices, who, proposal: None })
}

/// The list for the owner, with the choices about all. None if no file is marked.
fn list(store: &Connection) -> rusqlite::Result<Option<Body>> {
    let files = marked_files::list(store)?;
    if files.is_empty() {
        return Ok(None);
    }
    let paths: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
    let jobs: Vec<i64> =
        schedule::paused_naming(store, &paths)?.into_iter().map(|JobId(id)| id).collect();
    let shown = files.iter().map(|file| (file.path.as_str(), file.author.as_deref()));
    let text = replies::marked_files(shown, &jobs);
    let choices = [
        (replies::TRUST_MARKED, MarkedChoice::Trust),
        (replies::MOVE_MARKED, MarkedChoice::Downloads),
        (replies::LEAVE_MARKED, MarkedChoice::Leave),
    ];
    let choice = |(label, choice): (&str, MarkedChoice)| Choice {
        label: label.to_owned(),
        says: format!("/trust {MARKED} {}", choice.as_str()),
    };
    Ok(Some(question(text, choices.map(choice).into(), Entitled::Owner)))
}

/// The owner's decision about marked files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkedChoice {
    Trust,
    Downloads,
    Leave,
}

words!(MarkedChoice { Trust = "trust", Downloads = "downloads", Leave = "leave" });

/// An order about marked files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MarkedOrder {
    List,
    /// About one path, or all.
    Decide(MarkedChoice, Option<String>),
    Unclear,
}

impl MarkedOrder {
    /// Parses what follows `/trust`; none if it is about something else.
    pub(super) fn parse(said: &str) -> Option<Self> {
        let (first, rest) = said.trim().split_once(' ').unwrap_or((said.trim(), ""));
        if first != MARKED {
            return None;
        }
        let (word, path) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
        let path = Some(path.trim()).filter(|path| !path.is_empty()).map(str::to_owned);
        Some(match (word, MarkedChoice::parse(word)) {
            ("", _) => Self::List,
            (_, Some(choice)) => Self::Decide(choice, path),
            (_, None) => Self::Unclear,
        })
    }
}

/// Shows the marked files to their owner, or decides about them.
pub(super) async fn handle(
    services: &Services,
    control: &WaitingMessage,
    order: MarkedOrder,
) -> Result<(), StoreError> {
    let store = &services.bus.store;
    let words = match order {
        MarkedOrder::Unclear => replies::MARKED_USAGE.to_owned(),
        MarkedOrder::Decide(MarkedChoice::Leave, _) => replies::MARKED_STAY.to_owned(),
        MarkedOrder::List => match list_anew(services).await? {
            Some(list) => return commits::handled_with_bodies(store, control, vec![list]).await,
            None => replies::NO_MARKED_FILES.to_owned(),
        },
        MarkedOrder::Decide(choice, path) => decide(services, choice, path).await?,
    };
    commits::handled(store, control, words).await
}

/// Lists the files as they are now: the owner decides about what was listed last.
async fn list_anew(services: &Services) -> Result<Option<Body>, StoreError> {
    let store = &services.bus.store;
    let files = store.read(marked_files::list).await?;
    let look = |workspace: &Workspace| {
        let present = |file: MarkedFile| match hash_of(workspace, &file.path) {
            Some(hash) => MarkedFile { hash, ..file },
            None => file,
        };
        files.into_iter().map(present).collect::<Vec<_>>()
    };
    let files = services.workspace.off_thread(look).await;
    let keep = move |store: &Connection| {
        files.iter().try_for_each(|file| marked_files::mark(store, file))?;
        list(store)
    };
    store.write("marked files listed", Sync::Now, keep).await
}

/// The hash of a file of the workspace. None for one that is gone, or a link: it leads nobody to what was written.
fn hash_of(workspace: &Workspace, path: &WorkspacePath) -> Option<String> {
    let hash = workspace.open_exactly(path).and_then(OpenedFile::hash);
    hash.ok().map(|hash| hash.to_string())
}

async fn decide(
    services: &Services,
    choice: MarkedChoice,
    path: Option<String>,
) -> Result<String, StoreError> {
    let store = &services.bus.store;
    let mut files = store.read(marked_files::list).await?;
    if let Some(path) = &path {
        files.retain(|file| file.path.as_str() == path);
    }
    if files.is_empty() {
        let none = || replies::NO_MARKED_FILES.to_owned();
        return Ok(path.map_or_else(none, |path| replies::not_marked(&path)));
    }
    let work = move |workspace: &Workspace| {
        let (mut done, mut left) = (Vec::new(), Vec::new());
        for file in files {
            match settle(workspace, &file, choice) {
                Ok(()) => done.push(file.path),
                Err(why) => left.push(why),
            }
        }
        (done, left)
    };
    let (done, left) = services.workspace.off_thread(work).await;
    let words = match choice {
        MarkedChoice::Trust => replies::marked_trusted(done.len(), &left),
        MarkedChoice::Downloads | MarkedChoice::Leave => replies::marked_moved(done.len(), &left),
    };
    let unmark = move |store: &Connection| {
        done.iter().try_for_each(|path| marked_files::unmark(store, path))?;
        marked_files::list(store)
    };
    let marked = store.write("marked files decided", Sync::Now, unmark).await?;
    services.workspace.set_marked(marked.into_iter().map(|file| file.path));
    Ok(words)
}

/// Carries a decision out. It can be repeated after a crash.
fn settle(workspace: &Workspace, file: &MarkedFile, choice: MarkedChoice) -> Result<(), String> {
    let failed = |error: FileError| replies::marked_failed(file.path.as_str(), &error);
    let opened = match workspace.open_exactly(&file.path) {
        // It was moved before a crash, or its owner has deleted it.
        Err(FileError::Missing(_)) => return Ok(()),
        opened => opened.map_err(failed)?,
    };
    let bytes = opened.read_up_to(MOVED_BYTES_MAX).map_err(failed)?;
    let hash = Hash::of(&bytes);
    if choice == MarkedChoice::Trust {
        let is_listed = hash.to_string() == file.hash;
        return is_listed.then_some(()).ok_or_else(|| replies::marked_changed(file.path.as_str()));
    }
    let to: WorkspacePath = format!("{MOVED}/{}", file.path)
        .parse()
        .map_err(|error| replies::marked_failed(file.path.as_str(), &error))?;
    match workspace.apply(&FileChange::new(to.clone(), None, bytes)) {
        // The same, from before a crash.
        Err(FileError::Changed(_)) if workspace.hash(&to).ok() == Some(Some(hash.clone())) => {}
        applied => applied.map_err(failed)?,
    }
    workspace.apply(&FileChange::removal(file.path.clone(), hash)).map_err(failed)
}
