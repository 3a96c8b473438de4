//! Decides which waiting turns begin next. Pure: persons and running turns in, a choice out. Some slots
//! are reserved for the owner and admins. Among the others, persons alternate, however many chats each
//! has.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::Hash;

/// One slot in this many is reserved for the owner and admins: two of 16, so that one question that hangs
/// does not make the next one wait.
const RESERVED_SHARE: usize = 8;

/// Maximum number of reserved slots: they are few people.
const RESERVED_MAX: usize = 4;

/// Slots are short once only one in this many of those for everybody is free. The last ones are for
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
    let short = for_all.div_ceil(SHORT_SHARE);
    let taken = running.iter().filter(|claim| !claim.entitled).count();
    let mut open = for_all.saturating_sub(taken);
    let mut held = HashMap::new();
    for claim in running {
        *held.entry(claim.person).or_default() += 1;
    }

    let mut chosen = Vec::new();
    let mut line = PersonQueue::new(waiting, true, &held);
    while free > 0
        && let Some((next, _)) = line.next()
    {
        free -= 1;
        chosen.push(next);
    }
    let mut line = PersonQueue::new(waiting, false, &held);
    while free > 0
        && open > 0
        && let Some((next, holds)) = line.next()
        // The next person holds the fewest of all.
        && (open > short || holds < HELD_MAX)
    {
        free -= 1;
        open -= 1;
        chosen.push(next);
    }
    chosen
}

/// Persons who wait. Next is the person who holds the fewest turns, then the one who has waited longest.
struct PersonQueue<P> {
    of: HashMap<P, VecDeque<usize>>,
    /// The number of turns that each person holds, and their first waiting turn.
    next: BinaryHeap<Reverse<(usize, usize)>>,
    waiting: Vec<P>,
}

impl<P: Copy + Eq + Hash> PersonQueue<P> {
    fn new(waiting: &[Claim<P>], entitled: bool, held: &HashMap<P, usize>) -> Self {
        let mut of: HashMap<P, VecDeque<usize>> = HashMap::new();
        for (at, claim) in waiting.iter().enumerate().filter(|(_, it)| it.entitled == entitled) {
            of.entry(claim.person).or_default().push_back(at);
        }
        let first = |(person, theirs): (&P, &VecDeque<usize>)| {
            Reverse((held.get(person).copied().unwrap_or_default(), theirs[0]))
        };
        let next = of.iter().map(first).collect();
        Self { of, next, waiting: waiting.iter().map(|claim| claim.person).collect() }
    }

    /// Returns the next turn, and how many its person holds without it.
    fn next(&mut self) -> Option<(usize, usize)> {
        let Reverse((holds, at)) = self.next.pop()?;
        let theirs = self.of.get_mut(&self.waiting[at])?;
        theirs.pop_front();
        if let Some(after) = theirs.front() {
            self.next.push(Reverse((holds + 1, *after)));
        }
        Some((at, holds))
    }
}
