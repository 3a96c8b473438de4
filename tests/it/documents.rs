//! README and docs/ as their readers use them: links lead somewhere, configs load, commands exist, quoted messages are the
//! program's, and no page is too long. `tidy.rs` checks what they say of the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use peacrab::config::{self, Environment};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::support::binary::ProgramFixture;

const README_WORDS_MAX: usize = 1_000;
const CONTRIBUTING_WORDS_MAX: usize = 1_200;
const PAGE_WORDS_MAX: usize = 900;

/// What a stranger reads in ten minutes, without the table of crashes, which is there to look things up.
const ARCHITECTURE_WORDS_MAX: usize = 2_500;
const CRASH_TABLE: &str = "| when | what is committed |";

/// Tables to look things up in, which nobody reads from top to bottom.
const REFERENCES: [&str; 3] = ["docs/performance.md", "docs/commands.md", "docs/config.md"];

/// The first heading of each table that quotes the program's messages.
const QUOTES_MESSAGES: &str = "You see";

/// A shorter piece of a quoted message proves nothing.
const PIECE_CHARS_MIN: usize = 4;

/// A Markdown file, taken apart.
#[derive(Default)]
struct Document {
    /// As seen from the project's root.
    path: PathBuf,
    words: usize,
    links: Vec<String>,
    anchors: BTreeSet<String>,
    /// Fenced blocks, each with its info string.
    blocks: Vec<(String, String)>,
    spans: Vec<String>,
    messages: Vec<String>,
}

impl Document {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(root().join(path)).unwrap();
        let words = text.split_whitespace().count();
        let mut document = Self { path: path.to_owned(), words, ..Self::default() };
        let mut heading = None;
        let mut table = Table::default();
        for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
            table.hear(&event, &mut document.messages);
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    document.anchors.insert(anchor(&heading.take().unwrap()));
                }
                Event::Start(Tag::Link { dest_url, .. }) => document.links.push(dest_url.into()),
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    document.blocks.push((info.into(), String::new()));
                }
                Event::Code(code) => {
                    heading.iter_mut().for_each(|heading| heading.push_str(&code));
                    document.spans.push(code.into());
                }
                Event::Text(text) => match (&mut heading, document.blocks.last_mut()) {
                    (Some(heading), _) => heading.push_str(&text),
                    // Behind a block, its text grows by what is never looked at.
                    (None, Some((_, block))) => block.push_str(&text),
                    (None, None) => {}
                },
                Event::End(TagEnd::CodeBlock) => document.blocks.push(Default::default()),
                _ => {}
            }
        }
        document
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The blocks of a language; `toml,ignore` is none of `toml`.
    fn code(&self, language: &str) -> impl Iterator<Item = &str> {
        let of = move |(info, _): &&(String, String)| info == language;
        self.blocks.iter().filter(of).map(|(_, text)| text.as_str())
    }

    /// The command lines that start with the program, without what is quoted in them.
    fn commands(&self) -> Vec<Vec<String>> {
        let blocks = self.code("sh").flat_map(|block| {
            let lines = block.replace("\\\n", " ");
            lines.lines().map(unquoted).collect::<Vec<_>>()
        });
        let spans = self.spans.iter().map(|span| unquoted(span));
        blocks.chain(spans).flat_map(|line| of_program(&line)).collect()
    }
}

/// Collects the messages that a table quotes in its first column: in code spans and in double quotes.
#[derive(Default)]
struct Table {
    is_head: bool,
    column: usize,
    cell: String,
    quotes_messages: bool,
}

impl Table {
    fn hear(&mut self, event: &Event<'_>, messages: &mut Vec<String>) {
        match event {
            Event::Start(Tag::Table(_)) => *self = Self::default(),
            Event::Start(Tag::TableHead) => (self.is_head, self.column) = (true, 0),
            Event::Start(Tag::TableRow) => (self.is_head, self.column) = (false, 0),
            Event::Start(Tag::TableCell) => self.cell.clear(),
            Event::Text(text) => self.cell.push_str(text),
            Event::Code(code) => self.cell.push_str(&format!("\"{code}\"")),
            Event::End(TagEnd::TableCell) => {
                if self.is_head && self.column == 0 {
                    self.quotes_messages = self.cell == QUOTES_MESSAGES;
                } else if self.column == 0 && self.quotes_messages {
                    let quoted = self.cell.split('"').skip(1).step_by(2);
                    messages.extend(quoted.map(str::to_owned));
                }
                self.column += 1;
            }
            _ => {}
        }
    }
}

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    let anchors: BTreeMap<PathBuf, BTreeSet<String>> =
        documents.iter().map(|it| (it.path.clone(), it.anchors.clone())).collect();
    let mut found = Vec::new();
    let mut checked = 0;
    for document in &documents {
        for link in document.links.iter().filter(|link| !link.contains(':')) {
            checked += 1;
            let (file, part) = link.split_once('#').unwrap_or((link, ""));
            let folder = document.path.parent().unwrap();
            let target = match file {
                "" => document.path.clone(),
                file => plain(&folder.join(file)),
            };
            let has_part = || anchors.get(&target).is_some_and(|anchors| anchors.contains(part));
            if !root().join(&target).exists() || !(part.is_empty() || has_part()) {
                found.push(format!("{}: {link}", document.name()));
            }
        }
    }
    assert!(checked > 50, "only {checked} links were found");
    none(&found, "these links lead nowhere");
}

#[test]
fn the_index_lists_every_page() {
    let index = Document::read(Path::new("docs/README.md"));
    let listed = |page: &Document| {
        let name = page.path.file_name().unwrap().to_str().unwrap();
        name == "README.md" || index.links.iter().any(|link| link == name)
    };
    let pages = documents().into_iter().filter(|it| it.path.parent() == Some(Path::new("docs")));
    let missing: Vec<_> = pages.filter(|it| !listed(it)).map(|it| it.name()).collect();
    none(&missing, "link these pages in docs/README.md");
}

#[test]
fn decisions_have_a_number_each_and_stand_in_their_index() {
    let folder = Path::new("docs/decisions");
    let index = Document::read(&folder.join("README.md"));
    let pages = documents().into_iter().filter(|it| it.path.parent() == Some(folder));
    let (mut numbers, mut found) = (BTreeSet::new(), Vec::new());
    for page in pages.filter(|it| !it.path.ends_with("README.md")) {
        let name = page.path.file_name().unwrap().to_str().unwrap();
        let number = name.split_once('-').filter(|(number, _)| number.len() == 4);
        match number.and_then(|(number, _)| number.parse::<u16>().ok()) {
            Some(number) if numbers.insert(number) => {}
            Some(_) => found.push(format!("{name} has the number of another one")),
            None => found.push(format!("{name} has no number")),
        }
        if !index.links.iter().any(|link| link == name) {
            found.push(format!("{name} is not in the index"));
        }
    }
    none(&found, "number these, and list them in docs/decisions/README.md");
}

#[test]
fn pages_are_short() {
    let found: Vec<_> = documents()
        .iter()
        .filter_map(|document| {
            let name = document.name();
            let most = match name.as_str() {
                "README.md" => README_WORDS_MAX,
                "CONTRIBUTING.md" => CONTRIBUTING_WORDS_MAX,
                "ARCHITECTURE.md" => ARCHITECTURE_WORDS_MAX + crash_table_words(),
                reference if REFERENCES.contains(&reference) => return None,
                page if page.starts_with("docs/") => PAGE_WORDS_MAX,
                _ => return None,
            };
            (document.words > most).then(|| format!("{name}: {} of {most} words", document.words))
        })
        .collect();
    none(&found, "shorten these, or give a part a page of its own");
}

/// The words of the table of crashes in ARCHITECTURE.md.
fn crash_table_words() -> usize {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = text.lines().skip_while(|line| !line.starts_with(CRASH_TABLE));
    let words = table.take_while(|line| line.starts_with('|')).flat_map(str::split_whitespace);
    let words = words.count();
    assert!(words > 0, "ARCHITECTURE.md has no table of crashes");
    words
}

#[test]
fn configs_load() {
    let mut found = Vec::new();
    let mut loaded = 0;
    for document in documents() {
        for block in document.code("toml") {
            loaded += 1;
            if let Err(faults) = load(block) {
                found.push(format!("{}: {faults}\n{block}", document.name()));
            }
        }
    }
    assert!(loaded > 20, "only {loaded} configs were found");
    none(&found, "correct these configs, or mark them as ```toml,ignore");
}

#[tokio::test]
async fn commands_exist() {
    let fixture = ProgramFixture::new("");
    let mut help: BTreeMap<Vec<String>, Option<String>> = BTreeMap::new();
    let mut found = Vec::new();
    let mut checked = 0;
    for document in documents() {
        for command in document.commands() {
            checked += 1;
            let (mut path, mut rest) = (Vec::new(), &command[..]);
            // A subcommand may have subcommands of its own.
            loop {
                if !help.contains_key(&path) {
                    let mut args: Vec<&str> = path.iter().map(String::as_str).collect();
                    args.push("--help");
                    let ended = fixture.run(&args).await;
                    help.insert(path.clone(), (ended.code == Some(0)).then_some(ended.out));
                }
                let has_more = help[&path].as_ref().is_some_and(|it| it.contains("\nCommands:\n"));
                match rest.split_first() {
                    Some((word, further)) if has_more && !word.starts_with('-') => {
                        path.push(word.clone());
                        rest = further;
                    }
                    _ => break,
                }
            }
            let mut options = rest.iter().filter(|word| word.starts_with('-'));
            let is_known = help[&path].as_ref().is_some_and(|help| {
                let known: BTreeSet<_> = help.split([' ', ',', '\n']).collect();
                options.all(|option| known.contains(option.as_str()))
            });
            if !is_known {
                found.push(format!("{}: peacrab {}", document.name(), command.join(" ")));
            }
        }
    }
    assert!(checked > 50, "only {checked} commands were found");
    none(&found, "these commands or options do not exist");
}

#[test]
fn quoted_messages_are_the_programs() {
    let source = source();
    let mut found = Vec::new();
    let mut checked = 0;
    for document in documents() {
        for message in &document.messages {
            let pieces = message.split('…').map(str::trim);
            for piece in pieces.filter(|piece| piece.chars().count() >= PIECE_CHARS_MIN) {
                checked += 1;
                if !source.contains(piece) {
                    found.push(format!("{}: {piece}", document.name()));
                }
            }
        }
    }
    assert!(checked > 40, "only {checked} messages were found");
    none(&found, "the program does not say this; quote what it says");
}

#[test]
fn anchors_are_those_of_the_forge() {
    assert_eq!(anchor("Privacy mode"), "privacy-mode");
    assert_eq!(anchor("What `undo` takes back, and when?"), "what-undo-takes-back-and-when");
}

#[test]
fn command_lines_are_found_in_what_stands_around_them() {
    let found = |line| of_program(&unquoted(line)).concat().join(" ");
    assert_eq!(found("df -h | peacrab send --to owner"), "send --to owner");
    assert_eq!(found("sudo peacrab --home /var/lib/peacrab pair list"), "pair list");
    assert_eq!(found("docker exec peacrab peacrab pair approve CODE"), "pair approve CODE");
    assert_eq!(found("peacrab cron add --command \"df -h / | tail -1\""), "cron add --command …");
    assert!(of_program("docker build -t peacrab .").is_empty());
}

#[test]
fn a_standby_gets_nothing_that_is_of_the_first_machine_alone() {
    let page = fs::read_to_string(root().join("docs/standby.md")).unwrap();
    let command = page.split("```").find(|block| block.contains("rsync -a --delete")).unwrap();
    let words: Vec<_> = command.split_whitespace().collect();
    let excluded = words.windows(2).filter(|pair| pair[0] == "--exclude").map(|pair| pair[1]);
    let own = "'/state.db*' /control.sock /lock /ballast /backup-folder /backup-mark /starts.json";
    // From the home itself only: a file of the workspace may have the same name.
    assert_eq!(excluded.collect::<Vec<_>>().join(" "), own);
}

/// Loads a config as it stands in a document, with the variables and files that it names.
fn load(text: &str) -> Result<(), String> {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("config.toml"), text).unwrap();
    let variables = text.split("env = \"").skip(1).filter_map(|rest| rest.split_once('"'));
    // Each of its own: two channels with one token are a fault.
    let environment: Environment =
        variables.map(|(name, _)| (name, format!("not-a-secret-of-{name}"))).collect();
    let loaded = config::load(home.path(), None, &environment);
    loaded.map(drop).map_err(|faults| faults.to_string())
}

/// `line` with `…` in place of what stands between quotes.
fn unquoted(line: &str) -> String {
    let mut out = String::new();
    let mut quote = None;
    for sign in line.chars() {
        match quote {
            Some(open) if sign == open => quote = None,
            Some(_) => {}
            None if sign == '"' || sign == '\'' => {
                quote = Some(sign);
                out.push('…');
            }
            None => out.push(sign),
        }
    }
    out
}

/// What follows the program's name, wherever a shell would start it; without the options that all subcommands have.
fn of_program(line: &str) -> Vec<Vec<String>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let starts = |at: usize| {
        words[at] == "peacrab"
            && (at == 0 || matches!(words[at - 1], "sudo" | "|" | "&&" | "peacrab"))
    };
    let begins = (0..words.len()).filter(|at| starts(*at));
    begins
        .map(|at| {
            let mut rest =
                words[at + 1..].iter().take_while(|word| !matches!(**word, "|" | "&&" | "#"));
            let mut command = Vec::new();
            while let Some(word) = rest.next() {
                match *word {
                    "--home" | "--config" => drop(rest.next()),
                    word => command.push(word.to_owned()),
                }
            }
            command
        })
        .collect()
}

/// The id that a forge gives to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|sign| sign.is_alphanumeric() || " -_".contains(*sign));
    kept.map(|sign| if sign == ' ' { '-' } else { sign }).collect()
}

/// `path` without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// The program's source, with texts that are written over several lines on one.
fn source() -> String {
    let files = files(Path::new("src"), "rs");
    let mut source = String::new();
    for file in files {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let mut parts = text.split("\\\n");
        source.push_str(parts.next().unwrap());
        parts.for_each(|part| source.push_str(part.trim_start()));
    }
    source
}

/// The documents in the project's root and all in docs/.
fn documents() -> Vec<Document> {
    let top = fs::read_dir(root()).unwrap().map(|entry| PathBuf::from(entry.unwrap().file_name()));
    let top = top.filter(|path| path.extension().is_some_and(|it| it == "md"));
    let mut paths: Vec<_> = top.chain(files(Path::new("docs"), "md")).collect();
    paths.sort();
    paths.iter().map(|path| Document::read(path)).collect()
}

/// The files below a folder whose names end so.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let path = folder.join(entry.unwrap().file_name());
        if root().join(&path).is_dir() {
            files.extend(self::files(&path, ending));
        } else if path.extension().is_some_and(|it| it == ending) {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn none(found: &[String], what_to_do: &str) {
    assert!(found.is_empty(), "{what_to_do}:\n  {}\n", found.join("\n  "));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
