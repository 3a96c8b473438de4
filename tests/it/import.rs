//! `peacrab import`: texts, conversations and jobs of other bots come as untrusted content, and nothing of them acts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use peacrab::cli::import::formats::{read_jobs, read_session};
use serde_json::json;

use crate::support::binary::{Ended, Scene};

fn put(folder: &Path, name: &str, text: &str) {
    let file = folder.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

async fn scene() -> (Scene, PathBuf) {
    let scene = Scene::new("");
    scene.daemon().await.terminate().await;
    let other = scene.folder().join("other");
    fs::create_dir(&other).unwrap();
    (scene, other)
}

async fn import(scene: &Scene, bot: &str, other: &Path) -> Ended {
    scene.run(&["import", bot, other.to_str().unwrap()]).await
}

/// A workspace as all three have it.
fn workspace(folder: &Path) {
    put(folder, "AGENTS.md", "You are another.");
    put(folder, "memory/MEMORY.md", "- likes tea");
    put(folder, "memory/202601/20260102.md", "a day");
    put(folder, "skills/knots/SKILL.md", "---\nname: knots\n---\nTie.");
    put(folder, "skills/knots/scripts/tie.sh", "echo tie");
    put(folder, "notes.txt", "not wanted");
    put(folder, ".env", "KEY=secret-of-theirs");
}

#[tokio::test]
async fn texts_conversations_and_jobs_of_picoclaw_come_to_be_accepted() {
    let (scene, other) = scene().await;
    let inner = other.join("workspace");
    workspace(&inner);
    put(&other, "config.json", "{\"api_key\": \"secret-of-theirs\"}");
    symlink("/etc/passwd", inner.join("memory/link.md")).unwrap();
    put(
        &inner,
        "sessions/telegram_1.json",
        &json!({"key": "telegram:1", "summary": "About tea.", "messages": [
            {"role": "user", "content": "Tea?"}, {"role": "assistant", "content": "Green."},
            {"role": "tool", "content": "a result"}, {"role": "assistant", "content": ""}
        ]})
        .to_string(),
    );
    put(&inner, "sessions/cli.jsonl", "{\"role\":\"user\",\"content\":\"Hello\"}\n{\"role\":\"us");
    put(&inner, "sessions/cli.meta.json", "{\"summary\": \"A greeting.\"}");
    let every = json!({"id": "1", "name": "tea", "enabled": false,
        "schedule": {"kind": "every", "everyMs": 7_200_000},
        "payload": {"kind": "agent_turn", "message": "Don't forget the tea; rm -rf ~"}});
    let past = json!({"id": "2", "name": "past", "enabled": true,
        "schedule": {"kind": "at", "atMs": 1}, "payload": {"message": "x"}});
    put(&inner, "cron/jobs.json", &json!({"version": 1, "jobs": [every, past, 3]}).to_string());

    let ended = import(&scene, "picoclaw", &other).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    for words in [
        "Imported into downloads/imports/picoclaw/",
        "/trust downloads/imports/picoclaw/memory/MEMORY.md",
        "skills/knots/SKILL.md",
        "AGENTS.md",
        "telegram_1: 2 messages",
        "cli: 1 messages, 1 unreadable lines left out",
        "peacrab cron add --every 120m -- 'Don'\\''t forget the tea; rm -rf ~'   # it was switched off",
        "('past': its time has passed)",
        "(a job that cannot be read",
        "memory/link.md: a link",
    ] {
        assert!(ended.out.contains(words), "{words}: {}", ended.out);
    }
    let into = scene.home().join("downloads/imports/picoclaw");
    let text = |name: &str| fs::read_to_string(into.join(name)).unwrap();
    assert_eq!(text("memory/MEMORY.md"), "- likes tea");
    assert_eq!(text("skills/knots/scripts/tie.sh"), "echo tie");
    assert_eq!(
        text("sessions/telegram_1.md"),
        "Summary: About tea.\n\nuser: Tea?\n\nassistant: Green.\n\n"
    );
    assert!(text("sessions/cli.md").starts_with("Summary: A greeting."));
    for name in ["notes.txt", ".env", "config.json", "memory/link.md"] {
        assert!(!into.join(name).exists(), "{name}");
    }
    // Nothing of it is in force.
    let ours = fs::read_to_string(scene.home().join("workspace/AGENTS.md")).unwrap();
    assert!(!ours.contains("another"));
    assert!(!scene.home().join("workspace/skills/knots").exists());
    assert!(scene.run(&["cron", "list"]).await.out.contains("There are no jobs."));
    // A second import stands beside the first.
    let ended = import(&scene, "picoclaw", &other).await;
    assert!(ended.out.contains("downloads/imports/picoclaw-2/"), "{ended:?}");
}

#[tokio::test]
async fn nanobot_and_openclaw_are_known_too() {
    let (scene, other) = scene().await;
    workspace(&other.join("workspace"));
    let lines = [
        json!({"_type": "metadata", "key": "telegram:1", "last_consolidated": 0}),
        json!({"role": "user", "content": [{"type": "text", "text": "Hi"}], "timestamp": "2026-01-02T03:04:05"}),
        json!({"role": "assistant", "content": "Hello.", "tool_calls": []}),
    ];
    put(&other, "sessions/telegram_1.jsonl", &lines.map(|line| line.to_string()).join("\n"));
    let job = json!({"schedule": {"kind": "cron", "expr": "0 8 * * *", "tz": "Asia/Tokyo"}, "payload": {"message": "News"}});
    put(&other, "cron/jobs.json", &json!({"jobs": [job]}).to_string());
    let ended = import(&scene, "nanobot", &other).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.out.contains("telegram_1: 2 messages"), "{ended:?}");
    let line = "peacrab cron add --cron '0 8 * * *' --tz 'Asia/Tokyo' -- 'News'";
    assert!(ended.out.contains(line), "{ended:?}");
    // The line is one that works.
    let add = [
        "cron",
        "add",
        "--cron",
        "0 8 * * *",
        "--tz",
        "Asia/Tokyo",
        "--to",
        "terminal:main",
        "--",
        "News",
    ];
    scene.run(&["chat", "-m", "hi"]).await;
    let added = scene.run(&add).await;
    assert!(added.out.contains("Created: job 1"), "{added:?}");

    let ended = import(&scene, "openclaw", &other.join("workspace")).await;
    assert!(ended.out.contains("/trust downloads/imports/openclaw/memory/MEMORY.md"), "{ended:?}");
    assert!(!ended.out.contains("cron add"), "{ended:?}");
}

#[tokio::test]
async fn what_is_no_bot_is_refused() {
    let (scene, other) = scene().await;
    let ended = import(&scene, "nanobot", &other.join("nowhere")).await;
    assert!(ended.code == Some(1) && ended.err.contains("is not a folder"), "{ended:?}");
    let ended = import(&scene, "nanobot", &other).await;
    assert!(ended.code == Some(1) && ended.err.contains("found no data of nanobot"), "{ended:?}");
    let ended = import(&scene, "clippy", &other).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    put(&other, "sessions/x.json", "not json");
    put(&other, "cron/jobs.json", "[]");
    put(&other, "MEMORY.md", "a");
    let ended = import(&scene, "picoclaw", &other).await;
    assert!(ended.out.contains("sessions/x.json: cannot be read"), "{ended:?}");
    assert!(ended.out.contains("cron/jobs.json: cannot be read"), "{ended:?}");
}

#[test]
fn schedules_become_options() {
    let now: DateTime<Utc> = "2026-11-23T12:00:00Z".parse().unwrap();
    let line = |schedule: serde_json::Value| {
        let job = json!({"name": "n", "schedule": schedule, "payload": {"message": "m"}});
        let jobs = read_jobs(&json!({ "jobs": [job] }).to_string(), now).unwrap();
        jobs.into_iter().map(|job| job.line).collect::<String>()
    };
    let at = now.timestamp_millis() + 3_600_000;
    assert_eq!(
        line(json!({"kind": "at", "atMs": at})),
        "peacrab cron add --at '2026-11-23 13:00' --tz UTC -- 'm'"
    );
    assert_eq!(line(json!({"kind": "every", "everyMs": 1})), "peacrab cron add --every 1m -- 'm'");
    for broken in
        [json!({"kind": "every", "everyMs": 0}), json!({"kind": "cron"}), json!({"kind": "?"})]
    {
        assert_eq!(line(broken), "('n': its schedule cannot be read)");
    }
    assert_eq!(read_jobs("{}", now), None);
    assert_eq!(read_session("", None), None);
    assert_eq!(read_session("{\"role\":\"system\",\"content\":\"x\"}", None).unwrap().messages, 0);
}
