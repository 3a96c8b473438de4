//! `/web`: who gets a link to sign in, where, and how often.

use peacrab::gateway::Config;
use peacrab::people::{Access, LOCAL};
use peacrab::replies;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::browser::{Browser, client, config, rig, token_of, url};
use crate::support::rig::{OTHER_USER, OWNER, Rig, RigOptions, STRANGER, USER};
use crate::support::script::{calls, says};

/// The name and role of the person whom a link in an answer signs in.
async fn signed_in_by(answer: &str) -> (String, String) {
    let me = Browser::by_link(answer).await.get("/me").await;
    (me["name"].as_str().unwrap().to_owned(), me["role"].as_str().unwrap().to_owned())
}

/// The answer of the page to a path.
async fn status(browser: &Browser, path: &str) -> StatusCode {
    browser.request(Method::GET, path).send().await.unwrap().status()
}

#[tokio::test]
async fn the_owner_gets_a_link_in_a_private_chat() {
    let mut rig = rig().await;
    url(&rig).await;
    let answer = rig.ask("1", "/web").await;
    assert!(answer.contains("only on the computer on which I run"), "{answer}");
    assert_eq!(signed_in_by(&answer).await, ("owner".to_owned(), "owner".to_owned()));
    rig.finish().await;
}

#[tokio::test]
async fn a_public_address_stands_in_the_link() {
    let config = Config { url: Some("https://bot.example".to_owned()), ..config() };
    let mut rig = Rig::of(RigOptions { gateway: Some(config), ..RigOptions::default() }).await;
    url(&rig).await;
    let answer = rig.ask("1", "/web").await;
    assert!(answer.contains("\nhttps://bot.example/#"), "{answer}");
    assert!(!answer.contains("only on the computer"), "{answer}");
    rig.finish().await;
}

#[tokio::test]
async fn no_link_is_given_in_a_group() {
    let mut rig = rig().await;
    url(&rig).await;
    assert_eq!(rig.ask("-1", "/web").await, replies::WEB_PRIVATELY);
    rig.say_as(USER, "-1", "/web");
    assert_eq!(rig.next_message("-1").await, replies::WEB_PRIVATELY);
    rig.finish().await;
}

#[tokio::test]
async fn others_sign_in_with_the_account_that_they_have_linked() {
    let mut rig = rig().await;
    let ben = Browser::of(&rig, "ben").await;
    rig.say_as(USER, "2", "hello");
    rig.next_message("2").await;
    ben.say("main", "message-1", "hello").await;
    rig.settled().await;
    rig.execute(&format!(
        "UPDATE accounts SET person = (SELECT person FROM accounts WHERE channel = 'home' AND sender = '{USER}')
         WHERE channel = 'web' AND sender = 'ben'"
    ));
    rig.say_as(USER, "2", "/web");
    let answer = rig.next_message("2").await;
    assert_eq!(signed_in_by(&answer).await, ("ben".to_owned(), "user".to_owned()));
    // Whoever is blocked is not answered, and has no sign-in either.
    rig.execute("UPDATE persons SET blocked = 1 WHERE id = (SELECT person FROM accounts WHERE sender = 'ben')");
    assert_eq!(
        ben.request(reqwest::Method::GET, "/me").send().await.unwrap().status(),
        StatusCode::FORBIDDEN
    );
    rig.finish().await;
}

#[tokio::test]
async fn a_program_cannot_make_a_sign_in_of_its_token() {
    let rig = rig().await;
    let browser = Browser::owner(&rig).await;
    let asks = json!({ "model": "peacrab", "messages": [{ "role": "user", "content": "/web" }] });
    let answer = client().post(format!("{}/v1/chat/completions", browser.url)).json(&asks);
    let answer: Value =
        answer.bearer_auth(token_of(LOCAL)).send().await.unwrap().json().await.unwrap();
    let said = &answer["choices"][0]["message"]["content"];
    assert_eq!(said, replies::WEB_FROM_ELSEWHERE);
    let mut stream = browser.stream("main", "0.0").await;
    browser.say("main", "message-1", "/web").await;
    assert_eq!(stream.answer().await, replies::WEB_FROM_ELSEWHERE);
    rig.finish().await;
}

#[tokio::test]
async fn links_are_limited_and_take_no_others_place() {
    let mut rig = rig().await;
    url(&rig).await;
    let bens = rig.web.as_ref().unwrap().link(&"ben".into()).await.unwrap();
    let mut answers = Vec::new();
    for _ in 0..4 {
        answers.push(rig.ask("1", "/web").await);
    }
    assert_eq!(answers[3], replies::WEB_TOO_OFTEN);
    // Those of one person are few, whoever asks for them.
    for _ in 0..40 {
        rig.web.as_ref().unwrap().link_now(&LOCAL.into()).unwrap();
    }
    let (url, first) = answers[0].lines().nth(1).unwrap().split_once("/#").unwrap();
    let used = client().post(format!("{url}/login")).json(&json!({ "code": first }));
    assert_eq!(used.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    assert_eq!(signed_in_by(&bens).await, ("ben".to_owned(), "user".to_owned()));
    rig.finish().await;
}

#[tokio::test]
async fn without_the_section_the_owner_learns_how_to_switch_it_on() {
    let mut rig = Rig::new().await;
    assert_eq!(rig.ask("1", "/web").await, replies::WEB_IS_OFF);
    rig.say_as(USER, "2", "/web");
    assert_eq!(rig.next_message("2").await, replies::WEB_IS_OFF_HERE);
    assert_eq!(rig.ask("-1", "/web").await, replies::WEB_PRIVATELY);
    rig.finish().await;
}

#[tokio::test]
async fn a_paired_person_signs_in_as_themselves() {
    let mut rig = rig().await;
    rig.ask("1", "hello").await;
    rig.say_as(STRANGER, "s", "hello");
    let words = rig.next_message("s").await;
    let code = words.split_once("Your code is ").unwrap().1.split(',').next().unwrap().to_owned();
    assert!(rig.next_message("1").await.contains(&code));
    rig.ask("1", &format!("/pair approve {code}")).await;
    rig.say_as(STRANGER, "s", "/web");
    let answer = loop {
        let heard = rig.next_message("s").await;
        if heard.contains("http://") {
            break heard;
        }
    };
    let page = Browser::by_link(&answer).await;
    let me = page.get("/me").await;
    assert_eq!((&me["name"], &me["role"]), (&json!("Person 66"), &json!("user")));
    // They have one folder, here and there, and see nothing of others.
    let owner = Browser::owner(&rig).await;
    owner.say("main", "message-1", "my secret").await;
    let keeps = |name: &str| calls(&[("write_file", json!({"path": name, "content": "mine"}))]);
    rig.model.on("plans", [keeps("plans.md"), says("Kept.")]);
    let mut stream = page.stream("main", "0.0").await;
    page.say("main", "message-1", "keep my plans").await;
    assert_eq!(stream.answer().await, "Kept.");
    rig.model.on("list", [keeps("list.md"), says("Kept, too.")]);
    rig.say_as(STRANGER, "s", "keep my list");
    assert_eq!(rig.next_message("s").await, "Kept, too.");
    let files = page.get("/workspace").await.to_string();
    assert!(files.contains("plans.md") && files.contains("list.md"), "{files}");
    assert!(!files.contains("AGENTS.md"), "{files}");
    let all = page.get("/sessions/main").await.to_string();
    assert!(all.contains("Kept.") && !all.contains("my secret"), "{all}");
    let sessions = page.get("/sessions").await["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");
    for path in ["/usage", "/channels"] {
        assert_eq!(status(&page, path).await, StatusCode::FORBIDDEN, "{path}");
    }
    let others = owner.get("/sessions").await["sessions"].clone();
    assert_eq!(others.as_array().unwrap().len(), 1, "{others}");
    // A second link is for the same account, and the role is that of the moment.
    rig.say_as(STRANGER, "s", "/web");
    let again = Browser::by_link(&rig.next_message("s").await).await;
    assert_eq!(again.get("/sessions").await["sessions"], sessions);
    let person = rig.query("SELECT 'p' || person FROM accounts WHERE sender = '66'").remove(0);
    rig.ask("1", &format!("/people admin {person}")).await;
    assert_eq!(page.get("/me").await["role"], "admin");
    rig.ask("1", &format!("/people remove {person}")).await;
    assert_eq!(status(&page, "/me").await, StatusCode::FORBIDDEN);
    assert_eq!(status(&again, "/sessions/main").await, StatusCode::FORBIDDEN);
    rig.finish().await;
}

#[tokio::test]
async fn two_people_have_accounts_of_their_own_that_outlive_a_restart() {
    let mut rig = rig().await;
    let mut pages = Vec::new();
    for (who, chat) in [(USER, "2"), (OTHER_USER, "3")] {
        rig.say_as(who, chat, "/web");
        let page = Browser::by_link(&rig.next_message(chat).await).await;
        page.say("main", "message-1", &format!("secret of {who}")).await;
        pages.push(page);
    }
    rig.settled().await;
    rig.stop_and_start_again().await;
    let url = url(&rig).await;
    let pages: Vec<_> =
        pages.into_iter().map(|page| Browser { url: url.clone(), ..page }).collect();
    for (page, own, other) in [(&pages[0], USER, OTHER_USER), (&pages[1], OTHER_USER, USER)] {
        let all = page.get("/sessions/main").await.to_string();
        assert!(all.contains(&format!("re: secret of {own}")), "{all}");
        assert!(!all.contains(&format!("secret of {other}")), "{all}");
    }
    // Their accounts on the page stay with them, whatever they part from.
    pages[0].say("main", "message-2", "/unlink").await;
    rig.settled().await;
    let all = pages[0].get("/sessions/main").await.to_string();
    assert!(all.contains(replies::NOT_LINKED), "{all}");
    rig.say_as(USER, "2", "/unlink");
    assert_eq!(rig.next_message("2").await, replies::NOT_LINKED);
    assert_eq!(pages[0].get("/me").await["role"], "user");
    rig.finish().await;
}

#[tokio::test]
async fn whoever_is_let_in_as_everybody_is_has_no_page() {
    let access = Access { allow: vec!["*".to_owned()], ..RigOptions::default().access };
    let parts = RigOptions { gateway: Some(config()), access, ..RigOptions::default() };
    let mut rig = Rig::of(parts).await;
    url(&rig).await;
    rig.say_as(STRANGER, "s", "/web");
    assert_eq!(rig.next_message("s").await, replies::WEB_WITHOUT_ACCOUNT);
    rig.say_as(STRANGER, "s", "hello");
    rig.next_message("s").await;
    rig.say_as(STRANGER, "s", "/web");
    assert_eq!(rig.next_message("s").await, replies::WEB_WITHOUT_ACCOUNT);
    let made = rig.query("SELECT sender FROM accounts WHERE sender LIKE '@%'");
    assert_eq!(made, Vec::<String>::new());
    rig.finish().await;
}

/// Makes both accounts one person.
fn link(rig: &Rig, (one, other): (&str, &str)) {
    rig.execute(&format!(
        "UPDATE accounts SET person = (SELECT person FROM accounts WHERE channel = 'home' AND sender = '{one}')
         WHERE channel = 'home' AND sender = '{other}'"
    ));
}

/// A browser that is signed in by the link which somebody gets in their chat.
async fn browser_of(rig: &mut Rig, (who, chat): (&str, &str)) -> Browser {
    rig.say_as(who, chat, "/web");
    Browser::by_link(&rig.next_message(chat).await).await
}

#[tokio::test]
async fn a_sign_in_as_the_owner_ends_with_the_account_that_got_its_link() {
    for command in ["/unlink", "/pair revoke home 66"] {
        let mut rig = rig().await;
        rig.ask("1", "hello").await;
        rig.execute(
            "INSERT INTO people (channel, sender, name, role, since)
             VALUES ('home', '66', 'Person 66', '\"user\"', 1)",
        );
        rig.say_as(STRANGER, "s", "hello");
        rig.next_message("s").await;
        link(&rig, (OWNER, STRANGER));
        let own = Browser::owner(&rig).await;
        let theirs = browser_of(&mut rig, (STRANGER, "s")).await;
        assert_eq!(theirs.get("/me").await["role"], "owner");
        rig.say_as(STRANGER, "s", "/web");
        let unused = rig.next_message("s").await;
        rig.say_as(STRANGER, "s", command);
        rig.next_message("s").await;
        assert_eq!(status(&theirs, "/me").await, StatusCode::UNAUTHORIZED);
        let (at, code) = unused.lines().nth(1).unwrap().split_once("/#").unwrap();
        let used = client().post(format!("{at}/login")).json(&json!({ "code": code }));
        assert_eq!(used.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
        let listed = own.get("/sign-ins").await["sign_ins"].clone();
        assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
        rig.finish().await;
    }
}

#[tokio::test]
async fn whoever_parts_from_a_person_is_not_signed_in_as_them() {
    let mut rig = rig().await;
    url(&rig).await;
    for (who, chat) in [(USER, "2"), (OTHER_USER, "3")] {
        rig.say_as(who, chat, "hello");
        rig.next_message(chat).await;
    }
    link(&rig, (USER, OTHER_USER));
    let stays = browser_of(&mut rig, (USER, "2")).await;
    let parts = browser_of(&mut rig, (OTHER_USER, "3")).await;
    rig.say_as(OTHER_USER, "3", "/unlink");
    assert_eq!(rig.next_message("3").await, replies::UNLINKED);
    assert_eq!(status(&parts, "/me").await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&stays, "/me").await, StatusCode::OK);
    // They get an account of their own.
    let own = browser_of(&mut rig, (OTHER_USER, "3")).await;
    assert_eq!(own.get("/me").await["role"], "user");
    rig.finish().await;
}
