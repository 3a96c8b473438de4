//! `/metrics`: what it counts, and that a scraper can read it.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::header;
use serde_json::json;

use super::browser::{client, rig, url};
use crate::support::rig::Rig;
use crate::support::script::{calls, says};

/// A sample: its name, its labels in their order, and its value.
type Sample = (String, Vec<(String, String)>, f64);

/// A page, read as strictly as Prometheus reads the text format 0.0.4.
#[derive(Default)]
struct Exposition {
    /// The type of each family.
    families: BTreeMap<String, String>,
    samples: Vec<Sample>,
}

fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|sign: char| sign.is_ascii_alphabetic() || sign == '_');
    begins && name.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_')
}

/// Reads `name="value",…}` up to the brace. Returns the labels and what follows.
fn labels(mut rest: &str) -> (Vec<(String, String)>, &str) {
    let mut labels = Vec::new();
    loop {
        let (name, after) = rest.split_once("=\"").expect(rest);
        assert!(is_name(name), "{name}");
        let (mut value, mut signs) = (String::new(), after.char_indices());
        let end = loop {
            match signs.next().expect("a value ends") {
                (at, '"') => break at,
                (_, '\\') => value.push(match signs.next().unwrap().1 {
                    'n' => '\n',
                    sign @ ('\\' | '"') => sign,
                    other => panic!("\\{other} is no escape"),
                }),
                (_, sign) => value.push(sign),
            }
        };
        labels.push((name.to_owned(), value));
        match after[end + 1..].split_at(1) {
            (",", further) => rest = further,
            ("}", further) => return (labels, further),
            other => panic!("{other:?}"),
        }
    }
}

impl Exposition {
    fn parse(page: &str) -> Self {
        assert!(page.ends_with('\n'));
        let mut read = Self::default();
        let (mut family, mut series) = (String::new(), BTreeSet::new());
        for line in page.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                family = help.split_once(' ').expect(line).0.to_owned();
                assert!(!read.families.contains_key(&family), "{family} is in two places");
                continue;
            }
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                let (name, kind) = declared.split_once(' ').expect(line);
                assert_eq!(name, family, "{line}");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                read.families.insert(family.clone(), kind.to_owned());
                continue;
            }
            let split = line.find(['{', ' ']).expect(line);
            let (name, rest) = line.split_at(split);
            let (labels, value) = match rest.strip_prefix('{') {
                Some(rest) => labels(rest),
                None => (Vec::new(), rest),
            };
            let value = value.strip_prefix(' ').expect(line).parse().expect(line);
            let part = name.strip_prefix(&family).unwrap_or_else(|| panic!("{line} in {family}"));
            let is_histogram = read.families[&family] == "histogram";
            let parts: &[_] = if is_histogram { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(is_name(name) && parts.contains(&part), "{line}");
            assert!(series.insert((name.to_owned(), labels.clone())), "{line} is there twice");
            read.samples.push((name.to_owned(), labels, value));
        }
        read.check_histograms();
        read
    }

    /// Counts grow with the bounds, and the last one is that of all.
    fn check_histograms(&self) {
        let kinds = self.families.iter().filter(|(_, kind)| *kind == "histogram");
        for family in kinds.map(|(name, _)| name) {
            let mut buckets: BTreeMap<_, Vec<(f64, f64)>> = BTreeMap::new();
            for (name, labels, count) in &self.samples {
                if *name == format!("{family}_bucket") {
                    let (mut labels, bound) = (labels.clone(), labels.last().unwrap().1.parse());
                    assert_eq!(labels.pop().unwrap().0, "le");
                    buckets.entry(labels).or_default().push((bound.unwrap(), *count));
                }
            }
            assert!(!buckets.is_empty(), "{family}");
            for (labels, buckets) in buckets {
                assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{buckets:?}");
                let last = *buckets.last().unwrap();
                let labels: Vec<_> = labels.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
                let count = self.value(&format!("{family}_count"), &labels);
                assert_eq!(last, (f64::INFINITY, count), "{family} {labels:?}");
                assert!(self.value(&format!("{family}_sum"), &labels) >= 0.0);
            }
        }
    }

    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let is_same = |own: &[(String, String)]| {
            own.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(labels.to_vec())
        };
        let found = self.samples.iter().find(|it| it.0 == name && is_same(&it.1));
        found.unwrap_or_else(|| panic!("no {name} {labels:?}")).2
    }
}

async fn scrape(rig: &Rig) -> Exposition {
    let page = client().get(format!("{}/metrics", url(rig).await)).send().await.unwrap();
    assert_eq!(page.headers()[header::CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
    Exposition::parse(&page.text().await.unwrap())
}

#[tokio::test]
async fn counts_what_turns_tools_and_deliveries_do() {
    let mut rig = rig().await;
    let name = "notes \"a\\b\nc\".md";
    let reads = calls(&[("read_file", json!({"path": name})), ("list_files", json!({}))]);
    rig.model.on("look", [reads, says("Seen.")]);
    let before = scrape(&rig).await;
    assert_eq!(before.value("peacrab_turn_seconds_count", &[]), 0.0);
    assert_eq!(rig.ask("1", "look").await, "Seen.");
    rig.settled().await;
    rig.execute("UPDATE ledger SET cost = 1500000000, input = 1000, cached = 250");
    let page = scrape(&rig).await;
    let value = |name: &str, labels: &[(&str, &str)]| page.value(name, labels);
    assert_eq!(value("peacrab_turns_total", &[("ending", "answered")]), 1.0);
    assert_eq!(value("peacrab_turn_seconds_count", &[]), 1.0);
    assert_eq!(value("peacrab_steps_total", &[]), 2.0);
    assert_eq!(value("peacrab_step_seconds_count", &[]), 2.0);
    assert!(value("peacrab_turn_seconds_sum", &[]) >= value("peacrab_step_seconds_sum", &[]));
    for (tool, outcome) in [("read_file", "failed"), ("list_files", "done")] {
        let labels = [("tool", tool), ("outcome", outcome)];
        assert_eq!(value("peacrab_tool_calls_total", &labels), 1.0, "{tool}");
        assert!(value("peacrab_tool_seconds_total", &[("tool", tool)]) >= 0.0);
    }
    for (outcome, count) in [("sent", 1.0), ("retried", 0.0), ("lost", 0.0)] {
        assert_eq!(value("peacrab_deliveries_total", &[("outcome", outcome)]), count, "{outcome}");
    }
    let provider = page.samples.iter().find(|it| it.0 == "peacrab_cost_dollars_total").unwrap();
    let provider = provider.1[0].1.clone();
    let of_provider = [("provider", provider.as_str())];
    // A turn of two steps has two rows.
    assert_eq!(value("peacrab_cost_dollars_total", &of_provider), 3.0);
    assert_eq!(value("peacrab_cache_share", &of_provider), 0.25);
    for (kind, tokens) in [("input", 2_000.0), ("cached", 500.0)] {
        let labels = [of_provider[0], ("kind", kind)];
        assert_eq!(value("peacrab_tokens_total", &labels), tokens, "{kind}");
    }
    rig.finish().await;
}

#[tokio::test]
async fn tells_how_long_the_store_takes() {
    let mut rig = rig().await;
    let before = scrape(&rig).await;
    rig.ask("1", "hello").await;
    rig.settled().await;
    let after = scrape(&rig).await;
    for synced in ["yes", "no"] {
        let labels = [("synced", synced)];
        let grew = |name: &str| after.value(name, &labels) - before.value(name, &labels);
        assert!(grew("peacrab_store_commit_seconds_count") > 0.0, "{synced}");
        assert!(grew("peacrab_store_commit_seconds_sum") > 0.0, "{synced}");
        let longest = after.value("peacrab_store_commit_longest_seconds", &labels);
        let sum = after.value("peacrab_store_commit_seconds_sum", &labels);
        assert!(0.0 < longest && longest <= sum, "{synced}: {longest} {sum}");
    }
    assert_eq!(after.value("peacrab_store_changes_waiting", &[]), 0.0);
    for part in ["database", "log"] {
        assert!(after.value("peacrab_store_bytes", &[("part", part)]) > 0.0, "{part}");
    }
    rig.finish().await;
}

#[tokio::test]
async fn has_everything_that_an_operator_watches() {
    let rig = rig().await;
    let page = scrape(&rig).await;
    for channel in ["home", "web"] {
        let labels = [("channel", channel)];
        assert!([0.0, 1.0].contains(&page.value("peacrab_channel_up", &labels)), "{channel}");
        assert_eq!(page.value("peacrab_deliveries_pending", &labels), 0.0, "{channel}");
    }
    let web = [("channel", "web")];
    assert!(page.value("peacrab_channel_last_byte_seconds", &web) >= 0.0);
    for queue in ["chats_waiting", "turns_running", "turns_awaiting_model"] {
        assert_eq!(page.value(&format!("peacrab_{queue}"), &[]), 0.0, "{queue}");
    }
    assert!(page.value("peacrab_resident_memory_bytes", &[]) > 1e6);
    assert!([0.0, 1.0].contains(&page.value("peacrab_sandbox_active", &[])));
    let families: Vec<_> = page.families.keys().map(String::as_str).collect();
    insta::assert_snapshot!(families.join("\n"));
    rig.finish().await;
}
