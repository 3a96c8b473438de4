//! Homes that a setup does not find as it expects them: others at work in them, full disks, rights of others.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use futures_util::future::join_all;
use peacrab::config::edit::{ConfigEdit, NewSection};

use super::{answer, config, empty, own_server, unwrapped};
use crate::support::disk::Disk;
use crate::support::model_api::MODEL;

#[test]
fn what_somebody_else_has_written_into_the_config_meanwhile_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("home/config.toml");
    let opened = |name: &str| {
        let texts = vec![("type", "rehearsal".to_owned())];
        let mut edit = ConfigEdit::open(&file).unwrap();
        let name = name.to_owned();
        let (lists, secrets) = (Vec::new(), Vec::new());
        edit.add(&NewSection { kind: "providers", name, texts, lists, secrets }).unwrap();
        edit
    };
    let (mut first, mut same, mut other) = (opened("one"), opened("one"), opened("two"));
    first.save().unwrap();
    same.save().unwrap();
    let refused = other.save().unwrap_err().to_string();
    assert!(refused.contains("it was changed meanwhile"), "{refused}");
    assert_eq!(ConfigEdit::open(&file).unwrap().names("providers"), ["one"]);
    opened("two").save().unwrap();
    assert_eq!(ConfigEdit::open(&file).unwrap().names("providers"), ["one", "two"]);
    // Its own change before is none of somebody else.
    fs::write(&file, "").unwrap();
    let mut edit = opened("three");
    edit.save().unwrap();
    edit.save().unwrap();
}

#[tokio::test]
async fn the_same_setup_several_times_at_once_is_one() {
    let (fixture, model) = (empty(), own_server().await);
    (0..6).for_each(|_| model.reply(answer("OK")));
    let server = ["--provider", &model.base_url, "--model", MODEL, "--channel", "none"];
    let args = [&["init", "--yes"] as &[&str], &server].concat();
    for ended in join_all((0..6).map(|_| fixture.run(&args))).await {
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    }
    assert_eq!(ConfigEdit::open(&config(&fixture)).unwrap().names("providers"), ["server"]);
}

#[tokio::test]
async fn a_disk_without_room_for_the_data_is_no_setup() {
    let (fixture, model) = (empty(), own_server().await);
    let Some(disk) = Disk::of(&fixture).await else { return };
    disk.fill();
    let server = ["--provider", &model.base_url, "--model", MODEL, "--channel", "none"];
    let args = [&["init", "--yes"] as &[&str], &server].concat();
    // Each time, not only when the config is new.
    for _ in 0..2 {
        model.reply(answer("OK"));
        let ended = disk.run(&fixture, &args).await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(!ended.out.contains("All is set up"), "{ended:?}");
        assert!(ended.err.contains("only 0 MB are free"), "{ended:?}");
        assert!(ended.err.contains(" to continue"), "{ended:?}");
    }
    assert!(config(&fixture).exists());
}

#[tokio::test]
async fn a_home_that_others_can_write_to_is_closed_and_told_of() {
    let (fixture, model) = (empty(), own_server().await);
    fs::create_dir(fixture.home()).unwrap();
    let open = || fs::set_permissions(fixture.home(), Permissions::from_mode(0o777)).unwrap();
    let mode = || fs::metadata(fixture.home()).unwrap().permissions().mode() & 0o777;
    open();
    model.reply(answer("OK"));
    let server = ["--provider", &model.base_url, "--model", MODEL, "--channel", "none"];
    let ended = fixture.run(&[&["init", "--yes"] as &[&str], &server].concat()).await;
    assert_eq!((ended.code, mode()), (Some(0), 0o700), "{ended:?}");
    assert!(unwrapped(&ended.out).contains("is for this account only now"), "{ended:?}");
    open();
    let ended = fixture.run(&["doctor"]).await;
    let words = format!("others on this machine can write to {}", fixture.home().display());
    assert!(ended.out.contains(&format!("WRONG files: {words}")), "{ended:?}");
    let daemon = fixture.daemon().await;
    assert!(daemon.log().contains(&words), "{}", daemon.log());
    daemon.terminate().await;
    assert_eq!(mode(), 0o777);
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_is_named_with_its_file() {
    let fixture = empty();
    for (name, bytes) in [("folder", None), ("latin-1", Some(b"gr\xfc\xdfe".as_slice()))] {
        let path = fixture.folder().join(name);
        match bytes {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::create_dir(&path).unwrap(),
        }
        let path = path.to_str().unwrap();
        let ended =
            fixture.run(&["init", "--yes", "--provider", "openai", "--key-file", path]).await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains(&format!("cannot read {path}: ")), "{ended:?}");
    }
}
