//! Writes down what the fakes were sent, so that it can be held against what the vendors publish.

use std::fs::OpenOptions;
use std::io::Write as _;

use serde_json::{Value, json};

/// Appends the request as one line of JSON to the file that `PEACRAB_RECORD` names, if it does.
#[expect(clippy::disallowed_methods, reason = "a switch of the tests alone, not of what ships")]
pub(crate) fn record(platform: &str, method: &str, path: &str, body: &Value) {
    let Some(file) = std::env::var_os("PEACRAB_RECORD") else { return };
    let request = json!({"platform": platform, "method": method, "path": path, "body": body});
    let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
    // One write, as tests run beside each other.
    file.write_all(format!("{request}\n").as_bytes()).unwrap();
}
