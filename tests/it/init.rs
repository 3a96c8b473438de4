//! The setup, as a person at a narrow and at a wide terminal goes through it, and as a script does.

mod asking;
mod found_servers;
mod homes;
mod json;
mod offered;
mod platforms;
mod service;
mod text_tools;
mod vendors;

use std::fs;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::binary::{ProgramFixture, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::ADA;
use crate::support::model_api::{KEY, MODEL, ModelApi, Platform, Reply};
use crate::support::pty::Pty;

const COLUMNS: [u16; 2] = [40, 120];

/// A fixture whose config is not there yet.
fn empty() -> ProgramFixture {
    let fixture = ProgramFixture::new("");
    fs::remove_file(config(&fixture)).unwrap();
    fixture
}

fn config(fixture: &ProgramFixture) -> std::path::PathBuf {
    fixture.folder().join("config.toml")
}

/// The command that the program names for its home and its config.
fn command_here(fixture: &ProgramFixture, command: &str) -> String {
    let (home, config) = (fixture.home(), config(fixture));
    format!(" --home {} --config {} {command}`", home.display(), config.display())
}

/// A text without the ends of its lines.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn answer(text: &str) -> Reply {
    let chunk = |delta: Value, finish: Option<&str>| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    Reply::events(&[chunk(json!({"content": text}), None), chunk(json!({}), Some("stop"))])
}

/// A server that tells its models and wants no key.
async fn own_server() -> ModelApi {
    let api = ModelApi::start(Platform::OpenAi).await;
    api.want_no_key();
    api.show("/v1/models", json!({"object": "list", "data": [{"id": MODEL, "object": "model"}]}));
    api
}

fn begin(fixture: &ProgramFixture, columns: u16, args: &[&str], ollama: &ModelApi) -> Pty {
    let mut command = fixture.command(&Pty::session(), &[&["init"], args].concat());
    let host = ollama.base_url.trim_end_matches("/v1").trim_start_matches("http://").to_owned();
    command.env("OLLAMA_HOST", host);
    Pty::begin(command, columns)
}

/// Waits until the words are on the screen, wherever its lines end.
async fn wait_for_text(screen: &Pty, words: &str) {
    screen.wait_for(words, |_| unwrapped(&screen.raw()).contains(words)).await;
}

/// Waits until the words are there so often.
async fn wait_for_count(screen: &Pty, words: &str, count: usize) {
    screen.wait_for(words, |_| unwrapped(&screen.raw()).matches(words).count() == count).await;
}

/// Variables by which no server of a model is found on this machine.
const NO_SERVERS: [(&str, &str); 2] = [("OLLAMA_HOST", "127.0.0.1:9"), ("LLAMA_ARG_PORT", "9")];

/// The bot's code for Ada.
async fn code(api: &BotApi) -> String {
    api.say(&crate::support::binary::said(&ADA, "hello?"));
    let sent = api.wait_for_words(ADA.id, "Your code is").await;
    sent.text.split("Your code is ").nth(1).unwrap().split(',').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_newcomer_gets_from_nothing_to_a_message_in_their_chat() {
    for columns in COLUMNS {
        let (fixture, model, api) = (empty(), own_server().await, BotApi::start().await);
        let begun = Instant::now();
        model.reply(answer("OK"));
        let mut screen = begin(&fixture, columns, &["--api-url", api.url()], &model);
        screen.wait_for_words("Question 1 of 6").await;
        screen.wait_for_words("4 Ollama on this").await;
        screen.answer("Number or address [4]:", "").await;
        screen.wait_for_words("Question 2 of 6").await;
        screen.wait_for_words("1 Telegram").await;
        screen.answer("Number [1]:", "1").await;
        screen.wait_for_words("https://t.me/BotFather").await;
        screen.answer("Token (it is not shown):", "123:wrong").await;
        screen.wait_for_words("That does not work").await;
        screen.answer("Token (it is not shown):", api.token()).await;
        screen.wait_for_words("https://t.me/peacrab_bot").await;
        screen.wait_for_prompt("Code [later]:").await;
        let code = code(&api).await;
        screen.answer("Code [later]:", "WRONGCOD").await;
        screen.wait_for_words("I don't know this code").await;
        screen.answer("Code [later]:", &code.to_lowercase()).await;
        api.wait_for_words(ADA.id, "Setup is complete").await;
        screen.wait_for_words("All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
        no_line_is_longer(&screen, columns);
        assert!(!screen.raw().contains('\x1b'), "no colours, no cursor: {:?}", screen.raw());
        assert!(!screen.raw().contains(api.token()), "{}", screen.raw());
        // The model, the platform, its token, the owner; and one word of the model.
        let questions = unwrapped(&screen.raw()).matches("Question ").count();
        assert_eq!((questions, model.requests().len()), (4, 1), "{}", screen.raw());
        model.finish();

        let written = fs::read_to_string(config(&fixture)).unwrap();
        assert!(written.contains("[providers.ollama]") && written.contains("[channels.telegram]"));
        assert!(written.contains("token = { file = \"telegram.token\" }"), "{written}");
        assert!(!written.contains(api.token()), "{written}");
        is_private(&config(&fixture));
        is_private(&fixture.folder().join("telegram.token"));
        // The daemon that now starts answers its owner.
        let daemon = fixture.daemon().await;
        model.reply(answer("Hello, Ada."));
        api.say(&crate::support::binary::said(&ADA, "hello"));
        api.wait_for_words(ADA.id, "Hello, Ada.").await;
        print_machine_time(begun.elapsed());
        daemon.terminate().await;
    }
}

/// Shows the time from the program on the disk to the first answer in the chat that is no person's: nobody here has to
/// think or to click. It should be less than a minute, but other tests run beside this one.
#[expect(clippy::print_stderr, reason = "who reads the tests' output must see it")]
fn print_machine_time(took: Duration) {
    eprintln!("from nothing to the first answer: {took:?}");
}

fn is_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
}

fn no_line_is_longer(screen: &Pty, columns: u16) {
    lines_fit(&screen.raw(), columns);
}

/// A line is longer than the terminal only where it is one word, such as an address, or a command to be copied.
fn lines_fit(written: &str, columns: u16) {
    for line in written.lines() {
        let line = line.trim_end();
        let is_one_word = !line.trim().contains(' ');
        let quoted = line.trim().strip_prefix('`').and_then(|rest| rest.split_once('`'));
        let is_command = quoted.is_some_and(|(_, after)| !after.contains(' '));
        // What the person types is not ours to wrap.
        let is_typed = line.starts_with("Number or address [");
        assert!(
            is_one_word || is_command || is_typed || line.chars().count() <= usize::from(columns),
            "{line}"
        );
    }
}

#[tokio::test]
async fn a_key_is_asked_for_until_one_works() {
    for columns in COLUMNS {
        let (fixture, model) = (empty(), ModelApi::start(Platform::OpenAi).await);
        let own = own_server().await;
        let mut screen = begin(&fixture, columns, &["--channel", "none"], &own);
        screen.answer("Number or address [4]:", "not an address").await;
        screen.wait_for_words("neither one of the").await;
        model.turn_away();
        let address = format!("{} {MODEL}", model.base_url);
        screen.answer("Number or address [4]:", &address).await;
        screen.answer("Key (it is not shown):", "sk-wrong").await;
        screen.wait_for_words("That does not work").await;
        model.reply(answer("OK"));
        screen.answer("Key (it is not shown):", KEY).await;
        screen.wait_for_words("All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
        no_line_is_longer(&screen, columns);
        assert!(!screen.raw().contains(KEY));
        let key = fixture.folder().join("server.key");
        assert_eq!(fs::read_to_string(&key).unwrap().trim(), KEY);
        is_private(&key);
    }
}

#[tokio::test]
async fn a_command_to_copy_is_in_one_line() {
    for columns in COLUMNS {
        let (fixture, model) = (empty(), own_server().await);
        model.reply(answer("OK"));
        let args = ["--provider", &model.base_url, "--channel", "none", "--service", "none"];
        let mut screen = begin(&fixture, columns, &args, &model);
        wait_for_text(&screen, "All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
        for command in ["run", "doctor", "chat"] {
            let here = command_here(&fixture, command);
            assert!(screen.raw().contains(&here), "{here}: {}", screen.raw());
        }
        no_line_is_longer(&screen, columns);
    }
}

#[tokio::test]
async fn ctrl_c_leaves_the_terminal_and_a_whole_config() {
    let (fixture, model, api) = (empty(), own_server().await, BotApi::start().await);
    model.reply(answer("OK"));
    let mut screen = begin(&fixture, 80, &["--api-url", api.url()], &model);
    screen.answer("Number or address [4]:", "").await;
    screen.answer("Number [1]:", "").await;
    screen.wait_for_prompt("Token (it is not shown):").await;
    screen.type_keys("\x03");
    screen.wait_for_words("stopped").await;
    assert_eq!(screen.ends().await, Some(1));
    // The command that goes on is for this home and this config.
    // It has the options of this one.
    let again = command_here(&fixture, &format!("init --api-url {}", api.url()));
    assert!(screen.raw().contains(&again), "{}", screen.raw());
    let written = fs::read_to_string(config(&fixture)).unwrap();
    assert!(written.contains("[providers.ollama]") && !written.contains("channels"), "{written}");
    assert_eq!(fixture.run(&["check"]).await.code, Some(0));
    // The next time, the model is kept, and only the rest is asked for.
    model.reply(answer("OK"));
    let mut screen = begin(&fixture, 80, &["--channel", "none", "--service", "none"], &model);
    screen.wait_for_words("The config has a model already.").await;
    assert_eq!(screen.ends().await, Some(0));
    assert_eq!(fs::read_to_string(config(&fixture)).unwrap(), written);
}

#[tokio::test]
async fn a_signal_at_any_question_leaves_the_terminal_and_the_home_in_order() {
    let stop = |screen: &Pty, signal: Signal| {
        let pid = i32::try_from(screen.pid()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    };
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (fixture, none, api) = (empty(), own_server().await, BotApi::start().await);
        let host = none.base_url.trim_end_matches("/v1").trim_start_matches("http://").to_owned();
        // Not the leader of a session: the kernel resets the terminal of one that ends.
        let start = || {
            let args = ["init", "--provider", "none", "--api-url", api.url()];
            let mut command = fixture.command(&[], &args);
            command.env("OLLAMA_HOST", &host);
            Pty::begin(command, 120)
        };
        let mut screen = start();
        screen.answer("Number [1]:", "").await;
        screen.wait_for_prompt("Token (it is not shown):").await;
        assert!(!screen.shows_keys());
        stop(&screen, signal);
        assert_eq!(screen.ends().await, Some(1), "{signal:?}");
        assert!(screen.shows_keys(), "{signal:?}");
        screen.wait_for_words("stopped").await;

        // The daemon that waits for the code ends in order.
        let mut screen = start();
        screen.answer("Number [1]:", "").await;
        screen.answer("Token (it is not shown):", api.token()).await;
        screen.wait_for_prompt("Code [later]:").await;
        until("the daemon", async || fixture.home().join("control.sock").exists().then_some(()))
            .await;
        stop(&screen, signal);
        assert_eq!(screen.ends().await, Some(1), "{signal:?}");
        screen.wait_for_words("peacrab: stopped").await;
        assert!(!screen.raw().contains("]: peacrab:"), "{}", screen.raw());
        for name in ["control.sock", "state.db-wal"] {
            assert!(!fixture.home().join(name).exists(), "{signal:?}: {name}");
        }
    }
}

#[tokio::test]
async fn ctrl_d_at_a_question_says_that_answers_are_kept_on_a_line_of_its_own() {
    let (fixture, none) = (empty(), own_server().await);
    let mut screen = begin(&fixture, 120, &["--provider", "none"], &none);
    screen.wait_for_words("Number [1]:").await;
    screen.type_keys("\x04");
    wait_for_text(&screen, "everything saved so far is kept. Run").await;
    assert_eq!(screen.ends().await, Some(1));
    let lines = screen.screen();
    assert!(lines.iter().any(|line| line.starts_with("peacrab: the input ended")), "{lines:?}");
    let again = command_here(&fixture, "init --provider none");
    assert!(screen.raw().contains(&again), "{}", screen.raw());
    no_line_is_longer(&screen, 120);
}

#[tokio::test]
async fn options_answer_everything() {
    let (fixture, model, api) =
        (empty(), ModelApi::start(Platform::OpenAi).await, BotApi::start().await);
    let put = |name: &str, text: &str| {
        let path = fixture.folder().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    // As an editor on Windows writes it.
    let key = put("my-key", &format!("\u{feff}{KEY}\r\n"));
    let token = put("my-token", api.token());
    let owner = ADA.id.to_string();
    api.is_known_to(&ADA);
    model.reply(answer("OK"));
    let args = [
        "init",
        "--yes",
        "--provider",
        &model.base_url,
        "--model",
        MODEL,
        "--key-file",
        &key,
        "--channel",
        "telegram",
        "--token-file",
        &token,
        "--api-url",
        api.url(),
        "--owner",
        &owner,
        "--service",
        "none",
    ];
    let ended = fixture.run(&args).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    model.finish();
    // A script is told of no questions.
    let out = unwrapped(&ended.out);
    assert!(!out.contains("questions") && !out.contains("Enter"), "{out}");
    assert!(out.contains("Start it with"), "{out}");
    api.wait_for_words(ADA.id, "Setup is complete").await;
    let daemon = fixture.daemon().await;
    model.reply(answer("Hello, Ada."));
    api.say(&crate::support::binary::said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "Hello, Ada.").await;
    daemon.terminate().await;
}

#[tokio::test]
async fn an_existing_config_keeps_every_byte_and_gets_new_sections() {
    let model = ModelApi::start(Platform::OpenAi).await;
    let before = format!(
        "# My bot.\n[agent]\nproviders = [\"main\"]   # the good one\nsteps_max = 7\n\n\
         [providers.main]   # at home\ntype = \"openai\"\nmodel = \"{MODEL}\"\nbase_url = \"{}\"\napi_key = \"{KEY}\"\n\
         # The end.\n",
        model.base_url
    );
    let fixture = ProgramFixture::new(&before);
    let other = own_server().await;
    other.reply(answer("OK"));
    // The one that answers so far keeps its place, because it answers.
    model.reply(answer("OK"));
    let args =
        ["init", "--yes", "--provider", &other.base_url, "--channel", "none", "--service", "none"];
    let ended = fixture.run(&args).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    model.finish();
    let after = fs::read_to_string(config(&fixture)).unwrap();
    for line in before.lines().filter(|line| !line.starts_with("providers =")) {
        assert!(after.contains(line), "{line} is gone:\n{after}");
    }
    assert!(after.contains("providers = [\"main\", \"server\"]   # the good one"), "{after}");
    assert!(after.contains("[providers.server]"), "{after}");
    assert!(after.contains("# The end.\n\n[providers.server]"), "{after}");
    // Once more: the same model is kept.
    other.reply(answer("OK"));
    let ended = fixture.run(&args).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(fs::read_to_string(config(&fixture)).unwrap(), after);
    // Another one of the server gets a name of its own, and nothing is overwritten.
    other.know("pea-2");
    other.reply(answer("OK"));
    model.reply(answer("OK"));
    let ended = fixture.run(&[&args as &[&str], &["--model", "pea-2"]].concat()).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let again = fs::read_to_string(config(&fixture)).unwrap();
    assert!(
        again.starts_with(after.split("providers =").next().unwrap())
            && again.contains("[providers.server]")
            && again.contains("[providers.server-2]"),
        "{again}"
    );
}

#[tokio::test]
async fn a_link_to_a_config_that_is_not_there_is_refused() {
    let fixture = empty();
    let target = fixture.folder().join("dotfiles/config.toml");
    symlink(&target, config(&fixture)).unwrap();
    let ended = fixture.run(&["init", "--yes", "--provider", "none"]).await;
    assert!(ended.code != Some(0) && ended.err.contains("is a link to"), "{ended:?}");
    assert_eq!(fs::read_link(config(&fixture)).unwrap(), target);
}

#[tokio::test]
async fn a_config_of_comments_keeps_them_above_what_is_added() {
    let fixture = ProgramFixture::new("# My notes.\n\n# [agent]\n# steps_max = 7\n");
    let model = own_server().await;
    model.reply(answer("OK"));
    let args =
        ["init", "--yes", "--provider", &model.base_url, "--channel", "none", "--service", "none"];
    let ended = fixture.run(&args).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let after = fs::read_to_string(config(&fixture)).unwrap();
    let begins = "# My notes.\n\n# [agent]\n# steps_max = 7\n\n[providers.server]\n";
    assert!(after.starts_with(begins), "{after}");
}

#[tokio::test]
async fn a_new_model_answers_before_one_that_is_dead() {
    let dead = "[providers.main]\ntype = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\n";
    for (before, list) in [
        (dead.to_owned(), "[agent]\nproviders = [\"server\", \"main\"]"),
        (
            format!("[agent]\nproviders = [\"main\"]  # mine\n{dead}"),
            "providers = [\"server\", \"main\"]  # mine",
        ),
    ] {
        let (fixture, model) = (ProgramFixture::new(&before), own_server().await);
        // Nobody can be asked, and a model that does not answer is no success.
        let ended = fixture.run(&["init", "--yes", "--channel", "none"]).await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(
            ended.err.contains("[providers.main]") && ended.err.contains("--provider"),
            "{ended:?}"
        );
        model.reply(answer("OK"));
        let args = ["init", "--yes", "--provider", &model.base_url, "--channel", "none"];
        let ended = fixture.run(&args).await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        let after = fs::read_to_string(config(&fixture)).unwrap();
        assert!(after.contains(list), "{after}");
    }
    // Somebody who can be asked chooses another one.
    let (fixture, model) = (ProgramFixture::new(dead), own_server().await);
    let mut screen = begin(&fixture, 120, &["--channel", "none", "--service", "none"], &model);
    screen.wait_for_words("but it does not answer").await;
    screen.wait_for_prompt("Number or address [4]:").await;
    model.reply(answer("OK"));
    screen.answer("Number or address [4]:", "").await;
    screen.wait_for_words("All is set up.").await;
    assert_eq!(screen.ends().await, Some(0));
    let after = fs::read_to_string(config(&fixture)).unwrap();
    assert!(after.contains("providers = [\"ollama\", \"main\"]"), "{after}");
}

#[tokio::test]
async fn a_server_that_lists_its_models_may_still_want_a_key() {
    for hides in [false, true] {
        let (fixture, model) = (empty(), ModelApi::start(Platform::OpenAi).await);
        let none = own_server().await;
        model.show("/v1/models", json!({"object": "list", "data": [{"id": MODEL}]}));
        model.turn_away();
        if hides {
            model.hide_models();
        }
        let mut screen = begin(&fixture, 120, &["--channel", "none"], &none);
        screen.answer("Number or address [4]:", &model.base_url).await;
        screen.wait_for_words("The server requires a key").await;
        screen.answer("Key (it is not shown):", "sk-wrong").await;
        screen.wait_for_words("That does not work").await;
        model.reply(answer("OK"));
        screen.answer("Key (it is not shown):", KEY).await;
        screen.wait_for_words("All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
        model.finish();
        assert!(
            !screen.raw().contains("Question 3"),
            "key and name are one question: {}",
            screen.raw()
        );
        // A script is told what to give.
        let fixture = empty();
        let ended = fixture.run(&["init", "--yes", "--provider", &model.base_url]).await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains("--key-file"), "{ended:?}");
    }
}

#[tokio::test]
async fn a_model_that_does_not_answer_leads_back_to_the_question() {
    let (fixture, model) = (empty(), own_server().await);
    model.reply(Reply::error(404, &json!({"error": {"message": "no such model"}})));
    let mut screen = begin(&fixture, 120, &["--channel", "none"], &model);
    screen.answer("Number or address [4]:", "").await;
    screen.wait_for_words("Please choose again.").await;
    screen.wait_for_prompt("Number or address [4]:").await;
    assert_eq!(screen.raw().matches("Question 1 of 6").count(), 2, "{}", screen.raw());
    assert!(!config(&fixture).exists());
    model.reply(answer("OK"));
    screen.answer("Number or address [4]:", "").await;
    screen.wait_for_words("All is set up.").await;
    assert_eq!(screen.ends().await, Some(0));
    // Blank lines stand between the questions.
    assert!(screen.raw().contains("\r\n\r\nQuestion 1 of 6"), "{:?}", screen.raw());
}

#[tokio::test]
async fn a_script_without_options_is_told_which_to_give() {
    let fixture = empty();
    let ended = fixture.run(&["init", "--yes"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("--provider") && ended.err.contains("--key-file"), "{ended:?}");
    assert!(!ended.out.contains("All is set up"), "{ended:?}");
    // Options that would have no effect are refused.
    let token = fixture.folder().join("my-token");
    fs::write(&token, "123:abc").unwrap();
    let token = token.display().to_string();
    for (args, words) in [
        (&["--owner", "555"] as &[&str], "give --channel"),
        (&["--token-file", &token], "with --channel"),
    ] {
        let ended = fixture.run(&[&["init", "--yes", "--provider", "none"], args].concat()).await;
        assert_eq!(ended.code, Some(1), "{args:?}: {ended:?}");
        assert!(ended.err.contains(words), "{args:?}: {ended:?}");
    }
    // What was left out by choice is no success of anything.
    let ended = fixture.run(&["init", "--yes", "--provider", "none", "--channel", "none"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.out.contains("All is set up") && !config(&fixture).exists(), "{ended:?}");
    for command in ["init", "chat", "run", "doctor"] {
        let here = command_here(&fixture, command);
        assert!(unwrapped(&ended.out).contains(&here), "{here}: {ended:?}");
    }
}

#[tokio::test]
async fn the_same_command_twice_changes_nothing_and_an_owner_joins() {
    let (fixture, api) = (empty(), BotApi::start().await);
    let token = fixture.folder().join("my-token");
    fs::write(&token, api.token()).unwrap();
    api.is_known_to(&ADA);
    let token = token.display().to_string();
    let base =
        ["init", "--yes", "--provider", "none", "--channel", "telegram", "--api-url", api.url()];
    let base = [&base as &[&str], &["--token-file", &token]].concat();
    let ended = fixture.run(&base).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let first = fs::read_to_string(config(&fixture)).unwrap();
    let ended = fixture.run(&base).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(fs::read_to_string(config(&fixture)).unwrap(), first);
    // An owner is named in the section that is there, and gets the first message.
    let owner = ADA.id.to_string();
    let with_owner = [&base as &[&str], &["--owner", &owner]].concat();
    let ended = fixture.run(&with_owner).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    api.wait_for_words(ADA.id, "Setup is complete").await;
    let second = fs::read_to_string(config(&fixture)).unwrap();
    assert!(second.contains(&format!("owners = [\"{owner}\"]")), "{second}");
    // Once. Without a token it is the channel of the config that is meant.
    let again = ["init", "--yes", "--provider", "none", "--channel", "telegram", "--owner", &owner];
    let ended = fixture.run(&again).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(fs::read_to_string(config(&fixture)).unwrap(), second);
    assert_eq!(api.sent().len(), 1, "{:?}", api.sent());
}

#[tokio::test]
async fn a_token_may_come_from_a_pipe() {
    let (fixture, api) = (empty(), BotApi::start().await);
    let pipe = fixture.folder().join("pipe");
    let named = pipe.display().to_string();
    let base = ["init", "--yes", "--provider", "none", "--channel", "telegram", "--api-url"];
    let args = |file| [&base as &[&str], &[api.url(), "--token-file", file]].concat();
    // Somebody who does not wait for its writer any more can stop.
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let waiting = fixture.begin(fixture.command(&[], &args(&named)));
    let mut write = fs::OpenOptions::new();
    let write = write.write(true).custom_flags(libc::O_NONBLOCK);
    let _writer = until("the reader", async || write.open(&pipe).ok()).await;
    assert_eq!(waiting.terminate().await.code(), Some(1));
    let said = fs::read_to_string(fixture.folder().join("log")).unwrap();
    assert!(unwrapped(&said).contains("everything saved so far is kept"), "{said}");
    assert!(!config(&fixture).exists());

    let piped = fixture.command(&[], &args("/dev/stdin"));
    let ended = fixture.run_with(piped, &format!("{}\n", api.token())).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(fs::read_to_string(config(&fixture)).unwrap().contains("[channels.telegram]"));
}

#[tokio::test]
async fn a_service_that_is_not_for_this_home_is_refused_before_the_first_question() {
    let (fixture, model) = (empty(), own_server().await);
    let args = ["init", "--yes", "--provider", &model.base_url, "--service", "system"];
    let ended = fixture.run_with(fixture.bare_command(&args), "").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("/var/lib/peacrab"), "{ended:?}");
    assert!(!fixture.home().join("config.toml").exists());
    model.finish();
}

#[tokio::test]
async fn options_that_contradict_each_other_are_refused_before_the_model_is_asked() {
    let (model, api) = (own_server().await, BotApi::start().await);
    let fixture = empty();
    let token = fixture.folder().join("my-token");
    fs::write(&token, api.token()).unwrap();
    let (token, missing) = (token.display().to_string(), fixture.folder().join("missing"));
    let missing = missing.display().to_string();
    let telegram: &[&str] = &["--channel", "telegram", "--token-file", &token];
    let no_id = [telegram, &["--owner", "fritz"]].concat();
    let no_address = [telegram, &["--api-url", "ftp://x"]].concat();
    for (args, words) in [
        (&["--owner", "555"] as &[&str], "give --channel"),
        (&["--channel", "none", "--owner", "555"], "give --channel"),
        (&["--token-file", &token], "with --channel"),
        (&["--channel", "icq"], "icq is not a platform"),
        (&["--channel", "telegram"], "give --token-file"),
        (&["--channel", "slack"], "give --token-file and --app-token-file"),
        (&["--channel", "slack", "--token-file", &token], "give --app-token-file, too"),
        (&["--channel", "slack", "--app-token-file", &token], "give --token-file, too"),
        (&["--channel", "telegram", "--token-file", &missing], "cannot read"),
        (no_id.as_slice(), "must be a user id"),
        (no_address.as_slice(), "http:// on this machine"),
    ] {
        let base: &[&str] = &["init", "--yes", "--provider", &model.base_url];
        let ended = fixture.run(&[base, args].concat()).await;
        assert_eq!(ended.code, Some(1), "{args:?}: {ended:?}");
        assert!(ended.err.contains(words), "{args:?}: {ended:?}");
        // Nothing that Telegram has said, and no line of a file that does not exist.
        assert!(!ended.err.contains("accept this"), "{args:?}: {ended:?}");
        assert!(!ended.err.contains("config.toml"), "{args:?}: {ended:?}");
        assert!(!ended.out.contains("Testing"), "{args:?}: {ended:?}");
        assert!(!config(&fixture).exists(), "{args:?}");
    }
    // Somebody who can be asked learns of them before the first question, too.
    let mut screen = begin(&fixture, 120, &["--channel", "icq"], &model);
    screen.wait_for_words("icq is not a platform").await;
    assert_eq!(screen.ends().await, Some(1));
    assert!(!screen.raw().contains("Question"), "{}", screen.raw());
}

#[tokio::test]
async fn a_platform_that_cannot_be_reached_is_not_said_to_refuse() {
    let fixture = empty();
    let token = fixture.folder().join("my-token");
    fs::write(&token, "123456:ABC-DEF").unwrap();
    let token = token.display().to_string();
    let args = ["init", "--yes", "--provider", "none", "--channel", "telegram", "--token-file"];
    let nowhere = [token.as_str(), "--api-url", "http://127.0.0.1:9"];
    let ended = fixture.run(&[&args as &[&str], &nowhere].concat()).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("Telegram cannot be asked: "), "{ended:?}");
    assert!(!ended.err.contains("accept"), "{ended:?}");
}

#[tokio::test]
async fn a_config_that_cannot_be_written_is_named_before_anything_is_asked() {
    let (fixture, model) = (empty(), own_server().await);
    // It is not there, and cannot be made.
    symlink(fixture.folder().join("nowhere").join("home"), fixture.home()).unwrap();
    let args = ["init", "--yes", "--provider", &model.base_url];
    let ended = fixture.run_with(fixture.bare_command(&args), "").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let file = fixture.home().join("config.toml").display().to_string();
    assert!(ended.err.contains(&format!("cannot write {file}")), "{ended:?}");
    assert!(!ended.out.contains("Testing"), "{ended:?}");
    // Nobody types a key that could not be kept.
    let mut command = fixture.bare_command(&["init", "--channel", "none"]);
    let host = model.base_url.trim_end_matches("/v1").trim_start_matches("http://").to_owned();
    command.env("OLLAMA_HOST", host);
    let mut screen = Pty::begin(command, 200);
    screen.wait_for_words("cannot write").await;
    assert_eq!(screen.ends().await, Some(1));
    assert!(!screen.raw().contains("Question 1"), "{}", screen.raw());
}

#[tokio::test]
async fn what_does_not_work_is_not_saved() {
    let (model, api) = (ModelApi::start(Platform::OpenAi).await, BotApi::start().await);
    model.show("/v1/models", json!({"data": []}));
    let fixture = empty();
    let token = fixture.folder().join("my-token");
    fs::write(&token, "123:wrong").unwrap();
    let token = token.display().to_string();
    model.reply(Reply::error(404, &json!({"error": {"message": "no such model"}})));
    let base: &[&str] = &["init", "--yes", "--service", "none"];
    for (args, words) in [
        (
            &["--provider", &model.base_url, "--model", MODEL] as &[&str],
            "the model does not answer",
        ),
        (&["--provider", "http://127.0.0.1:9/v1"], "cannot be reached"),
        (&["--provider", "opneai"], "neither one of the numbers"),
        (&["--provider", "openai"], "give --key-file"),
        (&["--provider", "none", "--channel", "icq"], "is not a platform"),
        (&["--provider", "none", "--channel", "telegram"], "give --token-file"),
        (
            &[
                "--provider",
                "none",
                "--channel",
                "telegram",
                "--token-file",
                &token,
                "--api-url",
                api.url(),
            ],
            "does not accept this",
        ),
    ] {
        let ended = fixture.run(&[base, args].concat()).await;
        assert_eq!(ended.code, Some(1), "{args:?}: {ended:?}");
        assert!(ended.err.contains(words), "{args:?}: {ended:?}");
        assert!(!config(&fixture).exists(), "{args:?}");
    }
    let ended = fixture.run_with(fixture.command(&[], &["init"]), "none\n").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("the input ended"), "{ended:?}");
    // A config that cannot be read is not touched.
    let broken = ProgramFixture::new("[agent]\nstep_max = 3\n");
    let ended = broken.run(&["init", "--yes"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert_eq!(fs::read_to_string(config(&broken)).unwrap(), "[agent]\nstep_max = 3\n");
    let unreadable = ProgramFixture::new("[agent\n");
    let ended = unreadable.run(&["init", "--yes"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
}

#[tokio::test]
async fn a_daemon_that_runs_takes_the_new_channel_and_hears_the_owner() {
    let (fixture, none, api) = (empty(), own_server().await, BotApi::start().await);
    fs::write(config(&fixture), "").unwrap();
    let daemon = fixture.daemon().await;
    let args = ["--provider", "none", "--service", "none", "--api-url", api.url()];
    let mut screen = begin(&fixture, 80, &args, &none);
    screen.answer("Number [1]:", "").await;
    screen.answer("Token (it is not shown):", api.token()).await;
    screen.wait_for_prompt("Code [later]:").await;
    let code = code(&api).await;
    screen.answer("Code [later]:", &code).await;
    api.wait_for_words(ADA.id, "Setup is complete").await;
    assert_eq!(screen.ends().await, Some(0));
    // It need not be started again.
    let shown = unwrapped(&screen.raw());
    assert!(!shown.contains("Start it with") && shown.contains(" reload`"), "{shown}");
    api.say(&crate::support::binary::said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    daemon.terminate().await;
}
