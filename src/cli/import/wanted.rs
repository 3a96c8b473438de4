//! The files of another bot that are wanted: its texts and skills, but no configs and keys.

use std::ffi::OsStr;
use std::path::Path;

/// The reason for files of a kind that nothing here would use.
pub(super) const NOT_IMPORTED: &str = "not imported";

/// The reason for files that may hold keys.
const CONFIG_OR_KEY: &str = "a config or a key";

/// Endings of files with keys, passwords and settings.
const PRIVATE_ENDINGS: [&str; 11] =
    ["pem", "key", "p12", "pfx", "jks", "keystore", "kdbx", "gpg", "asc", "env", "ini"];

/// Names, without their ending, of files with keys, passwords and settings.
const PRIVATE_NAMES: [&str; 16] = [
    "config",
    "settings",
    "credential",
    "credentials",
    "secret",
    "secrets",
    "auth",
    "token",
    "tokens",
    "password",
    "passwords",
    "apikey",
    "api_key",
    "service_account",
    "netrc",
    "keystore",
];

/// Beginning of the names of SSH keys.
const SSH_KEY: &str = "id_";

/// Returns true for a folder with wanted files.
pub(super) fn is_wanted_folder(path: &Path) -> bool {
    let first = first_name(path);
    first == "skills" || first == "memory"
}

/// Returns the reason why a file is left out. Wanted are texts of the workspace and of its memory, and all of skills that
/// cannot hold keys.
pub(super) fn reason_to_leave_out(path: &Path) -> Option<&'static str> {
    let is_text = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md"));
    match first_name(path) == "skills" {
        _ if is_text => None,
        true => may_hold_keys(path).then_some(CONFIG_OR_KEY),
        false => Some(NOT_IMPORTED),
    }
}

fn may_hold_keys(path: &Path) -> bool {
    let lower = |name: Option<&OsStr>| name.unwrap_or_default().to_string_lossy().to_lowercase();
    let (stem, ending) = (lower(path.file_stem()), lower(path.extension()));
    // As in `config.prod.json` and `service-account.json`.
    let name = stem.split('.').next().unwrap_or_default().replace('-', "_");
    let is_ssh_key = name.starts_with(SSH_KEY) && (ending.is_empty() || ending == "pub");
    is_ssh_key || PRIVATE_ENDINGS.contains(&&*ending) || PRIVATE_NAMES.contains(&&*name)
}

/// Returns the first name of a path.
pub(super) fn first_name(path: &Path) -> &OsStr {
    path.iter().next().unwrap_or_default()
}
