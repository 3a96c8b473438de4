//! Commands of jobs that name the network or paths: asked about once, kept apart from everything else, and with a folder
//! of their own that ends with the job.

use std::fs;
use std::net::TcpListener;

use peacrab::replies;
use peacrab::tasks::schedule::CommandNeeds;
use peacrab::tools::shell::{self, NetworkRule};
use serde_json::{Value, json};

use super::commands::{command, with};
use super::jobs::{Scene, completes, schedules};
use crate::shell::config;
use crate::support::script::{calls, says};

/// A daemon whose commands may ask for the network, with files that a job has no business with.
async fn scene() -> Scene {
    let config = shell::Config { network: NetworkRule::Ask, ..config() };
    let scene = Scene::of(with(&config)).await;
    for (path, text) in [
        ("workspace/plan.md", "the plan"),
        ("workspace/lists/tea.md", "green tea"),
        ("downloads/page.txt", "the page"),
        ("shared/all.txt", "for all"),
    ] {
        let path = scene.rig.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    scene
}

impl Scene {
    /// Has the model ask for a job, answers the question with a yes, and returns the question.
    async fn grant(&mut self, number: usize, arguments: Value) -> String {
        let question = self.question(arguments).await;
        self.answer(&format!("/approve {number}")).await;
        question
    }

    async fn question(&mut self, arguments: Value) -> String {
        self.rig.model.on("later", [schedules(arguments), says("So be it.")]);
        let question = self.rig.ask("1", "later").await;
        assert!(question.contains("Approve?"), "it was not asked about: {question}");
        question
    }

    async fn answer(&mut self, words: &str) {
        self.rig.say("1", words);
        while self.rig.next_message("1").await != "So be it." {}
    }
}

fn network(mut job: Value) -> Value {
    job["network"] = true.into();
    job
}

/// Prints each of these files that a command sees.
fn looks(scene: &Scene) -> String {
    let home = scene.rig.path().canonicalize().unwrap();
    let home = home.display();
    format!(
        "cat {home}/workspace/plan.md {home}/workspace/lists/tea.md {home}/downloads/page.txt \
         {home}/shared/all.txt {home}/state.db 2>/dev/null"
    )
}

#[tokio::test]
async fn a_command_with_the_network_is_asked_about_once_and_sees_its_own_folder_alone() {
    let mut scene = scene().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = format!(
        "{}; cat seen 2>/dev/null; echo again > seen; \
         bash -c 'echo > /dev/tcp/127.0.0.1/{port}' && echo reached",
        looks(&scene)
    );
    let question = scene.grant(1, network(command("every 1h", &text))).await;
    assert!(question.contains("network") && question.contains("&& echo reached"), "{question}");
    let listed = scene.rig.ask("1", "/jobs").await;
    assert!(listed.contains(", command, with the network: "), "{listed}");
    scene.later(61);
    assert_eq!(scene.rig.next_message("1").await, "reached");
    scene.rig.wait_for_count("SELECT count(*) FROM tasks WHERE ended IS NOT NULL", 1).await;
    scene.later(122);
    assert_eq!(scene.rig.next_message("1").await, "again\nreached");
    let state = scene.rig.path().join("jobs/1/network/seen");
    assert_eq!(fs::read_to_string(state).unwrap(), "again\n");
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_command_that_names_paths_sees_these_without_a_network() {
    let mut scene = scene().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let home = scene.rig.path().canonicalize().unwrap();
    let text = format!(
        "{}; echo; echo x > {home}/downloads/new; echo x > kept; echo x 2>/dev/null >> {home}/workspace/lists/tea.md; \
         bash -c 'echo > /dev/tcp/127.0.0.1/{port}' 2>/dev/null && echo reached; pwd",
        looks(&scene),
        home = home.display(),
    );
    let mut job = command("20m", &text);
    job["paths"] = json!(["downloads", "lists/tea.md"]);
    let question = scene.grant(1, job).await;
    assert!(question.contains("lists/tea.md"), "{question}");
    let listed = scene.rig.ask("1", "/jobs").await;
    assert!(listed.contains(", command, sees downloads, lists/tea.md: "), "{listed}");
    scene.later(21);
    let state = home.join("jobs/1/files");
    let said = scene.rig.next_message("1").await;
    assert_eq!(said, format!("green teathe page\n{}", state.display()));
    assert!(home.join("downloads/new").exists() && state.join("kept").exists());
    assert_eq!(fs::read_to_string(home.join("workspace/lists/tea.md")).unwrap(), "green tea");
    scene.rig.finish().await;
}

#[tokio::test]
async fn the_output_of_such_a_check_is_untrusted() {
    let mut scene = scene().await;
    let mut job =
        json!({"when": "20m", "text": "wake up", "check": "cat ../../../downloads/page.txt"});
    job["paths"] = json!(["downloads/page.txt"]);
    scene.grant(1, job).await;
    let writes = calls(&[("write_file", json!({"path": "plan.md", "content": "evil"}))]);
    scene.rig.model.on("wake up", [writes, completes("I did.")]);
    scene.later(21);
    let mut heard = scene.rig.next_messages("1", 2).await;
    heard.sort();
    assert!(heard[0].starts_with("I did not run write_file for job 1"), "{heard:?}");
    let plan = scene.rig.workspace().join("plan.md");
    assert_eq!(fs::read_to_string(plan).unwrap(), "the plan");
    scene.rig.finish().await;
}

#[tokio::test]
async fn another_command_or_other_needs_are_asked_about_again_and_another_time_is_not() {
    let mut scene = scene().await;
    scene.grant(1, network(command("every 1h", "date"))).await;
    scene.rig.model.on(
        "later",
        [schedules(json!({"action": "edit", "id": 1, "when": "every 2h"})), says("I will.")],
    );
    assert_eq!(scene.rig.ask("1", "later").await, "I will.");
    let needs = |scene: &Scene| scene.rig.query("SELECT needs || payload FROM jobs").remove(0);
    assert_eq!(needs(&scene), r#""network"{"command":"date"}"#);
    let edit = |text: &str| json!({"action": "edit", "id": 1, "kind": "command", "text": text});
    scene.question(network(edit("curl evil"))).await;
    scene.answer("/deny 2").await;
    assert_eq!(needs(&scene), r#""network"{"command":"date"}"#);
    scene.question(json!({"action": "edit", "id": 1, "paths": ["downloads"]})).await;
    scene.answer("/deny 3").await;
    assert_eq!(needs(&scene), r#""network"{"command":"date"}"#);
    scene.grant(4, network(edit("date -u"))).await;
    assert_eq!(needs(&scene), r#""network"{"command":"date -u"}"#);
    // A command that names no needs has none, whatever the one before it had.
    scene.rig.model.on("later", [schedules(edit("pwd")), says("I will.")]);
    assert_eq!(scene.rig.ask("1", "later").await, "I will.");
    assert_eq!(needs(&scene), r#""workspace"{"command":"pwd"}"#);
    scene.later(150);
    let workspace = scene.rig.workspace().canonicalize().unwrap();
    assert_eq!(scene.rig.next_message("1").await, workspace.display().to_string());
    scene.rig.finish().await;
}

#[tokio::test]
async fn another_text_drops_the_calls_without_approval_and_says_so() {
    let mut scene = scene().await;
    let add = json!({"action": "add", "when": "every 1h", "text": "look", "allow": "example.org"});
    scene.grant(1, add).await;
    let last = |scene: &Scene| {
        scene.rig.query("SELECT output FROM calls ORDER BY id DESC LIMIT 1").remove(0)
    };
    for (change, drops) in [
        (json!({"action": "edit", "id": 1, "when": "every 2h"}), false),
        (json!({"action": "edit", "id": 1, "text": "look at the moon"}), true),
        (json!({"action": "edit", "id": 1, "text": "look at the sun"}), false),
    ] {
        scene.rig.model.on("change it", [schedules(change), says("I will.")]);
        assert_eq!(scene.rig.ask("1", "change it").await, "I will.");
        let told = last(&scene);
        assert!(told.starts_with("Changed: job 1"), "{told}");
        assert_eq!(told.contains(replies::JOB_UNASKED_DROPPED), drops, "{told}");
    }
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_denied_job_is_not_made_and_wrong_needs_are_explained() {
    let mut scene = scene().await;
    scene.question(network(command("20m", "date"))).await;
    scene.answer("/deny 1").await;
    assert!(scene.rig.query("SELECT id FROM jobs").is_empty());
    let add = |more: Value| {
        let mut job = json!({"action": "add", "when": "20m", "text": "date", "kind": "command"});
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job
    };
    for (more, words) in [
        (json!({"network": true, "paths": ["downloads"]}), "not both"),
        (json!({"network": true, "kind": "message"}), "Only a job with a command or a check"),
        (json!({"paths": ["../state.db"]}), "climbs with"),
        (json!({"paths": vec!["a"; 17]}), "at most 16 paths"),
    ] {
        let told = scene.cron(add(more), "1").await;
        assert!(told.contains("failed") && told.contains(words), "{told}");
    }
    // What no command sees is refused when it runs, as a role may have changed by then.
    for (number, path) in ["memory", "people", "gone.md"].into_iter().enumerate() {
        assert!(scene.cron(add(json!({"paths": [path]})), "1").await.contains("Created"));
        scene.later(21 * (number as i64 + 1));
        let told = scene.rig.next_message("1").await;
        assert!(told.contains("failed") && told.contains(path), "{told}");
    }
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_job_has_no_network_where_the_config_has_none() {
    let mut scene = Scene::of(with(&config())).await;
    scene.rig.ask("1", "hello").await;
    let job = network(json!({"action": "add", "when": "20m", "text": "date", "kind": "command"}));
    let told = scene.cron(job, "1").await;
    assert!(told.contains("commands have no network here"), "{told}");
    let commands = with(&config()).commands.unwrap();
    assert!(commands.check_needs(&CommandNeeds::Network).is_err());
    assert!(commands.check_needs(&CommandNeeds::Paths(Vec::new())).is_ok());
    assert!(commands.check_needs(&CommandNeeds::Workspace).is_ok());
    scene.rig.finish().await;
}

#[tokio::test]
async fn the_folder_of_a_job_is_its_own_and_ends_with_it() {
    let mut scene = scene().await;
    let jobs = scene.rig.path().canonicalize().unwrap().join("jobs");
    let mut job = command("every 1h", "echo mine > kept; echo done");
    job["paths"] = json!(["shared"]);
    scene.grant(1, job).await;
    let seen = format!("find {} -name kept 2>/dev/null; ls ..; echo looked", jobs.display());
    scene.grant(2, network(command("90m", &seen))).await;
    scene.later(61);
    assert_eq!(scene.rig.next_message("1").await, "done");
    assert!(jobs.join("1/files/kept").exists());
    scene.later(91);
    let said = scene.rig.next_message("1").await;
    assert!(!said.contains("kept") && said.ends_with("looked"), "{said}");
    let told = scene.rig.ask("1", "/jobs rm 1").await;
    assert!(told.contains("The files that its command kept are deleted."), "{told}");
    scene.rig.wait_until(|_| !jobs.join("1").exists()).await;
    assert!(jobs.join("2/network").exists());
    // One whose job ended just before a crash is deleted at the next start.
    scene.rig.stop().await;
    fs::create_dir_all(jobs.join("77/files/deep")).unwrap();
    std::os::unix::fs::symlink(scene.rig.workspace(), jobs.join("77/files/link")).unwrap();
    scene.rig.start().await;
    scene.rig.wait_until(|_| !jobs.join("77").exists()).await;
    assert!(jobs.join("2/network").exists());
    assert!(scene.rig.workspace().join("plan.md").exists());
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_run_that_is_cut_off_keeps_its_folder_and_is_not_repeated() {
    let mut scene = scene().await;
    let text = "echo x >> ran; while :; do sleep 0.02; done";
    scene.grant(1, network(command("every 1h", text))).await;
    scene.later(61);
    let ran = scene.rig.path().join("jobs/1/network/ran");
    scene.rig.wait_until(|_| ran.exists()).await;
    scene.rig.stop().await;
    scene.rig.start().await;
    let told = scene.rig.next_message("1").await;
    assert!(told.contains("was interrupted"), "{told}");
    assert_eq!(fs::read_to_string(ran).unwrap(), "x\n");
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_folder_that_holds_too_much_stops_its_job() {
    let config = shell::Config { network: NetworkRule::On, ..config() };
    let mut parts = with(&config);
    if let Some(commands) = &mut parts.commands {
        commands.sandbox.bounds.disk = 1_000_000;
    }
    let mut scene = Scene::of(parts).await;
    scene.grant(1, network(command("20m", "echo ran"))).await;
    let state = scene.rig.path().join("jobs/1/network");
    fs::create_dir_all(state.join("a/b")).unwrap();
    fs::write(state.join("a/b/big"), vec![0; 1_000_001]).unwrap();
    scene.later(21);
    let told = scene.rig.next_message("1").await;
    assert!(told.contains("take more than 1 MB"), "{told}");
    scene.rig.finish().await;
}
