//! Which processes of this machine belong to a command.

use peacrab::sandbox::accounting::tasks_of;
use peacrab::sandbox::processes::{by_parents, descendants};
use rustix::process::{getpid, getppid, getuid};

#[test]
fn whom_a_process_has_started_is_found_with_the_kernels_list_and_without() {
    let parent = getppid().unwrap();
    assert!(descendants(parent).contains(&getpid()));
    assert!(by_parents(parent).contains(&getpid()));
    assert!(!by_parents(getpid()).contains(&parent));
    assert!(tasks_of(getuid()) >= 1);
}
