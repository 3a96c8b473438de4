//! The index itself: passages and words of texts, what is in it after a crash, a deletion or an upgrade, and the work
//! of a search.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::Utc;
use peacrab::conversation::history;
use peacrab::memory::recall::common::CommonTerms;
use peacrab::memory::recall::progress::{IndexCount, IndexProgress, IndexedParts};
use peacrab::memory::recall::query::{RecallQuery, search, search_with_cache};
use peacrab::memory::recall::words::{indexed, passages, significant_terms, snippet, terms};
use peacrab::memory::recall::{
    PASSAGE_CHARS_MAX, RecallKey, RecallKind, RecallText, count_passages, empty_index,
    is_index_full, put, refill_index, remove,
};
use peacrab::store::{Store, StoreError, StoreOptions, Sync, check_integrity, snapshot};
use proptest::prelude::*;
use rusqlite::Connection;

use super::{NOTHING, found};
use crate::support::rig::{OWNER, Rig};

proptest! {
    #[test]
    fn passages_are_the_whole_text_with_their_lines(text in "([a-zé ]{0,400}\n?){0,30}[a-z]{0,4000}") {
        let all = passages(&text);
        for it in &all {
            prop_assert!(it.text.chars().count() <= PASSAGE_CHARS_MAX);
            let line = text.lines().nth(it.line - 1).unwrap();
            prop_assert!(line.contains(it.text.lines().next().unwrap()));
        }
        let joined: String = all.iter().map(|it| it.text).collect();
        let squeezed = |text: &str| text.split_whitespace().collect::<String>();
        prop_assert_eq!(squeezed(&joined), squeezed(&text));
    }

    #[test]
    fn any_text_is_found_by_its_words_and_leaves_nothing_behind(text in "\\PC{1,200}") {
        let store = empty();
        put(&store, &entry(1, &text)).unwrap();
        let words = terms(&text);
        for term in &words {
            let hits = search(&store, &query(vec![term.clone()])).unwrap();
            prop_assert!(hits.len() <= 1);
        }
        snippet(&text, &words);
        remove(&store, RecallKind::Turn, 1).unwrap();
        let mut left = store.prepare("SELECT count(*) FROM recall_index_docsize").unwrap();
        prop_assert_eq!(left.query_row([], |row| row.get::<_, i64>(0)).unwrap(), 0);
        store.execute("INSERT INTO recall_index (recall_index) VALUES ('integrity-check')", []).unwrap();
    }
}

fn key() -> RecallKey {
    RecallKey::of_account(&"home".into(), &"7".into(), 0)
}

fn empty() -> Connection {
    let home = tempfile::tempdir().unwrap();
    drop(Store::open(home.path(), &StoreOptions::default()).unwrap());
    let file = Connection::open(home.path().join("state.db")).unwrap();
    let mut store = Connection::open_in_memory().unwrap();
    rusqlite::backup::Backup::new(&file, &mut store).unwrap().step(-1).unwrap();
    store
}

fn entry(source: i64, text: &str) -> RecallText<'_> {
    static KEY: std::sync::LazyLock<RecallKey> = std::sync::LazyLock::new(key);
    RecallText { key: &KEY, kind: RecallKind::Turn, source, at: Utc::now(), text }
}

fn query(terms: Vec<peacrab::memory::recall::words::Term>) -> RecallQuery {
    RecallQuery {
        keys: vec![key()],
        terms,
        since: None,
        now: Utc::now(),
        limit: 5,
        needs_rare: false,
    }
}

#[test]
fn words_are_found_in_other_forms_and_in_scripts_without_spaces() {
    let store = empty();
    let texts = [
        "Die Geburtstagsfeiern sind im Garten",
        "Les élèves mangent à midi",
        "明日は歯医者に行きます",
        "我女儿星期五七岁生日",
        "พรุ่งนี้ไปหาหมอฟัน",
        "The cities were running late",
    ];
    for (n, text) in (1..).zip(texts) {
        put(&store, &entry(n, text)).unwrap();
    }
    for (asked, at) in [
        ("Geburtstagsfeier", 0),
        ("eleves", 1),
        ("ÉLÈVE", 1),
        ("歯医者", 2),
        ("生日", 3),
        ("女", 3),
        ("หมอฟัน", 4),
        ("city", 5),
        ("runs", 5),
    ] {
        let hits = search(&store, &query(terms(asked))).unwrap();
        let found: Vec<_> = hits.iter().map(|hit| hit.text.as_str()).collect();
        assert_eq!(found, [texts[at]], "{asked}");
    }
    assert_eq!(indexed("a生日b"), "a 生 生日 b");
}

#[test]
fn whole_questions_in_scripts_without_spaces_find_their_answers() {
    let store = empty();
    let texts = [
        "我女儿艾达的生日是十一月二十七号",
        "锅炉的保修期到明年三月",
        "娘の誕生日は来週の金曜日です",
        "歯医者の予約は木曜日の三時です",
        "หมอฟันนัดวันศุกร์หน้า",
        "ร้านขนมปังปิดวันจันทร์",
    ];
    for (n, text) in (1..).zip(texts) {
        put(&store, &entry(n, text)).unwrap();
    }
    for (asked, at) in [
        ("我女儿的生日是哪天？", 0),
        ("请告诉我锅炉保修到什么时候", 1),
        ("娘の誕生日はいつですか？", 2),
        ("歯医者に行くのはいつ？", 3),
        ("ฉันต้องไปหาหมอฟันวันไหน", 4),
        ("ร้านขนมปังเปิดไหม", 5),
    ] {
        let hits = search(&store, &query(significant_terms(asked))).unwrap();
        assert_eq!(hits.first().map(|hit| hit.text.as_str()), Some(texts[at]), "{asked}");
    }
    // What everybody says all the time is not looked up.
    assert_eq!(significant_terms("你好，谢谢！"), []);
    assert_eq!(significant_terms(&"生日快乐万事如意".repeat(20)).len(), 8);
    assert_eq!(terms(&"one two three four five six seven eight ".repeat(3)).len(), 8);
}

#[test]
fn the_best_passage_comes_first() {
    let store = empty();
    put(&store, &entry(1, "The lease of the flat ends in May. The landlord is Ms Bauer.")).unwrap();
    put(&store, &entry(2, "The flat is warm.")).unwrap();
    put(&store, &entry(3, &format!("lease {}", "and other words ".repeat(60)))).unwrap();
    let hits = search(&store, &query(terms("when does the lease of my flat end"))).unwrap();
    assert_eq!(hits[0].source, 1);
    // Of two that are alike, the newer.
    let old =
        RecallText { at: Utc::now() - chrono::TimeDelta::days(400), ..entry(5, "figs are ripe") };
    put(&store, &entry(4, "figs are ripe")).unwrap();
    put(&store, &old).unwrap();
    let hits = search(&store, &query(terms("figs"))).unwrap();
    assert_eq!(hits.iter().map(|hit| hit.source).collect::<Vec<_>>(), [4, 5]);
}

#[test]
fn common_words_tell_nothing() {
    let words =
        |text| significant_terms(text).into_iter().map(|term| term.word).collect::<Vec<_>>();
    assert_eq!(words("When is Ada's birthday?"), ["ada", "birthday"]);
    assert_eq!(words("Wann ist der Geburtstag?"), ["geburtstag"]);
    assert_eq!(words("what is it, and why?"), Vec::<String>::new());
}

/// Steps of SQLite in a search for a rare and a common word, with so many passages of each of 20 persons.
fn steps(passages: i64) -> u64 {
    let mut store = empty();
    store.execute_batch("BEGIN").unwrap();
    for n in 0..passages * 20 {
        let key = RecallKey::of_account(&"home".into(), &(n % 20).to_string().as_str().into(), 0);
        let rare = if n % 1_000 == 7 { "zebra" } else { "horse" };
        let text = format!("common words of passage {n} with a {rare}");
        put(&store, &RecallText { key: &key, ..entry(n + 1, &text) }).unwrap();
    }
    store.execute_batch("COMMIT").unwrap();
    let counted = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&counted);
    store
        .progress_handler(
            1,
            Some(move || {
                count.fetch_add(1, Ordering::Relaxed);
                false
            }),
        )
        .unwrap();
    let hits = search(&store, &query(terms("common words with a zebra horse"))).unwrap();
    assert!(!hits.is_empty());
    counted.load(Ordering::Relaxed)
}

#[test]
fn the_work_of_a_search_does_not_grow_with_what_is_stored() {
    let (few, many) = (steps(200), steps(2_000));
    assert!(many < few * 2, "{few} steps with few passages, {many} with ten times as many");
}

#[test]
fn a_message_of_common_words_reminds_of_nothing() {
    let mut store = empty();
    let transaction = store.transaction().unwrap();
    for n in 1..=3_000 {
        let end = if n == 2_000 { "a zebra" } else { "horses" };
        put(&transaction, &entry(n, &format!("common words with {end}"))).unwrap();
    }
    transaction.commit().unwrap();
    let reminds = |text| {
        let query = RecallQuery { needs_rare: true, ..query(significant_terms(text)) };
        search(&store, &query).unwrap()
    };
    assert_eq!(reminds("Which horses have common words?"), []);
    let hits = reminds("Which zebra has common words?");
    assert_eq!(hits[0].source, 2_000);
    // Words that nearly each passage has weigh nothing, though not all of them were counted.
    assert!(hits[0].is_rare && hits[0].share > 0.9, "{hits:?}");
    assert!(hits[1..].iter().all(|hit| !hit.is_rare), "{hits:?}");
}

#[test]
fn a_common_word_is_counted_once_until_the_index_has_grown() {
    let mut store = empty();
    let fill = |store: &mut Connection, from: i64, to: i64| {
        let transaction = store.transaction().unwrap();
        for n in from..=to {
            put(&transaction, &entry(n, &format!("word {n} of horses"))).unwrap();
        }
        transaction.commit().unwrap();
    };
    fill(&mut store, 1, 1_000);
    let common = CommonTerms::default();
    let instructions = |store: &mut Connection, asked: &str| {
        static COUNTED: AtomicU64 = AtomicU64::new(0);
        COUNTED.store(0, Ordering::Relaxed);
        let count = || {
            COUNTED.fetch_add(1, Ordering::Relaxed);
            false
        };
        store.progress_handler(1, Some(count)).unwrap();
        let query = RecallQuery { needs_rare: true, ..query(significant_terms(asked)) };
        let hits = search_with_cache(store, &query, &common).unwrap();
        store.progress_handler(0, None::<fn() -> bool>).unwrap();
        let without = search(store, &query).unwrap();
        assert_eq!(
            hits.iter().map(|hit| hit.source).collect::<Vec<_>>(),
            without.iter().map(|hit| hit.source).collect::<Vec<_>>()
        );
        COUNTED.load(Ordering::Relaxed)
    };
    let counted = instructions(&mut store, "horses");
    let known = instructions(&mut store, "horses");
    assert!(known * 10 < counted, "{counted} instructions, then {known}");
    // It takes nothing from the rare word beside it, and is counted anew in an index of another size.
    instructions(&mut store, "horses 700");
    fill(&mut store, 1_001, 1_600);
    assert!(instructions(&mut store, "horses") * 2 > counted);
}

#[tokio::test]
async fn turns_from_before_the_index_are_found_after_an_upgrade() {
    let mut rig = Rig::new().await;
    rig.ask("1", "my bicycle is blue").await;
    rig.stop().await;
    rig.execute(
        "DELETE FROM recall_entries; INSERT INTO recall_index (recall_index) VALUES ('delete-all');
         UPDATE recall_backfill SET below = (SELECT max(id) + 1 FROM turns)",
    );
    let store = Connection::open(rig.path().join("state.db")).unwrap();
    let missing = history::count_backfilled(&store).unwrap();
    assert_eq!(missing, Some(IndexCount { parts: IndexedParts::Messages, done: 0, total: 1 }));
    drop(store);
    rig.start().await;
    rig.wait_for_count("SELECT below FROM recall_backfill", 1).await;
    assert!(found(&mut rig, OWNER, "1", "bicycle").await.contains("blue"));
    rig.finish().await;
}

#[test]
fn a_count_is_shown_while_the_index_is_filled_and_never_above_its_total() {
    let progress = IndexProgress::default();
    assert_eq!(progress.count(), None);
    let count = |done| IndexCount { parts: IndexedParts::Messages, done, total: 120 };
    let mut shown = progress.begin(count(40));
    assert_eq!(progress.count(), Some(count(40)));
    for (added, done) in [(50, 90), (50, 120)] {
        shown.add(added);
        assert_eq!(progress.count(), Some(count(done)));
    }
    drop(shown);
    assert_eq!(progress.count(), None);
}

#[tokio::test]
async fn forgotten_turns_leave_no_words_in_the_index() {
    let mut rig = Rig::new().await;
    rig.ask("1", "my bicycle is blue").await;
    rig.ask("1", "/new").await;
    let words = "SELECT count(*) FROM recall_index WHERE recall_index MATCH 'text : bicycle'";
    rig.wait_for_count(words, 1).await;
    rig.stop().await;
    rig.execute(
        "UPDATE sessions SET closed = 1 WHERE closed IS NOT NULL; UPDATE turns SET ended = 1",
    );
    rig.start().await;
    rig.wait_for_count(words, 0).await;
    assert!(found(&mut rig, OWNER, "1", "bicycle").await.contains(NOTHING));
    rig.finish().await;
}

/// Breaks the words in the index, as a disk that fails does within a page.
const BREAK: &str = "UPDATE recall_index_data SET block = X'00' WHERE id > 10";

#[test]
fn an_emptied_index_takes_all_back_and_changes_meanwhile_count() {
    let mut store = empty();
    let transaction = store.transaction().unwrap();
    for n in 1..=500 {
        put(&transaction, &entry(n, &format!("word {n} of figs"))).unwrap();
    }
    transaction.commit().unwrap();
    store.execute_batch(BREAK).unwrap();
    let figs = |word: &str| search(&store, &query(terms(word)));
    assert!(matches!(figs("figs").map_err(StoreError::from), Err(StoreError::Index(_))));
    empty_index(&store).unwrap();
    assert!(!is_index_full(&store).unwrap());
    let count = |done| IndexCount { parts: IndexedParts::Passages, done, total: 500 };
    assert_eq!(count_passages(&store).unwrap(), count(0));
    assert_eq!(refill_index(&store).unwrap(), 200);
    assert_eq!(count_passages(&store).unwrap(), count(200));
    // The newest are found first. One that is not back yet is removed, another one changed, and one is new.
    assert_eq!(figs("500").unwrap().len(), 1);
    assert_eq!(figs("7").unwrap(), []);
    remove(&store, RecallKind::Turn, 7).unwrap();
    put(&store, &entry(8, "an apple")).unwrap();
    put(&store, &entry(501, "a pear")).unwrap();
    remove(&store, RecallKind::Turn, 499).unwrap();
    let slices = std::iter::from_fn(|| {
        (!is_index_full(&store).unwrap()).then(|| refill_index(&store).unwrap())
    });
    assert_eq!(slices.count(), 2);
    let sources = |word| figs(word).unwrap().iter().map(|hit| hit.source).collect::<Vec<_>>();
    for (word, source) in [("1", 1_i64), ("6", 6), ("apple", 8), ("pear", 501), ("500", 500)] {
        assert_eq!(sources(word), [source], "{word}");
    }
    for word in ["7", "8", "499"] {
        assert_eq!(sources(word), [0_i64; 0], "{word}");
    }
    let count = |of| store.query_row(of, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM recall_index_docsize"), 499);
    assert_eq!(count("SELECT count(*) FROM recall_entries"), 499);
    store
        .execute("INSERT INTO recall_index (recall_index) VALUES ('integrity-check')", [])
        .unwrap();
}

#[tokio::test]
async fn a_broken_index_is_no_damage_of_the_store() {
    let home = tempfile::tempdir().unwrap();
    let open = || Store::open(home.path(), &StoreOptions::default()).unwrap();
    let store = open();
    store.write("a test", Sync::Now, |store| put(store, &entry(1, "figs are ripe"))).await.unwrap();
    store.close().await;
    Connection::open(home.path().join("state.db")).unwrap().execute_batch(BREAK).unwrap();
    check_integrity(home.path()).unwrap();
    snapshot(home.path(), &home.path().join("copy.db")).unwrap();
    let store = open();
    let failures = store.watch_index();
    let found = store.search(|store| search(store, &query(terms("figs")))).await;
    assert!(matches!(found, Err(StoreError::Index(_))), "{found:?}");
    assert!(failures.has_changed().unwrap());
    assert_eq!(store.trouble(), None);
}

#[tokio::test]
async fn a_broken_index_is_made_again_by_itself() {
    let mut rig = Rig::new().await;
    rig.ask("1", "my bicycle is blue").await;
    rig.stop().await;
    rig.execute(BREAK);
    rig.start().await;
    let shown = found(&mut rig, OWNER, "1", "bicycle").await;
    assert!(shown.contains("is being made again"), "{shown}");
    let words = "SELECT count(*) FROM recall_index WHERE recall_index MATCH 'text : bicycle'";
    rig.wait_for_count(words, 1).await;
    assert!(found(&mut rig, OWNER, "1", "bicycle").await.contains("blue"));
    rig.finish().await;
}
