//! Folders of persons: named after the person, shared by linked accounts, put away with the person, and never
//! anybody else's.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use peacrab::people::folders::{FolderAct, order, orders};
use peacrab::replies;
use peacrab::types::person::{FolderOwner, PersonId};
use peacrab::workspace::persons::FolderHeir;
use peacrab::workspace::{FileScope, Workspace};
use rusqlite::Connection;

use super::{code_in, number, open_to_all, say_at_work, with_work};
use crate::support::rig::{OTHER_USER, OWNER, Rig, STRANGER, USER};
use crate::support::script::{calls, says};

/// The text of a file in `people/`.
fn read(rig: &Rig, path: &str) -> Option<String> {
    fs::read_to_string(rig.path().join("people").join(path)).ok()
}

/// Puts a file into `people/`, as a turn or a former version would.
fn put(rig: &Rig, path: &str, text: &str) {
    let path = rig.path().join("people").join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Somebody has the model write a file.
async fn write(rig: &mut Rig, who: &str, chat: &str, text: &str) {
    let file = serde_json::json!({"path": "list.md", "content": text});
    rig.model.on("write it", [calls(&[("write_file", file)]), says("Written.")]);
    rig.say_as(who, chat, "write it");
    assert_eq!(rig.next_message(chat).await, "Written.");
}

/// The other account becomes the person who writes in chat 2.
async fn link(rig: &mut Rig, work: &Arc<crate::support::fake_channel::FakeChannel>) {
    say_at_work(work, OTHER_USER, "9", "/link");
    let code = code_in(&rig.next_messages_on(Arc::clone(work), "9", 1).await.remove(0).text);
    rig.say_as(USER, "2", &format!("/link {code}"));
    rig.next_messages("2", 2).await;
    rig.say_as(USER, "2", &format!("/link yes {code}"));
    rig.next_message("2").await;
    rig.next_messages_on(Arc::clone(work), "9", 1).await;
    rig.next_message("1").await;
    rig.wait_for_count("SELECT count(*) FROM folder_orders", 0).await;
}

#[tokio::test]
async fn linked_accounts_share_the_folder_of_their_person() {
    let (mut rig, work) = with_work().await;
    write(&mut rig, USER, "2", "Ann's").await;
    say_at_work(&work, OTHER_USER, "9", "hello");
    rig.next_messages_on(Arc::clone(&work), "9", 1).await;
    let (stays, goes) = (number(&rig, USER), number(&rig, OTHER_USER));
    put(&rig, &format!("{goes}/downloads/photo.txt"), "a photo");
    assert_eq!(read(&rig, &format!("{stays}/workspace/list.md")).unwrap(), "Ann's");
    link(&mut rig, &work).await;
    // Nothing is lost, and nothing of it is trusted.
    let joined = format!("{stays}/downloads/from-{goes}/downloads/photo.txt");
    assert_eq!((read(&rig, &joined).unwrap().as_str(), read(&rig, &goes)), ("a photo", None));
    assert!(!rig.path().join("people").join(&goes).exists());
    let list = [("read_file", serde_json::json!({"path": "list.md"}))];
    rig.model.on("read it", [calls(&list), says("done")]);
    say_at_work(&work, OTHER_USER, "9", "read it");
    rig.next_messages_on(Arc::clone(&work), "9", 1).await;
    assert!(rig.model.last().messages.last().unwrap().contains("Ann's"));
    // An account of its own has a folder of its own.
    say_at_work(&work, OTHER_USER, "9", "/unlink");
    rig.next_messages_on(Arc::clone(&work), "9", 1).await;
    rig.model.on("read it", [calls(&list), says("done")]);
    say_at_work(&work, OTHER_USER, "9", "read it");
    rig.next_messages_on(Arc::clone(&work), "9", 1).await;
    assert!(!rig.model.last().messages.last().unwrap().contains("Ann's"));
    rig.finish().await;
}

#[tokio::test]
async fn a_person_without_files_gets_the_folder_of_the_linked_account_as_it_is() {
    let (mut rig, work) = with_work().await;
    rig.say_as(USER, "2", "hello");
    rig.next_message("2").await;
    say_at_work(&work, OTHER_USER, "9", "hello");
    rig.next_messages_on(Arc::clone(&work), "9", 1).await;
    let (stays, goes) = (number(&rig, USER), number(&rig, OTHER_USER));
    put(&rig, &format!("{goes}/workspace/list.md"), "mine");
    link(&mut rig, &work).await;
    assert_eq!(read(&rig, &format!("{stays}/workspace/list.md")).unwrap(), "mine");
    rig.finish().await;
}

#[tokio::test]
async fn records_of_files_follow_linked_accounts() {
    let (mut rig, work) = with_work().await;
    write(&mut rig, USER, "2", "Ann's").await;
    say_at_work(&work, OTHER_USER, "9", "hello");
    rig.next_messages_on(Arc::clone(&work), "9", 1).await;
    let (stays, goes) = (number(&rig, USER), number(&rig, OTHER_USER));
    put(&rig, &format!("{goes}/downloads/2026-11/1-0-lease.pdf"), "%PDF");
    rig.execute(&format!(
        "INSERT INTO attachments (row, channel, chat, sender, forwarded, folder, path, size, hash, text, at)
         VALUES (1, 'work', '9', '{OTHER_USER}', 0, 'people/{goes}/downloads',
         'people/{goes}/downloads/2026-11/1-0-lease.pdf', 4, '', '800 crowns', {})",
        chrono::Utc::now().timestamp_millis()
    ));
    link(&mut rig, &work).await;
    let path = format!("people/{stays}/downloads/from-{goes}/downloads/2026-11/1-0-lease.pdf");
    let records = rig.query("SELECT folder || ' ' || path FROM attachments");
    assert_eq!(records, [format!("people/{stays}/downloads {path}")]);
    let search = [("memory_search", serde_json::json!({"query": "crowns", "scope": "untrusted"}))];
    rig.model.on("look for it", [calls(&search), says("done")]);
    rig.say_as(USER, "2", "look for it");
    rig.next_message("2").await;
    assert!(rig.model.last().messages.last().unwrap().contains("800 crowns"));
    rig.finish().await;
}

#[tokio::test]
async fn files_of_a_removed_person_are_put_away_or_deleted_and_never_somebody_elses() {
    let mut rig = Rig::of(open_to_all()).await;
    rig.ask("1", "hello").await;
    rig.say_as(STRANGER, "66", "hello");
    rig.next_message("66").await;
    let them = number(&rig, STRANGER);
    rig.ask("1", &format!("/people user {them}")).await;
    write(&mut rig, STRANGER, "66", "secret").await;
    let file = format!("{them}/workspace/list.md");
    assert_eq!(read(&rig, &file).unwrap(), "secret");
    let removed = rig.ask("1", &format!("/people remove {them}")).await;
    assert_eq!(removed, replies::person_is_removed("Person 66", &them));
    rig.wait_for_count("SELECT count(*) FROM folder_orders", 0).await;
    assert_eq!(read(&rig, &file), None);
    assert_eq!(read(&rig, &format!("archive/{file}")).unwrap(), "secret");
    // Whoever returns is somebody else, and nobody reaches the archive.
    rig.say_as(STRANGER, "66", "hello");
    rig.next_message("66").await;
    let anew = number(&rig, STRANGER);
    assert_ne!(anew, them);
    rig.ask("1", &format!("/people user {anew}")).await;
    for (who, chat) in [(STRANGER, "66"), (OWNER, "1"), (OWNER, "-1")] {
        for path in
            ["list.md".to_owned(), format!("people/archive/{file}"), format!("people/{file}")]
        {
            let read = [("read_file", serde_json::json!({"path": path}))];
            rig.model.on("read it", [calls(&read), says("done")]);
            rig.say_as(who, chat, "read it");
            rig.next_message(chat).await;
            assert!(!rig.model.last().messages.last().unwrap().contains("secret"), "{who} {path}");
        }
    }
    assert_eq!(
        rig.ask("1", &format!("/people purge {them}")).await,
        replies::files_are_purged(&them)
    );
    rig.wait_for_count("SELECT count(*) FROM folder_orders", 0).await;
    assert!(!rig.path().join("people/archive").join(&them).exists());
    // Nor does the index of the memory keep the text.
    let kept = "SELECT count(*) FROM recall_entries WHERE kind = 'file' AND text LIKE '%secret%'";
    rig.wait_for_count(kept, 0).await;
    write(&mut rig, STRANGER, "66", "again").await;
    let purged = rig.ask("1", &format!("/people remove {anew} purge")).await;
    assert_eq!(purged, replies::person_is_purged("Person 66"));
    rig.wait_for_count("SELECT count(*) FROM folder_orders", 0).await;
    assert!(!rig.path().join("people").join(&anew).exists());
    rig.finish().await;
}

#[tokio::test]
async fn what_a_crash_has_left_to_do_is_done_after_the_start() {
    let mut rig = Rig::of(open_to_all()).await;
    rig.ask("1", "hello").await;
    rig.stop().await;
    put(&rig, "p70/workspace/a.md", "a");
    put(&rig, "p71/workspace/b.md", "b");
    put(&rig, "archive/p72/workspace/c.md", "c");
    put(&rig, "p74/workspace/d.md", "d");
    // Something lies where a folder is to go: the others are not stopped by it.
    put(&rig, "archive/p74/workspace/e.md", "e");
    rig.execute(
        "INSERT INTO folder_orders (person, act, joins) VALUES
         (74, 'archive', NULL), (70, 'archive', NULL), (71, 'join', NULL), (72, 'purge', NULL),
         (73, 'join', 70)",
    );
    rig.start().await;
    rig.wait_for_count("SELECT count(*) FROM folder_orders", 1).await;
    assert_eq!(read(&rig, "archive/p70/workspace/a.md").unwrap(), "a");
    let joined = rig.path().join("downloads/from-p71/workspace/b.md");
    assert_eq!(fs::read_to_string(joined).unwrap(), "b");
    assert_eq!(read(&rig, "archive/p72/workspace/c.md"), None);
    assert_eq!(read(&rig, "p74/workspace/d.md").unwrap(), "d");
    assert_eq!(read(&rig, "archive/p74/workspace/e.md").unwrap(), "e");
    rig.finish().await;
}

#[tokio::test]
async fn folders_of_a_former_version_get_the_names_of_their_persons() {
    let mut rig = Rig::of(open_to_all()).await;
    rig.ask("1", "hello").await;
    rig.say_as(STRANGER, "66", "hello");
    rig.next_message("66").await;
    rig.stop().await;
    let former = |sender: &str| {
        let owner = FolderOwner::Account("home".into(), sender.into());
        FileScope::of_person(&owner).root().unwrap()
    };
    let strange = "p0123456789ab/workspace/list.md";
    put(&rig, strange, "of an account that nobody knows");
    for sender in [USER, STRANGER] {
        let folder = rig.path().join(former(sender));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("list.md"), sender).unwrap();
    }
    for _ in 0..2 {
        rig.start().await;
        // The config names the one, and the other has written before.
        for sender in [USER, STRANGER] {
            let now = rig.path().join(rig.files_of(sender).root().unwrap());
            assert_eq!(fs::read_to_string(now.join("list.md")).unwrap(), sender);
            assert!(!rig.path().join(former(sender)).exists());
        }
        assert!(read(&rig, strange).is_some());
        rig.stop().await;
    }
    rig.start().await;
    rig.finish().await;
}

#[test]
fn folders_are_moved_and_deleted_without_following_links() {
    let home = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(&home.path().join("workspace")).unwrap();
    let at = |path: &str| -> PathBuf { home.path().join(path) };
    let (five, six) = (PersonId(5), PersonId(6));
    fs::create_dir_all(at("people/p5/workspace")).unwrap();
    fs::write(at("downloads/kept.md"), "kept").unwrap();
    std::os::unix::fs::symlink(at("downloads"), at("people/p5/workspace/out")).unwrap();
    workspace.archive_folders(five).unwrap();
    assert!(workspace.has_archive(five) && !workspace.has_archive(six));
    // Again, as after a crash.
    workspace.archive_folders(five).unwrap();
    workspace.purge_folders(five).unwrap();
    workspace.purge_folders(five).unwrap();
    assert!(!workspace.has_archive(five));
    assert_eq!(fs::read_to_string(at("downloads/kept.md")).unwrap(), "kept");
    // A folder that is a link elsewhere is not followed, and its target stays.
    std::os::unix::fs::symlink(at("downloads"), at("people/p6")).unwrap();
    workspace.join_folders(six, FolderHeir::Person(five)).unwrap();
    assert!(fs::symlink_metadata(at("people/p5")).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(at("downloads/kept.md")).unwrap(), "kept");
}

#[test]
fn a_planted_name_keeps_no_files_of_a_person_away() {
    let home = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(&home.path().join("workspace")).unwrap();
    let at = |path: &str| -> PathBuf { home.path().join(path) };
    for (path, text) in [("workspace/a.md", "a"), ("downloads/2026-11/b.txt", "b")] {
        let file = at("people/p5").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    std::os::unix::fs::symlink(at("workspace"), at("downloads/from-p5")).unwrap();
    // Twice, as after a crash.
    for _ in 0..2 {
        workspace.join_folders(PersonId(5), FolderHeir::Owner).unwrap();
    }
    assert!(!at("people/p5").exists() && !at("workspace/a.md").exists());
    assert_eq!(fs::read_to_string(at("downloads/from-p5-2/workspace/a.md")).unwrap(), "a");
    let sent = "people/p5/downloads/2026-11/b.txt".parse().unwrap();
    let found = workspace.find_joined(PersonId(5), FolderHeir::Owner, &sent).unwrap();
    assert_eq!(found.as_str(), "downloads/from-p5-2/downloads/2026-11/b.txt");
}

#[test]
fn orders_are_kept_until_they_are_forgotten() {
    let home = tempfile::tempdir().unwrap();
    drop(peacrab::store::Store::open(home.path(), &Default::default()).unwrap());
    let store = Connection::open(home.path().join("state.db")).unwrap();
    let acts = [
        FolderAct::Archive,
        FolderAct::Join(None),
        FolderAct::Join(Some(PersonId(3))),
        FolderAct::Purge,
    ];
    for act in acts {
        order(&store, PersonId(7), act).unwrap();
    }
    let kept = orders(&store).unwrap();
    assert_eq!(kept.iter().map(|it| it.act).collect::<Vec<_>>(), acts);
    for order in kept {
        peacrab::people::folders::forget(&store, order).unwrap();
    }
    assert_eq!(orders(&store).unwrap(), []);
}
