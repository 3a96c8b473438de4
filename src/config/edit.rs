//! Changes a config file and keeps everything else in it: comments, order, blank lines, the ends of lines. Adds sections,
//! entries to the lists `providers` and `owners`, and the way in which a provider has tools. Never removes anything.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use toml_edit::{Array, DocumentMut, InlineTable, Item, RawString, Table, Value, value};

use super::file::{BYTE_ORDER_MARK, read_marked_text};
use super::{Config, ConfigErrors, Environment, Fault, load_text};
use crate::atomic_file;

/// A config file that gets more sections.
#[derive(Clone)]
pub struct ConfigEdit {
    file: PathBuf,
    /// The text of the file when it was read or saved last.
    text: String,
    document: DocumentMut,
    form: FileForm,
}

/// The form of a text that its TOML does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FileForm {
    has_byte_order_mark: bool,
    /// True if all lines end as on Windows.
    has_carriage_returns: bool,
}

impl FileForm {
    /// Returns the form of a text, and the text without it.
    fn separate(text: &str) -> (Self, String) {
        let bare = text.strip_prefix(BYTE_ORDER_MARK);
        let has_byte_order_mark = bare.is_some();
        let bare = bare.unwrap_or(text);
        let lines = bare.matches('\n').count();
        let has_carriage_returns = lines > 0 && bare.matches("\r\n").count() == lines;
        let text = match has_carriage_returns {
            true => bare.replace("\r\n", "\n"),
            false => bare.to_owned(),
        };
        (Self { has_byte_order_mark, has_carriage_returns }, text)
    }

    fn apply(self, text: String) -> String {
        let text = if self.has_carriage_returns { text.replace('\n', "\r\n") } else { text };
        if self.has_byte_order_mark { format!("{BYTE_ORDER_MARK}{text}") } else { text }
    }
}

/// The place of a secret of a new section.
#[derive(Clone)]
pub enum SecretPlace {
    /// In the section itself: for a test, before anything is written.
    Here(String),
    /// In a file beside the config.
    File(String),
}

/// A new section of a kind, such as `providers`.
pub struct NewSection {
    /// `providers` or `channels`.
    pub kind: &'static str,
    pub name: String,
    pub texts: Vec<(&'static str, String)>,
    /// Lists of texts.
    pub lists: Vec<(&'static str, Vec<String>)>,
    pub secrets: Vec<(&'static str, SecretPlace)>,
}

impl ConfigEdit {
    /// Reads the file. A missing one counts as empty. A link to a file that is not there is an error: to save would replace
    /// it.
    pub fn open(file: &Path) -> anyhow::Result<Self> {
        let text = present_text(file).map_err(|fault| ConfigErrors(vec![fault]))?;
        let (form, bare) = FileForm::separate(&text);
        let document = bare.parse::<DocumentMut>();
        let document = document.with_context(|| format!("cannot change {}", file.display()))?;
        Ok(Self { file: file.to_owned(), text, document, form })
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the names of the sections of a kind.
    pub fn names(&self, kind: &str) -> Vec<String> {
        let table = self.document.get(kind).and_then(Item::as_table_like);
        table
            .map(|table| table.iter().map(|(name, _)| name.to_owned()).collect())
            .unwrap_or_default()
    }

    /// Returns `wanted`, or with a number if a section of the kind has this name.
    pub fn free_name(&self, kind: &str, wanted: &str) -> String {
        let taken = self.names(kind);
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
        names.find(|name| !taken.contains(name)).expect("there are more numbers than sections")
    }

    /// Adds a section behind everything else. A new provider also joins the list of those that answer, if the config has one.
    pub fn add(&mut self, section: &NewSection) -> anyhow::Result<()> {
        let (position, before) = (last_position(&self.document) + 1, self.take_trailing());
        let parent = self.document.entry(section.kind).or_insert_with(|| {
            let mut parent = Table::new();
            parent.set_implicit(true);
            Item::Table(parent)
        });
        let kind = section.kind;
        let parent = parent.as_table_like_mut();
        let parent = parent.with_context(|| format!("`{kind}` in the config is not a table"))?;
        anyhow::ensure!(
            !parent.contains_key(&section.name),
            "[{kind}.{}] is there already",
            section.name
        );
        let mut table = Table::new();
        table.set_position(Some(position));
        table.decor_mut().set_prefix(before);
        for (key, text) in &section.texts {
            table.insert(key, value(text));
        }
        for (key, place) in &section.secrets {
            table.insert(key, secret_item(place));
        }
        for (key, list) in &section.lists {
            table.insert(key, value(list.iter().collect::<Array>()));
        }
        parent.insert(&section.name, Item::Table(table));
        if kind == "providers" {
            let answering = self.document.get_mut("agent").and_then(Item::as_table_like_mut);
            let list = answering.and_then(|agent| agent.get_mut("providers"));
            if let Some(list) = list.and_then(Item::as_array_mut) {
                push_entry(list, &section.name);
            }
        }
        Ok(())
    }

    /// Lets a provider answer first; those that answered so far follow it.
    pub fn set_default_provider(&mut self, name: &str) -> anyhow::Result<()> {
        let others: Vec<_> = self.names("providers").into_iter().filter(|it| it != name).collect();
        let position = last_position(&self.document) + 1;
        let agent = self.document.entry("agent").or_insert_with(|| {
            let mut agent = Table::new();
            agent.set_position(Some(position));
            Item::Table(agent)
        });
        let agent = agent.as_table_like_mut().context("`agent` in the config is not a table")?;
        let Some(list) = agent.get_mut("providers").and_then(Item::as_array_mut) else {
            let list: Array = std::iter::once(name.to_owned()).chain(others).collect();
            agent.insert("providers", value(list));
            return Ok(());
        };
        let place = |list: &Array| list.iter().position(|it| it.as_str() == Some(name));
        if place(list).is_none() {
            push_entry(list, name);
        }
        if let Some(from) = place(list) {
            move_to_front(list, from);
        }
        Ok(())
    }

    /// Lets a provider's tools be described in its prompt.
    pub fn set_text_tools(&mut self, provider: &str) -> anyhow::Result<()> {
        let section = self.document.get_mut("providers").and_then(Item::as_table_like_mut);
        let section = section.and_then(|it| it.get_mut(provider)).and_then(Item::as_table_like_mut);
        let section = section.with_context(|| format!("there is no [providers.{provider}]"))?;
        if let Some(before) = section.get_mut("tools").and_then(Item::as_value_mut) {
            let decor = before.decor().clone();
            *before = Value::from("text");
            *before.decor_mut() = decor;
        } else {
            section.insert("tools", value("text"));
        }
        Ok(())
    }

    /// Adds a person to the owners of a channel.
    pub fn add_owner(&mut self, channel: &str, id: &str) -> anyhow::Result<()> {
        let section = self.document.get_mut("channels").and_then(Item::as_table_like_mut);
        let section = section.and_then(|it| it.get_mut(channel)).and_then(Item::as_table_like_mut);
        let section = section.with_context(|| format!("there is no [channels.{channel}]"))?;
        match section.get_mut("owners") {
            Some(owners) => {
                let owners = owners.as_array_mut();
                let owners = owners
                    .with_context(|| format!("`owners` in [channels.{channel}] is not a list"))?;
                push_entry(owners, id);
            }
            None => {
                section.insert("owners", value(std::iter::once(id).collect::<Array>()));
            }
        }
        Ok(())
    }

    /// Takes the comments at the end of the file, to stand before a section that is added there.
    fn take_trailing(&mut self) -> String {
        let mut before = self.document.trailing().as_str().unwrap_or_default().to_owned();
        self.document.set_trailing("");
        if !before.is_empty() && !before.ends_with('\n') {
            before.push('\n');
        }
        if !before.is_empty() || !self.document.is_empty() {
            before.push('\n');
        }
        before
    }

    /// Returns the config of the changed file.
    pub fn load(&self, env: &Environment) -> Result<Config, ConfigErrors> {
        load_text(&self.file, &self.document.to_string(), env)
    }

    /// Checks that this account may write the file and the secrets beside it. Changes nothing.
    pub fn check_writable(&self) -> io::Result<()> {
        let linked = self.file.canonicalize().unwrap_or_else(|_| self.file.clone());
        for file in [&linked, &self.file] {
            // A folder that is not there yet is made in the next one above.
            let mut folders = file.ancestors().skip(1);
            let folder = folders.find(|folder| folder.symlink_metadata().is_ok());
            let folder = folder.unwrap_or(Path::new("."));
            if !fs::metadata(folder)?.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
        }
        Ok(())
    }

    /// Replaces the file atomically, and keeps its mode. A new file is for this account only. Returns an error if somebody
    /// else has changed the file since it was read: their change is not overwritten.
    pub fn save(&mut self) -> io::Result<()> {
        let file = self.file.canonicalize().unwrap_or_else(|_| self.file.clone());
        let folder = file.parent().unwrap_or(Path::new("."));
        make_folder(folder)?;
        let _lock = lock_folder(folder)?;
        let text = self.form.apply(self.document.to_string());
        let present = present_text(&self.file);
        let present = present.map_err(|fault| io::Error::other(fault.message))?;
        if present != self.text && present != text {
            return Err(io::Error::other(CHANGED_MEANWHILE));
        }
        let mode = fs::metadata(&file).map_or(0o600, |meta| meta.permissions().mode());
        atomic_file::replace(&file, text.as_bytes(), mode)?;
        self.text = text;
        Ok(())
    }

    /// Writes a secret into a file of its own beside the config, which is for this account only. Returns the file's name. A
    /// file with another content is never overwritten: the name then gets a number.
    pub fn write_secret(&self, name: &str, ending: &str, secret: &str) -> anyhow::Result<String> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let written = self.try_write_secret(name, ending, secret);
        written.with_context(|| format!("cannot write {name}.{ending} into {}", folder.display()))
    }

    fn try_write_secret(&self, name: &str, ending: &str, secret: &str) -> io::Result<String> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        make_folder(folder)?;
        let _lock = lock_folder(folder)?;
        for number in 1..=SECRETS_MAX {
            let numbered = if number == 1 { String::new() } else { format!("-{number}") };
            let name = format!("{name}{numbered}.{ending}");
            let path = folder.join(&name);
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => {
                    file.write_all(secret.as_bytes())?;
                    file.write_all(b"\n")?;
                    file.sync_all()?;
                    atomic_file::give_to_owner(folder, &path)?;
                    return Ok(name);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let is_same = fs::read_to_string(&path).is_ok_and(|it| it.trim() == secret);
                    if is_same {
                        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
                        return Ok(name);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!(
            "there are {SECRETS_MAX} files such as {name}.{ending} already"
        )))
    }
}

/// Appends a text to a list. In one over several lines it gets a line of its own, behind the comment of the last entry.
fn push_entry(list: &mut Array, text: &str) {
    let has_comma = list.trailing_comma();
    let last = list.len().checked_sub(1);
    let prefix = last.and_then(|at| list.get(at)?.decor().prefix()?.as_str());
    let prefix = prefix.unwrap_or_default().to_owned();
    let tail = tail_of(list);
    let Some((comment, closing)) = tail.rsplit_once('\n') else {
        list.push(text);
        return;
    };
    let indent = prefix.rsplit_once('\n').map_or(INDENT, |(_, indent)| indent);
    let mut entry = Value::from(text);
    entry.decor_mut().set_prefix(format!("{comment}\n{indent}"));
    if let Some(last) = last.filter(|_| !has_comma).and_then(|at| list.get_mut(at)) {
        last.decor_mut().set_suffix("");
    }
    list.set_trailing(format!("\n{closing}"));
    list.push_formatted(entry);
}

/// Returns the text between the last entry of a list, or the comma behind it, and the end: the comment of that entry.
fn tail_of(list: &Array) -> String {
    let last = list.len().checked_sub(1).filter(|_| !list.trailing_comma());
    let suffix = last.and_then(|at| list.get(at)?.decor().suffix()?.as_str());
    suffix.unwrap_or_default().to_owned() + list.trailing().as_str().unwrap_or_default()
}

/// Moves an entry of a list to the front. The comments above an entry and behind it stay with it.
fn move_to_front(list: &mut Array, from: usize) {
    if from == 0 {
        return;
    }
    let prefix_of = |(at, entry): (usize, &Value)| {
        let prefix = entry.decor().prefix().and_then(RawString::as_str);
        prefix.unwrap_or(if at == 0 { "" } else { " " }).to_owned()
    };
    let has_comma = list.trailing_comma();
    let mut gaps: Vec<String> = list.iter().enumerate().map(prefix_of).collect();
    let mut order: Vec<usize> = (0..gaps.len()).collect();
    order[..=from].rotate_right(1);
    gaps.push(tail_of(list));
    // The line that a gap begins in is that of the entry before it, or of the bracket.
    let split = |gap: &String| gap.find('\n').unwrap_or(0);
    let (behind, above): (Vec<_>, Vec<_>) = gaps.iter().map(|gap| gap.split_at(split(gap))).unzip();
    if let Some(last) = list.get_mut(order.len() - 1).filter(|_| !has_comma) {
        last.decor_mut().set_suffix("");
    }
    let moved = list.remove(from);
    list.insert_formatted(0, moved);
    let mut before = behind[0];
    for ((at, own), entry) in order.iter().enumerate().zip(list.iter_mut()) {
        let is_commented = [above[at], above[*own]].iter().any(|gap| gap.contains('#'));
        let gap = above[if is_commented { *own } else { at }];
        entry.decor_mut().set_prefix(joined(before, gap));
        before = behind[own + 1];
    }
    list.set_trailing(joined(before, above[order.len()]));
}

/// Returns the end of a line, which may be a comment, with what follows on the next one.
fn joined(end: &str, next: &str) -> String {
    let newline = if end.is_empty() || next.starts_with('\n') { "" } else { "\n" };
    format!("{end}{newline}{next}")
}

/// The indentation of an entry where no other shows it.
const INDENT: &str = "  ";

/// Returns the position of the last table of the file, or 0.
fn last_position(table: &Table) -> isize {
    let below = table.iter().map(|(_, item)| match item {
        Item::Table(table) => last_position(table),
        Item::ArrayOfTables(tables) => tables.iter().map(last_position).max().unwrap_or_default(),
        Item::None | Item::Value(_) => 0,
    });
    below.max().unwrap_or_default().max(table.position().unwrap_or_default())
}

/// Maximum number of files of one name with different secrets. More should be cleaned up.
const SECRETS_MAX: usize = 20;

/// The error if the file is not as it was when it was read.
const CHANGED_MEANWHILE: &str = "it was changed meanwhile, as another `peacrab init` does it, and that change was kept. Run this \
                                 again";

/// Returns the text of a file. A missing one counts as empty.
fn present_text(file: &Path) -> Result<String, Fault> {
    match file.try_exists() {
        Ok(false) if fs::read_link(file).is_err() => Ok(String::new()),
        _ => read_marked_text(file),
    }
}

/// Attempts to lock a folder, and the pause between them. The lock is held while one small file is written.
const LOCK_ATTEMPTS: usize = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Locks the folder of a config for a change, until the returned file is dropped.
fn lock_folder(folder: &Path) -> io::Result<Option<File>> {
    // Nobody can lock a folder that may be written to and not read.
    let opened = match File::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        opened => opened?,
    };
    for _ in 0..LOCK_ATTEMPTS {
        match opened.try_lock() {
            Err(TryLockError::WouldBlock) => sleep(LOCK_PAUSE),
            // Some network file systems lock no folders.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(Some(opened)),
        }
    }
    Err(io::Error::other(
        "another peacrab is changing files in this folder. Run this again when it has ended",
    ))
}

fn make_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn secret_item(place: &SecretPlace) -> Item {
    match place {
        SecretPlace::Here(secret) => value(secret),
        SecretPlace::File(name) => {
            let mut table = InlineTable::new();
            table.insert("file", Value::from(name));
            value(table)
        }
    }
}
