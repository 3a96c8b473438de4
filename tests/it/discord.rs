//! The Discord adapter, against the stand-in for Discord.

mod inbound;
mod interactions;
mod link;
mod listening;
mod sending;
mod stand_in;
mod trouble;

use std::time::Duration;

use peacrab::channels::discord::Threads;
use peacrab::channels::discord::{Config, Discord, DiscordDeadlines};
use peacrab::secret::Secret;
use peacrab::types::message::Address;
use tokio::time::timeout;

use crate::support::adapter_fixture::{AdapterFixture, DEADLINE};
use crate::support::discord_api::{DiscordApi, TOKEN};

/// Short, so that what is never answered does not hold up the tests.
const DEADLINES: DiscordDeadlines = DiscordDeadlines {
    connect: Duration::from_secs(5),
    call: Duration::from_secs(5),
    ready: Duration::from_secs(8),
    silence: Duration::from_secs(8),
    identify: Duration::from_millis(10),
    catch_up: Duration::from_secs(5),
    retry_pause: Duration::from_millis(200),
};

fn discord(api: &DiscordApi) -> Discord {
    discord_with(api, Threads::Reply, DEADLINES)
}

fn discord_with(api: &DiscordApi, threads: Threads, deadlines: DiscordDeadlines) -> Discord {
    let config = Config { token: Secret::new(TOKEN), api_url: api.url().to_owned(), threads };
    Discord::with_deadlines(&config, deadlines).unwrap()
}

fn address(chat: u64, thread: Option<u64>) -> Address {
    Address {
        channel: "home".into(),
        chat: chat.to_string().into(),
        thread: thread.map(|thread| thread.to_string().into()),
    }
}

impl AdapterFixture {
    /// Until so many messages were kept; gives their texts.
    async fn wait_for(&self, count: usize) -> Vec<String> {
        let mut inbox = self.bus.inbox.watch();
        let waiting = async {
            loop {
                inbox.mark_unchanged();
                let texts = self.texts().await;
                if texts.len() >= count {
                    return texts;
                }
                inbox.changed().await.unwrap();
            }
        };
        let waited = timeout(DEADLINE, waiting).await;
        match waited {
            Ok(texts) => texts,
            Err(_) => panic!("waited for {count}, kept {:?}", self.texts().await),
        }
    }
}
