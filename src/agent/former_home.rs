//! The review of a home of a former version. Files in the owner's workspace that others wrote, or turns that had read
//! untrusted content, are marked as untrusted (`marking.rs`), jobs that name them pause, and the owner gets one list.
//! Nothing is moved until the owner decides (`deciding.rs`). Old conversations offer `/clean` once.

mod deciding;
mod marking;

use chrono::{Duration, Utc};
use rusqlite::Connection;

use crate::bus::outbox;
use crate::conversation::former_home::open_private_chats;
use crate::people;
use crate::replies;
use crate::services::{Services, load};
use crate::store::{StoreError, Sync};
use crate::tasks::schedule::{self, JobId};
use crate::trust::marked_files::{self, FormerHomeState};
use crate::trust::taint;
use crate::types::commands::CommandId;
use crate::types::message::{Address, AllowedPressers, Body, Choice, Question};
use crate::types::words::words;

pub(super) use deciding::{MarkedFilesCommand, handle};

/// `/clean` is offered in conversations that were active within this time.
const OFFERED_WITHIN: Duration = Duration::days(30);

/// The first argument of `/trust` for orders about marked files.
const MARKED: &str = "marked";

/// Reviews a home of a former version once, before anything runs in it. Also loads the marks into the workspace.
pub async fn review(services: &Services) -> Result<(), StoreError> {
    let store = &services.bus.store;
    let mut state = store.read(marked_files::former_home).await?;
    if state == Some(FormerHomeState::Due) {
        marking::mark(services).await?;
        state = Some(FormerHomeState::Found);
    }
    if state == Some(FormerHomeState::Found) {
        report(services).await?;
    }
    let marked = store.read(marked_files::list).await?;
    services.workspace.set_marked(marked.into_iter().map(|file| file.path));
    Ok(())
}

/// Sends the list to the owner, and offers `/clean` in old conversations, in one transaction. If the owner's address is
/// not known yet, a later start does it.
async fn report(services: &Services) -> Result<(), StoreError> {
    let offered = tainted_chats(services).await?;
    let put_messages = move |store: &Connection| {
        let list = list(store)?;
        match (people::owner_address(store)?, list) {
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
    services.bus.store.write("a former version's owner is told", Sync::Now, put_messages).await
}

/// Returns the private chats whose conversations contain untrusted content.
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
        if role.is_some_and(|role| taint::session_taint(&session, role).is_some()) {
            tainted.push(at);
        }
    }
    Ok(tainted)
}

fn offer() -> Body {
    let choice = Choice { label: replies::CLEAN_OLD.to_owned(), says: CommandId::Clean.line("") };
    question(replies::OFFERS_CLEAN.to_owned(), vec![choice], AllowedPressers::Anyone)
}

fn question(text: String, choices: Vec<Choice>, who: AllowedPressers) -> Body {
    Body::Choice(Question::new(text, choices, who))
}

/// Returns the list for the owner, with choices that apply to all files. None if no file is marked.
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
        says: CommandId::Trust.line(format_args!("{MARKED} {}", choice.as_str())),
    };
    Ok(Some(question(text, choices.map(choice).into(), AllowedPressers::Owner)))
}

/// The owner's decision about marked files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkedChoice {
    Trust,
    Downloads,
    Leave,
}

words!(MarkedChoice { Trust = "trust", Downloads = "downloads", Leave = "leave" });
