//! The model servers that the setup finds.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{
    COLUMNS, NO_SERVERS, answer, config, empty, no_line_is_longer, own_server, wait_for_text,
};
use crate::support::model_api::{ModelApi, Platform};
use crate::support::pty::Pty;

#[tokio::test]
async fn ollama_and_llama_cpp_are_both_offered_by_their_own_variables() {
    for columns in COLUMNS {
        let (fixture, ollama) = (empty(), own_server().await);
        let llama = ModelApi::start(Platform::OpenAi).await;
        llama.want_no_key();
        llama.know("pea-cpp");
        llama.show("/v1/models", json!({"object": "list", "data": [{"id": "pea-cpp"}]}));
        let place = |api: &ModelApi| {
            api.base_url.trim_start_matches("http://").trim_end_matches("/v1").to_owned()
        };
        let port = place(&llama).rsplit(':').next().unwrap().to_owned();
        let mut command = fixture.command(&Pty::session(), &["init", "--channel", "none"]);
        // As in a container: it listens on all addresses, and is reached on this machine.
        command.env("LLAMA_ARG_HOST", "0.0.0.0").env("LLAMA_ARG_PORT", port);
        command.env("OLLAMA_HOST", place(&ollama));
        let mut screen = Pty::begin(command, columns);
        wait_for_text(
            &screen,
            "4 Ollama on this machine: pea-1 5 llama.cpp on this machine: pea-cpp 6 none for now",
        )
        .await;
        wait_for_text(&screen, "Number or address [4]:").await;
        llama.reply(answer("OK"));
        screen.type_keys("5\r");
        wait_for_text(&screen, "All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
        no_line_is_longer(&screen, columns);
        llama.finish();
        ollama.finish();
        let written = fs::read_to_string(config(&fixture)).unwrap();
        let expected = format!(
            "[providers.llama]\ntype = \"openai\"\nmodel = \"pea-cpp\"\nbase_url = \"{}\"\n",
            llama.base_url
        );
        assert_eq!(written, expected);
    }
}

#[tokio::test]
async fn a_server_that_is_named_and_does_not_answer_is_said_not_to() {
    for name in ["Ollama", "llama.cpp"] {
        let fixture = empty();
        let args = ["init", "--yes", "--provider", name, "--channel", "none"];
        let mut command = fixture.command(&[], &args);
        command.envs(NO_SERVERS);
        let ended = fixture.run_with(command, "").await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let words =
            format!("{name} does not answer on this machine; start it, or give its address");
        assert!(ended.err.contains(&words), "{ended:?}");
        assert!(!config(&fixture).exists());
    }
}

#[tokio::test]
async fn a_server_without_a_model_is_not_the_usual_choice() {
    let (fixture, ollama, llama) = (empty(), own_server().await, own_server().await);
    ollama.show("/v1/models", json!({"object": "list", "data": []}));
    let place = |api: &ModelApi| {
        api.base_url.trim_start_matches("http://").trim_end_matches("/v1").to_owned()
    };
    let mut command = fixture.command(&Pty::session(), &["init", "--channel", "none"]);
    command.env("OLLAMA_HOST", place(&ollama));
    command.env("LLAMA_ARG_PORT", place(&llama).rsplit(':').next().unwrap());
    let mut screen = Pty::begin(command, 120);
    wait_for_text(&screen, "4 Ollama on this machine: no model yet").await;
    wait_for_text(&screen, "Number or address [5]:").await;
    llama.reply(answer("OK"));
    screen.type_keys("\r");
    wait_for_text(&screen, "All is set up.").await;
    assert_eq!(screen.ends().await, Some(0));
}

#[tokio::test]
async fn ports_that_say_nothing_do_not_hold_the_first_question_up() {
    let fixture = empty();
    let silent = ["127.0.0.1:0"; 2].map(|place| TcpListener::bind(place).unwrap());
    let [ollama, llama] = silent.each_ref().map(|it| it.local_addr().unwrap());
    let mut command = fixture.command(&Pty::session(), &["init", "--channel", "none"]);
    command.env("OLLAMA_HOST", ollama.to_string()).env("LLAMA_ARG_PORT", llama.port().to_string());
    let begun = Instant::now();
    let screen = Pty::begin(command, 120);
    screen.wait_for_words("Question 1 of 6").await;
    // Two seconds for both, and the rest for a busy machine.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    wait_for_text(&screen, "4 none for now").await;
}
