//! The inbound pipeline. An adapter decodes what its platform tells into an [`Event`]; here alone is decided
//! whether that is answered, remembered as context, put in place of what was said before, or ignored.
//! Not here: the platforms' JSON, and who is let in (`bus`).

use chrono::{DateTime, Duration, Utc};
use sha2::{Digest as _, Sha256};

use crate::bus::{Arrival, PublishError, Published, Publisher};
use crate::people::Groups;
use crate::replies;
use crate::types::message::{
    Address, DedupKey, Inbound, Line, MediaKind, MediaRef, MessageId, Place, Quote, SenderId,
};

/// Someone who edits a message that is older than this does not address the bot by it. The longest that
/// people take to add a forgotten mention.
pub const EDIT_AGE_MAX: Duration = Duration::hours(1);

/// Something that a platform told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    New(Message),
    /// A message that was said while the bot listened, and is read again after a gap.
    Reread(Message),
    /// A message that was changed at `message.inbound.at`; it was first said at `said`.
    Edited {
        message: Message,
        said: DateTime<Utc>,
    },
    /// `at` is where the message would have been overheard.
    Deleted {
        at: Address,
        id: MessageId,
        key: DedupKey,
    },
    /// One of our buttons was pressed.
    Pressed(Inbound),
    /// A native command was given.
    Command(Inbound),
    /// To be kept as it is, for a person to look at.
    Unreadable {
        key: DedupKey,
        raw: String,
    },
    Ignored,
}

/// A decoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub inbound: Inbound,
    pub addressee: Addressee,
    /// The address at which it is remembered if it is overheard: not `inbound.from` where an answer
    /// would open a thread.
    pub heard_at: Address,
    /// The text that is remembered then, with files and forwarded words described.
    pub context: String,
    /// The ids by which the config may let this other bot speak; empty for people.
    pub bot_ids: Vec<SenderId>,
}

/// To whom a message speaks, by its own words and what it replies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressee {
    /// It mentions the bot, replies to it, or makes it stop.
    Bot,
    /// It is said in a thread, and addresses nobody.
    Thread,
    /// It addresses other people, or nobody.
    Others,
    /// It is a command to another bot.
    AnotherBot,
}

/// What decides whether the bot is spoken to in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub groups: Groups,
    /// The bot was spoken to in this thread before.
    pub takes_part: bool,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    ToBot,
    Overheard,
    Ignored,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Published(Published),
    /// Written down: it was deleted, or could not be read.
    Kept,
    /// Nothing durable has changed.
    Ignored,
}

impl Outcome {
    pub fn published(self) -> Option<Published> {
        match self {
            Self::Published(published) => Some(published),
            Self::Kept | Self::Ignored => None,
        }
    }
}

impl Rules {
    /// The rules for what was there before: only a message that itself addresses the bot counts.
    #[must_use]
    pub fn strict(self) -> Self {
        let groups = match self.groups {
            Groups::Off => Groups::Off,
            Groups::Mention | Groups::Always => Groups::Mention,
        };
        Self { groups, takes_part: false }
    }

    async fn of(message: &Message, publisher: &Publisher) -> Result<Self, PublishError> {
        let inbound = &message.inbound;
        let groups = publisher.groups(inbound.places());
        let may_take_part = message.addressee == Addressee::Thread && groups == Groups::Mention;
        let takes_part = may_take_part && publisher.takes_part(&inbound.from).await?;
        Ok(Self { groups, takes_part })
    }
}

/// Decides whether a message speaks to the bot.
pub fn route(message: &Message, rules: Rules) -> Route {
    match (message.inbound.place, rules.groups, message.addressee) {
        (_, _, Addressee::AnotherBot) | (Place::Group, Groups::Off, _) => Route::Ignored,
        (Place::Private, _, _)
        | (Place::Group, Groups::Always, _)
        | (Place::Group, Groups::Mention, Addressee::Bot) => Route::ToBot,
        // In a thread with the bot, what is not said to somebody else is said to it.
        (Place::Group, Groups::Mention, Addressee::Thread) if rules.takes_part => Route::ToBot,
        (Place::Group, Groups::Mention, Addressee::Thread | Addressee::Others) => Route::Overheard,
    }
}

/// Takes events in, in order, and sets the channel's mark with them. Once this returns `Ok`, they may
/// be acknowledged to the platform. Gives one outcome for each event. Whether the bot takes part in a
/// thread is looked up before the first of them is written.
pub async fn receive(
    publisher: &Publisher,
    events: Vec<Event>,
    mark: Option<String>,
) -> Result<Vec<Outcome>, PublishError> {
    let (mut arrivals, mut decisions) = (Vec::new(), Vec::new());
    for event in events {
        let (decision, arrival) = match decide(publisher, event).await? {
            Decision::Take(arrival, then) => (Decision::Take((), then), Some(arrival)),
            Decision::Done(outcome) => (Decision::Done(outcome), None),
        };
        arrivals.extend(arrival);
        decisions.push(decision);
    }
    let mut published = publisher.publish_all(arrivals, mark).await?.into_iter();
    let outcomes = decisions.into_iter().map(|decision| match decision {
        Decision::Take((), then) => conclude(publisher, then, published.next().flatten()),
        Decision::Done(outcome) => outcome,
    });
    Ok(outcomes.collect())
}

/// Takes one event in.
pub async fn receive_one(publisher: &Publisher, event: Event) -> Result<Outcome, PublishError> {
    let outcomes = receive(publisher, vec![event], None).await?;
    Ok(outcomes.first().copied().unwrap_or(Outcome::Ignored))
}

/// What is done with an event, and with its line among those that were overheard once it is written.
enum Decision<T> {
    Take(T, Then),
    Done(Outcome),
}

enum Then {
    Nothing,
    /// It is not context any more.
    Forget(Address, MessageId),
    /// If the journal does not know it, it is context, in these words.
    Reword(Address, MessageId, Line),
}

/// How often a message was told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    First,
    Again,
}

async fn decide(publisher: &Publisher, event: Event) -> Result<Decision<Arrival>, PublishError> {
    Ok(match event {
        Event::New(message) => hear(publisher, message, Told::First).await?,
        Event::Reread(message) => hear(publisher, message, Told::Again).await?,
        Event::Edited { message, said } => edit(publisher, message, said),
        Event::Deleted { at, id, key } => {
            let forget = Then::Forget(at.clone(), id.clone());
            Decision::Take(Arrival::Withdrawn { at, id, key }, forget)
        }
        Event::Pressed(inbound) | Event::Command(inbound) => {
            let is_group = inbound.place == Place::Group;
            if is_group && publisher.groups(inbound.places()) == Groups::Off {
                Decision::Done(Outcome::Published(Published::TurnedAway))
            } else {
                Decision::Take(Arrival::New(inbound), Then::Nothing)
            }
        }
        Event::Unreadable { key, raw } => {
            Decision::Take(Arrival::Unreadable { key, raw }, Then::Nothing)
        }
        Event::Ignored => Decision::Done(Outcome::Ignored),
    })
}

/// Decides about a message as it was said.
async fn hear(
    publisher: &Publisher,
    mut message: Message,
    told: Told,
) -> Result<Decision<Arrival>, PublishError> {
    if !may_speak(publisher, &mut message) {
        return Ok(Decision::Done(Outcome::Ignored));
    }
    let rules = Rules::of(&message, publisher).await?;
    let rules = if told == Told::Again { rules.strict() } else { rules };
    match (route(&message, rules), told) {
        (Route::ToBot, _) => {
            return Ok(Decision::Take(Arrival::New(message.inbound), Then::Nothing));
        }
        (Route::Overheard, Told::First) => {
            if let Some((at, id, line)) = remembered(&message) {
                publisher.overheard(&at, id, line);
            }
        }
        (Route::Overheard, Told::Again) | (Route::Ignored, _) => {}
    }
    Ok(Decision::Done(Outcome::Ignored))
}

/// Decides about a changed message. One that the journal knows is answered as it is now while it waits, and
/// stays answered later. One that it does not know was said to others: it is answered only if it begins
/// to address the bot soon enough, and else stays context, in its new words.
fn edit(publisher: &Publisher, mut message: Message, said: DateTime<Utc>) -> Decision<Arrival> {
    if !may_speak(publisher, &mut message) || message.addressee == Addressee::AnotherBot {
        return Decision::Done(Outcome::Ignored);
    }
    let groups = publisher.groups(message.inbound.places());
    let rules = Rules { groups, takes_part: false }.strict();
    let is_recent = message.inbound.at - said <= EDIT_AGE_MAX;
    let begins = is_recent && route(&message, rules) == Route::ToBot;
    let then = match remembered(&message) {
        Some((at, id, _)) if begins => Then::Forget(at, id),
        Some((at, id, line)) => Then::Reword(at, id, Line { at: said, ..line }),
        None => Then::Nothing,
    };
    let arrival = if begins { Arrival::Changed } else { Arrival::Amended };
    Decision::Take(arrival(message.inbound), then)
}

/// Does what is left to do once an arrival is written down.
fn conclude(publisher: &Publisher, then: Then, published: Option<Published>) -> Outcome {
    match (then, published) {
        (Then::Reword(at, id, line), None) => {
            publisher.reword_overheard(&at, &id, line);
            return Outcome::Ignored;
        }
        (Then::Forget(at, id), _) => publisher.forget_overheard(&at, &id),
        (Then::Nothing | Then::Reword(..), _) => {}
    }
    published.map_or(Outcome::Kept, Outcome::Published)
}

/// Returns false for another bot that the config does not let speak; else it is known by the id that the
/// config names.
fn may_speak(publisher: &Publisher, message: &mut Message) -> bool {
    let sender = message.inbound.cause.sender_mut();
    if !sender.bot {
        return true;
    }
    let known = message.bot_ids.iter().find(|id| publisher.lets_bot(id));
    known.is_some_and(|known| {
        sender.id = known.clone();
        true
    })
}

/// A message as context, with where it is remembered; none if it says nothing, or has no id.
fn remembered(message: &Message) -> Option<(Address, MessageId, Line)> {
    Some((message.heard_at.clone(), message.inbound.id.clone()?, message.line()?))
}

impl Message {
    /// The message as a line of context; none if there is nothing in it.
    pub fn line(&self) -> Option<Line> {
        let Inbound { at, cause, .. } = &self.inbound;
        let (author, text) = (cause.sender().name.clone(), self.context.clone());
        (!text.is_empty()).then_some(Line { at: *at, author, text })
    }
}

/// The reply to whoever pressed a button; none if the press was accepted.
pub fn reply_to_press(published: Published) -> Option<&'static str> {
    match published {
        Published::Accepted | Published::Repeated => None,
        Published::NotYours | Published::TurnedAway => Some(replies::NOT_YOURS_TO_PRESS),
        Published::Full => Some(replies::PRESS_LATER),
        Published::Decided => Some(replies::ALREADY_DECIDED),
        Published::Gone => Some(replies::BUTTON_TOO_OLD),
    }
}

/// The reply to whoever gave a native command.
pub fn reply_to_command(published: Published) -> &'static str {
    match published {
        Published::Accepted | Published::Repeated => replies::COMMAND_TAKEN,
        Published::Full => replies::PRESS_LATER,
        Published::TurnedAway | Published::NotYours | Published::Decided | Published::Gone => {
            replies::COMMAND_NOT_TAKEN
        }
    }
}

/// What stands for the id of something that has no readable one: the same bytes are the same.
pub fn digest(raw: &str) -> String {
    let digest = Sha256::digest(raw);
    let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("raw:{digest}")
}

/// The text of a message as context: its files, what it passes on, and its own words.
pub fn context(files: &[MediaRef], forwarded: Option<&Quote>, text: &str) -> String {
    let forwarded = forwarded.map(|Quote { author, text, .. }| format!("({author}) {text}"));
    let parts = files.iter().map(described).chain(forwarded).chain([text.to_owned()]);
    let parts = parts.map(|part| part.trim_end().to_owned()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n")
}

fn described(file: &MediaRef) -> String {
    let what = match file.kind {
        MediaKind::Voice => return "[sent a voice message]".to_owned(),
        MediaKind::Image => "a photo",
        MediaKind::Video => "a video",
        MediaKind::Audio => "an audio file",
        MediaKind::Sticker => "a sticker",
        MediaKind::Document => "a file",
    };
    match &file.name {
        Some(name) => format!("[sent {what}: {name}]"),
        None => format!("[sent {what}]"),
    }
}
