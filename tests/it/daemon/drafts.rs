//! A long answer is seen while it is written, as one message that becomes the answer.

use std::time::{Duration, Instant};

use crate::support::binary::{ProgramFixture, home, now, said, until};
use crate::support::bot_api::line::{ADA, Line};
use crate::support::bot_api::{BotApi, Fault, Sent};

fn fixture(api: &BotApi) -> ProgramFixture {
    ProgramFixture::new(&home(api))
}

#[tokio::test]
async fn a_long_answer_is_one_message_that_grows() {
    let api = BotApi::start().await;
    let fixture = fixture(&api);
    let _daemon = fixture.daemon().await;
    api.say(&said(&ADA, "wait 7"));
    let draft = api.wait_for_words(ADA.id, " …").await;
    assert!(draft.text.starts_with('1'), "{draft:?}");
    let answer = api.wait_for_words(ADA.id, "seconds have passed").await;
    assert_eq!(api.sent().len(), 1, "{:?}", api.sent());
    assert!(answer.edits >= 2, "{answer:?}");
    assert!(!answer.text.contains('…'), "{answer:?}");
}

#[tokio::test]
async fn a_draft_is_taken_up_by_the_daemon_after_a_crash() {
    let api = BotApi::start().await;
    let fixture = fixture(&api);
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "wait 8"));
    // An edit means that the draft's id is written down.
    until("an edit", async || api.sent().into_iter().find(|sent| sent.edits > 0)).await;
    daemon.kill().await;
    let _daemon = fixture.daemon().await;
    api.wait_for_words(ADA.id, "seconds have passed").await;
    assert_eq!(api.sent().len(), 1, "{:?}", api.sent());
}

#[tokio::test]
async fn a_draft_that_comes_too_often_delays_no_answer() {
    let api = BotApi::start().await;
    let fixture = fixture(&api);
    let _daemon = fixture.daemon().await;
    api.fail("editMessageText", 1, &Fault::TooMany { after: 600 });
    let asked = Instant::now();
    api.say(&said(&ADA, "wait 5"));
    let answer = api.wait_for_words(ADA.id, "seconds have passed").await;
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    // The one edit that succeeded is the answer.
    assert_eq!((api.sent().len(), answer.edits), (1, 1), "{:?}", api.sent());
}

#[tokio::test]
async fn drafts_are_slower_in_groups() {
    const CREW: i64 = -1_001_234;
    let api = BotApi::start().await;
    let fixture = fixture(&api);
    let _daemon = fixture.daemon().await;
    api.say(&now(Line::group(CREW, &ADA, "@peacrab_bot wait 7")));
    api.say(&said(&ADA, "wait 7"));
    let private = api.wait_for_words(ADA.id, "seconds have passed").await;
    let group = api.wait_for_words(CREW, "seconds have passed").await;
    assert!(group.edits < private.edits && group.edits <= 3, "{group:?} {private:?}");
}

#[tokio::test]
async fn drafts_of_one_chat_share_its_pace() {
    const FORUM: i64 = -1_001_235;
    let api = BotApi::start().await;
    let fixture = fixture(&api);
    let _daemon = fixture.daemon().await;
    for topic in [7, 8, 9] {
        api.say(&now(Line::group(FORUM, &ADA, "@peacrab_bot wait 8")).in_topic(topic));
    }
    let answered = |sent: &Sent| sent.text.contains("seconds have passed");
    until("all answers", async || {
        let answers = api.sent().into_iter().filter(answered).count();
        (answers == 3).then_some(())
    })
    .await;
    // In eight seconds three drafts, of whichever turn; then the answers, over them or by themselves.
    let calls: usize = api.sent().iter().map(|sent| 1 + sent.edits).sum();
    assert!(calls <= 3 + 3, "{:?}", api.sent());
}

#[tokio::test]
async fn a_draft_that_cannot_be_shown_harms_no_answer() {
    let api = BotApi::start().await;
    let fixture = fixture(&api);
    let _daemon = fixture.daemon().await;
    api.fail("SendMessage", 1, &Fault::CutAfter);
    api.say(&said(&ADA, "wait 5"));
    until("the answer", async || {
        api.sent().into_iter().find(|sent| sent.text.contains("seconds have passed"))
    })
    .await;
    // The draft of which nobody knew stays; there is one answer, and no further draft.
    let sent = api.sent();
    assert_eq!(sent.iter().filter(|sent| sent.text.contains("have passed")).count(), 1, "{sent:?}");
    assert_eq!(sent.len(), 2, "{sent:?}");
}
