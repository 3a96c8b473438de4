//! What the kernel sees: the write-ahead log is on the disk before Telegram hears that a message
//! has arrived, and before an answer is sent.

use std::ffi::OsStr;
use std::fs;
use std::process::Stdio;

use crate::support::binary::{ProgramFixture, home, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::ADA;

/// A call as strace writes it down: where it began and where it ended, in lines.
#[derive(Debug)]
struct Call {
    began: usize,
    ended: usize,
    text: String,
}

#[tokio::test]
async fn what_is_acknowledged_or_sent_is_on_the_disk_before() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let trace = fixture.folder().join("trace");
    if !can_trace().await {
        print_skipped();
        return;
    }
    let calls = "trace=fdatasync,fsync,sendto,write,writev,sendmsg,recvfrom,read";
    // With -D the daemon is our child, and strace is its.
    let wrapper: Vec<&OsStr> = ["strace", "-D", "-f", "-y", "-e", calls, "-s", "3000", "-o"]
        .into_iter()
        .map(OsStr::new)
        .chain([trace.as_os_str(), OsStr::new("--")])
        .collect();
    let mut command = fixture.command(&wrapper, &["run"]);
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let daemon = fixture.begin(command);
    until("the daemon to start", async || daemon.log().contains("Started").then_some(())).await;
    api.wait_for_calls("getUpdates", 1).await;
    api.say(&said(&ADA, "a pea crab"));
    api.wait_for_words(ADA.id, "You said: a pea crab").await;
    api.wait_for_confirmed().await;
    daemon.terminate().await;
    let written = || fs::read_to_string(&trace).unwrap_or_default();
    // What the test looks at was written long before the first exit.
    let calls = until("the trace", async || {
        let written = written();
        written.contains("+++ exited with").then(|| read(&written))
    })
    .await;
    let first = |what: &str, fits: &dyn Fn(&Call) -> bool| {
        calls.iter().find(|call| fits(call)).unwrap_or_else(|| panic!("no {what}: {calls:#?}"))
    };
    let is_send = |call: &Call, words: &[&str]| {
        !call.text.contains("recvfrom(") && words.iter().all(|word| call.text.contains(word))
    };
    let heard = first("update", &|call| {
        call.text.contains("recvfrom(") && call.text.contains("a pea crab")
    });
    let confirms = first("confirmation", &|call| {
        is_send(call, &["POST", "/GetUpdates"]) && call.text.contains("\\\"offset\\\":901")
    });
    let sends = first("send", &|call| is_send(call, &["POST", "/SendMessage", "a pea crab"]));
    let synced = |until: &Call| {
        let within =
            |call: &&Call| is_sync(call) && call.began > heard.ended && call.ended < until.began;
        calls.iter().filter(within).count()
    };
    assert!(synced(confirms) >= 1, "confirmed before it was on the disk: {calls:#?}");
    // The message, and then its answer together with that it is being sent.
    assert!(synced(sends) >= 2, "sent before it was on the disk: {calls:#?}");
}

fn is_sync(call: &Call) -> bool {
    call.text.contains("sync(") && call.text.contains("state.db-wal")
}

#[expect(clippy::disallowed_methods, reason = "asks whether this machine lets us trace")]
async fn can_trace() -> bool {
    let mut strace = tokio::process::Command::new("strace");
    strace.args(["-f", "-o", "/dev/null", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    strace.status().await.is_ok_and(|status| status.success())
}

#[expect(clippy::print_stderr, reason = "who reads the tests' output must see it")]
fn print_skipped() {
    eprintln!("skipped: strace cannot be run here");
}

/// Reads `PID CALL(…) = …`, and joins `PID CALL(… <unfinished ...>` with its
/// `PID <... CALL resumed>…`.
fn read(trace: &str) -> Vec<Call> {
    let mut calls: Vec<(String, Call)> = Vec::new();
    for (at, line) in trace.lines().enumerate() {
        let Some((pid, text)) = line.trim_start().split_once(' ') else { continue };
        let text = text.trim_start();
        if text.starts_with("<...") {
            if let Some((_, open)) = calls.iter_mut().rev().find(|(other, _)| other == pid) {
                open.ended = at;
                open.text += text;
            }
        } else {
            // Until it is resumed, it has not ended.
            let ended = if text.contains("<unfinished ...>") { usize::MAX } else { at };
            calls.push((pid.to_owned(), Call { began: at, ended, text: text.to_owned() }));
        }
    }
    calls.into_iter().map(|(_, call)| call).collect()
}
