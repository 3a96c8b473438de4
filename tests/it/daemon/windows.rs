//! What a server with a small context window is asked, byte by byte, and what the owner is told of it.

use serde_json::json;

use crate::daemon::models::answer;
use crate::support::binary::{ProgramFixture, home, model, said};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::ADA;
use crate::support::model_api::{ModelApi, Platform};

/// The first request of an owner with all built-in tools, and with a compact prompt, in bytes.
const FIRST_BYTES_MAX: usize = 10_000;
const COMPACT_BYTES_MAX: usize = 5_000;

/// The bytes of the first request with these lines of config for the model.
async fn first_request(lines: &str) -> usize {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = ProgramFixture::new(&(model("main", &main) + lines + &home(&api)));
    let _daemon = fixture.daemon().await;
    main.reply(answer("Hello."));
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "Hello.").await;
    let request = main.requests().remove(0);
    main.finish();
    request.to_string().len()
}

#[tokio::test]
async fn the_first_request_is_small() {
    let bytes = first_request("").await;
    assert!(bytes <= FIRST_BYTES_MAX, "{bytes} bytes");
    for context in [8_192, 4_096, 2_048] {
        let bytes = first_request(&format!("context = {context}\n")).await;
        assert!(bytes <= COMPACT_BYTES_MAX.min(context * 2), "{bytes} bytes at {context}");
    }
}

#[tokio::test]
async fn the_owner_is_told_once_of_a_window_that_was_learned() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    main.show("/props", json!({"default_generation_settings": {"n_ctx": 4_096}}));
    let fixture = ProgramFixture::new(&(model("main", &main) + &home(&api)));
    let daemon = fixture.daemon().await;
    for words in ["One.", "Two.", "Three."] {
        main.reply(answer(words));
        api.say(&said(&ADA, "hello"));
        api.wait_for_words(ADA.id, words).await;
    }
    let told = "has a context window of 4096 tokens; I had assumed 32768.";
    api.wait_for_words(ADA.id, told).await;
    let sent = api.sent();
    assert_eq!(sent.iter().filter(|sent| sent.text.contains(told)).count(), 1, "{sent:?}");
    assert!(daemon.log().contains("Learned a context window"), "{}", daemon.log());
    // The server was asked before the first prompt was made, which is a compact one.
    let bytes = main.requests().remove(0).to_string().len();
    assert!(bytes <= COMPACT_BYTES_MAX, "{bytes} bytes");
    main.finish();
}
