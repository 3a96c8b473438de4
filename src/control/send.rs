//! Sends messages of a person or a script on this machine. They go through the outbox, like all messages, and
//! the outcome is reported.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::Local;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::bus::{Bus, outbox};
use crate::channels::chunking;
use crate::people;
use crate::replies;
use crate::store::{StoreError, Sync};
use crate::types::message::{Address, Attachment, Body, ChannelName, Content, DeliveryId};
use crate::workspace::folders::DOWNLOADS;
use crate::workspace::{PathError, Workspace, WorkspacePath};

/// Maximum wait for the delivery of a text; the next constant is for files. A little longer than one attempt takes.
const TEXT_WAIT_MAX: Duration = Duration::from_secs(45);
const FILES_WAIT_MAX: Duration = Duration::from_secs(330);

/// Maximum size of a text, in bytes. A longer one has to be a file.
pub const TEXT_BYTES_MAX: usize = 100_000;

const FILES_MAX: usize = 10;

/// Maximum size of one file, in bytes. Platforms often accept less.
const FILE_BYTES_MAX: u64 = 50_000_000;

/// The word that stands for the owner in place of an address.
const OWNER: &str = "owner";

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// `CHANNEL:CHAT`, `CHANNEL:CHAT:THREAD` or `owner`.
    pub to: String,
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// True if the text is Markdown. Otherwise it is shown unchanged.
    #[serde(default)]
    pub markdown: bool,
}

/// The outcome of a request, with an explanation for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendOutcome {
    Arrived(String),
    /// The request is not valid. Nothing was sent.
    Refused(String),
    /// It will not arrive, or not completely.
    Lost(String),
    /// It has not arrived, and is tried again while a daemon runs.
    Waits(String),
}

/// Maximum wait for the delivery after the daemon was asked to end. Deliveries go on for that long.
const LAST_WAIT_MAX: Duration = Duration::from_secs(1);

/// Sends a message, and waits for its delivery, but not for long after `stop`.
pub async fn send(
    bus: &Bus,
    workspace: &Workspace,
    channels: &BTreeSet<ChannelName>,
    request: SendRequest,
    stop: &CancellationToken,
) -> Result<SendOutcome, StoreError> {
    let SendRequest { to, text, files, markdown } = request;
    if let Err(explanation) = check(&text, &files) {
        return Ok(SendOutcome::Refused(explanation));
    }
    let names_owner = to == OWNER;
    let to = match to.as_str() {
        OWNER => match bus.store.read(people::owner_address).await? {
            Some(owner) => owner,
            None => return Ok(SendOutcome::Refused(replies::NO_OWNER_ADDRESS.to_owned())),
        },
        to => match to.parse::<Address>() {
            Ok(to) => to,
            Err(explanation) => return Ok(SendOutcome::Refused(explanation)),
        },
    };
    if names_owner && !channels.contains(&to.channel) {
        return Ok(SendOutcome::Refused(replies::owner_out_of_reach(&to.channel)));
    }
    if !channels.contains(&to.channel) {
        return Ok(SendOutcome::Refused(replies::no_channel(&to.channel)));
    }
    let wait = if files.is_empty() { TEXT_WAIT_MAX } else { FILES_WAIT_MAX };
    let copy = move |workspace: &Workspace| {
        files.iter().map(|file| attach(workspace, file)).collect::<Result<Vec<_>, _>>()
    };
    let files = match workspace.run_blocking(copy).await {
        Ok(files) => files,
        Err(explanation) => return Ok(SendOutcome::Refused(explanation)),
    };
    let bodies = bodies(text, markdown, files);
    let put_all = move |store: &Connection| {
        let put = |body| outbox::put_body(store, &to, body);
        bodies.iter().map(put).collect::<rusqlite::Result<Vec<_>>>()
    };
    let ids = bus.store.write("send", Sync::Now, put_all).await?;
    let outcome = wait_for_outcome(bus, &ids);
    bus.outbox.notify();
    let is_ending = async {
        stop.cancelled().await;
        sleep(LAST_WAIT_MAX).await;
    };
    tokio::select! {
        biased;
        outcome = timeout(wait, outcome) => match outcome {
            Ok(outcome) => outcome,
            Err(_) => read_outcome(bus, &ids).await,
        },
        () = is_ending => Ok(match read_outcome(bus, &ids).await? {
            SendOutcome::Waits(_) => SendOutcome::Waits(replies::DELIVERED_AFTER_RESTART.to_owned()),
            outcome => outcome,
        }),
    }
}

fn check(text: &str, files: &[PathBuf]) -> Result<(), String> {
    if text.trim().is_empty() && files.is_empty() {
        return Err(replies::NOTHING_TO_SEND.to_owned());
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(replies::too_long_to_send(TEXT_BYTES_MAX));
    }
    if files.len() > FILES_MAX {
        return Err(replies::too_many_to_send(FILES_MAX));
    }
    Ok(())
}

/// Copies a file into the owner's downloads, where it stays until it is sent. The error is for people.
fn attach(workspace: &Workspace, file: &Path) -> Result<Attachment, String> {
    let failed = |error: io::Error| replies::unreadable_file(&file.display(), &error);
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or("file");
    // Otherwise, to open a pipe would wait for a writer.
    let mut open = File::options();
    let source = open.read(true).custom_flags(libc::O_NONBLOCK).open(file).map_err(failed)?;
    let metadata = source.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(replies::unreadable_file(&file.display(), &"it is not a file"));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(replies::file_over_limit(name, FILE_BYTES_MAX));
    }
    let month = Local::now().format("%Y-%m").to_string();
    let unnamed = |error: PathError| replies::unreadable_file(&file.display(), &error);
    let target: WorkspacePath = format!("{DOWNLOADS}/{name}").parse().map_err(unnamed)?;
    let copied = workspace.copy_in(source.take(FILE_BYTES_MAX), &target, &month);
    let path = copied.map_err(|error| replies::unreadable_file(&file.display(), &error))?;
    Ok(Attachment {
        name: name.to_owned(),
        kind: chunking::kind_of(name),
        caption: String::new(),
        printed: false,
        content: Content::Workspace(path.to_string()),
    })
}

/// Returns the messages to send. The text becomes the caption of the first file.
fn bodies(text: String, markdown: bool, mut files: Vec<Attachment>) -> Vec<Body> {
    let text_body = match files.first_mut() {
        Some(first) => {
            (first.caption, first.printed) = (text, !markdown);
            None
        }
        None if markdown => Some(Body::Text(text)),
        None => Some(Body::Printed(text)),
    };
    files.into_iter().map(Body::File).chain(text_body).collect()
}

/// Returns the outcome of the deliveries at this moment.
async fn read_outcome(bus: &Bus, ids: &[DeliveryId]) -> Result<SendOutcome, StoreError> {
    let ids = ids.to_vec();
    let read_states = move |store: &Connection| {
        let read_state = |id: &DeliveryId| {
            let (state, reason) = outbox::state(store, *id)?;
            Ok((state, reason, outbox::has_lost_file(store, *id)?))
        };
        ids.iter().map(read_state).collect::<rusqlite::Result<Vec<_>>>()
    };
    let (mut waits, mut lost) = (None, false);
    for (state, reason, has_lost_file) in bus.store.read(read_states).await? {
        lost |= has_lost_file;
        match state.as_str() {
            "sent" => {}
            "dead" => {
                return Ok(SendOutcome::Lost(replies::not_delivered(&reason.unwrap_or_default())));
            }
            _ => waits = Some(reason.unwrap_or_default()),
        }
    }
    Ok(match waits {
        Some(reason) => SendOutcome::Waits(replies::not_delivered_yet(&reason)),
        None if lost => SendOutcome::Lost(replies::WORDS_FOR_FILE.to_owned()),
        None => SendOutcome::Arrived(replies::DELIVERED.to_owned()),
    })
}

/// Waits for the final outcome. Reads it again whenever the outbox reports a change.
async fn wait_for_outcome(bus: &Bus, ids: &[DeliveryId]) -> Result<SendOutcome, StoreError> {
    let mut outbox_changes = bus.outbox.watch();
    loop {
        outbox_changes.mark_unchanged();
        match read_outcome(bus, ids).await? {
            waits @ SendOutcome::Waits(_) => {
                if outbox_changes.changed().await.is_err() {
                    return Ok(waits);
                }
            }
            sent => return Ok(sent),
        }
    }
}
