//! How often a message is written down: each commit costs pages, each sync waits for the disk.

use std::sync::{Arc, Mutex};

use peacrab::control::disk_usage::DiskUsage;
use peacrab::store::{CommitEvent, Phase, StoreOptions, Sync};

use crate::support::rig::{Rig, RigOptions};

type Commits = Arc<Mutex<Vec<(Sync, Vec<&'static str>)>>>;

/// A daemon whose commits are written down.
async fn watched() -> (Rig, Commits) {
    let commits = Commits::default();
    let seen = Arc::clone(&commits);
    let observer = Arc::new(move |moment: CommitEvent<'_>| {
        if moment.phase == Phase::After {
            seen.lock().unwrap().push((moment.sync, moment.labels.to_vec()));
        }
    });
    let store = StoreOptions { observer: Some(observer), ..StoreOptions::default() };
    (Rig::of(RigOptions { store, ..RigOptions::default() }).await, commits)
}

#[test]
fn a_days_bytes_are_of_at_least_an_hour() {
    let written = DiskUsage {
        database: 7,
        written_by_store: 1_000_000,
        written_as_files: 500,
        written_by_programs: 0,
    };
    assert_eq!(written.daily(0), None);
    let expected = DiskUsage { written_by_store: 2_000_000, written_as_files: 1000, ..written };
    assert_eq!(written.daily(12), Some(expected));
    let most = DiskUsage { written_by_store: u64::MAX, ..written };
    assert_eq!(most.daily(48).map(|day| day.written_by_store), Some(u64::MAX / 48));
}

#[tokio::test]
async fn a_plain_message_costs_few_commits_and_two_syncs() {
    let (mut rig, commits) = watched().await;
    rig.ask("1", "hello").await;
    rig.settled().await;
    commits.lock().unwrap().clear();
    rig.ask("1", "and again").await;
    rig.settled().await;
    let commits = std::mem::take(&mut *commits.lock().unwrap());
    let labels = commits.iter().flat_map(|(_, labels)| labels).copied();
    // On a slow machine, the daemon may tidy as late as this after its start.
    let labels: Vec<_> = labels.filter(|label| *label != "attachments expire").collect();
    assert_eq!(labels, ["publish", "turn start", "answer", "sending", "sent"]);
    // It is on the disk before it is acknowledged, its answer before that is sent.
    let synced = commits.iter().filter(|(sync, _)| *sync == Sync::Now);
    let synced: Vec<_> = synced.flat_map(|(_, labels)| labels).copied().collect();
    assert_eq!(synced, ["publish", "sending"]);
    rig.finish().await;
}
