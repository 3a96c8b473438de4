//! The documents that are made from the declarations of the sections: the reference page, and the
//! comments of the example config. With `PEACRAB_UPDATE=1` these tests write them again.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use peacrab::channels::intake::IntakeLimits;
use peacrab::conversation::asks::ApprovalSettings;
use peacrab::types::event;
use serde_json::{Map, Value};

use super::*;

const HEAD: &str = "\
# Configuration reference

<!-- Made from the declarations in src/config. To make it again:
     PEACRAB_UPDATE=1 cargo test --test it config::reference -->

This page lists every key of `config.toml`, with its type, its bounds and its default.
[config.example.toml](../config.example.toml) shows the keys in a file. A key that is unknown or wrong
is an error with file, line and column; `peacrab check` reports all of them. A change applies after
`peacrab reload`, or a restart.

A secret is a string, or better one of these tables: `{ env = \"NAME\" }` (an environment variable),
`{ file = \"path\" }` (a file; the path is relative to the config), `{ credential = \"name\" }` (a
credential of the systemd unit).
";

/// The columns of a line in the documents.
const COLUMNS: usize = 100;

/// A key as it is declared.
struct Key<'a> {
    name: &'a str,
    schema: &'a Map<String, Value>,
    section: &'a Map<String, Value>,
}

#[test]
fn the_reference_is_current() {
    let page = page();
    for name in event::NAMES {
        assert!(page.contains(name), "{name}");
    }
    current("docs/config.md", &page);
}

#[test]
fn the_example_says_what_the_declarations_say() {
    let example = fs::read_to_string(path("config.example.toml")).unwrap();
    current("config.example.toml", &documented(&example));
}

#[test]
fn the_example_shows_the_defaults() {
    let schema = config::schema();
    let sections = config::sections(&schema);
    let mut wrong = Vec::new();
    let mut section = "";
    let example = fs::read_to_string(path("config.example.toml")).unwrap();
    for (at, line) in example.lines().enumerate() {
        let Some(code) = code(line) else { continue };
        if code.starts_with('[') {
            section = code;
            continue;
        }
        let table: toml::Table = code.parse().unwrap();
        let (name, shown) = table.iter().next().unwrap();
        let keys = keys(section_of(&sections, section).1);
        let key = keys.iter().find(|key| key.name == name).unwrap();
        let shown = serde_json::to_value(shown).unwrap();
        if key.default().is_some_and(|default| shown != *default) {
            wrong.push(format!("{}: {line}", at + 1));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_key_is_documented() {
    let schema = config::schema();
    for (section, schema) in config::sections(&schema) {
        assert!(!described(schema).is_empty(), "{section}");
        for key in keys(schema) {
            let text = described(key.schema);
            assert!(text.ends_with('.'), "[{section}] {}: {text:?}", key.name);
        }
    }
}

#[test]
fn an_empty_config_has_the_defaults_of_the_modules() {
    let config = load("", &secrets()).unwrap();
    let providers = vec!["anthropic".to_owned()];
    assert_eq!(config.agent, AgentConfig { providers, ..AgentConfig::default() });
    assert_eq!(config.agent.asking, ApprovalSettings::default());
    assert_eq!(config.agent.heartbeat, Heartbeat::default());
    assert_eq!(config.media, IntakeLimits::default());
    let sections = "[agent]\n[asking]\n[heartbeat]\n[media]\n[exec]\n[web]\n";
    let declared = load(sections, &secrets()).unwrap();
    assert_eq!(format!("{:?}", declared.agent), format!("{:?}", config.agent));
    assert_eq!((declared.exec, declared.web), (config.exec, config.web));
}

/// Fails if the file is not `text`, or writes it.
#[expect(clippy::disallowed_methods, reason = "a person asks to have the documents written")]
fn current(file: &str, text: &str) {
    if std::env::var_os("PEACRAB_UPDATE").is_some() {
        fs::write(path(file), text).unwrap();
    }
    let found = fs::read_to_string(path(file)).unwrap_or_default();
    let mut lines = found.lines().zip(text.lines()).enumerate();
    let differ = lines.find(|(_, (found, made))| found != made);
    let how = "make it again: PEACRAB_UPDATE=1 cargo test --test it config::reference";
    assert!(found == text, "{file} is not current; {how}\n{differ:?}");
}

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

fn page() -> String {
    let schema = config::schema();
    let mut page = HEAD.to_owned();
    for (section, schema) in config::sections(&schema) {
        write!(page, "\n## [{section}]\n\n{}\n", wrapped(described(schema), "", "")).unwrap();
        for key in keys(schema) {
            let facts: Vec<String> = [
                Some(kind(key.schema)),
                key.is_required().then(|| "required".to_owned()),
                key.default().map(|default| format!("default `{default}`")),
            ]
            .into_iter()
            .flatten()
            .collect();
            let only = key.only().map(|only| format!(" {only}")).unwrap_or_default();
            let (name, facts, text) = (key.name, facts.join(", "), described(key.schema));
            let entry = format!("**`{name}`** ({facts}): {text}{only}");
            write!(page, "\n{}", wrapped(&entry, "- ", "  ")).unwrap();
        }
        page.push('\n');
    }
    page
}

/// The example with the documentation of each section and key above the place where it is first shown.
fn documented(example: &str) -> String {
    let schema = config::schema();
    let sections = config::sections(&schema);
    let mut lines: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut section = "";
    for line in example.lines() {
        let Some(code) = code(line) else {
            lines.push(line.to_owned());
            continue;
        };
        if code.starts_with('[') {
            section = code;
        }
        let (name, schema) = section_of(&sections, section);
        let key = code.split_once(" = ").map_or("", |(key, _)| key);
        if seen.insert((name, key.to_owned())) {
            let above = lines.iter().rposition(|line| !is_comment(line));
            lines.truncate(above.map_or(0, |at| at + 1));
            let text = match keys(schema).iter().find(|declared| declared.name == key) {
                Some(key) => key.text_and_bounds(),
                None => described(schema).to_owned(),
            };
            lines.push(wrapped(&text, "# ", "# "));
        }
        lines.push(line.to_owned());
    }
    lines.join("\n") + "\n"
}

/// A section's header or a key, also one that is commented out.
fn code(line: &str) -> Option<&str> {
    let code = line.strip_prefix("# ").unwrap_or(line);
    let key = code.split(" = ").next().unwrap_or_default();
    let is_key = code.contains(" = ") && key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    (code.starts_with('[') || is_key).then_some(code)
}

fn is_comment(line: &str) -> bool {
    line.starts_with("# ") && code(line).is_none()
}

fn section_of<'a>(
    sections: &'a [(String, &'a Map<String, Value>)],
    header: &str,
) -> (&'a str, &'a Map<String, Value>) {
    let name = header.trim_matches(['[', ']']);
    let pattern = name.split_once('.').map(|(outer, _)| format!("{outer}.NAME"));
    let known = |known: &str| known == pattern.as_deref().unwrap_or(name);
    let found = sections.iter().find(|(section, _)| known(section));
    let (section, schema) = found.unwrap_or_else(|| panic!("{header}"));
    (section, schema)
}

fn keys(section: &Map<String, Value>) -> Vec<Key<'_>> {
    let properties = section["properties"].as_object().unwrap();
    let key = |(name, schema)| {
        let schema: &Value = schema;
        Key { name, schema: schema.as_object().unwrap(), section }
    };
    properties.iter().map(|(name, schema)| key((name.as_str(), schema))).collect()
}

fn described(schema: &Map<String, Value>) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

impl Key<'_> {
    fn is_required(&self) -> bool {
        let required = self.section.get("required").and_then(Value::as_array);
        required.is_some_and(|keys| keys.iter().any(|key| key == self.name))
    }

    /// None where it is nothing, or depends on other keys.
    fn default(&self) -> Option<&Value> {
        let default = self.schema.get("default")?;
        let is_nothing = default.is_null() || default.as_array().is_some_and(Vec::is_empty);
        (!is_nothing && !default.is_object()).then_some(default)
    }

    fn text_and_bounds(&self) -> String {
        let text = described(self.schema);
        match (self.schema.get("minimum"), self.schema.get("maximum")) {
            (Some(least), Some(most)) => format!("{text} {least} to {most}."),
            _ => text.to_owned(),
        }
    }

    /// The types of the section that have this key; none if most keys are as this one.
    fn only(&self) -> Option<String> {
        let limited = self.section.get("limited")?.as_array()?;
        let has = |entry: &&Value| entry[0].as_array().unwrap().iter().any(|key| key == self.name);
        let entry = limited.iter().find(has)?;
        let (alike, kinds) = (entry[0].as_array().unwrap(), entry[1].as_array().unwrap());
        let all = self.section["properties"].as_object().unwrap();
        let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
        match kinds[..] {
            _ if alike.len() * 2 > all.len() => None,
            [kind] if kind == self.name => None,
            [kind] if !all.contains_key("type") => Some(format!("Only with `{kind}`.")),
            _ => Some(format!("Only for type {}.", kinds.join(", "))),
        }
    }
}

/// The type of a key, for a person.
fn kind(schema: &Map<String, Value>) -> String {
    if let Some(title) = schema.get("title").and_then(Value::as_str) {
        return title.to_owned();
    }
    let words: Vec<String> = words(schema).iter().map(|word| format!("`{word}`")).collect();
    if !words.is_empty() {
        return words.join(" or ");
    }
    let inner = |name: &str| {
        let inner = kind(schema[name].as_object().unwrap());
        if inner.starts_with('`') { inner } else { inner + "s" }
    };
    match schema["type"].as_str().or(schema["type"][0].as_str()).unwrap() {
        "integer" => format!("whole number from {} to {}", schema["minimum"], schema["maximum"]),
        "boolean" => "true or false".to_owned(),
        "array" => format!("list of {}", inner("items")),
        "object" => format!("table of {}", inner("additionalProperties")),
        other => other.to_owned(),
    }
}

/// The words of an enum, of which those with documentation are schemas of their own.
fn words(schema: &Map<String, Value>) -> Vec<&str> {
    let list = |name: &str| schema.get(name).and_then(Value::as_array).into_iter().flatten();
    let own = list("enum").chain(schema.get("const")).filter_map(Value::as_str);
    let inner = list("anyOf").chain(list("oneOf")).filter_map(Value::as_object).flat_map(words);
    own.chain(inner).collect()
}

/// Lines of at most [`COLUMNS`]; none begins with `[`, which would look like a section.
fn wrapped(text: &str, first: &str, next: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match parts.last_mut() {
            Some(part) if word.starts_with('[') => *part += &format!(" {word}"),
            _ => parts.push(word.to_owned()),
        }
    }
    let mut lines = vec![first.to_owned()];
    for part in parts {
        let line = lines.last_mut().unwrap();
        if line.chars().count() + 1 + part.chars().count() > COLUMNS {
            lines.push(format!("{next}{part}"));
        } else if line == first {
            *line += &part;
        } else {
            *line += &format!(" {part}");
        }
    }
    lines.join("\n")
}
