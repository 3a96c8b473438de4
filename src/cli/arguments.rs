//! The arguments of the command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::import::OtherBot;
use super::init::InitOptions;
use super::pair::Pair;
use super::service::ServiceCommand;
use super::{cron, explain, sessions, undo, update, usage, web};
use crate::tasks::heartbeat::HeartbeatRequest;

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
    /// Let the running daemon read its config again
    Reload {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
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
    /// Set up a model, a chat platform, the owner and the service, each tested at once
    Init(InitOptions),
    /// Run as a service of systemd
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Back up the store and the workspace into one file, also while the daemon runs. Fails if it had to leave files out
    Backup {
        /// The file [default: peacrab-TIME.tar.gz in this folder]
        file: Option<PathBuf>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Restore a backup into the home. What was pending in it is listed, and not done
    Restore {
        /// The file of the backup
        file: PathBuf,
        /// Move the data that is in the home into a folder `before-restore-…` in it
        #[arg(long)]
        replace: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Check the config and show what would start
    Check {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Check everything that a running bot needs, and say what to do
    Doctor {
        /// Make the repairs that cannot do harm
        #[arg(long)]
        fix: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
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
    Undo(undo::UndoArguments),
    /// Explain an action or a file: who asked for it, and what had been read
    Why {
        /// The number of the action, as `actions` shows it, a path in the workspace, or "fact NUMBER"
        what: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the tokens used and what they cost
    Usage(usage::Args),
    /// Show or change budgets, with words such as `set guest 20000 month` or `reset guest`
    Budget {
        /// set WHOSE AMOUNT PER, or reset WHOSE; nothing shows the budgets
        #[arg(value_name = "WORDS")]
        words: Vec<String>,
        /// Show them as JSON
        #[arg(long, conflicts_with = "words")]
        json: bool,
    },
    /// Show the facts that the bot keeps about its owner
    Memory {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// List the owner's conversations, or show, search or export them
    Sessions {
        #[command(subcommand)]
        command: Option<sessions::SessionsCommand>,
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
        /// As JSON
        #[arg(long)]
        json: bool,
        /// The text; if there is none, and no file, it is read from standard input
        text: Option<String>,
    },
    /// Manage jobs, which run later, once or repeatedly
    #[command(subcommand)]
    Cron(cron::Cron),
    /// Show the heartbeat, turn it on or off, or run it now
    Heartbeat {
        /// The order; nothing shows the heartbeat
        #[arg(value_enum, default_value_t = HeartbeatRequest::Show)]
        wish: HeartbeatRequest,
        /// Show it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a link to sign in on the page in the browser, or manage the sign-ins
    Web(web::WebArguments),
    /// Manage who can talk to the bot
    #[command(subcommand)]
    Pair(Pair),
    /// List the people that the bot knows, or change one: `people admin p5`
    People {
        /// p5, or guest, user, admin, block, unblock or remove and p5; nothing lists all
        #[arg(value_name = "WORDS")]
        words: Vec<String>,
        /// With remove: also delete the person's files, which are put away otherwise
        #[arg(long, requires = "words")]
        purge: bool,
        /// List them as JSON
        #[arg(long, conflicts_with = "words")]
        json: bool,
    },
    /// Bring texts, skills, conversations and jobs of another bot, to be accepted one by one
    Import {
        /// The other bot
        #[arg(value_enum)]
        bot: OtherBot,
        /// The bot's folder, such as ~/.picoclaw, or its workspace
        path: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Install a newer version from the address in [update] of the config
    Update(update::Args),
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder
    Man {
        /// The folder; it is made if it is not there
        folder: PathBuf,
    },
}
