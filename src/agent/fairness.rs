//! Decides which waiting turns begin next, and begins them. The choice is pure: persons and running turns in, indices
//! out. Some slots are reserved for the owner and admins. In the others, persons alternate, regardless of the number of
//! their chats.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::Hash;

use crate::agent::Agent;
pub use crate::agent::claim::Claim;
use crate::agent::work_queue::Person;
use crate::types::origin::Origin;

/// One slot in this many is reserved for the owner and admins: two of 16, so that the next question does
/// not wait for one that hangs.
const RESERVED_SHARE: usize = 8;

/// Maximum number of reserved slots: owner and admins are few.
const RESERVED_MAX: usize = 4;

/// Slots are short once only one in this many of the unreserved ones is free. The last ones are for
/// persons who hold few.
const SHORT_SHARE: usize = 4;

/// A person who holds this many turns waits when slots are short.
const HELD_MAX: usize = 2;

/// Returns the number of slots that only the owner and admins use. A single slot cannot be reserved:
/// nobody else would ever get an answer.
pub fn reserved(turns_max: usize) -> usize {
    if turns_max < 2 { 0 } else { (turns_max / RESERVED_SHARE).clamp(1, RESERVED_MAX) }
}

/// Returns the indices of the turns that begin now. `waiting` is in order of arrival.
pub fn choose<P: Copy + Eq + Hash>(
    turns_max: usize,
    running: &[Claim<P>],
    waiting: &[Claim<P>],
) -> Vec<usize> {
    let mut free = turns_max.saturating_sub(running.len());
    if free == 0 {
        return Vec::new();
    }
    let for_all = turns_max - reserved(turns_max);
    let short_at = for_all.div_ceil(SHORT_SHARE);
    let taken = running.iter().filter(|claim| !claim.entitled).count();
    let mut open_for_all = for_all.saturating_sub(taken);
    let mut held = HashMap::new();
    for claim in running {
        *held.entry(claim.person).or_default() += 1;
    }

    let mut chosen = Vec::new();
    let mut queue = PersonQueue::new(waiting, true, &held);
    while free > 0
        && let Some((next, _)) = queue.next()
    {
        free -= 1;
        chosen.push(next);
    }
    let mut queue = PersonQueue::new(waiting, false, &held);
    while free > 0
        && open_for_all > 0
        && let Some((next, holds)) = queue.next()
        // The next person holds the fewest of all.
        && (open_for_all > short_at || holds < HELD_MAX)
    {
        free -= 1;
        open_for_all -= 1;
        chosen.push(next);
    }
    chosen
}

/// Persons who wait. Next is the person who holds the fewest turns, then the one who has waited longest.
struct PersonQueue<P> {
    turns: HashMap<P, VecDeque<usize>>,
    /// The number of turns that each person holds, and their first waiting turn.
    next: BinaryHeap<Reverse<(usize, usize)>>,
    waiting: Vec<P>,
}

impl<P: Copy + Eq + Hash> PersonQueue<P> {
    fn new(waiting: &[Claim<P>], entitled: bool, held: &HashMap<P, usize>) -> Self {
        let mut by_person: HashMap<P, VecDeque<usize>> = HashMap::new();
        for (at, claim) in waiting.iter().enumerate().filter(|(_, it)| it.entitled == entitled) {
            by_person.entry(claim.person).or_default().push_back(at);
        }
        let queue_key = |(person, turns): (&P, &VecDeque<usize>)| {
            Reverse((held.get(person).copied().unwrap_or_default(), turns[0]))
        };
        let next = by_person.iter().map(queue_key).collect();
        Self { turns: by_person, next, waiting: waiting.iter().map(|claim| claim.person).collect() }
    }

    /// Returns the next turn, and the number of other turns that its person holds.
    fn next(&mut self) -> Option<(usize, usize)> {
        let Reverse((holds, at)) = self.next.pop()?;
        let turns = self.turns.get_mut(&self.waiting[at])?;
        turns.pop_front();
        if let Some(after) = turns.front() {
            self.next.push(Reverse((holds + 1, *after)));
        }
        Some((at, holds))
    }
}

impl Agent {
    /// Begins turns while there are free slots.
    pub(super) async fn begin_turns(&mut self) {
        loop {
            let chosen = self.choose();
            if chosen.is_empty() {
                return;
            }
            for (origin, claim) in chosen {
                let begun = self.begin_turn(&origin, claim).await;
                self.retry_later(&origin, begun);
            }
        }
    }

    /// Returns the origins of the turns that begin next, each with its claim on a slot.
    fn choose(&self) -> Vec<(Origin, Claim<Person>)> {
        if self.running.len() >= self.config.turns_max {
            return Vec::new();
        }
        let line = self.work_queue.line().filter(|(origin, _)| !self.forgettings.hold(origin));
        let line = self.within_limit(line);
        let waiting: Vec<_> = line.iter().map(|(_, claim)| claim.by_ref()).collect();
        let running: Vec<_> = self.running.values().map(|it| it.claim.by_ref()).collect();
        let chosen = choose(self.config.turns_max, &running, &waiting);
        chosen.into_iter().map(|at| line[at].clone()).collect()
    }

    /// Removes the turns of persons who already have the maximum number of turns per person.
    fn within_limit<'a>(
        &'a self,
        line: impl Iterator<Item = &'a (Origin, Claim<Person>)>,
    ) -> Vec<&'a (Origin, Claim<Person>)> {
        let turns_max = self.services.bus.limits.turns_per_person;
        let mut held: HashMap<&Person, usize> = HashMap::new();
        for running in self.running.values() {
            *held.entry(&running.claim.person).or_default() += 1;
        }
        let mut allowed = Vec::new();
        for next in line {
            let (_, claim) = next;
            let held = held.entry(&claim.person).or_default();
            *held += 1;
            if turns_max == 0 || claim.entitled || *held <= turns_max {
                allowed.push(next);
            }
        }
        allowed
    }
}
