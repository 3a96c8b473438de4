//! Commands: carried out by the loop at once, without a model, also while turns run.

use chrono::{DateTime, Duration, Utc};
use rusqlite::Connection;

use super::skills::skills_words;
use crate::agent::approvals::Verdict;
use crate::agent::settings::{self, Wish};
use crate::agent::{context_used, heart, jobs, undo};
use crate::bus::journal::Waiting;
use crate::bus::outbox;
use crate::conversation::ledger::usage_words;
use crate::conversation::settings::settings_at;
use crate::conversation::transcript;
use crate::people::{self, People, Role};
use crate::replies;
use crate::sandbox::CageState;
use crate::store::StoreError;
use crate::tasks::heartbeat::Wish as Wished;
use crate::tasks::schedule::{self, Wanted};
use crate::tasks::subagents;
use crate::turn::commits;
use crate::turn::means::{Means, role_of};
use crate::types::message::Place;
use crate::types::session::{Effort, QueueMode};

/// What `/actions` shows, and at most: a message on most platforms.
const ACTIONS_SHOWN: usize = 10;
const ACTIONS_MAX: usize = 50;

/// What a person commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Status,
    Stop,
    New,
    WhoAmI,
    /// With what matters most to the person.
    Compact(Option<String>),
    /// None if it was said wrongly.
    Actions(Option<usize>),
    /// The number of an action, or the last one.
    Undo(Option<String>),
    Plan,
    Subagents,
    /// None if it was said wrongly.
    Jobs(Option<Wanted>),
    /// None if it was said wrongly.
    Heartbeat(Option<Wished>),
    Proposals,
    /// None if it was said wrongly.
    Pair(Option<Pairing>),
    /// The model, thinking or the queue of a conversation.
    Set(Wish),
    /// A question aside; empty if none was asked.
    Btw(String),
    Skills,
    Usage,
    Restart,
    /// Whether a call that waits may be made; none if it was said wrongly.
    Judge(Option<Verdict>),
}

/// One `/pair` subcommand, or the same from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pairing {
    List,
    Approve(String),
    Deny(String),
    Revoke { channel: String, sender: String },
}

impl Pairing {
    /// Reads `list`, `approve CODE`, `deny CODE` or `revoke CHANNEL ID`.
    pub fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let verb = words.next().unwrap_or("list").to_ascii_lowercase();
        let mut next = || words.next().map(str::to_owned);
        match verb.as_str() {
            "list" => Some(Self::List),
            "approve" => next().map(Self::Approve),
            "deny" => next().map(Self::Deny),
            "revoke" => Some(Self::Revoke { channel: next()?, sender: next()? }),
            _ => None,
        }
    }
}

/// Reads a text that begins with one of `bus::CONTROLS`.
pub(super) fn parse(text: &str) -> Command {
    let mut words = text.split_whitespace();
    match words.next().unwrap_or_default().to_ascii_lowercase().as_str() {
        "/status" => Command::Status,
        "/stop" => Command::Stop,
        "/new" => Command::New,
        "/whoami" => Command::WhoAmI,
        "/actions" => Command::Actions(match words.next() {
            None => Some(ACTIONS_SHOWN),
            Some(number) => number.parse().ok().map(|n: usize| n.clamp(1, ACTIONS_MAX)),
        }),
        "/undo" => Command::Undo(words.next().map(str::to_owned)),
        "/plan" => Command::Plan,
        "/subagents" => Command::Subagents,
        "/jobs" => {
            let said = text.trim_start().split_once(char::is_whitespace);
            Command::Jobs(jobs::read(said.map_or("", |(_, said)| said)))
        }
        "/heartbeat" => Command::Heartbeat(heart::read(words)),
        "/proposals" => Command::Proposals,
        "/compact" => {
            let focus = words.collect::<Vec<_>>().join(" ");
            Command::Compact((!focus.is_empty()).then_some(focus))
        }
        "/pair" => Command::Pair(Pairing::parse(words)),
        "/model" => Command::Set(Wish::of_model(words)),
        "/think" => Command::Set(Wish::of_thinking(words)),
        "/queue" => Command::Set(Wish::of_queue(words)),
        "/btw" => {
            let question = text.trim_start().split_once(char::is_whitespace);
            Command::Btw(question.map_or("", |(_, question)| question.trim()).to_owned())
        }
        "/skills" => Command::Skills,
        "/usage" => Command::Usage,
        "/restart" => Command::Restart,
        "/approve" => Command::Judge(Verdict::approve(words)),
        "/deny" => Command::Judge(Verdict::deny(words)),
        _ => Command::Help,
    }
}

/// Answers every command but those that the loop carries out itself.
pub(super) async fn obey(
    means: &Means,
    control: &Waiting,
    command: Command,
    busy: bool,
    turns: usize,
) -> Result<(), StoreError> {
    let words = match command {
        Command::Help
        | Command::Stop
        | Command::New
        | Command::Btw(_)
        | Command::Compact(_)
        | Command::Judge(_) => replies::HELP.to_owned(),
        Command::Status => status(means, control, busy, turns).await?,
        Command::Set(wish) => return settings::obey(means, control, wish).await,
        Command::Skills => means.workspace.off_thread(skills_words).await,
        Command::Usage => usage(means, control).await?,
        Command::Restart => return restart(means, control).await,
        Command::WhoAmI => {
            let role = role_of(means, &control.inbound.from, control.sender()).await?;
            let inbound = &control.inbound;
            replies::who_you_are(control.sender(), role, &inbound.from)
        }
        Command::Actions(None) => replies::ACTIONS_USAGE.to_owned(),
        Command::Actions(Some(limit)) => undo::list(means, control, limit).await?,
        Command::Undo(number) => return undo::obey(means, control, number.as_deref()).await,
        Command::Plan => undo::plan(means, control).await?,
        Command::Subagents => subagents(means, control).await?,
        Command::Jobs(order) => return jobs::obey(means, control, order).await,
        Command::Heartbeat(wish) => return heart::obey(means, control, wish).await,
        Command::Proposals => undo::proposals(means, control).await?,
        Command::Pair(pairing) => return obey_pair(means, control, pairing).await,
    };
    commits::obeyed(&means.bus.store, control, words).await
}

async fn obey_pair(
    means: &Means,
    control: &Waiting,
    pairing: Option<Pairing>,
) -> Result<(), StoreError> {
    let role = role_of(means, &control.inbound.from, control.sender()).await?;
    let private = control.inbound.place == Place::Private;
    let words = match pairing {
        _ if role < Role::Owner || !private => replies::OWNER_ONLY.to_owned(),
        None => replies::PAIR_USAGE.to_owned(),
        Some(pairing) => {
            let people = means.bus.people.clone();
            return commits::obeyed_with(&means.bus.store, control, move |store| {
                let done = pair(store, &people, &pairing, Utc::now())?;
                Ok(done.unwrap_or_else(|words| words))
            })
            .await;
        }
    };
    commits::obeyed(&means.bus.store, control, words).await
}

async fn status(
    means: &Means,
    control: &Waiting,
    busy: bool,
    turns: usize,
) -> Result<String, StoreError> {
    let role = role_of(means, &control.inbound.from, control.sender()).await?;
    // What a program has said in its distress is for those who can mend it.
    let lent = means.tools.lent();
    let lenders = lent.lenders.iter().map(|lender| {
        let trouble = lender.trouble.as_deref().filter(|_| role >= Role::Admin);
        replies::lender(&lender.name, lender.up, lender.tools, trouble)
    });
    let lenders = lenders.collect();
    let month_ago = Utc::now() - Duration::days(30);
    let at = control.inbound.from.clone();
    let look =
        move |store: &_| Ok((transcript::used_since(store, month_ago)?, settings_at(store, &at)?));
    let (used, settings) = means.bus.store.read(look).await?;
    let provider = means.provider_for(&settings);
    let context = context_used(means, &control.inbound.from, provider.sees()).await?;
    let shell = (means.shell != CageState::Off).then(|| means.shell.words());
    let heart = match (role, control.inbound.place) {
        (Role::Owner, Place::Private) => Some(means.heart.words().await?),
        _ => None,
    };
    let words = replies::status(&replies::StatusShown {
        context: (context, provider.room()),
        provider: provider.name(),
        effort: (settings.effort != Effort::Default).then_some(settings.effort.as_str()),
        queue: settings.queue.map(QueueMode::as_str),
        busy_here: busy,
        turns,
        tools: means.tools.len(),
        lenders,
        tokens: (used.input, used.output),
    });
    Ok([Some(words), shell, heart].into_iter().flatten().collect::<Vec<_>>().join("\n"))
}

async fn subagents(means: &Means, control: &Waiting) -> Result<String, StoreError> {
    let at = control.inbound.from.clone();
    let found = means.bus.store.read(move |store| subagents::list(store, &at)).await?;
    let lines = found.iter().map(|it| {
        let begun = it.begun.with_timezone(&means.zone).format("%m-%d %H:%M").to_string();
        (it.id.0, it.state.as_str(), begun, &*it.task)
    });
    Ok(replies::subagents(lines))
}

async fn usage(means: &Means, control: &Waiting) -> Result<String, StoreError> {
    let role = role_of(means, &control.inbound.from, control.sender()).await?;
    if role < Role::Admin {
        return Ok(replies::USAGE_FOR_ADMINS.to_owned());
    }
    let midnight = schedule::midnight(Utc::now(), means.zone);
    means.bus.store.read(move |store| usage_words(store, midnight)).await
}

/// Ends the daemon, if somebody starts it again.
async fn restart(means: &Means, control: &Waiting) -> Result<(), StoreError> {
    let role = role_of(means, &control.inbound.from, control.sender()).await?;
    let words = match &means.restart {
        _ if role < Role::Owner => replies::OWNER_ONLY,
        None => replies::CANNOT_RESTART,
        Some(_) => replies::RESTARTING,
    };
    commits::obeyed(&means.bus.store, control, words.to_owned()).await?;
    if let (Role::Owner, Some(restart)) = (role, &means.restart) {
        tracing::info!("Told to restart");
        restart.cancel();
    }
    Ok(())
}

/// Carries a pairing command out and tells the person whom it is about; gives the words for who
/// commanded, or an error in words.
pub fn pair(
    store: &Connection,
    people: &People,
    command: &Pairing,
    now: DateTime<Utc>,
) -> rusqlite::Result<Result<String, String>> {
    Ok(match command {
        Pairing::List => Ok(list(&people::pending(store, now)?, &people::paired(store)?)),
        Pairing::Approve(code) => match people::approve(store, people, code, now)? {
            None => Err(replies::UNKNOWN_CODE.to_owned()),
            Some((stranger, role)) => {
                let welcome = match role {
                    Role::Owner => replies::WELCOME_OWNER,
                    _ => replies::WELCOME_USER,
                };
                outbox::put(store, &stranger.address(), None, welcome)?;
                Ok(replies::approved(&stranger.sender, role))
            }
        },
        Pairing::Deny(code) => match people::deny(store, code, now)? {
            None => Err(replies::UNKNOWN_CODE.to_owned()),
            Some(stranger) => {
                outbox::put(store, &stranger.address(), None, replies::TURNED_AWAY)?;
                Ok(replies::denied(&stranger.sender))
            }
        },
        Pairing::Revoke { channel, sender } => match people::revoke(store, channel, sender)? {
            true => Ok(replies::revoked(sender)),
            false => Err(replies::not_paired(sender)),
        },
    })
}

fn list(pending: &[people::Pending], paired: &[people::Paired]) -> String {
    if pending.is_empty() && paired.is_empty() {
        return replies::NOBODY_WAITS.to_owned();
    }
    let waiting = pending
        .iter()
        .map(|who| format!("{} waits on {} with code {}", who.sender, who.channel, who.code));
    let inside =
        paired.iter().map(|who| format!("{} on {} is {}", who.sender, who.channel, who.role));
    waiting.chain(inside).collect::<Vec<_>>().join("\n")
}
