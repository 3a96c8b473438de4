//! A model behind a real socket: what it says reaches Telegram, and what it cannot say, too.

use serde_json::{Value, json};

use crate::support::binary::{ProgramFixture, home, model, model_at, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::{ADA, BOB};
use crate::support::model_api::{Ending, ModelApi, Platform, Reply, sse};
use crate::support::wire::closed_port;

fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

/// A plain answer.
pub(super) fn answer(text: &str) -> Reply {
    Reply::events(&[chunk(&json!({"content": text}), None), chunk(&json!({}), Some("stop"))])
}

/// A call of one tool.
pub(super) fn tool_call(tool: &str, arguments: &Value) -> Reply {
    let call = json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
        "function": {"name": tool, "arguments": arguments.to_string()}}]});
    Reply::events(&[chunk(&call, None), chunk(&json!({}), Some("tool_calls"))])
}

fn unavailable() -> Reply {
    let error = Reply::error(503, &json!({"error": {"message": "overloaded"}}));
    error.with_header("retry-after", "0")
}

fn both(api: &BotApi, main: &ModelApi) -> ProgramFixture {
    ProgramFixture::new(&(model("main", main) + &home(api)))
}

#[tokio::test]
async fn a_streamed_answer_reaches_telegram_whole() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = both(&api, &main);
    let _daemon = fixture.daemon().await;
    let mut events: Vec<_> = ["Crabs ", "walk ", "sidewäys 🦀"]
        .iter()
        .map(|text| chunk(&json!({"content": text}), None))
        .collect();
    events.push(chunk(&json!({}), Some("stop")));
    let pieces = sse(&events).chunks(7).map(<[u8]>::to_vec).collect();
    main.reply(Reply::Stream(pieces, Ending::Closes));
    api.say(&said(&ADA, "How do crabs walk?"));
    let sent = api.wait_for_words(ADA.id, "Crabs").await;
    assert_eq!((sent.text.as_str(), sent.edits), ("Crabs walk sidewäys 🦀", 0));
    let request = main.requests().remove(0).to_string();
    assert!(request.contains("How do crabs walk?"), "{request}");
    main.finish();
}

#[tokio::test]
async fn a_tool_is_called_and_its_outcome_goes_back_to_the_model() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = both(&api, &main);
    let _daemon = fixture.daemon().await;
    let arguments = json!({"path": "notes/a.md", "content": "sideways\n"});
    main.reply(tool_call("write_file", &arguments));
    main.reply(answer("It is written."));
    api.say(&said(&ADA, "Write that down"));
    api.wait_for_words(ADA.id, "It is written.").await;
    let written = std::fs::read_to_string(fixture.home().join("workspace/notes/a.md"));
    assert_eq!(written.unwrap(), "sideways\n");
    let last = main.requests()[1]["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["role"], &last["tool_call_id"]), (&json!("tool"), &json!("call_1")));
    main.finish();
}

#[tokio::test]
async fn a_model_that_is_down_is_told_in_words_and_answers_when_it_is_back() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = both(&api, &main);
    let _daemon = fixture.daemon().await;
    (0..5).for_each(|_| main.reply(unavailable()));
    main.reply(answer("Now I am."));
    api.say(&said(&ADA, "Are you there?"));
    api.wait_for_words(ADA.id, "I can't reach the model; I'll answer when it's back").await;
    api.wait_for_words(ADA.id, "Now I am.").await;
    assert_eq!(api.sent().len(), 2, "{:?}", api.sent());
    let last = main.requests().pop().unwrap().to_string();
    assert!(last.contains("Are you there?"), "{last}");
    main.finish();
}

#[tokio::test]
async fn a_model_that_cannot_be_connected_to_answers_once_it_is_there() {
    let api = BotApi::start().await;
    let (socket, url) = closed_port();
    let fixture = ProgramFixture::new(&(model_at("main", &format!("{url}/v1")) + &home(&api)));
    let _daemon = fixture.daemon().await;
    api.say(&said(&ADA, "Are you there?"));
    // It is tried again for up to 14 seconds.
    until("words", async || api.sent().pop()).await;
    assert!(api.sent()[0].text.contains("I can't reach the model"), "{:?}", api.sent());
    let main = ModelApi::start_at(Platform::OpenAi, socket.listen(64).unwrap());
    main.reply(answer("Now I am."));
    api.wait_for_words(ADA.id, "Now I am.").await;
    main.finish();
}

#[tokio::test]
async fn a_key_that_is_turned_down_is_told_in_words() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = both(&api, &main);
    let daemon = fixture.daemon().await;
    main.reply(Reply::error(401, &json!({"error": {"message": "wrong key"}})));
    api.say(&said(&ADA, "hello"));
    let sent = api.wait_for_words(ADA.id, "rejected my request").await;
    assert!(sent.text.contains("peacrab check"), "{sent:?}");
    let key = crate::support::model_api::KEY;
    assert!(!sent.text.contains(key) && !daemon.log().contains(key), "{}", daemon.log());
    main.finish();
}

#[tokio::test]
async fn a_model_without_tools_leads_to_the_setting_that_helps() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = both(&api, &main);
    let daemon = fixture.daemon().await;
    main.reply(Reply::error(400, &json!({"error": {"message": "pea-1 does not support tools"}})));
    api.say(&said(&ADA, "hello"));
    let sent = api.wait_for_words(ADA.id, "rejected my request").await;
    assert!(sent.text.contains("tools = \"text\""), "{sent:?}");
    assert!(sent.text.contains("peacrab reload"), "{sent:?}");
    assert!(!sent.text.contains("max_tokens"), "{sent:?}");
    daemon.terminate().await;
    main.finish();
}

#[tokio::test]
async fn the_next_model_answers_and_says_for_whom() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let spare = ModelApi::start(Platform::OpenAi).await;
    let config = "[agent]\nproviders = [\"main\", \"spare\"]\n".to_owned()
        + &model("main", &main)
        + &model("spare", &spare)
        + &home(&api);
    let fixture = ProgramFixture::new(&config);
    let _daemon = fixture.daemon().await;
    (0..4).for_each(|_| main.reply(unavailable()));
    spare.reply(answer("Here I am."));
    api.say(&said(&ADA, "Anybody?"));
    let sent = api.wait_for_words(ADA.id, "Here I am.").await;
    assert!(sent.text.contains("main (pea-1) is unavailable"), "{sent:?}");
    assert!(sent.text.contains("spare (pea-1) answered"), "{sent:?}");
    main.finish();
    spare.finish();
}

/// Begins a turn of Ada's whose model call hangs.
pub(super) async fn hang(api: &BotApi, main: &ModelApi) {
    main.reply(Reply::Silence);
    let before = main.requests().len();
    api.say(&said(&ADA, "Think hard"));
    until("the model call", async || (main.requests().len() > before).then_some(())).await;
}

#[tokio::test]
async fn stop_ends_a_call_that_hangs() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = both(&api, &main);
    let _daemon = fixture.daemon().await;
    hang(&api, &main).await;
    assert_eq!(main.hanging_calls(), 1);
    api.say(&said(&ADA, "/stop"));
    api.wait_for_words(ADA.id, "Stopped").await;
    // By itself, it would hang for a quarter of an hour.
    until("the end of the call", async || (main.hanging_calls() == 0).then_some(())).await;
    main.reply(answer("Gladly."));
    api.say(&said(&ADA, "Something else"));
    api.wait_for_words(ADA.id, "Gladly.").await;
    assert_eq!(api.sent().len(), 2, "{:?}", api.sent());
    main.finish();
}

#[tokio::test]
async fn commands_and_other_chats_do_not_wait_for_a_call_that_hangs() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = both(&api, &main);
    let _daemon = fixture.daemon().await;
    hang(&api, &main).await;
    for (command, words) in [
        ("/status", "I'm working here. Turns running in all chats: 1"),
        ("/help", "/stop – stop"),
        ("/whoami", "owner"),
    ] {
        api.say(&said(&ADA, command));
        api.wait_for_words(ADA.id, words).await;
        assert_eq!(main.hanging_calls(), 1, "{command}");
    }
    main.reply(answer("Hello Bob."));
    api.say(&said(&BOB, "hello"));
    api.wait_for_words(BOB.id, "Hello Bob.").await;
    assert_eq!(main.hanging_calls(), 1);
    assert_eq!(fixture.status().await["turns_running"], 1);

    api.say(&said(&ADA, "/new"));
    api.wait_for_words(ADA.id, "This is a new conversation").await;
    main.reply(answer("Of what?"));
    api.say(&said(&ADA, "Go on"));
    api.wait_for_words(ADA.id, "Of what?").await;
    let last = main.requests().pop().unwrap().to_string();
    assert!(!last.contains("Think hard"), "the old conversation came along: {last}");
    main.finish();
}
