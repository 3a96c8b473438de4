//! Due times of jobs. Pure: values in, values out, no clock.
//!
//! A wall clock does not show every time once. A due time that it skips is moved to the first moment after
//! the gap. Of a time that it shows twice, a cron line that names the hour is due the first time only; one
//! whose hour is `*` or `*/n` is due both times.

use chrono::{
    DateTime, Duration, NaiveDateTime, Offset as _, SubsecRound as _, TimeZone as _, Utc,
};
use chrono_tz::{GapInfo, Tz};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use serde::{Deserialize, Serialize};

/// Minimum interval of a job. A more frequent one would be a loop.
pub const EVERY_MIN: Duration = Duration::minutes(1);

/// Maximum interval: a year and a day. For longer ones people use dates.
pub(super) const EVERY_MAX: Duration = Duration::days(366);

/// Number of due times of a cron line that are compared to find its smallest interval.
const LOOKED_AT: usize = 20;

/// Maximum number of offset changes of a zone that the search for a due time passes. There are at most four
/// a year, and the 29th of February occurs at least every eight years.
const CHANGES_MAX: usize = 100;

/// Step of the search for an offset change. No zone changes its offset twice within it.
const CHANGE_STEP: Duration = Duration::hours(12);

/// The due times of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// Once.
    At(DateTime<Utc>),
    /// Each time that another `seconds` have passed since `from`.
    Every { seconds: i64, from: DateTime<Utc> },
    /// Whenever the wall clock of a zone matches the fields.
    Cron { fields: String, zone: Tz },
}

impl Timing {
    /// Returns the first due time after a moment. None if there is none.
    pub fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match self {
            Self::At(at) => (*at > after).then_some(*at),
            Self::Every { seconds, from } => {
                let seconds = (*seconds).max(EVERY_MIN.num_seconds());
                // Rounded down, also before `from`.
                let intervals_passed =
                    (after - from).num_milliseconds().div_euclid(seconds * 1_000);
                let until = Duration::try_seconds(seconds.checked_mul(intervals_passed + 1)?)?;
                from.checked_add_signed(until)
            }
            Self::Cron { fields, zone } => {
                let cron = parse(fields).ok()?;
                let after = after.trunc_subsecs(0);
                match hour_is_open(fields) {
                    true => next_shown(&cron, *zone, after),
                    false => next_named(&cron, *zone, after),
                }
            }
        }
    }

    /// Returns true if it is due more than once.
    pub fn recurs(&self) -> bool {
        !matches!(self, Self::At(_))
    }
}

/// Parses a cron line of five or six fields. The first of six is for seconds.
pub(super) fn parse(fields: &str) -> Result<Cron, String> {
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
    parser.parse(fields).map_err(|error| error.to_string())
}

/// Returns true if two due times of a cron line are closer than the minimum interval.
pub(super) fn is_too_close(timing: &Timing, now: DateTime<Utc>) -> bool {
    let next = |at: &DateTime<Utc>| timing.next_after(*at);
    let due: Vec<_> = std::iter::successors(Some(now), next).skip(1).take(LOOKED_AT).collect();
    due.windows(2).any(|two| two[1] - two[0] < EVERY_MIN)
}

/// Returns true if the cron line names no hour.
fn hour_is_open(fields: &str) -> bool {
    let fields: Vec<_> = fields.split_whitespace().collect();
    let hour = match fields.as_slice() {
        [_, hour, _, _, _] | [_, _, hour, _, _, _] => hour,
        [nickname] => return nickname.eq_ignore_ascii_case("@hourly"),
        _ => return false,
    };
    hour.starts_with('*')
}

/// Returns the moment at which a zone's clock shows a time: the first of two, or, if the clock skips the time, the
/// first moment after the gap.
pub fn moment(zone: Tz, wall: NaiveDateTime) -> Option<DateTime<Utc>> {
    match zone.from_local_datetime(&wall).earliest() {
        Some(moment) => Some(moment.to_utc()),
        None => GapInfo::new(&wall, &zone)?.end.map(|end| end.to_utc()),
    }
}

/// Returns the beginning of the day that contains a moment, in a zone.
pub fn midnight(at: DateTime<Utc>, zone: Tz) -> DateTime<Utc> {
    let today = at.with_timezone(&zone).date_naive();
    moment(zone, today.and_time(chrono::NaiveTime::MIN)).unwrap_or(at)
}

/// Returns the next match, counting a time that the clock shows twice once.
fn next_named(cron: &Cron, zone: Tz, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let mut wall = after.with_timezone(&zone).naive_local();
    loop {
        wall = matching(cron, wall, Inclusive::No)?;
        match moment(zone, wall)? {
            moment if moment > after => return Some(moment),
            // The clock shows it a second time, or it is one of several skipped times.
            _ => {}
        }
    }
}

/// Returns the next match, counting each time that the clock shows it.
fn next_shown(cron: &Cron, zone: Tz, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let (mut from, mut inclusive) = (after, Inclusive::No);
    for _ in 0..CHANGES_MAX {
        let offset = offset_at(zone, from);
        let wall = matching(cron, from.naive_utc() + offset, inclusive)?;
        let found = wall.and_utc() - offset;
        match first_change(zone, from, found) {
            None => return Some(found),
            Some(change) => (from, inclusive) = (change, Inclusive::Yes),
        }
    }
    None
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inclusive {
    Yes,
    No,
}

/// Returns the next matching wall-clock time, even if the clock skips it.
fn matching(cron: &Cron, wall: NaiveDateTime, inclusive: Inclusive) -> Option<NaiveDateTime> {
    let inclusive = inclusive == Inclusive::Yes;
    Some(cron.find_next_occurrence(&wall.and_utc(), inclusive).ok()?.naive_utc())
}

fn offset_at(zone: Tz, at: DateTime<Utc>) -> Duration {
    let offset = zone.offset_from_utc_datetime(&at.naive_utc()).fix();
    Duration::seconds(i64::from(offset.local_minus_utc()))
}

/// Returns the first moment after `from`, up to `until`, whose offset differs from that of `from`.
fn first_change(zone: Tz, from: DateTime<Utc>, until: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let offset = offset_at(zone, from);
    let (mut before, mut changed) = (from, from);
    while offset_at(zone, changed) == offset {
        if changed >= until {
            return None;
        }
        before = changed;
        changed = (changed + CHANGE_STEP).min(until);
    }
    while changed - before > Duration::seconds(1) {
        let middle = before
            + Duration::seconds((changed - before).num_seconds() / 2).max(Duration::seconds(1));
        match offset_at(zone, middle) == offset {
            true => before = middle,
            false => changed = middle,
        }
    }
    // Zones change their offsets at whole seconds.
    Some(DateTime::from_timestamp(changed.timestamp(), 0).unwrap_or(changed))
}
