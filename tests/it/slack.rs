//! The Slack adapter, against the stand-in for the Web API and Socket Mode.

mod inbound;
mod life;
mod listening;
mod looking;
mod sending;
mod stand_in;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use peacrab::bus::{Bus, Link, Publisher};
use peacrab::channels::slack::{Config, Deadlines, Slack, Threads};
use peacrab::channels::{Channel, ChannelError};
use peacrab::message::{Address, Inbound};
use peacrab::people::{Access, People};
use peacrab::secret::Secret;
use peacrab::store::{Options, Store};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::slack_api::{APP_TOKEN, BOT_TOKEN, SlackApi};

const CREW: &str = "C0CREW";
const DEADLINE: Duration = Duration::from_secs(20);

/// Short, so that what is never answered does not hold up the tests.
const DEADLINES: Deadlines = Deadlines {
    connect: Duration::from_secs(5),
    call: Duration::from_secs(5),
    names: Duration::from_secs(2),
    ping_every: Duration::from_millis(300),
    silence: Duration::from_millis(1000),
    catch_up: Duration::from_secs(2),
    steady: Duration::from_secs(10),
};

fn config(api: &SlackApi) -> Config {
    Config {
        token: Secret::new(BOT_TOKEN),
        app_token: Secret::new(APP_TOKEN),
        api_url: api.url(),
        threads: Threads::Thread,
    }
}

fn slack(api: &SlackApi) -> Slack {
    Slack::with_deadlines(&config(api), DEADLINES).unwrap()
}

fn address(chat: &str, thread: Option<&str>) -> Address {
    Address { channel: "home".into(), chat: chat.into(), thread: thread.map(Into::into) }
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
        Self::with(&Options::default(), Access::default())
    }

    fn with(options: &Options, access: Access) -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path(), options).unwrap();
        let access = Access { allow: vec!["*".to_owned()], ..access };
        let people = People::new(BTreeMap::from([("home".into(), access)]));
        let bus = Bus::new(store, people, 100);
        let link = Arc::new(Link::default());
        let (publisher, _) = bus.publisher(&"home".into(), Arc::clone(&link));
        Self { bus, link, publisher, _home: home }
    }

    /// Does something while the adapter listens.
    async fn listening<T>(&self, api: &SlackApi, doing: impl Future<Output = T>) -> T {
        self.listening_with(&slack(api), doing).await
    }

    async fn listening_with<T>(&self, slack: &Slack, doing: impl Future<Output = T>) -> T {
        tokio::select! {
            ended = slack.listen(&self.publisher) => panic!("stopped listening: {ended:?}"),
            done = doing => done,
        }
    }

    /// Listens until the link ends.
    async fn listen(&self, api: &SlackApi) -> Result<(), ChannelError> {
        timeout(DEADLINE, slack(api).listen(&self.publisher)).await.unwrap()
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

    async fn count(&self, sql: &'static str) -> i64 {
        let count = self.bus.store.read(move |store| store.query_row(sql, [], |row| row.get(0)));
        count.await.unwrap()
    }
}
