//! What commands see: private data or an outlet, never both unasked.

use std::fs;

use peacrab::people::Role;
use peacrab::replies;
use peacrab::tools::shell::{self, Config, NetworkRule};
use peacrab::tools::{Reach, ToolContext, ToolSet};
use peacrab::trust::acts::CommandAccess;
use peacrab::types::message::ChatKind;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::shell::config;
use crate::support::rig::{Rig, RigOptions};
use crate::support::script::{calls, says};
use crate::support::tool_context::{is_untrusted, text_of, tool_context};

struct Scene {
    tools: ToolSet,
    cx: ToolContext,
    _home: TempDir,
}

impl Scene {
    fn of(config: &Config, role: Role, place: ChatKind) -> Self {
        let (cx, home) = tool_context(role, place);
        let root = cx.workspace.root().to_owned();
        for (name, text) in [
            ("notes.md", "the plan"),
            ("project/a.txt", "the source"),
            ("memory/MEMORY.md", "the memory"),
            ("../downloads/page.txt", "the page"),
            ("../shared/all.txt", "for all"),
        ] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), text).unwrap();
        }
        let tools = ToolSet::standard_with(shell::tools(config, &shell::check_sandbox(config)));
        Self { tools, cx, _home: home }
    }

    fn owner() -> Self {
        Self::of(&with(NetworkRule::On), Role::Owner, ChatKind::Private)
    }

    /// What a command says, and if that is untrusted.
    async fn exec(&self, arguments: Value) -> Result<(String, bool), String> {
        let (tool, _) = self.tools.authorise("exec", self.cx.role)?;
        match tool.call_json(&arguments.to_string(), &self.cx).await {
            Ok(output) => {
                let is_untrusted = is_untrusted(&output, &self.cx);
                Ok((text_of(output), is_untrusted))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn reach(&self, arguments: &Value) -> Reach {
        let (tool, _) = self.tools.authorise("exec", self.cx.role).unwrap();
        tool.call_terms(&arguments.to_string(), &self.cx.address).reach
    }
}

fn with(network: NetworkRule) -> Config {
    Config { network, ..config() }
}

/// Reads everything that there might be, wherever the command begins.
const READS_ALL: &str =
    "cat ../*/notes.md ../*/page.txt ../*/all.txt ../*/memory/* ../*/*/a.txt 2>/dev/null; true";

#[tokio::test]
async fn a_command_sees_the_workspace_or_the_downloads() {
    let scene = Scene::owner();
    let root = scene.cx.workspace.root().canonicalize().unwrap();
    let home = root.parent().unwrap().display().to_string();
    let all = READS_ALL.replace("../*/", &format!("{home}/*/"));
    // Without their names: a pattern cannot be expanded where folders cannot be listed.
    let each =
        "cat HOME/workspace/notes.md HOME/workspace/memory/MEMORY.md HOME/downloads/page.txt \
                HOME/shared/all.txt HOME/workspace/project/a.txt 2>/dev/null; true"
            .replace("HOME", &home);
    for command in [&all, &each] {
        let (clean, foreign) = scene.exec(json!({"command": command})).await.unwrap();
        assert!(clean.contains("the plan") && clean.contains("the memory"), "{clean}");
        assert!(!clean.contains("the page") && !clean.contains("for all") && !foreign, "{clean}");
        for arguments in
            [json!({"untrusted": true}), json!({"network": true}), json!({"cwd": "downloads"})]
        {
            let mut arguments = arguments;
            arguments["command"] = json!(command);
            let (untrusted, foreign) = scene.exec(arguments).await.unwrap();
            assert!(untrusted.contains("the page") && foreign, "{untrusted}");
            for hidden in ["the plan", "the memory", "for all", "the source"] {
                assert!(!untrusted.contains(hidden), "{untrusted}");
            }
        }
    }
}

#[tokio::test]
async fn named_paths_are_read_only_and_never_the_memory() {
    let scene = Scene::owner();
    let command = "cat ../workspace/project/a.txt; echo x >> ../workspace/project/a.txt; echo y > ../shared/new";
    let call = json!({"command": command, "untrusted": true, "paths": ["project", "shared"]});
    let (said, foreign) = scene.exec(call).await.unwrap();
    assert!(said.contains("the source") && foreign, "{said}");
    let root = scene.cx.workspace.root();
    assert_eq!(fs::read_to_string(root.join("project/a.txt")).unwrap(), "the source");
    assert_eq!(fs::read_to_string(root.join("../shared/new")).unwrap(), "y\n");
    for hidden in ["memory", "memory/MEMORY.md", "USER.md", "notes", "people/p1"] {
        let call = json!({"command": "true", "untrusted": true, "paths": [hidden]});
        assert!(scene.exec(call).await.is_err(), "{hidden}");
    }
    for hidden in ["AGENTS.md", "skills"] {
        let call = json!({"command": "true", "network": true, "paths": [hidden]});
        assert!(scene.exec(call).await.is_err(), "{hidden}");
    }
    // `git pull` changes the folder that it names.
    let call = json!({
        "command": "echo x >> a.txt", "network": true, "paths": ["project"], "cwd": "project"
    });
    scene.exec(call).await.unwrap();
    assert_eq!(fs::read_to_string(root.join("project/a.txt")).unwrap(), "the sourcex\n");
}

#[tokio::test]
async fn nobodys_memory_is_named_by_a_command_nor_a_link_to_it() {
    for role in [Role::Owner, Role::Admin] {
        let scene = Scene::of(&with(NetworkRule::On), role, ChatKind::Private);
        let root = scene.cx.workspace.root().join("..");
        let root = root.join(match scene.cx.scope().root() {
            Some(own) => own.as_str().to_owned(),
            None => "workspace".to_owned(),
        });
        for name in ["memory/MEMORY.md", "notes/day.md", "USER.md", "AGENTS.md", "project/a.txt"] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "hidden words").unwrap();
        }
        for (link, target) in [("x", "memory"), ("y.md", "USER.md"), ("z", "notes/day.md")] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        std::os::unix::fs::symlink("../AGENTS.md", root.join("project/rules.md")).unwrap();
        // Nor is a link in the downloads a way into the workspace.
        let downloads = root.join("../downloads");
        fs::create_dir_all(&downloads).unwrap();
        std::os::unix::fs::symlink("../workspace/project", downloads.join("l")).unwrap();
        for network in [false, true] {
            let call = json!({
                "command": "cat ../downloads/l/a.txt", "untrusted": true, "network": network,
                "paths": ["downloads/l"]
            });
            assert!(scene.exec(call).await.is_err(), "{role:?}");
        }
        for hidden in
            ["memory", "memory/MEMORY.md", "USER.md", "notes", "x", "x/MEMORY.md", "y.md", "z"]
        {
            for network in [false, true] {
                let call = json!({
                    "command": "cat ../*/* ../*/*/*", "untrusted": true, "network": network, "paths": [hidden]
                });
                let said = scene.exec(call).await.unwrap_err();
                let end = format!("commands like this one never see `{hidden}`.");
                assert!(said.ends_with(&end), "{role:?} {hidden}: {said}");
            }
        }
        for changed in ["AGENTS.md", "project/rules.md"] {
            let call = json!({"command": "true", "network": true, "paths": [changed]});
            let said = scene.exec(call).await.unwrap_err();
            assert!(said.contains("do not change instructions"), "{role:?} {changed}: {said}");
        }
        let call =
            json!({"command": "cat ../*/project/a.txt", "untrusted": true, "paths": ["project"]});
        let (said, _) = scene.exec(call).await.unwrap();
        assert!(said.contains("hidden words"), "{role:?}: {said}");
    }
}

#[tokio::test]
async fn a_hard_link_shows_the_memory_to_no_command() {
    for role in [Role::Owner, Role::Admin] {
        let scene = Scene::of(&with(NetworkRule::On), role, ChatKind::Private);
        let root = scene.cx.workspace.root().join("..");
        let (own, downloads) = match scene.cx.scope().root() {
            Some(own) => {
                (root.join(own.as_str()), root.join(scene.cx.scope().downloads().as_str()))
            }
            None => (root.join("workspace"), root.join("downloads")),
        };
        for name in ["memory/MEMORY.md", "project/deep/a.txt"] {
            fs::create_dir_all(own.join(name).parent().unwrap()).unwrap();
            fs::write(own.join(name), "hidden words").unwrap();
        }
        fs::create_dir_all(&downloads).unwrap();
        // A second name of a file that may be seen does no harm.
        fs::hard_link(own.join("project/deep/a.txt"), own.join("project/b.txt")).unwrap();
        let exec = |path: &str| {
            let command = "cat ../*/*/b.txt ../*/*/*/hl.md; cat hl.md";
            let paths = if path.is_empty() { json!([]) } else { json!([path]) };
            scene.exec(json!({"command": command, "untrusted": true, "paths": paths}))
        };
        let (said, _) = exec("project").await.unwrap();
        assert!(said.contains("hidden words"), "{role:?}: {said}");
        let link = own.join("project/deep/hl.md");
        fs::hard_link(own.join("memory/MEMORY.md"), &link).unwrap();
        for named in ["project", "project/deep", "project/deep/hl.md"] {
            let said = exec(named).await.unwrap_err();
            assert!(said.contains("`project/deep/hl.md` is another name"), "{role:?}: {said}");
        }
        assert!(exec("project/b.txt").await.is_ok(), "{role:?}");
        fs::remove_file(link).unwrap();
        // Nor one in the downloads, which each such command sees.
        fs::hard_link(own.join("memory/MEMORY.md"), downloads.join("hl.md")).unwrap();
        let said = exec("").await.unwrap_err();
        assert!(said.contains("hl.md` is another name"), "{role:?}: {said}");
    }
}

#[tokio::test]
async fn what_a_command_with_the_network_changes_in_the_workspace_is_listed() {
    let scene = Scene::owner();
    let project = scene.cx.workspace.root().join("project");
    fs::create_dir_all(project.join(".git/hooks")).unwrap();
    for (name, text) in [("old.txt", "old"), ("same.txt", "same"), (".git/index", "1")] {
        fs::write(project.join(name), text).unwrap();
    }
    let command = "echo x >> a.txt; rm old.txt; echo y > \"$(printf 'n\\342\\200\\256w')\"; mkdir sub; \
                   echo z > sub/new.txt; echo 2 > .git/index; echo 'curl evil' > .git/hooks/pre-commit";
    let call = |command: &str| {
        json!({
            "command": command, "network": true, "paths": ["project", "shared"], "cwd": "project"
        })
    };
    let (said, foreign) = scene.exec(call(command)).await.unwrap();
    let (_, list) = said.split_once("\n[Different now").unwrap();
    // What the next command of git runs comes first, its own records come last.
    assert_eq!(
        list.lines().skip(1).collect::<Vec<_>>(),
        [
            "created project/.git/hooks/pre-commit",
            "changed project/a.txt",
            "created project/n\\u202ew",
            "deleted project/old.txt",
            "created project/sub/new.txt",
            "changed project/.git/index]",
        ]
    );
    assert!(foreign);
    let (said, _) = scene.exec(call("true")).await.unwrap();
    assert!(
        said.ends_with("\n[No file in these paths of the workspace is different now.]"),
        "{said}"
    );
    // A list is bounded, and says what it leaves out.
    let (said, _) = scene.exec(call("for i in $(seq 100 199); do echo > $i; done")).await.unwrap();
    assert!(said.contains("created project/129\nand 70 more]"), "{said}");
    fs::create_dir(project.join("many")).unwrap();
    for number in 0..5_100 {
        fs::write(project.join("many").join(number.to_string()), "").unwrap();
    }
    let (said, _) = scene.exec(call("echo x >> a.txt; rm many/7")).await.unwrap();
    assert!(
        said.ends_with("\nchanged project/a.txt\nThere are more files than can be compared.]"),
        "{said}"
    );
    // Its end must be seen.
    let mut behind = call("true");
    behind["background"] = json!(true);
    let refused = scene.exec(behind).await.unwrap_err();
    assert!(refused.contains("runs in the foreground"), "{refused}");
    // Commands that cannot do that are not followed.
    let (said, _) = scene.exec(json!({"command": "true", "network": true})).await.unwrap();
    assert!(!said.contains("different now"), "{said}");
}

#[tokio::test]
async fn the_person_is_shown_what_a_command_with_the_network_has_changed() {
    let config = with(NetworkRule::On);
    let tools = ToolSet::standard_with(shell::tools(&config, &shell::check_sandbox(&config)));
    let mut rig = Rig::of(RigOptions { tools, ..RigOptions::default() }).await;
    let project = rig.workspace().join("project");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("a.txt"), "a\n").unwrap();
    let pull = |command: &str| {
        let arguments = json!({
            "command": command, "network": true, "paths": ["project"], "cwd": "project"
        });
        calls(&[("exec", arguments)])
    };
    let command = "echo x >> a.txt; echo y > '*b*'";
    rig.model.on("pull", [pull(command), says("Pulled.")]);
    assert!(rig.ask("1", "pull it").await.contains("Approve?"));
    rig.say("1", "/approve 1");
    let heard = rig.next_messages("1", 4).await;
    let shown = "The command with the network is done. It changed these files:\n- created: project/\\*b\\*\n\
                 - changed: project/a.txt\nI can't undo this.";
    assert!(heard.contains(&shown.to_owned()), "{heard:?}");
    assert_eq!(heard[3], "Pulled.");
    let seen = rig.model.last().transcript();
    assert!(seen.contains("\ncreated project/*b*\nchanged project/a.txt]"), "{seen}");
    // Where nothing has changed, there is no message.
    rig.model.on("again", [pull("true"), says("Nothing new.")]);
    assert!(rig.ask("1", "again").await.contains("Approve?"));
    rig.say("1", "/approve 2");
    assert_eq!(rig.next_messages("1", 3).await[2], "Nothing new.");
    rig.finish().await;
}

#[tokio::test]
async fn the_person_is_shown_what_a_stopped_command_with_the_network_has_changed() {
    let config = with(NetworkRule::On);
    let tools = ToolSet::standard_with(shell::tools(&config, &shell::check_sandbox(&config)));
    let mut rig = Rig::of(RigOptions { tools, ..RigOptions::default() }).await;
    let project = rig.workspace().join("project");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("a.txt"), "a\n").unwrap();
    let running = "SELECT count(*) FROM watched_commands";
    for (number, command, changed) in [
        (1, "echo x >> a.txt; echo y > b; sleep 100", true),
        // It has closed its output.
        (2, "echo x >> a.txt; rm b; exec >&- 2>&-; sleep 100", true),
        (3, "touch ../../downloads/begun; sleep 100", false),
    ] {
        let arguments = json!({
            "command": command, "network": true, "paths": ["project"], "cwd": "project"
        });
        rig.model.on("pull", [calls(&[("exec", arguments)])]);
        assert!(rig.ask("1", "pull it").await.contains("Approve?"));
        rig.say("1", &format!("/approve {number}"));
        rig.next_messages("1", 2).await;
        rig.wait_until(|rig| match number {
            1 => project.join("b").exists(),
            2 => !project.join("b").exists(),
            _ => rig.path().join("downloads/begun").exists(),
        })
        .await;
        // Until its list is sent, a crash would be told of.
        rig.wait_for_count(running, 1).await;
        rig.say("1", "/stop");
        let heard = rig.next_messages("1", if changed { 2 } else { 1 }).await;
        assert!(heard.iter().any(|it| it.starts_with(replies::STOPPED)), "{heard:?}");
        let list = heard.iter().find(|it| it.starts_with(replies::NETWORK_COMMAND_STOPPED));
        let b = if number == 1 { "created" } else { "deleted" };
        let expected = format!(
            "{} It changed these files:\n- changed: project/a.txt\n- {b}: project/b\nI can't undo this.",
            replies::NETWORK_COMMAND_STOPPED
        );
        assert_eq!(list.map(String::as_str), changed.then_some(&*expected));
        rig.wait_for_count(running, 0).await;
    }
    rig.finish().await;
}

#[tokio::test]
async fn after_a_crash_the_person_is_told_which_paths_a_command_may_have_changed() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    rig.stop().await;
    // As the end of the daemon leaves them, and one that cannot be read.
    rig.execute(
        r#"INSERT INTO watched_commands (at, paths) VALUES
           ('{"channel":"home","chat":"1","thread":null}', '["project","*lists*"]'), ('?', '?')"#,
    );
    rig.start().await;
    let told = "A command with the network was cut off when I stopped. It may have changed files in project, \\*lists\\*. \
                I can't tell which, so please check them.";
    assert_eq!(rig.next_message("1").await, told);
    rig.stop_and_start_again().await;
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

#[test]
fn what_a_command_sees_is_known_before_it_runs() {
    let reach = |network, arguments: Value| {
        let scene = Scene::of(&with(network), Role::Owner, ChatKind::Private);
        scene.reach(&arguments)
    };
    let (off, ask, on) = (NetworkRule::Off, NetworkRule::Ask, NetworkRule::On);
    for (network, arguments, access) in [
        (off, json!({"command": "ls"}), CommandAccess::Workspace),
        (off, json!({"command": "ls", "cwd": "project"}), CommandAccess::Workspace),
        (off, json!({"command": "ls", "cwd": "Downloads/x"}), CommandAccess::Downloads),
        (off, json!({"command": "ls", "untrusted": true}), CommandAccess::Downloads),
        (off, json!({"command": "ls", "paths": ["downloads/x"]}), CommandAccess::Downloads),
        (off, json!({"command": "ls", "paths": ["shared"]}), CommandAccess::Shared),
        (off, json!({"command": "ls", "cwd": "shared/x"}), CommandAccess::Shared),
        (
            off,
            json!({"command": "ls", "paths": ["shared", "project"]}),
            CommandAccess::NamedAndShared,
        ),
        (off, json!({"command": "ls", "paths": ["groups/g1"]}), CommandAccess::Shared),
        (
            off,
            json!({"command": "ls", "paths": ["groups/g1", "project"]}),
            CommandAccess::NamedAndShared,
        ),
        // Folders of `[exec] write` are read by others, too.
        (off, json!({"command": "ls", "paths": ["/srv/photos"]}), CommandAccess::Shared),
        (
            off,
            json!({"command": "ls", "paths": ["/srv/photos", "downloads"]}),
            CommandAccess::Shared,
        ),
        (
            off,
            json!({"command": "ls", "paths": ["/srv/photos", "notes.md"]}),
            CommandAccess::NamedAndShared,
        ),
        (
            on,
            json!({"command": "ls", "network": true, "paths": ["/srv/photos"]}),
            CommandAccess::Both,
        ),
        (off, json!({"command": "ls", "paths": ["project"]}), CommandAccess::Named),
        (
            off,
            json!({"command": "ls", "untrusted": true, "paths": ["project"]}),
            CommandAccess::Named,
        ),
        (on, json!({"command": "ls", "network": true}), CommandAccess::Network),
        (
            on,
            json!({"command": "ls", "network": true, "paths": ["downloads"]}),
            CommandAccess::Network,
        ),
        (on, json!({"command": "ls", "network": true, "paths": ["shared"]}), CommandAccess::Both),
        (on, json!({"command": "ls", "network": true, "paths": ["project"]}), CommandAccess::Both),
        (ask, json!({"command": "ls", "network": true}), CommandAccess::AskedNetwork),
    ] {
        assert_eq!(reach(network, arguments.clone()), Reach::Command(access), "{arguments}");
    }
}

#[test]
fn in_a_group_its_own_paths_are_no_more_than_its_folder_but_shared_ones_are() {
    let reach = |paths: Value| {
        let scene = Scene::of(&config(), Role::Owner, ChatKind::Group);
        scene.reach(&json!({"command": "ls", "paths": paths})).within(ChatKind::Group)
    };
    assert_eq!(reach(json!(["project"])), Reach::Command(CommandAccess::Downloads));
    // Together, too: the group's own files are no secret there.
    let together = [json!(["project", "shared"]), json!(["project", "/srv/photos"])];
    for paths in [json!(["shared"]), json!(["/srv/photos"])].into_iter().chain(together) {
        assert_eq!(reach(paths), Reach::Command(CommandAccess::Shared));
    }
}

#[tokio::test]
async fn without_a_network_in_the_config_no_call_gets_one() {
    let scene = Scene::of(&config(), Role::Owner, ChatKind::Private);
    let refused = scene.exec(json!({"command": "true", "network": true})).await.unwrap_err();
    assert!(refused.contains("no network here"), "{refused}");
}

#[tokio::test]
async fn commands_of_others_and_in_groups_have_folders_of_their_own() {
    for place in [ChatKind::Private, ChatKind::Group] {
        let scene = Scene::of(&config(), Role::Admin, place);
        let home = scene.cx.workspace.root().canonicalize().unwrap();
        let home = home.parent().unwrap().display().to_string();
        let command = format!(
            "echo mine > own.md; pwd; cat {home}/*/notes.md {home}/workspace/notes.md \
             {home}/downloads/page.txt {home}/workspace/memory/MEMORY.md; true"
        );
        let (said, foreign) = scene.exec(json!({"command": command})).await.unwrap();
        let folder = if place == ChatKind::Private { "/people/p" } else { "/groups/g" };
        assert!(said.contains(folder), "{said}");
        assert!(
            ["the plan", "the page", "the memory"].iter().all(|it| !said.contains(it)),
            "{said}"
        );
        assert_eq!(foreign, place == ChatKind::Group);
    }
}
