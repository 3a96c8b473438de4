//! Quiet hours in the owner's time zone.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Duration, NaiveTime, Utc};
use chrono_tz::Tz;

use crate::tasks::schedule::moment;

/// Quiet hours: from one time of the day to another, possibly past midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuietHours {
    from: NaiveTime,
    until: NaiveTime,
}

impl QuietHours {
    pub const NIGHT: Self = Self { from: time(22), until: time(7) };

    /// Returns the end of the quiet hours that contain a moment. None if it is outside of them.
    pub fn ends(&self, at: DateTime<Utc>, zone: Tz) -> Option<DateTime<Utc>> {
        let local = at.with_timezone(&zone);
        let (time, today) = (local.time(), local.date_naive());
        let is_within = match self.from < self.until {
            true => (self.from..self.until).contains(&time),
            false => time >= self.from || time < self.until,
        };
        if !is_within {
            return None;
        }
        let day = if time < self.until { today } else { today.succ_opt()? };
        let end = moment(zone, day.and_time(self.until))?;
        // When the clock shows a time twice, the first end may be past.
        Some(if end > at { end } else { end + Duration::hours(1) })
    }
}

const fn time(hour: u32) -> NaiveTime {
    NaiveTime::from_hms_opt(hour, 0, 0).expect("it is an hour")
}

impl fmt::Display for QuietHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}–{}", self.from.format("%H:%M"), self.until.format("%H:%M"))
    }
}

/// Parses `22:00-07:00`, also with an en dash.
impl FromStr for QuietHours {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (from, until) = text.split_once(['-', '–']).ok_or(())?;
        let parse_time = |text: &str| NaiveTime::parse_from_str(text.trim(), "%H:%M").map_err(drop);
        let (from, until) = (parse_time(from)?, parse_time(until)?);
        if from == until { Err(()) } else { Ok(Self { from, until }) }
    }
}
