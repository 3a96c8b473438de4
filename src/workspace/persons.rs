//! The folders of persons, as they follow what becomes of the persons: moved into those of somebody else, put away,
//! deleted. Each change is one rename, or can be made again from where it was cut off.

use std::io;

use cap_std::fs::Dir;
use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

use super::folders::{DOWNLOADS, PEOPLE, account_folder, is_of_account, person_folder};
use super::free_place::NUMBER_MAX;
use super::writes::sync;
use super::{Workspace, WorkspacePath};
use crate::types::message::{ChannelName, SenderId};
use crate::types::person::PersonId;

/// The folder of `people/` in which the files of removed persons lie. Nobody's turns reach it.
const ARCHIVE: &str = "archive";

/// The destination of a person's folders that become somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderHeir {
    Owner,
    Person(PersonId),
}

impl Workspace {
    /// Returns true if there are folders that former versions named after accounts.
    pub fn has_folders_of_accounts(&self) -> bool {
        let listing = self.list(Some(&WorkspacePath::own(PEOPLE))).unwrap_or_default();
        listing.entries.iter().any(|entry| is_of_account(&entry.name))
    }

    /// Moves the folder of an account to its person. Returns false if there is none.
    pub fn adopt_folder(
        &self,
        channel: &ChannelName,
        sender: &SenderId,
        person: PersonId,
    ) -> io::Result<bool> {
        self.hand_over(&account_folder(channel, sender), FolderHeir::Person(person))
    }

    /// Gives the folders of a person to another one: as they are if that one has none, else as untrusted files.
    pub fn join_folders(&self, person: PersonId, heir: FolderHeir) -> io::Result<()> {
        self.hand_over(&person_folder(person), heir).map(drop)
    }

    /// Returns where a file of a person's downloads is now, after the folders became those of another person. None if it
    /// is not there.
    pub fn find_joined(
        &self,
        person: PersonId,
        heir: FolderHeir,
        path: &WorkspacePath,
    ) -> Option<WorkspacePath> {
        let own = person_folder(person);
        let rest = path.as_str().strip_prefix(own.as_str())?.strip_prefix('/')?;
        let (renamed, downloads) = match heir {
            FolderHeir::Owner => (None, WorkspacePath::own(DOWNLOADS)),
            FolderHeir::Person(heir) => {
                let heirs = person_folder(heir);
                (Some(heirs.join(rest)), heirs.join(DOWNLOADS))
            }
        };
        // The last one is the newest.
        let moved = joined(&downloads, &own).rev().map(|folder| folder.join(rest));
        let mut places = renamed.into_iter().chain(moved);
        places.find(|place| self.open_without_links(place).is_ok())
    }

    /// Puts the folders of a person away.
    pub fn archive_folders(&self, person: PersonId) -> io::Result<()> {
        let folder = person_folder(person);
        self.rename(&folder, &archived(person)).map(drop)
    }

    /// Deletes the folders of a person, also those that were put away.
    pub fn purge_folders(&self, person: PersonId) -> io::Result<()> {
        for folder in [person_folder(person), archived(person)] {
            let Some(parent) = folder.parent() else { continue };
            let Some(parent) = self.own_folder(&parent) else { continue };
            // Follows no link.
            match parent.remove_dir_all(folder.name()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
            sync(&parent)?;
        }
        Ok(())
    }

    /// Returns true if files of a removed person are put away.
    pub fn has_archive(&self, person: PersonId) -> bool {
        self.own_folder(&archived(person)).is_some()
    }

    fn hand_over(&self, from: &WorkspacePath, heir: FolderHeir) -> io::Result<bool> {
        let downloads = match heir {
            FolderHeir::Owner => WorkspacePath::own(DOWNLOADS),
            FolderHeir::Person(person) => {
                let own = person_folder(person);
                match self.rename(from, &own) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    renamed => return renamed,
                }
                own.join(DOWNLOADS)
            }
        };
        for to in joined(&downloads, from) {
            match self.rename(from, &to) {
                // A command may have put anything there.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                renamed => return renamed,
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Moves a folder, at once and on the disk when this returns. Returns false if there is none.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if something else has the new name.
    fn rename(&self, from: &WorkspacePath, to: &WorkspacePath) -> io::Result<bool> {
        let parent = from.parent().and_then(|parent| self.own_folder(&parent));
        let Some(parent) = parent.filter(|it| is_there(it, from.name())) else { return Ok(false) };
        let into = self.own_folder_of(to)?;
        match renameat_with(&parent, from.name(), &into, to.name(), RenameFlags::NOREPLACE) {
            Err(Errno::NOENT) => return Ok(false),
            // Some file systems cannot tell. Nobody else makes folders of this name.
            Err(Errno::INVAL | Errno::NOSYS) if !is_there(&into, to.name()) => {
                parent.rename(from.name(), &into, to.name())?;
            }
            Err(Errno::INVAL | Errno::NOSYS) => return Err(io::ErrorKind::AlreadyExists.into()),
            renamed => renamed?,
        }
        sync(&into)?;
        sync(&parent)?;
        Ok(true)
    }
}

/// Returns the places in the downloads of an heir for a folder: `from-p5`, `from-p5-2` and so on.
fn joined(
    downloads: &WorkspacePath,
    from: &WorkspacePath,
) -> impl DoubleEndedIterator<Item = WorkspacePath> {
    let name = format!("from-{}", from.name());
    let downloads = downloads.clone();
    (1..=NUMBER_MAX).map(move |number| match number {
        1 => downloads.join(&name),
        number => downloads.join(&format!("{name}-{number}")),
    })
}

fn archived(person: PersonId) -> WorkspacePath {
    WorkspacePath::own(PEOPLE).join(ARCHIVE).join(&person.to_string())
}

fn is_there(folder: &Dir, name: &str) -> bool {
    folder.symlink_metadata(name).is_ok()
}
