//! The lists of the page, and their actions: as the chat commands, with the rights of who asks.

use peacrab::config::AgentConfig;
use peacrab::conversation::asks::{ApprovalSettings, Approvals};
use peacrab::people::Role;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::browser::{Browser, client, config, rig, token_of};
use crate::support::rig::{OTHER_USER, Rig, RigOptions, USER};
use crate::support::script::{calls, says};

/// One where calls of users and those that write are asked about.
async fn approving() -> Rig {
    let approvals = Approvals { tools: vec!["write_*".to_owned()], roles: vec![Role::User] };
    let asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
    let agent = AgentConfig { asking, ..RigOptions::default().agent };
    Rig::of(RigOptions { agent, gateway: Some(config()), ..RigOptions::default() }).await
}

async fn act(browser: &Browser, path: &str, action: &str) -> (StatusCode, String) {
    let response = browser.post(path, &json!({ "action": action })).await;
    let status = response.status();
    let body: Value = response.json().await.unwrap();
    let words = body.get("said").unwrap_or(&body["error"]["message"]);
    (status, words.as_str().unwrap().to_owned())
}

async fn status(browser: &Browser, path: &str) -> StatusCode {
    browser.request(Method::GET, path).send().await.unwrap().status()
}

#[tokio::test]
async fn jobs_are_run_paused_resumed_and_removed() {
    let mut rig = rig().await;
    let browser = Browser::owner(&rig).await;
    let mut stream = browser.stream("main", "0.0").await;
    browser.say("main", "message-1", "/jobs message every 2h | Drink *water*.").await;
    stream.answer().await;
    let jobs = browser.get("/jobs").await["jobs"].clone();
    assert_eq!(jobs[0]["text"], "Drink *water*.");
    assert_eq!((&jobs[0]["id"], &jobs[0]["kind"]), (&json!(1), &json!("fixed text")));
    assert!(jobs[0]["next"].is_string());
    assert_eq!(act(&browser, "/jobs/1", "run").await.0, StatusCode::OK);
    assert!(stream.answer().await.contains("Drink *water*."));
    rig.settled().await;
    assert_eq!(act(&browser, "/jobs/1", "pause").await.0, StatusCode::OK);
    let paused = browser.get("/jobs").await["jobs"][0].clone();
    assert_eq!((&paused["paused"], &paused["next"]), (&json!(""), &Value::Null));
    // As in chat, what cannot be done is explained.
    assert_eq!(act(&browser, "/jobs/1", "run").await.0, StatusCode::CONFLICT);
    assert_eq!(act(&browser, "/jobs/1", "resume").await.0, StatusCode::OK);
    assert_eq!(act(&browser, "/jobs/1", "remove").await.0, StatusCode::OK);
    assert_eq!(browser.get("/jobs").await["jobs"], json!([]));
    let (status, words) = act(&browser, "/jobs/1", "run").await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(words.contains('1'), "{words}");
    for wrong in ["add", "list", "edit", "history", "x", ""] {
        let status = browser.post("/jobs/1", &json!({ "action": wrong })).await.status();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    rig.finish().await;
}

#[tokio::test]
async fn nobody_sees_or_changes_the_jobs_of_others() {
    let rig = rig().await;
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    let mut stream = owner.stream("main", "0.0").await;
    owner.say("main", "message-1", "/jobs message every 2h | My secret.").await;
    stream.answer().await;
    let mut bens = ben.stream("main", "0.0").await;
    ben.say("main", "message-1", "/jobs message every 3h | Ben's own.").await;
    bens.answer().await;
    let seen = ben.get("/jobs").await;
    assert_eq!(seen["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(seen["jobs"][0]["id"], 2);
    for action in ["run", "pause", "resume", "remove"] {
        assert_eq!(act(&ben, "/jobs/1", action).await.0, StatusCode::CONFLICT);
    }
    assert_eq!(rig.query("SELECT state FROM jobs ORDER BY id"), ["active", "active"]);
    // The owner has both, as in chat.
    assert_eq!(owner.get("/jobs").await["jobs"].as_array().unwrap().len(), 2);
    rig.finish().await;
}

#[tokio::test]
async fn jobs_of_all_accounts_of_a_person_are_listed_and_changed() {
    let mut rig = rig().await;
    let mut pages = Vec::new();
    for (who, chat) in [(USER, "2"), (OTHER_USER, "3")] {
        rig.say_as(who, chat, "/web");
        pages.push(Browser::by_link(&rig.next_message(chat).await).await);
    }
    rig.say_as(USER, "2", "/jobs message every 2h | Made there.");
    rig.next_message("2").await;
    let mut stream = pages[0].stream("main", "0.0").await;
    pages[0].say("main", "message-1", "/jobs message every 3h | Made here.").await;
    stream.answer().await;
    let jobs = pages[0].get("/jobs").await["jobs"].clone();
    assert_eq!((&jobs[0]["text"], &jobs[1]["text"]), (&json!("Made there."), &json!("Made here.")));
    assert_eq!(pages[1].get("/jobs").await["jobs"], json!([]));
    assert_eq!(act(&pages[1], "/jobs/1", "remove").await.0, StatusCode::CONFLICT);
    assert_eq!(act(&pages[0], "/jobs/1", "pause").await.0, StatusCode::OK);
    assert_eq!(act(&pages[0], "/jobs/2", "remove").await.0, StatusCode::OK);
    assert_eq!(rig.query("SELECT state FROM jobs ORDER BY id"), ["paused", "removed"]);
    rig.finish().await;
}

#[tokio::test]
async fn a_call_that_waits_is_decided_from_the_list() {
    let mut rig = approving().await;
    let write =
        |name: &str| calls(&[("write_file", json!({"path": name, "content": "a\u{200b}b"}))]);
    rig.model.on("write one", [write("one.md"), says("Done.")]);
    rig.model.on("write two", [write("two.md"), says("Not done.")]);
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    let mut stream = owner.stream("main", "0.0").await;
    owner.say("main", "message-1", "write one").await;
    stream.next("message").await.unwrap();
    stream.next("message").await.unwrap();
    let waiting = owner.get("/waiting").await["approvals"].clone();
    assert_eq!((&waiting[0]["id"], &waiting[0]["tool"]), (&json!(1), &json!("write_file")));
    let arguments = waiting[0]["arguments"].as_str().unwrap();
    assert!(arguments.contains("one.md") && arguments.contains("⟨U+200B⟩"), "{arguments}");
    // With the reason, and the whole difference, as in the question.
    let asked = rig.query(
        "SELECT json_extract(body, '$.choice.text') FROM outbox WHERE body LIKE '%Approve?%'",
    );
    let (why, change) =
        (waiting[0]["why"].as_str().unwrap(), waiting[0]["change"].as_str().unwrap());
    assert!(asked[0].contains(&format!("because {why}.")), "{why}: {asked:?}");
    assert!(
        change.contains("+a⟨U+200B⟩b") && asked[0].contains(change.trim()),
        "{change}: {asked:?}"
    );
    assert_eq!(waiting[0]["tells"], Value::Null);
    assert_eq!(waiting[0]["files"], Value::Null);
    // A user neither sees it nor decides.
    assert_eq!(ben.get("/waiting").await["approvals"], json!([]));
    assert_eq!(act(&ben, "/approvals/1", "approve").await.0, StatusCode::FORBIDDEN);
    assert!(!rig.workspace().join("one.md").exists());
    assert_eq!(act(&owner, "/approvals/1", "approve").await.0, StatusCode::OK);
    assert_eq!(act(&owner, "/approvals/1", "deny").await.0, StatusCode::CONFLICT);
    // Once it is decided, what it showed is kept in the conversation alone.
    assert_eq!(rig.query("SELECT id FROM asks WHERE shown IS NOT NULL"), Vec::<String>::new());
    rig.settled().await;
    assert!(rig.workspace().join("one.md").exists());
    owner.say("main", "message-2", "write two").await;
    rig.wait_for_count("SELECT count(*) FROM asks WHERE state = 'open'", 1).await;
    assert_eq!(act(&owner, "/approvals/2", "deny").await.0, StatusCode::OK);
    rig.settled().await;
    assert!(!rig.workspace().join("two.md").exists());
    assert_eq!(owner.get("/waiting").await, json!({ "approvals": [], "questions": [] }));
    let wrong = owner.post("/approvals/2", &json!({ "action": "revoke" })).await;
    assert_eq!(wrong.status(), StatusCode::BAD_REQUEST);
    rig.finish().await;
}

#[tokio::test]
async fn a_call_outlives_a_restart_between_the_list_and_the_decision() {
    let mut rig = approving().await;
    let write = calls(&[("write_file", json!({"path": "one.md", "content": "x"}))]);
    rig.model.on("write one", [write, says("Done.")]);
    let owner = Browser::owner(&rig).await;
    owner.say("main", "message-1", "write one").await;
    rig.wait_for_count("SELECT count(*) FROM asks WHERE state = 'open'", 1).await;
    assert_eq!(owner.get("/waiting").await["approvals"][0]["id"], 1);
    rig.stop_and_start_again().await;
    let owner = Browser { url: super::browser::url(&rig).await, ..owner };
    assert_eq!(act(&owner, "/approvals/1", "approve").await.0, StatusCode::OK);
    rig.settled().await;
    assert!(rig.workspace().join("one.md").exists());
    rig.finish().await;
}

#[tokio::test]
async fn questions_and_proposals_wait_in_their_persons_list() {
    let mut rig = rig().await;
    let proposes = calls(&[("propose", json!({"title": "Tidy up", "body": "All *notes*."}))]);
    rig.model.on("ideas", [proposes, says("Well?")]);
    let asks =
        calls(&[("ask_question", json!({"question": "Which?", "choices": ["red", "blue"]}))]);
    rig.model.on("paint", [asks, says("Blue it is.")]);
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    let mut stream = owner.stream("plans", "0.0").await;
    owner.say("plans", "message-1", "any ideas?").await;
    while stream.answer().await != "Well?" {}
    owner.say("house", "message-2", "paint it").await;
    rig.wait_for_count("SELECT count(*) FROM asks WHERE state = 'open'", 1).await;
    assert_eq!(ben.get("/waiting").await["questions"], json!([]));
    let questions = owner.get("/waiting").await["questions"].clone();
    assert_eq!((&questions[0]["proposal"], &questions[1]["proposal"]), (&Value::Null, &json!(1)));
    assert_eq!(
        (&questions[0]["session"], &questions[1]["session"]),
        (&json!("house"), &json!("plans"))
    );
    assert_eq!(questions[0]["message"]["choices"], json!(["red", "blue"]));
    for (question, session) in [(&questions[0], "house"), (&questions[1], "plans")] {
        let press = json!({
            "session": session, "id": format!("press-{session}"), "message": question["message"]["id"],
            "choice": 1,
        });
        assert_eq!(owner.post("/press", &press).await.status(), StatusCode::ACCEPTED);
    }
    rig.settled().await;
    assert_eq!(owner.get("/waiting").await["questions"], json!([]));
    assert_eq!(rig.query("SELECT state FROM proposals"), ["declined"]);
    rig.finish().await;
}

#[tokio::test]
async fn the_state_of_the_whole_is_for_the_owner_and_admins() {
    let rig = rig().await;
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    let channels = owner.get("/channels").await["channels"].clone();
    assert!(
        channels["home"]["last_byte_s"].is_number() || channels["home"]["last_byte_s"].is_null()
    );
    assert!(channels["web"]["up"].is_boolean(), "{channels}");
    for path in ["/channels", "/usage"] {
        assert_eq!(status(&owner, path).await, StatusCode::OK);
        assert_eq!(status(&ben, path).await, StatusCode::FORBIDDEN);
    }
    rig.finish().await;
}

#[tokio::test]
async fn actions_need_the_pages_own_value_and_are_limited() {
    let rig = rig().await;
    let owner = Browser::owner(&rig).await;
    let url = |path: &str| format!("{}{path}", owner.url);
    for path in ["/jobs/1", "/approvals/1"] {
        let forged = client().post(url(path)).header("Cookie", &owner.cookie);
        let forged = forged.json(&json!({ "action": "run" })).send().await.unwrap();
        assert_eq!(forged.status(), StatusCode::FORBIDDEN, "{path}");
        let other = client().post(url(path)).bearer_auth(token_of("ben")).header("Origin", "null");
        let other = other.json(&json!({ "action": "run" })).send().await.unwrap();
        assert_eq!(other.status(), StatusCode::FORBIDDEN, "{path}");
    }
    let mut last = StatusCode::OK;
    for _ in 0..80 {
        last = act(&owner, "/jobs/9", "run").await.0;
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS);
    rig.finish().await;
}

#[tokio::test]
async fn a_secret_of_the_config_is_in_no_list() {
    let redactor =
        peacrab::secret::Redactor::new([&peacrab::secret::Secret::new("hunter2-hunter2")]);
    let mut rig =
        Rig::of(RigOptions { gateway: Some(config()), redactor, ..RigOptions::default() }).await;
    let owner = Browser::owner(&rig).await;
    owner.say("main", "message-1", "/jobs message every 2h | It is hunter2-hunter2.").await;
    rig.settled().await;
    let jobs = owner.get("/jobs").await.to_string();
    assert!(jobs.contains("It is") && !jobs.contains("hunter2"), "{jobs}");
    rig.finish().await;
}
