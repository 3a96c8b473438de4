//! The Discord adapter, against the stand-in for Discord.

mod inbound;
mod interactions;
mod link;
mod listening;
mod sending;
mod stand_in;
mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use peacrab::bus::{Bus, Link, Publisher};
use peacrab::channels::discord::Threads;
use peacrab::channels::discord::{Config, Deadlines, Discord};
use peacrab::channels::{Channel, ChannelError};
use peacrab::message::{Address, Inbound};
use peacrab::people::{Access, People};
use peacrab::secret::Secret;
use peacrab::store::{Options, Store};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::discord_api::{DiscordApi, TOKEN};

/// The longest that a test waits for something that must come.
const DEADLINE: Duration = Duration::from_secs(20);

/// Short, so that what is never answered does not hold up the tests.
const DEADLINES: Deadlines = Deadlines {
    connect: Duration::from_secs(5),
    call: Duration::from_secs(5),
    ready: Duration::from_secs(8),
    silence: Duration::from_secs(8),
    identify: Duration::from_millis(10),
};

fn discord(api: &DiscordApi) -> Discord {
    discord_with(api, Threads::Reply, DEADLINES)
}

fn discord_with(api: &DiscordApi, threads: Threads, deadlines: Deadlines) -> Discord {
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

/// A bus that lets everybody in, and where it is kept.
struct Desk {
    bus: Bus,
    link: Arc<Link>,
    publisher: Publisher,
    _home: TempDir,
}

impl Desk {
    fn new() -> Self {
        Self::with(&Options::default(), |_| {})
    }

    fn with(options: &Options, change: impl FnOnce(&mut Access)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path(), options).unwrap();
        let mut access = Access { allow: vec!["*".to_owned()], ..Access::default() };
        change(&mut access);
        let people = People::new(BTreeMap::from([("home".into(), access)]));
        let bus = Bus::new(store, people, 1000);
        let link = Arc::new(Link::default());
        let (publisher, _) = bus.publisher(&"home".into(), Arc::clone(&link));
        Self { bus, link, publisher, _home: home }
    }

    /// Does something while the adapter listens.
    async fn listening<T>(&self, discord: &Discord, doing: impl Future<Output = T>) -> T {
        tokio::select! {
            ended = discord.listen(&self.publisher) => panic!("stopped listening: {ended:?}"),
            done = doing => done,
        }
    }

    /// Listens until the link ends.
    async fn listen(&self, discord: &Discord) -> ChannelError {
        timeout(DEADLINE, discord.listen(&self.publisher)).await.unwrap().unwrap_err()
    }

    async fn heard(&self) -> Vec<Inbound> {
        let rows = self.bus.store.read(|store| {
            let mut rows = store.prepare("SELECT message FROM inbound ORDER BY id")?;
            rows.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()
        });
        rows.await.unwrap().iter().map(|row| serde_json::from_str(row).unwrap()).collect()
    }

    async fn texts(&self) -> Vec<String> {
        self.heard().await.into_iter().map(|inbound| inbound.body.text).collect()
    }

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
