//! What was said before the bot was called.

use peacrab::channels::Channel;

use super::{CREW, address, slack};
use crate::support::slack_api::line::{ADA, BOB, Line};
use crate::support::slack_api::{Fault, SlackApi};

#[tokio::test]
async fn tells_the_last_lines_of_a_place_with_their_authors() {
    let api = SlackApi::start().await;
    let slack = slack(&api);
    let root = api.say_unheard(&Line::channel(CREW, &ADA, "shall we?"));
    for at in 0..250 {
        api.say_unheard(&Line::channel(CREW, &BOB, &format!("line {at}")).in_thread(&root));
    }
    super::sending::post(&slack, address(CREW, Some(&root)), "I would").await;
    let asked = api.say_unheard(&Line::channel(CREW, &ADA, "<@U0CRAB> and?").in_thread(&root));
    let thread = address(CREW, Some(&root));
    let before = slack.history(&thread, Some(&asked.as_str().into()), 3).await.unwrap();
    let told: Vec<_> = before.iter().map(|l| (l.author.as_str(), l.text.as_str())).collect();
    assert_eq!(told, [("Bob", "line 248"), ("Bob", "line 249"), ("peacrab", "I would")]);

    let channel = slack.history(&address(CREW, None), None, 10).await.unwrap();
    let told: Vec<_> = channel.iter().map(|l| (l.author.as_str(), l.text.as_str())).collect();
    assert_eq!(told, [("Ada", "shall we?")]);
}

#[tokio::test]
async fn what_is_not_shown_is_not_there() {
    let api = SlackApi::start().await;
    api.fail("conversations.history", 1, &Fault::Deny("missing_scope"));
    assert_eq!(slack(&api).history(&address(CREW, None), None, 10).await.unwrap(), []);
}
