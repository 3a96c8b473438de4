//! The acts that the table allows after untrusted content stay where they are: writes and commands in the downloads and
//! in the folder of a group, whatever links lead out of them. Named addresses are in `foreign::addresses` and
//! `web::turns`: one that differs in anything is asked about.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use peacrab::workspace::FileScope;
use serde_json::{Value, json};

use super::ordinary::parts;
use super::read_all;
use crate::support::rig::{OWNER, Rig, USER};
use crate::support::script::{calls, says};

const SECRET: &str = "secret-marmalade";

const READY: &str = "I tried.";

const GROUP: &str = "-1";

/// A rig with a shell, and with a secret and a list in each place that a turn elsewhere must not reach.
async fn rig() -> Rig {
    let mut rig = Rig::of(parts()).await;
    // The folder of a person is known once they have spoken.
    rig.say_as(USER, "2", "hello");
    rig.next_message("2").await;
    rig.ask("1", "hello").await;
    for folder in outside(&rig) {
        let folder = rig.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("secret.md"), SECRET).unwrap();
        fs::write(folder.join("list.md"), "milk\n").unwrap();
    }
    rig
}

/// The folders of the owner, of a user and of another group, and the one for all.
fn outside(rig: &Rig) -> Vec<String> {
    let theirs = rig.files_of(USER).root().expect("they are not the owner");
    ["workspace", "shared", theirs.as_str(), "groups/g0123456789ab"].map(str::to_owned).to_vec()
}

fn outside_files(rig: &Rig) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    outside(rig).iter().for_each(|folder| read_all(&rig.path().join(folder), &mut found));
    found
}

/// Puts links to all other folders, and to their lists, into a folder. Returns their names.
fn plant_links(rig: &Rig, folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for (at, target) in outside(rig).iter().enumerate() {
        let target = rig.path().join(target);
        symlink(&target, folder.join(format!("folder{at}"))).unwrap();
        symlink(target.join("list.md"), folder.join(format!("list{at}.md"))).unwrap();
        fs::hard_link(target.join("list.md"), folder.join(format!("hard{at}.md"))).unwrap();
        names.extend([format!("list{at}.md"), format!("folder{at}/list.md")]);
        names.push(format!("hard{at}.md"));
    }
    names
}

/// Calls that change each of these files, and make new ones beside them.
fn changes(below: &str, names: &[String]) -> Vec<(&'static str, Value)> {
    let change = |name: &String| {
        let path = format!("{below}{name}");
        let new = path.replace("list", "new").replace("hard", "new");
        vec![
            ("append_file", json!({"path": path, "content": "evil"})),
            ("edit_file", json!({"path": path, "old": "milk", "new": "evil"})),
            (
                "write_markdown_section",
                json!({"path": path, "heading": "# Evil", "content": "evil"}),
            ),
            ("create_markdown_file", json!({"path": new, "content": "evil"})),
            ("write_file", json!({"path": path, "content": "evil"})),
        ]
    };
    names.iter().flat_map(change).collect()
}

/// A command that shows and changes all that it reaches, by their paths and by links.
fn command(rig: &Rig) -> String {
    let home = rig.path().display().to_string();
    let all: Vec<_> = outside(rig).iter().map(|folder| format!("{home}/{folder}")).collect();
    format!(
        "for one in {} ../../workspace ../workspace ../../../workspace folder0 folder1 folder2 folder3; do
            cat $one/secret.md; echo evil >> $one/list.md; echo evil > $one/new.md
            ln $one/secret.md hard.md; cp $one/secret.md copy.md; rm -f $one/list.md
        done 2>/dev/null
        cat list*.md {home}/state.db 2>/dev/null; echo evil >> list0.md; true",
        all.join(" ")
    )
}

/// No prompt since then has the secret, no other folder has changed, and nobody was asked.
fn check_inside(rig: &Rig, before: &BTreeMap<String, String>, asked: usize) {
    let now = outside_files(rig);
    assert_eq!(now, *before);
    let prompts = rig.model.asked();
    assert!(prompts.len() > asked, "the model was not asked");
    for prompt in &prompts[asked..] {
        let transcript = prompt.transcript();
        assert!(!transcript.contains(SECRET), "{transcript}");
    }
    let asks = rig.query("SELECT CAST(id AS TEXT) FROM asks");
    assert_eq!(asks, Vec::<String>::new());
}

#[tokio::test]
async fn writes_in_the_downloads_follow_no_link_out_of_them() {
    let mut rig = rig().await;
    let downloads = rig.path().join("downloads");
    fs::write(downloads.join("page.txt"), "Crabs walk sideways.").unwrap();
    let links = plant_links(&rig, &downloads);
    let before = outside_files(&rig);
    let asked = rig.model.asked().len();
    let reads = [("read_file", json!({"path": "downloads/page.txt"}))];
    let writes = changes("downloads/", &links);
    // It can write there.
    let own = [("write_file", json!({"path": "downloads/own.md", "content": "evil"}))];
    rig.model.on("try it", [calls(&reads), calls(&writes), calls(&own), says(READY)]);
    assert_eq!(rig.ask("1", "try it").await, READY);
    check_inside(&rig, &before, asked);
    assert_eq!(fs::read_to_string(downloads.join("own.md")).unwrap(), "evil");
    rig.stop().await;
}

#[tokio::test]
async fn commands_in_the_downloads_reach_no_other_folder() {
    let mut rig = rig().await;
    let downloads = rig.path().join("downloads");
    fs::write(downloads.join("page.txt"), "Crabs walk sideways.").unwrap();
    for (at, folder) in outside(&rig).iter().enumerate() {
        symlink(rig.path().join(folder), downloads.join(format!("folder{at}"))).unwrap();
        let list = rig.path().join(folder).join("list.md");
        symlink(list, downloads.join(format!("list{at}.md"))).unwrap();
    }
    let before = outside_files(&rig);
    let asked = rig.model.asked().len();
    let command = command(&rig);
    let reads = [("read_file", json!({"path": "downloads/page.txt"}))];
    let all = format!("{command}; echo ran > ran.txt");
    let runs = [
        ("exec", json!({"command": command, "cwd": "downloads/folder0"})),
        ("exec", json!({"command": command, "cwd": "downloads"})),
        ("exec", json!({"command": all, "untrusted": true})),
    ];
    let [first, second, third] = runs.map(|run| calls(&[run]));
    rig.model.on("try it", [calls(&reads), first, second, third, says(READY)]);
    assert_eq!(rig.ask("1", "try it").await, READY);
    check_inside(&rig, &before, asked);
    assert_eq!(fs::read_to_string(downloads.join("ran.txt")).unwrap(), "ran\n");
    rig.stop().await;
}

#[tokio::test]
async fn writes_and_commands_of_a_group_stay_in_its_folder() {
    let mut rig = rig().await;
    let own = FileScope::of_group(&"home".into(), &GROUP.into()).root().expect("a folder");
    let own = rig.path().join(own.as_str());
    fs::create_dir_all(&own).unwrap();
    // Hard links are tried by writes; a command would change what both names stand for.
    let links = plant_links(&rig, &own);
    let before = outside_files(&rig);
    let asked = rig.model.asked().len();
    // It has heard somebody with fewer rights.
    rig.say_as(USER, GROUP, "hello");
    rig.next_message(GROUP).await;
    let writes = changes("", &links);
    let kept = [("write_file", json!({"path": "own.md", "content": "evil"}))];
    rig.model.on("try it", [calls(&writes), calls(&kept), says(READY)]);
    rig.say_as(OWNER, GROUP, "try it");
    assert_eq!(rig.next_message(GROUP).await, READY);
    check_inside(&rig, &before, asked);
    assert_eq!(fs::read_to_string(own.join("own.md")).unwrap(), "evil");
    for at in 0..outside(&rig).len() {
        fs::remove_file(own.join(format!("hard{at}.md"))).ok();
    }
    let command = format!("{}; echo ran > ran.txt", command(&rig));
    let runs = [json!({"command": command}), json!({"command": command, "untrusted": true})];
    let [first, second] = runs.map(|run| calls(&[("exec", run)]));
    rig.model.on("run it", [first, second, says(READY)]);
    rig.say_as(OWNER, GROUP, "run it");
    assert_eq!(rig.next_message(GROUP).await, READY);
    check_inside(&rig, &before, asked);
    assert_eq!(fs::read_to_string(own.join("ran.txt")).unwrap(), "ran\n");
    rig.stop().await;
}
