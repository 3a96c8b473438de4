//! Folders that commands have left, and have made hard to remove.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use peacrab::sandbox::scratch::clear;

#[test]
fn folders_that_resist_are_removed_all_the_same() {
    let place = tempfile::tempdir().unwrap();
    let (top, kept) = (place.path().join("top"), place.path().join("kept"));
    fs::write(&kept, "kept").unwrap();
    // Deeper than a path can be long.
    fs::create_dir_all(top.join("shut/in")).unwrap();
    let chain = place.path().join("chain");
    fs::create_dir(&chain).unwrap();
    for _ in 0..60 {
        let upper = place.path().join("upper");
        fs::create_dir(&upper).unwrap();
        fs::rename(&chain, upper.join("x".repeat(200))).unwrap();
        fs::rename(&upper, &chain).unwrap();
    }
    fs::rename(&chain, top.join("deep")).unwrap();
    std::os::unix::fs::symlink(&kept, top.join("link")).unwrap();
    std::os::unix::fs::symlink(place.path(), top.join("shut/in/out")).unwrap();
    fs::set_permissions(top.join("shut/in"), Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(top.join("shut"), Permissions::from_mode(0o000)).unwrap();
    clear(&top).unwrap();
    assert!(!top.exists());
    assert_eq!(fs::read_to_string(kept).unwrap(), "kept");
}
