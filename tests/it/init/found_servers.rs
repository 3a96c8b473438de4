//! The model servers that the setup finds.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use peacrab::provider::listing::{LocalAddresses, LocalServer, find_local_servers};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{self, Instant};

use super::{
    COLUMNS, NO_SERVERS, answer, config, empty, no_line_is_longer, own_server, unwrapped,
    wait_for_text,
};
use crate::support::model_api::{MODEL, ModelApi, Platform};
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
async fn an_address_without_its_end_is_completed() {
    for named in [&[] as &[&str], &["--model", MODEL]] {
        let (fixture, model) = (empty(), own_server().await);
        let typed = model.base_url.trim_end_matches("/v1");
        model.reply(answer("OK"));
        let args = ["init", "--yes", "--provider", typed, "--channel", "none"];
        let ended = fixture.run(&[&args as &[&str], named].concat()).await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        let words = format!("Its models are at {}, so that is its address.", model.base_url);
        assert!(unwrapped(&ended.out).contains(&words), "{ended:?}");
        let written = fs::read_to_string(config(&fixture)).unwrap();
        let line = format!("base_url = \"{}\"", model.base_url);
        assert!(written.contains(&line), "{written}");
        model.finish();
    }
}

#[tokio::test]
async fn an_address_without_tls_is_told_in_words() {
    let (fixture, model) = (empty(), own_server().await);
    let typed = model.base_url.replace("http://", "https://");
    let ended = fixture.run(&["init", "--yes", "--provider", &typed, "--channel", "none"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words =
        "it cannot be reached: there is no TLS at this address, which may be one of http://";
    assert!(ended.err.contains(words), "{ended:?}");
}

#[tokio::test]
async fn an_address_that_lists_nothing_gets_a_hint() {
    let (fixture, model) = (empty(), ModelApi::start(Platform::OpenAi).await);
    let typed = model.base_url.trim_end_matches("/v1");
    let args = ["init", "--yes", "--provider", typed, "--model", MODEL, "--channel", "none"];
    let ended = fixture.run(&args).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("; the address of most servers ends in /v1"), "{ended:?}");
    assert!(!config(&fixture).exists());
}

/// Two ports to which anybody can connect, and which say nothing.
fn silent_ports() -> [TcpListener; 2] {
    ["127.0.0.1:0"; 2].map(|place| TcpListener::bind(place).unwrap())
}

/// The seconds that it takes to find nothing at two ports, with nothing else to wait for.
async fn seconds_in_vain(ports: &[TcpListener; 2]) -> u64 {
    let [ollama, llama] = ports.each_ref().map(|it| url(it.local_addr().unwrap()));
    let begun = Instant::now();
    assert_eq!(find_local_servers(LocalAddresses { ollama, llama }).await, []);
    begun.elapsed().as_secs()
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/v1")
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up_after_five_seconds() {
    let seconds = seconds_in_vain(&silent_ports()).await;
    assert!(seconds <= 5, "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_port_that_accepts_nothing_is_given_up_after_two_seconds() {
    let full = silent_ports();
    let _waiting = full.each_ref().map(|port| {
        let waiting = [(); 2].map(|()| TcpStream::connect(port.local_addr().unwrap()).unwrap());
        // Linux lets one more wait than it is told.
        rustix::net::listen(port, 1).unwrap();
        waiting
    });
    assert_eq!(seconds_in_vain(&full).await, 2);
}

#[tokio::test]
async fn a_server_that_takes_three_seconds_to_answer_is_found() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ollama = url(listener.local_addr().unwrap());
    let llama = "http://127.0.0.1:9/v1".to_owned();
    let expected =
        LocalServer { name: "Ollama", base_url: ollama.clone(), models: vec![MODEL.to_owned()] };
    let answer = async {
        let (mut client, _) = listener.accept().await.unwrap();
        assert!(client.read(&mut [0; 1024]).await.unwrap() > 0);
        // As on a board that swaps.
        time::pause();
        time::advance(Duration::from_secs(3)).await;
        time::resume();
        let body = json!({"object": "list", "data": [{"id": MODEL}]}).to_string();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        client.write_all((head + &body).as_bytes()).await.unwrap();
        client
    };
    let found = find_local_servers(LocalAddresses { ollama, llama });
    let (found, _client) = tokio::join!(found, answer);
    assert_eq!(found, [expected]);
}

#[tokio::test]
async fn ports_that_say_nothing_lead_to_the_first_question() {
    let (fixture, silent) = (empty(), silent_ports());
    let [ollama, llama] = silent.each_ref().map(|it| it.local_addr().unwrap());
    let mut command = fixture.command(&Pty::session(), &["init", "--channel", "none"]);
    command.env("OLLAMA_HOST", ollama.to_string()).env("LLAMA_ARG_PORT", llama.port().to_string());
    let screen = Pty::begin(command, 120);
    wait_for_text(&screen, "Question 1 of 6. Which model should answer?").await;
    wait_for_text(&screen, "4 none for now").await;
}
