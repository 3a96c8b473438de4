//! Parses times as people and models write them: `20m`, `tomorrow 8:00`, `2026-12-24 18:00`, `every 2h`.

use chrono::{
    DateTime, Datelike as _, Duration, NaiveDate, NaiveDateTime, NaiveTime, SubsecRound as _, Utc,
    Weekday,
};
use chrono_tz::Tz;

use crate::replies;
use crate::short_text::one_line;
use crate::tasks::schedule::timing::{self, EVERY_MAX, EVERY_MIN, Timing};

/// Maximum time ahead. Nobody remembers a job for longer.
const AHEAD_MAX: Duration = Duration::days(5 * 366);

/// Maximum length of a cron line, in characters.
const FIELDS_CHARS_MAX: usize = 200;

/// Parses a time for a job that runs once. The error is an explanation for people and models.
pub fn at(text: &str, now: DateTime<Utc>, zone: Tz) -> Result<Timing, String> {
    let unclear = || replies::unclear_time(text);
    let plain = text.trim().to_lowercase();
    let plain =
        ["in ", "at ", "on "].iter().fold(&*plain, |text, word| text.trim_start_matches(word));
    let at = match duration(plain) {
        Some(until) => whole_second_after(now).checked_add_signed(until).ok_or_else(unclear)?,
        None => moment(plain, now, zone).ok_or_else(unclear)?,
    };
    match at - now {
        until if until <= Duration::zero() => Err(replies::time_is_past(text)),
        until if until > AHEAD_MAX => Err(replies::time_is_too_far(text)),
        _ => Ok(Timing::At(at)),
    }
}

/// Rounds up to a whole second. Due times are stored in milliseconds, and a lost fraction would make one due twice.
fn whole_second_after(now: DateTime<Utc>) -> DateTime<Utc> {
    match now.trunc_subsecs(0) {
        whole if whole == now => now,
        whole => whole + Duration::seconds(1),
    }
}

/// Parses an interval.
pub fn every(text: &str, now: DateTime<Utc>) -> Result<Timing, String> {
    let plain = text.trim().to_lowercase();
    let plain = plain.trim_start_matches("every ");
    let every = duration(plain).ok_or_else(|| replies::unclear_pause(text))?;
    if every < EVERY_MIN || every > EVERY_MAX {
        return Err(replies::PAUSE_BOUNDS.to_owned());
    }
    Ok(Timing::Every { seconds: every.num_seconds(), from: now.trunc_subsecs(0) })
}

/// Parses a cron line for a time zone.
pub fn cron(fields: &str, now: DateTime<Utc>, zone: Tz) -> Result<Timing, String> {
    let fields = one_line(fields);
    if fields.chars().count() > FIELDS_CHARS_MAX {
        return Err(replies::unclear_cron("it is too long"));
    }
    // Words such as @daily stand for a whole line.
    if !fields.starts_with('@') && !matches!(fields.split_whitespace().count(), 5 | 6) {
        return Err(replies::unclear_cron(replies::CRON_FIELDS));
    }
    timing::parse(&fields).map_err(|error| replies::unclear_cron(&error))?;
    let timing = Timing::Cron { fields, zone };
    if timing.next_after(now).is_none() {
        return Err(replies::CRON_NEVER.to_owned());
    }
    match timing::is_too_close(&timing, now) {
        true => Err(replies::PAUSE_BOUNDS.to_owned()),
        false => Ok(timing),
    }
}

/// Parses the name of a time zone of the tz database.
pub fn zone(name: &str) -> Result<Tz, String> {
    let named =
        chrono_tz::TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(name.trim()));
    named.copied().ok_or_else(|| replies::unknown_zone(name))
}

/// Returns the first time zone named in a line of a person's notes that mentions a time zone.
pub fn zone_in(text: &str) -> Option<Tz> {
    let lines = text.lines().filter(|line| {
        let line = line.to_lowercase();
        line.contains("time zone") || line.contains("timezone")
    });
    let is_separator =
        |character: char| !character.is_alphanumeric() && !"/_+-".contains(character);
    lines.flat_map(|line| line.split(is_separator)).find_map(|word| zone(word).ok())
}

/// Parses `20m`, `2h30m`, `1 day 2 hours`, `90 minutes`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::zero();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        let number: i64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|character: char| !character.is_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "s" | "sec" | "secs" | "second" | "seconds" => Duration::try_seconds(number),
            "m" | "min" | "mins" | "minute" | "minutes" => Duration::try_minutes(number),
            "h" | "hr" | "hrs" | "hour" | "hours" => Duration::try_hours(number),
            "d" | "day" | "days" => Duration::try_days(number),
            "w" | "week" | "weeks" => Duration::try_weeks(number),
            _ => return None,
        };
        total = total.checked_add(&unit?)?;
        rest = rest[letters..].trim_start();
        rest = rest.strip_prefix("and ").unwrap_or(rest).trim_start_matches(',').trim_start();
    }
    Some(total)
}

/// Parses a date or a weekday with a time, or a time alone.
fn moment(text: &str, now: DateTime<Utc>, zone: Tz) -> Option<DateTime<Utc>> {
    let iso = text.to_uppercase().replacen(' ', "T", 1);
    if let Ok(moment) = DateTime::parse_from_rfc3339(&iso) {
        return Some(moment.to_utc());
    }
    for form in ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"] {
        if let Ok(wall) = NaiveDateTime::parse_from_str(&iso, form) {
            return timing::moment(zone, wall);
        }
    }
    let today = now.with_timezone(&zone).date_naive();
    let (day, clock) = match text.split_once(' ') {
        Some((day, clock)) if time(text).is_none() => (day, clock),
        _ => ("", text),
    };
    let clock = clock.trim();
    let clock = time(clock.strip_prefix("at ").unwrap_or(clock))?;
    let on = |day: NaiveDate| timing::moment(zone, day.and_time(clock));
    let is_ahead = |moment: &DateTime<Utc>| *moment > now;
    match day.trim_end_matches(',') {
        // The next occurrence of the time.
        "" => on(today).filter(is_ahead).or_else(|| on(today.succ_opt()?)),
        "today" => on(today),
        "tomorrow" => on(today.succ_opt()?),
        day => match day.parse::<Weekday>() {
            Ok(weekday) => {
                let days = weekday.days_since(today.weekday());
                let next = today.checked_add_days(chrono::Days::new(days.into()))?;
                on(next)
                    .filter(is_ahead)
                    .or_else(|| on(next.checked_add_days(chrono::Days::new(7))?))
            }
            Err(_) => on(day.parse::<NaiveDate>().ok()?),
        },
    }
}

/// Parses `8:00`, `18:30:15`, `8am`, `8:30 pm`.
fn time(text: &str) -> Option<NaiveTime> {
    let text = text.trim();
    let half = ["am", "pm"].into_iter().find(|half| text.ends_with(half));
    let digits = half.map_or(text, |half| text.trim_end_matches(half).trim_end());
    let mut parts = digits.split(':').map(|part| match part.len() {
        1 | 2 => part.parse::<u32>().ok(),
        _ => None,
    });
    let hour = parts.next()??;
    let minute = parts.next().map_or(half.map(|_| 0), |minute| minute)?;
    let second = parts.next().map_or(Some(0), |second| second)?;
    if parts.next().is_some() {
        return None;
    }
    let hour = match half {
        None => hour,
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some("am") => hour % 12,
        Some(_) => hour % 12 + 12,
    };
    NaiveTime::from_hms_opt(hour, minute, second)
}
