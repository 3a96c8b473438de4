//! Long work on a terminal, and the results of commands for scripts.

use std::fs;
use std::time::{Duration, Instant};

use peacrab::cli::progress::ProgressText;
use serde_json::Value;

use crate::support::binary::{Ended, ProgramFixture};

#[test]
fn long_work_tells_once_a_second_how_far_it_is() {
    let begun = Instant::now();
    let after = |millis| begun + Duration::from_millis(millis);
    let mut line = ProgressText::new("Restoring", Some(8_000_000), begun);
    assert_eq!(line.add(1_000_000, after(500)), None, "quick work shows nothing");
    assert_eq!(line.add(1_500_000, after(1_000)).as_deref(), Some("Restoring: 2 of 8 MB"));
    assert_eq!(line.add(1_000_000, after(1_999)), None);
    // More than there was at first.
    assert_eq!(line.add(6_500_000, after(2_000)).as_deref(), Some("Restoring: 10 of 10 MB"));
    let mut line = ProgressText::new("Backing up", None, begun);
    assert_eq!(line.add(7_000_000, after(1_500)).as_deref(), Some("Backing up: 7 MB"));
}

fn json(ended: &Ended) -> Value {
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

#[tokio::test]
async fn scripts_read_the_results_of_backup_restore_and_import() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let file = fixture.folder().join("kept.tar.gz");
    let path = file.to_str().unwrap();
    let made = json(&fixture.run(&["backup", path, "--json"]).await);
    assert_eq!(made["file"], path);
    assert_eq!(made["bytes"], fs::metadata(&file).unwrap().len());
    assert!(made["files"].as_u64().unwrap() > 5, "{made}");
    let restored = json(&fixture.run(&["restore", path, "--replace", "--json"]).await);
    let before = restored["before"].as_str().unwrap();
    assert!(fs::exists(format!("{before}/state.db")).unwrap(), "{restored}");
    assert!(restored["pending"].as_str().unwrap().contains("no pending work"), "{restored}");

    let other = fixture.folder().join("picoclaw");
    fs::create_dir_all(other.join("workspace/memory")).unwrap();
    fs::write(other.join("workspace/memory/MEMORY.md"), "Ada likes tea.").unwrap();
    let imported =
        json(&fixture.run(&["import", "picoclaw", other.to_str().unwrap(), "--json"]).await);
    assert_eq!(imported["memory"], serde_json::json!(["memory/MEMORY.md"]));
    let folder = imported["folder"].as_str().unwrap();
    assert!(fs::exists(format!("{folder}/memory/MEMORY.md")).unwrap(), "{imported}");
}
