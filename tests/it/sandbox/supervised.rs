//! Mode, times and owner of files, where Landlock alone keeps files away: it does not guard these, so a supervisor makes
//! such changes for a command, and only beneath its folders.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use peacrab::sandbox::CommandEnding;

use super::Scene;
use super::degrade::{NO_NAMESPACES, without};

/// What may not change of a file.
fn state(path: &Path) -> (u32, i64, u32) {
    let found = fs::metadata(path).unwrap();
    (found.mode(), found.mtime(), found.uid())
}

#[test]
fn no_file_outside_changes_its_mode_times_or_owner() {
    without(NO_NAMESPACES, async || {
        let mut scene = Scene::bare();
        // One may be read, the others not even that.
        let seen = tempfile::tempdir().unwrap();
        let readable = seen.path().canonicalize().unwrap().join("book");
        fs::write(&readable, "a book").unwrap();
        scene.sandbox.read.push(readable.parent().unwrap().to_owned());
        let root = scene.root();
        for outside in [readable, root.join("home"), root.join("home/state.db")] {
            if outside.is_file() {
                fs::set_permissions(&outside, Permissions::from_mode(0o600)).unwrap();
            }
            let before = state(&outside);
            let attack = scene.attack(&format!("modes {}", outside.display()));
            let said = scene.run(&attack).await.well();
            assert!(said.contains("ALL HELD"), "{}: {said}", outside.display());
            assert_eq!(state(&outside), before, "{}", outside.display());
            fs::remove_file(scene.workspace().join("link")).unwrap();
        }
        // As people would try it.
        let home = root.join("home").display().to_string();
        let tries = format!("chmod 777 {home}; chmod -R a+rw {home}; touch -c {home}/state.db");
        assert!(matches!(scene.run(&tries).await.ending, CommandEnding::Exit(_)));
        scene.check();
    });
}

#[test]
fn a_file_that_may_only_be_read_is_not_cut_off() {
    without(NO_NAMESPACES, async || {
        let mut scene = Scene::bare();
        let seen = tempfile::tempdir().unwrap();
        let readable = seen.path().canonicalize().unwrap().join("book");
        fs::write(&readable, "a book").unwrap();
        scene.sandbox.read.push(readable.parent().unwrap().to_owned());
        let attack = scene.attack(&format!("truncate {}", readable.display()));
        assert!(scene.run(&attack).await.well().contains("ALL HELD"));
        assert_eq!(fs::read_to_string(&readable).unwrap(), "a book");
        // Its own are cut off as ever.
        let own = "echo long > f && truncate -s 2 f && stat -c %s f && : > f && stat -c %s f";
        assert_eq!(scene.run(own).await.well(), "2\n0\n");
    });
}

#[test]
fn a_link_that_is_swapped_meanwhile_leads_no_change_out() {
    without(NO_NAMESPACES, async || {
        let mut scene = Scene::bare();
        let outside = scene.root().join("home/state.db");
        fs::set_permissions(&outside, Permissions::from_mode(0o600)).unwrap();
        let before = state(&outside);
        let attack = scene.attack(&format!("swap {}", outside.display()));
        assert!(scene.run(&attack).await.well().contains("changed some"));
        assert_eq!(state(&outside), before);
    });
}

#[test]
fn own_files_change_their_mode_and_times() {
    without(NO_NAMESPACES, async || {
        let scene = Scene::bare();
        let command = "mkdir -p a/b && echo x > a/b/f && chmod 640 a/b/f && chmod 750 a && touch -d @7 a/b/f && \
                       stat -c '%a %Y' a/b/f && ln -s f a/b/l && touch -h -d @9 a/b/l && stat -c %Y a/b/l a/b/f && \
                       chown \"$(id -u):$(id -g)\" a/b/f && echo x > $TMPDIR/t && chmod 600 $TMPDIR/t && echo kept; \
                       chmod u+s a/b/f 2>/dev/null || echo no rights; chmod 600 nowhere 2>&1 | grep -c 'No such file'";
        assert_eq!(scene.run(command).await.out, "640 7\n9\n7\nkept\nno rights\n1\n");
        // The system's own are none of its business.
        assert_eq!(
            scene.run("cd / && chmod 777 usr 2>/dev/null || echo held").await.well(),
            "held\n"
        );
    });
}
