//! The web in the real program: what the config lists is reached, what it does not is not, and a kill
//! while a page is awaited costs nothing.

use serde_json::json;

use super::models::{answer, tool_call};
use crate::support::binary::{ProgramFixture, home, model, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::{ADA, BOB};
use crate::support::model_api::{ModelApi, Platform};
use crate::support::search_api::SearchApi;
use crate::support::site::{Answer, Site};
use peacrab::tools::web::search::EngineKind;

#[tokio::test]
async fn a_page_that_was_awaited_at_a_kill_is_read_after_it() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let site = Site::start().await;
    let allow = format!("[web]\nallow = [\"{}\"]\n", site.at);
    let fixture = ProgramFixture::new(&(model("main", &main) + &home(&api) + &allow));
    let daemon = fixture.daemon().await;
    site.has("/peas", Answer::Silence);
    main.reply(tool_call("web_fetch", &json!({ "url": site.url("/peas") })));
    api.say(&said(&BOB, "Read it."));
    until("the page to be asked for", async || (!site.asked().is_empty()).then_some(())).await;
    daemon.kill().await;

    site.has("/peas", Answer::html("<title>Peas</title><p>They are green.</p>"));
    main.reply(answer("Green."));
    let daemon = fixture.daemon().await;
    api.wait_for_words(BOB.id, "Green.").await;
    let last = main.requests().pop().unwrap();
    let result = last["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    assert!(result.contains("They are green."), "{result}");
    site.finish(&["/peas", "/peas"]);

    // What is not listed is refused, and the model goes on.
    let other = Site::start().await;
    main.reply(tool_call("web_fetch", &json!({ "url": other.url("/") })));
    main.reply(answer("I may not."));
    api.say(&said(&ADA, "Read that, too."));
    api.wait_for_words(ADA.id, "I may not.").await;
    other.finish(&[]);
    main.finish();
    daemon.kill().await;
}

#[tokio::test]
async fn engines_are_asked_in_the_order_of_the_config_and_no_key_is_logged() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let (brave, tavily) =
        (SearchApi::start(EngineKind::Brave).await, SearchApi::start(EngineKind::Tavily).await);
    let key = crate::support::search_api::KEY;
    let engines = format!(
        "[web]\nengines = [\"second\", \"first\"]\n\
         [search.first]\ntype = \"brave\"\napi_key = \"{key}\"\nbase_url = \"{}\"\n\
         [search.second]\ntype = \"tavily\"\napi_key = \"{key}\"\nbase_url = \"{}\"\n",
        brave.base_url, tavily.base_url
    );
    let fixture = ProgramFixture::new(&(model("main", &main) + &home(&api) + &engines));
    let daemon = fixture.daemon().await;
    tavily.replies(429, key);
    brave.finds(&[("Peas", "https://peas.example/", "Green.")]);
    main.reply(tool_call("web_search", &json!({ "query": "peas" })));
    main.reply(answer("Found."));
    api.say(&said(&BOB, "Search for peas."));
    api.wait_for_words(BOB.id, "Found.").await;
    tavily.finish(&[("peas", Some(5))]);
    brave.finish(&[("peas", Some(5))]);
    let log = daemon.log();
    assert!(log.contains("A search engine failed") && log.contains("429"), "{log}");
    assert!(!log.contains(key), "{log}");
    daemon.kill().await;
}
