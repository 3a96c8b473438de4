//! A stand-in for the daemon of a home: it answers requests over the control socket as the test wants it, for states
//! that a real one is in only after hours, or in another version.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use chrono::{DateTime, Utc};
use peacrab::control;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

/// The running stand-in; it ends when dropped.
pub(crate) struct FakeDaemon {
    _serving: JoinSet<()>,
}

impl FakeDaemon {
    /// Answers in a home that exists. Each request gets the answer of its verb, and others a refusal.
    pub(crate) fn start(home: &Path, answers: &[(&'static str, Value)]) -> Self {
        let listener = control::bind(home).unwrap();
        let answers: BTreeMap<&'static str, Value> = answers.iter().cloned().collect();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // One that only looks if somebody listens asks nothing.
                answer(stream, &answers).await.ok();
            }
        });
        Self { _serving: serving }
    }
}

async fn answer(stream: UnixStream, answers: &BTreeMap<&'static str, Value>) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let Some(line) = BufReader::new(read).lines().next_line().await? else { return Ok(()) };
    let request: Value = serde_json::from_str(&line)?;
    let verb = request["verb"].as_str().unwrap_or_default();
    let unknown = || json!({ "failed": "cannot read the request" });
    let answer = answers.get(verb).cloned().unwrap_or_else(unknown);
    write.write_all(format!("{answer}\n").as_bytes()).await
}

/// The status of a daemon that is well and does nothing, as it is in the answer to `status`.
pub(crate) fn status(since: DateTime<Utc>) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"), "home": "/home", "pid": 42, "since": since,
        "provider": "main (pea-1)", "tools": 24, "skills": 4, "prompt_tokens": 3000,
        "turns_running": 0, "waiting": 0, "tokens_30_days": 7, "channels": {},
    })
}
