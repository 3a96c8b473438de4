//! `peacrab pair`: who may talk to the bot, by way of the daemon that runs. The codes are known only to it.

use chrono_tz::Tz;
use clap::Subcommand;

use super::chat;
use super::invocation::{Invocation, shown};
use super::print;
use crate::control::ControlRequest;
use crate::control::listing::Listing;

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
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Decline a request by its code
    Deny {
        /// The code that the bot gave them
        code: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a paired person
    Revoke {
        /// The channel's name in the config
        channel: String,
        /// Their id on the platform; `pair list` shows it
        id: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

impl Pair {
    fn words(&self) -> Vec<String> {
        let words: &[&str] = match self {
            Self::List { .. } => &["list"],
            Self::Approve { code, .. } => &["approve", code],
            Self::Deny { code, .. } => &["deny", code],
            Self::Revoke { channel, id, .. } => &["revoke", channel, id],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn json(&self) -> bool {
        match self {
            Self::List { json }
            | Self::Approve { json, .. }
            | Self::Deny { json, .. }
            | Self::Revoke { json, .. } => *json,
        }
    }
}

/// Carries a command out. The JSON of a change is [`crate::agent::PairingChange`].
pub(super) async fn handle(on: &Invocation, pair: Pair) -> anyhow::Result<()> {
    let (words, json) = (pair.words(), pair.json());
    let done = match pair {
        Pair::List { json: true } => {
            let listed = chat::listing(&on.home, Listing::Pairings, Tz::UTC).await;
            listed.and_then(|listed| Ok(serde_json::to_string_pretty(&listed)?))
        }
        Pair::List { .. } | Pair::Approve { .. } | Pair::Deny { .. } | Pair::Revoke { .. } => {
            chat::ask(&on.home, &ControlRequest::Pair { words, json }).await.and_then(shown)
        }
    };
    print::line(&done?);
    Ok(())
}
