//! What the command line prints, and how it ends.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::process::Stdio;

use futures_util::future::join_all;
use peacrab::cli::shell_words::{in_shell, with_program};
use serde_json::{Value, json};

use crate::support::binary::{ProgramFixture, home, home_at, until};
use crate::support::bot_api::BotApi;
use crate::support::pty::Pty;

const TOKEN: &str = "4242:AAAA-this-is-a-token-of-the-right-length";

#[tokio::test]
async fn check_says_what_would_start_and_starts_nothing() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let ended = fixture.run(&["check"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for words in ["home: telegram", api.url(), "rehearsal, no model", "there is no model"] {
        assert!(ended.out.contains(words), "{words}: {ended:?}");
    }
    assert!(!ended.out.contains(api.token()), "{ended:?}");
    assert!(!fixture.home().exists() && api.received().is_empty());
}

#[tokio::test]
async fn check_says_what_the_environment_alone_starts() {
    let fixture = ProgramFixture::new("");
    let mut command = fixture.command(&[], &["check"]);
    command.env("TELEGRAM_BOT_TOKEN", TOKEN).env("OPENAI_API_KEY", "sk-0123456789abcdef");
    let ended = fixture.run_with(command, "").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("telegram (https://api.telegram.org)"), "{ended:?}");
    assert!(ended.out.contains("(openai, https://api.openai.com/v1)"), "{ended:?}");
    assert!(!ended.out.contains(TOKEN) && !ended.out.contains("sk-01"), "{ended:?}");
}

#[tokio::test]
async fn a_broken_config_is_refused_with_all_that_is_wrong() {
    let broken = "[agent]\nstep_max = 3\nturns_max = 0\n[channels.home]\ntype = \"telegramm\"\n\
                  [providers.main]\ntype = \"openai\"\n";
    let fixture = ProgramFixture::new(broken);
    for args in [&["check"] as &[&str], &["run"], &["chat", "-m", "hello"], &[]] {
        let ended = fixture.run(args).await;
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{args:?}: {ended:?}");
        for words in ["config.toml:2:1", "steps_max", "config.toml:3:", "config.toml:5:", "model"] {
            assert!(ended.err.contains(words), "{args:?} says nothing of {words}: {ended:?}");
        }
    }
    assert!(!fixture.home().exists(), "a config that is refused must not leave a home");
}

#[tokio::test]
async fn explain_gives_the_decision_and_its_reason() {
    let fixture = ProgramFixture::new("[asking]\napprove_tools = [\"write_*\"]\n");
    let elsewhere = r#"{"to": "home:42", "text": "hello"}"#;
    for (args, words) in [
        (
            &["message", elsewhere] as &[&str],
            "ask: message needs approval first, because it tells somebody else what was said in private",
        ),
        (&["message", elsewhere, "--group"], "allow: message acts outside this conversation"),
        (&["message", elsewhere, "--unattended"], "deny: message is refused"),
        (&["message", elsewhere, "--role", "user"], "only an admin or the owner"),
        (&["message", r#"{"text": "hello"}"#], "allow: message acts only in this conversation"),
        (&["message", elsewhere, "--untrusted"], "ask: message needs approval first"),
        (
            &["web_fetch", r#"{"url": "http://a.example/"}"#, "--untrusted"],
            "read untrusted content",
        ),
        (&["write_file"], "because the config requires approval for this tool (approve_tools)"),
        (
            &["remember", "--group"],
            "deny: remember is refused, because it works in a private chat only",
        ),
        (&["remember", r#"{"text": "x"}"#, "--untrusted"], "because it changes my memory, and"),
        (
            &["append_file", r#"{"path": "SOUL.md", "content": "x"}"#],
            "allow: append_file changes my instructions or skills",
        ),
        // What the tool itself would refuse is not allowed.
        (&["append_file", "{}"], "deny: append_file cannot begin: The arguments"),
        (&["message", "{}"], "deny: message cannot begin: text is empty."),
        (
            &["write_file", r#"{"path": "~/x", "content": "a"}"#],
            "deny: write_file cannot begin: `~/x` begins in a home folder",
        ),
        (
            &["append_file", r#"{"path": "memory/FACTS.md", "content": "a"}"#],
            "deny: append_file cannot begin: memory/FACTS.md is made by the program",
        ),
        (
            &["edit_file", r#"{"path": "a.md", "old": "", "new": "a"}"#],
            "deny: edit_file cannot begin: `old` is empty",
        ),
        (
            &["read_file", r#"{"path": "people/p5/downloads/a.md"}"#],
            "deny: read_file cannot begin: `people/p5/downloads/a.md` is private",
        ),
        (
            &["schedule", r#"{"action": "add", "when": "soon", "text": "a"}"#],
            "deny: schedule cannot begin: I don't understand",
        ),
        (&["remember", r#"{"text": " "}"#], "deny: remember cannot begin: The text is empty."),
        (
            &["remember", r#"{"text": "a"}"#, "--group"],
            "deny: remember cannot begin: Groups have no memory",
        ),
        (
            &["web_fetch", r#"{"url": "ftp://a.example/"}"#],
            "deny: web_fetch cannot begin: ftp://a.example/ cannot be fetched: ftp: is not spoken here",
        ),
        (
            &["ask_question", r#"{"question": " "}"#],
            "deny: ask_question cannot begin: The question has no text.",
        ),
        (
            &["list_files", r#"{"path": "people/p5"}"#],
            "deny: list_files cannot begin: `people/p5` is private",
        ),
        (
            &["remember", r#"{"text": "x"}"#, "--untrusted", "--unattended"],
            "deny: remember is refused",
        ),
        (&["read_file", "--role", "guest"], "and the person who asked has the role guest"),
    ] {
        let ended = fixture.run(&[&["explain"], args].concat()).await;
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
        assert!(ended.out.contains(words), "{args:?}: {ended:?}");
    }
    for (args, code) in
        [(&["fly"] as &[&str], 1), (&["message", "{"], 1), (&["message", "--role", "king"], 2)]
    {
        let ended = fixture.run(&[&["explain"], args].concat()).await;
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
    }
    assert!(!fixture.home().exists());
}

/// Runs a command with this standard output. Returns its exit code and what it says of errors.
async fn run_into(
    fixture: &ProgramFixture,
    args: &[&str],
    out: impl Into<Stdio>,
) -> (Option<i32>, String) {
    let mut command = fixture.command(&[], args);
    command.stdin(Stdio::null()).stdout(out).stderr(Stdio::piped());
    let ended = command.spawn().unwrap().wait_with_output().await.unwrap();
    (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
}

#[tokio::test]
async fn output_that_is_lost_fails_unless_its_reader_has_gone_away() {
    let fixture = ProgramFixture::new("");
    // There is something to be shown from now on.
    assert_eq!(fixture.run(&["chat", "-m", "hello"]).await.code, Some(0));
    for args in [
        &["--help"] as &[&str],
        &["--version"],
        &["completions", "bash"],
        &["check"],
        &["check", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["usage", "--json"],
        &["sessions", "list", "--json"],
        &["sessions", "export", "1"],
        &["chat", "-m", "hello"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (code, err) = run_into(&fixture, args, full).await;
        assert_eq!(code, Some(1), "{args:?}: {err}");
        assert!(err.contains("cannot write the output: No space left"), "{args:?}: {err}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, err) = run_into(&fixture, args, writer).await;
        assert_eq!(code, Some(0), "{args:?}: {err}");
        assert!(!err.contains("cannot write"), "{args:?}: {err}");
    }
}

#[tokio::test]
async fn a_command_that_nobody_knows_is_refused() {
    let ended = ProgramFixture::new("").run(&["swim"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
}

#[tokio::test]
async fn a_wrong_option_is_refused_with_the_usage_of_the_whole_command() {
    let fixture = ProgramFixture::new("");
    for (args, usage) in [
        (&["--nosuch"] as &[&str], "peacrab [OPTIONS] [COMMAND]"),
        (&["status", "--jsom"], "peacrab status [OPTIONS]"),
        (&["restore", "--replacd", "x"], "peacrab restore [OPTIONS] <FILE>"),
        (&["cron", "show", "--jsom"], "peacrab cron show [OPTIONS] <ID>"),
    ] {
        let mut command = fixture.bare_command(&[]);
        command.args(args);
        let ended = fixture.run_with(command, "").await;
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        let shown = ended.err.lines().find_map(|line| line.strip_prefix("Usage: "));
        assert_eq!(shown, Some(usage), "{args:?}: {ended:?}");
    }
}

#[tokio::test]
async fn the_help_says_what_each_argument_is() {
    let fixture = ProgramFixture::new("");
    for (args, argument) in [
        (&["restore"] as &[&str], "<FILE>"),
        (&["man"], "<FOLDER>"),
        (&["completions"], "<SHELL>"),
        (&["import"], "<BOT>"),
        (&["sessions", "search"], "[WORDS]..."),
        (&["cron", "show"], "<ID>"),
        (&["cron", "edit"], "<ID>"),
        (&["cron", "history"], "<ID>"),
    ] {
        let ended = fixture.run(&[args, &["-h"]].concat()).await;
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
        let begin = format!("  {argument}  ");
        let words = ended.out.lines().find_map(|line| line.strip_prefix(&begin));
        let words = words.unwrap_or_else(|| panic!("{args:?}: {ended:?}")).trim();
        assert!(words.starts_with(char::is_uppercase), "{args:?}: {words}");
    }
}

#[tokio::test]
async fn commands_that_need_a_daemon_say_so() {
    let fixture = ProgramFixture::new("");
    for args in [&["status"] as &[&str], &["pair", "list"]] {
        let ended = fixture.run(args).await;
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.err.contains("no daemon runs"), "{ended:?}");
        let start = format!("--home {} run`", fixture.home().display());
        assert!(ended.err.contains(&start), "{ended:?}");
    }
}

#[tokio::test]
async fn help_status_and_check_are_as_wide_as_the_terminal() {
    const COLUMNS: u16 = 40;
    let fixture = ProgramFixture::new(&home_at("http://127.0.0.1:9", TOKEN));
    let _daemon = fixture.daemon().await;
    for args in [
        &["--help"] as &[&str],
        &["help", "init"],
        &["init", "--help"],
        &["cron", "--help"],
        &["cron", "add", "--help"],
        &["service", "logs", "--help"],
        &["budget", "set", "a", "--json"],
        &["status"],
        &["check"],
    ] {
        let mut screen = Pty::begin(fixture.command(&Pty::session(), args), COLUMNS);
        screen.ends().await;
        screen.wait_for("output", |lines| lines.len() > 3).await;
        for line in screen.raw().lines().map(str::trim_end) {
            let is_one_word = !line.trim().contains(' ');
            // A command to be copied is in one line.
            let is_command = line.starts_with('`') && line.ends_with('`');
            let fits = is_one_word || is_command || line.chars().count() <= usize::from(COLUMNS);
            assert!(fits, "{args:?}: {line}\n{}", screen.raw());
        }
    }
    // Another program gets whole lines, also where the screen is narrow.
    let help = fixture.run(&["init", "--help"]).await;
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""), "{help:?}");
    assert!(help.out.lines().any(|line| line.len() > 100), "{help:?}");
}

#[tokio::test]
async fn chat_answers_through_the_daemon() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    chats(&fixture).await;
}

#[tokio::test]
async fn chat_answers_without_a_daemon_and_without_telegram() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    chats(&fixture).await;
    assert!(api.received().is_empty(), "{:?}", api.received());
}

#[tokio::test]
async fn chat_does_not_wait_for_an_answer_to_nothing() {
    let fixture = ProgramFixture::new("");
    for message in ["", " \n"] {
        let ended = fixture.run(&["chat", "-m", message]).await;
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.err.contains("the message is empty"), "{ended:?}");
    }
    let ended = fixture.run(&["chat"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{ended:?}");
}

async fn chats(fixture: &ProgramFixture) {
    for (args, input) in [
        (&["chat", "-m", "hello"] as &[&str], ""),
        (&["chat"], "hello\n"),
        (&["chat"], "hello"),
        (&["chat", "--session", "other"], "\nhello\n\n"),
    ] {
        let ended = fixture.run_with(fixture.command(&[], args), input).await;
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
        assert_eq!(ended.out.matches("You said: hello").count(), 1, "{args:?}: {ended:?}");
        assert!(ended.out.contains("This is a rehearsal"), "{args:?}: {ended:?}");
    }
}

#[tokio::test]
async fn of_many_terminals_at_once_each_is_answered_or_told_why_not() {
    let fixture = ProgramFixture::new(&home_at("http://127.0.0.1:9", TOKEN));
    let _daemon = fixture.daemon().await;
    let names: Vec<_> = (0..30).map(|number| format!("s{number}")).collect();
    let args: Vec<_> =
        names.iter().map(|name| ["chat", "-m", "hello", "--session", name]).collect();
    let mut answered = 0;
    for ended in join_all(args.iter().map(|args| fixture.run(args))).await {
        match ended.code {
            Some(0) => {
                answered += 1;
                assert!(ended.out.contains("You said: hello"), "{ended:?}");
            }
            _ => assert!(ended.err.contains("terminals are connected already"), "{ended:?}"),
        }
    }
    assert!(answered >= 16, "{answered}");
}

#[tokio::test]
async fn what_was_done_is_listed_and_undone_with_and_without_a_daemon() {
    let fixture = ProgramFixture::new(&home_at("http://127.0.0.1:9", TOKEN));
    for args in [&["actions", "--json"] as &[&str], &["actions"]] {
        let nothing = fixture.run(args).await;
        assert_eq!(nothing.code, Some(1), "{nothing:?}");
        assert!(nothing.err.contains("there is no data in this home yet"), "{nothing:?}");
    }
    let file = fixture.home().join("workspace/log.md");
    fixture.run(&["chat", "-m", "append one to log.md"]).await;
    assert!(file.exists());
    acts(&fixture, 1).await;
    assert!(!file.exists());
    let _daemon = fixture.daemon().await;
    fixture.run(&["chat", "-m", "append one to log.md"]).await;
    // The undo was the second one.
    acts(&fixture, 3).await;
    assert!(!file.exists());
}

#[tokio::test]
async fn why_of_what_is_not_known_fails_with_and_without_a_daemon() {
    let fixture = ProgramFixture::new(&home_at("http://127.0.0.1:9", TOKEN));
    fixture.run(&["chat", "-m", "append one to log.md"]).await;
    let check = async || {
        let known = fixture.run(&["why", "1"]).await;
        assert_eq!(known.code, Some(0), "{known:?}");
        assert!(known.out.contains("Action 1 · "), "{known:?}");
        for (asked, words) in [
            ("99", "There is no action 99 here."),
            ("never.md", "None of my actions here changed"),
            ("fact 99", "99"),
            ("../outside", "Use /why"),
        ] {
            let ended = fixture.run(&["why", asked]).await;
            assert_eq!(ended.code, Some(1), "{asked}: {ended:?}");
            assert!(ended.out.contains(words), "{asked}: {ended:?}");
            assert!(ended.err.contains("nothing was explained"), "{asked}: {ended:?}");
        }
    };
    check().await;
    let daemon = fixture.daemon().await;
    check().await;
    daemon.terminate().await;
}

async fn acts(fixture: &ProgramFixture, number: u32) {
    let listed = fixture.run(&["actions", "--json", "--limit", "1"]).await;
    let actions: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!((&actions[0]["id"], &actions[0]["undo"]), (&number.into(), &"open".into()));
    assert_eq!(actions[0]["tool"], "append_file");
    let listed = fixture.run(&["actions"]).await;
    assert!(listed.out.starts_with(&format!("{number} · ")), "{listed:?}");
    let number = number.to_string();
    let undone = fixture.run(&["undo", &number]).await;
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert!(undone.out.starts_with("Undone: action"), "{undone:?}");
    let again = fixture.run(&["undo", &number]).await;
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains("nothing was undone"), "{again:?}");
}

#[tokio::test]
async fn chat_shows_what_happens_inside_if_asked() {
    let fixture = ProgramFixture::new(&home_at("http://127.0.0.1:9", TOKEN));
    let _daemon = fixture.daemon().await;
    let ended = fixture.run(&["chat", "-v", "-m", "remember that the crab is small"]).await;
    for words in
        ["turn begins", "remember is done in", "memory updated: ", "turn ends", "delivered"]
    {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
}

#[tokio::test]
async fn status_is_json_with_its_documented_fields() {
    let fixture = ProgramFixture::new(&home_at("http://127.0.0.1:9", TOKEN));
    let daemon = fixture.daemon().await;
    let status = fixture.status().await;
    let names = [
        "version",
        "home",
        "pid",
        "since",
        "health",
        "safe_mode",
        "disk",
        "provider",
        "model_troubles",
        "tools",
        "skills",
        "prompt_tokens",
        "turns_running",
        "awaiting_model",
        "waiting",
        "tokens_30_days",
        "channels",
        "mcp",
        "shell",
        "heartbeat",
        "config_warnings",
        "removed_channels",
    ];
    assert_eq!(keys(&status), BTreeSet::from(names));
    let names = ["up", "about", "last_byte_s", "last_event_s", "trouble", "pending", "failing"];
    assert_eq!(keys(&status["channels"]["home"]), BTreeSet::from(names));
    assert_eq!(keys(&status["channels"]["home"]["failing"]), ["count", "since", "reason"].into());
    let names = ["database", "written_by_store", "written_as_files", "written_by_programs"];
    assert_eq!(keys(&status["disk"]), BTreeSet::from(names));
    assert!(status["disk"]["database"].as_u64() > Some(0), "{status}");
    assert_eq!(status["health"], json!({ "agent_loop": true, "store": true }));
    assert_eq!(status["home"], fixture.home().display().to_string());
    assert!(status["provider"].as_str().unwrap().contains("rehearsal"), "{status}");
    // The tools of the hardware are described to the owner's model, too.
    let most = if cfg!(feature = "hardware") { 3500 } else { 3000 };
    assert!((1..=most).contains(&status["prompt_tokens"].as_u64().unwrap()), "{status}");
    let words = fixture.run(&["status"]).await;
    assert!(words.out.contains("channel home"), "{words:?}");
    assert!(words.out.contains("written since the start: "), "{words:?}");
    assert!(!daemon.log().contains(TOKEN), "{}", daemon.log());
}

#[tokio::test]
async fn tells_what_it_has_used_and_learned() {
    let fixture = ProgramFixture::new(&home_at("http://127.0.0.1:9", TOKEN));
    let alone = fixture.run(&["usage"]).await;
    assert_eq!(alone.code, Some(1), "{alone:?}");
    assert!(alone.err.contains("there is no data in this home yet"), "{alone:?}");
    let _daemon = fixture.daemon().await;
    let used = fixture.run(&["usage"]).await;
    assert_eq!((used.code, used.out.trim()), (Some(0), "I used no tokens in the last 30 days."));
    let skills = fixture.run(&["skills"]).await;
    assert_eq!(skills.code, Some(0), "{skills:?}");
    assert!(skills.out.contains("weekly-review (ready): Look back"), "{skills:?}");
    let memory = fixture.run(&["memory"]).await;
    assert!(memory.out.contains("I keep no facts about you."), "{memory:?}");
    fixture.run(&["chat", "-m", "/remember people: Ada is seven"]).await;
    let memory = fixture.run(&["memory"]).await;
    assert!(memory.out.starts_with("#1 people: Ada is seven ("), "{memory:?}");
    let memory = fixture.run(&["memory", "--json"]).await;
    let memory: Value = serde_json::from_str(&memory.out).unwrap();
    assert_eq!(memory[0]["text"], "Ada is seven");
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn secrets_in_a_folder_of_the_system_cost_the_shell_and_nothing_else() {
    let places = ["/etc/hostname", "/etc/debian_version", "/etc/timezone"];
    let is_word =
        |text: &str| !text.trim().is_empty() && !text.trim().contains(char::is_whitespace);
    let place =
        places.into_iter().find(|it| fs::read_to_string(it).is_ok_and(|text| is_word(&text)));
    let place = place.expect("a Linux has one of these");
    let config = format!(
        "{}\n[providers.main]\ntype = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9\"\n\
         api_key = {{ file = \"{place}\" }}\n",
        home_at("http://127.0.0.1:9", TOKEN)
    );
    let fixture = ProgramFixture::new(&config);
    let checked = fixture.run(&["check"]).await;
    let words = format!("Shell commands could read the secrets in {place}");
    assert_eq!((checked.code, checked.err.as_str()), (Some(0), ""), "{checked:?}");
    assert!(checked.out.contains("warning: Shell: not available"), "{checked:?}");
    let daemon = fixture.daemon().await;
    let status = fixture.status().await;
    assert_eq!(status["shell"]["state"], "refused", "{status}");
    assert!(status["shell"]["why"].as_str().unwrap().starts_with(&words), "{status}");
    daemon.terminate().await;
}

#[tokio::test]
async fn jobs_heartbeat_and_usage_work_without_a_daemon() {
    let fixture = ProgramFixture::new(&home_at("http://127.0.0.1:9", TOKEN));
    for args in [&["heartbeat"] as &[&str], &["cron", "rm", "1"], &["usage", "--json"]] {
        let ended = fixture.run(args).await;
        assert_eq!(ended.code, Some(1), "{args:?}: {ended:?}");
        assert!(ended.err.contains("there is no data in this home yet"), "{args:?}: {ended:?}");
    }
    assert!(!fixture.home().exists());
    fixture.run(&["chat", "-m", "hello"]).await;
    let to = ["--to", "terminal:main"];
    let added = [&["cron", "add", "--every", "1d"], &to as &[&str], &["water the plants"]].concat();
    for (args, words) in [
        (added.as_slice(), "job 1"),
        (&["cron", "pause", "1"], "1"),
        (&["cron", "list"], "paused"),
        (&["heartbeat", "off"], "eartbeat"),
        (&["heartbeat"], "eartbeat"),
        (&["usage"], "rehearsal"),
    ] {
        let ended = fixture.run(args).await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
        assert!(ended.out.contains(words), "{args:?}: {ended:?}");
    }
    let daemon = fixture.daemon().await;
    let kept = fixture.run(&["cron", "list"]).await;
    assert!(kept.out.contains("paused"), "{kept:?}");
    daemon.terminate().await;
    let gone = fixture.run(&["cron", "rm", "1"]).await;
    assert_eq!(gone.code, Some(0), "{gone:?}");
    let again = fixture.run(&["cron", "rm", "1"]).await;
    assert_eq!(again.code, Some(1), "{again:?}");
}

#[tokio::test]
async fn conversations_are_listed_searched_shown_and_exported() {
    let fixture = ProgramFixture::new(&home_at("http://127.0.0.1:9", TOKEN));
    fixture.run(&["chat", "-m", "the word is crab"]).await;
    fixture.run(&["chat", "--session", "other", "-m", "append fig to list.md"]).await;
    let listed = fixture.run(&["sessions", "list"]).await;
    assert_eq!(listed.out.lines().count(), 2, "{listed:?}");
    assert!(listed.out.contains("#1 the word is crab (terminal, "), "{listed:?}");
    let found = fixture.run(&["sessions", "search", "crab", "--json"]).await;
    let found: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!((found[0]["number"].as_i64(), found[1].is_null()), (Some(1), true), "{found}");
    let shown = fixture.run(&["sessions", "show", "the word"]).await;
    assert!(shown.out.starts_with("# the word is crab\n\nConversation 1 on terminal"), "{shown:?}");
    assert!(
        shown.out.contains("\n\nthe word is crab\n") && shown.out.contains("### Peacrab"),
        "{shown:?}"
    );
    let exported = fixture.run(&["sessions", "export", "#2", "--format", "json"]).await;
    let exported: Value = serde_json::from_str(&exported.out).unwrap();
    assert_eq!((exported["version"].as_i64(), exported["id"].as_i64()), (Some(1), Some(2)));
    assert_eq!(exported["turns"][0]["said"], "append fig to list.md");
    assert_eq!(exported["turns"][0]["tools"], serde_json::json!(["append_file"]));
    for (args, words) in [
        (&["sessions", "show", "zebra"] as &[&str], "you have no conversation `zebra`"),
        (&["sessions", "search", " "], "give the words to look for"),
    ] {
        let refused = fixture.run(args).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.err.contains(words), "{refused:?}");
    }
}

#[tokio::test]
async fn every_listing_is_json_with_and_without_a_daemon() {
    let fixture = ProgramFixture::new(&home_at("http://127.0.0.1:9", TOKEN));
    fixture.run(&["chat", "-m", "hello"]).await;
    fixture
        .run(&["cron", "add", "--every", "1d", "--to", "terminal:main", "water the plants"])
        .await;
    let read = async || {
        let mut listed = Vec::new();
        for args in
            [&["cron", "list"] as &[&str], &["pair", "list"], &["usage"], &["skills"], &["actions"]]
        {
            let ended = fixture.run(&[args, &["--json"]].concat()).await;
            assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
            listed.push(serde_json::from_str::<Value>(&ended.out).unwrap());
        }
        listed
    };
    let alone = read().await;
    let _daemon = fixture.daemon().await;
    assert_eq!(read().await, alone);
    let [jobs, people, used, skills, actions] = alone.try_into().unwrap();
    assert_eq!(jobs[0]["text"], "water the plants");
    assert!(jobs[0]["next"].as_str().unwrap().contains('T'), "{jobs}");
    assert_eq!(people, serde_json::json!({"pending": [], "paired": []}));
    assert_eq!(used[0]["today"]["output"], 1);
    assert_eq!(skills["broken"], serde_json::json!([]));
    assert_eq!(actions, serde_json::json!([]));
}

#[tokio::test]
async fn check_names_the_file_and_warns_of_what_cannot_work() {
    let fixture = ProgramFixture::new("");
    let hook = fixture.home().join("workspace/hook.sh");
    let server = fixture.home().join("jobs/1/files/server.py");
    let config = format!(
        "[channels.home]\ntype = \"telegram\"\ntoken = \"not-a-token\"\n\
         [channels.crew]\ntype = \"discord\"\ntoken = \"an.id\"\n\
         [providers.main]\ntype = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9\"\ncontext = 32768\n\
         [hooks.tell]\non = [\"turn_end\"]\ncommand = [\"sh\", \"{}\"]\n\
         [mcp.time]\ncommand = \"python3\"\nargs = [\"{}\"]\n",
        hook.display(),
        server.display()
    );
    fs::write(fixture.folder().join("config.toml"), config).unwrap();
    let ended = fixture.run(&["check"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for words in [
        format!("config: {}", fixture.folder().join("config.toml").display()),
        "context window 32768 tokens".to_owned(),
        "[channels.home] `token` does not look like a token: @BotFather gives".to_owned(),
        "[channels.crew] `token` does not look like a token: Discord's has three parts".to_owned(),
        format!(
            "[hooks.tell]: it is not started, because tools or commands could change what it runs: {}.",
            hook.display()
        ),
        format!(
            "The MCP server time: it is not started, because tools or commands could change what it runs: {}.",
            server.display()
        ),
    ] {
        assert!(ended.out.contains(&words), "{words}: {ended:?}");
    }
    assert!(!ended.out.contains("not-a-token"), "{ended:?}");
}

#[tokio::test]
async fn first_successes_are_logged_without_texts() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    until("the channel in the log", async || {
        let log = daemon.log();
        log.lines()
            .any(|line| line.contains("The channel is up") && line.contains("home"))
            .then_some(())
    })
    .await;
    let up = daemon.log();
    let up = up.lines().find(|line| line.contains("The channel is up") && line.contains("home"));
    assert!(up.is_some_and(|line| line.contains("about=")), "{}", daemon.log());
    fixture.run(&["chat", "-m", "a secret plan"]).await;
    until("the turn in the log", async || daemon.log().contains("A turn has ended").then_some(()))
        .await;
    let log = daemon.log();
    let turn = log.lines().find(|line| line.contains("A turn has ended")).unwrap();
    for field in ["ms=", "steps=1", "tokens_in=", "tokens_out=1", "of=terminal:main"] {
        assert!(turn.contains(field), "{field}: {turn}");
    }
    assert!(!log.contains("secret plan"), "{log}");
}

#[tokio::test]
async fn rehearsal_shows_the_result_of_every_step() {
    let fixture = ProgramFixture::new(&home_at("http://127.0.0.1:9", TOKEN));
    let steps =
        "write peas to a.md then read a.md then append beans to a.md then read a.md then wait 1";
    let ended = fixture.run(&["chat", "-m", steps]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out.matches("peas").count(), 2, "{ended:?}");
    assert!(ended.out.contains("beans") && ended.out.contains("seconds have passed"), "{ended:?}");
}

#[test]
fn commands_of_a_chat_are_named_as_a_shell_knows_them() {
    for (words, shown) in [
        ("/pair list shows them.", "peacrab pair list shows them."),
        ("Run `peacrab reload`.", "Run `peacrab reload`."),
        ("There is none. /people lists them.", "There is none. peacrab people lists them."),
        (
            "To change one: /budget set (/people).",
            "To change one: peacrab budget set (peacrab people).",
        ),
        ("`/usage`\n/heartbeat", "`peacrab usage`\npeacrab heartbeat"),
        ("/jobs resume 1", "peacrab cron resume 1"),
        // Paths, other commands, and words that only look like it.
        ("/home/pair and a/people, /peoples, //pair", "/home/pair and a/people, /peoples, //pair"),
        ("/restart or /", "/restart or /"),
        ("", ""),
    ] {
        assert_eq!(in_shell(words, "peacrab"), shown);
    }
}

#[test]
fn commands_are_named_as_they_reach_a_home() {
    let program = "/opt/peacrab --home /srv/b";
    for (words, shown) in [
        ("Run `peacrab reload`, or `peacrab check`.", "Run `P reload`, or `P check`."),
        (
            "`peacrab --home /x run` and `systemctl start peacrab`",
            "`peacrab --home /x run` and `systemctl start peacrab`",
        ),
        ("The bot is peacrab here.", "The bot is peacrab here."),
        ("", ""),
    ] {
        let shown = shown.replace("`P ", "`/opt/peacrab --home /srv/b ");
        assert_eq!(with_program(words, program), shown);
        assert_eq!(in_shell(words, program), shown);
    }
    assert_eq!(
        in_shell("`/people` lists them.", program),
        format!("`{program} people` lists them.")
    );
}

#[tokio::test]
async fn people_budgets_and_usage_are_shown_and_changed_from_the_command_line() {
    let fixture = ProgramFixture::new(&home_at("http://127.0.0.1:9", TOKEN));
    fixture.run(&["chat", "-m", "hello"]).await;
    let done = async |args: &[&str]| {
        let ended = fixture.run(args).await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
        ended.out
    };
    let failed = async |args: &[&str], code: i32, words: &str| {
        let ended = fixture.run(args).await;
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        assert!(ended.err.contains(words), "{args:?}: {ended:?}");
    };
    for with_daemon in [false, true] {
        let daemon = match with_daemon {
            true => Some(fixture.daemon().await),
            false => None,
        };
        let listed = done(&["people"]).await;
        assert!(listed.contains(": owner, by the config, seen today"), "{listed}");
        let number = listed.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
        let people: Value = serde_json::from_str(&done(&["people", "--json"]).await).unwrap();
        let person = &people[0]["person"];
        assert_eq!((&person["role"], &person["role_from"]), (&json!("owner"), &json!("config")));
        assert_eq!(person["accounts"][0]["channel"], "terminal");
        assert!(done(&["people", &number]).await.contains("Role: owner, by the config"));
        failed(&["people", "block", &number], 1, "is named in the config file").await;
        failed(&["people", "remove", "p99", "--purge"], 1, " people lists them").await;
        // The daemon that answers need not have the config of this command line.
        let program =
            format!("{} --home {}", env!("CARGO_BIN_EXE_peacrab"), fixture.home().display());
        let use_it = format!("Use {program} ");
        failed(&["people", "promote", &number], 2, &use_it).await;
        failed(&["people", "p1", "p2", "p3", "p4"], 2, &use_it).await;
        failed(&["people", "--purge"], 2, "required").await;
        let set = done(&["budget", "set", "guest", "20000", "month"]).await;
        assert!(set.contains("20,000 tokens for a month"), "{set}");
        assert!(done(&["budget"]).await.contains("Each guest: 20,000 tokens a month"));
        assert!(done(&["budget", "reset", "guest"]).await.contains("follows the config again"));
        let to_change = format!("To change one: {program} ");
        for words in [&["set", "guest", "lots", "month"] as &[&str], &["set"], &["x"]] {
            failed(&[&["budget"] as &[&str], words].concat(), 2, &to_change).await;
        }
        for by in ["person", "persona", "model", "provider", "day", "cause"] {
            let csv = done(&["usage", "--by", by, "--csv"]).await;
            let lines: Vec<_> = csv.lines().collect();
            assert_eq!(lines.len(), 2, "{by}: {csv}");
            assert_eq!(lines[0].split(',').count(), lines[1].split(',').count(), "{by}: {csv}");
            let json: Value =
                serde_json::from_str(&done(&["usage", "--by", by, "--json"]).await).unwrap();
            assert_eq!(json["sums"][0]["calls"], 1, "{by}: {json}");
            assert!(!done(&["usage", "--by", by]).await.is_empty(), "{by}");
        }
        assert_eq!(done(&["usage", "--by", "job", "--csv"]).await.lines().count(), 1);
        failed(&["usage", "--by", "moon"], 2, "moon").await;
        if let Some(daemon) = daemon {
            daemon.terminate().await;
        }
    }
}
