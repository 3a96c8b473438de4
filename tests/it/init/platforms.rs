//! Discord and Slack in the setup: what to click, what the bot lacks, the pairing, and the first message in the owner's
//! chat.

use std::fs;

use peacrab::channels::slack::manifest;

use super::{
    COLUMNS, begin, config, empty, is_private, no_line_is_longer, own_server, unwrapped,
    wait_for_count, wait_for_text,
};
use crate::support::binary::{ProgramFixture, until};
use crate::support::discord_api::line as on_discord;
use crate::support::discord_api::{self, DiscordApi};
use crate::support::slack_api::line as on_slack;
use crate::support::slack_api::{self, SlackApi};

/// The code in a message of the bot.
fn code_in(text: &str) -> String {
    text.split("Your code is ").nth(1).unwrap().split(',').next().unwrap().to_owned()
}

/// Waits until the daemon is connected to the platform.
async fn is_up(fixture: &ProgramFixture, channel: &str) {
    until("the link", async || {
        (fixture.status().await["channels"][channel]["up"] == true).then_some(())
    })
    .await;
}

#[tokio::test]
async fn discord_is_set_up_from_the_click_to_the_first_message() {
    for columns in COLUMNS {
        let (fixture, api, none) = (empty(), DiscordApi::start().await, own_server().await);
        api.forbid_message_content();
        let args = ["--provider", "none", "--api-url", api.url()];
        let mut screen = begin(&fixture, columns, &args, &none);
        wait_for_text(&screen, "2 Discord").await;
        wait_for_text(&screen, "Number [1]:").await;
        screen.type_keys("2\r");
        let steps = "1. Open https://discord.com/developers/applications and create a New Application. 2. Under Bot, \
                     press Reset Token and copy the token. 3. On the same page, switch on Message Content Intent, and \
                     switch off Public Bot.";
        wait_for_text(&screen, steps).await;
        wait_for_count(&screen, "(it is not shown):", 1).await;
        screen.type_keys(&format!("{}\r", discord_api::ANOTHER_TOKEN));
        wait_for_count(&screen, "That does not work:", 1).await;
        wait_for_count(&screen, "(it is not shown):", 2).await;
        screen.type_keys(&format!("{}\r", discord_api::TOKEN));
        wait_for_text(
            &screen,
            "at https://discord.com/developers/applications open your application, Bot, and switch on Message Content \
             Intent. Try again.",
        )
        .await;
        assert!(!config(&fixture).exists());
        api.allow_message_content();
        wait_for_count(&screen, "(it is not shown):", 3).await;
        screen.type_keys(&format!("{}\r", discord_api::TOKEN));
        wait_for_text(&screen, "The bot is @peacrab. Saved as [channels.discord].").await;
        wait_for_text(
            &screen,
            "Question 3 of 6. Who is the owner? First let it into a server of yours.",
        )
        .await;
        let invite = format!(
            "https://discord.com/oauth2/authorize?client_id={}&scope=bot%20applications.commands&permissions=",
            on_discord::BOT.id
        );
        wait_for_text(&screen, &invite).await;
        wait_for_text(&screen, "Open Discord and send @peacrab any message in private.").await;
        wait_for_text(&screen, "Code [later]:").await;
        let ada = on_discord::ADA;
        api.wait_for_sessions(1, 0).await;
        api.say(&on_discord::Line::private(&ada, "hello?"));
        let code = code_in(&api.wait_for_words(ada.dm(), "Your code is").await.text);
        screen.type_keys(&format!("{code}\r"));
        api.wait_for_words(ada.dm(), "Setup is complete").await;
        wait_for_text(&screen, "A message is in your chat now.").await;
        wait_for_text(&screen, "All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
        no_line_is_longer(&screen, columns);
        assert!(!screen.raw().contains(discord_api::TOKEN), "{}", screen.raw());
        assert!(api.gateway_faults().is_empty(), "{:?}", api.gateway_faults());
        let written = fs::read_to_string(config(&fixture)).unwrap();
        let expected = format!(
            "[channels.discord]\ntype = \"discord\"\napi_url = \"{}\"\ntoken = {{ file = \"discord.token\" }}\n",
            api.url()
        );
        assert_eq!(written, expected);
        let token = fixture.folder().join("discord.token");
        assert_eq!(fs::read_to_string(&token).unwrap(), format!("{}\n", discord_api::TOKEN));
        is_private(&token);
        // The daemon that now starts answers its owner.
        let daemon = fixture.daemon().await;
        is_up(&fixture, "discord").await;
        api.say(&on_discord::Line::private(&ada, "hello"));
        api.wait_for_words(ada.dm(), "You said: hello").await;
        daemon.terminate().await;
    }
}

#[tokio::test]
async fn discord_is_set_up_by_options() {
    for owner in [None, Some(on_discord::ADA.id.to_string())] {
        let (fixture, api) = (empty(), DiscordApi::start().await);
        let token = fixture.folder().join("my-token");
        fs::write(&token, discord_api::TOKEN).unwrap();
        let (token, url) = (token.display().to_string(), api.url().to_owned());
        let args =
            ["init", "--yes", "--service", "none", "--provider", "none", "--channel", "discord"];
        let more = ["--token-file", &token, "--api-url", &url];
        let owner_args: Vec<&str> = owner.iter().flat_map(|id| ["--owner", id.as_str()]).collect();
        let args = [&args as &[&str], &more, owner_args.as_slice()].concat();
        api.forbid_message_content();
        let ended = fixture.run(&args).await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains("switch on Message Content Intent"), "{ended:?}");
        assert!(!config(&fixture).exists());
        api.allow_message_content();
        let ended = fixture.run(&args).await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        let out = unwrapped(&ended.out);
        let invite = "https://discord.com/oauth2/authorize?client_id=";
        assert!(
            out.contains("First let it into a server of yours.") && out.contains(invite),
            "{out}"
        );
        let next = match owner {
            None => "There is no owner yet.",
            Some(_) => "On Discord, a bot can write only after you have written to it.",
        };
        assert!(out.contains(next), "{out}");
        let daemon = fixture.daemon().await;
        is_up(&fixture, "discord").await;
        api.say(&on_discord::Line::private(&on_discord::ADA, "hello"));
        let words = if owner.is_some() { "You said: hello" } else { "Your code is" };
        api.wait_for_words(on_discord::ADA.dm(), words).await;
        daemon.terminate().await;
    }
}

#[tokio::test]
async fn slack_is_set_up_from_the_manifest_to_the_first_message() {
    for columns in COLUMNS {
        let (fixture, api, none) = (empty(), SlackApi::start().await, own_server().await);
        let url = api.url();
        let args = ["--provider", "none", "--api-url", &url];
        let mut screen = begin(&fixture, columns, &args, &none);
        wait_for_text(&screen, "3 Slack").await;
        wait_for_text(&screen, "Number [1]:").await;
        screen.type_keys("3\r");
        let steps = "1. Open https://api.slack.com/apps?new_app=1, choose From a manifest and your workspace, and paste \
                     the lines below. 2. Choose Install App, and copy the bot token; it begins with xoxb-. 3. Under \
                     Basic Information, App-Level Tokens, create a token with the scope connections:write, and copy it;";
        wait_for_text(&screen, steps).await;
        wait_for_count(&screen, "(it is not shown):", 1).await;
        for line in manifest::MANIFEST.lines() {
            assert!(screen.raw().contains(&format!("{line}\r\n")), "{line}: {}", screen.raw());
        }
        let others = [slack_api::ANOTHER_BOT_TOKEN, slack_api::ANOTHER_APP_TOKEN].join(" ");
        screen.type_keys(&format!("{others}\r"));
        wait_for_count(&screen, "That does not work:", 1).await;
        wait_for_count(&screen, "(it is not shown):", 2).await;
        api.take_scope("files:write");
        // Both in one line, in the wrong order.
        let tokens = format!("{} {}\r", slack_api::APP_TOKEN, slack_api::BOT_TOKEN);
        screen.type_keys(&tokens);
        wait_for_text(
            &screen,
            "That does not work: the app lacks scopes: files:write. Add them at https://api.slack.com/apps under OAuth & \
             Permissions, and install the app again. Try again.",
        )
        .await;
        assert!(!config(&fixture).exists());
        api.give_scope("files:write");
        wait_for_count(&screen, "(it is not shown):", 3).await;
        let asked = ["auth.test", "apps.connections.open"].map(|method| api.calls(method).len());
        screen.type_keys(&tokens);
        wait_for_text(&screen, "Saved as [channels.slack].").await;
        for (method, before) in ["auth.test", "apps.connections.open"].iter().zip(asked) {
            assert!(api.calls(method).len() > before, "{method}");
        }
        wait_for_text(&screen, "Question 3 of 6. Who is the owner? Open Slack and send").await;
        wait_for_text(&screen, "Code [later]:").await;
        let ada = on_slack::ADA;
        api.wait_for_links(1).await;
        api.say(&on_slack::Line::im(&ada, "hello?"));
        let code = code_in(&api.wait_for_words(&ada.im(), "Your code is").await.text);
        screen.type_keys(&format!("{code}\r"));
        api.wait_for_words(&ada.im(), "Setup is complete").await;
        wait_for_text(&screen, "A message is in your chat now.").await;
        wait_for_text(&screen, "All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
        // The manifest is to be copied as it is.
        let (before, behind) =
            screen.raw().split_once(manifest_as_shown().as_str()).map(owned).unwrap();
        super::lines_fit(&before, columns);
        super::lines_fit(&behind, columns);
        for token in [slack_api::BOT_TOKEN, slack_api::APP_TOKEN] {
            assert!(!screen.raw().contains(token), "{}", screen.raw());
        }
        assert!(api.offences().is_empty(), "{:?}", api.offences());
        let written = fs::read_to_string(config(&fixture)).unwrap();
        let expected = format!(
            "[channels.slack]\ntype = \"slack\"\napi_url = \"{url}\"\ntoken = {{ file = \"slack.token\" }}\n\
             app_token = {{ file = \"slack.app-token\" }}\n"
        );
        assert_eq!(written, expected);
        for (file, token) in [("token", slack_api::BOT_TOKEN), ("app-token", slack_api::APP_TOKEN)]
        {
            let file = fixture.folder().join(format!("slack.{file}"));
            assert_eq!(fs::read_to_string(&file).unwrap(), format!("{token}\n"));
            is_private(&file);
        }
        // The daemon that now starts answers its owner.
        let daemon = fixture.daemon().await;
        is_up(&fixture, "slack").await;
        api.say(&on_slack::Line::im(&ada, "hello"));
        api.wait_for_words(&ada.im(), "You said: hello").await;
        daemon.terminate().await;
    }
}

/// The manifest with the ends of lines that a terminal has.
fn manifest_as_shown() -> String {
    manifest::MANIFEST.trim_end().replace('\n', "\r\n")
}

fn owned((before, behind): (&str, &str)) -> (String, String) {
    (before.to_owned(), behind.to_owned())
}

#[tokio::test]
async fn an_owner_of_slack_may_be_paired_later() {
    for columns in COLUMNS {
        let (fixture, api, none) = (empty(), SlackApi::start().await, own_server().await);
        let url = api.url();
        let args = ["--provider", "none", "--api-url", &url];
        let mut screen = begin(&fixture, columns, &args, &none);
        wait_for_text(&screen, "Number [1]:").await;
        screen.type_keys("slack\r");
        wait_for_count(&screen, "(it is not shown):", 1).await;
        screen.type_keys(&format!("{} {}\r", slack_api::BOT_TOKEN, slack_api::APP_TOKEN));
        wait_for_text(&screen, "Code [later]:").await;
        screen.type_keys("\r");
        wait_for_text(
            &screen,
            "There is no owner yet. While the daemon runs, write to the bot and run",
        )
        .await;
        wait_for_text(&screen, "All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
    }
}

#[test]
fn the_page_about_slack_shows_the_manifest_of_the_program() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/slack.md")).unwrap();
    for line in manifest::MANIFEST.lines() {
        assert!(page.contains(&format!("   {line}\n")), "{line}");
    }
    for scope in manifest::BOT_SCOPES {
        assert!(manifest::MANIFEST.contains(&format!("- {scope}\n")), "{scope}");
    }
}
