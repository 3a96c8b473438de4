//! A yes to a command covers the paths that it names, and not what a link puts into their place afterwards.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use peacrab::people::Role;
use peacrab::tools::shell::{self, Config, NetworkRule};
use peacrab::tools::{ToolContext, ToolError, ToolSet};
use peacrab::types::call_files::{CallFiles, SeenPath};
use peacrab::types::message::ChatKind;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::shell::config;
use crate::support::rig::{Rig, RigOptions};
use crate::support::script::{calls, says};
use crate::support::tool_context::tool_context;

fn tools(config: &Config) -> ToolSet {
    ToolSet::standard_with(shell::tools(config, &shell::check_sandbox(config)))
}

async fn rig() -> Rig {
    let config = Config { network: NetworkRule::On, ..config() };
    let rig = Rig::of(RigOptions { tools: tools(&config), ..RigOptions::default() }).await;
    for name in ["mine", "other"] {
        fs::create_dir_all(rig.workspace().join(name)).unwrap();
    }
    rig
}

fn point(link: &Path, to: &str) {
    fs::remove_file(link).ok();
    symlink(to, link).unwrap();
}

/// A command that the owner is asked about, as it has the network and this path of the workspace.
fn touches(path: &str) -> (&'static str, Value) {
    let command = "echo x > touched";
    ("exec", json!({"command": command, "network": true, "paths": [path], "cwd": path}))
}

#[tokio::test]
async fn a_command_is_asked_about_again_if_a_path_leads_elsewhere_by_then() {
    let mut rig = rig().await;
    let link = rig.workspace().join("project");
    let touched = |rig: &Rig, name: &str| rig.workspace().join(name).join("touched").exists();
    point(&link, "mine");
    rig.model.on("touch", [calls(&[touches("project")]), says("Touched.")]);
    let question = rig.ask("1", "touch it").await;
    assert!(question.contains("project leads to mine"), "{question}");
    point(&link, "other");
    rig.say("1", "/approve 1");
    let heard = rig.next_messages("1", 3).await;
    let again = heard.iter().find(|text| text.contains("asking again because"));
    let again = again.expect("a question");
    assert!(again.contains("project leads to other"), "{again}");
    assert!(!touched(&rig, "mine") && !touched(&rig, "other"));
    rig.stop_and_start_again().await;
    rig.say("1", "/approve 2");
    rig.wait_until(|rig| touched(rig, "other")).await;
    assert!(!touched(&rig, "mine"));
    rig.stop().await;
}

#[tokio::test]
async fn a_command_does_not_begin_if_a_path_leads_elsewhere_at_the_last_moment() {
    let tools = tools(&config());
    let (cx, _home) = tool_context(Role::Owner, ChatKind::Private);
    let (exec, _) = tools.authorise("exec", cx.role).unwrap();
    let link = cx.workspace.root().join("project");
    for name in ["mine", "other"] {
        fs::create_dir_all(cx.workspace.root().join(name)).unwrap();
    }
    point(&link, "mine");
    let arguments = json!({"command": "true", "untrusted": true, "paths": ["project"]}).to_string();
    let approved_files = exec.call_files_json(&arguments, &cx).await.unwrap();
    assert!(approved_files.is_some());
    let cx = ToolContext { approved_files, ..cx };
    point(&link, "other");
    match exec.call_json(&arguments, &cx).await.unwrap_err() {
        ToolError::TellModel(words) => assert!(words.contains("leads elsewhere"), "{words}"),
        error => panic!("{error:?}"),
    }
    point(&link, "mine");
    exec.call_json(&arguments, &cx).await.unwrap();
}

#[tokio::test]
async fn a_command_with_the_paths_that_were_asked_about_runs() {
    let mut rig = rig().await;
    rig.model.on("touch", [calls(&[touches("mine")]), says("Touched.")]);
    let question = rig.ask("1", "touch it").await;
    assert!(question.contains("Approve?") && !question.contains("leads to"), "{question}");
    rig.say("1", "/approve 1");
    let heard = rig.next_messages("1", 4).await;
    assert!(heard.contains(&"Touched.".to_owned()), "{heard:?}");
    assert!(rig.workspace().join("mine/touched").exists());
    rig.finish().await;
}

#[tokio::test]
async fn nobody_is_asked_about_a_command_whose_path_is_not_there() {
    let mut rig = rig().await;
    rig.model.on("touch", [calls(&[touches("gone")]), says("It is not there.")]);
    assert_eq!(rig.ask("1", "touch it").await, "It is not there.");
    let told = rig.model.last().transcript();
    assert!(told.contains("There is no `gone`"), "{told}");
    assert_eq!(rig.query("SELECT state FROM asks"), Vec::<String>::new());
    rig.finish().await;
}

#[tokio::test]
async fn a_folder_of_the_config_that_is_a_link_is_known_by_where_it_leads() {
    let folder = TempDir::new().unwrap();
    let home = folder.path().canonicalize().unwrap();
    for name in ["one", "two"] {
        fs::create_dir(home.join(name)).unwrap();
    }
    let link = home.join("photos");
    point(&link, "one");
    let mut config = config();
    config.sandbox.write = vec![link.clone()];
    let tools = tools(&config);
    let (cx, _home) = tool_context(Role::Owner, ChatKind::Private);
    let (exec, _) = tools.authorise("exec", cx.role).unwrap();
    let arguments = json!({"command": "true", "untrusted": true, "paths": [link]}).to_string();
    for name in ["one", "two"] {
        point(&link, name);
        let seen = exec.call_files_json(&arguments, &cx).await.unwrap();
        let path = link.display().to_string();
        let leads_to = home.join(name).display().to_string();
        assert_eq!(seen, Some(CallFiles::Sees(vec![SeenPath { path, leads_to }])));
    }
    let none = json!({"command": "true", "untrusted": true}).to_string();
    assert_eq!(exec.call_files_json(&none, &cx).await.unwrap(), None);
}
