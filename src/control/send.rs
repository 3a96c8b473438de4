//! Messages that somebody at this machine sends by hand or by a script: through the outbox, like everything, with a
//! report of their arrival.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::Local;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

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

/// More is a file.
pub const TEXT_BYTES_MAX: usize = 100_000;

const FILES_MAX: usize = 10;

/// Of one file; what a platform takes is often less.
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
    /// The text is read as Markdown; otherwise it is shown as it is.
    #[serde(default)]
    pub markdown: bool,
}

/// The outcome of a request, in sentences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendOutcome {
    Arrived(String),
    /// It cannot be sent as it is: nothing was.
    Refused(String),
    /// It will not arrive, or not whole.
    Lost(String),
    /// It has not arrived, and is tried again while a daemon runs.
    Waits(String),
}

/// Sends it, and waits until it has arrived or has not.
pub async fn send(
    bus: &Bus,
    workspace: &Workspace,
    channels: &BTreeSet<ChannelName>,
    request: SendRequest,
) -> Result<SendOutcome, StoreError> {
    let SendRequest { to, text, files, markdown } = request;
    if let Err(words) = check(&text, &files) {
        return Ok(SendOutcome::Refused(words));
    }
    let to = match to.as_str() {
        OWNER => match bus.store.read(people::owner_place).await? {
            Some(owner) => owner,
            None => return Ok(SendOutcome::Refused(replies::NO_OWNER_PLACE.to_owned())),
        },
        to => match to.parse::<Address>() {
            Ok(to) => to,
            Err(words) => return Ok(SendOutcome::Refused(words)),
        },
    };
    if !channels.contains(&to.channel) {
        return Ok(SendOutcome::Refused(replies::no_channel(&to.channel)));
    }
    let wait = if files.is_empty() { TEXT_WAIT_MAX } else { FILES_WAIT_MAX };
    let copy = move |workspace: &Workspace| {
        files.iter().map(|file| attach(workspace, file)).collect::<Result<Vec<_>, _>>()
    };
    let files = match workspace.off_thread(copy).await {
        Ok(files) => files,
        Err(words) => return Ok(SendOutcome::Refused(words)),
    };
    let bodies = bodies(text, markdown, files);
    let put = move |store: &Connection| {
        let put = |body| outbox::put_body(store, &to, body);
        bodies.iter().map(put).collect::<rusqlite::Result<Vec<_>>>()
    };
    let ids = bus.store.write("send", Sync::Now, put).await?;
    let arrives = arrives(bus, &ids);
    bus.outbox.up();
    match timeout(wait, arrives).await {
        Ok(arrived) => arrived,
        Err(_) => standing(bus, &ids).await,
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

/// A copy of a file in the owner's downloads, where it is when it is sent, however late.
fn attach(workspace: &Workspace, file: &Path) -> Result<Attachment, String> {
    let failed = |error: io::Error| replies::unreadable_file(&file.display(), &error);
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or("file");
    // To open a pipe would wait for somebody who writes.
    let mut open = File::options();
    let from = open.read(true).custom_flags(libc::O_NONBLOCK).open(file).map_err(failed)?;
    let about = from.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(replies::unreadable_file(&file.display(), &"it is not a file"));
    }
    if about.len() > FILE_BYTES_MAX {
        return Err(replies::file_over_limit(name, FILE_BYTES_MAX));
    }
    let month = Local::now().format("%Y-%m").to_string();
    let unnamed = |error: PathError| replies::unreadable_file(&file.display(), &error);
    let of: WorkspacePath = format!("{DOWNLOADS}/{name}").parse().map_err(unnamed)?;
    let copied = workspace.copy_in(from.take(FILE_BYTES_MAX), &of, &month);
    let path = copied.map_err(|error| replies::unreadable_file(&file.display(), &error))?;
    Ok(Attachment {
        name: name.to_owned(),
        kind: chunking::kind_of(name),
        caption: String::new(),
        printed: false,
        content: Content::Workspace(path.to_string()),
    })
}

/// The text stands under the first file.
fn bodies(text: String, markdown: bool, mut files: Vec<Attachment>) -> Vec<Body> {
    let alone = match files.first_mut() {
        Some(first) => {
            (first.caption, first.printed) = (text, !markdown);
            None
        }
        None if markdown => Some(Body::Text(text)),
        None => Some(Body::Printed(text)),
    };
    files.into_iter().map(Body::File).chain(alone).collect()
}

/// Returns the state of the deliveries.
async fn standing(bus: &Bus, ids: &[DeliveryId]) -> Result<SendOutcome, StoreError> {
    let ids = ids.to_vec();
    let look = move |store: &Connection| {
        let look = |id: &DeliveryId| {
            let (state, reason) = outbox::standing(store, *id)?;
            Ok((state, reason, outbox::has_lost_file(store, *id)?))
        };
        ids.iter().map(look).collect::<rusqlite::Result<Vec<_>>>()
    };
    let (mut waits, mut lost) = (None, false);
    for (state, reason, has_lost_file) in bus.store.read(look).await? {
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

/// Waits for the outcome; deliveries say whenever one of them has got further.
async fn arrives(bus: &Bus, ids: &[DeliveryId]) -> Result<SendOutcome, StoreError> {
    let mut moved = bus.outbox.watch();
    loop {
        moved.mark_unchanged();
        match standing(bus, ids).await? {
            waits @ SendOutcome::Waits(_) => {
                if moved.changed().await.is_err() {
                    return Ok(waits);
                }
            }
            sent => return Ok(sent),
        }
    }
}
