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

/// What a secret may look like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Word,
    /// May have blanks inside.
    Line,
}

/// Reads a string or one of `{ env = ".." }`, `{ file = ".." }`, `{ credential = ".." }`.
pub(super) fn read(value: &Located<'_>) -> Option<Secret> {
    read_as(value, Form::Word)
}

/// As [`read`], where blanks belong to it, as in `Bearer …`.
pub(super) fn read_line(value: &Located<'_>) -> Option<Secret> {
    read_as(value, Form::Line)
}

fn read_as(value: &Located<'_>, form: Form) -> Option<Secret> {
    let checked = |text: &str, whose: &str| checked(value, form, text, whose);
    if value.is_text() {
        warn_if_readable_by_all(value.source, value.source.file, "holds a secret");
        return checked(value.text()?, "it");
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
        "env" => {
            let (text, whose) = from_variable(value, place.text()?)?;
            checked(text, &whose)
        }
        "file" => {
            let folder = value.source.file.parent().unwrap_or(Path::new(""));
            let (text, whose) = from_file(value, &folder.join(place.text()?))?;
            checked(&text, &whose)
        }
        "credential" => {
            let (text, whose) = from_file(value, &credential(value, place.text()?)?)?;
            checked(&text, &whose)
        }
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
    let secret = source.env.text(variable).ok_or("is not UTF-8");
    let secret = secret.and_then(|text| clean(text, Form::Word));
    secret.map_err(|wrong| source.fault_in(Place::Environment, format!("{variable} {wrong}"))).ok()
}

/// What the variable holds, and how messages name it.
fn from_variable<'a>(value: &Located<'a>, variable: &str) -> Option<(&'a str, String)> {
    match value.source.env.text(variable) {
        Some(text) => Some((text, format!("the variable {variable}"))),
        None => {
            value.fault(format!(
                "needs the environment variable {variable}: set it, it is absent or empty"
            ));
            None
        }
    }
}

fn from_file(value: &Located<'_>, file: &Path) -> Option<(String, String)> {
    match read_text(file) {
        Ok(text) => {
            warn_if_readable_by_all(value.source, file, "holds a secret");
            value.source.read_from(file);
            Some((text, format!("the file {}", file.display())))
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

fn checked(value: &Located<'_>, form: Form, text: &str, whose: &str) -> Option<Secret> {
    clean(text, form).map_err(|wrong| value.fault(format!("cannot be used: {whose} {wrong}"))).ok()
}

/// Without what an editor or `echo` leaves at the ends.
fn clean(text: &str, form: Form) -> Result<Secret, &'static str> {
    let text = text.trim();
    match text {
        "" => Err("is empty"),
        _ if form == Form::Line && text.contains(char::is_control) => {
            Err("has line breaks or control characters inside")
        }
        _ if form == Form::Word && text.contains(|c: char| c.is_whitespace() || c.is_control()) => {
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
