//! The units of systemd: their text for a program and a home, and their files. Not here: what systemd is told.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::super::systemd::{Manager, UNIT};
use crate::config::Environment;

/// The unit of the system, as packages install it.
pub const SYSTEM_UNIT: &str = include_str!("../../../packaging/peacrab.service");

/// The unit of one account.
pub const USER_UNIT: &str = include_str!("../../../packaging/peacrab-user.service");

/// The program in both units.
pub(super) const PROGRAM: &str = "/usr/local/bin/peacrab";

/// The home in the unit of the system (`StateDirectory=`).
pub(in crate::cli) const SYSTEM_HOME: &str = "/var/lib/peacrab";

/// The home in the unit of one account.
const USER_HOME: &str = "%h/.local/share/peacrab";

/// Folders of the system's units that belong to packages (systemd.unit(5)).
const PACKAGED_FOLDERS: [&str; 2] = ["/usr/lib/systemd/system", "/lib/systemd/system"];

/// The ending of the unit that was there before.
pub(super) const KEPT_ENDING: &str = "service.old";

/// Folders that the unit of the system hides from its program (systemd.exec(5): `ProtectHome=`, and `PrivateTmp=`, which
/// `DynamicUser=` implies).
const HIDDEN_FOLDERS: [&str; 5] = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];

/// Returns the reason why the service of the system, which has an account of its own, could not start a program at this
/// path. None if it could.
pub fn unstartable(program: &Path) -> Option<String> {
    if let Some(folder) = HIDDEN_FOLDERS.iter().find(|folder| program.starts_with(folder)) {
        return Some(format!("{folder} is hidden from it"));
    }
    let is_closed = |path: &&Path| {
        fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o001 == 0)
    };
    let closed = program.ancestors().find(is_closed)?;
    Some(format!("{} is closed to other accounts", closed.display()))
}

/// Replaces the unit at once. A unit that somebody has changed is kept beside it.
pub(super) fn write_unit(file: &Path, unit: &str) -> anyhow::Result<()> {
    if fs::read_link(file).is_ok_and(|target| target == Path::new("/dev/null")) {
        bail!(
            "the service is masked: {} is a link to /dev/null. Run `systemctl unmask {UNIT}`, with `--user` for one of this \
             account, and try again",
            file.display()
        );
    }
    let write = || {
        let folder = file.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        if file.exists() {
            fs::copy(file, file.with_extension(KEPT_ENDING))?;
        }
        let mut new = tempfile_beside(file)?;
        new.1.write_all(unit.as_bytes())?;
        new.1.sync_all()?;
        fs::rename(&new.0, file)
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}

fn tempfile_beside(file: &Path) -> std::io::Result<(PathBuf, fs::File)> {
    let new = file.with_extension("service.new");
    fs::remove_file(&new).ok();
    let made = fs::OpenOptions::new().write(true).create_new(true).open(&new)?;
    Ok((new, made))
}

pub(super) fn unit_file(environment: &Environment, manager: Manager) -> anyhow::Result<PathBuf> {
    match manager {
        Manager::System => Ok(Path::new("/etc/systemd/system").join(UNIT)),
        Manager::User => {
            let config = environment.raw("XDG_CONFIG_HOME").map(PathBuf::from);
            let config =
                config.or_else(|| Some(Path::new(environment.raw("HOME")?).join(".config")));
            let config = config.context("$HOME is not set, so there is no folder for the unit")?;
            Ok(config.join("systemd/user").join(UNIT))
        }
    }
}

/// Returns the file of a unit for this manager that a package has installed. None if there is none.
pub(super) fn packaged_unit(manager: Manager) -> Option<PathBuf> {
    let mut units = PACKAGED_FOLDERS.iter().map(|folder| Path::new(folder).join(UNIT));
    units.find(|unit| manager == Manager::System && unit.exists())
}

/// The unit of the system for a program at this path.
pub fn system_unit(program: &Path) -> anyhow::Result<String> {
    with_program(SYSTEM_UNIT, program)
}

/// The unit of one account for a program at this path, with this home.
pub fn user_unit(program: &Path, home: &Path) -> anyhow::Result<String> {
    let unit = with_program(USER_UNIT, program)?;
    Ok(unit.replace(USER_HOME, &unit_word(home)?))
}

/// A unit that runs the program at this path. Its comments stay as they are.
fn with_program(unit: &str, program: &Path) -> anyhow::Result<String> {
    Ok(unit.replace(&format!("={PROGRAM}"), &format!("={}", unit_word(program)?)))
}

/// A path as a word of a unit (systemd.syntax(7), systemd.unit(5) on specifiers).
fn unit_word(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    if text.contains(char::is_control) {
        bail!("a systemd unit cannot contain {}", path.display());
    }
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    Ok(if text.contains(char::is_whitespace) { format!("\"{escaped}\"") } else { escaped })
}
