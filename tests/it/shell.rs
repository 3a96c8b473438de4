//! The shell as a model uses it: `exec` and `process`, who may, what of the workspace, and how long.

mod access;
mod background;
mod home;
mod more_paths;
mod others;
mod rules;
mod daemon;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use peacrab::config::AgentConfig;
use peacrab::conversation::asks::{ApprovalSettings, Approvals};
use peacrab::people::Role;
use peacrab::people::folder_roles::FolderRoles;
use peacrab::replies;
use peacrab::sandbox::{SandboxLevel, SandboxState};
use peacrab::tools::shell::{self, Config};
use peacrab::tools::{Caller, Reach, ToolContext, ToolError, ToolSet};
use peacrab::trust::acts::CommandAccess;
use peacrab::types::message::ChatKind;
use peacrab::types::session::Finish;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::sandbox;
use crate::support::rig::{Rig, RigOptions, USER};
use crate::support::script::{calls, says};
use crate::support::tool_context::{is_untrusted, text_of, tool_context};

pub(crate) fn config() -> Config {
    Config {
        enabled: true,
        role: Role::Admin,
        network: shell::NetworkRule::Off,
        sandbox: sandbox::sandbox(),
        time_max: Duration::from_secs(60),
        background_max: Duration::from_secs(120),
        trusted: Vec::new(),
        folder_roles: FolderRoles::default(),
    }
}

/// The tools of a daemon with a shell.
fn tools(config: &Config) -> ToolSet {
    ToolSet::standard_with(shell::tools(config, &shell::check_sandbox(config)))
}

/// Somebody who calls the shell's tools.
struct ShellFixture {
    tools: ToolSet,
    cx: ToolContext,
    _folder: Arc<TempDir>,
}

impl ShellFixture {
    fn new() -> Self {
        Self::with(&config(), Role::Owner, ChatKind::Private)
    }

    fn with(config: &Config, role: Role, place: ChatKind) -> Self {
        let (cx, folder) = tool_context(role, place);
        Self { tools: tools(config), cx, _folder: Arc::new(folder) }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<String, String> {
        let (tool, _) = self.tools.authorise(tool, self.cx.role)?;
        match tool.call_json(&arguments.to_string(), &self.cx).await {
            Ok(output) => Ok(text_of(output)),
            Err(
                ToolError::TellModel(words)
                | ToolError::Transient(words)
                | ToolError::TellUntrusted(_, words),
            ) => Err(words),
            Err(ToolError::Abort(error)) => panic!("the turn was aborted: {error}"),
        }
    }

    /// What a command has said, below the line that says how it ended.
    async fn exec(&self, command: &str) -> (String, String) {
        let said = self.call("exec", json!({"command": command})).await.unwrap();
        let (how, out) = said.split_once('\n').unwrap();
        let how = how.split_once(" after ").map_or(how, |(how, _)| how);
        (how.trim_start_matches('[').to_owned(), out.to_owned())
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.cx.workspace.root().join(name)).unwrap()
    }

    fn exists(&self, name: &str) -> bool {
        self.cx.workspace.root().join(name).exists()
    }
}

fn said(how: &str, out: &str) -> (String, String) {
    (how.to_owned(), out.to_owned())
}

#[tokio::test]
async fn a_command_says_how_it_ended_and_what_it_wrote() {
    let fixture = ShellFixture::new();
    assert_eq!(fixture.exec("echo hello").await, said("exit code 0", "hello"));
    assert_eq!(
        fixture.exec("echo out; echo err >&2; exit 3").await,
        said("exit code 3", "out\nerr")
    );
    assert_eq!(fixture.exec("true").await, said("exit code 0", "(no output)"));
    assert_eq!(fixture.exec("kill -9 $$").await, said("ended by signal 9", "(no output)"));
    assert_eq!(fixture.exec("echo hi > made.md; cat made.md").await.1, "hi");
    assert_eq!(fixture.read("made.md"), "hi\n");
    let fed = json!({"command": "tr a-z A-Z", "stdin": "loud"});
    assert!(fixture.call("exec", fed).await.unwrap().ends_with("\nLOUD"));
    let there = json!({"command": "pwd | grep -o '[^/]*$'; ls", "cwd": "./memory/"});
    let there = fixture.call("exec", there).await.unwrap();
    assert!(there.contains("\nmemory\n") && there.contains("MEMORY.md"), "{there}");
    let terminal = json!({"command": "test -t 1 && printf '\\033[31mred\\033[0m'", "pty": true});
    assert!(fixture.call("exec", terminal).await.unwrap().ends_with("\nred"));
}

#[tokio::test]
async fn a_command_that_cannot_be_is_refused_in_words() {
    let fixture = ShellFixture::new();
    for (wrong, words) in [
        (json!({"command": " "}), "is empty"),
        (json!({"command": "x".repeat(100_001)}), "at most 100000 bytes"),
        (json!({"command": "true", "cwd": "nowhere"}), "There is no `nowhere`"),
        (json!({"command": "true", "cwd": "../.."}), "climbs"),
        (json!({"command": "true", "cwd": "AGENTS.md"}), "is not a folder"),
        (json!({"command": "true", "timeout": 61}), "at most 60 seconds; longer ones go in"),
        (json!({"command": "true", "timeout": 999, "background": true}), "at most 120 seconds."),
        (json!({"cmd": "true"}), "there is no `cmd`"),
    ] {
        let refused = fixture.call("exec", wrong).await.unwrap_err();
        assert!(refused.contains(words), "{refused}");
    }
}

#[tokio::test]
async fn a_command_ends_at_the_time_that_the_call_or_the_config_says() {
    let fixture = ShellFixture::new();
    let began = Instant::now();
    let slow =
        fixture.call("exec", json!({"command": "echo begun; sleep 100", "timeout": 1})).await;
    let slow = slow.unwrap();
    assert!(slow.starts_with("[killed: it took longer than 1.0 s after"), "{slow}");
    assert!(slow.ends_with("\nbegun") && began.elapsed() < Duration::from_secs(30));
    let config = Config { time_max: Duration::from_secs(1), ..config() };
    let fixture = ShellFixture::with(&config, Role::Owner, ChatKind::Private);
    assert_eq!(fixture.exec("sleep 100").await.0, "killed: it took longer than 1.0 s");
}

#[tokio::test]
async fn long_output_is_shown_in_part_and_kept_whole_in_a_file() {
    let fixture = ShellFixture::new();
    let (how, out) = fixture.exec("seq 1 100000").await;
    assert_eq!(how, "exit code 0");
    assert!(out.starts_with("1\n2\n3\n") && out.ends_with("\n99999\n100000"), "{out}");
    assert!(out.chars().count() < peacrab::tools::RESULT_CHARS_MAX);
    let path = out.split("the whole is in ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(path.starts_with("outputs/2026-07/17-090500-"), "{path}");
    let whole: String = (1..=100_000).map(|line| format!("{line}\n")).collect();
    assert_eq!(fixture.read(path), whole);

    let (_, out) = fixture.exec("head -c 5M /dev/zero | tr '\\0' x").await;
    assert!(out.contains("5242880 bytes in all; its first megabyte is in outputs/"), "{out}");
    let (_, out) = fixture.exec("head -c 100000 /bin/sh").await;
    assert!(out.starts_with("[100000 bytes that are not text; the whole is in outputs/"), "{out}");
    assert!(out.ends_with(".bin]"), "{out}");
}

#[tokio::test]
async fn others_than_the_owner_in_private_have_a_folder_of_their_own() {
    for (role, place) in [(Role::Admin, ChatKind::Private), (Role::Owner, ChatKind::Group)] {
        let mut fixture = ShellFixture::with(&config(), role, place);
        fs::write(fixture.cx.workspace.root().join("memory/MEMORY.md"), "the owner's secret")
            .unwrap();
        let commands = "cat memory/MEMORY.md ../memory/MEMORY.md ../USER.md; echo x >> ../AGENTS.md; \
                        ls ..; rm -rf ../skills; ln -s ../memory m; cat m/MEMORY.md; echo own > file; pwd";
        let (_, out) = fixture.exec(&format!("({commands}) 2>/dev/null")).await;
        let own = fixture.cx.scope().root().unwrap();
        assert!(!out.contains("secret") && out.ends_with(own.as_str()), "{out}");
        assert!(fixture.exists("skills") && !fixture.read("AGENTS.md").ends_with("x\n"));
        assert_eq!(fixture.read(&format!("../{own}/file")), "own\n");
        fixture.exec("mkdir below; echo own > below/file").await;
        let inside = json!({"command": "cat file", "cwd": "below"});
        assert!(fixture.call("exec", inside).await.unwrap().contains("\nown"));
        for outside in ["memory", "shared"] {
            let outside = json!({"command": "true", "cwd": outside});
            assert!(fixture.call("exec", outside).await.is_err());
        }
        // The link that was planted leads nowhere either.
        let planted = json!({"command": "true", "cwd": "m"});
        assert!(fixture.call("exec", planted).await.is_err());
        // What they write at length is for those who may read the folder.
        let (_, out) = fixture.exec("seq 1 100000").await;
        assert!(out.contains(&format!("the whole is in {own}/outputs/")), "{out}");
        // And what came here can be read here.
        let inbox = fixture.cx.workspace.root().join("inbox/2026-07");
        fs::create_dir_all(&inbox).unwrap();
        fs::write(inbox.join("1-0-mine.csv"), "mine").unwrap();
        fs::write(inbox.join("2-0-other.csv"), "secret").unwrap();
        fixture.cx.arrived_here = ["inbox/2026-07/1-0-mine.csv".to_owned()].into();
        let inbox = inbox.canonicalize().unwrap();
        let reads = format!("cat {}/*.csv; true", inbox.display());
        let untrusted = json!({"command": reads, "untrusted": true});
        let out = fixture.call("exec", untrusted).await.unwrap();
        assert!(out.contains("mine") && !out.contains("secret"), "{out}");
        // Not beside files of their own, which are trusted.
        let (_, out) = fixture.exec(&reads).await;
        assert_eq!(out.contains("mine"), place == ChatKind::Group, "{out}");
        assert!(!out.contains("secret"), "{out}");
    }
}

#[tokio::test]
async fn what_is_not_sandboxed_is_for_the_owner_in_private() {
    let mut config = config();
    config.sandbox.level = SandboxLevel::Off;
    let fixture = ShellFixture::with(&config, Role::Admin, ChatKind::Private);
    let refused = fixture.call("exec", json!({"command": "true"})).await.unwrap_err();
    assert!(refused.contains("for the owner in private"), "{refused}");
    assert_eq!(
        ShellFixture::with(&config, Role::Owner, ChatKind::Private).exec("echo x").await.1,
        "x"
    );
}

#[test]
fn a_command_is_not_run_with_less_of_a_cage_than_the_start_found() {
    let fixture = ShellFixture::new();
    sandbox::without(sandbox::NO_NAMESPACES, async move || {
        let refused = fixture.call("exec", json!({"command": "echo x > made"})).await.unwrap_err();
        assert!(refused.contains("was not started: its sandbox would be weaker"), "{refused}");
        let background = json!({"command": "echo x > made", "background": true});
        let said = fixture.call("exec", background).await.unwrap();
        assert!(said.contains("not started: its sandbox would be weaker"), "{said}");
        assert!(!fixture.exists("made"));
    });
}

#[tokio::test]
async fn what_cannot_be_written_as_the_config_says_is_not_offered() {
    let mut config = config();
    config.sandbox.write.push("/nowhere/photos".into());
    assert!(shell::tools(&config, &shell::check_sandbox(&config)).is_empty());
    assert!(shell::check_sandbox(&config).describe().contains("/nowhere/photos"));
}

#[test]
fn the_shell_is_for_admins_or_whom_the_config_names() {
    let offered = |config: &Config, role| {
        let tools = tools(config);
        let names: Vec<_> = tools
            .offered(Caller::Conversation(Finish::Answer), role)
            .into_iter()
            .map(|tool| tool.name)
            .collect();
        ["exec", "process"].map(|name| names.iter().any(|one| one == name))
    };
    let usual = config();
    assert_eq!(offered(&usual, Role::User), [false, false]);
    assert_eq!(offered(&usual, Role::Admin), [true, true]);
    assert_eq!(offered(&Config { role: Role::User, ..config() }, Role::User), [true, true]);
    assert_eq!(offered(&Config { role: Role::User, ..config() }, Role::Guest), [false, false]);
    assert_eq!(offered(&Config { role: Role::Owner, ..config() }, Role::Admin), [false, false]);
    assert_eq!(offered(&Config { enabled: false, ..config() }, Role::Owner), [false, false]);
    let refused = tools(&usual).authorise("exec", Role::User).err().unwrap();
    assert!(refused.contains("needs the role admin"), "{refused}");
    assert_eq!(shell::check_sandbox(&Config { enabled: false, ..config() }), SandboxState::Off);
}

#[test]
fn models_are_told_of_the_shell_in_few_words() {
    let all = tools(&config()).offered(Caller::Conversation(Finish::Answer), Role::Owner);
    let shell: Vec<_> = all.iter().filter(|it| it.name == "exec" || it.name == "process").collect();
    let shown: Vec<String> = shell
        .iter()
        .map(|it| {
            json!({"name": it.name, "description": it.description, "parameters": it.parameters})
                .to_string()
        })
        .collect();
    assert!(shown.iter().all(|one| one.chars().count() <= 480), "{shown:?}");
    insta::assert_snapshot!(shown.join("\n\n"), @r#"
    {"name":"exec","description":"Run a shell command in the sandbox.","parameters":{"type":"object","properties":{"command":{"type":"string"},"cwd":{"type":"string"},"timeout":{"type":"integer","description":"Seconds."},"background":{"type":"boolean"},"stdin":{"type":"string"},"pty":{"type":"boolean"},"untrusted":{"type":"boolean","description":"In downloads/, and paths."},"paths":{"type":"array","items":{"type":"string"}}},"required":["command"]}}

    {"name":"process","description":"Background commands; poll: new output.","parameters":{"type":"object","properties":{"action":{"type":"string","enum":["list","poll","write","kill"]},"id":{"type":"string"},"text":{"type":"string","description":"To write, with its line end."}},"required":["action"]}}
    "#);
}

#[tokio::test]
async fn what_strangers_wrote_is_marked_and_running_it_is_far_reaching() {
    let with_network = Config { network: shell::NetworkRule::On, ..config() };
    let (usual, far) =
        (ShellFixture::new(), ShellFixture::with(&with_network, Role::Owner, ChatKind::Private));
    for (fixture, command, network, foreign) in [
        (&usual, "echo mine", false, false),
        (&usual, "cat inbox/2026-07/*", false, true),
        (&usual, "cd Inbox; ls", false, true),
        (&far, "echo mine", true, true),
    ] {
        let (tool, _) = fixture.tools.authorise("exec", Role::Owner).unwrap();
        let call = json!({"command": command, "network": network}).to_string();
        let access = if network { CommandAccess::Network } else { CommandAccess::Workspace };
        assert_eq!(tool.call_terms(&call, &fixture.cx.address).reach, Reach::Command(access));
        let output = tool.call_json(&call, &fixture.cx).await.unwrap();
        assert_eq!(is_untrusted(&output, &fixture.cx), foreign, "{command}");
    }
    let (process, _) = usual.tools.authorise("process", Role::Owner).unwrap();
    for (action, reach) in
        [("list", Reach::Here), ("kill", Reach::Here), ("write", Reach::RunningCommand)]
    {
        let call = json!({"action": action}).to_string();
        assert_eq!(process.call_terms(&call, &usual.cx.address).reach, reach);
    }
}

#[tokio::test]
async fn stopping_a_turn_ends_its_command() {
    let tools = tools(&config());
    let mut rig = Rig::of(RigOptions { tools, ..RigOptions::default() }).await;
    let command = "(while :; do date +%s%N > beat; sleep 0.02; done) & sleep 100";
    rig.model.on("run", [calls(&[("exec", json!({"command": command}))])]);
    rig.say("1", "run it");
    let heartbeat_run = rig.workspace().join("beat");
    rig.wait_until(|_| heartbeat_run.exists()).await;
    // The answer comes before the command's time is over, which is longer than a test waits for words.
    rig.ask("1", "/stop").await;
    let mut same = 0;
    for _ in 0..100 {
        let before = fs::read(&heartbeat_run).unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        same = if fs::read(&heartbeat_run).unwrap() == before { same + 1 } else { 0 };
        if same == 3 {
            break;
        }
    }
    assert_eq!(same, 3, "it goes on");
    rig.finish().await;
}

#[tokio::test]
async fn a_command_waits_for_approval_where_the_config_says_so() {
    let approvals = Approvals { tools: vec!["exec".to_owned()], roles: Vec::new() };
    let asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
    let agent = AgentConfig { asking, ..AgentConfig::default() };
    let mut rig =
        Rig::of(RigOptions { tools: tools(&config()), agent, ..RigOptions::default() }).await;
    rig.model.on("run", [calls(&[("exec", json!({"command": "echo ran > it"}))]), says("Done.")]);
    let question = rig.ask("1", "run it").await;
    assert!(question.contains("echo ran"), "{question}");
    assert!(!rig.workspace().join("it").exists());
    let id = rig.query("SELECT CAST(id AS TEXT) FROM asks WHERE state = 'open'").remove(0);
    rig.say("1", &format!("/approve {id}"));
    rig.wait_until(|rig| rig.workspace().join("it").exists()).await;
}

/// A folder of a user, who has spoken once.
async fn make_project(rig: &mut Rig) {
    rig.say_as(USER, "5", "hello");
    rig.next_message("5").await;
    let project = rig.path().join(rig.files_of(USER).root().unwrap()).join("project");
    fs::create_dir_all(project).unwrap();
}

#[tokio::test]
async fn who_may_run_commands_decides_about_their_own_paths_with_the_network() {
    let config = Config { network: shell::NetworkRule::On, role: Role::User, ..config() };
    let mut rig = Rig::of(RigOptions { tools: tools(&config), ..RigOptions::default() }).await;
    make_project(&mut rig).await;
    let both = json!({"command": "pwd", "network": true, "paths": ["project"]});
    for yes in [true, false] {
        rig.model.on("pull", [calls(&[("exec", both.clone())]), says("Pulled.")]);
        rig.say_as(USER, "5", "pull my project");
        let question = rig.next_message("5").await;
        assert!(question.contains("project") && question.contains("network"), "{question}");
        // The owner neither sees it nor can allow it.
        assert!(rig.unread("1").is_empty());
        let number = question.split("/approve ").nth(1).unwrap();
        let number = number.split(|sign: char| !sign.is_ascii_digit()).next().unwrap();
        let said = rig.ask("1", &format!("/approve {number}")).await;
        assert_eq!(said, replies::CALL_FOR_ITS_PERSON);
        rig.say_as(USER, "5", &format!("/{} {number}", if yes { "approve" } else { "deny" }));
        while rig.next_message("5").await != "Pulled." {}
    }
    rig.finish().await;
    // What the config has asked about is the owner's, as before.
    let asking = ApprovalSettings {
        approvals: Approvals { tools: vec!["exec".to_owned()], ..Approvals::default() },
        ..ApprovalSettings::default()
    };
    let agent = AgentConfig { asking, ..AgentConfig::default() };
    let mut rig =
        Rig::of(RigOptions { tools: tools(&config), agent, ..RigOptions::default() }).await;
    rig.ask("1", "hello").await;
    make_project(&mut rig).await;
    rig.model.on("pull", [calls(&[("exec", both)]), says("No.")]);
    rig.say_as(USER, "5", "pull my project");
    let question = rig.next_message("1").await;
    assert!(question.contains("Approve?"), "{question}");
}
