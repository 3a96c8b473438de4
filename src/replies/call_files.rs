//! The files of a call, as people who decide about it are shown them.

use super::visible::visible;
use crate::types::call_files::CallFiles;

/// Lists the files that a call sends, with their sizes, or the links by which its command sees a path. None if there are
/// none.
pub fn shown_files(files: &CallFiles) -> Option<String> {
    let sent = files.sent().iter();
    let sent: Vec<_> =
        sent.map(|file| format!("{} ({} bytes)", visible(&file.path), file.size)).collect();
    if !sent.is_empty() {
        return Some(format!("Files, exactly as they are now: {}", sent.join(", ")));
    }
    let links = files.links();
    let links: Vec<_> = links
        .map(|seen| format!("{} leads to {}", visible(&seen.path), visible(&seen.leads_to)))
        .collect();
    (!links.is_empty()).then(|| format!("Links, as they are now: {}", links.join(", ")))
}
