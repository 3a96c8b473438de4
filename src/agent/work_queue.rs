//! Everything that waits for the loop, by origin. It is updated by the rows that change in the store, so
//! the cost of a pass depends on the changes, not on the number of running or waiting chats. The store is
//! authoritative: after an error everything is read again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use rusqlite::Connection;
use tokio::time::Instant;

use super::claim::Claim;
use super::suspended::SuspendedTurns;
use crate::bus::journal::{self, RowId};
use crate::conversation::asks::{self, Ask, AskId};
use crate::conversation::transcript::{self, ReadTurn, UnfinishedTurn, UnreadableTurn};
use crate::people::{People, Role};
use crate::services::Services;
use crate::store::{ChangedRow, StoreError};
use crate::types::message::{ChannelName, SenderId};
use crate::types::origin::{Origin, TaskKind};
use crate::types::session::TurnId;

/// The tables whose rows make up the queue.
const TABLES: &[&str] = &[INBOUND, TURNS, ASKS];
const INBOUND: &str = "inbound";
pub(super) const TURNS: &str = "turns";
const ASKS: &str = "asks";

/// A person on a channel who has a turn or waits for one.
pub(super) type Person = (ChannelName, SenderId);

/// Order in which turns begin: interrupted ones come before messages.
type QueueOrder = (Stage, i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    CutOff,
    Message,
}

/// The queue of everything that waits for the loop.
#[derive(Default)]
pub(super) struct WorkQueue {
    places: HashMap<Origin, OriginQueue>,
    /// The origin of each row of the store, which is needed after the row has left.
    at: HashMap<ChangedRow, Origin>,
    /// Origins at which a turn could begin, and for whom.
    line: BTreeMap<QueueOrder, (Origin, Claim<Person>)>,
    /// Origins that have changed since they were last examined.
    changed: BTreeSet<Origin>,
    /// Times at which origins are examined again, even without a change.
    later: BTreeSet<(Instant, Origin)>,
    /// True if the store tracks changes in the tables.
    follows: bool,
    /// True if no change was lost, so that the tables need not be read completely.
    is_up_to_date: bool,
}

/// The results of a refresh that are not in the queue.
pub(super) struct Refreshed<T> {
    /// The result of the additional read in the same state of the store.
    pub(super) beside: T,
    /// True if everything was read, not only the changes.
    pub(super) is_complete: bool,
    /// Stopped turns, and their origins.
    pub(super) stopped: Vec<(TurnId, Origin)>,
    /// Unfinished turns that cannot be read.
    pub(super) unreadable: Vec<UnreadableTurn>,
}

/// The messages, turns and questions of one origin.
#[derive(Default)]
struct OriginQueue {
    messages: BTreeMap<RowId, Claim<Person>>,
    /// Unfinished turns. At most one, but this type does not enforce that.
    turns: BTreeMap<TurnId, (UnfinishedTurn, Claim<Person>)>,
    questions: BTreeMap<AskId, Ask>,
    /// True if a task works for this origin.
    busy: bool,
    /// A suspended turn that may try again, as the model that it waits for may be back.
    released: Option<TurnId>,
    /// True if no turn can begin with the messages until something changes.
    held_up: bool,
    /// Its place in the line, if it has one.
    since: Option<QueueOrder>,
}

/// A waiting message, with the claim of its person.
struct QueuedMessage {
    row: RowId,
    origin: Origin,
    /// The kind of the task that wrote it. None for a person.
    task: Option<TaskKind>,
    claim: Claim<Person>,
}

/// Rows that were read from the store.
#[derive(Default)]
struct WaitingRows {
    messages: Vec<QueuedMessage>,
    turns: Vec<(UnfinishedTurn, Claim<Person>)>,
    questions: Vec<Ask>,
    stopped: Vec<(TurnId, Origin)>,
    unreadable: Vec<UnreadableTurn>,
}

impl WaitingRows {
    /// Reads everything that waits.
    fn read_all(store: &Connection, people: &People) -> rusqlite::Result<Self> {
        let mut claims = Claims { store, people, known: HashMap::new() };
        let messages = journal::all_waiting(store)?.into_iter();
        let mut found = Self {
            messages: messages.map(|it| claims.message(it)).collect::<Result<_, _>>()?,
            questions: asks::questions(store)?,
            ..Self::default()
        };
        for turn in transcript::all_unfinished(store)? {
            found.add_turn(&mut claims, turn)?;
        }
        Ok(found)
    }

    fn add_turn(&mut self, claims: &mut Claims<'_>, turn: ReadTurn) -> rusqlite::Result<()> {
        match turn {
            Ok(turn) => self.turns.push(claims.turn(turn)?),
            Err(unreadable) => self.unreadable.push(unreadable),
        }
        Ok(())
    }

    /// The turns that have not ended.
    fn unfinished(&self) -> impl Iterator<Item = &UnfinishedTurn> {
        self.turns.iter().map(|(turn, _)| turn)
    }

    /// Keeps only the rows of served origins, and of messages those of served authors.
    fn retain(&mut self, served: impl Fn(&Origin, Option<TaskKind>) -> bool) {
        self.messages.retain(|message| served(&message.origin, message.task));
        self.turns.retain(|(turn, _)| served(&turn.origin, None));
        self.unreadable.retain(|turn| served(&turn.origin, None));
    }

    /// Reads the changed rows that still wait.
    fn read_changed(
        store: &Connection,
        people: &People,
        changed: &BTreeSet<ChangedRow>,
    ) -> rusqlite::Result<Self> {
        let mut claims = Claims { store, people, known: HashMap::new() };
        let mut found = Self::default();
        for (table, row) in changed {
            match *table {
                INBOUND => {
                    if let Some(waiting) = journal::waiting_row(store, RowId(*row))? {
                        found.messages.push(claims.message(waiting)?);
                    }
                }
                TURNS => match transcript::unfinished_turn(store, TurnId(*row))? {
                    Some(turn) => found.add_turn(&mut claims, turn)?,
                    None => {
                        let turn = TurnId(*row);
                        let at = transcript::stopped_at(store, turn)?;
                        found.stopped.extend(at.map(|at| (turn, at)));
                    }
                },
                _ => found.questions.extend(asks::question(store, AskId(*row))?),
            }
        }
        Ok(found)
    }
}

/// Looks up roles, once for each person: the owner and admins are entitled to the reserved slots.
struct Claims<'a> {
    store: &'a Connection,
    people: &'a People,
    known: HashMap<Person, bool>,
}

impl Claims<'_> {
    fn message(&mut self, waiting: journal::WaitingRow) -> rusqlite::Result<QueuedMessage> {
        let claim = self.claim_of(&waiting.origin, waiting.sender)?;
        Ok(QueuedMessage { row: waiting.row, origin: waiting.origin, task: waiting.task, claim })
    }

    fn turn(&mut self, turn: UnfinishedTurn) -> rusqlite::Result<(UnfinishedTurn, Claim<Person>)> {
        let claim = self.claim_of(&turn.origin, turn.sender.id.clone())?;
        Ok((turn, claim))
    }

    fn claim_of(&mut self, at: &Origin, sender: SenderId) -> rusqlite::Result<Claim<Person>> {
        let person = (at.channel().clone(), sender);
        if let Some(entitled) = self.known.get(&person).copied() {
            return Ok(Claim { person, entitled });
        }
        let role = self.people.role_of(self.store, &person.0, &person.1)?;
        let entitled = role.is_some_and(|role| role >= Role::Admin);
        self.known.insert(person.clone(), entitled);
        Ok(Claim { person, entitled })
    }
}

impl WorkQueue {
    /// Reads the changes in the store since the last refresh, or everything if changes may have been lost. `beside`
    /// reads more in the same state of the store. Rows of origins, and of tasks that wrote them, that are not `served` are
    /// left out. Turns that wait for a model also update `suspended`.
    pub(super) async fn refresh<T: Send + 'static>(
        &mut self,
        services: &Services,
        suspended: &mut SuspendedTurns,
        served: impl Fn(&Origin, Option<TaskKind>) -> bool,
        beside: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<Refreshed<T>, StoreError> {
        let (store, people) = (&services.bus.store, services.bus.people.clone());
        if !self.follows {
            store.follow(TABLES).await?;
            self.follows = true;
        }
        let changed = store.changed().filter(|_| self.is_up_to_date);
        // If the read fails, the changes that were taken are lost.
        self.is_up_to_date = false;
        let query = move |store: &Connection| {
            let found = match &changed {
                Some(changed) => WaitingRows::read_changed(store, &people, changed)?,
                None => WaitingRows::read_all(store, &people)?,
            };
            Ok((changed, found, beside(store)?))
        };
        let (changed, mut found, beside) = store.read(query).await?;
        found.retain(served);
        let unreadable = std::mem::take(&mut found.unreadable);
        let stopped = std::mem::take(&mut found.stopped);
        let ended = stopped.iter().map(|(turn, _)| *turn).collect();
        suspended.update(changed.as_ref(), found.unfinished(), &ended);
        let is_complete = changed.is_none();
        if is_complete {
            self.drop_waiting();
        }
        self.update(&changed.unwrap_or_default(), found);
        self.is_up_to_date = true;
        self.wake_due();
        Ok(Refreshed { beside, is_complete, stopped, unreadable })
    }

    /// Makes the next refresh read everything.
    pub(super) fn require_full_read(&mut self) {
        self.is_up_to_date = false;
    }

    /// Drops everything except the origins for which tasks work.
    fn drop_waiting(&mut self) {
        let before = std::mem::take(self);
        self.follows = before.follows;
        let busy = before.places.into_iter().filter(|(_, place)| place.busy);
        busy.for_each(|(at, _)| self.began(&at));
    }

    /// Applies the changed rows.
    fn update(&mut self, changed: &BTreeSet<ChangedRow>, found: WaitingRows) {
        for row in changed {
            let Some(at) = self.at.remove(row) else { continue };
            if let Some(place) = self.places.get_mut(&at) {
                match row.0 {
                    INBOUND => drop(place.messages.remove(&RowId(row.1))),
                    TURNS => drop(place.turns.remove(&TurnId(row.1))),
                    _ => drop(place.questions.remove(&AskId(row.1))),
                }
            }
            self.changed.insert(at);
        }
        for QueuedMessage { row, origin, claim, task: _ } in found.messages {
            self.place((INBOUND, row.0), &origin).messages.insert(row, claim);
        }
        for (turn, claim) in found.turns {
            let at = turn.origin.clone();
            self.place((TURNS, turn.turn.0), &at).turns.insert(turn.turn, (turn, claim));
        }
        for ask in found.questions {
            let at = Origin::from(&ask.at);
            self.place((ASKS, ask.id.0), &at).questions.insert(ask.id, ask);
        }
        self.changed.clone().iter().for_each(|at| self.line_up(at));
    }

    fn place(&mut self, row: ChangedRow, at: &Origin) -> &mut OriginQueue {
        self.at.insert(row, at.clone());
        self.changed.insert(at.clone());
        self.places.entry(at.clone()).or_default()
    }

    /// Adds an origin to the line or removes it, depending on what waits there.
    fn line_up(&mut self, at: &Origin) {
        let Some(place) = self.places.get_mut(at) else { return };
        if self.changed.contains(at) {
            place.held_up = false;
        }
        if let Some(since) = place.since.take() {
            self.line.remove(&since);
        }
        if let Some((since, claim)) = place.claims() {
            place.since = Some(since);
            self.line.insert(since, (at.clone(), claim));
        }
        if place.is_empty() {
            self.places.remove(at);
        }
    }

    /// Marks origins as changed that are due to be examined again.
    fn wake_due(&mut self) {
        let now = Instant::now();
        while let Some((due, _)) = self.later.first()
            && *due <= now
            && let Some((_, at)) = self.later.pop_first()
        {
            self.touch(&at);
        }
    }

    /// Returns the origins at which something has changed, or that are due to be examined again.
    pub(super) fn take_changed(&mut self) -> BTreeSet<Origin> {
        std::mem::take(&mut self.changed)
    }

    /// Marks an origin to be examined again, as if something had changed there.
    pub(super) fn touch(&mut self, at: &Origin) {
        self.changed.insert(at.clone());
        self.line_up(at);
    }

    /// Schedules another examination of an origin after a pause.
    pub(super) fn look_again(&mut self, at: &Origin, pause: Duration) {
        self.later.insert((Instant::now() + pause, at.clone()));
    }

    /// Returns the time until an origin is due to be examined again.
    pub(super) fn next_look(&self) -> Option<Duration> {
        let (due, _) = self.later.first()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Returns the newest message that waits at an origin.
    pub(super) fn newest(&self, at: &Origin) -> Option<RowId> {
        self.places.get(at)?.messages.last_key_value().map(|(row, _)| *row)
    }

    /// Returns the questions of changed origins whose answer may be waiting, with the newest message of the
    /// origin.
    pub(super) fn questions_with_messages(&self) -> Vec<(Ask, RowId)> {
        let asked = self.changed.iter().filter_map(|at| {
            let newest = self.newest(at)?;
            Some(self.places.get(at)?.questions.values().map(move |ask| (ask.clone(), newest)))
        });
        asked.flatten().filter(|(ask, newest)| *newest > ask.after).collect()
    }

    /// Returns the person whose turn is suspended at an origin.
    pub(super) fn suspended(&self, at: &Origin) -> Option<SenderId> {
        let mut turns = self.places.get(at)?.turns.values();
        turns.find(|(turn, _)| turn.suspended).map(|(turn, _)| turn.sender.id.clone())
    }

    /// Returns a turn of an origin that waits to be resumed.
    pub(super) fn cut_off(&self, at: &Origin) -> Option<&UnfinishedTurn> {
        self.places.get(at)?.cut_off().map(|(turn, _)| turn)
    }

    pub(super) fn count_cut_off(&self) -> usize {
        self.line.keys().filter(|(stage, _)| *stage == Stage::CutOff).count()
    }

    /// Returns the origins at which turns could begin, and for whom, in order of arrival.
    pub(super) fn line(&self) -> impl Iterator<Item = &(Origin, Claim<Person>)> {
        self.line.values()
    }

    /// Notes that a turn works for an origin.
    pub(super) fn began(&mut self, at: &Origin) {
        let place = self.places.entry(at.clone()).or_default();
        (place.busy, place.released) = (true, None);
        self.line_up(at);
    }

    pub(super) fn ended(&mut self, at: &Origin) {
        if let Some(place) = self.places.get_mut(at) {
            place.busy = false;
        }
        self.touch(at);
    }

    /// Releases a suspended turn of an origin to try again, or takes the release back.
    pub(super) fn release(&mut self, at: &Origin, turn: Option<TurnId>) {
        if let Some(place) = self.places.get_mut(at) {
            place.released = turn;
        }
        self.line_up(at);
    }

    /// Returns true if a suspended turn of an origin may try again and has not begun to.
    pub(super) fn is_released(&self, at: &Origin) -> bool {
        self.places.get(at).is_some_and(|place| place.released.is_some())
    }

    /// Notes that no turn can begin with the waiting messages until something changes.
    pub(super) fn hold_up(&mut self, at: &Origin) {
        if let Some(place) = self.places.get_mut(at) {
            place.held_up = true;
        }
        self.line_up(at);
    }
}

impl OriginQueue {
    fn is_empty(&self) -> bool {
        !self.busy && self.messages.is_empty() && self.turns.is_empty() && self.questions.is_empty()
    }

    fn cut_off(&self) -> Option<&(UnfinishedTurn, Claim<Person>)> {
        let may_resume =
            |turn: &UnfinishedTurn| !turn.suspended || self.released == Some(turn.turn);
        self.turns.values().find(|(turn, _)| !self.busy && may_resume(turn))
    }

    /// Returns the place in the line and the claim of the next turn here. None if no turn can begin. The next
    /// person in a chat has the rank of the highest person who waits behind them.
    fn claims(&self) -> Option<(QueueOrder, Claim<Person>)> {
        let (since, claim) = match self.cut_off() {
            _ if self.busy => return None,
            Some((turn, claim)) => ((Stage::CutOff, turn.turn.0), claim),
            None if self.held_up || !self.turns.is_empty() => return None,
            None => {
                let (row, claim) = self.messages.first_key_value()?;
                ((Stage::Message, row.0), claim)
            }
        };
        let entitled = claim.entitled || self.messages.values().any(|claim| claim.entitled);
        Some((since, Claim { person: claim.person.clone(), entitled }))
    }
}
