//! From a stranger to an owner, and what the owner then says of other strangers.

use serde_json::json;

use crate::json_output::{fails, parsed};
use crate::support::binary::{ProgramFixture, channel, said};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::{ADA, BOB, Person};

const CYD: Person = Person { id: 7003, name: "Cyd", is_bot: false };
const DAN: Person = Person { id: 7004, name: "Dan", is_bot: false };
const EVE: Person = Person { id: 7005, name: "Eve", is_bot: false };

fn nobodys(api: &BotApi) -> ProgramFixture {
    ProgramFixture::new(&channel("home", api.url(), api.token()))
}

/// A stranger writes and is given a code.
async fn code_of(api: &BotApi, stranger: &Person) -> String {
    let before = count(api, stranger, "Your code is");
    api.say(&said(stranger, "hello?"));
    loop {
        let sent = api.sent();
        let mut codes = sent
            .iter()
            .filter(|sent| sent.chat == stranger.id && sent.text.contains("Your code is"));
        if let Some(sent) = codes.nth(before) {
            let code = sent.text.split("Your code is ").nth(1).unwrap();
            return code.split(',').next().unwrap().to_owned();
        }
        api.wait_for_sent(sent.len() + 1).await;
    }
}

fn count(api: &BotApi, to: &Person, words: &str) -> usize {
    let sent = api.sent();
    sent.iter().filter(|sent| sent.chat == to.id && sent.text.contains(words)).count()
}

/// Ada becomes the owner.
async fn own(fixture: &ProgramFixture, api: &BotApi) {
    let code = code_of(api, &ADA).await;
    let ended = fixture.run(&["pair", "approve", &code]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    api.wait_for_words(ADA.id, "You are my owner now").await;
}

#[tokio::test]
async fn a_stranger_becomes_the_owner_with_their_code_and_is_answered() {
    let api = BotApi::start().await;
    let fixture = nobodys(&api);
    let daemon = fixture.daemon().await;
    let code = code_of(&api, &ADA).await;
    // As it can be typed on that machine: neither the program nor the home is where a shell would look.
    let typed = format!("/peacrab --home {} pair approve {code}", fixture.home().display());
    assert!(api.sent()[0].text.contains(&typed), "{}", api.sent()[0].text);

    let wrong = fixture.run(&["pair", "approve", "WRONGCOD"]).await;
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.err.contains("I don't know this code"), "{wrong:?}");
    let list = fixture.run(&["pair", "list"]).await;
    assert!(list.out.contains(&code) && list.out.contains("Ada"), "{list:?}");

    let ended = fixture.run(&["pair", "approve", &code.to_lowercase()]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let log = daemon.log();
    let line = log.lines().find(|line| line.contains("Let somebody in")).unwrap();
    assert!(line.contains("channel=home") && line.contains("role=owner"), "{line}");
    assert!(ended.out.contains("now has access as owner"), "{ended:?}");
    api.wait_for_words(ADA.id, "You are my owner now").await;
    api.say(&said(&ADA, "what now?"));
    api.wait_for_words(ADA.id, "You said: what now?").await;
    // What was said as a stranger was not accepted, and is not answered later.
    assert_eq!(count(&api, &ADA, "hello?"), 0);
}

#[tokio::test]
async fn warns_that_nobody_is_let_in_until_somebody_is_paired() {
    const WARNING: &str = "nobody has access until paired";
    let api = BotApi::start().await;
    let fixture = nobodys(&api);
    let warns = async || fixture.run(&["check"]).await.out.contains(WARNING);
    assert!(warns().await);
    assert!(!fixture.home().exists(), "who checks makes nothing");
    let daemon = fixture.daemon().await;
    assert!(daemon.log().contains(WARNING), "{}", daemon.log());
    own(&fixture, &api).await;
    assert!(!warns().await);
    assert!(daemon.terminate().await.success());
    let files = || std::fs::read_dir(fixture.home()).unwrap().count();
    let before = files();
    assert!(!warns().await);
    assert_eq!(files(), before);
    let daemon = fixture.daemon().await;
    assert!(!daemon.log().contains(WARNING), "{}", daemon.log());
}

#[tokio::test]
async fn the_owner_lets_the_next_one_in_from_the_chat_and_shuts_them_out_again() {
    let api = BotApi::start().await;
    let fixture = nobodys(&api);
    let _daemon = fixture.daemon().await;
    own(&fixture, &api).await;
    let code = code_of(&api, &BOB).await;
    let asked = api.wait_for_words(ADA.id, &format!("/pair approve {code}")).await;
    assert!(asked.text.contains("Bob"), "{asked:?}");

    // Whom it is about cannot approve it.
    api.say(&said(&BOB, &format!("/pair approve {code}")));
    api.say(&said(&ADA, "/pair approve WRONGCOD"));
    api.wait_for_words(ADA.id, "I don't know this code").await;
    api.say(&said(&ADA, &format!("/pair approve {}", code.to_lowercase())));
    api.wait_for_words(ADA.id, "now has access as user").await;
    api.wait_for_words(BOB.id, "You now have access").await;
    api.say(&said(&BOB, "hi there"));
    api.wait_for_words(BOB.id, "You said: hi there").await;
    api.say(&said(&BOB, "/pair list"));
    api.wait_for_words(BOB.id, "Only my owner can do that").await;

    let ended = fixture.run(&["pair", "revoke", "home", &BOB.id.to_string()]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let again = fixture.run(&["pair", "revoke", "home", &BOB.id.to_string()]).await;
    assert_eq!(again.code, Some(1), "{again:?}");
    code_of(&api, &BOB).await;
    assert_eq!(count(&api, &BOB, "You said: hello?"), 0);
}

#[tokio::test]
async fn who_is_denied_is_told_and_not_answered() {
    let api = BotApi::start().await;
    let fixture = nobodys(&api);
    let _daemon = fixture.daemon().await;
    own(&fixture, &api).await;
    let code = code_of(&api, &BOB).await;
    api.say(&said(&ADA, &format!("/pair deny {code}")));
    api.wait_for_words(BOB.id, "my owner has declined your request").await;
    api.say(&said(&BOB, "please!"));
    api.say(&said(&ADA, "still here?"));
    api.wait_for_words(ADA.id, "You said: still here?").await;
    assert_eq!(count(&api, &BOB, ""), 2, "a code and a refusal: {:?}", api.sent());
}

#[tokio::test]
async fn strangers_wait_side_by_side_and_are_denied_one_by_one() {
    let api = BotApi::start().await;
    let fixture = nobodys(&api);
    let _daemon = fixture.daemon().await;
    for stranger in [&ADA, &BOB, &CYD] {
        code_of(&api, stranger).await;
    }
    code_of(&api, &DAN).await;
    // Whoever writes again gets no other code.
    api.say(&said(&ADA, "hello again"));
    let list = fixture.run(&["pair", "list"]).await;
    assert_eq!(list.out.lines().count(), 4, "{list:?}");
    let code = list.out.lines().next().unwrap().rsplit(' ').next().unwrap();
    assert_eq!(fixture.run(&["pair", "deny", code]).await.code, Some(0));
    code_of(&api, &EVE).await;
}

#[tokio::test]
async fn a_script_learns_who_was_let_in_or_turned_away() {
    let api = BotApi::start().await;
    let fixture = nobodys(&api);
    fails(&fixture.run(&["pair", "approve", "WRONGCOD", "--json"]).await, 1, "no daemon runs");
    let ended = fixture.run(&["pair", "approve", "--json"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
    let daemon = fixture.daemon().await;
    fails(&fixture.run(&["pair", "approve", "WRONGCOD", "--json"]).await, 1, "know this code");
    let decide = async |verb: &str, code: &str| {
        let ended = fixture.run(&["pair", verb, code, "--json"]).await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        parsed(&ended)
    };
    let change = |change: &str, person: &Person, role: Option<&str>| {
        json!({
            "change": change, "channel": "home", "id": person.id.to_string(), "name": person.name,
            "role": role,
        })
    };
    let code = code_of(&api, &ADA).await;
    assert_eq!(decide("approve", &code).await, change("approved", &ADA, Some("owner")));
    api.wait_for_words(ADA.id, "You are my owner now").await;
    let code = code_of(&api, &BOB).await;
    assert_eq!(decide("approve", &code).await, change("approved", &BOB, Some("user")));
    let code = code_of(&api, &CYD).await;
    assert_eq!(decide("deny", &code).await, change("denied", &CYD, None));
    let id = BOB.id.to_string();
    let revoke = ["pair", "revoke", "home", &id, "--json"];
    let mut revoked = change("revoked", &BOB, None);
    // Only the id is given.
    revoked["name"] = json!(null);
    assert_eq!(parsed(&fixture.run(&revoke).await), revoked);
    fails(&fixture.run(&revoke).await, 1, &id);
    daemon.terminate().await;
}
