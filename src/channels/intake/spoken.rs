//! Converts a voice file into the message that the bot receives: text, or a command.

use std::time::Duration;

use tokio::time::sleep;

use super::PAUSE_GROWTH;
use crate::provider::ProviderError;
use crate::provider::transcription::Transcriber;
use crate::types::commands::{CommandId, is_known_control};
use crate::workspace::{OpenedFile, Workspace, WorkspacePath};

/// Maximum attempts at a transcript while the endpoint may still succeed.
const ATTEMPTS_MAX: u32 = 3;

/// Transcribes a file, with retries. Returns an explanation if it fails.
pub(super) async fn words(
    transcriber: &Transcriber,
    workspace: &Workspace,
    path: &WorkspacePath,
    pause: Duration,
) -> Result<String, String> {
    let mut wait = pause;
    for attempt in 1.. {
        let target = path.clone();
        let open = move |workspace: &Workspace| {
            workspace.open_without_links(&target).map(OpenedFile::into_file)
        };
        let opened = workspace.run_blocking(open).await;
        let (file, length) = opened.map_err(|error| error.to_string())?;
        match transcriber.transcribe(&accepted_name(path.name()), file, length).await {
            Ok(transcript) => return Ok(command(&transcript).unwrap_or(transcript)),
            Err(ProviderError::Busy { after, .. }) if attempt < ATTEMPTS_MAX => {
                sleep(after.unwrap_or(wait)).await;
                wait *= PAUSE_GROWTH;
            }
            Err(ProviderError::Broken(_) | ProviderError::Stalled(_)) if attempt < ATTEMPTS_MAX => {
                sleep(wait).await;
                wait *= PAUSE_GROWTH;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    unreachable!("the last attempt returns")
}

/// Returns the name with an extension that endpoints know. A format may have several extensions, of which
/// they accept one (OpenAI, Audio API: flac, mp3, mp4, mpeg, mpga, m4a, ogg, wav, webm).
fn accepted_name(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((stem, "oga" | "opus")) => format!("{stem}.ogg"),
        _ => name.to_owned(),
    }
}

/// Returns the spoken command: "slash status", or the one word that must not wait, "stop".
pub fn command(transcript: &str) -> Option<String> {
    let is_kept = |c: char| c.is_alphanumeric() || c == '/' || c.is_whitespace();
    let plain: String = transcript.to_lowercase().chars().filter(|c| is_kept(*c)).collect();
    let plain: Vec<&str> = plain.split_whitespace().collect();
    let command = match plain[..] {
        ["stop"] => CommandId::Stop.line(""),
        ["slash", word] | ["/", word] => format!("/{word}"),
        [word] if word.starts_with('/') => word.to_owned(),
        _ => return None,
    };
    is_known_control(&command).then_some(command)
}
