//! `/forget`: shows everything that contains some words, and after a confirmation removes the words from facts, memory,
//! notes, conversations, actions, former versions of files and the index. The record of actions stays, without the
//! words.

mod attachments;
mod marked;
mod words_in_files;

use std::time::Duration;

use chrono::Utc;
use rusqlite::Connection;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::bus::forgetting::{self, JOURNAL_TEXTS};
use crate::bus::journal::{InboundOutcome, RowId, WaitingMessage};
use crate::conversation::blanking::{ForgottenChats, blank_steps, chats_of, has_unfinished_turn};
use crate::conversation::transcript::count_running;
use crate::memory::extraction;
use crate::memory::facts::{self, FactId};
use crate::memory::file_scope;
use crate::memory::forgotten::{self, ForgottenRecord, ForgottenScope};
use crate::memory::recall::{self, RecallKey, files};
use crate::people::folders::folder_owner;
use crate::people::persons::{self, PersonAccount};
use crate::replies;
use crate::services::{Services, role_of};
use crate::store::{
    BlankPass, BlankedSlice, ChatPlace, ForgottenWords, RowKey, Store, StoreError, Sync,
    blank_slice,
};
use crate::tasks::blanking::all_texts;
use crate::turn::services::TurnServices;
use crate::turn::{self, commits};
use crate::types::commands::CommandId;
use crate::types::message::{AllowedPressers, Body, ChatKind, Choice, Question};
use crate::workspace::FileScope;

/// Minimum length of the words, in characters: shorter ones occur everywhere.
const WORDS_CHARS_MIN: usize = 3;
const WORDS_CHARS_MAX: usize = 500;

/// Time after which the database is rewritten even while turns run.
const QUIET_WAIT_MAX: Duration = Duration::from_secs(600);
const QUIET_LOOK_EVERY: Duration = Duration::from_millis(500);

/// Files that are named in a question.
const FILES_SHOWN: usize = 10;

/// The first argument of the button that confirms.
const YES: &str = "yes:";

/// A parsed `/forget`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ForgetCommand {
    what: String,
    /// True if the person has confirmed.
    pub(super) is_final: bool,
}

impl ForgetCommand {
    /// Parses `#FACT`, `WORDS`, or `yes: WORDS` as the button says it. None without words.
    pub(super) fn parse(argument: &str) -> Option<Self> {
        let argument = argument.trim();
        let (what, is_final) = match argument.strip_prefix(YES) {
            Some(what) => (what.trim(), true),
            None => (argument, false),
        };
        (!what.is_empty()).then(|| Self { what: what.to_owned(), is_final })
    }

    /// Returns the number of the fact that the words name, if they name one.
    fn fact(&self) -> Option<FactId> {
        self.what.strip_prefix('#')?.parse().ok().map(FactId)
    }
}

/// Words to forget, or to ask the person about first.
pub(super) struct ForgetWork {
    scope: ForgetScope,
    words: ForgottenWords,
    /// The words as the question shows them. None once the person has confirmed.
    question: Option<String>,
}

/// The conversations and files in which words are forgotten.
struct ForgetScope {
    keys: Vec<RecallKey>,
    chats: Vec<ChatPlace>,
    chat_kind: ChatKind,
    files: FileScope,
    is_busy: bool,
    fact: Option<String>,
}

impl ForgetScope {
    /// Returns the files that include a memory and notes. None in a group.
    fn own_files(&self) -> Option<&FileScope> {
        (self.chat_kind == ChatKind::Private).then_some(&self.files)
    }
}

/// Returns the work of a command. None if the command is already answered.
pub(super) async fn prepare(
    services: &Services,
    control: &WaitingMessage,
    order: Option<ForgetCommand>,
) -> Result<Option<ForgetWork>, StoreError> {
    let store = &services.bus.store;
    let inbound = &control.inbound;
    let role = role_of(services, &inbound.from, control.sender()).await?;
    let refuse = async |reply: String| {
        commits::reply(store, control, reply).await?;
        Ok(None)
    };
    if !CommandId::Forget.spec().allows(role, inbound.chat_kind) {
        return refuse(replies::FORGET_IN_GROUPS.to_owned()).await;
    }
    let Some(order) = order else { return refuse(replies::FORGET_USAGE.to_owned()).await };
    let (channel, who) = (inbound.from.channel.clone(), control.sender().id.clone());
    let owner = store.read(move |store| folder_owner(store, &channel, &who)).await?;
    let files = file_scope(role, inbound.chat_kind, &inbound.from, &owner);
    let scope = read_scope(services, control, &order, files).await?;
    let what = match (order.fact(), &scope.fact) {
        (Some(FactId(number)), None) => return refuse(replies::no_such_fact(number)).await,
        (_, Some(text)) => text.clone(),
        (None, None) => order.what.clone(),
    };
    let length = what.chars().count();
    let words = ForgottenWords::new(&what)
        .filter(|_| (WORDS_CHARS_MIN..=WORDS_CHARS_MAX).contains(&length));
    let Some(words) = words else { return refuse(replies::FORGET_LENGTH.to_owned()).await };
    if order.is_final && scope.is_busy {
        return refuse(replies::FORGET_BUSY.to_owned()).await;
    }
    let question = (!order.is_final).then_some(what);
    Ok(Some(ForgetWork { scope, words, question }))
}

async fn read_scope(
    services: &Services,
    control: &WaitingMessage,
    order: &ForgetCommand,
    files: FileScope,
) -> Result<ForgetScope, StoreError> {
    let (at, chat_kind, who) =
        (control.inbound.from.clone(), control.inbound.chat_kind, control.sender().id.clone());
    let fact = order.fact();
    let query = move |store: &Connection| {
        let keys = recall::conversation_keys(store, &at, chat_kind, &who)?;
        let whose = match chat_kind {
            ChatKind::Group => ForgottenChats::Group(ChatPlace {
                channel: at.channel.to_string(),
                chat: at.chat.to_string(),
            }),
            ChatKind::Private => {
                let mut accounts = persons::accounts_of_same(store, &at.channel, &who)?;
                if accounts.is_empty() {
                    accounts.push(PersonAccount { channel: at.channel.clone(), sender: who });
                }
                ForgottenChats::Person(accounts)
            }
        };
        let mut chats = chats_of(store, &whose)?;
        let here = ChatPlace { channel: at.channel.to_string(), chat: at.chat.to_string() };
        if !chats.contains(&here) {
            chats.push(here);
        }
        let is_busy = has_unfinished_turn(store, &chats)?;
        let known = facts::list(store, &keys)?;
        let fact = known.into_iter().find(|it| Some(it.id) == fact).map(|it| it.text);
        Ok(ForgetScope { keys, chats, chat_kind, files, is_busy, fact })
    };
    services.bus.store.read(query).await
}

/// The numbers of rows that contain the words.
#[derive(Default)]
struct RowsWithWords {
    steps: usize,
    others: usize,
}

/// Finds words in all texts of some chats, a slice at a time. If a row is spared, it also blanks them. The spared row
/// is the command's, which needs its words until everything else is done.
struct Sweep<'a> {
    store: &'a Store,
    words: &'a ForgottenWords,
    spared: Option<RowId>,
}

impl Sweep<'_> {
    async fn all(&self, chats: &[ChatPlace]) -> Result<RowsWithWords, StoreError> {
        let mut found = RowsWithWords::default();
        for chat in chats {
            found.steps += self.slices(chat, None, blank_steps).await?;
            for table in all_texts() {
                let blank =
                    move |store: &Connection, chat: &ChatPlace, words: &ForgottenWords, pass| {
                        blank_slice(store, table, chat, words, pass)
                    };
                found.others += self.slices(chat, None, blank).await?;
            }
            let blank = |store: &Connection, chat: &ChatPlace, words: &ForgottenWords, pass| {
                blank_slice(store, &JOURNAL_TEXTS, chat, words, pass)
            };
            found.others += self.slices(chat, self.spared.map(|row| row.0), blank).await?;
        }
        Ok(found)
    }

    async fn slices(
        &self,
        chat: &ChatPlace,
        excluded_row: Option<i64>,
        blank: impl Fn(
            &Connection,
            &ChatPlace,
            &ForgottenWords,
            BlankPass,
        ) -> rusqlite::Result<BlankedSlice>
        + Copy
        + Send
        + 'static,
    ) -> Result<usize, StoreError> {
        let blanks = self.spared.is_some();
        let mut pass = BlankPass { after: RowKey::FIRST, blanks, excluded_row };
        let mut changed = 0;
        loop {
            let (chat, words) = (chat.clone(), self.words.clone());
            let work = move |store: &Connection| blank(store, &chat, &words, pass);
            let slice = match blanks {
                true => self.store.write("forget", Sync::Later, work).await?,
                false => self.store.read(work).await?,
            };
            changed += slice.changed.len();
            match slice.next {
                Some(next) => pass.after = next,
                None => return Ok(changed),
            }
        }
    }
}

/// Shows what will be removed, with a button to confirm.
async fn ask(
    services: &Services,
    control: &WaitingMessage,
    scope: &ForgetScope,
    words: &ForgottenWords,
    what: &str,
) -> Result<(), StoreError> {
    let store = &services.bus.store;
    let rows = Sweep { store, words, spared: None }.all(&scope.chats).await?;
    let known = facts_with_words(store, scope, words).await?;
    let mut files = words_in_files::find(services, scope, words).await;
    let sent = attachments::with_words(services, &scope.files.downloads(), words).await?;
    let marked = marked::with_words(services, scope.own_files(), words).await?;
    files.others.retain(|path| !sent.iter().any(|it| it.path == *path) && !marked.contains(path));
    let shown = replies::ForgetShown {
        what,
        facts: known.iter().map(|(id, text)| (id.0, text.as_str())).collect(),
        memory: files.memory.iter().map(ToString::to_string).collect(),
        steps: rows.steps,
        // The command itself is one of these rows.
        others: rows.others.saturating_sub(1),
        sent: sent.iter().take(FILES_SHOWN).map(|it| it.path.to_string()).collect(),
        marked: marked.iter().map(ToString::to_string).collect(),
        files: files.others.iter().take(FILES_SHOWN).map(ToString::to_string).collect(),
    };
    let question = Body::Choice(Question::new(
        replies::may_forget(&shown),
        vec![Choice {
            label: replies::FORGET_IT.to_owned(),
            says: CommandId::Forget.line(format_args!("{YES} {what}")),
        }],
        AllowedPressers::Only(control.sender().id.clone()),
    ));
    commits::reply_with_bodies(store, control, vec![question]).await
}

/// Returns the facts that contain the words.
async fn facts_with_words(
    store: &Store,
    scope: &ForgetScope,
    words: &ForgottenWords,
) -> Result<Vec<(FactId, String)>, StoreError> {
    let (keys, words) = (scope.keys.clone(), words.clone());
    let query = move |store: &Connection| {
        let known = facts::list(store, &keys)?.into_iter().filter(|fact| words.are_in(&fact.text));
        Ok(known.map(|fact| (fact.id, fact.text)).collect())
    };
    store.read(query).await
}

impl ForgetWork {
    /// Returns the chats whose texts are searched.
    pub(super) fn chats(&self) -> &[ChatPlace] {
        &self.scope.chats
    }

    /// Returns true if the person has confirmed.
    pub(super) fn is_final(&self) -> bool {
        self.question.is_none()
    }

    pub(super) async fn run(
        self,
        turns: &TurnServices,
        control: &WaitingMessage,
        blanked: &CancellationToken,
    ) -> Result<(), StoreError> {
        let Some(what) = &self.question else { return self.forget(turns, control, blanked).await };
        ask(&turns.services, control, &self.scope, &self.words, what).await?;
        turns.services.bus.outbox.notify();
        Ok(())
    }

    /// Removes the words, and cancels `blanked` once no text contains them. The command's row keeps them until
    /// everything else is done, so that the command is carried out again after a crash.
    async fn forget(
        self,
        turns: &TurnServices,
        control: &WaitingMessage,
        blanked: &CancellationToken,
    ) -> Result<(), StoreError> {
        let Self { scope, words, .. } = self;
        let services = &turns.services;
        let store = &services.bus.store;
        let failed = words_in_files::forget(turns, &scope, &words).await?;
        forget_facts(store, &scope, &words).await?;
        Sweep { store, words: &words, spared: Some(control.id) }.all(&scope.chats).await?;
        // More facts may have been noticed meanwhile.
        forget_facts(store, &scope, &words).await?;
        if let Some(files) = scope.own_files() {
            turn::facts::refresh_file(services, files, &scope.keys).await?;
        }
        while !files::refresh(store, &services.workspace, &scope.files).await? {}
        blanked.cancel();
        services.bus.inbox.notify();
        let rewritten = rewrite(store).await;
        if let Err(error) = &rewritten {
            tracing::warn!(%error, "Cannot rewrite the database after something was forgotten");
        }
        let reply = match (failed, &rewritten) {
            (Some(path), _) => replies::not_all_forgotten(&path),
            (None, Err(_)) => replies::FORGOTTEN_EXCEPT_FREE_SPACE.to_owned(),
            (None, Ok(())) => replies::FORGOTTEN_NOW.to_owned(),
        };
        let control = control.clone();
        let files = scope.own_files().cloned();
        let ForgetScope { keys, chats, .. } = scope;
        // A backup from before still has the words.
        let record =
            ForgottenRecord::new(Utc::now(), ForgottenScope { keys, chats, files }, &words);
        let end = move |store: &Connection| {
            let note = || {
                forgotten::note(store, &record)?;
                forgetting::blank_row(store, control.id, &words)?;
                Ok(reply)
            };
            commits::settle_command(store, &control, InboundOutcome::Handled, note).map(drop)
        };
        store.write_securely("command", end).await?;
        store.checkpoint().await;
        services.bus.outbox.notify();
        tracing::info!("Deleted words that somebody asked to forget");
        Ok(())
    }
}

/// Rewrites the database, because former versions of rows stay in its free space. Changes wait meanwhile, for seconds
/// in a large database, so it first waits until no turn runs, for at most `QUIET_WAIT_MAX`.
pub(super) async fn rewrite(store: &Store) -> Result<(), StoreError> {
    let deadline = Instant::now() + QUIET_WAIT_MAX;
    while store.read(count_running).await? > 0 && Instant::now() < deadline {
        sleep(QUIET_LOOK_EVERY).await;
    }
    store.rewrite().await
}

/// Removes the facts that contain the words. A conversation that is being read for facts may contain them, so it is
/// read again.
async fn forget_facts(
    store: &Store,
    scope: &ForgetScope,
    words: &ForgottenWords,
) -> Result<(), StoreError> {
    let (keys, sought) = (scope.keys.clone(), words.clone());
    let remove = move |store: &Connection| {
        extraction::note_forgotten(store)?;
        let known = facts::list(store, &keys)?;
        let known = known.iter().filter(|fact| sought.are_in(&fact.text));
        known.into_iter().try_for_each(|fact| facts::remove(store, fact.id))
    };
    store.write("forget facts", Sync::Later, remove).await
}
