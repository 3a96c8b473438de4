//! What must be true once nothing is left to do.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use peacrab::replies;
use rusqlite::Connection;

use super::daemon::World;

/// What is still to be done, as somebody can read it.
pub(super) fn open(store: &Connection) -> Vec<String> {
    rows(
        store,
        "SELECT 'inbound ' || id || ' ' || state FROM inbound WHERE state <> 'done'
         UNION ALL SELECT 'turn ' || id || ' suspended ' || suspended || ' attempts ' || attempts
             FROM turns WHERE ending IS NULL
         UNION ALL SELECT 'call ' || id || ' ' || tool || ' ' || state FROM calls
             WHERE state IN ('planned', 'waiting', 'running')
         UNION ALL SELECT 'outbox ' || id FROM outbox WHERE state = 'pending'
         UNION ALL SELECT 'ask ' || id FROM asks WHERE state = 'open'
         UNION ALL SELECT 'subagent ' || id FROM tasks WHERE kind = 'subagent' AND state = 'running'
         UNION ALL SELECT 'session of a subagent ' || id FROM sessions
             WHERE kind = 'subagent' AND closed IS NULL",
    )
}

fn rows(store: &Connection, sql: &str) -> Vec<String> {
    let mut rows = store.prepare_cached(sql).unwrap();
    let rows = rows.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn count(store: &Connection, sql: &str) -> usize {
    store.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn check(holds: bool, fault: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(fault()) }
}

pub(super) fn judge(world: &World) -> Result<(), String> {
    let store = world.store();
    let left = open(&store);
    check(left.is_empty(), || format!("left over: {left:?}"))?;
    let faults = [world.brain.faults(), world.home.faults()].concat();
    check(faults.is_empty(), || format!("faults: {faults:?}"))?;
    all_was_accepted_once(world, &store)?;
    each_message_has_one_outcome(&store)?;
    what_was_answered_was_shown(world, &store)?;
    order_holds(&store)?;
    all_was_delivered_once(world, &store)?;
    each_call_was_made_as_it_says(world, &store)
}

fn all_was_accepted_once(world: &World, store: &Connection) -> Result<(), String> {
    let mut keys = rows(store, "SELECT key FROM inbound WHERE channel = 'home' ORDER BY key");
    keys.dedup();
    let accepted = count(store, "SELECT count(*) FROM inbound WHERE channel = 'home'");
    check(keys.len() == accepted, || "a message was accepted twice".to_owned())?;
    // A press need not be taken.
    let lost = world.said.iter().find(|it| !it.is_press() && !keys.contains(&it.key()));
    check(lost.is_none(), || format!("lost: {}", lost.map(|it| it.key()).unwrap_or_default()))
}

/// One line for each turn, command, question and task that was handed on, and no other.
fn each_message_has_one_outcome(store: &Connection) -> Result<(), String> {
    let none = count(store, "SELECT count(*) FROM inbound WHERE outcome IS NULL");
    check(none == 0, || "a message without an outcome".to_owned())?;
    let wrong = rows(
        store,
        "SELECT i.key || ' is ' || i.outcome || ', its turn ' || t.ending FROM inbound i
         JOIN turns t ON t.id = i.turn WHERE i.outcome <> CASE t.ending
             WHEN '\"answered\"' THEN 'answered' WHEN '\"silent\"' THEN 'answered'
             WHEN '\"failed\"' THEN 'refused' ELSE 'stopped' END
         AND NOT (t.ending = '\"failed\"' AND i.outcome = 'answered')",
    );
    check(wrong.is_empty(), || format!("{wrong:?}"))?;
    let meant = [
        (
            "answers",
            "SELECT count(*) FROM turns t JOIN sessions s ON s.id = t.session WHERE s.kind = 'chat'
             AND t.ending IN ('\"answered\"', '\"failed\"')
             AND EXISTS (SELECT 1 FROM inbound i WHERE i.turn = t.id)",
        ),
        (
            "commands",
            "SELECT count(*) FROM inbound WHERE control = 1 AND outcome IN ('obeyed', 'refused')",
        ),
        (
            "results",
            "SELECT count(*) FROM tasks a JOIN calls c ON c.id = a.details ->> 'call'
             WHERE a.kind = 'subagent' AND c.tool = 'spawn' AND a.state IN ('done', 'failed', 'interrupted')",
        ),
        // One question is about all calls of a step.
        ("asks", "SELECT count(DISTINCT delivery) FROM asks"),
        ("closed", "SELECT count(*) FROM outbox WHERE replaces IS NOT NULL"),
        ("messages", "SELECT count(*) FROM calls WHERE tool = 'message' AND state = 'done'"),
    ];
    let meant: Vec<_> = meant.iter().map(|(what, sql)| (*what, count(store, sql))).collect();
    let elsewhere = rows(store, "SELECT body FROM outbox").into_iter();
    let elsewhere = elsewhere.filter(|body| body.contains(replies::ASKED_ELSEWHERE)).count();
    let total: usize = meant.iter().map(|(_, count)| count).sum::<usize>() + elsewhere;
    let said = count(store, "SELECT count(*) FROM outbox");
    check(said == total, || format!("{said} messages for {meant:?}, asked elsewhere {elsewhere}"))?;
    let closed = count(
        store,
        "SELECT count(*) FROM (SELECT replaces FROM outbox WHERE replaces IS NOT NULL
         AND replaces LIKE 'sent %' GROUP BY replaces HAVING count(*) > 1)",
    );
    check(closed == 0, || "buttons were taken away twice".to_owned())
}

fn what_was_answered_was_shown(world: &World, store: &Connection) -> Result<(), String> {
    let answered =
        rows(store, "SELECT key FROM inbound WHERE outcome = 'answered' AND control = 0");
    for said in world.said.iter().filter(|said| !said.tokens.is_empty()) {
        let is_shown = !answered.contains(&said.key()) || world.brain.has_seen(&said.tokens);
        check(is_shown, || format!("answered without being shown: {:?}", said.tokens))?;
    }
    // What was said in a turn that was answered in words is in an answer, and no text is in two.
    let got = world.home.got();
    let got = got.borrow();
    let is_in = |text: &str, token: &str| {
        text.starts_with("done") && text.split_whitespace().any(|word| word == token)
    };
    let told = rows(
        store,
        "SELECT i.key FROM inbound i JOIN turns t ON t.id = i.turn
         WHERE t.ending = '\"answered\"' AND i.control = 0 AND NOT EXISTS
             (SELECT 1 FROM asks a WHERE a.turn = t.id AND a.kind = 'question' AND a.after < i.id)",
    );
    for said in world.said.iter().filter(|said| !said.tokens.is_empty()) {
        // A message that was edited just while the model read it is read again: each of its texts counts.
        for token in &said.tokens {
            let times = got.iter().filter(|got| is_in(&got.text, token)).count();
            check(times <= 1, || format!("{token} stands in {times} answers"))?;
        }
        let is_answered = got.iter().any(|got| said.tokens.iter().any(|it| is_in(&got.text, it)));
        let is_missing = told.contains(&said.key()) && !is_answered;
        check(!is_missing, || format!("{:?} stands in no answer", said.tokens))?;
    }
    Ok(())
}

/// What one person says at one place enters turns in its order, but for answers to questions, which go
/// to the turn that asked.
fn order_holds(store: &Connection) -> Result<(), String> {
    let mut entered = store
        .prepare(
            "SELECT i.channel || i.chat || ' ' || i.sender, i.turn, i.key FROM inbound i WHERE i.turn IS NOT NULL
             AND i.control = 0 AND NOT EXISTS (SELECT 1 FROM asks a
                 WHERE a.turn = i.turn AND a.kind = 'question' AND a.after < i.id)
             ORDER BY i.id",
        )
        .unwrap();
    let entered = entered
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .collect::<Result<Vec<(String, i64, String)>, _>>()
        .unwrap();
    let mut last = HashMap::new();
    for (place, turn, key) in entered {
        let before = last.insert(place, turn).unwrap_or_default();
        check(before <= turn, || format!("{key} was overtaken"))?;
    }
    Ok(())
}

fn all_was_delivered_once(world: &World, store: &Connection) -> Result<(), String> {
    let dead = count(store, "SELECT count(*) FROM outbox WHERE state = 'dead'");
    check(dead == 0, || "something was given up".to_owned())?;
    let got = world.home.got();
    let got = got.borrow();
    let mut times: BTreeMap<i64, usize> = BTreeMap::new();
    got.iter().for_each(|got| *times.entry(got.delivery).or_default() += 1);
    let twice = got.iter().find(|got| times[&got.delivery] > 1);
    check(twice.is_none(), || format!("twice: {twice:?}"))?;
    let marked = got.iter().find(|got| got.text.contains("perhaps sent twice"));
    check(marked.is_none(), || format!("marked, though the platform knows: {marked:?}"))?;
    let sent = rows(store, "SELECT CAST(delivery AS TEXT) FROM chunks WHERE state = 'sent'");
    let lost = sent.iter().find(|id| !times.contains_key(&id.parse().unwrap()));
    check(lost.is_none(), || format!("never arrived: {lost:?}"))?;
    // The answers to commands pass by the rest; each of the two lines keeps its order.
    let urgent = rows(store, "SELECT CAST(id AS TEXT) FROM outbox WHERE urgent = 1");
    let mut last = HashMap::new();
    for got in got.iter() {
        let lane = (got.chat.clone(), urgent.contains(&got.delivery.to_string()));
        let before = last.insert(lane, got.delivery).unwrap_or_default();
        check(before < got.delivery, || format!("out of order: {got:?}"))?;
    }
    Ok(())
}

/// A call that is done has happened once, one that is interrupted perhaps, any other not at all.
fn each_call_was_made_as_it_says(world: &World, store: &Connection) -> Result<(), String> {
    let read = |path: &str| fs::read_to_string(world.path().join(path)).unwrap_or_default();
    let acts = read("acts");
    let folders = ["people", "groups"].map(|name| fs::read_dir(world.path().join(name)));
    let own = folders.into_iter().flatten().flatten().map(|folder| folder.unwrap().path());
    let logs = own.flat_map(|own| [own.join("workspace/log.md"), own.join("log.md")]);
    let others = logs.filter_map(|log| fs::read_to_string(log).ok());
    let all: Vec<_> = [read("workspace/log.md")].into_iter().chain(others).collect();
    let lines = all.iter().flat_map(|log| log.lines()).filter(|line| !line.is_empty());
    let log = lines.collect::<Vec<_>>().join("\n");
    for (tools, made, id) in [
        ("'act', 'leave'", &acts, "json_extract(arguments, '$.id')"),
        ("'append_file'", &log, "json_extract(arguments, '$.content')"),
    ] {
        let sql = format!("SELECT state || ' ' || {id} FROM calls WHERE tool IN ({tools})");
        let mut known = 0;
        for call in rows(store, &sql) {
            let (state, id) = call.split_once(' ').unwrap();
            let times = made.lines().filter(|line| *line == id).count();
            let expected = match state {
                "done" => 1..=1,
                "interrupted" => 0..=1,
                _ => 0..=0,
            };
            known += times;
            check(expected.contains(&times), || {
                format!("{id} is {state}, and was made {times} times")
            })?;
        }
        check(known == made.lines().count(), || format!("from nowhere: {made}"))?;
    }
    Ok(())
}

/// Whatever there is to know of what went wrong.
pub(super) fn dump(world: &World) -> String {
    let store = world.store();
    let mut text = String::new();
    for sql in [
        "SELECT 'in ' || id || ' ' || chat || ' ' || sender || ' ' || state || ' ' || ifnull(outcome, '-')
         || ' turn ' || ifnull(turn, '-') || ' ' || json_extract(message, '$.body.text') FROM inbound",
        "SELECT 'turn ' || id || ' session ' || session || ' suspended ' || suspended || ' ' || ifnull(ending, '-')
         FROM turns",
        "SELECT 'call ' || id || ' turn ' || turn || '.' || step || ' ' || tool || ' ' || arguments || ' '
         || state || ': ' || ifnull(output, '') FROM calls",
        "SELECT 'ask ' || id || ' turn ' || turn || ' ' || kind || ' ' || state FROM asks",
        "SELECT 'subagent ' || number || ' ' || details || ' ' || state FROM tasks WHERE kind = 'subagent'",
        "SELECT 'out ' || id || ' ' || chat || ' ' || state || ' ' || ifnull(replaces, '-') || ' ' || body
         FROM outbox",
    ] {
        for row in rows(&store, sql) {
            text.push_str(&row);
            text.push('\n');
        }
    }
    text
}
