//! Due times against a second implementation: every zone's clock, walked minute by minute around its
//! changes.

use std::collections::{BTreeSet, HashSet};

use chrono::{DateTime, Duration, NaiveDateTime, Offset, TimeZone, Timelike, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};
use peacrab::tasks::schedule::{self, Timing, moment};
use proptest::prelude::*;

use crate::support::effort;

/// An hour and minutes of a daily cron line, both of which the walker can read.
#[derive(Clone, Debug)]
struct Line {
    /// None: `*`.
    hours: Option<BTreeSet<u32>>,
    minutes: BTreeSet<u32>,
}

impl Line {
    fn fields(&self) -> String {
        let list = |of: &BTreeSet<u32>| of.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let hours = self.hours.as_ref().map_or("*".to_owned(), list);
        format!("{} {hours} * * *", list(&self.minutes))
    }

    fn matches(&self, wall: NaiveDateTime) -> bool {
        let hour = self.hours.as_ref().is_none_or(|hours| hours.contains(&wall.hour()));
        hour && self.minutes.contains(&wall.minute()) && wall.second() == 0
    }
}

fn wall(zone: Tz, at: DateTime<Utc>) -> NaiveDateTime {
    at.with_timezone(&zone).naive_local()
}

/// All due times from one moment to another, found by looking at the clock each minute.
fn walked(line: &Line, zone: Tz, from: DateTime<Utc>, until: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let mut due = Vec::new();
    let mut shown = HashSet::new();
    let mut at = from;
    while at < until {
        let (before, now) = (wall(zone, at - Duration::minutes(1)), wall(zone, at));
        // Times that the clock has just skipped, which a named hour is due at now.
        let mut skipped = before + Duration::minutes(1);
        let mut has_skipped = false;
        while skipped < now {
            has_skipped |= line.hours.is_some() && line.matches(skipped) && shown.insert(skipped);
            skipped += Duration::minutes(1);
        }
        let matches = line.matches(now);
        let first_time = shown.insert(now);
        if has_skipped || (matches && (first_time || line.hours.is_none())) {
            due.push(at);
        }
        at += Duration::minutes(1);
    }
    due
}

fn reckoned(
    line: &Line,
    zone: Tz,
    from: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Vec<DateTime<Utc>> {
    let timing = Timing::Cron { fields: line.fields(), zone };
    let next = |at: &DateTime<Utc>| timing.next_after(*at);
    let all = std::iter::successors(timing.next_after(from - Duration::seconds(1)), next);
    all.take_while(|at| *at < until).collect()
}

/// The moments at which a zone's clock changes, in the years of this program and a few before.
fn changes(zone: Tz) -> Vec<DateTime<Utc>> {
    let offset =
        |at: DateTime<Utc>| zone.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc();
    let mut found = Vec::new();
    let mut at = Utc.with_ymd_and_hms(2005, 1, 1, 0, 0, 0).unwrap();
    let end = Utc.with_ymd_and_hms(2032, 1, 1, 0, 0, 0).unwrap();
    let step = Duration::days(3);
    while at < end {
        if offset(at) != offset(at + step) {
            let (mut before, mut after) = (at, at + step);
            while after - before > Duration::minutes(1) {
                let middle = before + Duration::minutes((after - before).num_minutes() / 2);
                if offset(middle) == offset(at) { before = middle } else { after = middle }
            }
            found.push(after);
        }
        at += step;
    }
    found
}

fn check(line: &Line, zone: Tz, change: DateTime<Utc>) {
    /// No change of these years shows more than three hours again.
    const AROUND: i64 = 5;
    let (from, until) = (change - Duration::hours(AROUND), change + Duration::hours(AROUND));
    let mut walked = walked(line, zone, from - Duration::hours(AROUND), until);
    walked.retain(|at| *at >= from);
    let reckoned = reckoned(line, zone, from, until);
    assert_eq!(reckoned, walked, "{} in {zone} around {change}", line.fields());
}

fn set(of: &[u32]) -> BTreeSet<u32> {
    of.iter().copied().collect()
}

/// Every zone, one change of each kind in it: a named hour within the change, and each half hour.
#[test]
fn is_due_as_the_clock_of_every_zone_shows_it() {
    let mut seen = HashSet::new();
    for zone in TZ_VARIANTS {
        for change in changes(zone) {
            let before = wall(zone, change - Duration::minutes(1));
            let after = wall(zone, change);
            // Zones that change alike at the same moment have the same clock there.
            if !seen.insert((change, before, after)) {
                continue;
            }
            let hours = set(&[before.hour(), after.hour(), (before.hour() + 1) % 24]);
            check(&Line { hours: Some(hours), minutes: set(&[0, 30]) }, zone, change);
            check(&Line { hours: None, minutes: set(&[15]) }, zone, change);
        }
    }
    assert!(seen.len() > 500, "there are more changes than {}", seen.len());
}

fn line() -> impl Strategy<Value = Line> {
    let hours = prop::option::of(prop::collection::btree_set(0..24_u32, 1..4));
    let minutes = prop::collection::btree_set(0..60_u32, 1..3);
    (hours, minutes).prop_map(|(hours, minutes)| Line { hours, minutes })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: effort::cases(150), ..ProptestConfig::default() })]

    #[test]
    fn any_line_is_due_as_a_walk_along_the_clock_finds_it(
        line in line(), zone in prop::sample::select(&TZ_VARIANTS[..]), nth in any::<prop::sample::Index>()
    ) {
        let changes = changes(zone);
        if !changes.is_empty() {
            check(&line, zone, *nth.get(&changes));
        }
    }

    #[test]
    fn the_next_time_is_always_ahead(
        line in line(), zone in prop::sample::select(&TZ_VARIANTS[..]), at in 0..4_000_000_000_i64
    ) {
        let at = DateTime::from_timestamp(at, 0).unwrap();
        let timing = Timing::Cron { fields: line.fields(), zone };
        prop_assert!(timing.next_after(at).is_some_and(|next| next > at));
    }

    #[test]
    fn a_pause_is_kept_whatever_the_clock_showed_before(
        seconds in 60..90_000_i64, from in 0..4_000_000_000_i64, at in 0..4_000_000_000_i64
    ) {
        let (from, at) = (DateTime::from_timestamp(from, 0).unwrap(), DateTime::from_timestamp(at, 0).unwrap());
        let next = Timing::Every { seconds, from }.next_after(at).unwrap();
        prop_assert!(next > at && next <= at + Duration::seconds(seconds));
        prop_assert_eq!((next - from).num_seconds() % seconds, 0);
    }
}

const BERLIN: Tz = Tz::Europe__Berlin;

fn berlin(text: &str) -> DateTime<Utc> {
    let wall = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap();
    moment(BERLIN, wall).unwrap()
}

fn due_after(fields: &str, from: &str, n: usize) -> Vec<String> {
    let timing = schedule::cron(fields, berlin(from), BERLIN).unwrap();
    let next = |at: &DateTime<Utc>| timing.next_after(*at);
    std::iter::successors(Some(berlin(from)), next)
        .skip(1)
        .take(n)
        .map(|at| at.with_timezone(&BERLIN).format("%m-%d %H:%M %:z").to_string())
        .collect()
}

#[test]
fn a_night_with_one_hour_less_or_more_has_one_half_past_two() {
    assert_eq!(
        due_after("30 2 * * *", "2026-03-28 12:00", 3),
        ["03-29 03:00 +02:00", "03-30 02:30 +02:00", "03-31 02:30 +02:00"]
    );
    assert_eq!(
        due_after("30 2 * * *", "2026-10-24 12:00", 2),
        ["10-25 02:30 +02:00", "10-26 02:30 +01:00"]
    );
    // What goes by the hour goes on by the hour.
    assert_eq!(
        due_after("0 * * * *", "2026-10-25 01:00", 3),
        ["10-25 02:00 +02:00", "10-25 02:00 +01:00", "10-25 03:00 +01:00"]
    );
    assert_eq!(
        due_after("30 * * * *", "2026-03-29 01:00", 2),
        ["03-29 01:30 +01:00", "03-29 03:30 +02:00"]
    );
}

#[test]
fn rare_times_are_found() {
    assert_eq!(due_after("0 9 29 2 *", "2026-11-21 00:00", 1), ["02-29 09:00 +01:00"]);
    assert_eq!(
        due_after("0 9 * * mon-fri", "2026-11-20 09:00", 2),
        ["11-23 09:00 +01:00", "11-24 09:00 +01:00"]
    );
    assert_eq!(due_after("15 0 9 * * 1", "2026-11-20 09:00", 1), ["11-23 09:00 +01:00"]);
}
