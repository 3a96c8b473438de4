//! Rate limits of messages, for each person and each chat. Commands and the owner are never limited. The counts are in
//! memory, so a restart resets them.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::types::message::{Address, ChannelName, ChatId, SenderId};

const MINUTE: Duration = Duration::from_secs(60);

/// Number of codes that one account may enter in a minute: too few to guess one of 40 bits.
const CODES_PER_MINUTE: usize = 5;

/// Number of links to the page in the browser that one account may get in a minute.
const LINKS_PER_MINUTE: usize = 3;

/// Number of persons or chats from which idle ones are removed.
const KNOWN_MAX: usize = 1_024;

/// The limits. 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Messages of one person in a minute, in all chats of a channel.
    pub person_per_minute: usize,
    /// Messages in one chat in a minute.
    pub chat_per_minute: usize,
    /// Files of one person in 24 hours.
    pub files_per_day: usize,
    /// Turns of one person at a time; further ones wait.
    pub turns_per_person: usize,
}

/// The decision about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    Within,
    /// More than the person, or all in the chat together, may send in a minute. `is_news` is true for the first one.
    Over {
        most: usize,
        whose: RateOf,
        is_news: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateOf {
    Person,
    Chat,
}

/// The messages of the last minute. Cheap to clone.
#[derive(Clone, Default)]
// A mutex because the publishers of all channels count in it. It is held for a few comparisons.
pub struct RateCounters(Arc<Mutex<RateCounts>>);

#[derive(Default)]
struct RateCounts {
    persons: HashMap<(ChannelName, SenderId), Recent>,
    chats: HashMap<(ChannelName, ChatId), Recent>,
    codes: HashMap<(ChannelName, SenderId), Recent>,
    links: HashMap<(ChannelName, SenderId), Recent>,
}

#[derive(Default)]
struct Recent {
    at: VecDeque<Instant>,
    /// True if they got a notice about the limit, and have not been within it since.
    is_notified: bool,
}

impl Recent {
    fn forget_old(&mut self, now: Instant) {
        while self.at.front().is_some_and(|at| now.duration_since(*at) >= MINUTE) {
            self.at.pop_front();
        }
    }

    /// Returns None if one more is allowed; else true for the first one over the limit.
    fn over(&mut self, max: usize, now: Instant) -> Option<bool> {
        self.forget_old(now);
        if max == 0 || self.at.len() < max {
            return None;
        }
        Some(!std::mem::replace(&mut self.is_notified, true))
    }

    fn add(&mut self, now: Instant) {
        self.at.push_back(now);
        self.is_notified = false;
    }
}

impl RateCounters {
    /// Counts a message if it is within the limits.
    pub fn count(
        &self,
        limits: &RateLimits,
        from: &Address,
        sender: &SenderId,
        now: Instant,
    ) -> Rate {
        let (most_of_person, most_in_chat) = (limits.person_per_minute, limits.chat_per_minute);
        if most_of_person == 0 && most_in_chat == 0 {
            return Rate::Within;
        }
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let RateCounts { persons, chats, .. } = &mut *counters;
        forget_idle(persons, now);
        forget_idle(chats, now);
        let person = persons.entry((from.channel.clone(), sender.clone())).or_default();
        let chat = chats.entry((from.channel.clone(), from.chat.clone())).or_default();
        if let Some(is_news) = person.over(most_of_person, now) {
            return Rate::Over { most: most_of_person, whose: RateOf::Person, is_news };
        }
        if let Some(is_news) = chat.over(most_in_chat, now) {
            return Rate::Over { most: most_in_chat, whose: RateOf::Chat, is_news };
        }
        person.add(now);
        chat.add(now);
        Rate::Within
    }
}

impl RateCounters {
    /// Counts a code that an account enters. Returns false if there were too many.
    pub fn may_try_code(&self, channel: &ChannelName, sender: &SenderId) -> bool {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count_once_more(&mut counters.codes, channel, sender, CODES_PER_MINUTE)
    }

    /// Counts a sign-in link that an account gets. Returns false if there were too many.
    pub fn may_get_link(&self, channel: &ChannelName, sender: &SenderId) -> bool {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count_once_more(&mut counters.links, channel, sender, LINKS_PER_MINUTE)
    }
}

/// Counts one more and returns true, unless there were `max` in the last minute.
fn count_once_more(
    counts: &mut HashMap<(ChannelName, SenderId), Recent>,
    channel: &ChannelName,
    sender: &SenderId,
    max: usize,
) -> bool {
    let now = Instant::now();
    forget_idle(counts, now);
    let recent = counts.entry((channel.clone(), sender.clone())).or_default();
    let is_over = recent.over(max, now).is_some();
    if !is_over {
        recent.add(now);
    }
    !is_over
}

/// Removes entries without a message in the last minute, once there are many entries.
fn forget_idle<K: Eq + Hash>(counts: &mut HashMap<K, Recent>, now: Instant) {
    if counts.len() >= KNOWN_MAX {
        counts.retain(|_, recent| {
            recent.forget_old(now);
            !recent.at.is_empty()
        });
    }
}
