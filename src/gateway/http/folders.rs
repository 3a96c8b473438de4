//! The files of a person, to list and to download: those that a private turn of this person reaches, and no
//! others. Nothing is changed here.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::fs::File;

use super::access::WebPerson;
use super::guard::QueryFields;
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use super::stream::pieces;
use crate::memory::file_scope;
use crate::people::Role;
use crate::people::folders::folder_owner;
use crate::types::message::ChatKind;
use crate::workspace::folders::{DOWNLOADS, SHARED};
use crate::workspace::{
    EntryKind, FileError, FileScope, FolderListing, ListingEntry, Workspace, WorkspacePath,
};

/// The minimum role that has files, as for the tools that read them.
const LEAST_ROLE: Role = Role::User;

/// Maximum number of listed entries of a folder.
const ENTRIES_MAX: usize = 1_000;

/// The path of a file or folder, as tools show it.
#[derive(Deserialize)]
pub(super) struct PathAsked {
    path: Option<String>,
}

/// An entry of a folder.
#[derive(Serialize)]
struct FolderEntry {
    name: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

/// A folder as it is listed.
struct ShownFolder {
    /// True if others may have written its content.
    is_untrusted: bool,
    entries: Vec<FolderEntry>,
    is_cut: bool,
}

impl HttpGateway {
    /// Returns the files that a person reaches.
    async fn files_of(&self, person: &WebPerson) -> Result<FileScope, HttpRefusal> {
        if person.role < LEAST_ROLE {
            return Err(HttpRefusal::new(StatusCode::FORBIDDEN, "this is not for your role"));
        }
        let (channel, sender) = (self.web.name().clone(), person.id.clone());
        let owner = move |store: &Connection| folder_owner(store, &channel, &sender);
        let owner = self.services().bus.store.read(owner).await?;
        let address = self.web.address(&person.id, "");
        Ok(file_scope(person.role, ChatKind::Private, &address, &owner))
    }
}

/// `GET /workspace`
pub(super) async fn list(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    QueryFields(PathAsked { path }): QueryFields<PathAsked>,
) -> Result<Json<Value>, HttpRefusal> {
    let scope = gateway.files_of(&person).await?;
    let path = path.filter(|path| !path.is_empty()).map(|path| parse(&path)).transpose()?;
    let asked = path.clone();
    let workspace = &gateway.services().workspace;
    let shown = workspace.run_blocking(move |workspace| match asked {
        Some(path) => shown_folder(workspace, &scope, &path),
        None => shown_root(workspace, &scope),
    });
    let ShownFolder { is_untrusted, entries, is_cut } =
        shown.await.map_err(|error| refusal_of(&error))?;
    let path = path.map(|path| path.to_string()).unwrap_or_default();
    Ok(Json(json!({
        "path": path, "untrusted": is_untrusted, "entries": entries, "cut": is_cut,
    })))
}

/// `GET /workspace/file`: always as a file to save, whatever is in it.
pub(super) async fn file(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    QueryFields(PathAsked { path }): QueryFields<PathAsked>,
) -> Result<Response, HttpRefusal> {
    let scope = gateway.files_of(&person).await?;
    let path = parse(&path.unwrap_or_default())?;
    let workspace = &gateway.services().workspace;
    let name = path.name().to_owned();
    let opened = workspace.run_blocking(move |workspace| {
        workspace.open_for(&scope.path(&path), &scope).map(|file| file.into_file().0)
    });
    let content = File::from_std(opened.await.map_err(|error| refusal_of(&error))?);
    let mut response = Body::from_stream(pieces(content)).into_response();
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    let disposition = format!("attachment; filename*=UTF-8''{}", percent_encoded(&name));
    let disposition = HeaderValue::try_from(disposition);
    let disposition = disposition.unwrap_or_else(|_| HeaderValue::from_static("attachment"));
    headers.insert(header::CONTENT_DISPOSITION, disposition);
    Ok(response)
}

fn parse(path: &str) -> Result<WorkspacePath, HttpRefusal> {
    path.parse().map_err(|error| HttpRefusal::bad(format!("{error}")))
}

fn refusal_of(error: &FileError) -> HttpRefusal {
    match error {
        FileError::Folder(_) => HttpRefusal::bad("this is a folder"),
        FileError::NotAFolder(_) => HttpRefusal::bad("this is not a folder"),
        FileError::Special(_) => HttpRefusal::bad("this is not a regular file"),
        FileError::Io { .. } => {
            tracing::warn!(%error, "The gateway cannot read a file");
            HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, "the file cannot be read")
        }
        // The refusal does not reveal if the file exists.
        _ => HttpRefusal::not_found("there is no such file or folder"),
    }
}

fn shown_folder(
    workspace: &Workspace,
    scope: &FileScope,
    path: &WorkspacePath,
) -> Result<ShownFolder, FileError> {
    let path = scope.path(path);
    let is_new = path == scope.downloads() || path == WorkspacePath::shared();
    let listing = match workspace.open_folder_for(&path, scope) {
        Ok(folder) => folder.list(),
        // The folder is created with its first file.
        Err(FileError::Missing(_)) if is_new => FolderListing::default(),
        Err(error) => return Err(error),
    };
    let is_cut = listing.cut || listing.entries.len() > ENTRIES_MAX;
    let entries = listing.entries.into_iter().take(ENTRIES_MAX).map(entry);
    Ok(ShownFolder { is_untrusted: path.is_untrusted(), entries: entries.collect(), is_cut })
}

/// Lists the root: the person's workspace, with the untrusted folders beside it.
fn shown_root(workspace: &Workspace, scope: &FileScope) -> Result<ShownFolder, FileError> {
    let folder = match scope.root() {
        None => Some(workspace.open_folder(None)?),
        // The folder is created with its first file.
        Some(path) => workspace.open_folder_for(&path, scope).ok(),
    };
    let listing = folder.map(|folder| folder.list()).unwrap_or_default();
    let is_cut = listing.cut || listing.entries.len() > ENTRIES_MAX;
    let own = listing.entries.into_iter().take(ENTRIES_MAX);
    // A folder of that name in the workspace is shown with the one beside it.
    let own = own.filter(|entry| ![DOWNLOADS, SHARED].contains(&entry.name.as_str())).map(entry);
    let beside = [DOWNLOADS, SHARED].map(|name| FolderEntry {
        name: name.to_owned(),
        kind: "folder",
        size: None,
    });
    Ok(ShownFolder {
        is_untrusted: false,
        entries: beside.into_iter().chain(own).collect(),
        is_cut,
    })
}

fn entry(ListingEntry { name, kind }: ListingEntry) -> FolderEntry {
    let (kind, size) = match kind {
        EntryKind::File(size) => ("file", Some(size)),
        EntryKind::Folder => ("folder", None),
        EntryKind::Link => ("link", None),
        EntryKind::Special => ("special", None),
    };
    FolderEntry { name, kind, size }
}

/// Encodes a file name as RFC 5987 requires.
fn percent_encoded(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
}
