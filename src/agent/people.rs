//! `/people`, `/link` and `/unlink`: the known persons, and the accounts that belong to one person.

use chrono::{DateTime, Utc};
use rusqlite::Connection;

use crate::bus::journal::{self, InboundOutcome, WaitingMessage};
use crate::bus::{Bus, outbox};
use crate::conversation::budgets::stored;
use crate::conversation::ledger::sums::{LedgerFilter, spent_since};
use crate::conversation::ledger::{self, USAGE_PERIOD};
use crate::people::folders::{self, FolderAct};
use crate::people::links::{self, AccountLink, LinkAccount, LinkCodeOutcome};
use crate::people::listing::{self, ListedAccount, ListedPerson, RoleFrom};
use crate::people::persons::PersonAccount;
use crate::people::{self, People, Role};
use crate::replies::{self, PersonShown};
use crate::services::{Services, role_of};
use crate::store::{StoreError, Sync};
use crate::turn::{background, commits};
use crate::types::commands::CommandId;
use crate::types::message::{AllowedPressers, Body, ChatKind, Choice, Question};
use crate::types::person::PersonId;

/// Maximum number of persons in one answer of `/people`.
const SHOWN_MAX: usize = 30;

/// A `/people` subcommand, or the same from the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeopleCommand {
    List,
    Show(PersonId),
    SetRole(PersonId, Role),
    Block(PersonId),
    Unblock(PersonId),
    /// Removes the person and archives their files.
    Remove(PersonId),
    /// Removes the person and deletes their files.
    Purge(PersonId),
}

impl PeopleCommand {
    /// Parses no argument, `list`, `p5`, or a verb with a person such as `admin p5`.
    pub fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let words: Vec<_> = words.collect();
        let person = PersonId::parse;
        match words.as_slice() {
            [] => Some(Self::List),
            [verb] if verb.eq_ignore_ascii_case("list") => Some(Self::List),
            [number] => person(number).map(Self::Show),
            [verb, number, files]
                if verb.eq_ignore_ascii_case("remove") && files.eq_ignore_ascii_case("purge") =>
            {
                person(number).map(Self::Purge)
            }
            [verb, number] => {
                let person = person(number)?;
                match verb.to_ascii_lowercase().as_str() {
                    "show" => Some(Self::Show(person)),
                    "block" => Some(Self::Block(person)),
                    "unblock" => Some(Self::Unblock(person)),
                    "remove" => Some(Self::Remove(person)),
                    "purge" => Some(Self::Purge(person)),
                    // Owners are named in the config, or pair on the machine.
                    role => Role::parse(role)
                        .filter(|role| *role < Role::Owner)
                        .map(|role| Self::SetRole(person, role)),
                }
            }
            _ => None,
        }
    }
}

/// A `/link` subcommand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LinkCommand {
    Offer,
    Enter(String),
    Decide { code: String, is_yes: bool },
}

impl LinkCommand {
    /// Parses no argument, `CODE`, `yes CODE` or `no CODE`.
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Self {
        match (words.next(), words.next()) {
            (None, _) => Self::Offer,
            (Some(code), None) => Self::Enter(code.to_owned()),
            (Some(verb), Some(code)) => {
                Self::Decide { code: code.to_owned(), is_yes: verb.eq_ignore_ascii_case("yes") }
            }
        }
    }
}

/// Answers `/people`.
pub(super) async fn handle(
    services: &Services,
    control: &WaitingMessage,
    order: Option<PeopleCommand>,
) -> Result<(), StoreError> {
    let role = role_of(services, &control.inbound.from, control.sender()).await?;
    let store = &services.bus.store;
    if !CommandId::People.spec().allows(role, control.inbound.chat_kind) {
        return commits::reply(store, control, replies::PEOPLE_FOR_OWNER.to_owned()).await;
    }
    let Some(order) = order else {
        return commits::reply(store, control, replies::PEOPLE_USAGE.to_owned()).await;
    };
    let (people, zone) = (services.bus.people.clone(), services.zone);
    let row = control.id;
    let inbound = control.inbound.clone();
    let handle = move |store: &Connection| {
        if !journal::settle(store, row, InboundOutcome::Handled)? {
            return Ok(());
        }
        let now = Utc::now().with_timezone(&zone);
        match apply_people_command(store, &people, order, now)? {
            Ok(PeopleReply::Words(reply)) | Err(reply) => {
                outbox::put_urgent(store, &inbound.from, inbound.id.as_ref(), &reply)?;
            }
            Ok(PeopleReply::Card(question)) => {
                outbox::put_body(store, &inbound.from, &Body::Choice(question))?;
            }
        }
        Ok(())
    };
    store.write("people", Sync::Now, handle).await?;
    notify_of_change(&services.bus);
    Ok(())
}

/// Wakes all that works for persons whose access was changed: turns, commands, jobs, and tasks on their files.
pub fn notify_of_change(bus: &Bus) {
    bus.access.notify();
    bus.folders.notify();
    bus.inbox.notify();
    bus.jobs.notify();
    bus.closed.notify();
}

/// The answer to a `/people` order.
pub enum PeopleReply {
    Words(String),
    /// A person, with buttons for what can be changed.
    Card(Question),
}

/// Carries out an order of the owner. The inner error explains a refusal.
pub fn apply_people_command(
    store: &Connection,
    people: &People,
    order: PeopleCommand,
    now: DateTime<chrono_tz::Tz>,
) -> rusqlite::Result<Result<PeopleReply, String>> {
    let id = match order {
        PeopleCommand::List => {
            let listed = listing::list(store, people, None)?;
            if listed.is_empty() {
                return Ok(Ok(PeopleReply::Words(replies::NOBODY_YET.to_owned())));
            }
            let shown =
                listed.iter().take(SHOWN_MAX).map(|person| person_shown(store, person, now));
            let shown: Vec<_> = shown.collect::<Result<_, _>>()?;
            let reply = replies::people(&shown, listed.len() - shown.len());
            return Ok(Ok(PeopleReply::Words(reply)));
        }
        PeopleCommand::Show(id)
        | PeopleCommand::SetRole(id, _)
        | PeopleCommand::Block(id)
        | PeopleCommand::Unblock(id)
        | PeopleCommand::Remove(id)
        | PeopleCommand::Purge(id) => id,
    };
    if matches!(order, PeopleCommand::Purge(_)) && folders::is_removed(store, id)? {
        folders::order(store, id, FolderAct::Purge)?;
        return Ok(Ok(PeopleReply::Words(replies::files_are_purged(id))));
    }
    let Some(person) = listing::list(store, people, Some(id))?.pop() else {
        return Ok(Err(replies::NO_SUCH_PERSON.to_owned()));
    };
    let name = &person.name;
    if matches!(order, PeopleCommand::Show(_)) {
        return Ok(Ok(PeopleReply::Card(card(&person, &person_shown(store, &person, now)?))));
    }
    let is_fixed = person.role_from == RoleFrom::Config || person.role == Some(Role::Owner);
    if is_fixed {
        return Ok(Err(replies::role_is_the_configs(name)));
    }
    let reply = match order {
        PeopleCommand::SetRole(id, role) => {
            listing::set_role(store, id, role)?;
            replies::role_is_set(name, role)
        }
        PeopleCommand::Block(id) => {
            listing::set_blocked(store, id, Some(Utc::now()))?;
            accounts_of(&person).try_for_each(|it| commits::end_work_of(store, &it).map(drop))?;
            replies::person_is_blocked(name)
        }
        PeopleCommand::Unblock(id) => {
            listing::set_blocked(store, id, None)?;
            replies::person_is_unblocked(name)
        }
        PeopleCommand::Remove(id) => {
            remove(store, &person)?;
            folders::order(store, id, FolderAct::Archive)?;
            replies::person_is_removed(name, id)
        }
        PeopleCommand::Purge(id) => {
            remove(store, &person)?;
            folders::order(store, id, FolderAct::Purge)?;
            replies::person_is_purged(name)
        }
        PeopleCommand::List | PeopleCommand::Show(_) => String::new(),
    };
    background::keep_owner_place(store, people)?;
    tracing::info!(person = %id, ?order, "The owner has changed a person");
    Ok(Ok(PeopleReply::Words(reply)))
}

/// Removes a person and separates their accounts from the past, so that a later user of an account inherits nothing.
fn remove(store: &Connection, person: &ListedPerson) -> rusqlite::Result<()> {
    accounts_of(person).try_for_each(|it| commits::part_from_past(store, &it))?;
    listing::remove(store, person.id, Utc::now())
}

fn accounts_of(person: &ListedPerson) -> impl Iterator<Item = PersonAccount> {
    let account =
        |it: &ListedAccount| PersonAccount { channel: it.channel.clone(), sender: it.id.clone() };
    person.accounts.iter().map(account)
}

fn person_shown(
    store: &Connection,
    person: &ListedPerson,
    now: DateTime<chrono_tz::Tz>,
) -> rusqlite::Result<PersonShown> {
    let since = now.with_timezone(&Utc) - USAGE_PERIOD;
    let spent = spent_since(store, LedgerFilter::Person(person.id), since)?;
    let accounts = person.accounts.iter().map(|it| format!("{} on {}", it.id, it.channel));
    Ok(PersonShown {
        number: person.id.to_string(),
        name: person.name.clone(),
        role: person.role.map(Role::as_str),
        is_blocked: person.is_blocked,
        is_in_config: person.role_from == RoleFrom::Config,
        accounts: accounts.collect(),
        seen: replies::time_relative_to(now, person.seen),
        used: (spent.tokens, spent.cost.to_string()),
    })
}

/// Returns the card of a person, with a button for each possible change.
fn card(person: &ListedPerson, shown: &PersonShown) -> Question {
    let mut choices = Vec::new();
    let is_fixed = person.role_from == RoleFrom::Config || person.role == Some(Role::Owner);
    if !is_fixed {
        let mut add = |label: &str, verb: &str| {
            let says = CommandId::People.line(format_args!("{verb} {}", person.id));
            choices.push(Choice { label: label.to_owned(), says });
        };
        let roles = [
            (Role::Admin, replies::MAKE_ADMIN),
            (Role::User, replies::MAKE_USER),
            (Role::Guest, replies::MAKE_GUEST),
        ];
        for (role, label) in roles.iter().filter(|(role, _)| person.role != Some(*role)) {
            add(label, role.as_str());
        }
        match person.is_blocked {
            true => add(replies::UNBLOCK, "unblock"),
            false => add(replies::BLOCK, "block"),
        }
        add(replies::REMOVE, "remove");
    }
    Question::new(replies::person(shown), choices, AllowedPressers::Owner)
}

/// Answers `/link`.
pub(super) async fn link(
    services: &Services,
    control: &WaitingMessage,
    order: LinkCommand,
) -> Result<(), StoreError> {
    let store = &services.bus.store;
    if control.inbound.chat_kind != ChatKind::Private {
        return commits::reply(store, control, replies::LINK_PRIVATELY.to_owned()).await;
    }
    let account = account_of(control);
    let (people, rates) = (services.bus.people.clone(), services.bus.rates.clone());
    commits::apply_command(store, control, move |store| {
        let now = Utc::now();
        match order {
            LinkCommand::Offer => {
                links::create_code(store, &account, now).map(|code| replies::link_code(&code))
            }
            LinkCommand::Enter(_)
                if !rates.may_try_code(&account.at.channel, &account.sender.id) =>
            {
                Ok(replies::LINK_TOO_OFTEN.to_owned())
            }
            LinkCommand::Enter(code) => enter(store, &people, &code, &account, now),
            LinkCommand::Decide { code, is_yes } => {
                let decided = links::decide(store, &people, &code, &account, now)?;
                match decided {
                    None => Ok(replies::LINK_UNKNOWN.to_owned()),
                    Some(_) if !is_yes => Ok(replies::LINK_DECLINED.to_owned()),
                    Some(link) => join(store, &people, &link),
                }
            }
        }
    })
    .await?;
    notify_of_change(&services.bus);
    Ok(())
}

fn account_of(control: &WaitingMessage) -> LinkAccount {
    let at = control.inbound.from.clone();
    LinkAccount { sender: control.sender().clone(), at }
}

fn enter(
    store: &Connection,
    people: &People,
    code: &str,
    account: &LinkAccount,
    now: DateTime<Utc>,
) -> rusqlite::Result<String> {
    let link = match links::enter_code(store, people, code, account, now)? {
        LinkCodeOutcome::Unknown => return Ok(replies::LINK_UNKNOWN.to_owned()),
        LinkCodeOutcome::Joined => return Ok(replies::LINK_JOINED_ALREADY.to_owned()),
        LinkCodeOutcome::Unconfirmed(link) => link,
    };
    let confirms = &link.confirms;
    let role = people.role_of(store, &confirms.at.channel, &confirms.sender.id)?;
    let choice = |label: &str, verb: &str| Choice {
        label: label.to_owned(),
        says: CommandId::Link.line(format_args!("{verb} {}", link.code)),
    };
    let question = Question::new(
        replies::link_asks(name_of(confirms), name_of(&link.joins), role.unwrap_or(Role::Guest)),
        vec![choice(replies::LINK_YES, "yes"), choice(replies::LINK_NO, "no")],
        AllowedPressers::Only(confirms.sender.id.clone()),
    );
    outbox::put_body(store, &confirms.at, &Body::Choice(question))?;
    Ok(replies::LINK_WAITS.to_owned())
}

/// Joins two accounts to one person, with the stricter of both budgets. Notifies the other account and the owner.
/// Returns the reply.
fn join(store: &Connection, people: &People, link: &AccountLink) -> rusqlite::Result<String> {
    let Some((remaining, absorbed)) = links::join(store, link)? else {
        return Ok(replies::LINK_UNKNOWN.to_owned());
    };
    ledger::change_person(store, absorbed, remaining)?;
    stored::merge(store, absorbed, remaining)?;
    let confirms = &link.confirms;
    let role = people.role_of(store, &confirms.at.channel, &confirms.sender.id)?;
    let heir = (role != Some(Role::Owner)).then_some(remaining);
    folders::order(store, absorbed, FolderAct::Join(heir))?;
    background::keep_owner_place(store, people)?;
    let (one, other) = (name_of(&link.confirms), name_of(&link.joins));
    let message = replies::linked(&one, &other);
    outbox::put(store, &link.joins.at, None, &message)?;
    let places = [&link.confirms.at, &link.joins.at];
    if let Some(owner) = people::owner_address(store)?
        && !places.iter().any(|at| (&at.channel, &at.chat) == (&owner.channel, &owner.chat))
    {
        outbox::put(store, &owner, None, &replies::owner_hears_of_link(&one, &other, remaining))?;
    }
    tracing::info!(person = %remaining, former = %absorbed, "Two accounts are one person now");
    Ok(message)
}

/// Returns the name of an account for people: `Ann (id 123) on home`.
fn name_of(account: &LinkAccount) -> String {
    format!("{} on {}", account.sender, account.at.channel)
}

/// Answers `/unlink`.
pub(super) async fn unlink(
    services: &Services,
    control: &WaitingMessage,
) -> Result<(), StoreError> {
    let (account, people) = (account_of(control), services.bus.people.clone());
    commits::apply_command(&services.bus.store, control, move |store| {
        let Some((before, own)) = links::unlink(store, &account, Utc::now())? else {
            return Ok(replies::NOT_LINKED.to_owned());
        };
        stored::copy(store, before, own)?;
        background::keep_owner_place(store, &people)?;
        tracing::info!(person = %own, former = %before, "An account is a person of its own now");
        Ok(replies::UNLINKED.to_owned())
    })
    .await?;
    notify_of_change(&services.bus);
    Ok(())
}
