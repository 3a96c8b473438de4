//! The schema and its migrations. A home of the base version or a later one is migrated, a version at a
//! time. Its rows stay readable.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::OpenError;
use super::header::header_damage;
use super::lock_holder::MigrationStep;

/// The interval between two reports of a migration.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// Steps of SQLite's virtual machine between two checks of the clock: some milliseconds on a slow board.
const STEPS_PER_CHECK: i32 = 100_000;

/// The progress of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationProgress {
    /// The version before the migration.
    pub found: u32,
    /// The version that is complete. The next one is in work, unless this is the newest.
    pub reached: u32,
    pub newest: u32,
    /// The time since the start.
    pub took: Duration,
}

impl MigrationProgress {
    /// Returns the step that is in work. The last one if all are done.
    pub fn step(self) -> MigrationStep {
        let of = self.newest - self.found;
        MigrationStep { number: (self.reached - self.found + 1).min(of), of }
    }
}

/// Receives the progress of a migration, again and again while it makes some.
pub type MigrationObserver = Arc<dyn Fn(MigrationProgress) + Send + Sync>;

/// The version of the base schema, which is the oldest that can be opened.
pub(super) const BASE_VERSION: u32 = 7;

const BASE: &str = include_str!("schema.sql");

/// One script per version after the base, in order. A script never changes after a release.
const MIGRATIONS: &[&str] = &[
    include_str!("schema-8.sql"),
    include_str!("schema-9.sql"),
    include_str!("schema-10.sql"),
    include_str!("schema-11.sql"),
    include_str!("schema-12.sql"),
    include_str!("schema-13.sql"),
    include_str!("schema-14.sql"),
    include_str!("schema-15.sql"),
    include_str!("schema-16.sql"),
    include_str!("schema-17.sql"),
    include_str!("schema-18.sql"),
    include_str!("schema-19.sql"),
    include_str!("schema-20.sql"),
    include_str!("schema-21.sql"),
    include_str!("schema-22.sql"),
    include_str!("schema-23.sql"),
    include_str!("schema-24.sql"),
    include_str!("schema-25.sql"),
    include_str!("schema-26.sql"),
    include_str!("schema-27.sql"),
    include_str!("schema-28.sql"),
    include_str!("schema-29.sql"),
    include_str!("schema-30.sql"),
    include_str!("schema-31.sql"),
    include_str!("schema-32.sql"),
    include_str!("schema-33.sql"),
    include_str!("schema-34.sql"),
    include_str!("schema-35.sql"),
    include_str!("schema-36.sql"),
    include_str!("schema-37.sql"),
    include_str!("schema-38.sql"),
    include_str!("schema-39.sql"),
    include_str!("schema-40.sql"),
    include_str!("schema-41.sql"),
    include_str!("schema-42.sql"),
    include_str!("schema-43.sql"),
];

/// Returns the version of an up-to-date database.
pub fn newest() -> u32 {
    (BASE_VERSION..).zip(MIGRATIONS).last().map_or(BASE_VERSION, |(before, _)| before + 1)
}

/// Returns the version of the database. 0 if it is new.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Migrates a database of version `found`, in a transaction for each version.
pub(super) fn migrate(
    connection: &mut Connection,
    found: u32,
    report: Option<&MigrationObserver>,
) -> rusqlite::Result<()> {
    let begun = Instant::now();
    // A new database takes no time.
    let report = report.filter(|_| (BASE_VERSION..newest()).contains(&found));
    let progress = |reached, took| MigrationProgress { found, reached, newest: newest(), took };
    if (BASE_VERSION..newest()).contains(&found) {
        tracing::info!(
            from = found,
            to = newest(),
            "Updating the database; a large one takes minutes"
        );
    }
    let scripts = [(BASE_VERSION, &BASE)].into_iter().chain((BASE_VERSION + 1..).zip(MIGRATIONS));
    for (version, script) in scripts.filter(|(version, _)| *version > found) {
        if let Some(report) = report {
            watch(connection, progress(version - 1, begun.elapsed()), begun, Arc::clone(report))?;
        }
        let transaction = connection.transaction()?;
        transaction.execute_batch(script)?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    if let Some(report) = report {
        connection.progress_handler(0, None::<fn() -> bool>)?;
        report(progress(newest(), begun.elapsed()));
    }
    if found < newest() {
        // The migrated schema must be on the disk, in the database file itself, before anything else is
        // written.
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    }
    Ok(())
}

/// Reports a step of a migration now, and while its statements make progress.
fn watch(
    connection: &mut Connection,
    progress: MigrationProgress,
    begun: Instant,
    report: MigrationObserver,
) -> rusqlite::Result<()> {
    let mut last = progress.took;
    let tell = move |took| report(MigrationProgress { took, ..progress });
    tell(last);
    let check = move || {
        let took = begun.elapsed();
        if took.saturating_sub(last) >= REPORT_EVERY {
            last = took;
            tell(took);
        }
        // True would interrupt the statement.
        false
    };
    connection.progress_handler(STEPS_PER_CHECK, Some(check))
}

/// Returns an error if the schema of a database is not one that this version can read or migrate.
pub(super) fn check_version(path: &Path, found: u32) -> Result<(), OpenError> {
    check_version_for(newest(), path, found)
}

/// The same for a version of the program whose newest schema is `known`.
pub(super) fn check_version_for(known: u32, path: &Path, found: u32) -> Result<(), OpenError> {
    let path = path.to_owned();
    match found {
        0 => Ok(()),
        1..BASE_VERSION => Err(OpenError::Older { path, found }),
        _ if found > known => Err(match header_damage(&path) {
            Some(cause) => OpenError::Damaged { path, cause },
            None => OpenError::Newer { path, found, known },
        }),
        _ => Ok(()),
    }
}
