//! What of the machine a command may see: what belongs to the system and to nobody in particular.

use std::fs;
use std::path::{Path, PathBuf};

/// Programs and what they need; those that exist are there.
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

/// Of /etc, what every program reads; the rest may hold keys and passwords, and the daemon may be root.
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

/// Devices without a memory.
pub(super) const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// A thing that a command may see, as it stands on the machine.
pub(super) struct Seen {
    pub(super) path: PathBuf,
    /// It is a link into something else that may be seen, and says so.
    pub(super) link: Option<PathBuf>,
    pub(super) writable: bool,
}

/// What may be read and what may be written, those above before those below.
pub(super) fn seen(read: &[PathBuf], write: &[PathBuf]) -> Vec<Seen> {
    let settings = SETTINGS.iter().map(|name| Path::new("/etc").join(name));
    let system = SYSTEM.iter().map(PathBuf::from).chain(settings);
    let read = system.chain(read.iter().cloned());
    let read: Vec<_> = read.filter(|path| path.exists()).collect();
    let mut all: Vec<Seen> = read
        .iter()
        .map(|path| Seen { path: path.clone(), link: link(path, &read), writable: false })
        .chain(write.iter().map(|path| Seen { path: path.clone(), link: None, writable: true }))
        .collect();
    all.sort_by(|a, b| a.path.cmp(&b.path).then(a.writable.cmp(&b.writable)));
    all
}

/// Where `path` leads, if it is a link into what is seen anyhow.
fn link(path: &Path, read: &[PathBuf]) -> Option<PathBuf> {
    let text = fs::read_link(path).ok()?;
    let target = fs::canonicalize(path).ok()?;
    let is_seen = |other: &&PathBuf| other.as_path() != path && target.starts_with(other);
    read.iter().find(is_seen).map(|_| text)
}
