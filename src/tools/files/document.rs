//! The text of documents for `read_file`. It is stored in the record of the file, not in the file.

use super::{PAGE_BYTES_MAX, ReadFileArgs, show_page};
use crate::memory::attachments;
use crate::tools::{ToolContext, ToolError, ToolOutput};
use crate::workspace::{FilePage, Workspace};

/// Returns a page of the text of a document that somebody sent. None if its text is unknown.
pub(super) async fn read(
    args: &ReadFileArgs,
    cx: &ToolContext,
) -> Result<Option<ToolOutput>, ToolError> {
    let (reader, requested) = (cx.reader(), args.path.clone());
    let open = move |workspace: &Workspace| {
        let file = reader.open(workspace, &requested)?;
        let (path, source) = (file.path().clone(), file.source());
        let (_, size) = file.into_file();
        Ok::<_, ToolError>((path, source, size))
    };
    let (path, source, size) = cx.workspace.run_blocking(open).await?;
    let document_path = path.clone();
    let find_text =
        move |store: &rusqlite::Connection| attachments::text_of(store, &document_path, size);
    let Some(text) = cx.actions.store.read(find_text).await? else { return Ok(None) };
    let limit = args.limit.clamp(1, PAGE_BYTES_MAX) + 3;
    let begin = usize::try_from(args.offset).unwrap_or(usize::MAX).min(text.len());
    let end = begin.saturating_add(usize::try_from(limit).unwrap_or(usize::MAX)).min(text.len());
    let bytes = text.as_bytes()[begin..end].to_vec();
    let page = FilePage { bytes, size: text.len() as u64 };
    show_page(args, &path, source, &page).map(Some)
}
