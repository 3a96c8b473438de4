//! A disk of its own for a home: a file system in memory, in a mount namespace of the test's own.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::binary::{Daemon, Ended, ProgramFixture};

/// Room for a home, and little more.
const SIZE: &str = "size=6m,mode=700";

/// A process that keeps the namespace in which the home is a disk of its own.
pub(crate) struct Disk {
    holder: Child,
    /// The home, as it is seen from outside.
    pub(crate) home: PathBuf,
}

impl Disk {
    /// None where no disk can be mounted.
    pub(crate) async fn of(fixture: &ProgramFixture) -> Option<Self> {
        let disk = Self::mount(fixture).await;
        if disk.is_none() {
            print_skipped();
        }
        disk
    }

    #[expect(clippy::disallowed_methods, reason = "what it starts is not the program")]
    async fn mount(fixture: &ProgramFixture) -> Option<Self> {
        fs::create_dir_all(fixture.home()).unwrap();
        let mount = "mount -t tmpfs -o \"$1\" tmpfs \"$0\" && echo mounted && exec sleep 600";
        let mut holder = Command::new("unshare");
        holder.args(["-rm", "sh", "-c", mount]).arg(fixture.home()).arg(SIZE);
        holder.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut holder = holder.spawn().ok()?;
        let mut said = String::new();
        let mut out = BufReader::new(holder.stdout.take().unwrap());
        out.read_line(&mut said).await.ok()?;
        if said != "mounted\n" {
            return None;
        }
        let root = PathBuf::from(format!("/proc/{}/root", holder.id()?));
        let home = root.join(fixture.home().strip_prefix("/").unwrap());
        let disk = Self { holder, home };
        // It may be entered, too.
        let mut look = Command::new("nsenter");
        look.args(&disk.wrapper()[1..]).arg("true").stderr(Stdio::null());
        let is_entered = look.status().await.is_ok_and(|status| status.success());
        is_entered.then_some(disk)
    }

    /// What a program is begun by to see this disk.
    pub(crate) fn wrapper(&self) -> Vec<String> {
        let holder = self.holder.id().expect("it runs").to_string();
        let words = ["nsenter", "-t", &holder, "-U", "-m", "--preserve-credentials", "--"];
        words.map(str::to_owned).to_vec()
    }

    pub(crate) fn begin(&self, fixture: &ProgramFixture) -> Daemon {
        let wrapper = self.wrapper();
        let wrapper: Vec<&OsStr> = wrapper.iter().map(AsRef::as_ref).collect();
        fixture.begin(fixture.command(&wrapper, &["run"]))
    }

    /// Fills it to the last byte.
    pub(crate) fn fill(&self) {
        let mut file = fs::File::create(self.home.join("fill")).unwrap();
        for size in [64 * 1024, 1] {
            while std::io::Write::write_all(&mut file, &vec![0; size]).is_ok() {}
        }
    }

    pub(crate) fn make_room(&self) {
        fs::remove_file(self.home.join("fill")).unwrap();
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.home.join(name).exists()
    }

    /// Makes it read-only, as a card that fails becomes.
    #[expect(clippy::disallowed_methods, reason = "what it starts is not the program")]
    pub(crate) async fn forbid_writing(&self, fixture: &ProgramFixture) {
        let wrapper = self.wrapper();
        let mut mount = Command::new(&wrapper[0]);
        mount.args(&wrapper[1..]).args(["mount", "-o", "remount,ro"]).arg(fixture.home());
        assert!(mount.status().await.unwrap().success());
    }

    /// Runs a command that sees this disk.
    pub(crate) async fn run(&self, fixture: &ProgramFixture, args: &[&str]) -> Ended {
        let wrapper = self.wrapper();
        let wrapper: Vec<&OsStr> = wrapper.iter().map(AsRef::as_ref).collect();
        fixture.run_with(fixture.command(&wrapper, args), "").await
    }
}

#[expect(clippy::print_stderr, reason = "who reads the tests' output must see it")]
fn print_skipped() {
    eprintln!("skipped: no disk can be mounted here");
}
