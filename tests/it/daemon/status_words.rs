//! The words of `peacrab status`, and the counts of tools and skills in all places that show them.

use chrono::{TimeDelta, Utc};
use serde_json::json;

use crate::support::binary::{ProgramFixture, home, said};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::ADA;
use crate::support::fake_daemon::{FakeDaemon, status};

#[tokio::test]
async fn status_tells_what_is_written_in_a_day_by_whom_and_when_a_platform_was_heard() {
    let fixture = ProgramFixture::new("");
    std::fs::create_dir(fixture.home()).unwrap();
    let mut shown = status(Utc::now() - TimeDelta::minutes(48 * 60 + 1));
    shown["disk"] = json!({
        "database": 5_000_000, "written_by_store": 48_000_000, "written_as_files": 24_000_000,
        "written_by_programs": 2_400_000,
    });
    let link = |up: bool, about: &str, heard: Option<i64>, trouble: Option<&str>, pending: i64| {
        json!({ "up": up, "about": about, "last_byte_s": heard, "last_event_s": heard,
                "trouble": trouble, "pending": pending })
    };
    shown["channels"] = json!({
        "crew": link(false, "", Some(900), Some("slack: no connection"), 0),
        "guild": link(false, "", None, None, 1),
        "home": link(true, "@peacrab_bot", Some(7), None, 2),
    });
    shown["mcp"] = json!({
        "files": { "up": true, "tools": 9, "trouble": null },
        "gone": { "up": false, "tools": 0, "trouble": "no such program" },
        "slow": { "up": false, "tools": 0, "trouble": null },
    });
    let fake = FakeDaemon::start(&fixture.home(), &[("status", json!({ "status": shown }))]);
    let ended = fixture.run(&["status"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{}", ended.out);
    for line in [
        "tools: 24, skills: 4, fixed prompt: about 3000 tokens",
        "database: 5.0 MB; written since the start: 48.0 MB by the store, 24.0 MB as files, 2.4 MB by commands; \
         about 37.2 MB a day: 24.0 MB by the store, 12.0 MB as files, 1.2 MB by commands",
        "channel crew: down, last heard 900 s ago: slack: no connection",
        "channel guild: connecting, 1 outgoing message",
        "channel home: up, @peacrab_bot, last heard 7 s ago, 2 outgoing messages",
        "MCP server files: up, 9 tools",
        "MCP server gone: down: no such program",
        "MCP server slow: starting",
    ] {
        assert!(ended.out.lines().any(|it| it == line), "no `{line}` in:\n{}", ended.out);
    }
    drop(fake);
    // What is written in the first hour is no measure of a day.
    let shown = json!({ "status": status(Utc::now() - TimeDelta::minutes(30)) });
    let _fake = FakeDaemon::start(&fixture.home(), &[("status", shown)]);
    let ended = fixture.run(&["status"]).await;
    assert!(ended.out.contains("written since the start: "), "{}", ended.out);
    assert!(!ended.out.contains(" a day"), "{}", ended.out);
}

#[tokio::test]
async fn the_log_and_each_status_count_the_same_tools_and_skills() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    fixture.wait_for_link().await;
    let status = fixture.status().await;
    let (tools, skills) = (status["tools"].as_u64().unwrap(), status["skills"].as_u64().unwrap());
    assert!(tools >= 20 && skills >= 1, "{status}");
    let logged = format!("tools={tools} skills={skills}");
    let log = daemon.log();
    let started = log.lines().find(|line| line.contains("Started")).unwrap();
    assert!(started.contains(&logged), "no `{logged}` in {started}");
    let words = fixture.run(&["status"]).await.out;
    let counted = format!("\ntools: {tools}, skills: {skills}, fixed prompt: about ");
    assert!(words.contains(&counted), "{words}");
    let channel = words.lines().find(|line| line.starts_with("channel home: up, @peacrab_bot, "));
    assert!(channel.is_some_and(|line| line.contains(", last heard ")), "{words}");
    api.say(&said(&ADA, "/status"));
    let shown = api.wait_for_words(ADA.id, "idle here").await.text;
    let line = shown.lines().find(|line| line.starts_with("Tools: ")).unwrap_or_default();
    // Some are for tasks alone.
    let offered: u64 = line.split(' ').nth(1).unwrap().parse().unwrap();
    assert!((20..=tools).contains(&offered), "{tools}: {shown}");
    assert!(line.ends_with(&format!("; skills: {skills}")), "{shown}");
    daemon.terminate().await;
}
