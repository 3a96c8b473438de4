//! The faults and what to do about them on terminals of 40 and 120 columns: all of it is there, and no line is too long.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::binary::{ProgramFixture, home, model_at, until};
use crate::support::bot_api::BotApi;
use crate::support::discord_api::{self, DiscordApi};
use crate::support::pty::Pty;
use crate::support::slack_api::{self, SlackApi};

/// A telephone's, and more than lines are made for.
const COLUMNS: [u16; 2] = [40, 120];

/// Begins a finding, or its advice.
const BEGINNINGS: [&str; 4] = ["ok    ", "warn  ", "WRONG ", "      to do: "];

/// The findings and their advice, each as one line with single blanks.
fn paragraphs(printed: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in printed.lines() {
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        match all.last_mut() {
            Some(last) if !BEGINNINGS.iter().any(|beginning| line.starts_with(beginning)) => {
                *last += " ";
                *last += &words;
            }
            _ => all.push(words),
        }
    }
    all
}

/// Those about faults, which are the same at each look.
fn about_faults(printed: &str) -> Vec<String> {
    let of_faults = ["WRONG", "warn", "to do:"];
    let all = paragraphs(printed).into_iter();
    all.filter(|it| of_faults.iter().any(|beginning| it.starts_with(beginning))).collect()
}

/// Returns true if a line cannot be broken: it is a path or an address, or a command between backticks.
fn is_one_piece(line: &str) -> bool {
    let mut is_in_command = false;
    line.trim().chars().all(|sign| {
        is_in_command ^= sign == '`';
        sign != ' ' || is_in_command
    })
}

#[tokio::test]
async fn faults_and_advice_fit_each_terminal_and_nothing_of_them_is_cut() {
    let (telegram, discord, slack) =
        (BotApi::start().await, DiscordApi::start().await, SlackApi::start().await);
    let backups = tempfile::tempdir().unwrap();
    let fixture = ProgramFixture::new(&format!(
        "{}[channels.guild]\ntype = \"discord\"\ntoken = \"{}\"\napi_url = \"{}\"\n\
         [channels.crew]\ntype = \"slack\"\ntoken = \"{}\"\napp_token = \"{}\"\napi_url = \"{}\"\n\
         [backup]\nto = {:?}\n{}",
        home(&telegram),
        discord_api::TOKEN,
        discord.url(),
        slack_api::BOT_TOKEN,
        slack_api::APP_TOKEN,
        slack.url(),
        backups.path(),
        model_at("main", "http://127.0.0.1:9/v1"),
    ));
    fixture.daemon().await.terminate().await;
    // Almost all that can be wrong at a time.
    fs::remove_dir_all(backups.path()).unwrap();
    fs::set_permissions(fixture.home(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(fixture.home().join("state.db"), "").unwrap();
    fs::remove_dir_all(fixture.home().join("workspace")).unwrap();
    telegram.revoke();
    discord.forbid_message_content();
    slack.take_scope("files:write");
    let ended = fixture.run(&["doctor"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let wanted = about_faults(&ended.out);
    for check in [
        "backups",
        "channel crew",
        "channel guild",
        "channel home",
        "daemon",
        "files",
        "model main",
        "store",
        "workspace",
    ] {
        let beginning = format!("WRONG {check}: ");
        let at = wanted.iter().position(|it| it.starts_with(&beginning));
        let at = at.unwrap_or_else(|| panic!("no fault of {check}:\n{}", ended.out));
        // A platform's own words say what to do.
        let has_remedy = check.starts_with("channel")
            || wanted.get(at + 1).is_some_and(|next| next.starts_with("to do: "));
        assert!(has_remedy, "nothing to do about {check}:\n{}", ended.out);
    }
    for columns in COLUMNS {
        let mut screen = Pty::begin(fixture.command(&Pty::session(), &["doctor"]), columns);
        screen.wait_for_words("service: ").await;
        assert_eq!(screen.ends().await, Some(1));
        let printed = || screen.raw().replace('\r', "");
        let is_whole = || about_faults(&printed()).len() >= wanted.len();
        until("all findings", async || is_whole().then_some(())).await;
        let raw = printed();
        assert!(!raw.contains('\x1b'), "{raw:?}");
        let is_long = |line: &&str| line.chars().count() > usize::from(columns);
        let long: Vec<_> = raw.lines().filter(is_long).filter(|line| !is_one_piece(line)).collect();
        assert!(long.is_empty(), "{columns} columns: {long:?}");
        assert_eq!(about_faults(&raw), wanted, "{columns} columns:\n{raw}");
        // What is continued stands below its beginning.
        let is_placed = |line: &str| {
            line.starts_with("      ") || BEGINNINGS.iter().any(|it| line.starts_with(it))
        };
        let misplaced: Vec<_> = raw.lines().filter(|line| !is_placed(line)).collect();
        assert!(misplaced.is_empty(), "{columns} columns: {misplaced:?}");
    }
}
