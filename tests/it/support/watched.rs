//! What a stand-in knows: its server's tasks and the test look at it, and the test can wait for it to
//! change. Part of it is which calls came, and which of them are to fail.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

/// The longest that a test waits for something that must come.
const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct Watched<T> {
    // A mutex, since the server's tasks and the test look at one state; never held over an await.
    state: Mutex<T>,
    /// Rings whenever the state has changed.
    changed: watch::Sender<()>,
}

/// What tells why a test waited in vain.
pub(crate) trait DebugState {
    fn debug_state(&self) -> Vec<&dyn Debug>;
}

impl<T> Watched<T> {
    pub(crate) fn new(state: T) -> Self {
        Self { state: Mutex::new(state), changed: watch::Sender::new(()) }
    }

    pub(crate) fn look(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap()
    }

    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.look());
        self.changed.send_replace(());
        result
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl<T: DebugState> Watched<T> {
    /// Waits until something is so.
    pub(crate) async fn wait_until(&self, what: &str, so: impl Fn(&T) -> bool) {
        self.wait_for(what, |state| so(state).then_some(())).await;
    }

    /// Waits until something is there, and gives it.
    pub(crate) async fn wait_for<R>(&self, what: &str, find: impl Fn(&T) -> Option<R>) -> R {
        let mut changed = self.subscribe();
        let waiting = async {
            loop {
                let found = find(&self.look());
                if let Some(found) = found {
                    return found;
                }
                changed.changed().await.unwrap();
            }
        };
        match timeout(DEADLINE, waiting).await {
            Ok(found) => found,
            Err(_) => panic!("waited in vain for {what}; {:#?}", self.look().debug_state()),
        }
    }
}

/// A call that was well-formed.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// What the platform calls it: `sendMessage`, `POST /channels/1/messages`.
    pub(crate) call: String,
    pub(crate) body: Value,
}

#[derive(Debug)]
pub(crate) struct Calls<Fault> {
    pub(crate) received: Vec<Received>,
    faults: VecDeque<(String, Fault)>,
}

impl<Fault> Default for Calls<Fault> {
    fn default() -> Self {
        Self { received: Vec::new(), faults: VecDeque::new() }
    }
}

impl<Fault: Clone> Calls<Fault> {
    /// The next `times` calls come to `fault`; after those that were asked for before. In a path, `*`
    /// stands for one part.
    pub(crate) fn fail(&mut self, call: &str, times: usize, fault: &Fault) {
        self.faults.extend(std::iter::repeat_n((call.to_owned(), fault.clone()), times));
    }

    /// Notes a call, and says what is to go wrong with it.
    pub(crate) fn receive(&mut self, call: &str, body: Value) -> Option<Fault> {
        self.received.push(Received { call: call.to_owned(), body });
        self.fault(call)
    }

    /// What is to go wrong with a call, which is not noted.
    pub(crate) fn fault(&mut self, call: &str) -> Option<Fault> {
        let at = self.faults.iter().position(|(failing, _)| fits(failing, call))?;
        self.faults.remove(at).map(|(_, fault)| fault)
    }

    /// Nothing goes wrong any more.
    pub(crate) fn heal(&mut self) {
        self.faults.clear();
    }
}

#[cfg(any(feature = "slack", feature = "telegram"))]
impl<Fault> Calls<Fault> {
    pub(crate) fn of<'a>(&'a self, call: &'a str) -> impl Iterator<Item = &'a Received> {
        self.received.iter().filter(move |received| received.call == call)
    }
}

#[cfg(feature = "discord")]
impl<Fault> Calls<Fault> {
    /// How many calls came that `call` stands for, as in [`Calls::fail`].
    pub(crate) fn count(&self, call: &str) -> usize {
        self.received.iter().filter(|received| fits(call, &received.call)).count()
    }
}

/// Whether a call is one of `failing`.
fn fits(failing: &str, call: &str) -> bool {
    let (failing, call): (Vec<_>, Vec<_>) =
        (failing.split('/').collect(), call.split('/').collect());
    failing.len() == call.len()
        && failing.iter().zip(&call).all(|(failing, part)| *failing == "*" || failing == part)
}
