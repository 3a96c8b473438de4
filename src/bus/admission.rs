//! Access control: each message is admitted or refused in the transaction that writes it into the
//! journal.

use std::time::Instant;

use chrono::{Duration, Utc};
use rusqlite::Connection;

use super::{Bus, Published};
use crate::bus::journal::{self, InboundOutcome, WaitingMessage};
use crate::bus::outbox::{self, AskedQuestion, Pressed};
use crate::bus::rates::{Rate, RateOf};
use crate::people::{self, Greeting, People, Role, listing, persons};
use crate::replies;
use crate::types::commands::{self, CommandId, is_control};
use crate::types::message::{
    AllowedPressers, Body, ChatKind, Choice, DedupKey, Inbound, InboundContent, MediaRef, Press,
    Question, Quote, Sender,
};

/// Number of consecutive messages of bots, without a person's in between, that counts as a loop.
const BOTS_IN_A_ROW_MAX: usize = 5;

const DAY: Duration = Duration::hours(24);

/// Pause after which bots may write again.
const LOOP_FORGOTTEN: Duration = Duration::hours(1);

pub(super) fn admit(
    store: &Connection,
    bus: &Bus,
    inbound: Inbound,
) -> rusqlite::Result<Published> {
    if journal::has(store, &inbound.key)? {
        return Ok(Published::Repeated);
    }
    let sender = inbound.cause.sender();
    let in_group = inbound.chat_kind == ChatKind::Group;
    if in_group && journal::was_turned_away(store, &inbound.key)? {
        return Ok(Published::TurnedAway);
    }
    let Some(role) = bus.people.role_of_speaker(store, &inbound, sender)? else {
        turn_away(store, &bus.people, &inbound, sender)?;
        if in_group && inbound.body.press.is_none() {
            journal::note_turned_away(store, &inbound.key)?;
        }
        return Ok(Published::TurnedAway);
    };
    let (since, max) = (Utc::now() - LOOP_FORGOTTEN, BOTS_IN_A_ROW_MAX);
    if sender.bot && journal::bots_in_a_row(store, &inbound.from, since, max)? >= max {
        tracing::info!(at = %inbound.from, sender = %sender.id, "Stopped a loop between bots");
        let emptied = Inbound { body: InboundContent::default(), ..inbound };
        journal::add(store, &emptied, false, Some(InboundOutcome::TurnedAway))?;
        return Ok(Published::TurnedAway);
    }
    match inbound.body.press {
        Some(press) => admit_press(store, bus, inbound, press, role),
        None => accept(store, bus, &inbound, role),
    }
}

/// Accepts an admitted message, unless a limit is exceeded.
fn accept(
    store: &Connection,
    bus: &Bus,
    inbound: &Inbound,
    role: Role,
) -> rusqlite::Result<Published> {
    let sender = inbound.cause.sender();
    let from = &inbound.from;
    // Notices to the owner go elsewhere if possible, because the terminal may be closed.
    let is_reachable =
        sender.id.as_str() != people::LOCAL || people::owner_address(store)?.is_none();
    if role == Role::Owner && inbound.chat_kind == ChatKind::Private && is_reachable {
        people::set_owner_address(store, from, &sender.id)?;
    }
    let control = is_command(&inbound.body);
    if role != Role::Owner
        && (!control || asks_model(&inbound.body.text))
        && let Some(words) = over_limits(store, bus, inbound)?
    {
        if let Some(words) = words {
            outbox::put(store, from, inbound.id.as_ref(), &words)?;
        }
        journal::add(store, inbound, control, Some(InboundOutcome::Refused))?;
        return Ok(Published::Full);
    }
    if !control && journal::count_waiting(store, from)? >= bus.waiting_max {
        // Sent once, until the queue has space again.
        if !journal::refused_last(store, from)? {
            let words = replies::too_many_waiting(bus.waiting_max);
            outbox::put(store, from, inbound.id.as_ref(), &words)?;
        }
        journal::add(store, inbound, control, Some(InboundOutcome::Refused))?;
        return Ok(Published::Full);
    }
    persons::record_account(store, &from.channel, sender, Utc::now())?;
    journal::add(store, inbound, control, None)?;
    Ok(Published::Accepted)
}

/// Returns None if the message is within the rate limits; else an explanation for its sender, or `Some(None)` if they
/// got it before.
fn over_limits(
    store: &Connection,
    bus: &Bus,
    inbound: &Inbound,
) -> rusqlite::Result<Option<Option<String>>> {
    let (limits, from, sender) = (&bus.limits, &inbound.from, inbound.cause.sender());
    let files = inbound.body.media.len();
    if files > 0 && limits.files_per_day > 0 {
        let before = journal::count_files(store, &from.channel, &sender.id, Utc::now() - DAY)?;
        if before + files > limits.files_per_day {
            let is_explained = journal::refused_last(store, from)?;
            return Ok(Some(
                (!is_explained).then(|| replies::too_many_files_today(limits.files_per_day)),
            ));
        }
    }
    Ok(match bus.rates.count(limits, from, &sender.id, Instant::now()) {
        Rate::Within => None,
        Rate::Over { is_news: false, .. } => Some(None),
        Rate::Over { most, whose: RateOf::Person, .. } => Some(Some(replies::too_fast(most))),
        Rate::Over { most, whose: RateOf::Chat, .. } => Some(Some(replies::chat_too_fast(most))),
    })
}

/// Returns true if the sender gives a command that is carried out at once. Text of others is none.
fn is_command(content: &InboundContent) -> bool {
    content.is_own_text() && is_control(&content.text)
}

/// Returns true for a command that calls a model, and so counts as a message.
fn asks_model(text: &str) -> bool {
    let command = commands::find(text).map(|spec| spec.id);
    matches!(command, Some(CommandId::Btw | CommandId::Compact))
}

/// Accepts a press as a message with the button's text: once, from an entitled person, in the question's
/// chat.
fn admit_press(
    store: &Connection,
    bus: &Bus,
    mut inbound: Inbound,
    press: Press,
    role: Role,
) -> rusqlite::Result<Published> {
    let sender = inbound.cause.clone().into_sender();
    let Some(asked_question) = outbox::question(store, press.delivery)? else {
        return Ok(Published::Gone);
    };
    let AskedQuestion { to, question, pressed } = asked_question;
    let Some(choice) = question.choices.get(press.choice) else { return Ok(Published::Gone) };
    if (&to.channel, &to.chat) != (&inbound.from.channel, &inbound.from.chat) {
        return Ok(Published::Gone);
    }
    let is_entitled = match &question.who {
        AllowedPressers::Anyone => true,
        AllowedPressers::Only(who) => *who == sender.id,
        AllowedPressers::Admins => role >= Role::Admin,
        AllowedPressers::Owner => role == Role::Owner,
    };
    match pressed {
        _ if !is_entitled => return Ok(Published::NotEntitled),
        Pressed::Before => return Ok(Published::AlreadyDecided),
        Pressed::NotYet => {}
    }
    // A press is answered at the question's address.
    inbound.from = to;
    inbound.body.text.clone_from(&choice.says);
    inbound.body.quoted = Some(Quote {
        author: replies::OWN_NAME.to_owned(),
        text: question.text.clone(),
        by_others: false,
        by_bot: true,
    });
    let published = accept(store, bus, &inbound, role)?;
    if published == Published::Accepted {
        outbox::record_press(store, press)?;
        if let Some(shown) = &inbound.id {
            let decided = replies::decided(&question.end(), &choice.label, &sender.name);
            outbox::put_replacement(store, &inbound.from, None, Some(shown), &decided)?;
        }
    }
    Ok(published)
}

pub(super) fn edit(
    store: &Connection,
    bus: &Bus,
    mut inbound: Inbound,
) -> rusqlite::Result<Published> {
    if !journal::has(store, &inbound.key)? {
        return admit(store, bus, inbound);
    }
    if let Some(WaitingMessage { inbound: before, .. }) = journal::waiting(store, &inbound.key)? {
        if inbound.cause.sender().id != before.cause.sender().id {
            // Words of somebody else must not stand as the sender's own.
            tracing::warn!(channel = %inbound.from.channel, "Ignored an edit by somebody else than the sender");
            return Ok(Published::Repeated);
        }
        inbound.body.record_files(&before.body.media);
        // The platform may report the edit with another address: the original one stays.
        let edited = Inbound { at: inbound.at, body: inbound.body, ..before };
        journal::replace(store, &edited, is_command(&edited.body))?;
    }
    Ok(Published::Repeated)
}

/// Records the outcomes of a message's files, if it still waits. It becomes ready once all have one. A
/// voice message may turn out to be a command.
pub fn record_files(
    store: &Connection,
    key: &DedupKey,
    files: &[MediaRef],
) -> rusqlite::Result<IntakeState> {
    let Some(mut waiting) = journal::waiting(store, key)? else {
        return Ok(IntakeState::Withdrawn);
    };
    let inbound = &mut waiting.inbound;
    inbound.body.record_files(files);
    // Speech in a file that anybody may have recorded is not a command.
    journal::replace(store, inbound, is_command(&inbound.body))?;
    Ok(if inbound.body.awaits_files() { IntakeState::Partly } else { IntakeState::Ready })
}

/// The state of a message after some of its files were fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntakeState {
    Ready,
    /// It was edited meanwhile, and waits for other files.
    Partly,
    /// It no longer waits for files.
    Withdrawn,
}

/// Answers a stranger in private with a code or a refusal. Sends nothing in groups.
fn turn_away(
    store: &Connection,
    people: &People,
    inbound: &Inbound,
    sender: &Sender,
) -> rusqlite::Result<()> {
    let from = &inbound.from;
    if listing::is_blocked(store, &from.channel, &sender.id)? {
        return Ok(());
    }
    let allows_pairing = people.access(&from.channel).is_some_and(|access| access.pairing);
    if inbound.chat_kind == ChatKind::Group || sender.bot || !allows_pairing {
        tracing::info!(channel = %from.channel, sender = %sender.id, "Refused a message of an unknown person");
        return Ok(());
    }
    let words = match people::greet(store, from, sender, Utc::now())? {
        Greeting::Nothing => return Ok(()),
        Greeting::Code { code, is_news } => {
            let have_owner = people.have_owner(store)?;
            if let (true, true, Some(owner)) = (is_news, have_owner, people::owner_address(store)?)
            {
                outbox::put_body(store, &owner, &admission_question(sender, inbound, &code))?;
            }
            replies::pairing_code(people.program(), &code, have_owner)
        }
    };
    outbox::put(store, from, None, &words)?;
    Ok(())
}

/// Returns the question to the owner if a stranger may be admitted.
fn admission_question(sender: &Sender, inbound: &Inbound, code: &str) -> Body {
    let choice = |label: &str, verb: &str| Choice {
        label: label.to_owned(),
        says: CommandId::Pair.line(format_args!("{verb} {code}")),
    };
    Body::Choice(Question::new(
        replies::stranger_asks(sender, &inbound.from.channel, code),
        vec![choice(replies::APPROVE_PERSON, "approve"), choice(replies::DECLINE_PERSON, "deny")],
        AllowedPressers::Owner,
    ))
}
