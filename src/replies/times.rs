//! Times as people read them.

use chrono::{DateTime, Datelike as _, Utc};
use chrono_tz::Tz;

/// Returns a time relative to now, in the time zone of `now`: "today at 09:56", "Friday at 08:00", or the date,
/// with the year if it is another one.
pub fn time_relative_to(now: DateTime<Tz>, at: DateTime<Utc>) -> String {
    let at = at.with_timezone(&now.timezone());
    let days = (at.date_naive() - now.date_naive()).num_days();
    let day = match days {
        0 => "today".to_owned(),
        1 => "tomorrow".to_owned(),
        -1 => "yesterday".to_owned(),
        // A week from now has today's name.
        2..=6 => at.format("%A").to_string(),
        -6..=-2 => at.format("last %A").to_string(),
        _ if at.year() == now.year() => at.format("%-d %B").to_string(),
        _ => at.format("%-d %B %Y").to_string(),
    };
    format!("{day} at {}", at.format("%H:%M"))
}
