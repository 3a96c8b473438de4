//! Where a secret can stand: in the config itself, in a variable, in a file, or among systemd's
//! credentials. No message says what any of them holds.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::secret::Secret;

use super::fault::Place;
use super::reading::{Located, Source, nearest};

/// Far more than any key or token has.
const BYTES_MAX: u64 = 16 * 1024;

const SOURCES: [&str; 3] = ["env", "file", "credential"];

/// Reads a string or one of `{ env = ".." }`, `{ file = ".." }`, `{ credential = ".." }`.
pub(super) fn read(value: &Located<'_>) -> Option<Secret> {
    if value.is_text() {
        warn_if_readable_by_all(value.source, value.source.file, "holds a secret");
        return checked(value, value.text()?, "it");
    }
    let Some(table) = value.table() else {
        value.fault("must be a string or one of { env = \"..\" }, { file = \"..\" }, { credential = \"..\" }");
        return None;
    };
    let [(key, place)] = &table[..] else {
        value.fault("must name exactly one of env, file, credential");
        return None;
    };
    match *key {
        "env" => from_variable(value, place.text()?),
        "file" => {
            let folder = value.source.file.parent().unwrap_or(Path::new(""));
            from_file(value, &folder.join(place.text()?))
        }
        "credential" => from_file(value, &credential(value, place.text()?)?),
        other => {
            let hint = nearest(other, SOURCES.into_iter())
                .map(|nearest| format!("; did you mean `{nearest}`?"))
                .unwrap_or_default();
            value.fault(format!("must name one of env, file, credential{hint}"));
            None
        }
    }
}

/// The secret in a variable that starts something by itself; the variable is set.
pub(super) fn of_variable(source: &Source<'_>, variable: &str) -> Option<Secret> {
    let secret = source.env.text(variable).ok_or("is not UTF-8").and_then(clean);
    secret.map_err(|wrong| source.fault_in(Place::Environment, format!("{variable} {wrong}"))).ok()
}

fn from_variable(value: &Located<'_>, variable: &str) -> Option<Secret> {
    match value.source.env.text(variable) {
        Some(text) => checked(value, text, &format!("the variable {variable}")),
        None => {
            value.fault(format!(
                "needs the environment variable {variable}: set it, it is absent or empty"
            ));
            None
        }
    }
}

fn from_file(value: &Located<'_>, file: &Path) -> Option<Secret> {
    match read_text(file) {
        Ok(text) => {
            warn_if_readable_by_all(value.source, file, "holds a secret");
            checked(value, &text, &format!("the file {}", file.display()))
        }
        Err(error) => {
            value.fault(format!("needs the file {}: {error}", file.display()));
            None
        }
    }
}

/// Where systemd puts what `LoadCredential=` names.
fn credential(value: &Located<'_>, name: &str) -> Option<PathBuf> {
    if name.contains('/') || name == "." || name == ".." {
        value.fault("must name a credential, not a path");
        return None;
    }
    let folder = value.source.env.raw("CREDENTIALS_DIRECTORY");
    if folder.is_none() {
        value.fault(format!(
            "needs the systemd credential `{name}`, but there are none: \
             set LoadCredential={name}:/path in the unit"
        ));
    }
    folder.map(|folder| Path::new(folder).join(name))
}

fn checked(value: &Located<'_>, text: &str, whose: &str) -> Option<Secret> {
    clean(text).map_err(|wrong| value.fault(format!("cannot be used: {whose} {wrong}"))).ok()
}

/// Without what an editor or `echo` leaves at the ends.
fn clean(text: &str) -> Result<Secret, &'static str> {
    let text = text.trim();
    match text {
        "" => Err("is empty"),
        _ if text.contains(|c: char| c.is_whitespace() || c.is_control()) => {
            Err("has blanks or control characters inside")
        }
        _ => Ok(Secret::new(text)),
    }
}

fn read_text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other("it is too long for a secret"));
    }
    Ok(text)
}

#[cfg(unix)]
fn warn_if_readable_by_all(source: &Source<'_>, file: &Path, what: &str) {
    use std::os::unix::fs::PermissionsExt;
    const OTHERS_READ: u32 = 0o004;
    let readable = file.metadata().is_ok_and(|meta| meta.permissions().mode() & OTHERS_READ != 0);
    if readable {
        let file = file.display();
        source.note(format!(
            "{file} {what} and everyone on this machine can read it: chmod 600 {file}"
        ));
    }
}

#[cfg(not(unix))]
fn warn_if_readable_by_all(_: &Source<'_>, _: &Path, _: &str) {}
