//! What goes to the log: redacted lines, in both formats.

use peacrab::daemon::logging::{self, Format, LogAppearance, Redacting};
use peacrab::secret::{Redactor, Secret};
use proptest::prelude::*;

use crate::support::log::Log;

const TOKEN: &str = "123456789:AAHxyzAAHxyzAAHxyzAAHxyzAAHxyzAAHxy";
const KEY: &str = "sk-ant-0123456789abcdef0123456789";

#[test]
fn redacts_what_it_knows_in_every_form() {
    let redactor = Redactor::new(&[Secret::new("pa\"ss/w?rd>>"), Secret::new("short")]);
    for (text, expected) in [
        ("key pa\"ss/w?rd>>.", "key [secret]."),
        (r#"{"key":"pa\"ss/w?rd>>"}"#, r#"{"key":"[secret]"}"#),
        ("?k=pa%22ss%2Fw%3Frd%3E%3E&", "?k=[secret]&"),
        ("?k=pa%22ss%2fw%3frd%3e%3e&", "?k=[secret]&"),
        ("Basic cGEic3Mvdz9yZD4+", "Basic [secret]"),
        ("Basic cGEic3Mvdz9yZD4-", "Basic [secret]"),
        ("short stays", "short stays"),
    ] {
        assert_eq!(redactor.redact(text), expected);
    }
}

#[test]
fn redacts_what_looks_like_a_secret() {
    let redactor = Redactor::default();
    for (text, expected) in [
        (&*format!("GET /bot{TOKEN}/getMe"), "GET /bot[secret]/getMe"),
        (&*format!("GET /bot{}/x", TOKEN.replace(':', "%3A")), "GET /bot[secret]/x"),
        (&*format!("two {KEY},{KEY}"), "two [secret],[secret]"),
        ("task-force-2026-with-a-long-name", "task-force-2026-with-a-long-name"),
        ("sk-learn-is-a-python-library", "sk-learn-is-a-python-library"),
        ("1234567:short", "1234567:short"),
        ("äöü 123456", "äöü 123456"),
        ("", ""),
    ] {
        assert_eq!(redactor.redact(text), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_known_secret_survives_redaction(secret in "[!-~]{6,40}", before in ".{0,20}", after in ".{0,20}") {
        // A secret that is part of the mask itself cannot be told from it.
        prop_assume!(!"[secret]".contains(&secret));
        let redactor = Redactor::new(&[Secret::new(&*secret)]);
        let text = format!("{before}{secret}{after}");
        prop_assert!(!redactor.redact(&text).contains(&secret));
    }
}

fn logged(format: Format, filter: &str) -> String {
    let lines = Log::default();
    let redactor = Redactor::new(&[Secret::new("quo\"te-secret")]);
    let to = Redacting { to: lines.clone(), redactor };
    let subscriber = logging::subscriber(format, LogAppearance::default(), filter, to).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!(target: "peacrab", url = %format!("https://x/bot{TOKEN}/getMe"), "Asked");
        tracing::warn!(target: "peacrab", key = "quo\"te-secret", "Said quo\"te-secret");
        tracing::info!(target: "hyper", "chatter");
        tracing::debug!(target: "peacrab", "details");
    });
    lines.text()
}

#[test]
fn logs_lines_without_secrets() {
    insta::assert_snapshot!(logged(Format::Plain, logging::FILTER), @r#"
INFO peacrab: Asked url=https://x/bot[secret]/getMe
WARN peacrab: Said [secret] key="[secret]"
"#);
    insta::assert_snapshot!(logged(Format::Json, logging::FILTER), @r#"
{"level":"INFO","fields":{"message":"Asked","url":"https://x/bot[secret]/getMe"},"target":"peacrab"}
{"level":"WARN","fields":{"message":"Said [secret]","key":"[secret]"},"target":"peacrab"}
"#);
}

#[test]
fn logs_what_the_filter_asks_for() {
    let log = logged(Format::Plain, "warn,peacrab=debug,hyper=info");
    assert!(log.contains("chatter") && log.contains("details"), "{log}");
    let lines = Redacting { to: Log::default(), redactor: Redactor::default() };
    let wrong = logging::subscriber(Format::Plain, LogAppearance::default(), "peacrab=loud", lines);
    let wrong = wrong.err().unwrap();
    assert!(wrong.to_string().starts_with("PEACRAB_LOG is not a filter"), "{wrong}");
}
