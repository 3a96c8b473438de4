//! The questions of the setup where the terminal, the keyboard or the platform does not do as it should.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{
    COLUMNS, NO_SERVERS, answer, begin, code, empty, no_line_is_longer, own_server, unwrapped,
    wait_for_count, wait_for_text,
};
use crate::support::bot_api::line::ADA;
use crate::support::bot_api::{BotApi, Fault};
use crate::support::model_api::{KEY, MODEL, ModelApi, Platform};
use crate::support::pty::Pty;

fn signal(screen: &Pty, signal: Signal) {
    let pid = i32::try_from(screen.pid()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn a_secret_is_hidden_again_after_the_program_was_stopped() {
    let (fixture, none, api) = (empty(), own_server().await, BotApi::start().await);
    let args = ["--provider", "none", "--channel", "telegram", "--api-url", api.url()];
    let mut screen = begin(&fixture, 120, &args, &none);
    screen.wait_for_words("(it is not shown):").await;
    assert!(!screen.shows_keys());
    for stops in 1..3 {
        // As a shell to which Ctrl-Z leads: it has its own terminal, and gives it back by `fg`.
        signal(&screen, Signal::STOP);
        screen.show_keys();
        assert!(screen.shows_keys());
        signal(&screen, Signal::CONT);
        wait_for_count(&screen, "Token (it is not shown):", stops + 1).await;
        assert!(!screen.shows_keys());
    }
    screen.type_keys(&format!("{}\r", api.token()));
    wait_for_text(&screen, "The bot is @peacrab_bot.").await;
    assert!(!screen.raw().contains(api.token()), "{}", screen.raw());
    screen.wait_for_words("Code [later]:").await;
    assert!(screen.shows_keys());
}

#[tokio::test]
async fn what_is_pasted_while_a_secret_is_tested_is_not_shown() {
    const PASTED: &str = "4242:pasted-too-early";
    for columns in COLUMNS {
        let (fixture, api) = (empty(), BotApi::start().await);
        // The test goes on until somebody stops it.
        api.fail("getMe", 1000, &Fault::Hang);
        let args = ["init", "--provider", "none", "--channel", "telegram", "--api-url", api.url()];
        // Not the leader of a session: the kernel resets the terminal of one that ends.
        let mut command = fixture.command(&[], &args);
        command.envs(NO_SERVERS);
        let mut screen = Pty::begin(command, columns);
        screen.answer("Token (it is not shown):", api.token()).await;
        api.wait_for_calls("getMe", 1).await;
        assert!(!screen.shows_keys());
        screen.type_keys(&format!("{PASTED}\r"));
        signal(&screen, Signal::INT);
        assert_eq!(screen.ends().await, Some(1));
        assert!(screen.shows_keys());
        let shown = screen.raw();
        assert!(!shown.contains(PASTED) && !shown.contains(api.token()), "{shown}");
        assert!(shown.contains("\r\npeacrab: stopped; "), "{shown}");
    }
}

#[tokio::test]
async fn what_is_pasted_while_a_secret_is_tested_answers_no_question() {
    let (fixture, none, api) = (empty(), own_server().await, BotApi::start().await);
    let args = ["--provider", "none", "--channel", "telegram", "--api-url", api.url()];
    let mut screen = begin(&fixture, 120, &args, &none);
    screen.wait_for_prompt("Token (it is not shown):").await;
    // The second line waits in the terminal while the first one is tested.
    screen.type_keys(&format!("{}\r4242:pasted-too-early\r", api.token()));
    screen.wait_for_words("Code [later]:").await;
    let code = code(&api).await;
    screen.type_keys(&format!("{code}\r"));
    wait_for_text(&screen, "All is set up.").await;
    assert_eq!(screen.ends().await, Some(0));
    let shown = unwrapped(&screen.raw());
    assert_eq!(shown.matches("Code [later]:").count(), 1, "{shown}");
}

#[tokio::test]
async fn a_question_amid_the_test_of_a_key_shows_its_answer() {
    let (fixture, none) = (empty(), own_server().await);
    let model = ModelApi::start(Platform::OpenAi).await;
    model.show("/v1/models", json!({"data": [{"id": "pea-0"}, {"id": MODEL}]}));
    model.hide_models();
    let mut screen = begin(&fixture, 120, &["--channel", "none"], &none);
    screen.answer("Number or address [4]:", &model.base_url).await;
    screen.wait_for_prompt("Key (it is not shown):").await;
    assert!(!screen.shows_keys());
    screen.answer("Key (it is not shown):", KEY).await;
    screen.wait_for_prompt("Number or name [1]:").await;
    assert!(screen.shows_keys());
    model.reply(answer("OK"));
    screen.answer("Number or name [1]:", MODEL).await;
    wait_for_text(&screen, "All is set up.").await;
    assert_eq!(screen.ends().await, Some(0));
    let shown = screen.raw();
    assert!(shown.contains(&format!("[1]: {MODEL}\r\n")) && !shown.contains(KEY), "{shown}");
    model.finish();
}

#[tokio::test]
async fn an_answer_that_is_not_utf8_is_asked_for_again() {
    for columns in COLUMNS {
        let (fixture, none, api) = (empty(), own_server().await, BotApi::start().await);
        let args = ["--provider", "none", "--api-url", api.url()];
        let mut screen = begin(&fixture, columns, &args, &none);
        wait_for_text(&screen, "Number [1]:").await;
        screen.type_bytes(b"gr\xfc\xdfe\r");
        wait_for_text(&screen, "I can't read that: it has bytes that are not UTF-8.").await;
        wait_for_count(&screen, "Number [1]:", 2).await;
        screen.type_keys("1\r");
        wait_for_count(&screen, "Token (it is not shown):", 1).await;
        screen.type_bytes(b"123:\xff\r");
        wait_for_count(&screen, "Token (it is not shown):", 2).await;
        assert!(!screen.shows_keys());
        screen.type_keys(&format!("{}\r", api.token()));
        wait_for_text(&screen, "The bot is @peacrab_bot.").await;
        no_line_is_longer(&screen, columns);
    }
}

#[tokio::test]
async fn a_link_that_fails_during_the_pairing_is_said_in_the_dialog() {
    for columns in COLUMNS {
        let (fixture, none, api) = (empty(), own_server().await, BotApi::start().await);
        api.fail("getUpdates", 1000, &Fault::UNAUTHORIZED);
        let args = ["--provider", "none", "--channel", "telegram", "--api-url", api.url()];
        let mut screen = begin(&fixture, columns, &args, &none);
        screen.wait_for_words("(it is not shown):").await;
        screen.type_keys(&format!("{}\r", api.token()));
        wait_for_text(&screen, "Code [later]: Telegram does not let me hear you: ").await;
        wait_for_text(&screen, "I go on trying. Press Enter to do this step later. Code [later]:")
            .await;
        assert!(
            !screen.raw().contains("ERROR") && !screen.raw().contains('\x1b'),
            "{}",
            screen.raw()
        );
        assert!(!screen.raw().contains("`peacrab "), "{}", screen.raw());
        // It is the same question, which takes the next line.
        screen.type_keys("\r");
        wait_for_text(&screen, "There is no owner yet.").await;
        wait_for_text(&screen, "All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
    }
    // One that is back brings the code after all.
    let (fixture, none, api) = (empty(), own_server().await, BotApi::start().await);
    api.fail("getUpdates", 3, &Fault::CONFLICT);
    let args = ["--provider", "none", "--channel", "telegram", "--api-url", api.url()];
    let mut screen = begin(&fixture, 120, &args, &none);
    screen.wait_for_words("(it is not shown):").await;
    screen.type_keys(&format!("{}\r", api.token()));
    screen.wait_for_words("Code [later]:").await;
    let code = code(&api).await;
    // As somebody may have written it down.
    screen.type_keys(&format!("{}-{}\r", &code[..4], &code[4..]));
    // The pairing has greeted them.
    let last = api.wait_for_words(ADA.id, "Setup is complete").await;
    assert_eq!(last.text, "Setup is complete.");
    wait_for_text(&screen, "All is set up.").await;
}
