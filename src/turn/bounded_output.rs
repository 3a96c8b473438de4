//! The bound of what any tool says to a model, whatever bounds the tool itself keeps.

use crate::tools::{ToolError, ToolOutput};

/// Maximum length of any tool's output, in characters. It is above the tools' own limits. A longer output would fill
/// the disk and every later prompt.
const OUTPUT_CHARS_MAX: usize = 32_000;

/// Cuts what a tool says to the maximum length.
pub(crate) fn within_bounds(
    mut called: Result<ToolOutput, ToolError>,
) -> Result<ToolOutput, ToolError> {
    match &mut called {
        Ok(ToolOutput::Text { for_model: text, .. })
        | Err(
            ToolError::TellModel(text)
            | ToolError::Transient(text)
            | ToolError::TellUntrusted(_, text),
        ) => *text = bounded(std::mem::take(text)),
        // These are the program's own sentences.
        Ok(
            ToolOutput::Change(_)
            | ToolOutput::Effects { .. }
            | ToolOutput::Asks(_)
            | ToolOutput::Awaits(_),
        )
        | Err(ToolError::Abort(_)) => {}
    }
    called
}

fn bounded(text: String) -> String {
    match text.char_indices().nth(OUTPUT_CHARS_MAX) {
        None => text,
        Some((at, _)) => {
            format!("{}\n[Cut at {OUTPUT_CHARS_MAX} characters; the rest is lost.]", &text[..at])
        }
    }
}
