//! Where a daemon dies: at a commit, the thread that makes it stops for good, and with it all that waits
//! for it; then the rest of the daemon is dropped. What it was about to commit is lost, or what it has
//! committed is told to nobody.

use std::panic::resume_unwind;
use std::sync::{Arc, Condvar, Mutex};

use peacrab::store::{Observer, Phase};

use super::story::When;

#[derive(Default)]
pub(super) struct Trap {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    commits: u64,
    at: Option<(u64, Phase)>,
    sprung: bool,
    is_over: bool,
}

impl Trap {
    pub(super) fn observer(self: &Arc<Self>) -> Observer {
        let trap = Arc::clone(self);
        Arc::new(move |moment| {
            let mut state = trap.state.lock().unwrap();
            state.commits += u64::from(moment.phase == Phase::Before);
            if state.at != Some((state.commits, moment.phase)) {
                return;
            }
            state.sprung = true;
            drop(trap.changed.wait_while(state, |state| !state.is_over).unwrap());
            // The thread ends, and what it has not committed is rolled back.
            resume_unwind(Box::new("killed"));
        })
    }

    /// Springs at the commit that comes so many after this.
    pub(super) fn set(&self, commits: u64, when: When) {
        let mut state = self.state.lock().unwrap();
        let phase = match when {
            When::Before => Phase::Before,
            When::After => Phase::After,
        };
        state.at = Some((state.commits + commits, phase));
    }

    /// Does not spring any more, unless it has.
    pub(super) fn unset(&self) {
        self.state.lock().unwrap().at = None;
    }

    pub(super) fn has_sprung(&self) -> bool {
        self.state.lock().unwrap().sprung
    }

    pub(super) fn commits(&self) -> u64 {
        self.state.lock().unwrap().commits
    }

    /// Nothing is left of the daemon but the thread that stopped.
    pub(super) fn is_over(&self) {
        self.state.lock().unwrap().is_over = true;
        self.changed.notify_all();
    }
}
