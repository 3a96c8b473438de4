//! The check of the workspace: if it is there, and if the account that runs Peacrab can use the files in it.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::geteuid;

use super::Finding;
use crate::process::account_name;
use crate::workspace::Workspace;
use crate::workspace::lost::LostWorkspace;
use crate::workspace::skills::SkillEnvironment;

/// Files and folders that are looked at. A larger workspace is looked at in part.
const ENTRIES_MAX: usize = 20_000;

/// Checks the workspace of a home. `was_used` is true if there is a store, which was made before it.
pub fn check_workspace(home: &Path, was_used: bool) -> Finding {
    const CHECK: &str = "workspace";
    let root = home.join(CHECK);
    if let Some(lost) = LostWorkspace::find(&root) {
        return Finding::wrong(CHECK, lost.words()).advise(lost.advice());
    }
    if matches!(root.try_exists(), Ok(false)) {
        return match was_used {
            false => Finding::ok(CHECK, "there is none yet"),
            true => Finding::wrong(
                CHECK,
                format!("{} is gone, although there is a store", root.display()),
            )
            .advise(
                "bring the folder back, or restore a backup; the next start makes a new one without your files",
            ),
        };
    }
    if let Err(error) = Workspace::open_read_only(&root, SkillEnvironment::default()) {
        return Finding::wrong(CHECK, format!("{error:#}")).advise(
            "give the folder to the account that runs Peacrab, or restore it from a backup",
        );
    }
    let blocked = Walk::of(home).map(|walk| walk.blocked(&root)).unwrap_or_default();
    let Some(first) = blocked.first() else {
        return Finding::ok(CHECK, root.display().to_string());
    };
    let account = fs::metadata(home).map(|home| account_name(home.uid())).unwrap_or_default();
    let words = format!(
        "account {account}, to which the home belongs, cannot use {} of its files and folders, such as {}",
        blocked.len(),
        first.display()
    );
    let (home, root) = (home.display(), root.display());
    Finding::wrong(CHECK, words).advise(format!(
        "`sudo chown -R --reference={home} {root}`, then `sudo chmod -R u+rwX {root}`"
    ))
}

/// A walk through the workspace with the rights of one account.
struct Walk {
    /// The account and group of the home.
    account: u32,
    group: u32,
}

impl Walk {
    /// None if the home cannot be looked at, or belongs to root, who may use every file.
    fn of(home: &Path) -> Option<Self> {
        let home = fs::metadata(home).ok()?;
        (home.uid() != 0).then(|| Self { account: home.uid(), group: home.gid() })
    }

    /// Returns the files and folders that the account cannot use. Links are not followed.
    fn blocked(&self, root: &Path) -> Vec<PathBuf> {
        if fs::metadata(root).is_ok_and(|about| !self.may_use(root, &about)) {
            return vec![root.to_owned()];
        }
        let (mut blocked, mut folders, mut seen) = (Vec::new(), vec![root.to_owned()], 0);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
                seen += 1;
                if seen > ENTRIES_MAX {
                    return blocked;
                }
                let path = entry.path();
                let Ok(about) = fs::symlink_metadata(&path) else { continue };
                if !about.is_dir() && !about.is_file() {
                    continue;
                }
                let may_use = self.may_use(&path, &about);
                if about.is_dir() && may_use {
                    folders.push(path.clone());
                }
                if !may_use {
                    blocked.push(path);
                }
            }
        }
        blocked
    }

    fn may_use(&self, path: &Path, about: &Metadata) -> bool {
        // A file of its own is replaced as a whole, so that one without the right to write is fine.
        let wanted = match about.is_dir() {
            true => Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK,
            false if about.uid() == self.account => Access::READ_OK,
            false => Access::READ_OK | Access::WRITE_OK,
        };
        if geteuid().as_raw() == self.account {
            return access(path, wanted).is_ok();
        }
        let mode = about.mode();
        let has = match about.uid() == self.account {
            true => mode >> 6,
            false if about.gid() == self.group => mode >> 3,
            false => mode,
        };
        // The bits of a mode are those of access(2).
        has & wanted.bits() == wanted.bits()
    }
}
