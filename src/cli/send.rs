//! `peacrab send`: a message of a script's, by way of the daemon that runs. Where none runs, this process sends it.

use std::io::{IsTerminal as _, Read as _, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::chat::{self, LostConnection};
use super::invocation::Invocation;
use super::print::{self, ResultForm};
use crate::channels::markup::unescaped;
use crate::control::send::{SendOutcome, SendRequest, TEXT_BYTES_MAX};
use crate::control::{ControlRequest, Response};
use crate::daemon::Daemon;
use crate::replies;

/// Makes the request: a given text, or else without files the standard input.
pub(super) fn request(
    to: String,
    files: Vec<PathBuf>,
    text: Option<String>,
    markdown: bool,
) -> anyhow::Result<SendRequest> {
    let text = match text {
        Some(text) if text != "-" => text,
        None if !files.is_empty() => String::new(),
        text => {
            if text.is_none() && stdin().is_terminal() {
                bail!("there is nothing to send: give a text, or pipe one in");
            }
            let mut read = String::new();
            // One more than fits, which is then refused in words.
            let most = TEXT_BYTES_MAX as u64 + 1;
            stdin()
                .take(most)
                .read_to_string(&mut read)
                .context("cannot read the text from standard input")?;
            read.trim_end().to_owned()
        }
    };
    let absolute = |file: PathBuf| {
        std::path::absolute(&file).with_context(|| format!("cannot find {}", file.display()))
    };
    let files = files.into_iter().map(absolute).collect::<Result<_, _>>()?;
    Ok(SendRequest { to, text, files, markdown })
}

/// Sends the message, and gives the exit code for what became of it.
pub(super) async fn handle(
    on: &Invocation,
    request: SendRequest,
    form: ResultForm,
) -> anyhow::Result<ExitCode> {
    let to = request.to.clone();
    let sent = match through_socket(&on.home, &request).await? {
        Some(sent) => sent,
        None => {
            let daemon = Daemon::open(on.plan(on.prepare()?)?).await?;
            daemon.send(request).await?
        }
    };
    if form == ResultForm::Json {
        print::json(&as_json(&sent, &to));
    }
    Ok(tell(&sent, form))
}

/// Returns the daemon's response. None if no daemon runs.
pub(super) async fn through_socket(
    home: &Path,
    request: &SendRequest,
) -> anyhow::Result<Option<SendOutcome>> {
    if !chat::is_reached(home).await? {
        return Ok(None);
    }
    match chat::ask(home, &ControlRequest::Send(request.clone())).await {
        Ok(Response::Sent(sent)) => Ok(Some(sent)),
        Ok(_) => bail!("the daemon's answer is unexpected: if it runs another version, restart it"),
        Err(error) if error.downcast_ref() == Some(&LostConnection::Unanswered) => {
            Ok(Some(SendOutcome::Waits(replies::DELIVERY_UNKNOWN.to_owned())))
        }
        Err(error) => Err(error),
    }
}

/// Returns the outcome for a script, with its explanation. A request that was refused, of which nothing was sent, has an error
/// in its place.
fn as_json(sent: &SendOutcome, to: &str) -> Value {
    let (outcome, words) = match sent {
        SendOutcome::Arrived(words) => ("delivered", words),
        SendOutcome::Refused(words) => return json!({ "error": unescaped(words) }),
        SendOutcome::Lost(words) => ("lost", words),
        SendOutcome::Waits(words) => ("waits", words),
    };
    json!({ "to": to, "outcome": outcome, "words": unescaped(words) })
}

/// It will not arrive, or not whole.
const LOST: u8 = 3;

/// It has not arrived yet.
const WAITS: u8 = 4;

/// Says what became of it, and gives the exit code for that.
fn tell(sent: &SendOutcome, form: ResultForm) -> ExitCode {
    let (words, code) = match sent {
        SendOutcome::Arrived(words) => {
            if form == ResultForm::Words {
                print::line(words);
            }
            return ExitCode::SUCCESS;
        }
        SendOutcome::Refused(words) => (words, ExitCode::FAILURE),
        SendOutcome::Lost(words) => (words, ExitCode::from(LOST)),
        SendOutcome::Waits(words) => (words, ExitCode::from(WAITS)),
    };
    print::error(&format!("peacrab: {}", unescaped(words)));
    code
}
