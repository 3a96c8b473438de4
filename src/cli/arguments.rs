//! What may stand on the command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::{cron, explain};
use crate::tasks::heartbeat::Wish;

/// A small assistant that answers on your chat platforms and loses nothing.
#[derive(Parser)]
#[command(name = "peacrab", version)]
pub(super) struct Cli {
    /// The folder with all data [default: $PEACRAB_HOME, or your data folder]
    #[arg(long, global = true)]
    pub(super) home: Option<PathBuf>,
    /// The config file [default: config.toml in the home]
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Write the log as JSON lines
    #[arg(long, global = true)]
    pub(super) log_json: bool,
    #[command(subcommand)]
    pub(super) command: Option<CliCommand>,
}

#[derive(Subcommand)]
pub(super) enum CliCommand {
    /// Run the daemon in the foreground (the default)
    Run,
    /// Chat with the bot in this terminal
    Chat {
        /// Send this message, print the answer and exit; `-` reads it from standard input
        #[arg(short, long, value_name = "TEXT")]
        message: Option<String>,
        /// The conversation's name
        #[arg(long, default_value = "main", value_name = "NAME")]
        session: String,
        /// Show internal events too
        #[arg(short, long)]
        verbose: bool,
    },
    /// Check the config and show what would start
    Check,
    /// Test everything that a start needs: the config, the home, the sandbox of the shell
    Doctor,
    /// Show the state of the running daemon
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// List the last actions, newest first
    Actions {
        /// The number of actions
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Undo a change of a file
    Undo {
        /// The number of the action, as `actions` shows it
        id: u64,
    },
    /// Show the tokens used, by provider
    Usage {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// List the skills, and what is missing for those that cannot be used
    Skills {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Explain if a tool call would be allowed, and why
    Explain(explain::Explain),
    /// Send a message and wait until it is delivered
    Send {
        /// CHANNEL:CHAT, CHANNEL:CHAT:THREAD, or owner
        #[arg(long, value_name = "ADDRESS")]
        to: String,
        /// Attach this file; can be given several times
        #[arg(long, value_name = "PATH")]
        file: Vec<PathBuf>,
        /// Format the text as Markdown; without this it is sent as it is
        #[arg(long)]
        markdown: bool,
        /// The text; if there is none, and no file, it is read from standard input
        text: Option<String>,
    },
    /// Manage jobs, which run later, once or repeatedly
    #[command(subcommand)]
    Cron(cron::Cron),
    /// Show the heartbeat, turn it on or off, or run it now
    Heartbeat {
        #[arg(value_enum, default_value_t = Wish::Show)]
        wish: Wish,
    },
    /// Manage who can talk to the bot
    #[command(subcommand)]
    Pair(Pair),
}

#[derive(Subcommand)]
pub(super) enum Pair {
    /// List open requests and paired people
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Approve a person by their code; the first one becomes the owner
    Approve {
        /// The code that the bot gave them
        code: String,
    },
    /// Decline a request by its code
    Deny {
        /// The code that the bot gave them
        code: String,
    },
    /// Remove a paired person
    Revoke {
        /// The channel's name in the config
        channel: String,
        /// Their id on the platform; `pair list` shows it
        id: String,
    },
}

impl Pair {
    pub(super) fn words(&self) -> Vec<String> {
        let words: &[&str] = match self {
            Self::List { .. } => &["list"],
            Self::Approve { code } => &["approve", code],
            Self::Deny { code } => &["deny", code],
            Self::Revoke { channel, id } => &["revoke", channel, id],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}
