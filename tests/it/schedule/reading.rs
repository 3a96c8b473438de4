//! Times as people write them, good and bad.

use chrono::{DateTime, TimeZone, Utc};
use chrono_tz::Tz;
use peacrab::replies;
use peacrab::tasks::schedule::{self, JobOperation, JobRequest, JobRequester, Timing};
use peacrab::types::job_verb::JobVerb;
use peacrab::types::message::{Address, ChatKind, Sender};
use proptest::prelude::*;

const BERLIN: Tz = Tz::Europe__Berlin;

/// A Saturday.
fn now() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 11, 21, 12, 0, 0).unwrap()
}

fn at(text: &str) -> Result<String, String> {
    match schedule::at(text, now(), BERLIN)? {
        Timing::At(at) => Ok(at.with_timezone(&BERLIN).format("%a %m-%d %H:%M:%S").to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn due_times_are_whole_seconds_whenever_they_were_asked_for() {
    let now = now() + chrono::Duration::nanoseconds(437_500_001);
    for timing in [
        schedule::at("20m", now, BERLIN),
        schedule::every("every 30m", now),
        schedule::cron("*/5 * * * *", now, BERLIN),
    ] {
        let timing = timing.unwrap();
        let due = timing.next_after(now).unwrap();
        assert_eq!(due.timestamp_subsec_nanos(), 0, "{timing:?}");
        // A wake a little later does not find it again.
        let woken = due + chrono::Duration::microseconds(100);
        assert_ne!(timing.next_after(woken), Some(due), "{timing:?}");
    }
    let Timing::At(at) = schedule::at("20m", now, BERLIN).unwrap() else { panic!() };
    assert!(at - now >= chrono::Duration::minutes(20));
}

#[test]
fn reads_times_as_people_write_them() {
    for (text, expected) in [
        ("20m", "Sat 11-21 13:20:00"),
        ("in 20 minutes", "Sat 11-21 13:20:00"),
        ("2h30m", "Sat 11-21 15:30:00"),
        ("1 day and 2 hours", "Sun 11-22 15:00:00"),
        ("90 s", "Sat 11-21 13:01:30"),
        ("18:00", "Sat 11-21 18:00:00"),
        ("at 9:05", "Sun 11-22 09:05:00"),
        ("8am", "Sun 11-22 08:00:00"),
        ("8:30 pm", "Sat 11-21 20:30:00"),
        ("12am", "Sun 11-22 00:00:00"),
        ("today 23:59", "Sat 11-21 23:59:00"),
        ("Tomorrow 8:00", "Sun 11-22 08:00:00"),
        ("tomorrow at 8am", "Sun 11-22 08:00:00"),
        ("monday 9:00", "Mon 11-23 09:00:00"),
        ("on mon at 9:00", "Mon 11-23 09:00:00"),
        ("saturday 9:00", "Sat 11-28 09:00:00"),
        ("sat 15:00", "Sat 11-21 15:00:00"),
        ("2026-12-24 18:00", "Thu 12-24 18:00:00"),
        ("2026-12-24T18:00:30", "Thu 12-24 18:00:30"),
        ("2026-12-24T18:00:00Z", "Thu 12-24 19:00:00"),
        ("2026-12-24T18:00:00-05:00", "Fri 12-25 00:00:00"),
        // Within an hour that there is not, the first moment after it.
        ("2027-03-28 02:30", "Sun 03-28 03:00:00"),
    ] {
        assert_eq!(at(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn refuses_what_is_no_time() {
    for text in [
        "",
        "soon",
        "25:00",
        "8:60",
        "tomorrow",
        "monday",
        "2026-02-30 8:00",
        "13pm",
        "-5m",
        "20x",
        "5",
    ] {
        assert_eq!(at(text), Err(replies::unclear_time(text)), "{text}");
    }
    for text in ["0m", "today 8:00", "2026-11-21 12:59", "2020-01-01 8:00"] {
        assert_eq!(at(text), Err(replies::time_is_past(text)), "{text}");
    }
    for text in ["99999w", "2050-01-01 8:00"] {
        assert_eq!(at(text), Err(replies::time_is_too_far(text)), "{text}");
    }
    let every = |text: &str| schedule::every(text, now());
    assert_eq!(every("2h").unwrap(), Timing::Every { seconds: 7_200, from: now() });
    assert_eq!(every("every 1 minute").unwrap(), Timing::Every { seconds: 60, from: now() });
    assert_eq!(every("30s"), Err(replies::PAUSE_BOUNDS.to_owned()));
    assert_eq!(every("367d"), Err(replies::PAUSE_BOUNDS.to_owned()));
    assert_eq!(every("often"), Err(replies::unclear_pause("often")));
    let cron = |fields: &str| schedule::cron(fields, now(), BERLIN);
    assert!(cron("30 7 * * 1-5").is_ok() && cron("0 30 7 * * 1-5").is_ok());
    for fields in ["", "* * *", "61 * * * *", "a b c d e", "0 0 0 0 0 0 0"] {
        let refused = cron(fields).unwrap_err();
        assert!(refused.starts_with("I don't understand this cron line"), "{fields}: {refused}");
        assert!(!refused.contains(".."), "{fields}: {refused}");
    }
    for fields in ["", "* * *", "0 0 0 0 0 0 0"] {
        let words = "I don't understand this cron line: it needs five fields, or six with seconds.";
        assert_eq!(cron(fields), Err(words.to_owned()));
    }
    assert_eq!(cron("* * * * * *"), Err(replies::PAUSE_BOUNDS.to_owned()));
    assert_eq!(cron("0,30 * * * * *"), Err(replies::PAUSE_BOUNDS.to_owned()));
    assert_eq!(cron("0 0 30 2 *"), Err(replies::CRON_NEVER.to_owned()));
    assert_eq!(schedule::zone("Mars/Base"), Err(replies::unknown_zone("Mars/Base")));
    assert_eq!(schedule::zone("europe/berlin"), Ok(BERLIN));
}

fn when(text: &str) -> Result<Timing, String> {
    let home = Address { channel: "home".into(), chat: "1".into(), thread: None };
    let asker = JobRequester {
        to: home,
        known_on: "home".into(),
        chat_kind: ChatKind::Private,
        sender: Sender::person("1", "Ada"),
        tainted: false,
    };
    let wanted =
        JobRequest { when: text.to_owned(), text: "x".to_owned(), ..JobRequest::new(JobVerb::Add) };
    wanted.read(asker, now(), BERLIN).map(|order| match order {
        JobOperation::Add(new) => new.timing,
        other => panic!("{other:?}"),
    })
}

#[test]
fn one_word_for_when_takes_all_forms() {
    let cron = |fields: &str, zone| Ok(Timing::Cron { fields: fields.to_owned(), zone });
    assert_eq!(when("every 2h"), Ok(Timing::Every { seconds: 7_200, from: now() }));
    assert_eq!(when("30 7 * * 1-5"), cron("30 7 * * 1-5", BERLIN));
    assert_eq!(when("cron: 30 7 * * 1-5 Asia/Tokyo"), cron("30 7 * * 1-5", Tz::Asia__Tokyo));
    assert_eq!(when("*/15 * * * *"), cron("*/15 * * * *", BERLIN));
    assert_eq!(when("0 8 1 * */2"), cron("0 8 1 * */2", BERLIN));
    assert_eq!(when("@daily"), cron("@daily", BERLIN));
    let tokyo = Utc.with_ymd_and_hms(2026, 11, 21, 23, 0, 0).unwrap();
    assert_eq!(when("tomorrow 8:00 Asia/Tokyo"), Ok(Timing::At(tokyo)));
    assert_eq!(when("tomorrow 8:00 Asia/Tokio"), Err(replies::unknown_zone("Asia/Tokio")));
    assert_eq!(when(""), Err(replies::WHEN_JOB.to_owned()));
}

proptest! {
    #[test]
    fn no_text_breaks_the_reading(text in ".{0,40}") {
        drop((at(&text), schedule::every(&text, now()), schedule::cron(&text, now(), BERLIN), when(&text)));
    }

    #[test]
    fn no_words_of_time_break_the_reading(
        text in "(in |at |every |cron )?[0-9]{0,20}(m|h|d|w|:[0-9]{1,3})?( (am|pm|UTC|a/b|\\*|[0-9]|monday))*"
    ) {
        drop((at(&text), schedule::every(&text, now()), schedule::cron(&text, now(), BERLIN), when(&text)));
    }
}

#[test]
fn the_owners_zone_is_read_from_what_they_wrote_about_themselves() {
    let said = "# Your person\n\n- Name: Ada / Europe\n- Where they live, time zone: Berlin (Europe/Berlin), mostly\n";
    assert_eq!(schedule::zone_in(said), Some(BERLIN));
    assert_eq!(schedule::zone_in("Timezone = `europe/berlin`."), Some(BERLIN));
    assert_eq!(schedule::zone_in("I was in Europe/Berlin once."), None);
    assert_eq!(schedule::zone_in(include_str!("../../../workspace-template/USER.md")), None);
}
