//! What HEARTBEAT.md asks for, what of a model's words is an alert, and when quiet hours end.

use chrono::{DateTime, Duration, NaiveTime, TimeZone, Utc};
use chrono_tz::Tz;
use peacrab::tasks::heartbeat::{QuietHours, active_requests, alert};
use proptest::prelude::*;

#[test]
fn a_file_without_anything_to_do_asks_for_nothing() {
    for text in [
        "",
        "\n \n",
        "# Heartbeat\n\n## Things\n",
        "#\n- [ ]\n* [ ]\n+ [ ]\n1. [ ]\n- []\n-\n*\n---\n***",
        "- [x] bought bread\n- [X] swept",
        "<!-- look at the tide -->",
        "<!--\n- look at the tide\n-->\n# Heartbeat <!-- or not -->",
        "# Heartbeat\n<!-- never closed\n- look at the tide",
        "# Heartbeat\n- look at the tide\n\n## Active Tasks\n\n- [ ]\n\n## Done\n- a thing",
        "## active tasks",
        "\u{feff}# Heartbeat\n=====\n- - -\n* * *",
    ] {
        assert_eq!(active_requests(text), None, "{text}");
    }
    assert_eq!(active_requests(include_str!("../../../workspace-template/HEARTBEAT.md")), None);
}

#[test]
fn what_stands_elsewhere_asks_for_something() {
    for text in [
        "Look at the tide.",
        "- look at the tide",
        "- [ ] look at the tide",
        "1. look at the tide",
        "#hashtags are no headings",
        "<!-- often --> look at the tide",
        "# Heartbeat\n\n## Active Tasks\n- look at the tide\n### Sub\n- more\n## Done\n",
    ] {
        let effect = active_requests(text);
        assert!(effect.is_some(), "{text}");
        assert!(!effect.unwrap().contains("<!--"));
    }
    let active = active_requests("- no\n## Active Tasks\n- yes\n### Sub\n- too\n## Done\n- no");
    assert_eq!(active.as_deref(), Some("- yes\n### Sub\n- too"));
}

#[test]
fn what_stands_beside_a_silence_is_lost_if_it_is_short() {
    let long = "a".repeat(301);
    for silence in [
        "HEARTBEAT_OK",
        " NO_REPLY ",
        "**HEARTBEAT_OK**",
        "HEARTBEAT_OK. All clear.",
        "All clear - HEARTBEAT_OK",
        "`NO_REPLY`",
        "",
        " \n",
    ] {
        assert_eq!(alert(silence), None, "{silence}");
    }
    for words in ["The tide is high.", "HEARTBEAT_OKAY then", "What does NO_REPLY mean to you?"] {
        assert_eq!(alert(words), Some(words));
    }
    assert_eq!(alert(&format!("HEARTBEAT_OK\n{long}")), Some(&*long));
    assert_eq!(alert(&format!("{long}\nNO_REPLY")), Some(&*long));
    let bold = format!("**Disk** {long} full");
    assert_eq!(alert(&format!("{bold}\n\n**HEARTBEAT_OK**")), Some(&*bold));
}

#[test]
fn quiet_hours_are_read_or_refused() {
    for text in ["22:00-07:00", "7:05-9:00", "00:00-23:59", "12:00 - 13:00", "22:00–07:00"] {
        assert!(text.parse::<QuietHours>().is_ok(), "{text}");
    }
    for text in ["", "22-7", "22:00", "25:00-07:00", "22:00-22:00", "22:00-07:60", "x-y"] {
        assert!(text.parse::<QuietHours>().is_err(), "{text}");
    }
}

fn zone() -> impl Strategy<Value = Tz> {
    prop::sample::select(chrono_tz::TZ_VARIANTS.to_vec())
}

proptest! {
    /// Walked minute by minute, as a clock on the wall would show it.
    #[test]
    fn quiet_hours_end_when_the_wall_clock_has_left_them(
        zone in zone(), at in 1_767_225_600_i64..1_830_297_600, from in 0_u32..1440, length in 1_u32..1440
    ) {
        let clock = |minutes: u32| NaiveTime::from_hms_opt(minutes / 60 % 24, minutes % 60, 0).unwrap();
        let (from, until) = (clock(from), clock((from + length) % 1440));
        let quiet: QuietHours = format!("{}-{}", from.format("%H:%M"), until.format("%H:%M")).parse().unwrap();
        let at = Utc.timestamp_opt(at / 60 * 60, 0).unwrap();
        let is_quiet = |at: DateTime<Utc>| {
            let shows = at.with_timezone(&zone).time();
            if from < until { from <= shows && shows < until } else { shows >= from || shows < until }
        };
        match quiet.ends(at, zone) {
            None => prop_assert!(!is_quiet(at)),
            Some(end) => {
                prop_assert!(is_quiet(at) && end > at);
                // Where a zone's clock is set, the hour in between is neither here nor there.
                let offsets = [at, end].map(|at| zone.offset_from_utc_datetime(&at.naive_utc()).to_string());
                if offsets[0] == offsets[1] {
                    prop_assert!(!is_quiet(end), "{} ends {}", quiet, end);
                    prop_assert!(is_quiet(end - Duration::minutes(1)));
                }
                prop_assert!(end - at <= Duration::hours(26));
            }
        }
    }
}
