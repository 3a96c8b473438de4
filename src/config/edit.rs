//! Changes a config file and keeps everything else in it: comments, order, blank lines. Adds sections, and never changes
//! or removes one.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value, value};

use super::{Config, ConfigErrors, Environment, load_text, read_text};
use crate::whole_file;

/// A config file that gets more sections.
#[derive(Clone)]
pub struct ConfigEdit {
    file: PathBuf,
    document: DocumentMut,
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
    /// Reads the file. A missing one counts as empty.
    pub fn open(file: &Path) -> anyhow::Result<Self> {
        let text = match file.try_exists() {
            Ok(false) => String::new(),
            _ => read_text(file).map_err(|fault| ConfigErrors(vec![fault]))?,
        };
        let document = text.parse::<DocumentMut>();
        let document = document.with_context(|| format!("cannot change {}", file.display()))?;
        Ok(Self { file: file.to_owned(), document })
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

    /// Adds a section. A new provider also joins the list of those that answer, if the config has one.
    pub fn add(&mut self, section: &NewSection) -> anyhow::Result<()> {
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
        table.decor_mut().set_prefix("\n");
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
                list.push(&section.name);
            }
        }
        Ok(())
    }

    /// Returns the config of the changed file.
    pub fn load(&self, env: &Environment) -> Result<Config, ConfigErrors> {
        load_text(&self.file, &self.document.to_string(), env)
    }

    /// Replaces the file atomically, and keeps its mode. A new file is for this account only.
    pub fn save(&self) -> io::Result<()> {
        let file = self.file.canonicalize().unwrap_or_else(|_| self.file.clone());
        let mode = fs::metadata(&file).map_or(0o600, |meta| meta.permissions().mode());
        let folder = file.parent().unwrap_or(Path::new("."));
        make_folder(folder)?;
        whole_file::replace(&file, self.document.to_string().as_bytes(), mode)
    }

    /// Writes a secret into a file of its own beside the config, which is for this account only. Returns the file's name. A
    /// file with another content is never overwritten: the name then gets a number.
    pub fn write_secret(&self, name: &str, ending: &str, secret: &str) -> io::Result<String> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        make_folder(folder)?;
        for number in 1..=SECRETS_MAX {
            let numbered = if number == 1 { String::new() } else { format!("-{number}") };
            let name = format!("{name}{numbered}.{ending}");
            let path = folder.join(&name);
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => {
                    file.write_all(secret.as_bytes())?;
                    file.write_all(b"\n")?;
                    file.sync_all()?;
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

/// Maximum number of files of one name with different secrets. More should be cleaned up.
const SECRETS_MAX: usize = 20;

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
