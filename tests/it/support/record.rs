//! Writes down what the stand-ins receive, for judges that know the platforms' published schemas.

use std::fs::OpenOptions;
use std::io::Write;

use serde_json::{Value, json};

/// Appends a request to the file that `PEACRAB_RECORD` names, as one line of JSON.
#[expect(clippy::disallowed_methods, reason = "the tests have no config")]
pub(crate) fn record(platform: &str, method: &str, path: &str, body: &Value) {
    let Ok(file) = std::env::var("PEACRAB_RECORD") else { return };
    let line = json!({ "platform": platform, "method": method, "path": path, "body": body });
    let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}
