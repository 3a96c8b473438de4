//! The tool that sends messages beside the answer: text, files, and questions with buttons.

use std::io::Read as _;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    CallPlace, Effect, Reach, Tool, ToolContext, ToolError, ToolOutput, ToolReader, ToolSpec,
    without_nulls,
};
use crate::channels::chunking::kind_of;
use crate::people::Role;
use crate::trust::acts::CrossChatMessage;
use crate::types::call_files::{CallFiles, SentFile};
use crate::types::message::{
    Address, AllowedPressers, Attachment, Body, ChatKind, Choice, Content, Question,
};
use crate::types::session::{Call, CallOutcome};
use crate::workspace::{FileError, OpenedFile, Workspace, WorkspacePath};

const NAME: &str = "message";

/// Maximum length of a text, in characters. A longer one belongs in a file.
const TEXT_CHARS_MAX: usize = 20_000;

const FILES_MAX: usize = 10;

/// Maximum size of one file, in bytes. A platform's limit is often lower, and is reported when the file
/// is sent.
const FILE_BYTES_MAX: u64 = 50_000_000;

/// More buttons would be a list rather than a choice.
const CHOICES_MAX: usize = 8;

/// Maximum length of a label: it fits on a button everywhere (Slack: 75 characters, Discord: 80).
const LABEL_CHARS_MAX: usize = 60;

pub struct SendMessage;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    #[serde(default)]
    text: String,
    /// CHANNEL:CHAT or CHANNEL:CHAT:THREAD; else here.
    #[serde(default)]
    to: String,
    #[serde(default)]
    files: Vec<WorkspacePath>,
    /// Buttons.
    #[serde(default)]
    choices: Vec<String>,
}

#[async_trait]
impl Tool for SendMessage {
    type Args = Args;
    const SPEC: ToolSpec = ToolSpec::queues(
        NAME,
        "Send a message besides your answer: elsewhere, here while you go on, or with files or \
         buttons. Your answer itself needs no tool.",
    );

    fn reach(args: &Args, here: &Address) -> Reach {
        match args.to.trim() {
            "" => Reach::Here,
            to if to.parse().as_ref() == Ok(here) => Reach::Here,
            to => to.parse().map_or(Reach::Outside, |to| Reach::Tell(telling(args, to))),
        }
    }

    fn check_args(&self, args: &Args, place: &CallPlace<'_>) -> Result<(), String> {
        let to = receiver(args, place.at)?;
        check_content(args)?;
        if place.channels.is_some_and(|channels| !channels.contains(&to.channel)) {
            return Err(format!("there is no channel `{}`.", to.channel));
        }
        if to != *place.at && place.role < Role::Admin {
            return Err(
                "Denied: only an admin or the owner may have messages sent elsewhere. Say it here."
                    .to_owned(),
            );
        }
        Ok(())
    }

    async fn call_files(
        &self,
        args: Args,
        cx: &ToolContext,
    ) -> Result<Option<CallFiles>, ToolError> {
        let reader = cx.reader();
        let read = move |workspace: &Workspace| sent_files(workspace, &args.files, &reader);
        let sent = cx.workspace.run_blocking(read).await?;
        Ok((!sent.is_empty()).then_some(CallFiles::Sends(sent)))
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let to = receiver(&args, &cx.address).map_err(ToolError::TellModel)?;
        let Args { text, files, choices, .. } = args;
        let reader = cx.reader();
        let month = cx.now.format("%Y-%m").to_string();
        let copy = move |workspace: &Workspace| copies_of(workspace, files, &reader, &month);
        let attached = cx.workspace.run_blocking(copy).await?;
        let for_model = match attached.len() {
            0 => format!("The message to {to} is on its way."),
            n => format!("The message to {to} is on its way, with {n} file(s)."),
        };
        let choices = self::choices(&choices).map_err(ToolError::TellModel)?;
        let bodies = bodies(text, attached, choices, who_presses(&to, cx));
        let send = |body| Effect::Send { to: to.clone(), body, tainted: cx.tainted };
        let effects = bodies.into_iter().map(send).collect();
        Ok(ToolOutput::Effects { for_model, effects })
    }
}

fn telling(args: &Args, to: Address) -> CrossChatMessage {
    let is_text = args.files.is_empty() && args.choices.is_empty();
    CrossChatMessage { to, text: is_text.then(|| args.text.clone()) }
}

/// Returns the address of the message, or an explanation for the model.
fn receiver(args: &Args, here: &Address) -> Result<Address, String> {
    match args.to.trim() {
        "" => Ok(here.clone()),
        to => to.parse(),
    }
}

/// Returns an explanation for the model if nobody could be sent this.
fn check_content(args: &Args) -> Result<(), String> {
    let no_text = args.text.trim().is_empty();
    if no_text && !args.choices.is_empty() {
        return Err("text is empty: buttons stand under a question.".to_owned());
    }
    if no_text && args.files.is_empty() {
        return Err("text is empty.".to_owned());
    }
    if args.text.chars().count() > TEXT_CHARS_MAX {
        return Err(format!("text is longer than {TEXT_CHARS_MAX} characters."));
    }
    if args.files.len() > FILES_MAX {
        return Err(format!("at most {FILES_MAX} files can be sent at once."));
    }
    choices(&args.choices).map(drop)
}

/// Returns the buttons of these labels, or an explanation for the model.
pub(super) fn choices(labels: &[String]) -> Result<Vec<Choice>, String> {
    if labels.len() > CHOICES_MAX {
        return Err(format!("at most {CHOICES_MAX} choices fit under a question."));
    }
    let labels: Vec<_> = labels.iter().map(|label| label.trim()).collect();
    for (at, label) in labels.iter().enumerate() {
        let length = label.chars().count();
        if !(1..=LABEL_CHARS_MAX).contains(&length) || label.chars().any(char::is_control) {
            return Err(format!("a choice has one line of 1 to {LABEL_CHARS_MAX} characters."));
        }
        // The person who presses it sends its text, and may have a higher role than the one who asked.
        if label.starts_with('/') {
            return Err("a choice cannot be a command.".to_owned());
        }
        if labels[..at].contains(label) {
            return Err(format!("the choice `{label}` is there twice."));
        }
    }
    let choice = |label: &&str| Choice { label: (*label).to_owned(), says: (*label).to_owned() };
    Ok(labels.iter().map(choice).collect())
}

/// Returns who may press the buttons: in the asking group the person who asked, elsewhere everybody admitted there.
fn who_presses(to: &Address, cx: &ToolContext) -> AllowedPressers {
    match cx.chat_kind {
        ChatKind::Group if *to == cx.address => AllowedPressers::Only(cx.who.id.clone()),
        ChatKind::Group | ChatKind::Private => AllowedPressers::Anyone,
    }
}

/// Copies the files as they are now, because they may be sent much later. Returns an error unless all of them
/// exist and the reader may see them.
pub(crate) fn copies_of(
    workspace: &Workspace,
    files: Vec<WorkspacePath>,
    reader: &ToolReader,
    month: &str,
) -> Result<Vec<Attachment>, ToolError> {
    let attach = |path: WorkspacePath| {
        let file = open_to_send(workspace, &path, reader)?;
        let path = file.path().clone();
        let (content, _) = file.into_file();
        let copy = workspace.copy_in(content.take(FILE_BYTES_MAX), &path, month)?;
        Ok(Attachment {
            name: path.name().to_owned(),
            kind: kind_of(path.name()),
            caption: String::new(),
            printed: false,
            content: Content::Copy { copy: copy.to_string(), original: path.to_string() },
        })
    };
    files.into_iter().map(attach).collect()
}

/// Opens a file that is to be sent.
fn open_to_send(
    workspace: &Workspace,
    path: &WorkspacePath,
    reader: &ToolReader,
) -> Result<OpenedFile, ToolError> {
    let file = reader.open(workspace, path)?;
    if file.size() > FILE_BYTES_MAX {
        let most = FILE_BYTES_MAX / 1_000_000;
        let message = format!("{} is too big to be sent: at most {most} MB.", file.path());
        return Err(ToolError::TellModel(message));
    }
    Ok(file)
}

/// Returns the files as people are shown them before they are sent.
fn sent_files(
    workspace: &Workspace,
    files: &[WorkspacePath],
    reader: &ToolReader,
) -> Result<Vec<SentFile>, ToolError> {
    let sent = |path| {
        let file = open_to_send(workspace, path, reader)?;
        sent_file(file.path().to_string(), file).map_err(ToolError::from)
    };
    files.iter().map(sent).collect()
}

/// Returns a file as people are shown it before it is sent.
pub(crate) fn sent_file(path: String, file: OpenedFile) -> Result<SentFile, FileError> {
    let size = file.size();
    Ok(SentFile { path, size, hash: file.hash()?.to_string() })
}

/// Returns the bodies to send. The text is the first file's caption, or below all files with its buttons.
fn bodies(
    text: String,
    mut files: Vec<Attachment>,
    choices: Vec<Choice>,
    who: AllowedPressers,
) -> Vec<Body> {
    let last = match (choices.is_empty(), files.first_mut()) {
        (true, Some(first)) => {
            first.caption = text;
            None
        }
        (true, None) => Some(Body::Text(text)),
        (false, _) => Some(Body::Choice(Question::new(text, choices, who))),
    };
    files.into_iter().map(Body::File).chain(last).collect()
}

/// Returns the text that a call of this tool sent to `here`, so that the answer need not repeat it.
pub fn sent_here(call: &Call, here: &Address) -> Option<String> {
    if call.tool != NAME || !matches!(call.outcome, CallOutcome::Done(_)) {
        return None;
    }
    let args: Args = without_nulls(&call.arguments).ok()?;
    let to = args.to.trim();
    (to.is_empty() || to.parse().as_ref() == Ok(here)).then_some(args.text)
}
