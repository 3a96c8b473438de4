//! The sources of a secret: the config itself, an environment variable, a file, or systemd's credentials. No
//! message shows the content of any.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::secret::{Secret, VariableValue};

use super::fault::FaultPlace;
use super::file::{BYTE_ORDER_MARK, open_regular};
use super::hints::hint;
use super::reading::ConfigSource;
use super::values::At;

/// Maximum size of a file with a secret, in bytes: far more than any key or token has.
const BYTES_MAX: u64 = 16 * 1024;

const SOURCES: [&str; 3] = ["env", "file", "credential"];

/// The form of a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SecretFormat {
    Word,
    /// May contain spaces.
    Line,
}

/// A secret as it stands in the file, to be looked up by [`read`]. It is not `Debug`.
#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = r#"must be a string or one of { env = ".." }, { file = ".." }, { credential = ".." }"#
)]
#[schemars(with = "String", title = "secret")]
pub(super) enum UnresolvedSecret {
    Here(String),
    Elsewhere(BTreeMap<String, String>),
}

/// Reads a secret without spaces.
pub(super) fn read(source: &ConfigSource<'_>, value: &At<UnresolvedSecret>) -> Option<Secret> {
    read_as(source, value.at, &value.value, SecretFormat::Word)
}

/// Reads a secret that may contain spaces, as in `Bearer …`.
pub(super) fn read_line(source: &ConfigSource<'_>, value: &At<UnresolvedSecret>) -> Option<Secret> {
    read_as(source, value.at, &value.value, SecretFormat::Line)
}

/// Reads the value of the variable `name`.
pub(super) fn read_setting(
    source: &ConfigSource<'_>,
    name: &str,
    value: &At<UnresolvedSecret>,
) -> Option<VariableValue> {
    match &value.value {
        UnresolvedSecret::Here(text) => Some(VariableValue::new(name, text)),
        written => {
            read_as(source, value.at, written, SecretFormat::Line).map(VariableValue::Secret)
        }
    }
}

fn read_as(
    source: &ConfigSource<'_>,
    at: usize,
    written: &UnresolvedSecret,
    form: SecretFormat,
) -> Option<Secret> {
    let found = match written {
        UnresolvedSecret::Here(text) if text.trim().is_empty() => Err("is empty".to_owned()),
        UnresolvedSecret::Here(text) => {
            warn_if_readable_by_all(source, source.file, "holds a secret");
            Ok((text.into(), "it".to_owned()))
        }
        UnresolvedSecret::Elsewhere(places) => match places.iter().next() {
            Some((place, name)) if places.len() == 1 => find(source, place, name),
            _ => Err("must name exactly one of env, file, credential".to_owned()),
        },
    };
    let (text, source_name) = found.map_err(|message| source.fault_of(at, message)).ok()?;
    let secret = clean(&text, form);
    secret
        .map_err(|message| source.fault_of(at, format!("cannot be used: {source_name} {message}")))
        .ok()
}

/// Reads the secret in a variable that starts a provider or a channel by itself. The variable is set.
pub(super) fn of_variable(source: &ConfigSource<'_>, variable: &str) -> Option<Secret> {
    let secret = source.env.text(variable).ok_or("is not UTF-8");
    let secret = secret.and_then(|text| clean(text, SecretFormat::Word));
    secret
        .map_err(|message| {
            source.fault_in(FaultPlace::Environment, format!("{variable} {message}"))
        })
        .ok()
}

/// A text, and the name of its source for messages.
type FoundSecret<'a> = Result<(Cow<'a, str>, String), String>;

fn find<'a>(source: &ConfigSource<'a>, place: &str, name: &str) -> FoundSecret<'a> {
    match place {
        "env" => match source.env.text(name) {
            Some(text) => Ok((text.into(), format!("the variable {name}"))),
            None => Err(format!(
                "needs the environment variable {name}, which is missing or empty: set it"
            )),
        },
        "file" => from_file(source, &source.folder().join(name)),
        "credential" => from_file(source, &credential(source, name)?),
        other => {
            let hint = hint(other, SOURCES.into_iter());
            Err(format!("must name one of env, file, credential{hint}"))
        }
    }
}

fn from_file<'a>(source: &ConfigSource<'_>, file: &Path) -> FoundSecret<'a> {
    let source_name = format!("the file {}", file.display());
    let text = read_text(file).map_err(|error| format!("needs {source_name}: {error}"))?;
    warn_if_readable_by_all(source, file, "holds a secret");
    source.read_from(file);
    Ok((text.into(), source_name))
}

/// Returns the file in which systemd puts the credential of `LoadCredential=`.
fn credential(source: &ConfigSource<'_>, name: &str) -> Result<PathBuf, String> {
    if name.contains('/') || name == "." || name == ".." {
        return Err("must name a credential, not a path".to_owned());
    }
    let folder = source.env.raw("CREDENTIALS_DIRECTORY").ok_or_else(|| {
        format!(
            "needs the systemd credential `{name}`, but there are none: \
             set LoadCredential={name}:/path in the unit"
        )
    })?;
    Ok(Path::new(folder).join(name))
}

/// Returns the secret without white space at the ends, which an editor or `echo` adds, and without a byte order mark.
fn clean(text: &str, form: SecretFormat) -> Result<Secret, &'static str> {
    let text = without_mark(text).trim();
    match text {
        "" => Err("is empty"),
        _ if form == SecretFormat::Line && text.contains(char::is_control) => {
            Err("contains line breaks or control characters")
        }
        _ if form == SecretFormat::Word
            && text.contains(|c: char| c.is_whitespace() || c.is_control()) =>
        {
            Err("contains spaces or control characters")
        }
        _ => Ok(Secret::new(text)),
    }
}

/// Returns the text of a file without the byte order mark with which some editors begin it.
pub fn without_mark(text: &str) -> &str {
    text.trim_start().strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

fn read_text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_regular(file)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other("it is too long for a secret"));
    }
    Ok(text)
}

#[cfg(unix)]
fn warn_if_readable_by_all(source: &ConfigSource<'_>, file: &Path, what: &str) {
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
fn warn_if_readable_by_all(_: &ConfigSource<'_>, _: &Path, _: &str) {}
