//! Decides if an inbound event is answered, remembered as context, applied to an earlier message, or
//! ignored. Adapters decode their platform's events into [`InboundEvent`]; all platforms share these
//! rules. Not here: the platforms' JSON, and access control (`bus`).

use chrono::{DateTime, Duration, Utc};
use sha2::{Digest as _, Sha256};

use crate::bus::{Arrival, PublishError, Published, Publisher};
use crate::people::Groups;
use crate::replies;
use crate::types::commands::{self, CommandId};
use crate::types::hex::hex;
use crate::types::message::{
    Address, ChatKind, DedupKey, Inbound, MediaKind, MediaRef, MessageId, OverheardLine, Quote,
    SenderId,
};

/// Maximum age of a message that can address the bot by an edit: the longest that people take to add a
/// forgotten mention.
pub const EDIT_AGE_MAX: Duration = Duration::hours(1);

/// The author of a contact, a place, a poll and the like, which a person passes on.
pub const CARD: &str = "a card";

/// An event of a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboundEvent {
    New(DecodedMessage),
    /// A message that was sent while the bot listened, and is read again after a gap.
    Reread(DecodedMessage),
    /// A message that was changed at `message.inbound.at` and first sent at `sent_at`.
    Edited {
        message: DecodedMessage,
        sent_at: DateTime<Utc>,
    },
    /// `address` is where the message would have been remembered as context.
    Deleted {
        address: Address,
        id: MessageId,
        key: DedupKey,
    },
    /// One of our buttons was pressed.
    Pressed(Inbound),
    /// A native command was invoked.
    Command(Inbound),
    /// An event that could not be decoded, stored raw for a person to look at.
    Unreadable {
        key: DedupKey,
        raw: String,
    },
    Ignored,
}

/// A decoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedMessage {
    pub inbound: Inbound,
    pub addressee: Addressee,
    /// The address at which an overheard message is remembered. Differs from `inbound.from` if an answer
    /// would open a thread.
    pub context_address: Address,
    /// The text that is remembered then, with descriptions of files and forwarded text.
    pub context: String,
    /// The ids by which the config may admit another bot. Empty for people.
    pub bot_ids: Vec<SenderId>,
}

/// The addressee of a message, by its text and the message that it replies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressee {
    /// It mentions the bot, or replies to it.
    Bot,
    /// It is in a thread, and addresses nobody.
    Thread,
    /// It addresses other people, or nobody.
    Others,
    /// It is a command to another bot.
    AnotherBot,
}

/// The rules that decide if a message in a group addresses the bot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressingRules {
    pub groups: Groups,
    /// The bot was addressed in this thread before.
    pub was_addressed: bool,
}

/// Destination of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    ToBot,
    Overheard,
    Ignored,
}

/// Outcome of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOutcome {
    Published(Published),
    /// Stored: a deletion, or an unreadable event.
    Stored,
    /// Nothing durable has changed.
    Ignored,
}

impl EventOutcome {
    pub fn published(self) -> Option<Published> {
        match self {
            Self::Published(published) => Some(published),
            Self::Stored | Self::Ignored => None,
        }
    }
}

impl AddressingRules {
    /// Returns stricter rules for earlier messages: only a message that itself addresses the bot counts.
    #[must_use]
    pub fn strict(self) -> Self {
        let groups = match self.groups {
            Groups::Off => Groups::Off,
            Groups::Mention | Groups::Always => Groups::Mention,
        };
        Self { groups, was_addressed: false }
    }

    async fn for_message(
        message: &DecodedMessage,
        publisher: &Publisher,
    ) -> Result<Self, PublishError> {
        let inbound = &message.inbound;
        let groups = publisher.groups(inbound.config_ids());
        let may_take_part = message.addressee == Addressee::Thread && groups == Groups::Mention;
        let was_addressed = may_take_part && publisher.was_addressed(&inbound.from).await?;
        Ok(Self { groups, was_addressed })
    }
}

/// Decides if a message addresses the bot.
pub fn route(message: &DecodedMessage, rules: AddressingRules) -> Route {
    let addressee = match message.addressee {
        // `/stop` needs no mention: a person in a hurry leaves it out.
        Addressee::Thread | Addressee::Others if is_stop_command(message) => Addressee::Bot,
        addressee => addressee,
    };
    match (message.inbound.chat_kind, rules.groups, addressee) {
        (_, _, Addressee::AnotherBot) | (ChatKind::Group, Groups::Off, _) => Route::Ignored,
        (ChatKind::Private, _, _)
        | (ChatKind::Group, Groups::Always, _)
        | (ChatKind::Group, Groups::Mention, Addressee::Bot) => Route::ToBot,
        // In a thread with the bot, a message that addresses nobody else addresses the bot.
        (ChatKind::Group, Groups::Mention, Addressee::Thread) if rules.was_addressed => {
            Route::ToBot
        }
        (ChatKind::Group, Groups::Mention, Addressee::Thread | Addressee::Others) => {
            Route::Overheard
        }
    }
}

/// Returns true if a message is the command that ends turns.
fn is_stop_command(message: &DecodedMessage) -> bool {
    commands::find(&message.inbound.body.text).is_some_and(|it| it.id == CommandId::Stop)
}

/// Accepts events in order, and stores the channel's mark with them. After `Ok`, they may be acknowledged
/// to the platform. Returns one outcome for each event. The bot's participation in a thread is looked up
/// before the first of them is written.
pub async fn receive(
    publisher: &Publisher,
    events: Vec<InboundEvent>,
    mark: Option<String>,
) -> Result<Vec<EventOutcome>, PublishError> {
    let (mut arrivals, mut decisions) = (Vec::new(), Vec::new());
    for event in events {
        let (decision, arrival) = match decide(publisher, event).await? {
            InboundDecision::Take(arrival, change) => {
                (InboundDecision::Take((), change), Some(arrival))
            }
            InboundDecision::Done(outcome) => (InboundDecision::Done(outcome), None),
        };
        arrivals.extend(arrival);
        decisions.push(decision);
    }
    let mut published = publisher.publish_all(arrivals, mark).await?.into_iter();
    let outcomes = decisions.into_iter().map(|decision| match decision {
        InboundDecision::Take((), change) => {
            update_context(publisher, change, published.next().flatten())
        }
        InboundDecision::Done(outcome) => outcome,
    });
    Ok(outcomes.collect())
}

/// Accepts one event.
pub async fn receive_one(
    publisher: &Publisher,
    event: InboundEvent,
) -> Result<EventOutcome, PublishError> {
    let outcomes = receive(publisher, vec![event], None).await?;
    Ok(outcomes.first().copied().unwrap_or(EventOutcome::Ignored))
}

/// Decision about an event, and about its line in the context once the event is stored.
enum InboundDecision<T> {
    Take(T, ContextChange),
    Done(EventOutcome),
}

enum ContextChange {
    Nothing,
    /// Remove it from the context.
    Forget(Address, MessageId),
    /// The context has its new text already, if it had the message.
    Reworded,
}

/// First delivery of a message, or a repeated one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Redelivery {
    First,
    Again,
}

async fn decide(
    publisher: &Publisher,
    event: InboundEvent,
) -> Result<InboundDecision<Arrival>, PublishError> {
    Ok(match event {
        InboundEvent::New(message) => decide_message(publisher, message, Redelivery::First).await?,
        InboundEvent::Reread(message) => {
            decide_message(publisher, message, Redelivery::Again).await?
        }
        InboundEvent::Edited { message, sent_at } => decide_edit(publisher, message, sent_at),
        InboundEvent::Deleted { address, id, key } => {
            InboundDecision::Take(Arrival::Withdrawn { key }, ContextChange::Forget(address, id))
        }
        InboundEvent::Pressed(inbound) | InboundEvent::Command(inbound) => {
            let is_group = inbound.chat_kind == ChatKind::Group;
            if is_group && publisher.groups(inbound.config_ids()) == Groups::Off {
                InboundDecision::Done(EventOutcome::Published(Published::TurnedAway))
            } else {
                InboundDecision::Take(Arrival::New(inbound), ContextChange::Nothing)
            }
        }
        InboundEvent::Unreadable { key, raw } => {
            InboundDecision::Take(Arrival::Unreadable { key, raw }, ContextChange::Nothing)
        }
        InboundEvent::Ignored => InboundDecision::Done(EventOutcome::Ignored),
    })
}

/// Decides about a new message.
async fn decide_message(
    publisher: &Publisher,
    mut message: DecodedMessage,
    delivery: Redelivery,
) -> Result<InboundDecision<Arrival>, PublishError> {
    if !admit_sender(publisher, &mut message) {
        return Ok(InboundDecision::Done(EventOutcome::Ignored));
    }
    let rules = AddressingRules::for_message(&message, publisher).await?;
    let rules = if delivery == Redelivery::Again { rules.strict() } else { rules };
    match (route(&message, rules), delivery) {
        (Route::ToBot, _) => {
            return Ok(InboundDecision::Take(
                Arrival::New(message.inbound),
                ContextChange::Nothing,
            ));
        }
        (Route::Overheard, Redelivery::First) => {
            if let Some(ContextLine { address, id, line }) = context_line(&message) {
                publisher.remember_overheard(&address, id, line);
            }
        }
        (Route::Overheard, Redelivery::Again) | (Route::Ignored, _) => {}
    }
    Ok(InboundDecision::Done(EventOutcome::Ignored))
}

/// Decides about an edited message. If the journal knows it, its new text is answered while it waits;
/// later, its answer remains. If the journal does not know it, it was meant for others: it is answered
/// only if the edit addresses the bot soon enough. Otherwise it remains context, with its new text.
fn decide_edit(
    publisher: &Publisher,
    mut message: DecodedMessage,
    sent_at: DateTime<Utc>,
) -> InboundDecision<Arrival> {
    if !admit_sender(publisher, &mut message) || message.addressee == Addressee::AnotherBot {
        return InboundDecision::Done(EventOutcome::Ignored);
    }
    let groups = publisher.groups(message.inbound.config_ids());
    let rules = AddressingRules { groups, was_addressed: false }.strict();
    let is_recent = message.inbound.at - sent_at <= EDIT_AGE_MAX;
    let addresses_bot = is_recent && route(&message, rules) == Route::ToBot;
    let change = match context_line(&message) {
        Some(ContextLine { address, id, .. }) if addresses_bot => {
            ContextChange::Forget(address, id)
        }
        // Before the edit is stored: the next message may begin a turn right after that.
        Some(ContextLine { address, id, line }) => {
            publisher.reword_overheard(&address, &id, OverheardLine { at: sent_at, ..line });
            ContextChange::Reworded
        }
        None => ContextChange::Nothing,
    };
    let arrival = if addresses_bot { Arrival::Changed } else { Arrival::Amended };
    InboundDecision::Take(arrival(message.inbound), change)
}

/// Updates the context after an arrival is stored.
fn update_context(
    publisher: &Publisher,
    change: ContextChange,
    published: Option<Published>,
) -> EventOutcome {
    match (change, published) {
        (ContextChange::Reworded, None) => return EventOutcome::Ignored,
        (ContextChange::Forget(at, id), _) => publisher.forget_overheard(&at, &id),
        (ContextChange::Nothing | ContextChange::Reworded, _) => {}
    }
    published.map_or(EventOutcome::Stored, EventOutcome::Published)
}

/// Returns false if the sender is a bot that the config does not admit. An admitted bot gets the id that
/// the config names.
fn admit_sender(publisher: &Publisher, message: &mut DecodedMessage) -> bool {
    let sender = message.inbound.cause.sender_mut();
    if !sender.bot {
        return true;
    }
    let admitted = message.bot_ids.iter().find(|id| publisher.allows_bot(id));
    admitted.is_some_and(|admitted| {
        sender.id = admitted.clone();
        true
    })
}

/// A message as a line of context.
struct ContextLine {
    address: Address,
    id: MessageId,
    line: OverheardLine,
}

/// Returns a message as a line of context. None if it is empty, or has no id.
fn context_line(message: &DecodedMessage) -> Option<ContextLine> {
    let (address, id) = (message.context_address.clone(), message.inbound.id.clone()?);
    Some(ContextLine { address, id, line: message.line()? })
}

impl DecodedMessage {
    /// Returns the message as a line of context. None if it is empty.
    pub fn line(&self) -> Option<OverheardLine> {
        let Inbound { at, cause, .. } = &self.inbound;
        let (author, text) = (cause.sender().name.clone(), self.context.clone());
        (!text.is_empty()).then_some(OverheardLine { at: *at, author, text })
    }
}

/// Returns the reply to the person who pressed a button. None if the press was accepted.
pub fn reply_to_press(published: Published) -> Option<&'static str> {
    match published {
        Published::Accepted | Published::Repeated => None,
        Published::NotEntitled | Published::TurnedAway => Some(replies::NOT_YOURS_TO_PRESS),
        Published::Full => Some(replies::PRESS_LATER),
        Published::AlreadyDecided => Some(replies::ALREADY_DECIDED),
        Published::Gone => Some(replies::BUTTON_TOO_OLD),
    }
}

/// Returns the reply to the person who invoked a native command.
pub fn reply_to_command(published: Published) -> &'static str {
    match published {
        Published::Accepted | Published::Repeated => replies::COMMAND_RECEIVED,
        Published::Full => replies::PRESS_LATER,
        Published::TurnedAway
        | Published::NotEntitled
        | Published::AlreadyDecided
        | Published::Gone => replies::COMMAND_NOT_ALLOWED,
    }
}

/// Returns an id for an event without a readable one: a digest, which is the same for equal bytes.
pub fn digest(raw: &str) -> String {
    format!("raw:{}", hex(&Sha256::digest(raw)[..8]))
}

/// Returns the text of a message as context: its files, its forwarded text, and its own text.
pub fn context(files: &[MediaRef], forwarded: Option<&Quote>, text: &str) -> String {
    let forwarded = forwarded.map(|Quote { author, text, .. }| format!("({author}) {text}"));
    let parts = files.iter().map(describe_file).chain(forwarded).chain([text.to_owned()]);
    let parts = parts.map(|part| part.trim_end().to_owned()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n")
}

fn describe_file(file: &MediaRef) -> String {
    let noun = match file.kind {
        MediaKind::Voice => return "[sent a voice message]".to_owned(),
        MediaKind::Image => "a photo",
        MediaKind::Video => "a video",
        MediaKind::Audio => "an audio file",
        MediaKind::Sticker => "a sticker",
        MediaKind::Document => "a file",
    };
    match &file.name {
        Some(name) => format!("[sent {noun}: {name}]"),
        None => format!("[sent {noun}]"),
    }
}
