//! `peacrab cron`: jobs from the command line, through the daemon that runs.

use crate::support::binary::{Ended, ProgramFixture, home_at};

const TOKEN: &str = "4242:AAAA-this-is-a-token-of-the-right-length";

fn config() -> String {
    format!("[agent]\ntimezone = \"Europe/Berlin\"\n\n{}", home_at("http://127.0.0.1:9", TOKEN))
}

async fn done(fixture: &ProgramFixture, args: &[&str]) -> String {
    let ended = fixture.run(args).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
    ended.out.trim_end().to_owned()
}

async fn refused(fixture: &ProgramFixture, args: &[&str], words: &str) {
    let ended: Ended = fixture.run(args).await;
    assert!(ended.code != Some(0) && ended.err.contains(words), "{args:?}: {ended:?}");
}

#[tokio::test]
async fn jobs_are_made_changed_run_and_removed_from_the_command_line() {
    let fixture = ProgramFixture::new(&config());
    let daemon = fixture.daemon().await;
    assert_eq!(done(&fixture, &["cron", "list"]).await, "There are no jobs.");
    refused(&fixture, &["cron", "add", "--at", "20m", "x"], "Where to").await;
    // The owner was there, in private: the job works on the owner's own files.
    done(&fixture, &["chat", "-m", "hi"]).await;
    let tea = ["cron", "add", "--every", "2h", "--message", "--to", "terminal:main", "Tea."];
    assert!(done(&fixture, &tea).await.starts_with("Created: job 1, every 2h, next "));
    let weather = "append crab to tide.md";
    let add = ["cron", "add", "--cron", "30 7 * * 1-5", "--to", "terminal:main", weather];
    assert!(done(&fixture, &add).await.starts_with("Created: job 2, cron 30 7 * * 1-5, next "));
    let add =
        ["cron", "add", "--at", "tomorrow 8:00", "--tz", "Asia/Tokyo", "--to", "terminal:a", "x"];
    assert!(done(&fixture, &add).await.starts_with("Created: job 3, once, "));
    let listed = done(&fixture, &["cron", "list"]).await;
    assert!(
        listed.lines().count() == 3 && listed.contains("2, cron 30 7 * * 1-5, next "),
        "{listed}"
    );
    refused(&fixture, &["cron", "add", "--at", "20m", "--to", "a_*b:1", "x"], "no channel a_*b")
        .await;
    assert!(done(&fixture, &["cron", "show", "2"]).await.ends_with(weather));
    assert_eq!(
        done(&fixture, &["cron", "pause", "1"]).await,
        "Job 1 is paused. Use /jobs resume 1 to resume it."
    );
    let edit = ["cron", "edit", "1", "--every", "3h", "--text", "Coffee."];
    assert!(done(&fixture, &edit).await.starts_with("Changed: job 1, every 3h, paused"));
    assert!(done(&fixture, &["cron", "resume", "1"]).await.contains("job 1, every 3h, next"));
    assert_eq!(done(&fixture, &["cron", "run", "1"]).await, "Job 1 is starting now.");
    assert_eq!(done(&fixture, &["cron", "run", "2"]).await, "Job 2 is starting now.");
    // What came of both is told where somebody sits down.
    let told = done(&fixture, &["chat", "-m", "hello"]).await;
    assert!(told.contains("Coffee."), "{told}");
    for (job, state) in [("1", " done"), ("2", " done: ")] {
        let history = loop {
            let history = done(&fixture, &["cron", "history", job]).await;
            if !history.contains(" running") && !history.contains("not run yet") {
                break history;
            }
        };
        assert!(history.contains(state), "{history}");
    }
    let tide = std::fs::read_to_string(fixture.home().join("workspace/tide.md")).unwrap();
    assert_eq!(tide, "crab\n");
    assert_eq!(done(&fixture, &["cron", "rm", "3"]).await, "Job 3 has been removed.");

    refused(&fixture, &["cron", "add", "x"], "When?").await;
    refused(&fixture, &["cron", "add", "--at", "20m", "--to", "sea:1", "x"], "no channel sea")
        .await;
    refused(&fixture, &["cron", "add", "--at", "20m", "--to", "sea", "x"], "not an address").await;
    refused(&fixture, &["cron", "add", "--at", "1h", "--every", "1h", "x"], "cannot be used with")
        .await;
    refused(
        &fixture,
        &["cron", "add", "--every", "1s", "--to", "terminal:a", "x"],
        "from one minute to",
    )
    .await;
    refused(&fixture, &["cron", "rm", "3"], "There is no job 3").await;
    refused(&fixture, &["cron", "edit", "1"], "There is nothing to change").await;

    daemon.terminate().await;
    // Without a daemon, jobs can be read and changed all the same.
    assert_eq!(done(&fixture, &["cron", "list"]).await.lines().count(), 2);
    assert!(done(&fixture, &["cron", "history", "1"]).await.contains(" done"));
    assert_eq!(done(&fixture, &["cron", "rm", "1"]).await, "Job 1 has been removed.");
    assert_eq!(done(&fixture, &["cron", "list"]).await.lines().count(), 1);
}

#[tokio::test]
async fn a_home_in_which_nothing_has_run_has_no_jobs() {
    let fixture = ProgramFixture::new(&config());
    refused(&fixture, &["cron", "list"], "there is no data in this home yet").await;
    assert!(!fixture.home().exists());
}
