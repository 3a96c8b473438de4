//! `peacrab import`: texts, conversations and jobs of other bots come as untrusted content, and nothing of them acts.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use peacrab::cli::import::formats::{read_jobs, read_session};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use crate::support::binary::{Ended, ProgramFixture};

fn put(folder: &Path, name: &str, text: &str) {
    let file = folder.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

async fn fixture() -> (ProgramFixture, PathBuf) {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let other = fixture.folder().join("other");
    fs::create_dir(&other).unwrap();
    (fixture, other)
}

async fn import(fixture: &ProgramFixture, bot: &str, other: &Path) -> Ended {
    fixture.run(&["import", bot, other.to_str().unwrap()]).await
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
    let (fixture, other) = fixture().await;
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

    let ended = import(&fixture, "picoclaw", &other).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    for words in [
        "Imported into downloads/imports/picoclaw/",
        "/trust downloads/imports/picoclaw/memory/MEMORY.md",
        "skills/knots/SKILL.md",
        "AGENTS.md",
        "telegram_1: 2 messages",
        "cli: 1 messages, 1 unreadable lines left out",
        " --home ",
        " cron add --every 120m -- 'Don'\\''t forget the tea; rm -rf ~'   # it was switched off",
        "('past': its time has passed)",
        "(a job that cannot be read",
        "memory/link.md: a link",
    ] {
        assert!(ended.out.contains(words), "{words}: {}", ended.out);
    }
    let into = fixture.home().join("downloads/imports/picoclaw");
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
    let ours = fs::read_to_string(fixture.home().join("workspace/AGENTS.md")).unwrap();
    assert!(!ours.contains("another"));
    assert!(!fixture.home().join("workspace/skills/knots").exists());
    assert!(fixture.run(&["cron", "list"]).await.out.contains("There are no jobs."));
    // A second import stands beside the first.
    let ended = import(&fixture, "picoclaw", &other).await;
    assert!(ended.out.contains("downloads/imports/picoclaw-2/"), "{ended:?}");
}

/// Imports with a bound of the size of files, above which this process is killed, or its write fails.
async fn import_bounded(fixture: &ProgramFixture, other: &Path, is_killed: bool) -> Ended {
    let trap = if is_killed { "" } else { "trap '' XFSZ; " };
    let shell = format!("{trap}ulimit -c 0; ulimit -f 16; exec \"$@\"");
    let wrapper = ["/bin/sh", "-c", shell.as_str(), "sh"].map(OsStr::new);
    let command = fixture.command(&wrapper, &["import", "openclaw", other.to_str().unwrap()]);
    fixture.run_with(command, "").await
}

#[tokio::test]
async fn an_import_that_is_cut_off_leaves_nothing_that_looks_whole() {
    let (fixture, other) = fixture().await;
    put(&other, "memory/a.md", "short");
    put(&other, "memory/b.md", &"long ".repeat(20_000));
    let imports = fixture.home().join("downloads/imports");
    let names = || -> Vec<String> {
        let names = fs::read_dir(&imports).unwrap().map(|it| it.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    };
    let ended = import_bounded(&fixture, &other, false).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("cannot write to "), "{ended:?}");
    assert_eq!(names(), Vec::<String>::new());
    let ended = import_bounded(&fixture, &other, true).await;
    assert_eq!(ended.code, None, "{ended:?}");
    assert_eq!(names(), ["openclaw.partial"]);
    let ended = import(&fixture, "openclaw", &other).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(names(), ["openclaw"]);
    assert!(imports.join("openclaw/memory/b.md").exists());
}

#[tokio::test]
async fn nanobot_and_openclaw_are_known_too() {
    let (fixture, other) = fixture().await;
    workspace(&other.join("workspace"));
    let lines = [
        json!({"_type": "metadata", "key": "telegram:1", "last_consolidated": 0}),
        json!({"role": "user", "content": [{"type": "text", "text": "Hi"}], "timestamp": "2026-01-02T03:04:05"}),
        json!({"role": "assistant", "content": "Hello.", "tool_calls": []}),
    ];
    put(&other, "sessions/telegram_1.jsonl", &lines.map(|line| line.to_string()).join("\n"));
    let job = json!({"schedule": {"kind": "cron", "expr": "0 8 * * *", "tz": "Asia/Tokyo"}, "payload": {"message": "News"}});
    put(&other, "cron/jobs.json", &json!({"jobs": [job]}).to_string());
    let ended = import(&fixture, "nanobot", &other).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.out.contains("telegram_1: 2 messages"), "{ended:?}");
    let line = " cron add --cron '0 8 * * *' --tz 'Asia/Tokyo' -- 'News'";
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
    fixture.run(&["chat", "-m", "hi"]).await;
    let added = fixture.run(&add).await;
    assert!(added.out.contains("Created: job 1"), "{added:?}");

    let ended = import(&fixture, "openclaw", &other.join("workspace")).await;
    assert!(ended.out.contains("/trust downloads/imports/openclaw/memory/MEMORY.md"), "{ended:?}");
    assert!(!ended.out.contains("cron add"), "{ended:?}");
}

#[tokio::test]
async fn what_is_left_out_is_named() {
    let (fixture, other) = fixture().await;
    workspace(&other.join("workspace"));
    let inner = other.join("workspace");
    put(&inner, "memory/history.jsonl", "{}");
    put(&inner, "memory/a\nb.md", "two lines");
    put(&inner, "memory/a\tb.md", "the same name");
    put(&inner, "media/picture.png", "");
    put(&other, "skills/shared/SKILL.md", "---\nname: shared\n---\nx");
    put(&other, "config.json", "{}");
    put(&other, "sessions/notes.txt", "x");
    // Root reads files whatever their permissions are, but not one that is too large or of another kind.
    fs::create_dir(inner.join("skills/knots/socket")).unwrap();
    std::os::unix::net::UnixListener::bind(inner.join("skills/knots/socket/s")).unwrap();
    let secret = inner.join("memory/shut.md");
    put(&inner, "memory/shut.md", "shut");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o0)).unwrap();
    let is_readable = fs::read(&secret).is_ok();

    let ended = import(&fixture, "nanobot", &other).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let root = other.display();
    for line in [
        "- memory/history.jsonl: not imported".to_owned(),
        "- media: not imported".to_owned(),
        "- notes.txt: not imported".to_owned(),
        "- skills/knots/socket/s: not imported".to_owned(),
        "- sessions/notes.txt: not imported".to_owned(),
        format!("- {root}/skills: not imported"),
        format!("- {root}/config.json: not imported"),
        "- memory/a_b.md: another file has this name".to_owned(),
        "- /trust downloads/imports/nanobot/memory/a_b.md".to_owned(),
    ] {
        assert!(ended.out.lines().any(|it| it == line), "{line}: {}", ended.out);
    }
    if !is_readable {
        assert!(ended.out.contains("- memory/shut.md: cannot be read: "), "{}", ended.out);
    }
    assert!(!ended.out.contains("KEY") && !ended.out.contains(".env"), "{}", ended.out);

    // What has no known conversations and jobs has them named.
    let ended = import(&fixture, "openclaw", &other).await;
    assert!(ended.out.contains(&format!("- {root}/sessions: not imported")), "{}", ended.out);
    // Many are counted.
    for number in 0..150 {
        put(&inner, &format!("other-{number}/x"), "");
    }
    let ended = import(&fixture, "nanobot", &other).await;
    assert_eq!(ended.out.matches(": not imported").count(), 100, "{}", ended.out);
    assert!(ended.out.lines().any(|it| it.starts_with("- and ") && it.ends_with(" more")));
}

#[tokio::test]
async fn a_link_that_a_command_planted_leads_no_import_elsewhere() {
    let (fixture, other) = fixture().await;
    put(&other, "SKILL.md", "---\nname: openclaw\ndescription: For everything.\n---\nObey.");
    put(&other, "AGENTS.md", "Obey.");
    let imports = fixture.home().join("downloads/imports");
    let outside = fixture.folder().join("outside");
    fs::create_dir(&outside).unwrap();
    for (target, reached) in [
        (PathBuf::from("../workspace/skills"), fixture.home().join("workspace/skills/openclaw")),
        (PathBuf::from("../workspace"), fixture.home().join("workspace/openclaw")),
        (outside.clone(), outside.join("openclaw")),
        // The link leads nowhere yet.
        (outside.join("new"), outside.join("new")),
    ] {
        symlink(&target, &imports).unwrap();
        let ended = import(&fixture, "openclaw", &other).await;
        assert!(!reached.exists(), "{}", target.display());
        assert!(ended.out.contains("Imported into downloads/imports_2/openclaw"), "{ended:?}");
        fs::remove_file(&imports).unwrap();
    }
    // A link as the folder of this import.
    fs::create_dir(&imports).unwrap();
    symlink(outside.join("new"), imports.join("openclaw")).unwrap();
    let ended = import(&fixture, "openclaw", &other).await;
    assert!(ended.out.contains("Imported into downloads/imports/openclaw-2/"), "{ended:?}");
    assert!(imports.join("openclaw-2/SKILL.md").exists() && !outside.join("new").exists());
}

#[tokio::test]
async fn links_and_pipes_of_the_other_bot_are_not_read() {
    let (fixture, other) = fixture().await;
    let private = fixture.folder().join("private");
    put(&private, "diary.md", "private");
    put(&private, "s.json", "{\"messages\":[{\"role\":\"user\",\"content\":\"private\"}]}");
    put(&private, "jobs.json", "{\"jobs\":[]}");
    put(&other, "MEMORY.md", "- likes tea");
    for name in ["workspace", "sessions", "cron"] {
        symlink(&private, other.join(name)).unwrap();
    }
    let ended = import(&fixture, "nanobot", &other).await;
    for name in ["workspace", "sessions", "cron"] {
        assert!(ended.out.lines().any(|it| it == format!("- {name}: a link")), "{ended:?}");
    }
    let into = fixture.home().join("downloads/imports/nanobot");
    assert!(into.join("MEMORY.md").exists());
    assert!(!into.join("diary.md").exists() && !into.join("sessions").exists());

    for name in ["workspace", "sessions", "cron"] {
        fs::remove_file(other.join(name)).unwrap();
    }
    // As for a process that waits for what never comes.
    let pipe = |name: &str| {
        fs::create_dir_all(other.join(name).parent().unwrap()).unwrap();
        mknodat(CWD, other.join(name), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    };
    pipe("cron/jobs.json");
    pipe("sessions/x.meta.json");
    pipe("sessions/y.json");
    put(&other, "sessions/x.json", "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}");
    symlink(private.join("s.json"), other.join("sessions/z.json")).unwrap();
    let ended = import(&fixture, "nanobot", &other).await;
    for line in [
        "- cron/jobs.json: not a file",
        "- sessions/x.meta.json: not a file",
        "- sessions/y.json: not a file",
        "- sessions/z.json: a link",
        "- x: 1 messages",
    ] {
        assert!(ended.out.lines().any(|it| it == line), "{line}: {}", ended.out);
    }

    fs::remove_file(other.join("cron/jobs.json")).unwrap();
    symlink(private.join("jobs.json"), other.join("cron/jobs.json")).unwrap();
    fs::remove_file(other.join("sessions/x.meta.json")).unwrap();
    let large = fs::File::create(other.join("sessions/x.meta.json")).unwrap();
    large.set_len(1 << 33).unwrap();
    let ended = import(&fixture, "nanobot", &other).await;
    for line in ["- cron/jobs.json: a link", "- sessions/x.meta.json: too large"] {
        assert!(ended.out.lines().any(|it| it == line), "{line}: {}", ended.out);
    }
}

#[tokio::test]
async fn a_conversation_takes_no_memory_for_what_is_no_text() {
    let (fixture, other) = fixture().await;
    let hello = json!({"role": "user", "content": "Hello"});
    let numbers = "1,".repeat(8 << 20);
    put(&other, "sessions/a.json", &format!("{{\"messages\":[{numbers}{hello}]}}"));
    let parts = format!("{{\"role\":\"user\",\"content\":[{numbers}{{\"text\":\"Hi\"}}]}}");
    put(&other, "sessions/b.jsonl", &format!("{parts}\n{hello}\n"));
    let limited = ["/bin/sh", "-c", "ulimit -v 700000; exec \"$@\"", "sh"].map(OsStr::new);
    let command = fixture.command(&limited, &["import", "nanobot", other.to_str().unwrap()]);
    let ended = fixture.run_with(command, "").await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let into = fixture.home().join("downloads/imports/nanobot/sessions");
    assert_eq!(fs::read_to_string(into.join("a.md")).unwrap(), "user: Hello\n\n");
    assert_eq!(fs::read_to_string(into.join("b.md")).unwrap(), "user: Hi\n\nuser: Hello\n\n");
}

#[test]
fn a_conversation_of_any_shape_is_read() {
    let read = |text: &str| read_session(text, None).map(|it| (it.text, it.messages, it.skipped));
    let parts = json!([1, {"text": "a"}, {"text": 2}, {"text": "b"}, "c"]);
    let messages = json!([null, true, 1.5, "x", [{"role": "user"}], {"role": ["user"]},
        {"role": "user", "content": {"text": "no"}}, {"role": "user", "content": parts, "timestamp": 1},
        {"role": "assistant", "content": "d", "timestamp": "noon", "tool": {"role": "user"}}]);
    let text = "user: a\nb\n\nassistant (noon): d\n\n";
    let whole = json!({"messages": messages, "summary": "S", "more": {"messages": []}});
    let expected = (format!("Summary: S\n\n{text}"), 2, 0);
    assert_eq!(read(&whole.to_string()), Some(expected));
    let lines: Vec<_> = messages.as_array().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(read(&lines.join("\n")), Some((text.to_owned(), 2, 0)));
    assert_eq!(read("{\"messages\": 1}\n{"), Some((String::new(), 0, 1)));
    for text in ["", "{", &"[".repeat(1_000)] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[tokio::test]
async fn configs_keys_and_files_with_a_second_name_are_left_out() {
    let (fixture, other) = fixture().await;
    workspace(&other);
    let left_out = [
        "config.json",
        "Config.prod.YAML",
        "service-account.json",
        "credentials",
        "id_rsa",
        "id_ed25519.pub",
        "key.pem",
        "prod.env",
    ];
    for name in left_out {
        put(&other, &format!("skills/knots/{name}"), "secret-of-theirs");
    }
    put(&other, "skills/knots/configure.sh", "echo");
    put(&other, "skills/knots/id_of_knots.py", "print()");
    put(fixture.folder(), "secret.md", "secret-of-theirs");
    for name in ["hard.md", "skills/knots/hard.txt", "sessions/hard.json"] {
        fs::create_dir_all(other.join(name).parent().unwrap()).unwrap();
        fs::hard_link(fixture.folder().join("secret.md"), other.join(name)).unwrap();
    }
    let deep = format!("memory/{}x.md", "d/".repeat(9));
    put(&other, &deep, "deep");
    // The bot has changed to lines, and left the former file behind.
    put(&other, "sessions/a.json", "{\"messages\":[{\"role\":\"user\",\"content\":\"Before\"}]}");
    put(&other, "sessions/none.json", "{\"messages\":[]}");
    put(&other, "sessions/a.jsonl", "{\"role\":\"user\",\"content\":\"Hi\"}");
    symlink("/etc/passwd", other.join("sessions/a.meta.json")).unwrap();

    let ended = import(&fixture, "nanobot", &other).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut lines: Vec<_> =
        left_out.iter().map(|name| format!("- skills/knots/{name}: a config or a key")).collect();
    for name in ["hard.md", "skills/knots/hard.txt", "sessions/hard.json"] {
        lines.push(format!("- {name}: has a second name"));
    }
    lines.push(format!("- memory{}: too deep", "/d".repeat(8)));
    lines.push("- sessions/a.meta.json: a link".to_owned());
    lines.push("- sessions/a.json: a.jsonl was imported".to_owned());
    lines.push("- sessions/none.json: has no messages".to_owned());
    for line in lines {
        let count = ended.out.lines().filter(|it| *it == line).count();
        assert_eq!(count, 1, "{line}: {}", ended.out);
    }
    let into = fixture.home().join("downloads/imports/nanobot");
    for name in ["configure.sh", "id_of_knots.py", "SKILL.md"] {
        assert!(into.join("skills/knots").join(name).exists(), "{name}");
    }
    assert!(!into.join("hard.md").exists() && !into.join("skills/knots/key.pem").exists());
    assert_eq!(fs::read_to_string(into.join("sessions/a.md")).unwrap(), "user: Hi\n\n");
    // Where the lines cannot be read, the former file is better than nothing.
    put(&other, "sessions/a.jsonl", "{");
    let ended = import(&fixture, "nanobot", &other).await;
    assert!(ended.out.contains("- sessions/a.jsonl: cannot be read\n"), "{ended:?}");
    let into = fixture.home().join("downloads/imports/nanobot-2");
    assert_eq!(fs::read_to_string(into.join("sessions/a.md")).unwrap(), "user: Before\n\n");
}

#[test]
fn nothing_is_hidden_in_a_proposed_line() {
    let now: DateTime<Utc> = "2026-11-23T12:00:00Z".parse().unwrap();
    let every = json!({"kind": "every", "everyMs": 60_000});
    let jobs = json!([
        {"name": "a", "schedule": every, "payload": {"message": "a\u{202e}b\u{85}c'd"}},
        {"name": "\u{202e}b", "schedule": {"kind": "?"}, "payload": {}},
        {"name": "c", "schedule": {"kind": "cron", "expr": "\u{202e}"}, "payload": {"message": "m"}},
        {"name": "d", "schedule": "\u{202e}"},
    ]);
    let jobs = read_jobs(&json!({ "jobs": jobs }).to_string(), now).unwrap();
    let line = r"peacrab cron add --every 1m -- $'a\342\200\256b\302\205c\'d'";
    assert_eq!(jobs[0].line, line);
    for job in &jobs {
        assert!(!job.line.contains(['\u{202e}', '\u{85}']), "{}", job.line);
    }
}

#[tokio::test]
async fn a_line_that_is_no_utf8_costs_only_itself() {
    let (fixture, other) = fixture().await;
    let line = |text: &str| json!({"role": "user", "content": text}).to_string().into_bytes();
    let broken = b"{\"role\": \"user\", \"content\": \"\xff\"}".to_vec();
    let lines: [&[u8]; 7] =
        [b"\xef\xbb\xbf", &line("One"), b"\n", &broken, b"\n", &line("Two"), b"\n"];
    put(&other, "sessions/a.jsonl", "");
    fs::write(other.join("sessions/a.jsonl"), lines.concat()).unwrap();
    let marked = format!("\u{feff}{}", json!({"jobs": [{"name": "a", "schedule": 3}, 4]}));
    put(&other, "cron/jobs.json", &marked);
    let ended = import(&fixture, "nanobot", &other).await;
    for words in [
        "a: 2 messages, 1 unreadable lines left out",
        "(a job that cannot be read: its `schedule` is missing or of an unknown form)",
        "(a job that cannot be read: it is no object of JSON)",
    ] {
        assert!(ended.out.contains(words), "{words}: {ended:?}");
    }
    let text = fixture.home().join("downloads/imports/nanobot/sessions/a.md");
    assert_eq!(fs::read_to_string(text).unwrap(), "user: One\n\nuser: Two\n\n");
}

#[tokio::test]
async fn what_is_no_bot_is_refused() {
    let (fixture, other) = fixture().await;
    let ended = import(&fixture, "nanobot", &other.join("nowhere")).await;
    assert!(ended.code == Some(1) && ended.err.contains("is not a folder"), "{ended:?}");
    let ended = import(&fixture, "nanobot", &other).await;
    assert!(ended.code == Some(1) && ended.err.contains("found no data of nanobot"), "{ended:?}");
    let ended = import(&fixture, "clippy", &other).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    put(&other, "sessions/x.json", "not json");
    put(&other, "cron/jobs.json", "[]");
    put(&other, "MEMORY.md", "a");
    let ended = import(&fixture, "picoclaw", &other).await;
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
    assert_eq!(
        line(json!({"kind": "every", "everyMs": 30_000})),
        "peacrab cron add --every 1m -- 'm'   # it ran every 30000 ms, and jobs run at most once a minute"
    );
    assert_eq!(
        line(json!({"kind": "every", "everyMs": 90_000})),
        "peacrab cron add --every 90s -- 'm'"
    );
    // Lines that `cron add` refuses are not proposed.
    let bounds = "('n': The interval must be from one minute to 366 days.)";
    assert_eq!(line(json!({"kind": "every", "everyMs": 40_000_000_000_i64})), bounds);
    assert_eq!(line(json!({"kind": "cron", "expr": "*/30 * * * * *"})), bounds);
    let unclear = line(json!({"kind": "cron", "expr": "0 9 * * * * 2027"}));
    assert!(unclear.starts_with("('n': ") && !unclear.contains("cron add"), "{unclear}");
    let daily = json!({"kind": "cron", "expr": "30 0 9 * * *"});
    assert_eq!(line(daily), "peacrab cron add --cron '30 0 9 * * *' -- 'm'");
    for broken in
        [json!({"kind": "every", "everyMs": 0}), json!({"kind": "cron"}), json!({"kind": "?"})]
    {
        assert_eq!(line(broken), "('n': its schedule cannot be read)");
    }
    // A second line would look like one of the report.
    let two = json!({"name": "a\nb", "schedule": {"kind": "every", "everyMs": 60_000},
        "payload": {"message": "it's\n- peacrab cron add x"}});
    let jobs = read_jobs(&json!({ "jobs": [two] }).to_string(), now).unwrap();
    assert_eq!(jobs[0].line, r"peacrab cron add --every 1m -- $'it\'s\n- peacrab cron add x'");
    assert_eq!(read_jobs("{}", now), None);
    assert_eq!(read_session("", None), None);
    assert_eq!(read_session("{\"role\":\"system\",\"content\":\"x\"}", None).unwrap().messages, 0);
}
