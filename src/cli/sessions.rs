//! `peacrab sessions`: the owner's conversations from the command line.

use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use serde_json::Value;

use super::invocation::Invocation;
use super::print;
use crate::control::{ControlRequest, Response, SessionsRequest};
use crate::conversation::session_export::ExportedSession;

#[derive(Subcommand)]
pub(super) enum SessionsCommand {
    /// List the conversations, newest first
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one
    Show {
        /// Its number or name, as `list` shows it
        session: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// List those with words in their names or in what was said
    Search {
        /// The words to look for
        words: Vec<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Print one as a file to keep
    Export {
        /// Its number or name, as `list` shows it
        session: String,
        /// The kind of file
        #[arg(long, value_enum, default_value_t = ExportFormat::Markdown)]
        format: ExportFormat,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportFormat {
    Markdown,
    Json,
}

/// Carries out the command; nothing lists. `as_json` is true if `--json` stands before the command.
pub(super) async fn handle(
    on: &Invocation,
    command: Option<SessionsCommand>,
    as_json: bool,
) -> anyhow::Result<()> {
    let words = match command.unwrap_or(SessionsCommand::List { json: as_json }) {
        SessionsCommand::List { json } => {
            list(&ask(on, SessionsRequest::List).await?, json || as_json)?
        }
        SessionsCommand::Search { words, json } => {
            let words = words.join(" ");
            anyhow::ensure!(!words.trim().is_empty(), "give the words to look for");
            list(&ask(on, SessionsRequest::Search { words }).await?, json || as_json)?
        }
        SessionsCommand::Show { session, json } => {
            let format = if json || as_json { ExportFormat::Json } else { ExportFormat::Markdown };
            whole(on, session, format).await?
        }
        SessionsCommand::Export { session, format } => {
            let format = if as_json { ExportFormat::Json } else { format };
            whole(on, session, format).await?
        }
    };
    print::line(&words);
    Ok(())
}

async fn whole(on: &Invocation, session: String, format: ExportFormat) -> anyhow::Result<String> {
    let session = one(on, session).await?;
    Ok(match format {
        ExportFormat::Markdown => session.markdown(on.owners_zone()),
        ExportFormat::Json => serde_json::to_string_pretty(&session)?,
    })
}

async fn ask(on: &Invocation, request: SessionsRequest) -> anyhow::Result<Value> {
    match on.ask(&ControlRequest::Sessions { request }).await? {
        Response::Listing(listed) => Ok(listed),
        Response::Failed(words) => anyhow::bail!(words),
        _ => anyhow::bail!(
            "the daemon's answer is unexpected: if it runs another version, restart it"
        ),
    }
}

/// The conversation that is meant.
async fn one(on: &Invocation, asked: String) -> anyhow::Result<ExportedSession> {
    let found = ask(on, SessionsRequest::Show { asked: asked.clone() }).await?;
    if let Some(several) = found.get("several") {
        anyhow::bail!("several conversations have such a name:\n{}", list(several, false)?);
    }
    let session = found.get("session").filter(|it| !it.is_null());
    let session = session.with_context(|| format!("you have no conversation `{asked}`"))?;
    Ok(serde_json::from_value(session.clone())?)
}

fn list(listed: &Value, json: bool) -> anyhow::Result<String> {
    if json {
        return Ok(serde_json::to_string_pretty(listed)?);
    }
    let all = listed.as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |session: &Value, key: &str| session[key].as_str().unwrap_or_default().to_owned();
    let lines = all.iter().map(|session| {
        let (name, channel, day) =
            (text(session, "name"), text(session, "channel"), text(session, "day"));
        let open = if session["open"] == true { ", open" } else { "" };
        format!(
            "#{} {name} ({channel}, {day}, {} turns{open})",
            session["number"], session["turns"]
        )
    });
    match lines.collect::<Vec<_>>().join("\n") {
        none if none.is_empty() => Ok("There are no conversations.".to_owned()),
        lines => Ok(lines),
    }
}
