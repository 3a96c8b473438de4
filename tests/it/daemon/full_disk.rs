//! A daemon whose disk is really full when it starts: a file system in memory, in a mount namespace of the test's
//! own. Not run where that is not allowed.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use peacrab::replies;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::support::binary::{Daemon, Scene, home, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::ADA;

/// Room for a home, and little more.
const SIZE: &str = "size=6m,mode=700";

/// A process that keeps the namespace in which the home is a disk of its own.
struct Disk {
    holder: Child,
    /// The home, as it is seen from outside.
    home: PathBuf,
}

impl Disk {
    #[expect(clippy::disallowed_methods, reason = "what it starts is not the program")]
    async fn of(scene: &Scene) -> Option<Self> {
        fs::create_dir_all(scene.home()).unwrap();
        let mount = "mount -t tmpfs -o \"$1\" tmpfs \"$0\" && echo mounted && exec sleep 600";
        let mut holder = Command::new("unshare");
        holder.args(["-rm", "sh", "-c", mount]).arg(scene.home()).arg(SIZE);
        holder.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut holder = holder.spawn().ok()?;
        let mut said = String::new();
        let mut out = BufReader::new(holder.stdout.take().unwrap());
        out.read_line(&mut said).await.ok()?;
        if said != "mounted\n" {
            return None;
        }
        let root = PathBuf::from(format!("/proc/{}/root", holder.id()?));
        let home = root.join(scene.home().strip_prefix("/").unwrap());
        let disk = Self { holder, home };
        // It may be entered, too.
        let mut look = Command::new("nsenter");
        look.args(&disk.wrapper()[1..]).arg("true").stderr(Stdio::null());
        let is_entered = look.status().await.is_ok_and(|status| status.success());
        is_entered.then_some(disk)
    }

    /// What a program is begun by to see this disk.
    fn wrapper(&self) -> Vec<String> {
        let holder = self.holder.id().expect("it runs").to_string();
        let words = ["nsenter", "-t", &holder, "-U", "-m", "--preserve-credentials", "--"];
        words.map(str::to_owned).to_vec()
    }

    fn begin(&self, scene: &Scene) -> Daemon {
        let wrapper = self.wrapper();
        let wrapper: Vec<&OsStr> = wrapper.iter().map(AsRef::as_ref).collect();
        scene.begin(scene.command(&wrapper, &["run"]))
    }

    /// Fills it to the last byte.
    fn fill(&self) {
        let mut file = fs::File::create(self.home.join("fill")).unwrap();
        for size in [64 * 1024, 1] {
            while std::io::Write::write_all(&mut file, &vec![0; size]).is_ok() {}
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.home.join("fill")).unwrap();
    }

    fn has(&self, name: &str) -> bool {
        self.home.join(name).exists()
    }
}

async fn logs(daemon: &Daemon, words: &str) {
    until(words, async || daemon.log().contains(words).then_some(())).await;
}

#[expect(clippy::print_stderr, reason = "who reads the tests' output must see it")]
fn print_skipped() {
    eprintln!("skipped: no disk can be mounted here");
}

#[tokio::test]
async fn starts_on_a_full_disk_by_its_ballast_or_waits_for_room() {
    let api = BotApi::start().await;
    let scene = Scene::new(&home(&api));
    let Some(disk) = Disk::of(&scene).await else {
        print_skipped();
        return;
    };
    let daemon = disk.begin(&scene);
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    assert!(daemon.terminate().await.success());
    assert!(disk.has("ballast"));

    // Orderly stopped, nothing is left of the log of the database.
    disk.fill();
    let daemon = disk.begin(&scene);
    api.wait_for_words(ADA.id, replies::DISK_IS_FULL).await;
    assert!(daemon.log().contains("released the ballast file"), "{}", daemon.log());
    assert!(!disk.has("ballast"));
    disk.make_room();
    api.say(&said(&ADA, "and now"));
    api.wait_for_words(ADA.id, "You said: and now").await;
    assert!(daemon.terminate().await.success());

    // Nothing is left to be freed.
    fs::remove_file(disk.home.join("ballast")).ok();
    disk.fill();
    let daemon = disk.begin(&scene);
    logs(&daemon, "waiting for free space").await;
    api.say(&said(&ADA, "are you there"));
    disk.make_room();
    api.wait_for_words(ADA.id, "You said: are you there").await;
    assert!(disk.has("ballast"), "it was not taken in again");
    assert!(daemon.terminate().await.success());
}
