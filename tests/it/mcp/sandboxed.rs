//! Servers in the sandbox, as they run by default: they see their own folder, and nothing of the home or of others.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use peacrab::config::{self, Environment};
use peacrab::tools::mcp::{Program, Via, WorkspaceAccess};
use serde_json::json;

use super::fake::sandboxed;
use super::{call, mcp_server, rig, server, trouble};
use crate::sandbox::degrade::{NO_LANDLOCK, without};
use crate::support::binary::{ProgramFixture, until};
use crate::support::rig::Rig;

const SECRET: &str = "the door code is 4711";

/// A daemon with a server that tries all that it is told to.
async fn curious(change: impl FnOnce(&mut Program)) -> Rig {
    let mut program = sandboxed("curious");
    change(&mut program);
    let rig = rig([("fake", server(Via::Program(Box::new(program))))]).await;
    fs::write(rig.workspace().join("MEMORY.md"), SECRET).unwrap();
    rig
}

async fn tried(rig: &mut Rig, act: &str, with: &str) -> String {
    call(rig, &format!("mcp_fake_{act}"), json!({ "text": with })).await
}

/// Whether a process with this argument runs on the machine.
fn runs(argument: &str) -> bool {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let mut lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()))
}

/// A number of seconds that no other process sleeps.
fn mark() -> String {
    format!("98765.{:012}", fastrand::u64(..1_000_000_000_000))
}

#[tokio::test]
async fn a_server_reads_no_memory_and_no_secrets_and_writes_nothing_of_others() {
    let mut rig = curious(|_| {}).await;
    let home = rig.path();
    fs::write(home.join("config.toml"), "# api_key = \"verborgen\"").unwrap();
    fs::create_dir_all(home.join("downloads")).unwrap();
    fs::create_dir_all(home.join("mcp/other")).unwrap();
    for path in ["workspace/MEMORY.md", "config.toml", "state.db", "mcp/other/token"] {
        let got = tried(&mut rig, "read", &home.join(path).display().to_string()).await;
        assert!(got.starts_with("failed: "), "{path}: {got}");
    }
    for folder in ["workspace", "downloads", "mcp/other", "."] {
        let file = home.join(folder).join("planted.md");
        // In a `/tmp` of its own it may write beside its folder, which nobody sees.
        let got = tried(&mut rig, "write", &file.display().to_string()).await;
        assert!(
            !file.exists() && (got.starts_with("failed: ") || folder == "."),
            "{folder}: {got}"
        );
    }
    assert_eq!(tried(&mut rig, "echo", "it serves").await, "it serves");
    rig.finish().await;
}

#[tokio::test]
async fn a_server_has_the_network_only_if_the_config_gives_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let mut rig = curious(|_| {}).await;
    let got = tried(&mut rig, "connect", &at).await;
    assert!(got.starts_with("failed: "), "{got}");
    rig.finish().await;
    let mut rig = curious(|program| program.sandbox.network = true).await;
    assert_eq!(tried(&mut rig, "connect", &at).await, "connected");
    let memory = rig.workspace().join("MEMORY.md");
    let got = tried(&mut rig, "read", &memory.display().to_string()).await;
    assert!(got.starts_with("failed: "), "{got}");
    rig.finish().await;
}

#[tokio::test]
async fn a_server_sees_the_workspace_as_far_as_the_config_says() {
    for (workspace, writes) in [(WorkspaceAccess::Read, false), (WorkspaceAccess::Write, true)] {
        let mut rig = curious(|program| program.workspace = workspace).await;
        let memory = rig.workspace().join("MEMORY.md");
        assert_eq!(tried(&mut rig, "read", &memory.display().to_string()).await, SECRET);
        let new = rig.workspace().join("new.md");
        let got = tried(&mut rig, "write", &new.display().to_string()).await;
        assert_eq!((got == "written", new.exists()), (writes, writes), "{got}");
        rig.finish().await;
    }
}

#[tokio::test]
async fn a_server_keeps_the_files_of_its_own_folder_over_restarts() {
    let mut rig = curious(|_| {}).await;
    // It begins there, and it is its home.
    assert_eq!(tried(&mut rig, "write", "token").await, "written");
    let folder = rig.path().canonicalize().unwrap().join("mcp/fake");
    let env = tried(&mut rig, "env", "").await;
    assert!(env.contains(&format!("HOME={}", folder.display())), "{env}");
    assert_eq!(fs::read_to_string(folder.join("token")).unwrap(), "by the server");
    rig.stop_and_start_again().await;
    assert_eq!(tried(&mut rig, "read", "token").await, "by the server");
    rig.finish().await;
}

#[tokio::test]
async fn a_server_that_ends_leaves_no_process() {
    let mut rig = curious(|_| {}).await;
    let (first, second) = (mark(), mark());
    assert_eq!(tried(&mut rig, "spawn", &first).await, "spawned");
    assert!(runs(&first));
    let died = tried(&mut rig, "die", "").await;
    assert!(died.contains("broke off"), "{died}");
    rig.wait_until(|_| !runs(&first)).await;
    assert_eq!(tried(&mut rig, "spawn", &second).await, "spawned");
    rig.stop().await;
    assert!(!runs(&second));
    rig.start().await;
    rig.finish().await;
}

#[tokio::test]
async fn a_server_ends_with_a_daemon_that_is_killed() {
    let mark = mark();
    let fixture = ProgramFixture::new(&format!(
        "[mcp.fake]\ncommand = \"sh\"\nargs = [\"-c\", \"setsid -f sleep {mark}; cat\"]\n"
    ));
    let daemon = fixture.daemon().await;
    until("the server's process", async || runs(&mark).then_some(())).await;
    daemon.kill().await;
    until("the end of the server's process", async || (!runs(&mark)).then_some(())).await;
}

#[tokio::test]
async fn a_full_folder_and_a_missing_program_are_explained() {
    let mut rig = curious(|program| program.sandbox.bounds.disk = 1_000_000).await;
    rig.wait_until(|rig| mcp_server(rig, "fake").up).await;
    fs::write(rig.path().join("mcp/fake/large"), vec![b'x'; 1_000_001]).unwrap();
    rig.stop_and_start_again().await;
    rig.wait_until(|rig| trouble(rig, "fake").contains("holds more than 1 MB")).await;
    rig.finish().await;

    let missing = Program { command: "no-such-program".to_owned(), ..sandboxed("good") };
    let mut rig = rig_of(missing).await;
    rig.wait_until(|rig| {
        let trouble = trouble(rig, "fake");
        trouble.contains("no-such-program")
            && trouble.contains("`network = true` gives it the network")
    })
    .await;
    rig.settled().await;
    rig.finish().await;
}

async fn rig_of(program: Program) -> Rig {
    rig([("fake", server(Via::Program(Box::new(program))))]).await
}

#[test]
fn without_landlock_a_server_does_not_start_and_says_how_it_could() {
    without(NO_LANDLOCK, async || {
        let rig = curious(|_| {}).await;
        rig.wait_until(|rig| {
            let trouble = trouble(rig, "fake");
            trouble.contains("it cannot be sandboxed here") && trouble.contains("sandbox = \"off\"")
        })
        .await;
        assert!(!mcp_server(&rig, "fake").up);
        rig.finish().await;
    });
}

#[tokio::test]
async fn a_server_that_would_see_the_home_or_a_secret_is_not_started() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    fs::create_dir_all(home.join("workspace")).unwrap();
    fs::write(folder.path().join("key"), "geheim").unwrap();
    let at = |path: &Path| path.display().to_string();
    let text = format!(
        "[providers.main]\ntype = \"anthropic\"\nmodel = \"m\"\napi_key = {{ file = {:?} }}\n\
         [mcp.home]\ncommand = \"cat\"\npaths = [{:?}]\n\
         [mcp.key]\ncommand = \"cat\"\npaths = [{:?}]\n\
         [mcp.config]\ncommand = \"cat\"\ncwd = \".\"\n\
         [mcp.open]\ncommand = \"cat\"\nsandbox = \"off\"\npaths = [{:?}]\n\
         [mcp.fine]\ncommand = \"cat\"\nargs = [{:?}]\n",
        at(&folder.path().join("key")),
        at(&home.join("workspace")),
        at(&folder.path().join("key")),
        at(&home),
        at(&folder.path().join("key")),
    );
    fs::write(home.join("config.toml"), text).unwrap();
    let env = Environment::from_iter([("PATH", "/usr/bin:/bin")]);
    let mut config = config::load(&home, None, &env).unwrap();
    let cautions = config.cautions(&home);
    let told = |name: &str, words: &str| {
        let begins = format!("The MCP server {name}: {words}");
        assert!(cautions.iter().any(|it| it.starts_with(&begins)), "{begins}: {cautions:?}");
    };
    told("home", "it is not started, because it could read Peacrab's home through ");
    told("key", "it is not started, because it could read the secrets in ");
    told("config", "it is not started, because it could read Peacrab's home through ");
    told("open", "runs without a sandbox, and can do everything that the daemon can");
    told("fine", "its sandbox does not show ");
    config.refuse_unsafe_programs(&home);
    let refused = config.mcp.iter().filter(|(_, server)| match &server.via {
        Via::Program(program) => program.refused.is_some(),
        Via::Http { .. } => false,
    });
    assert_eq!(
        refused.map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["config", "home", "key"]
    );

    let why = Some("it is not started, because it could read Peacrab's home through /".to_owned());
    let rig = rig_of(Program { refused: why, ..sandboxed("good") }).await;
    rig.wait_until(|rig| trouble(rig, "fake").contains("it is not started")).await;
    rig.finish().await;
}
