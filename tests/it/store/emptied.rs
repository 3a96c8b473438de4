//! A database that a failed start has made, and one that has lost its content.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use peacrab::store::{OpenError, Store, StoreOptions, has_store};
use tempfile::TempDir;

fn open(home: &Path) -> Result<(), OpenError> {
    Store::open(home, &StoreOptions::default()).map(drop)
}

#[test]
fn a_start_that_fails_leaves_no_empty_database() {
    for is_link in [false, true] {
        let (home, disk) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let mut file = home.path().join("state.db");
        if is_link {
            let target = disk.path().join("kept.db");
            symlink(&target, &file).unwrap();
            file = target;
        }
        // SQLite cannot write without a journal.
        let journal = PathBuf::from(format!("{}-journal", file.display()));
        fs::create_dir(&journal).unwrap();
        let refused = open(home.path()).unwrap_err();
        assert!(matches!(refused, OpenError::Database { .. }), "{refused}");
        assert!(!file.exists());
        fs::remove_dir(&journal).unwrap();
        // An empty one would count as lost now.
        fs::create_dir(home.path().join("undo")).unwrap();
        let refused = open(home.path()).unwrap_err();
        assert!(matches!(refused, OpenError::Gone { .. }), "{refused}");
        fs::remove_dir(home.path().join("undo")).unwrap();
        open(home.path()).unwrap();
        assert!(fs::metadata(&file).unwrap().len() > 0);
        assert_eq!(home.path().join("state.db").is_symlink(), is_link);
    }
}

#[test]
fn a_start_that_fails_writes_to_no_file_that_a_link_leads_to() {
    let (home, others) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = others.path().join("file");
    fs::write(&file, "of somebody else").unwrap();
    // The name under which it tries if there is space.
    symlink(&file, home.path().join("room")).unwrap();
    fs::create_dir(home.path().join("state.db-journal")).unwrap();
    let refused = open(home.path()).unwrap_err();
    assert!(matches!(refused, OpenError::Database { .. }), "{refused}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "of somebody else");
}

#[test]
fn a_log_whose_database_is_empty_or_gone_is_not_begun_over() {
    for is_empty in [true, false] {
        let home = TempDir::new().unwrap();
        let log = home.path().join("state.db-wal");
        fs::write(&log, "the last changes").unwrap();
        if is_empty {
            fs::write(home.path().join("state.db"), "").unwrap();
        }
        let refused = open(home.path()).unwrap_err();
        match is_empty {
            true => assert!(matches!(refused, OpenError::Emptied { .. }), "{refused}"),
            false => assert!(matches!(refused, OpenError::LogAlone { .. }), "{refused}"),
        }
        assert!(has_store(home.path()));
        assert_eq!(fs::read_to_string(&log).unwrap(), "the last changes");
        // An empty one has none.
        fs::write(&log, "").unwrap();
        open(home.path()).unwrap();
    }
}

#[test]
fn a_database_that_is_gone_from_a_used_home_is_not_begun_over() {
    for left in ["ballast", "undo"] {
        let home = TempDir::new().unwrap();
        fs::create_dir(home.path().join(left)).unwrap();
        assert!(has_store(home.path()));
        let refused = open(home.path()).unwrap_err();
        assert!(matches!(refused, OpenError::Gone { .. }), "{left}: {refused}");
        assert!(!home.path().join("state.db").exists());
        // Somebody begins anew.
        fs::remove_dir(home.path().join(left)).unwrap();
        assert!(!has_store(home.path()));
        open(home.path()).unwrap();
    }
}
