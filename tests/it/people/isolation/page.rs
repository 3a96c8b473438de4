//! The same table on the page in the browser: every route of the gateway, for each pair of roles. What people say and
//! keep on the page stands beside what they said and kept on their platform.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{STORES, TELLERS, Teller, household, leaks, secret, stop_waiting, tell_everything};
use crate::gateway::browser::{Browser, Stream, config, url};
use crate::people::number;
use crate::support::rig::Rig;
use crate::support::script::says;

/// The stores of text that only the page has.
const PAGE_STORES: [&str; 3] = ["session", "typed", "typedanswer"];

/// A person with their browser, and all events that it may see.
struct Reader {
    teller: &'static Teller,
    browser: Browser,
    events: Stream,
}

/// Everybody who has a page, signed in as themselves.
async fn readers(rig: &mut Rig) -> Vec<Reader> {
    let mut readers = Vec::new();
    // Guests have no page.
    for teller in TELLERS.iter().filter(|teller| teller.role != "guest") {
        rig.say_as(teller.id, teller.chat, "/web");
        let browser = Browser::by_link(&rig.next_message(teller.chat).await).await;
        assert_eq!(browser.get("/me").await["role"], teller.role);
        let events = browser.request(Method::GET, "/events").send().await.unwrap();
        readers.push(Reader { teller, browser, events: Stream::of(events) });
    }
    readers
}

/// What a path answers, whatever that is.
async fn look(browser: &Browser, path: &str) -> String {
    let response = browser.request(Method::GET, path).send().await.unwrap();
    assert!(!response.status().is_server_error(), "{path}");
    String::from_utf8_lossy(&response.bytes().await.unwrap()).into_owned()
}

/// The same of an attempt to change something.
async fn attempt(browser: &Browser, path: &str, body: &Value) -> String {
    let response = browser.post(path, body).await;
    assert!(!response.status().is_server_error(), "{path}");
    assert!(!response.status().is_success(), "{path} is somebody else's");
    response.text().await.unwrap()
}

/// A name in an address, so that no sign of it has a meaning there.
fn encoded(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        write!(text, "%{byte:02X}").unwrap();
        text
    })
}

/// All files that a person reaches: the lists of the folders, and what is in each file.
async fn files(browser: &Browser) -> String {
    let (mut seen, mut folders) = (String::new(), BTreeSet::from([String::new()]));
    while let Some(folder) = folders.pop_first() {
        let listed = browser.get(&format!("/workspace?path={}", encoded(&folder))).await;
        seen.push_str(&listed.to_string());
        for entry in listed["entries"].as_array().unwrap() {
            let name = entry["name"].as_str().unwrap();
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            match entry["kind"].as_str().unwrap() {
                "folder" => drop(folders.insert(path)),
                _ => {
                    let path = format!("/workspace/file?path={}", encoded(&path));
                    seen.push_str(&look(browser, &path).await);
                }
            }
        }
    }
    seen
}

/// The paths of everybody's files, as one might guess them.
fn guesses(rig: &Rig) -> Vec<String> {
    let mut paths = Vec::new();
    for teller in TELLERS.iter().filter(|teller| teller.role != "guest") {
        let folder = number(rig, teller.id);
        for file in ["list.md", "USER.md", "memory/MEMORY.md", "../downloads/page.txt"] {
            paths.push(format!("people/{folder}/workspace/{file}"));
            paths.push(format!("../people/{folder}/workspace/{file}"));
            paths.push(format!("downloads/../../people/{folder}/workspace/{file}"));
            paths.push(format!("shared/../people/{folder}/workspace/{file}"));
        }
    }
    paths.extend(
        ["..", "../state.db", "state.db", "/", "people", "../config.toml"].map(str::to_owned),
    );
    paths
}

/// All that a person gets from the gateway.
async fn see_everything(rig: &mut Rig, reader: &mut Reader) -> String {
    let Reader { teller, browser, events } = reader;
    let mut seen = files(browser).await;
    for path in guesses(rig) {
        let path = encoded(&path);
        for route in ["/workspace", "/workspace/file"] {
            seen.push_str(&look(browser, &format!("{route}?path={path}")).await);
        }
    }
    let own = ["/me", "/sessions", "/jobs", "/waiting", "/usage", "/channels", "/sign-ins"];
    let of_all = ["/health", "/ready", "/metrics", "/openapi.json", "/v1/models", "/"];
    for path in own.iter().chain(&of_all) {
        seen.push_str(&look(browser, path).await);
    }
    let chats =
        rig.query("SELECT DISTINCT chat FROM outbox UNION SELECT DISTINCT chat FROM inbound");
    let sessions = TELLERS.iter().map(|teller| secret(teller, "session"));
    let others = sessions.chain(chats.iter().flat_map(|chat| {
        let session = chat.split_once('/').map_or(chat.as_str(), |(_, session)| session);
        [chat.clone(), session.to_owned(), format!("../{chat}"), format!("{chat}/main")]
    }));
    for session in others.collect::<BTreeSet<_>>() {
        seen.push_str(&look(browser, &format!("/sessions/{}", encoded(&session))).await);
    }
    for file in rig.query("SELECT CAST(id AS TEXT) FROM outbox") {
        seen.push_str(&look(browser, &format!("/sessions/main/files/{file}")).await);
    }
    seen.push_str(&attempts(rig, teller, browser).await);
    // The last of the events is that of one's own turn.
    browser.say("main", "the-end-of-it", "the end").await;
    let mut stream = browser.stream("main", "0.0").await;
    while stream.answer().await != "re: the end" {}
    loop {
        let event = events.any().await.expect("the events go on");
        seen.push_str(&event.data.to_string());
        if event.data["text"] == "re: the end" {
            return seen;
        }
    }
}

/// What somebody gets who decides and changes what is others'.
async fn attempts(rig: &Rig, teller: &Teller, browser: &Browser) -> String {
    let mut seen = String::new();
    let asks = rig.query(&format!(
        "SELECT CAST(a.id AS TEXT) FROM asks a JOIN turns t ON t.id = a.turn
         WHERE json_extract(t.sender, '$.id') <> '{}'",
        teller.id
    ));
    assert_eq!(asks.len(), 2, "{asks:?}");
    for ask in asks {
        for action in ["deny", "approve", "always"] {
            let body = json!({ "action": action });
            seen.push_str(&attempt(browser, &format!("/approvals/{ask}"), &body).await);
        }
        let answer = json!({ "id": format!("guess-{ask}-{}", teller.role), "text": "yes" });
        seen.push_str(&attempt(browser, &format!("/questions/{ask}"), &answer).await);
    }
    let proposals = rig.query(&format!(
        "SELECT CAST(p.id AS TEXT) FROM proposals p WHERE NOT EXISTS (SELECT 1 FROM turns t
         WHERE t.session = p.session AND json_extract(t.sender, '$.id') = '{}')",
        teller.id
    ));
    assert_eq!(proposals.len(), 2, "{proposals:?}");
    for proposal in proposals {
        let body = json!({ "id": format!("guess-{proposal}-{}", teller.role), "choice": 0 });
        seen.push_str(&attempt(browser, &format!("/proposals/{proposal}"), &body).await);
    }
    let jobs =
        rig.query(&format!("SELECT CAST(id AS TEXT) FROM jobs WHERE chat <> '{}'", teller.chat));
    for job in jobs.iter().filter(|_| teller.role != "owner") {
        for action in ["run", "pause", "resume", "remove"] {
            let path = format!("/jobs/{job}");
            seen.push_str(&attempt(browser, &path, &json!({ "action": action })).await);
        }
    }
    let buttons =
        "SELECT CAST(id AS TEXT) FROM outbox WHERE json_extract(body, '$.choice') IS NOT NULL";
    for delivery in rig.query(buttons) {
        let press = json!({
            "session": "main", "id": format!("press-{delivery}-{}", teller.role),
            "message": delivery, "choice": 0,
        });
        seen.push_str(&attempt(browser, "/press", &press).await);
    }
    for login in rig.query("SELECT substr(hash, 1, 8) FROM web_logins") {
        let own = browser.get("/sign-ins").await.to_string();
        if !own.contains(&login) {
            let body = json!({ "action": "revoke" });
            seen.push_str(&attempt(browser, &format!("/sign-ins/{login}"), &body).await);
        }
    }
    seen
}

/// Stores that are seen in chats alone. The page sends an office document as it is, packed.
const ONLY_IN_CHATS: [&str; 7] = ["former", "said", "answer", "plan", "aside", "fact", "office"];

#[tokio::test]
async fn the_page_shows_nobody_what_others_keep_in_private() {
    let mut rig = household(Some(config())).await;
    url(&rig).await;
    let mut readers = readers(&mut rig).await;
    for teller in &TELLERS {
        tell_everything(&mut rig, teller).await;
    }
    for Reader { teller, browser, .. } in &readers {
        let (session, said) = (secret(teller, "session"), secret(teller, "typed"));
        rig.model.on(&said, [says(&secret(teller, "typedanswer"))]);
        assert_eq!(browser.say(&session, "message-1", &said).await, StatusCode::ACCEPTED);
        let answer = browser.stream(&session, "0.0").await.answer().await;
        assert_eq!(answer, secret(teller, "typedanswer"));
    }
    let mut seen = BTreeMap::new();
    for reader in &mut readers {
        let all = see_everything(&mut rig, reader).await;
        seen.insert((reader.teller.role, "page"), all);
    }
    assert_eq!(leaks(&seen), Vec::<String>::new());
    for Reader { teller: reader, .. } in &readers {
        let all = &seen[&(reader.role, "page")];
        for (teller, store) in TELLERS.iter().flat_map(|it| PAGE_STORES.map(|store| (it, store))) {
            let is_seen = all.contains(&secret(teller, store));
            assert_eq!(is_seen, reader.role == teller.role, "{}: {store}", reader.role);
        }
        // Nothing is hidden from everybody.
        for store in STORES.iter().filter(|store| !ONLY_IN_CHATS.contains(store)) {
            assert!(all.contains(&secret(reader, store)), "{} misses {store}", reader.role);
        }
    }
    drop(readers);
    stop_waiting(&mut rig).await;
    rig.finish().await;
}
