//! Two hundred sessions with a known answer in each, in four languages, and a question about each.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use fastrand::Rng;
use peacrab::memory::recall::query::{self, RecallHit, RecallQuery};
use peacrab::memory::recall::words::{significant_terms, snippet};
use peacrab::memory::recall::{self, RecallKey, RecallKind, RecallText};
use peacrab::provider::tokens;
use peacrab::store::{Store, Sync};
use rusqlite::Connection;

use crate::Done;

const SESSIONS: usize = 200;
const TURNS: usize = 12;

/// Passages that a prompt gets.
const SHOWN: usize = 5;

const NAMES: [&str; 20] = [
    "Ada", "Bruno", "Clara", "Dario", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kaya",
    "Lena", "Milo", "Nora", "Otto", "Paula", "Rosa", "Samir", "Tilda", "Yusuf",
];
const FAMILIES: [&str; 10] =
    ["Abel", "Brandt", "Costa", "Duran", "Engel", "Ferrari", "Gross", "Haas", "Ibarra", "Jansen"];
const CITIES: [&str; 12] = [
    "Lyon", "Porto", "Graz", "Bergen", "Turin", "Gdansk", "Malmo", "Bern", "Cork", "Ghent",
    "Split", "Tartu",
];
const THINGS: [&str; 25] = [
    "boiler",
    "dishwasher",
    "roof",
    "bicycle",
    "piano",
    "heater",
    "fridge",
    "laptop",
    "printer",
    "chimney",
    "fence",
    "oven",
    "camera",
    "blinds",
    "doorbell",
    "mower",
    "lamp",
    "sofa",
    "shower",
    "garage",
    "router",
    "scooter",
    "watch",
    "drill",
    "tent",
];
const CHATTER: [&str; 12] = [
    "What is the weather like today, and do I need a coat?",
    "Please make a list of what we could cook this week.",
    "Thanks, that was a good idea.",
    "Can you tell me a joke about crabs?",
    "When does the shop on the corner close on Friday?",
    "I am tired, the day at work was long.",
    "Remind me to call the doctor, and to buy a birthday card.",
    "How do I write a letter to the landlord?",
    "We watched a film last night, and it was fun.",
    "Which day of the week is best for a trip with children?",
    "What is a good name for a cat that likes to sleep?",
    "Translate: where is the station, and when does the train to the city leave?",
];

/// A session: what is said in it, and a question whose answer that is.
struct KnownSession {
    group: &'static str,
    statement: String,
    question: String,
}

/// The result of the questions of a group.
#[derive(Default)]
struct GroupHits {
    questions: usize,
    at_1: usize,
    at_5: usize,
}

/// Indexes the sessions, asks, and prints a table.
pub(crate) async fn print(store: &Store) -> Done {
    let sessions: Vec<KnownSession> = (0..SESSIONS).map(known).collect();
    let texts: Vec<_> = sessions.iter().map(|it| it.statement.clone()).collect();
    let answers = store.write("bench", Sync::Later, move |store| fill(store, &texts)).await?;
    println!("\n## {SESSIONS} sessions of {TURNS} turns\n");
    println!("|questions|number|first|among {SHOWN}|\n|---|--:|--:|--:|");
    let mut groups: BTreeMap<&str, GroupHits> = BTreeMap::new();
    let mut read = 0;
    for (session, answer) in sessions.iter().zip(&answers) {
        let hits = ask(store, &session.question).await?;
        let place = hits.iter().position(|hit| hit.source == *answer);
        read += hits.iter().map(|hit| shown_tokens(hit, &session.question)).sum::<u64>();
        for group in [session.group, "all"] {
            let group = groups.entry(group).or_default();
            group.questions += 1;
            group.at_1 += usize::from(place == Some(0));
            group.at_5 += usize::from(place.is_some());
        }
    }
    for (group, GroupHits { questions, at_1, at_5 }) in &groups {
        let percent = |hits: &usize| hits * 100 / questions;
        println!("|{group}|{questions}|{} %|{} %|", percent(at_1), percent(at_5));
    }
    println!("\nTokens of the passages for a question, mean: {}.", read / SESSIONS as u64);
    updates(store, &sessions).await?;
    deletions(store, &sessions, &answers).await
}

/// Says something else about a person later, and asks for it.
async fn updates(store: &Store, sessions: &[KnownSession]) -> Done {
    let is_home = |session: &&KnownSession| session.group == "a name";
    let (mut asked, mut found, mut first) = (0, 0, 0);
    for (at, session) in sessions.iter().filter(is_home).enumerate() {
        let name = session.question.trim_start_matches("Where does ").trim_end_matches(" live?");
        let text = format!("{name} has moved, and lives in {} now.", CITIES[(at + 5) % 12]);
        let source = i64::try_from(100_000 + at)?;
        store.write("bench", Sync::Later, move |store| put(store, source, now(), &text)).await?;
        let hits = ask(store, &session.question).await?;
        let place = hits.iter().position(|hit| hit.source == source);
        asked += 1;
        found += usize::from(place.is_some());
        first += usize::from(place == Some(0));
    }
    println!(
        "Updates: {asked}; the new words among {SHOWN}: {found}, before the old ones: {first}."
    );
    Ok(())
}

/// Removes some answers, and asks for them.
async fn deletions(store: &Store, sessions: &[KnownSession], answers: &[i64]) -> Done {
    let (mut asked, mut found) = (0, 0);
    for (session, answer) in sessions.iter().zip(answers).step_by(10) {
        let source = *answer;
        let remove = move |store: &Connection| recall::remove(store, RecallKind::Turn, source);
        store.write("bench", Sync::Later, remove).await?;
        asked += 1;
        let hits = ask(store, &session.question).await?;
        found += usize::from(hits.iter().any(|hit| hit.source == *answer));
    }
    println!("Deletions: {asked}; found all the same: {found}.");
    Ok(())
}

async fn ask(store: &Store, question: &str) -> Result<Vec<RecallHit>, Box<dyn std::error::Error>> {
    let terms = significant_terms(question);
    let wanted = RecallQuery {
        keys: vec![key()],
        terms,
        since: None,
        now: now(),
        limit: SHOWN,
        needs_rare: true,
    };
    Ok(store.read(move |store| query::search(store, &wanted)).await?)
}

fn shown_tokens(hit: &RecallHit, question: &str) -> u64 {
    tokens(&snippet(&hit.text, &significant_terms(question)).0)
}

fn key() -> RecallKey {
    RecallKey::of_folder("bench")
}

fn now() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000)
}

fn put(store: &Connection, source: i64, at: DateTime<Utc>, text: &str) -> rusqlite::Result<()> {
    recall::put(store, &RecallText { key: &key(), kind: RecallKind::Turn, source, at, text })
}

/// Indexes all turns, one session a day. Returns the turns with the answers.
fn fill(store: &Connection, statements: &[String]) -> rusqlite::Result<Vec<i64>> {
    let mut random = Rng::with_seed(18);
    let mut answers = Vec::new();
    let (mut turn, mut day) = (0, now() - TimeDelta::days(statements.len() as i64));
    for statement in statements {
        day += TimeDelta::days(1);
        let place = random.usize(..TURNS);
        for at in 0..TURNS {
            turn += 1;
            let name = random.choice(NAMES).unwrap_or_default();
            let chatter = random.choice(CHATTER).unwrap_or_default();
            let text = match at == place {
                true => format!("{statement}\nGood to know."),
                false => format!("{chatter} {name} asks.\nHere is what I found."),
            };
            put(store, turn, day, &text)?;
            if at == place {
                answers.push(turn);
            }
        }
    }
    Ok(answers)
}

/// The session of a number: a tenth in each of three other languages, and some questions that share no word with the
/// answer, which words cannot find.
fn known(number: usize) -> KnownSession {
    let group = number % 10;
    let each = number / 10;
    let first = NAMES[each % NAMES.len()];
    let name = format!("{first} {}", FAMILIES[group]);
    let (city, day) = (CITIES[(number * 7) % CITIES.len()], number % 28 + 1);
    let thing = THINGS[each % THINGS.len()];
    let (group, statement, question) = match group {
        0 | 1 => ("a name", format!("{name} lives in {city}."), format!("Where does {name} live?")),
        2 => (
            "a name",
            format!("{name} turns {day} on the {day}th of May."),
            format!("When is {name}'s birthday?"),
        ),
        3 => (
            "a thing",
            format!("The {thing} was repaired by a man from {city} for {day}0 euros."),
            format!("Who repaired the {thing}?"),
        ),
        4 => (
            "another form of a word",
            format!("I planned the painting of the {thing}s with {first} for June {day}."),
            format!("What are the plans for the {thing}?"),
        ),
        5 => (
            "a name",
            format!("{name} is allergic to nuts and to milk."),
            format!("What must {name} not eat?"),
        ),
        6 => (
            "German",
            format!("{name} zieht am {day}. August nach {city} um."),
            format!("Wann zieht {name} um?"),
        ),
        7 => (
            "Spanish",
            format!("La cita de {name} con el dentista es el {day} de marzo."),
            format!("¿Cuándo va {name} al dentista?"),
        ),
        8 => {
            let sign = char::from_u32(0x4e8c + each as u32 * 37).unwrap_or('王');
            (
                "Chinese",
                format!("{sign}小明的生日是五月{day}日。"),
                format!("{sign}小明什么时候过生日？"),
            )
        }
        _ => (
            "no common word",
            format!("The rent of flat {number} was raised to {day}00 euros."),
            "How much do we pay for housing each month?".to_owned(),
        ),
    };
    KnownSession { group, statement, question }
}
