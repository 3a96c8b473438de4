//! Paths of the machine that a command may see: those that belong to the system and to nobody in particular.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use super::{KnownPlace, Sandbox};
use crate::replies;

/// Folders of programs and their files. Missing ones are left out.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/run/current-system",
    "/sys/devices/system/cpu",
];

/// Files of /etc that every program reads. The rest may hold keys and passwords, and the daemon may be root.
const SETTINGS: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gai.conf",
    "gitconfig",
    "group",
    "host.conf",
    "hostname",
    "hosts",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "profile",
    "profile.d",
    "protocols",
    "resolv.conf",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "static",
    "terminfo",
    "timezone",
];

/// Devices that store nothing.
pub(super) const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Links that are followed in one path, as the kernel does (`MAXSYMLINKS`, include/linux/namei.h).
const LINKS_MAX: usize = 40;

/// A path of the machine that a command may see.
pub(super) struct VisiblePath {
    pub(super) path: PathBuf,
    /// The content of a link whose target is within another visible path.
    pub(super) link: Option<PathBuf>,
    pub(super) writable: bool,
    /// A detached mount of it, where one has been made already.
    pub(super) tree: Option<OwnedFd>,
}

impl VisiblePath {
    fn new(path: &Path, link: Option<PathBuf>, writable: bool) -> Self {
        Self { path: path.to_owned(), link, writable, tree: None }
    }
}

/// Returns the paths of the system, even those that do not exist.
fn system() -> impl Iterator<Item = PathBuf> {
    let settings = SETTINGS.iter().map(|name| Path::new("/etc").join(name));
    SYSTEM.iter().map(PathBuf::from).chain(settings)
}

/// Returns true if every command sees this path.
pub fn is_of_system(path: &Path) -> bool {
    system().any(|of_system| path.starts_with(of_system))
}

/// Returns an error if a writable path is missing: a command that writes there should get an explanation.
pub(super) fn check_all_exist(write: &[PathBuf]) -> io::Result<()> {
    write.iter().try_for_each(|path| {
        let found = fs::metadata(path).map(drop);
        found.map_err(|error| {
            let message = format!("{}, which commands may write: {error}", path.display());
            io::Error::new(error.kind(), message)
        })
    })
}

/// Returns the present places of the paths of a sandbox, and of these further ones.
pub fn find_places(sandbox: &Sandbox, more: &[PathBuf]) -> Vec<KnownPlace> {
    let paths = sandbox.read.iter().chain(&sandbox.write).chain(more);
    paths.map(|path| KnownPlace { path: path.clone(), place: resolve_links(path) }).collect()
}

/// Returns an error if a path leads elsewhere than at the start: then nobody has checked what commands would see there.
pub(super) fn check_places(known: &[KnownPlace]) -> io::Result<()> {
    known.iter().try_for_each(|KnownPlace { path, place }| match resolve_links(path) == *place {
        true => Ok(()),
        false => Err(io::Error::other(replies::leads_elsewhere(path))),
    })
}

/// Returns the readable and the writable paths, parents before children. Missing paths are left out. One below a link
/// is named by the folder to which that leads inside.
pub(super) fn visible_paths(read: &[PathBuf], write: &[PathBuf]) -> Vec<VisiblePath> {
    let read = system().chain(read.iter().cloned());
    let read: Vec<_> = read.filter(|path| path.exists()).collect();
    let write = write.iter().filter(|path| path.exists());
    let mut all: Vec<VisiblePath> = read
        .iter()
        .map(|path| VisiblePath::new(path, link(path, &read), false))
        .chain(write.map(|path| VisiblePath::new(path, None, true)))
        .collect();
    let places: Vec<PathBuf> = all.iter().map(|it| place_inside(it, &all)).collect();
    for (it, place) in all.iter_mut().zip(places) {
        it.path = place;
    }
    all.sort_by(|a, b| a.path.cmp(&b.path).then(a.writable.cmp(&b.writable)));
    // A link that two paths name is made once.
    all.dedup_by(|again, first| {
        again.path == first.path && again.link.is_some() && first.link.is_some()
    });
    all
}

/// Returns the name of a visible path without the links that a command sees in it: `/usr/bin/perl` for `/bin/perl`. While
/// the root is built, a link does not lead anywhere yet, so nothing can be made below it.
fn place_inside(visible: &VisiblePath, all: &[VisiblePath]) -> PathBuf {
    let path = visible.path.as_path();
    let shows_link = |at: &Path| {
        all.iter().any(|it| match it.link {
            Some(_) => at == it.path,
            None => at != it.path && at.starts_with(&it.path),
        })
    };
    // A link itself is made at its place, and not followed.
    let (followed_part, last) = match visible.link {
        Some(_) => (path.parent().unwrap_or(path), path.file_name()),
        None => (path, None),
    };
    match follow_links(followed_part, shows_link) {
        Some(mut place) => {
            place.extend(last);
            place
        }
        None => path.to_owned(),
    }
}

/// Returns the path to which an absolute path leads, which need not exist. Links that `is_followed` rejects stay in it. None
/// if there are too many.
fn follow_links(path: &Path, is_followed: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let (mut place, mut rest) = (PathBuf::from("/"), names_reversed(path));
    let mut followed = 0;
    while let Some(name) = rest.pop() {
        if name == ".." {
            place.pop();
            continue;
        }
        place.push(name);
        let target = is_followed(&place).then(|| fs::read_link(&place).ok());
        let Some(target) = target.flatten() else { continue };
        followed += 1;
        if followed > LINKS_MAX {
            return None;
        }
        place.pop();
        if target.is_absolute() {
            place = PathBuf::from("/");
        }
        rest.extend(names_reversed(&target));
    }
    Some(place)
}

/// Returns the names in a path, the last one first.
fn names_reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    });
    let mut names: Vec<OsString> = names.collect();
    names.reverse();
    names
}

/// Returns the content of a link whose target is visible anyway.
fn link(path: &Path, read: &[PathBuf]) -> Option<PathBuf> {
    let text = fs::read_link(path).ok()?;
    let target = fs::canonicalize(path).ok()?;
    let is_seen = |other: &&PathBuf| other.as_path() != path && target.starts_with(other);
    read.iter().find(is_seen).map(|_| text)
}

/// A path that commands must not see, and the visible path that would show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExposedPath {
    pub hidden: PathBuf,
    pub by: PathBuf,
}

impl ExposedPath {
    /// Returns true if a path of the system shows it, which every command may see, rather than one of the config.
    pub fn is_by_system(&self) -> bool {
        system().any(|path| path == self.by)
    }
}

/// Returns the home, apart from its workspace, or one of these secrets, if a command would see it. Neither a root of
/// its own nor Landlock can exclude a part of a visible folder.
pub fn find_exposed_path(
    sandbox: &Sandbox,
    home: &Path,
    workspace: &Path,
    secrets: &[PathBuf],
) -> Option<ExposedPath> {
    let opened: Vec<PathBuf> =
        system().chain(sandbox.read.iter().chain(&sandbox.write).cloned()).collect();
    let shows = |by: &Path, hidden: &Path| resolve_links(hidden).starts_with(resolve_links(by));
    // A part of the home is not to be opened either.
    let home_by = opened.iter().find(|by| shows(by, home) || shows(home, by));
    let home_by = home_by.map(|by| &**by).or_else(|| shows(workspace, home).then_some(workspace));
    if let Some(by) = home_by {
        return Some(ExposedPath { hidden: home.to_owned(), by: by.to_owned() });
    }
    secrets.iter().find_map(|hidden| {
        let mut all = opened.iter().map(|by| &**by).chain([workspace]);
        let by = all.find(|by| shows(by, hidden))?.to_owned();
        Some(ExposedPath { hidden: hidden.clone(), by })
    })
}

/// Returns the absolute path without symbolic links. It need not exist: a link to a disk that is not mounted yet leads to
/// the same place as later.
pub fn resolve_links(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = fs::canonicalize(&path).ok().or_else(|| follow_links(&path, |_| true));
    found.unwrap_or(path)
}
