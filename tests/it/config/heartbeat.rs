//! `[heartbeat]`: what loads, and what is refused in which words.

use std::time::Duration;

use peacrab::tasks::heartbeat::Config;

use super::{load, secrets};

const OWN: &str = r#"
[agent]
providers = ["main"]

[providers.main]
type = "rehearsal"

[providers.cheap]
type = "rehearsal"

[channels.home]
type = "telegram"
token = "123456:geheim"

[heartbeat]
every_minutes = 5
quiet = "23:30-6:00"
to = "home:-100:7"
provider = "cheap"
steps_max = 3
tokens_per_day = 1000
"#;

#[test]
fn reads_when_it_looks_what_it_may_cost_and_whom_it_tells() {
    let config = load(OWN, &secrets()).unwrap();
    let expected = Config {
        every: Some(Duration::from_secs(300)),
        quiet: Some("23:30-06:00".parse().unwrap()),
        provider: Some("cheap".to_owned()),
        to: Some("home:-100:7".parse().unwrap()),
        steps_max: 3,
        tokens_max: 1000,
    };
    assert_eq!(config.agent.heartbeat, expected);
    let described = config.describe();
    let line = "heartbeat\n  every 5 min, quiet 23:30–06:00, results to home:-100:7\n";
    assert!(described.contains(line), "{described}");
}

#[test]
fn zero_is_off_and_no_quiet_hours_are_none() {
    let text = OWN.replace("= 5", "= 0").replace("23:30-6:00", "").replace("home:-100:7", "owner");
    let heartbeat = load(text, &secrets()).unwrap().agent.heartbeat;
    assert_eq!((heartbeat.every, heartbeat.quiet, heartbeat.to), (None, None, None));
    assert!(
        load("", &secrets())
            .unwrap()
            .describe()
            .contains("every 30 min, quiet 22:00–07:00, results to owner")
    );
}

#[test]
fn tells_what_is_wrong() {
    for (right, wrong, told) in [
        ("= 5", "= 1441", "`every_minutes` in [heartbeat] must be"),
        ("\"23:30-6:00\"", "\"night\"", "must be two times of the day, such as \"22:00-07:00\""),
        ("\"23:30-6:00\"", "7", "`quiet` in [heartbeat] must be"),
        ("\"home:-100:7\"", "\"home\"", "must be owner or CHANNEL:CHAT"),
        ("\"cheap\"\nsteps", "\"chaep\"\nsteps", "did you mean `cheap`?"),
        ("tokens_per_day", "tokens_a_day", "`tokens_a_day`"),
    ] {
        let text = OWN.replace(right, wrong);
        assert_ne!(text, OWN, "{wrong}");
        let errors = load(&text, &secrets()).unwrap_err().to_string();
        assert!(errors.contains(told), "{wrong}: {errors}");
    }
    let elsewhere = load(OWN.replace("home:-100", "hoem:-100"), &secrets()).unwrap();
    let warnings = elsewhere.warnings(&[]).join("\n");
    assert!(warnings.contains("`to` names the channel hoem, which does not exist"), "{warnings}");
}
