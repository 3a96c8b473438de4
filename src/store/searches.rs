//! Searches in parallel with the writer and the reader, each on a connection of its own. Connections are kept for the
//! next search: opening one reads the whole schema, which costs more than most searches.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::StoreError;
use super::connection::connect;

/// Maximum duration of a search. A model waits for it, and can make its search narrower.
pub(super) const SEARCH_TIME_MAX: Duration = Duration::from_secs(1);

/// Maximum number of parallel searches. Further ones wait. With a core for each, they hardly slow each
/// other down.
const SEARCHES_MAX: usize = 2;

/// Steps of SQLite's virtual machine between two checks of the deadline. One step may compare a text of a megabyte.
const STEPS_BETWEEN_LOOKS: i32 = 100;

/// The connections for searches, cheap to clone.
#[derive(Clone)]
pub(super) struct Searches {
    path: Arc<Path>,
    permits: Arc<Semaphore>,
    /// Unused connections, at most as many as there are permits.
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Searches {
    pub(super) fn of(path: Arc<Path>) -> Self {
        Self { path, permits: Arc::new(Semaphore::new(SEARCHES_MAX)), idle: Arc::default() }
    }

    /// Reads one consistent state. It is interrupted at the deadline, and when the caller is dropped.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let (searches, caller_dropped) = (self.clone(), CancellationToken::new());
        let _interrupt = caller_dropped.clone().drop_guard();
        let search = move || {
            let _permit = permit;
            let mut connection = searches.connection()?;
            let deadline = Instant::now() + SEARCH_TIME_MAX;
            let should_stop = move || Instant::now() >= deadline || caller_dropped.is_cancelled();
            connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(should_stop))?;
            let value = work(&*connection.unchecked_transaction()?)?;
            connection.progress_handler(0, None::<fn() -> bool>)?;
            // A connection whose search failed is not reused.
            searches.idle().push(connection);
            Ok(value)
        };
        let result = AbortOnDropHandle::new(tokio::task::spawn_blocking(search)).await;
        result.map_err(|error| StoreError::Broken(format!("a search ended ({error})")))?
    }

    /// Closes the connections that no search uses.
    pub(super) fn close_idle(&self) {
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
    }

    fn connection(&self) -> rusqlite::Result<Connection> {
        let idle = self.idle().pop();
        idle.map_or_else(
            || {
                let connection = connect(&self.path)?;
                connection.pragma_update(None, "query_only", true)?;
                Ok(connection)
            },
            Ok,
        )
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
