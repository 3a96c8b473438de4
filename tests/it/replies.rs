//! The bot's own sentences, as far as others can put words into them.

use chrono::{Duration, NaiveDateTime, TimeZone as _};
use chrono_tz::Europe::Berlin as BERLIN;
use peacrab::replies::{decided, stranger_asks, time_relative_to};

#[test]
fn shows_what_others_wrote_as_it_is() {
    let asks = stranger_asks("[Tap](https://evil.org) *now*\n# x", "home", "C");
    let shown = "\\[Tap\\](https://evil.org) \\*now\\* \\# x wants to talk to me on home.";
    assert_eq!(asks.lines().next(), Some(shown));
    let inside = decided("Q", "my_long_name.pdf", "_a_ <b> `c`");
    assert_eq!(inside, "Q\n\n→ my_long_name.pdf (\\_a\\_ \\<b\\> \\`c\\`)");
    let decided = decided("**Tea?**", "No", "~~me~~ | you");
    assert_eq!(decided, "**Tea?**\n\n→ No (\\~\\~me\\~\\~ \\| you)");
}

#[test]
fn times_are_shown_relative_to_now() {
    let local = |text: &str| {
        let wall = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap();
        BERLIN.from_local_datetime(&wall).earliest().unwrap()
    };
    let now = local("2026-11-22 09:26");
    for (at, shown) in [
        ("2026-11-22 09:26", "today at 09:26"),
        ("2026-11-22 00:00", "today at 00:00"),
        ("2026-11-22 23:59", "today at 23:59"),
        ("2026-11-23 00:00", "tomorrow at 00:00"),
        ("2026-11-23 07:00", "tomorrow at 07:00"),
        ("2026-11-24 08:00", "Tuesday at 08:00"),
        ("2026-11-28 23:59", "Saturday at 23:59"),
        ("2026-11-29 00:00", "29 November at 00:00"),
        ("2026-12-03 07:00", "3 December at 07:00"),
        ("2026-12-31 23:59", "31 December at 23:59"),
        ("2027-01-01 00:00", "1 January 2027 at 00:00"),
        ("2031-11-22 09:26", "22 November 2031 at 09:26"),
        ("2026-11-21 23:59", "yesterday at 23:59"),
        ("2026-11-20 08:00", "last Friday at 08:00"),
        ("2026-11-16 00:00", "last Monday at 00:00"),
        ("2026-11-15 23:59", "15 November at 23:59"),
        ("2025-11-22 09:26", "22 November 2025 at 09:26"),
    ] {
        assert_eq!(time_relative_to(now, local(at).to_utc()), shown, "{at}");
    }
    // The day is that of the person's zone, also around the change of the clocks.
    let late = "2026-11-22T22:59:00Z".parse().unwrap();
    assert_eq!(time_relative_to(now, late), "today at 23:59");
    assert_eq!(time_relative_to(now, late + Duration::minutes(1)), "tomorrow at 00:00");
    let spring = local("2027-03-27 12:00");
    assert_eq!(
        time_relative_to(spring, "2027-03-28T01:30:00Z".parse().unwrap()),
        "tomorrow at 03:30"
    );
    let new_year = local("2026-12-31 12:00");
    assert_eq!(time_relative_to(new_year, local("2027-01-01 07:00").to_utc()), "tomorrow at 07:00");
}
