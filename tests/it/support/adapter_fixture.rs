//! A bus that lets everybody in, for one adapter of the channel `home` to publish to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use peacrab::bus::{Bus, Link, Publisher};
use peacrab::channels::{Channel, ChannelError};
use peacrab::people::{Access, People};
use peacrab::store::{Store, StoreOptions};
use peacrab::types::message::Inbound;
use tempfile::TempDir;
use tokio::time::timeout;

/// The longest that a test waits for something that must come.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// More than any test has waiting.
const WAITING_MAX: usize = 1000;

pub(crate) struct AdapterFixture {
    pub(crate) bus: Bus,
    pub(crate) link: Arc<Link>,
    pub(crate) publisher: Publisher,
    _home: TempDir,
}

impl AdapterFixture {
    pub(crate) fn new() -> Self {
        Self::with(&StoreOptions::default(), |_| {})
    }

    pub(crate) fn with(options: &StoreOptions, change: impl FnOnce(&mut Access)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path(), options).unwrap();
        let mut access = Access { allow: vec!["*".to_owned()], ..Access::default() };
        change(&mut access);
        let people = People::new(BTreeMap::from([("home".into(), access)]));
        let bus = Bus::new(store, people, WAITING_MAX);
        let link = Arc::new(Link::default());
        let (publisher, _) = bus.publisher(&"home".into(), Arc::clone(&link));
        Self { bus, link, publisher, _home: home }
    }

    /// Does something while the adapter listens.
    pub(crate) async fn listening<T>(
        &self,
        adapter: &impl Channel,
        doing: impl Future<Output = T>,
    ) -> T {
        tokio::select! {
            ended = adapter.listen(&self.publisher) => panic!("stopped listening: {ended:?}"),
            done = doing => done,
        }
    }

    /// Listens until the link ends, and says why.
    pub(crate) async fn listen(&self, adapter: &impl Channel) -> ChannelError {
        timeout(DEADLINE, adapter.listen(&self.publisher)).await.unwrap().unwrap_err()
    }

    pub(crate) async fn received(&self) -> Vec<Inbound> {
        let rows = self.bus.store.read(|store| {
            let mut rows = store.prepare("SELECT message FROM inbound ORDER BY id")?;
            rows.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()
        });
        rows.await.unwrap().iter().map(|row| serde_json::from_str(row).unwrap()).collect()
    }

    pub(crate) async fn texts(&self) -> Vec<String> {
        self.received().await.into_iter().map(|inbound| inbound.body.text).collect()
    }

    #[cfg(any(feature = "slack", feature = "telegram"))]
    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        let count = self.bus.store.read(move |store| store.query_row(sql, [], |row| row.get(0)));
        count.await.unwrap()
    }
}
