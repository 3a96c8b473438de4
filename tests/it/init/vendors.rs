//! The vendors whose models a key gives access to, each with a stand-in at the address that its variable names.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tokio::process::Command;

use super::{
    COLUMNS, NO_SERVERS, answer, config, empty, is_private, no_line_is_longer, unwrapped,
    wait_for_count, wait_for_text,
};
use crate::support::binary::ProgramFixture;
use crate::support::model_api::{KEY, ModelApi, Platform, Reply};
use crate::support::pty::Pty;

/// A vendor, as people and its programs know it.
struct Vendor {
    number: &'static str,
    name: &'static str,
    title: &'static str,
    platform: Platform,
    model: &'static str,
    key_variable: &'static str,
    address_variable: &'static str,
    keys_page: &'static str,
}

static VENDORS: [Vendor; 3] = [
    Vendor {
        number: "1",
        name: "anthropic",
        title: "1 Claude, by Anthropic",
        platform: Platform::Anthropic,
        model: "claude-sonnet-4-5",
        key_variable: "ANTHROPIC_API_KEY",
        address_variable: "ANTHROPIC_BASE_URL",
        keys_page: "https://console.anthropic.com/settings/keys",
    },
    Vendor {
        number: "2",
        name: "openai",
        title: "2 GPT, by OpenAI",
        platform: Platform::OpenAi,
        model: "gpt-5-mini",
        key_variable: "OPENAI_API_KEY",
        address_variable: "OPENAI_BASE_URL",
        keys_page: "https://platform.openai.com/api-keys",
    },
    Vendor {
        number: "3",
        name: "openrouter",
        title: "3 OpenRouter, with models of many vendors",
        platform: Platform::OpenAi,
        model: "openrouter/auto",
        key_variable: "OPENROUTER_API_KEY",
        address_variable: "OPENROUTER_BASE_URL",
        keys_page: "https://openrouter.ai/settings/keys",
    },
];

/// Each vendor at each width.
fn everywhere() -> impl Iterator<Item = (u16, &'static Vendor)> {
    let all = |columns| VENDORS.iter().map(move |vendor| (columns, vendor));
    COLUMNS.into_iter().flat_map(all)
}

impl Vendor {
    /// A stand-in that turns away who does not have the key.
    async fn api(&self) -> ModelApi {
        let api = ModelApi::start(self.platform).await;
        api.know(self.model);
        api.turn_away();
        api
    }

    /// The answer to the test.
    fn word(&self) -> Reply {
        match self.platform {
            Platform::OpenAi => answer("OK"),
            Platform::Anthropic => Reply::events(&[
                json!({"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": [],
                    "usage": {"input_tokens": 4, "output_tokens": 1}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "OK"}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
                json!({"type": "message_stop"}),
            ]),
        }
    }

    /// The config that the setup writes.
    fn config(&self, api: &ModelApi) -> String {
        let kind = match self.platform {
            Platform::OpenAi => "openai",
            Platform::Anthropic => "anthropic",
        };
        let (name, model, url) = (self.name, self.model, &api.base_url);
        format!(
            "[providers.{name}]\ntype = \"{kind}\"\nmodel = \"{model}\"\nbase_url = \"{url}\"\n\
             api_key = {{ file = \"{name}.key\" }}\n"
        )
    }

    /// The setup, to which this vendor is at the stand-in, and no other server is there.
    fn begins(&self, fixture: &ProgramFixture, api: &ModelApi, args: &[&str]) -> Command {
        let mut command =
            fixture.command(&Pty::session(), &[&["init", "--channel", "none"], args].concat());
        command.envs(NO_SERVERS).env(self.address_variable, &api.base_url);
        command
    }

    fn key_file(&self, fixture: &ProgramFixture) -> PathBuf {
        fixture.folder().join(format!("{}.key", self.name))
    }

    /// The config and the file with the key are as they should be.
    fn is_saved(&self, fixture: &ProgramFixture, api: &ModelApi) {
        assert_eq!(fs::read_to_string(config(fixture)).unwrap(), self.config(api));
        let key = self.key_file(fixture);
        assert_eq!(fs::read_to_string(&key).unwrap(), format!("{KEY}\n"));
        is_private(&key);
        is_private(&config(fixture));
    }
}

#[tokio::test]
async fn a_vendor_is_chosen_and_its_key_asked_for_until_the_model_answers() {
    for (columns, vendor) in everywhere() {
        let (fixture, api) = (empty(), vendor.api().await);
        let mut screen = Pty::begin(vendor.begins(&fixture, &api, &[]), columns);
        wait_for_text(&screen, "Question 1 of 6. Which model should answer?").await;
        wait_for_text(&screen, vendor.title).await;
        wait_for_text(&screen, "Number or address [1]:").await;
        screen.type_keys(&format!("{}\r", vendor.number));
        // The address is shown before a key goes there, and so is the page that gives one.
        let address =
            format!("Its address is {}, as {} says.", api.base_url, vendor.address_variable);
        wait_for_text(&screen, &address).await;
        let question =
            format!("Question 2 of 6. Create a key at {} and paste it here.", vendor.keys_page);
        wait_for_text(&screen, &question).await;
        wait_for_count(&screen, "(it is not shown):", 1).await;
        screen.type_keys("\r");
        wait_for_text(&screen, "A key is needed here.").await;
        wait_for_count(&screen, "(it is not shown):", 2).await;
        screen.type_keys("sk-wrong\r");
        wait_for_text(
            &screen,
            "That does not work: the key was not accepted; copy it again (401: no such key). Try again.",
        )
        .await;
        assert!(!config(&fixture).exists() && !vendor.key_file(&fixture).exists());
        wait_for_count(&screen, "(it is not shown):", 3).await;
        api.reply(vendor.word());
        screen.type_keys(&format!("{KEY}\r"));
        wait_for_text(&screen, &format!("Saved as [providers.{}].", vendor.name)).await;
        wait_for_text(&screen, "All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
        no_line_is_longer(&screen, columns);
        let shown = screen.raw();
        assert!(!shown.contains(KEY) && !shown.contains("sk-wrong"), "{shown}");
        assert!(shown.contains(vendor.keys_page), "the address can be clicked: {shown}");
        assert!(!unwrapped(&shown).contains("Press Enter to use the key"), "{shown}");
        assert_eq!(api.requests().len(), 1);
        api.finish();
        vendor.is_saved(&fixture, &api);
        assert_eq!(fixture.run(&["check"]).await.code, Some(0));
    }
}

#[tokio::test]
async fn the_key_of_the_environment_is_used_by_enter() {
    for (columns, vendor) in everywhere() {
        let (fixture, api) = (empty(), vendor.api().await);
        let mut command = vendor.begins(&fixture, &api, &[]);
        command.env(vendor.key_variable, KEY);
        let mut screen = Pty::begin(command, columns);
        // Its vendor is the usual choice then.
        wait_for_text(&screen, &format!("Number or address [{}]:", vendor.number)).await;
        screen.type_keys("\r");
        wait_for_text(&screen, &format!("Press Enter to use the key in {}.", vendor.key_variable))
            .await;
        wait_for_count(&screen, "(it is not shown):", 1).await;
        api.reply(vendor.word());
        screen.type_keys("\r");
        wait_for_text(&screen, "All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
        no_line_is_longer(&screen, columns);
        assert!(!screen.raw().contains(KEY));
        api.finish();
        vendor.is_saved(&fixture, &api);
    }
}

#[tokio::test]
async fn a_script_takes_key_and_address_of_the_environment() {
    for vendor in &VENDORS {
        let (fixture, api) = (empty(), vendor.api().await);
        let mut command = fixture.command(&[], &["init", "--yes", "--channel", "none"]);
        command.envs(NO_SERVERS).env(vendor.address_variable, &api.base_url);
        command.env(vendor.key_variable, KEY);
        api.reply(vendor.word());
        let ended = fixture.run_with(command, "").await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        let says = format!("as {} says", vendor.address_variable);
        assert!(unwrapped(&ended.out).contains(&says), "{ended:?}");
        assert!(!ended.out.contains(KEY), "{ended:?}");
        api.finish();
        vendor.is_saved(&fixture, &api);
    }
}

#[tokio::test]
async fn an_address_that_cannot_be_used_is_refused_before_a_key_is_typed() {
    for columns in COLUMNS {
        let fixture = empty();
        let mut command = fixture.command(&Pty::session(), &["init", "--channel", "none"]);
        command.envs(NO_SERVERS).env("OPENAI_BASE_URL", "http://ada:secret-words@example.com/v1");
        let mut screen = Pty::begin(command, columns);
        wait_for_text(&screen, "Number or address [1]:").await;
        screen.type_keys("2\r");
        wait_for_text(&screen, "That does not work: OPENAI_BASE_URL:").await;
        wait_for_text(&screen, "must not contain a user name or password. Please choose again.")
            .await;
        wait_for_count(&screen, "Question 1 of 6.", 2).await;
        screen.type_keys("\x03");
        wait_for_text(&screen, "stopped").await;
        assert_eq!(screen.ends().await, Some(1));
        let shown = screen.raw();
        assert!(!shown.contains("is not shown") && !shown.contains("secret-words"), "{shown}");
        assert!(!config(&fixture).exists());
    }
}
