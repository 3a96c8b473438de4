//! The drain of the outbox, counted in steps of SQLite's machine: each look costs what it sends, however much
//! waits, and chats take turns.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use peacrab::bus::outbox::{self, Chunk, Lane, LaneHead};
use peacrab::store::{Store, StoreOptions};
use peacrab::types::message::{Address, Body, ChannelName, DeliveryId};
use rusqlite::Connection;
use tempfile::TempDir;

/// A store that has the schema, beside which no daemon runs.
struct Outbox {
    _home: TempDir,
    store: Connection,
    steps: Arc<AtomicU64>,
}

impl Outbox {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        drop(Store::open(home.path(), &StoreOptions::default()).unwrap());
        let mut store = Connection::open(home.path().join("state.db")).unwrap();
        store.pragma_update(None, "synchronous", "off").unwrap();
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        };
        store.progress_handler(1, Some(count)).unwrap();
        Self { _home: home, store, steps }
    }

    fn put(&self, chat: &str) -> DeliveryId {
        let to: Address = format!("home:{chat}").parse().unwrap();
        outbox::put(&self.store, &to, None, "hello").unwrap()
    }

    /// Puts `count` messages, in as many chats.
    fn fill(&self, count: usize, chats: usize) {
        self.store.execute_batch("BEGIN").unwrap();
        for n in 0..count {
            self.put(&format!("chat{}", n % chats));
        }
        self.store.execute_batch("COMMIT").unwrap();
    }

    fn heads(&self) -> Vec<LaneHead> {
        outbox::next_of_each_chat(
            &self.store,
            &ChannelName::from("home"),
            false,
            17,
            &HashSet::new(),
        )
        .unwrap()
    }

    /// Sends the first that is to be tried; gives its chat.
    fn send_first(&self) -> String {
        let LaneHead { id, lane, .. } = self.heads().remove(0);
        outbox::load(&self.store, id).unwrap().unwrap();
        let body = Body::Text("hello".to_owned());
        let chunk = Chunk { seq: 0, body, sending_since: None, ambiguous_sends: 0 };
        outbox::store_chunks(&self.store, id, &[chunk], false).unwrap();
        outbox::mark_sending(&self.store, id, 0, false).unwrap();
        outbox::mark_sent(&self.store, id, 0, None).unwrap();
        lane.chat.to_string()
    }

    /// The steps of some work.
    fn steps(&self, work: impl FnOnce(&Self)) -> u64 {
        let before = self.steps.load(Ordering::Relaxed);
        work(self);
        self.steps.load(Ordering::Relaxed) - before
    }
}

#[test]
fn a_look_costs_what_it_sends_however_much_waits() {
    let cost = |waiting: usize, chats: usize| {
        let outbox = Outbox::new();
        outbox.fill(waiting, chats);
        outbox.steps(|outbox| {
            for _ in 0..50 {
                outbox.send_first();
                outbox.put("another");
            }
        })
    };
    for chats in [1, 100, 1_000_000] {
        let (few, many) = (cost(1_000, chats), cost(4_000, chats));
        assert!(many < few + few / 5, "{chats} chats: {few} steps became {many}");
    }
}

#[test]
fn what_an_older_version_left_waiting_has_heads() {
    let home = TempDir::new().unwrap();
    let store = Connection::open(home.path().join("state.db")).unwrap();
    store.execute_batch(include_str!("../../../src/store/schema.sql")).unwrap();
    store.pragma_update(None, "user_version", 7).unwrap();
    for (chat, state) in [("1", "sent"), ("1", "pending"), ("2", "pending"), ("1", "pending")] {
        let row = "INSERT INTO outbox (channel, chat, body, created, state, next)
                   VALUES ('home', ?, '{\"text\":\"hello\"}', 0, ?, 0)";
        store.execute(row, [chat, state]).unwrap();
    }
    drop(Store::open(home.path(), &StoreOptions::default()).unwrap());
    let heads =
        outbox::next_of_each_chat(&store, &ChannelName::from("home"), false, 17, &HashSet::new())
            .unwrap();
    assert_eq!(heads.iter().map(|head| head.id.0).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn chats_take_turns_and_a_fresh_one_waits_for_one_message_of_each() {
    let outbox = Outbox::new();
    outbox.fill(30, 3);
    outbox.put("fresh");
    // All that waits was said long ago.
    outbox.store.execute("UPDATE outbox SET next = id", []).unwrap();
    let mut chats: Vec<_> = (0..4).map(|_| outbox.send_first()).collect();
    chats.sort();
    assert_eq!(chats, ["chat0", "chat1", "chat2", "fresh"]);
    for _ in 0..27 {
        outbox.send_first();
    }
    assert_eq!(outbox.heads(), []);
}

#[test]
fn many_that_stepped_aside_in_a_busy_chat_hide_no_other_chat() {
    let outbox = Outbox::new();
    outbox.fill(20, 1);
    outbox.put("fresh");
    outbox
        .store
        .execute("UPDATE outbox SET lets_others_pass = 1, head = 1 WHERE chat = 'chat0'", [])
        .unwrap();
    outbox.store.execute("UPDATE outbox SET next = id", []).unwrap();
    let busy = HashSet::from([Lane { chat: "chat0".into(), urgent: false }]);
    let heads =
        outbox::next_of_each_chat(&outbox.store, &ChannelName::from("home"), false, 17, &busy)
            .unwrap();
    assert_eq!(heads.iter().map(|head| head.lane.chat.as_str()).collect::<Vec<_>>(), ["fresh"]);
}
