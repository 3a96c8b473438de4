//! What the tree promises to its readers, checked by reading it as text: direction of imports, size
//! and opening of files, nothing left open, documents that tell the truth. Not a parser: it knows as
//! much Rust as these rules need.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use peacrab::types::commands::COMMANDS;

/// What a reader can hold in mind.
const LINES_MAX: usize = 450;

/// What is never merged. In pieces, so that this file does not hold it.
const LEFT_OPEN: [&str; 6] = [
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("FIX", "ME"),
    concat!("#[ig", "nore"),
    concat!("cfg!(", "test)"),
    concat!("cfg(not(", "test))"),
];

/// A text file, named as seen from the project's root.
pub(crate) struct File {
    path: PathBuf,
    text: String,
}

impl File {
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The lines that are not comments, with their numbers.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines.map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.trim().starts_with("//"))
    }

    /// The module that `src/NAME.rs` or `src/NAME/…` belongs to; none for `lib.rs` and `main.rs`.
    fn module(&self) -> Option<String> {
        let mut parts = self.path.iter().skip(1);
        let name = parts.next()?.to_str()?.trim_end_matches(".rs");
        (!matches!(name, "lib" | "main")).then(|| name.to_owned())
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent = rust_files(&["src", "tests", "benches"])
        .into_iter()
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| file.name());
    none(silent, "open these files with `//! what it is for, and what it is not`");
}

/// The words with which a module says what does not belong in it.
const NOT_HERE: &str = "Not here: ";

#[test]
fn every_module_says_what_is_not_in_it() {
    let silent = modules().into_iter().filter(|module| {
        let text = read(&format!("src/{module}.rs"));
        let opening = text.lines().map_while(|line| line.strip_prefix("//!"));
        let opening = opening.map(str::trim).collect::<Vec<_>>().join(" ");
        !opening.contains(NOT_HERE)
    });
    none(silent, "open these modules with what may be in them, and `Not here: ` what may not");
}

/// Functions of SQL that fail on a text that is no JSON, and with them the whole statement.
const READS_JSON: [&str; 5] =
    ["json_extract(", "json_array_length(", "json_type(", "json_each(", "json_remove("];

/// Bytes before such a function in which its text is checked.
const CHECKED_WITHIN: usize = 160;

#[test]
fn one_row_that_is_no_json_fails_no_statement() {
    let mut unchecked = Vec::new();
    for file in rust_files(&["src"]) {
        for call in READS_JSON {
            for (at, _) in file.text.match_indices(call) {
                let before = &file.text.as_bytes()[at.saturating_sub(CHECKED_WITHIN)..at];
                let before = String::from_utf8_lossy(before);
                let after = &file.text[at + call.len()..];
                let is_checked =
                    before.contains("json_valid(") || after.starts_with("iif(json_valid(");
                // A parameter is our own.
                if !is_checked && !after.starts_with('?') {
                    let line = file.text[..at].lines().count();
                    unchecked.push(format!("{}:{line}", file.name()));
                }
            }
        }
    }
    none(unchecked, "read JSON within `iif(json_valid(COLUMN), …, NULL)`");
}

#[test]
fn files_are_short() {
    let long = rust_files(&["src"]).into_iter().filter_map(|file| {
        let lines = file.text.lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines", file.name()))
    });
    none(
        long,
        &format!("find the noun that is missing, so that each has at most {LINES_MAX} lines"),
    );
}

#[test]
fn nothing_is_left_open() {
    let mut found = Vec::new();
    for file in rust_files(&["src", "tests", "benches"]) {
        for (at, line) in file.text.lines().enumerate() {
            let open = LEFT_OPEN.iter().find(|open| line.contains(**open));
            found.extend(open.map(|open| format!("{}:{}: `{open}`", file.name(), at + 1)));
        }
    }
    none(found, "finish it, or take it out");
}

#[test]
fn tests_are_in_the_test_crate() {
    let tested = rust_files(&["src"]).into_iter().filter(|file| file.text.contains("cfg(test)"));
    none(
        tested.map(|file| file.name()),
        "move these tests to tests/it/: in the library none is run",
    );
}

#[test]
fn modules_import_only_those_above_them() {
    let order = modules();
    let rank = |name: &str| order.iter().position(|module| module == name);
    let mut found = Vec::new();
    for file in rust_files(&["src"]) {
        let Some(module) = file.module() else { continue };
        let Some(own) = rank(&module) else {
            found.push(format!("{}: `{module}` is not declared in src/lib.rs", file.name()));
            continue;
        };
        let code: String = file.code().map(|(_, line)| format!("{line}\n")).collect();
        for import in imports(&code) {
            if rank(&import).is_some_and(|rank| rank > own) {
                found.push(format!(
                    "{}: imports `{import}`, which is below `{module}`",
                    file.name()
                ));
            }
        }
    }
    none(found, "move the code to where it belongs, or the module's line in src/lib.rs");
}

#[test]
fn imports_are_found_however_they_are_written() {
    let code = "use crate::bus::{self, Inbox};\nuse crate::{store, people::Role, tools as t};\n\
        let x = crate::agent::run();\nuse crate::{\n    cli,\n    config::{a, b},\n};\nmacrocrate::no";
    let found: Vec<String> = imports(code);
    assert_eq!(found, ["bus", "store", "people", "tools", "agent", "cli", "config"]);
}

#[test]
fn every_dependency_is_used() {
    let manifest = read("Cargo.toml");
    let mut found = Vec::new();
    for (section, places) in [
        ("[dependencies]", &["src"] as &[&str]),
        ("[dev-dependencies]", &["tests", "benches", "src"]),
    ] {
        let files = rust_files(places);
        for name in section_keys(&manifest, section) {
            let path = format!("{}::", name.replace('-', "_"));
            let used = files.iter().any(|file| file.code().any(|(_, line)| has_path(line, &path)));
            found.extend((!used).then(|| format!("{section} {name}")));
        }
    }
    none(found, "take these lines out of Cargo.toml, or use what they bring");
}

/// Where texts are searched for what a person asks for.
const SEARCHES_TEXTS: &str = "src/conversation/history.rs";

/// Ways to look for a sentence in a text.
const LOOKS_FOR: [&str; 9] = [
    "contains(",
    "starts_with(",
    "ends_with(",
    "strip_prefix(",
    "find(",
    "split_once(",
    "split(",
    " == ",
    "matches!(",
];

#[test]
fn nothing_decides_by_sentences_in_texts() {
    let mut found = Vec::new();
    for file in rust_files(&["src"]) {
        let may_search = file.name() == SEARCHES_TEXTS;
        for (at, line) in file.code() {
            let in_sql = !may_search && (line.contains("instr(") || line.contains(" LIKE "));
            let in_code =
                line.contains("untrusted::") && LOOKS_FOR.iter().any(|it| line.contains(it));
            if in_sql || in_code {
                found.push(format!("{}:{}: {}", file.name(), at, line.trim()));
            }
        }
    }
    none(found, "ask the sources of the text (`types::source`): its sentences are for models");
}

/// Names of commands that are parts of texts for people, and paths of the gateway.
const WRITES_COMMANDS: [&str; 3] = ["src/types/commands", "src/replies", "src/gateway/http"];

#[test]
fn commands_are_written_by_their_entry_in_the_table() {
    let begins_with = |line: &str, name: &str| {
        let text = format!("\"/{name}");
        line.match_indices(&text).any(|(at, _)| line[at + text.len()..].starts_with(['"', ' ']))
    };
    let mut found = Vec::new();
    for file in rust_files(&["src"]) {
        if WRITES_COMMANDS.iter().any(|it| file.name().starts_with(it)) {
            continue;
        }
        for (at, line) in file.code() {
            if COMMANDS.iter().any(|command| begins_with(line, command.name)) {
                found.push(format!("{}:{}: {}", file.name(), at, line.trim()));
            }
        }
    }
    none(found, "make it by `CommandId::line`, so that a command has its name once");
}

/// The tables, each with the module that owns it.
const OWNERS: [(&str, &[&str]); 7] = [
    (
        "memory",
        &[
            "attachments",
            "extraction_state",
            "extractions",
            "facts",
            "forgotten_words",
            "recall_backfill",
            "recall_entries",
            "recall_files",
            // A virtual table and those that SQLite keeps it in.
            "recall_index",
            "recall_index_config",
            "recall_index_data",
            "recall_index_docsize",
            "recall_index_idx",
        ],
    ),
    (
        "people",
        &[
            "accounts",
            "former_accounts",
            "activations",
            "folder_orders",
            "links",
            "owner_place",
            "people",
            "persons",
            "strangers",
        ],
    ),
    ("bus", &["chunks", "inbound", "marks", "notices", "outbox", "turned_away", "unreadable"]),
    (
        "conversation",
        &[
            "asks",
            "budget_periods",
            "budgets",
            "calls",
            "deferred_calls",
            "grants",
            "ledger",
            "ledger_sums",
            "proposals",
            "sessions",
            "steps",
            "turns",
        ],
    ),
    ("channels", &["web_logins"]),
    (
        "trust",
        &[
            "former_home",
            "instruction_versions",
            "marked_files",
            "mcp_pins",
            "rule_watch",
            "watched_commands",
        ],
    ),
    (
        "tasks",
        &["heartbeat_state", "jobs", "task_messages", "task_numbers", "tasks", "webhook_calls"],
    ),
];

/// The words that make a text a part of SQL.
const SQL: [&str; 7] = ["SELECT", "INSERT", "UPDATE", "DELETE", "FROM", "JOIN", "EXISTS"];

#[test]
fn each_table_has_an_owner() {
    let home = tempfile::tempdir().unwrap();
    drop(peacrab::store::Store::open(home.path(), &Default::default()).unwrap());
    let store = rusqlite::Connection::open(home.path().join("state.db")).unwrap();
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
    let mut tables = store.prepare(tables).unwrap();
    let tables = tables.query_map([], |row| row.get(0)).unwrap();
    let tables: BTreeSet<String> = tables.collect::<Result<_, _>>().unwrap();
    let owned = OWNERS.iter().flat_map(|(_, tables)| *tables).map(|table| (*table).to_owned());
    assert_eq!(tables, owned.collect(), "give each table its owner in `OWNERS`");
}

#[test]
fn sql_names_a_table_only_in_the_module_that_owns_it() {
    let mut found = Vec::new();
    for file in rust_files(&["src"]) {
        let code: String = file.code().map(|(_, line)| format!("{line}\n")).collect();
        for text in literals(&code) {
            let words: BTreeSet<_> = text.split(|c| !is_name(c)).collect();
            if !SQL.iter().any(|word| words.contains(word)) {
                continue;
            }
            let others = OWNERS.iter().filter(|(owner, _)| file.module().as_deref() != Some(owner));
            let foreign = others.flat_map(|(_, tables)| *tables).filter(|it| words.contains(*it));
            found.extend(foreign.map(|table| format!("{}: {table}", file.name())));
        }
    }
    none(found, "call a function of the table's owner, which takes the connection");
}

#[test]
pub(crate) fn literals_are_found_however_they_are_written() {
    let code = r##"a("one", '"', b"two"); r#"th"ree"#; 'c'; "fo\"ur"; let x: &'a str = "five";"##;
    assert_eq!(literals(code), ["one", "two", "th\"ree", "fo\\\"ur", "five"]);
}

/// Openings that make a reader look for the subject of the sentence.
const BARE_OPENINGS: [&str; 5] = ["How", "What", "Whether", "Who", "Whose"];

#[test]
fn a_doc_comment_opens_with_what_the_thing_is() {
    let mut found = Vec::new();
    for file in rust_files(&["src"]) {
        let mut is_inside = false;
        for (at, line) in file.text().lines().enumerate() {
            let line = line.trim_start();
            let words = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            let first = words.and_then(|words| words.split_whitespace().next());
            if !is_inside && first.is_some_and(|first| BARE_OPENINGS.contains(&first)) {
                found.push(format!("{}:{}: {line}", file.name(), at + 1));
            }
            is_inside = words.is_some();
        }
    }
    none(found, "say what it is or returns: `/// Returns true if the message waits.`");
}

/// `{:#}` writes an error and its sources, so that a cause which the message has already would be there twice.
#[test]
fn a_cause_is_in_the_message_of_an_error_or_is_its_source() {
    let mut found = Vec::new();
    for file in rust_files(&["src"]) {
        for rest in file.text().split("#[error(").skip(1) {
            let (message, item) = rest.split_once(")]").unwrap_or((rest, ""));
            let ends = ["\n}", ";\n"].iter().filter_map(|end| item.find(end));
            let item = &item[..ends.min().unwrap_or(item.len())];
            let says = ["{source", "{0"].iter().any(|it| message.contains(it));
            let hands_on = ["source:", "#[source]", "#[from]"].iter().any(|it| item.contains(it));
            if says && hands_on {
                found.push(format!("{}: {message}", file.name()));
            }
        }
    }
    none(found, "name the field `cause` if the message has it, and write `From` by hand");
}

/// Names that stand behind their module: `sandbox::Config`.
const NAMES_OF_MANY: [&str; 3] = ["Config", "Args", "Error"];

#[test]
fn a_type_name_stands_for_one_type() {
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in rust_files(&["src"]) {
        let names = file.code().filter_map(|(_, line)| type_name(line)).map(str::to_owned);
        for name in names.filter(|name| !NAMES_OF_MANY.contains(&name.as_str())) {
            types.entry(name).or_default().push(file.name());
        }
    }
    let shared = types.into_iter().filter(|(_, files)| files.len() > 1);
    none(
        shared.map(|(name, files)| format!("{name}: {}", files.join(", "))),
        "name these types so that each name says which one it is",
    );
}

/// The name of the type that a line outside of functions defines.
fn type_name(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        let rest =
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |it| it.1);
        rest.trim_start()
    });
    let (kind, rest) = line.split_once(' ')?;
    let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
    ["struct", "enum", "trait", "type", "union"].contains(&kind).then_some(&rest[..end])
}

#[test]
fn one_stack_carries_what_goes_out() {
    let lock = read("Cargo.lock");
    let count =
        |name: &str| lock.lines().filter(|line| *line == format!("name = \"{name}\"")).count();
    for name in ["hyper", "reqwest", "rustls", "tokio-rustls", "tokio-tungstenite"] {
        assert_eq!(count(name), 1, "versions of {name} in Cargo.lock");
    }
}

#[test]
fn readme_has_the_two_commands() {
    let readme = read("README.md");
    let missing = ["cargo run --release", "cargo test"].into_iter().filter(|command| {
        !readme.lines().any(|line| line.split('#').next().unwrap().trim_end() == *command)
    });
    none(missing.map(str::to_owned), "give each a line of its own in a code block of README.md");
}

#[test]
fn architecture_names_every_module() {
    let text = read("ARCHITECTURE.md");
    let modules = modules();
    let missing = modules.iter().filter(|module| !text.contains(&format!("{module}.rs")));
    none(missing.cloned(), "add them to the tree in ARCHITECTURE.md, with what each is for");
    let tree = text.lines().filter_map(|line| line.strip_prefix("  ")?.split_once(".rs "));
    let named = tree.map(|(name, _)| name).filter(|name| modules.iter().any(|it| it == name));
    assert_eq!(named.collect::<Vec<_>>(), modules, "the tree has another order than src/lib.rs");
}

#[test]
fn documents_name_only_files_that_exist() {
    let files: BTreeSet<String> = rust_files(&["src", "tests", "benches"])
        .iter()
        .filter_map(|file| Some(file.path.file_name()?.to_str()?.to_owned()))
        .collect();
    let mut found = Vec::new();
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = read(document);
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_./-".contains(c)));
        let named = words
            .map(|word| word.trim_end_matches('.'))
            .filter(|word| word.ends_with(".rs") && !word.starts_with("//"));
        let gone = named.filter(|word| !files.contains(word.rsplit('/').next().unwrap()));
        found.extend(gone.map(|word| format!("{document}: {word}")));
    }
    none(found, "rename them in the document, or take the sentence out");
}

/// Fails with `found`, one a line, and what to do about it.
pub(crate) fn none(found: impl IntoIterator<Item = String>, what_to_do: &str) {
    let found: Vec<String> = found.into_iter().collect();
    assert!(found.is_empty(), "{what_to_do}:\n  {}\n", found.join("\n  "));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All Rust files under these folders, sorted.
pub(crate) fn rust_files(folders: &[&str]) -> Vec<File> {
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                files.push(File { path: path.strip_prefix(root()).unwrap().to_owned(), text });
            }
        }
    }
    assert!(!files.is_empty(), "there are no Rust files to look at");
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// The modules of `src/lib.rs`, in the order in which they stand there.
fn modules() -> Vec<String> {
    let library = read("src/lib.rs");
    let names = library.lines().filter_map(|line| {
        let line = line.trim_start_matches("pub ").strip_prefix("mod ")?;
        line.strip_suffix(';').map(str::to_owned)
    });
    names.collect()
}

/// The texts in quotation marks, as they are written.
pub(crate) fn literals(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find('"') {
        let (before, inside) = (&rest[..at], &rest[at + 1..]);
        // The character, and no text.
        if before.ends_with('\'') && inside.starts_with('\'') {
            rest = inside;
            continue;
        }
        let hashes = before.len() - before.trim_end_matches('#').len();
        let is_raw = before[..at - hashes].ends_with('r');
        let end = match is_raw {
            true => inside.find(&format!("\"{}", "#".repeat(hashes))),
            false => end_of_text(inside),
        };
        let Some(end) = end else { break };
        found.push(&inside[..end]);
        rest = &inside[end + 1..];
    }
    found
}

/// Where a text ends that is not raw.
fn end_of_text(inside: &str) -> Option<usize> {
    let mut is_escaped = false;
    inside.char_indices().find_map(|(at, c)| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

/// The first name after each `crate::`, also of those in braces.
fn imports(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, root) in code.match_indices("crate::") {
        if code[..at].ends_with(is_name) {
            continue;
        }
        let rest = &code[at + root.len()..];
        match rest.strip_prefix('{') {
            None => names.push(first_name(rest)),
            Some(group) => names.extend(heads(group)),
        }
    }
    names
}

/// The first name of each item of a `{` group whose inside begins here.
fn heads(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut item = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(first_name(&group[item..at]));
                item = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn first_name(text: &str) -> String {
    text.trim_start().chars().take_while(|c| is_name(*c)).collect()
}

pub(crate) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether `path` begins a path in `line`, rather than being the end of a longer name.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(is_name))
}

/// The keys of one section of a manifest that has one key a line.
fn section_keys<'a>(manifest: &'a str, section: &'a str) -> impl Iterator<Item = &'a str> {
    manifest
        .lines()
        .skip_while(move |line| *line != section)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(['=', '.']).map(|(key, _)| key.trim()))
        .filter(|key| !key.is_empty() && !key.starts_with('#'))
}
