//! The account of a command. It is the daemon's, unless that is root: then it is one that the machine gives to nobody,
//! and ID-mapped mounts give it the rights of the owner of the command's folder. Inside, it looks like that owner.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FileType, fchown, fstat};
use rustix::process::{Gid, Pid, Uid, getegid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::paths::VisiblePath;
use super::{AccountKind, raw};
use crate::replies;

/// No distribution and no tool gives out this number, as a user's or as a group's
/// (<https://systemd.io/UIDS-GIDS>: 1879048192 to 2147483647 are unused).
pub const UNUSED: u32 = 2_000_000_000;

/// A user and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UserAndGroup {
    user: u32,
    group: u32,
}

/// The account of one command, as the command sees it and as the machine does.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandAccount {
    inside: UserAndGroup,
    outside: UserAndGroup,
}

impl CommandAccount {
    /// Returns the daemon's account.
    pub(super) fn of_daemon() -> Self {
        let own = UserAndGroup { user: geteuid().as_raw(), group: getegid().as_raw() };
        Self { inside: own, outside: own }
    }

    /// Returns the unused account for a command with this folder. None if the daemon is not root.
    pub(super) fn unused_account(folder: &Path) -> io::Result<Option<Self>> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let owner = fs::metadata(folder)?;
        let inside = UserAndGroup { user: owner.uid(), group: owner.gid() };
        Ok(Some(Self { inside, outside: UserAndGroup { user: UNUSED, group: UNUSED } }))
    }

    /// Returns true if it is another account than the daemon's.
    pub(super) fn is_other(&self) -> bool {
        self.inside != self.outside
    }

    pub(super) fn kind(&self) -> AccountKind {
        match (self.is_other(), self.outside.user) {
            (true, _) => AccountKind::Unused,
            (false, 0) => AccountKind::Root,
            (false, _) => AccountKind::Daemon,
        }
    }

    /// Lets the command open its streams by their names, such as `/dev/stdout`. Streams that were not made for it, such
    /// as `/dev/null`, stay as they are. Terminals are not opened in this way in a sandbox.
    pub(super) fn give_streams(&self, errors: Option<&OwnedFd>) -> io::Result<()> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let streams = [Some(stdin.as_fd()), Some(stdout.as_fd()), errors.map(AsFd::as_fd)];
        let (user, group) = (Uid::from_raw(self.outside.user), Gid::from_raw(self.outside.group));
        for stream in streams.into_iter().flatten() {
            if FileType::from_raw_mode(fstat(stream)?.st_mode) == FileType::Fifo {
                fchown(stream, Some(user), Some(group))?;
            }
        }
        Ok(())
    }

    /// Maps this account into the user namespace of `first`, a waiting process, and ID-maps the mounts of `visible`.
    pub(super) fn map(&self, first: Pid, visible: &[VisiblePath]) -> io::Result<()> {
        let proc_file = |name: &str| format!("/proc/{}/{name}", first.as_raw_nonzero());
        if !self.is_other() {
            // Without this, only root may map a group.
            fs::write(proc_file("setgroups"), "deny")?;
        }
        let line = |inside: u32, outside: u32| format!("{inside} {outside} 1");
        fs::write(proc_file("uid_map"), line(self.inside.user, self.outside.user))?;
        fs::write(proc_file("gid_map"), line(self.inside.group, self.outside.group))?;
        if !self.is_other() {
            return Ok(());
        }
        let users = File::open(proc_file("ns/user"))?;
        for (it, tree) in visible.iter().filter_map(|it| Some((it, it.tree.as_ref()?))) {
            match raw::id_map_mount(tree, &users) {
                // It stays readable where its modes allow that.
                Err(_) if !it.writable => {}
                mapped => mapped.map_err(|error| {
                    io::Error::new(error.kind(), replies::cannot_id_map(&it.path, &error))
                })?,
            }
        }
        Ok(())
    }

    /// Becomes this account, in the namespace into which it was mapped.
    pub(super) fn enter(&self) -> io::Result<()> {
        if !self.is_other() {
            return Ok(());
        }
        let (user, group) = (Uid::from_raw(self.inside.user), Gid::from_raw(self.inside.group));
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        Ok(set_thread_res_uid(user, user, user)?)
    }
}
