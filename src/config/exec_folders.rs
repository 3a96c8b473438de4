//! The entries of `read` and `write` in `[exec]`: a path, or a table with the lowest role whose commands see the path.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::people::Role;
use crate::people::folder_roles::RoleFolder;
use crate::sandbox;

use super::reading::ConfigSource;
use super::values::{AbsolutePath, At, Text};

/// The roles that can use the shell. Guests are strangers, and have none.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ShellRole {
    User,
    #[default]
    Admin,
    Owner,
}

impl From<ShellRole> for Role {
    fn from(role: ShellRole) -> Self {
        match role {
            ShellRole::User => Self::User,
            ShellRole::Admin => Self::Admin,
            ShellRole::Owner => Self::Owner,
        }
    }
}

/// An entry of `read` or `write`.
#[derive(JsonSchema)]
#[schemars(with = "String", title = "path or table")]
pub(super) struct SeenFolder {
    path: PathBuf,
    /// None if the entry is a path alone.
    role: Option<ShellRole>,
}

impl SeenFolder {
    /// Returns the path with its role. `lowest` is the role that may run commands.
    pub(super) fn folder(&self, lowest: Role) -> RoleFolder {
        let role = self.role.map_or(lowest, |role| Role::from(role).max(lowest));
        RoleFolder { path: self.path.clone(), role }
    }
}

/// The keys of a table.
const KEYS: &[&str] = &["path", "role"];

impl<'de> Deserialize<'de> for SeenFolder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("SeenFolder", KEYS, SeenFolderVisitor)
    }
}

struct SeenFolderVisitor;

impl<'de> Visitor<'de> for SeenFolderVisitor {
    type Value = SeenFolder;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a path, or a table: { path = "..", role = ".." }"#)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SeenFolder, E> {
        let AbsolutePath(path) = text.parse::<AbsolutePath>().map_err(E::custom)?;
        Ok(SeenFolder { path, role: None })
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<SeenFolder, M::Error> {
        let (mut path, mut role) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "path" => path = Some(map.next_value::<Text<AbsolutePath>>()?.0.0),
                "role" => role = Some(map.next_value::<ShellRole>()?),
                other => return Err(M::Error::unknown_field(other, KEYS)),
            }
        }
        let missing =
            || M::Error::custom(r#"needs a `path`, such as { path = "/srv", role = "owner" }"#);
        Ok(SeenFolder { path: path.ok_or_else(missing)?, role })
    }
}

/// Reports roles without an effect: those below the lowest role that may run commands, and those of paths that another
/// entry shows to a lower role. Refuses paths in which commands could put a link that leads elsewhere.
pub(super) fn check_folders(
    source: &ConfigSource<'_>,
    lowest: Role,
    read: &[At<SeenFolder>],
    write: &[At<SeenFolder>],
    trusted: &[At<Text<AbsolutePath>>],
) {
    for entry in read.iter().chain(write) {
        let SeenFolder { path, role } = &entry.value;
        if let Some(role) = role.map(Role::from).filter(|role| *role < lowest) {
            source.note(format!(
                "[exec] role = \"{role}\" of {} has no effect: commands are for the role {lowest} and above",
                path.display()
            ));
        }
    }
    for entry in read.iter().chain(write) {
        check_outer(source, entry, &entry.value.path, write);
    }
    for entry in trusted {
        check_outer(source, entry, &entry.value.0.0, write);
    }
    for entry in read {
        check_overlap(source, lowest, entry, &mut read.iter().chain(write));
    }
    for entry in write {
        check_overlap(source, lowest, entry, &mut write.iter());
    }
}

/// Refuses the path of an entry in a folder that commands can change: one could put a link in its place, which the next
/// command would follow.
fn check_outer<T>(source: &ConfigSource<'_>, entry: &At<T>, path: &Path, write: &[At<SeenFolder>]) {
    if let Some(outer) = write.iter().find(|outer| is_below(path, &outer.value.path)) {
        let outer = outer.value.path.display();
        source.refuse(
            entry,
            format!(
                "is in {outer}, where commands could replace it by a link: remove one of the two"
            ),
        );
    }
}

/// Returns true if a path is a part of a folder, as they are written or once their links are resolved.
pub(super) fn is_below(path: &Path, folder: &Path) -> bool {
    let is_part = |path: &Path, folder: &Path| path != folder && path.starts_with(folder);
    is_part(path, folder) || is_part(&sandbox::resolve_links(path), &sandbox::resolve_links(folder))
}

/// Refuses an entry if one of the others shows its path to a lower role.
fn check_overlap(
    source: &ConfigSource<'_>,
    lowest: Role,
    entry: &At<SeenFolder>,
    others: &mut dyn Iterator<Item = &At<SeenFolder>>,
) {
    let folder = entry.value.folder(lowest);
    let mut others = others.map(|other| other.value.folder(lowest));
    let shows =
        |other: &RoleFolder| other.role < folder.role && folder.path.starts_with(&other.path);
    if let Some(other) = others.find(shows) {
        source.refuse(
            entry,
            format!(
                "is for the role {}, but {} shows it to the role {}: give both the same role, or remove one",
                folder.role,
                other.path.display(),
                other.role
            ),
        );
    }
}
