//! `peacrab undo`: undoes a change of a file, as `/undo` does. For scripts, also the actions that can be undone, and which
//! action has undone one.

use std::process::ExitCode;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::chat;
use super::invocation::Invocation;
use super::print::{self, ResultForm};
use super::talk::ask_command;
use crate::channels::markup::unescaped;
use crate::conversation::actions::{Action, UNDO, UndoState};
use crate::types::commands::CommandId;
use crate::types::session::CallId;

/// The last actions among which those that can be undone are listed.
const LISTED_MAX: usize = 200;

/// The last actions among which an undo is looked for that was made a moment ago.
const JUST_MADE_MAX: usize = 20;

#[derive(Args)]
pub(super) struct UndoArguments {
    /// The number of the action, as `actions` shows it; with --json, nothing lists those that can be undone
    #[arg(required_unless_present = "json")]
    id: Option<u64>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// An action that can be undone: an entry of the JSON of `peacrab undo`.
#[derive(Serialize)]
struct UndoableAction {
    /// The number by which it is undone.
    id: CallId,
    at: DateTime<Utc>,
    tool: String,
    /// The arguments of the tool, cut as in `peacrab actions`.
    input: String,
    /// The person for whom it was done.
    person: String,
}

/// An undo that was made: the JSON of `peacrab undo NUMBER`.
#[derive(Serialize)]
struct UndoResult {
    /// The action that was undone.
    undone: u64,
    /// The action that has undone it. It can be undone by its own number.
    action: CallId,
    /// The sentence for people.
    words: String,
}

/// Undoes an action, or lists those that can be undone.
pub(super) async fn handle(on: &Invocation, asked: UndoArguments) -> anyhow::Result<ExitCode> {
    const FAILED: &str = "nothing was undone";
    let done = match asked {
        UndoArguments { id: Some(id), json } => {
            let command = CommandId::Undo.line(id);
            let asked = ask_command(on, command, FAILED, ResultForm::of(json));
            let undone = Box::pin(asked).await;
            if !json {
                return undone;
            }
            match undone {
                Ok(_) => find_undo(on, id).await,
                Err(error) => Err(error),
            }
        }
        UndoArguments { id: None, .. } => list(on).await,
    };
    print::json(&done?);
    Ok(ExitCode::SUCCESS)
}

/// Returns the actions that can be undone, newest first.
async fn list(on: &Invocation) -> anyhow::Result<Value> {
    let actions = chat::actions(&on.home, LISTED_MAX).await?.into_iter();
    let open = actions.filter(|action| action.undo == UndoState::Open);
    let open = open.map(|Action { id, at, tool, input, person, .. }| UndoableAction {
        id,
        at,
        tool,
        input,
        person,
    });
    Ok(serde_json::to_value(open.collect::<Vec<_>>())?)
}

/// Returns the undo that was made just now.
async fn find_undo(on: &Invocation, id: u64) -> anyhow::Result<Value> {
    let actions = chat::actions(&on.home, JUST_MADE_MAX).await?;
    let undo = actions.into_iter().find(|action| undoes(action, id));
    let undo = undo.context("it is not known if this was undone: `peacrab actions` shows it")?;
    let words = unescaped(&undo.output);
    Ok(serde_json::to_value(UndoResult { undone: id, action: undo.id, words })?)
}

/// Returns true if an action has undone the one with this number.
fn undoes(action: &Action, id: u64) -> bool {
    let input = serde_json::from_str(&action.input).unwrap_or(Value::Null);
    action.tool == UNDO && action.state == "done" && input["id"].as_u64() == Some(id)
}
