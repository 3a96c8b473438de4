//! The doctor as an account without rights: in its own home, and in that of another account. Where the tests run as root,
//! who may do everything, the program really runs as another account.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};

use peacrab::process::account_name;
use rustix::process::geteuid;
use tempfile::TempDir;
use tokio::process::Command;

use super::found;
use crate::support::binary::{Ended, ProgramFixture};

/// The account of those who own nothing, and its group, on every Linux.
const NOBODY: u32 = 65_534;

/// A fixture whose program runs without the rights of root.
pub(super) struct WithoutRights {
    fixture: ProgramFixture,
    /// A folder that everybody may enter, with the program in it. None if these tests have no rights anyway.
    program: Option<TempDir>,
}

impl WithoutRights {
    /// None where another account cannot reach the folders of these tests.
    pub(super) fn of(fixture: ProgramFixture) -> Option<Self> {
        if !geteuid().is_root() {
            return Some(Self { fixture, program: None });
        }
        let program = tempfile::tempdir().unwrap();
        set_mode(program.path(), 0o755);
        let (from, to) = (env!("CARGO_BIN_EXE_peacrab"), program.path().join("peacrab"));
        // A copy is large.
        if fs::hard_link(from, &to).is_err() {
            fs::copy(from, &to).unwrap();
        }
        set_mode(fixture.folder(), 0o755);
        let may_enter = |folder: &Path| {
            fs::metadata(folder).is_ok_and(|about| about.permissions().mode() & 0o001 != 0)
        };
        let is_reached = [program.path(), fixture.folder()]
            .iter()
            .all(|folder| folder.ancestors().all(may_enter));
        if !is_reached {
            print_skipped();
            return None;
        }
        Some(Self { fixture, program: Some(program) })
    }

    pub(super) fn home(&self) -> PathBuf {
        self.fixture.home()
    }

    /// Gives the account all that the fixture has.
    pub(super) fn give_all(&self) {
        self.give(self.fixture.folder());
    }

    /// Gives the account a file, or a folder with everything in it.
    fn give(&self, path: &Path) {
        if self.program.is_none() {
            return;
        }
        lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        if fs::symlink_metadata(path).unwrap().is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| self.give(&entry.unwrap().path()));
        }
    }

    /// Runs a command to its end.
    #[expect(clippy::disallowed_methods, reason = "the program is this test's own child")]
    pub(super) async fn run(&self, args: &[&str]) -> Ended {
        let Some(program) = &self.program else { return self.fixture.run(args).await };
        let mut command = Command::new(program.path().join("peacrab"));
        command.arg("--home").arg(self.home());
        command.arg("--config").arg(self.fixture.folder().join("config.toml")).args(args);
        command.env_clear().env("HOME", self.fixture.folder()).current_dir(program.path());
        command.uid(NOBODY).gid(NOBODY).kill_on_drop(true);
        self.fixture.run_with(command, "").await
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[expect(clippy::print_stderr, reason = "who reads the tests' output must see it")]
fn print_skipped() {
    eprintln!("skipped: another account cannot reach the folders of these tests");
}

/// A home of root's in which a daemon has run, and the program as another account. None where these tests are not root.
async fn foreign_home() -> Option<WithoutRights> {
    if !geteuid().is_root() {
        return None;
    }
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    WithoutRights::of(fixture)
}

#[tokio::test]
async fn the_home_of_another_account_is_named_with_both_accounts() {
    let Some(other) = foreign_home().await else { return };
    other.give(&other.fixture.folder().join("config.toml"));
    let ended = other.run(&["doctor"]).await;
    let (home, me) = (other.home().display().to_string(), account_name(NOBODY));
    let foreign = format!("{home} belongs to account root, and this is account {me}");
    let files = format!("WRONG files: {foreign}");
    let chown = format!(
        "to do: run this as account root or as root; if the home is to be this account's, `sudo chown -R {me} {home}`"
    );
    let store = format!("to do: {foreign}: run this as that account, or as root");
    found(
        &ended,
        1,
        &[
            &files,
            &chown,
            "WRONG store: this account cannot open it",
            &store,
            "WRONG disk: this account cannot write to the home",
            "to do: give the home to the account that runs Peacrab (chown), or run this as that",
            "WRONG daemon: this account may not ask the daemon, nor look if one runs",
            "to do: run this as the account that runs Peacrab, or as root",
        ],
    );
    // A daemon may well run there: this account has none to start or restart.
    assert!(!ended.out.contains("restart it") && !ended.out.contains("start it:"), "{}", ended.out);
    assert!(!ended.out.contains("peacrab restore"), "{}", ended.out);
    let check = other.run(&["check"]).await;
    assert!(check.out.contains("warning: cannot reach the daemon on "), "{check:?}");
}

#[tokio::test]
async fn a_home_below_a_closed_folder_is_named_with_the_account() {
    let Some(other) = foreign_home().await else { return };
    set_mode(other.fixture.folder(), 0o700);
    let ended = other.run(&["doctor"]).await;
    let (home, me) = (other.home().display().to_string(), account_name(NOBODY));
    let closed = format!("account {me} may not enter a folder above {home}");
    found(
        &ended,
        1,
        &[
            "WRONG config: ",
            ": cannot be read: Permission denied",
            &format!("WRONG files: {closed}"),
            "to do: run this as the account that runs Peacrab, or as root",
            "WRONG store: this account cannot open it",
            &format!("to do: {closed}: run this as the account that owns the home, or as root"),
        ],
    );
    // Nothing in the config is to be corrected.
    assert!(!ended.out.contains("correct these lines"), "{}", ended.out);
}

#[tokio::test]
async fn what_keeps_an_account_out_of_its_own_home_is_named() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let (undo, workspace) = (fixture.home().join("undo"), fixture.home().join("workspace"));
    let Some(own) = WithoutRights::of(fixture) else { return };
    own.give_all();
    let closed = workspace.join("closed");
    fs::create_dir(&closed).unwrap();
    own.give(&closed);
    set_mode(&closed, 0o000);
    set_mode(&undo, 0o500);
    let ended = own.run(&["doctor"]).await;
    let (home, undo, root) =
        (own.home().display().to_string(), undo.display().to_string(), workspace.display());
    found(
        &ended,
        1,
        &[
            &format!("WRONG files: the mode of {undo} keeps its own account out"),
            &format!("to do: chmod u+rwX {undo}"),
            "WRONG workspace: account ",
            ", to which the home belongs, cannot use 1 of its files and folders, such as ",
            &format!(
                "`sudo chown -R --reference={home} {root}`, then `sudo chmod -R u+rwX {root}`"
            ),
            "ok    store: readable",
        ],
    );
    // So that they can be deleted.
    set_mode(&closed, 0o700);
    set_mode(Path::new(&undo), 0o700);
}
