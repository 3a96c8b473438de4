//! `--json` of the commands that show or change something: a script gets the same facts as a person.

use std::collections::BTreeSet;
use std::fs;

use peacrab::cli::file_settings::FileSettings;
use serde_json::{Value, json};

use crate::support::binary::{Ended, ProgramFixture};

/// Commands without `--json`, by the names of their man pages, each with the reason.
const WITHOUT_JSON: [(&str, &str); 14] = [
    ("chat", "a conversation"),
    ("completions", "a script of its own"),
    ("cron-add", "an order, answered by a sentence; `cron list` has the job"),
    ("cron-edit", "an order, answered by a sentence; `cron show` has the job"),
    ("cron-pause", "an order, answered by a sentence; `cron show` has the job"),
    ("cron-resume", "an order, answered by a sentence; `cron show` has the job"),
    ("cron-rm", "an order, answered by a sentence; `cron list` has the jobs"),
    ("cron-run", "an order, answered by a sentence; `cron history` has the run"),
    ("man", "files of its own"),
    ("run", "the daemon"),
    ("service-install", "`service status` has the outcome"),
    ("service-logs", "the log as it is"),
    ("service-uninstall", "`service status` has the outcome"),
    ("sessions-export", "`--format json`"),
];

pub(crate) fn parsed(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// Checks a command that failed: a script gets the words of standard error, and nothing else.
pub(crate) fn fails(ended: &Ended, code: i32, words: &str) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    let report = parsed(ended);
    let error = report["error"].as_str().unwrap_or_else(|| panic!("{report}"));
    assert_eq!(report, json!({ "error": error }));
    assert!(error.contains(words), "{report}");
    assert!(ended.err.contains(error), "{ended:?}");
}

/// Checks a command line that the parser refuses.
fn is_refused(ended: &Ended, words: &str) {
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.err.contains(words), "{ended:?}");
}

#[tokio::test]
async fn each_command_has_json_or_a_reason_to_have_none() {
    let fixture = ProgramFixture::new("");
    let folder = fixture.folder().join("man");
    let ended = fixture.run(&["man", &folder.display().to_string()]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name());
    let names: BTreeSet<String> = files
        .filter_map(|file| {
            let name = file.to_str()?.strip_suffix(".1")?.strip_prefix("peacrab-")?;
            Some(name.to_owned())
        })
        .collect();
    let has_subcommands = |name: &str| names.iter().any(|it| it.starts_with(&format!("{name}-")));
    let without = names.iter().filter(|name| !has_subcommands(name)).filter(|name| {
        let page = fs::read_to_string(folder.join(format!("peacrab-{name}.1"))).unwrap();
        !page.contains(r"\-\-json")
    });
    let expected: Vec<_> = WITHOUT_JSON.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(without.cloned().collect::<Vec<_>>(), expected);
    assert!(names.len() > 40, "{names:?}");
}

#[tokio::test]
async fn a_reload_names_the_changed_settings_and_the_warnings() {
    let fixture = ProgramFixture::new("[agent]\nsteps_max = 7\n");
    let write = |config: &str| fs::write(fixture.folder().join("config.toml"), config).unwrap();
    fails(&fixture.run(&["reload", "--json"]).await, 1, "no daemon runs");
    is_refused(&fixture.run(&["reload", "now", "--json"]).await, "now");
    let daemon = fixture.daemon().await;
    write("[agent]\nsteps_max = 8\n[exec]\nenabled = false\n");
    let ended = fixture.run(&["reload", "--json"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let report = parsed(&ended);
    assert_eq!(report["changed"], json!(["agent.steps_max", "exec.enabled"]), "{report}");
    assert!(report["warnings"].to_string().contains("there is no model"), "{report}");
    let ended = fixture.run(&["reload", "--json"]).await;
    assert_eq!(parsed(&ended)["changed"], json!([]), "{ended:?}");
    write("[agent]\nstep_max = 8\n");
    fails(&fixture.run(&["reload", "--json"]).await, 1, "steps_max");
    daemon.terminate().await;
}

#[tokio::test]
#[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
async fn a_daemon_that_fails_is_an_error_for_a_script() {
    use crate::support::fake_daemon::FakeDaemon;

    let fixture = ProgramFixture::new("");
    fs::create_dir(fixture.home()).unwrap();
    let full = json!({ "failed": "My disk is full" });
    // One of another version does not know each request.
    let _fake = FakeDaemon::start(&fixture.home(), &[("pair", full.clone()), ("reload", full)]);
    for (args, words) in [
        (&["reload"] as &[&str], "My disk is full"),
        (&["pair", "approve", "SOMECODE"], "My disk is full"),
        (&["pair", "deny", "SOMECODE"], "My disk is full"),
        (&["pair", "revoke", "home", "7001"], "My disk is full"),
        (&["undo"], "cannot read the request"),
    ] {
        fails(&fixture.run(&[args, &["--json"]].concat()).await, 1, words);
    }
}

#[test]
fn settings_of_a_file_are_compared_by_their_keys() {
    let before =
        FileSettings::parse("a = 1\n[b]\nc = \"x\"\nd = [1, 2]\n[e.f]\n[g]\nh = 1\n").unwrap();
    let check = |text: &str, changed: &[&str]| {
        let after = FileSettings::parse(text).unwrap();
        assert_eq!(after.changed_since(&before), changed, "{text}");
        assert_eq!(before.changed_since(&after), changed, "{text}");
    };
    // Comments, blanks and the order do not count.
    check("a=1 # one\ng.h = 1\n[e]\nf = {}\n[b]\nd = [1,2]\nc = 'x'\n", &[]);
    check("a = 2\n[b]\nc = \"x\"\nd = [1, 2]\n[e.f]\n[g]\nh = 1\n", &["a"]);
    check("a = 1\n[b]\nc = \"x\"\nd = [2, 1]\n[e.f]\ni = 1\n", &["b.d", "e.f", "e.f.i", "g.h"]);
    assert!(FileSettings::parse("a = ").is_none());
}

#[tokio::test]
async fn an_undo_names_both_actions_with_and_without_a_daemon() {
    let fixture = ProgramFixture::new("");
    fails(&fixture.run(&["undo", "--json"]).await, 1, "there is no data in this home yet");
    is_refused(&fixture.run(&["undo", "first", "--json"]).await, "first");
    is_refused(&fixture.run(&["undo"]).await, "required");
    for has_daemon in [false, true] {
        let daemon = match has_daemon {
            true => Some(fixture.daemon().await),
            false => None,
        };
        fixture.run(&["chat", "-m", "append fig to list.md"]).await;
        let open = async || {
            let ended = fixture.run(&["undo", "--json"]).await;
            assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
            let listed = parsed(&ended).as_array().unwrap().clone();
            listed
                .into_iter()
                .map(|action| (action["id"].as_u64().unwrap(), action))
                .collect::<Vec<_>>()
        };
        let (id, action) = open().await.remove(0);
        assert_eq!(action["tool"], "append_file", "{action}");
        assert!(action["input"].as_str().unwrap().contains("list.md"), "{action}");
        assert!(action["at"].as_str().unwrap().contains('T'), "{action}");
        let number = id.to_string();
        let ended = fixture.run(&["undo", &number, "--json"]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let undone = parsed(&ended);
        assert_eq!(undone["undone"], id, "{undone}");
        assert!(undone["words"].as_str().unwrap().starts_with("Undone: action"), "{undone}");
        let by = undone["action"].as_u64().unwrap();
        let ids: Vec<_> = open().await.into_iter().map(|(id, _)| id).collect();
        assert!(ids.contains(&by) && !ids.contains(&id), "{ids:?}");
        // The reason is the answer, not only that nothing was undone.
        let again = fixture.run(&["undo", &number, "--json"]).await;
        fails(&again, 1, "");
        assert!(!again.err.contains("nothing was undone"), "{again:?}");
        fails(&fixture.run(&["undo", "999", "--json"]).await, 1, "There is no action 999 here.");
        if let Some(daemon) = daemon {
            daemon.terminate().await;
        }
    }
}

/// The reason of a command that failed.
fn error(ended: &Ended) -> String {
    parsed(ended)["error"].as_str().unwrap_or_else(|| panic!("no error: {ended:?}")).to_owned()
}

#[tokio::test]
async fn a_command_that_fails_tells_a_script_why() {
    let fixture = ProgramFixture::new("");
    for (args, words) in [
        (&["status"] as &[&str], "no daemon runs"),
        (&["pair", "list"], "there is no data in this home yet"),
        (&["usage"], "there is no data in this home yet"),
        (&["usage", "--by", "model"], "there is no data in this home yet"),
        (&["actions"], "there is no data in this home yet"),
        (&["people"], "there is no data in this home yet"),
        (&["memory"], "there is no data in this home yet"),
        (&["sessions"], "there is no data in this home yet"),
        (&["cron", "list"], "there is no data in this home yet"),
        (&["web", "--sessions"], ""),
        (&["restore", "/nowhere.tar.gz"], ""),
    ] {
        let ended = fixture.run(&[args, &["--json"]].concat()).await;
        assert_eq!(ended.code, Some(1), "{args:?}: {ended:?}");
        let error = error(&ended);
        assert!(error.contains(words), "{args:?}: {ended:?}");
        assert_eq!(ended.err, format!("peacrab: {error}\n"), "{args:?}");
    }
    // So it does with a config that cannot be read.
    fs::write(fixture.folder().join("config.toml"), "[agent]\nstep_max = 7\n").unwrap();
    let ended = fixture.run(&["explain", "list_files", "{}", "--json"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(error(&ended).contains("steps_max"), "{ended:?}");
}

#[tokio::test]
async fn sessions_alone_are_a_list_for_a_script_too() {
    let fixture = ProgramFixture::new("");
    fixture.run(&["chat", "-m", "hello"]).await;
    let shown = async |args: &[&str]| {
        let ended = fixture.run(args).await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
        parsed(&ended)
    };
    let listed = shown(&["sessions", "list", "--json"]).await;
    assert_eq!(listed[0]["number"], 1, "{listed}");
    assert_eq!(shown(&["sessions", "--json"]).await, listed);
    assert_eq!(shown(&["sessions", "--json", "list"]).await, listed);
    let whole = shown(&["sessions", "show", "1", "--json"]).await;
    for command in ["show", "export"] {
        assert_eq!(shown(&["sessions", "--json", command, "1"]).await, whole, "{command}");
    }
}

#[tokio::test]
async fn a_check_lists_what_would_start_and_what_is_wrong() {
    let fixture = ProgramFixture::new("[agent]\nsteps_max = 7\n");
    let ended = fixture.run(&["check", "--json"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = parsed(&ended);
    assert_eq!(report["providers"], json!(["rehearsal"]));
    assert_eq!(report["channels"], json!(["terminal"]));
    assert_eq!(report["faults"], json!([]));
    assert!(report["warnings"].to_string().contains("there is no model"), "{report}");
    fs::write(fixture.folder().join("config.toml"), "[agent]\nstep_max = 7\n").unwrap();
    let ended = fixture.run(&["check", "--json"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let report = parsed(&ended);
    let place = report["faults"][0]["place"].as_str().unwrap().to_owned();
    assert!(place.ends_with("config.toml:2:1"), "{report}");
    assert!(report["faults"][0]["message"].as_str().unwrap().contains("steps_max"), "{report}");
}

#[tokio::test]
async fn a_decision_about_a_call_is_one_word_and_its_reason() {
    let fixture = ProgramFixture::new("");
    for (more, decision) in [(&[] as &[&str], "allow"), (&["--untrusted"], "ask")] {
        let call = ["explain", "write_file", r#"{"path": "a.md", "content": "b"}"#, "--json"];
        let ended = fixture.run(&[&call as &[&str], more].concat()).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let explained = parsed(&ended);
        assert_eq!(explained["decision"], decision, "{explained}");
        assert_eq!(explained["tool"], "write_file");
        assert!(explained["words"].as_str().unwrap().starts_with("write_file "), "{explained}");
    }
}

#[tokio::test]
async fn a_job_its_runs_and_a_conversation_are_objects_with_and_without_a_daemon() {
    let fixture = ProgramFixture::new("");
    fixture.run(&["chat", "-m", "hello"]).await;
    let add = ["cron", "add", "--every", "2h", "--message", "--to", "terminal:main", "Tea."];
    let ended = fixture.run(&add).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    for has_daemon in [false, true] {
        let daemon = match has_daemon {
            true => Some(fixture.daemon().await),
            false => None,
        };
        let shown = async |args: &[&str]| {
            let ended = fixture.run(&[args, &["--json"]].concat()).await;
            assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
            parsed(&ended)
        };
        let job = shown(&["cron", "show", "1"]).await;
        assert_eq!((&job["id"], &job["text"]), (&json!(1), &json!("Tea.")), "{job}");
        assert_eq!((&job["kind"], &job["check"]), (&json!("fixed text"), &Value::Null), "{job}");
        assert_eq!(job["state"], "active", "{job}");
        assert_eq!(shown(&["cron", "history", "1"]).await, json!([]));
        let session = shown(&["sessions", "show", "1"]).await;
        assert_eq!(session, shown_as_export(&fixture).await);
        for command in ["show", "history"] {
            let ended = fixture.run(&["cron", command, "99", "--json"]).await;
            assert_eq!(ended.code, Some(1), "{ended:?}");
            assert!(error(&ended).contains("There is no job 99"), "{ended:?}");
            assert!(ended.err.contains("There is no job 99"), "{ended:?}");
        }
        if let Some(daemon) = daemon {
            daemon.terminate().await;
        }
    }
    // The others have nothing to show.
    let ended = fixture.run(&["cron", "pause", "1", "--json"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
}

async fn shown_as_export(fixture: &ProgramFixture) -> Value {
    parsed(&fixture.run(&["sessions", "export", "1", "--format", "json"]).await)
}

#[tokio::test]
async fn budgets_and_the_heartbeat_are_lists_of_a_running_daemon() {
    let fixture = ProgramFixture::new(
        "[heartbeat]\ntokens_per_day = 5000\n[budgets.total]\ntokens_per_day = 9000\n",
    );
    let daemon = fixture.daemon().await;
    let ended = fixture.run(&["heartbeat", "--json"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let heartbeat = parsed(&ended);
    assert_eq!(heartbeat["tokens_today"], 0, "{heartbeat}");
    assert_eq!(heartbeat["last"], Value::Null, "{heartbeat}");
    // An order is no list.
    let ended = fixture.run(&["heartbeat", "off", "--json"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(error(&ended).contains("cannot be given with an order"), "{ended:?}");
    let ended = fixture.run(&["budget", "--json"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let budgets = parsed(&ended);
    let total = budgets["budgets"].as_array().unwrap().iter().find(|it| it["whose"] == "total");
    let total = total.unwrap_or_else(|| panic!("{budgets}"));
    assert_eq!((&total["period"], &total["tokens_max"]), (&json!("day"), &json!(9000)));
    assert_eq!((&total["tokens"], &total["percent"]), (&json!(0), &json!(0)));
    daemon.terminate().await;
}

#[tokio::test]
async fn an_explanation_is_an_object_with_and_without_a_daemon() {
    let fixture = ProgramFixture::new("");
    fixture.run(&["chat", "-m", "append fig to list.md"]).await;
    fixture.run(&["chat", "-m", "/remember Ada lives in Paris"]).await;
    let own = json!({
        "kind": "person", "name": null, "is_own": true, "is_untrusted": false, "words": "your messages",
    });
    for has_daemon in [false, true] {
        let daemon = match has_daemon {
            true => Some(fixture.daemon().await),
            false => None,
        };
        let explained = async |what: &str| {
            let ended = fixture.run(&["why", what, "--json"]).await;
            assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{what}: {ended:?}");
            parsed(&ended)
        };
        for what in ["1", "#1", "list.md"] {
            let action = explained(what).await;
            assert_eq!((&action["kind"], &action["task"]), (&json!("action"), &Value::Null));
            assert_eq!(action["action"]["tool"], "append_file", "{action}");
            assert_eq!((&action["is_own"], &action["undo"]), (&json!(true), &json!(1)), "{action}");
            let sources = action["sources"]["of_turn"].as_array().unwrap();
            assert!(sources.contains(&own), "{action}");
            assert!(action["begun"].as_str().unwrap().contains('T'), "{action}");
        }
        let fact = explained("fact 1").await;
        assert_eq!((&fact["kind"], &fact["fact"]["number"]), (&json!("fact"), &json!(1)), "{fact}");
        assert_eq!(fact["fact"]["text"], "Ada lives in Paris", "{fact}");
        assert_eq!((&fact["sources"], &fact["former"]), (&json!([own]), &json!([])), "{fact}");
        for (what, words) in [("99", "99"), ("never.md", "never.md"), ("../outside", "why")] {
            let ended = fixture.run(&["why", what, "--json"]).await;
            assert_eq!(ended.code, Some(1), "{ended:?}");
            assert!(error(&ended).contains(words), "{ended:?}");
            assert!(ended.err.contains(words), "{ended:?}");
        }
        if let Some(daemon) = daemon {
            daemon.terminate().await;
        }
    }
}
