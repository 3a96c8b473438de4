//! Decides which waiting turns begin next. Pure: persons and running turns in, a choice out. Some slots
//! are reserved for the owner and admins. In the others, persons alternate, regardless of the number of
//! their chats.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::Hash;

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

/// A turn that runs or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim<P> {
    pub person: P,
    /// True if the person, or somebody who waits behind them in the same chat, is the owner or an admin.
    pub entitled: bool,
}

impl<P> Claim<P> {
    pub fn by_ref(&self) -> Claim<&P> {
        Claim { person: &self.person, entitled: self.entitled }
    }
}

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
