//! `peacrab update` against a server of its own: what is not signed, whole and able to run changes nothing, and a version
//! that does not come up makes way for the old one.

mod checks;
mod downloads;
mod going_back;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::process::Command;

use crate::service::put_program;
use crate::support::binary::{Ended, ProgramFixture};

type Files = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// The addresses to which names have moved.
type Moved = Arc<Mutex<BTreeMap<String, String>>>;

/// A server with some files.
struct Server {
    url: String,
    files: Files,
    moved: Moved,
    key: Ed25519KeyPair,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let files = Files::default();
        let moved = Moved::default();
        let (shared, shared_moved) = (Arc::clone(&files), Arc::clone(&moved));
        // It ends with the tests.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().unwrap().unwrap();
                while !lines.next().unwrap().unwrap().is_empty() {}
                let name = first.split(' ').nth(1).unwrap().trim_start_matches('/');
                let to = shared_moved.lock().unwrap().get(name).cloned();
                let (status, body) = match (to, shared.lock().unwrap().get(name)) {
                    (Some(to), _) => (format!("302 Found\r\nlocation: {to}"), Vec::new()),
                    (None, Some(body)) => ("200 OK".to_owned(), body.clone()),
                    (None, None) => ("404 Not Found".to_owned(), Vec::new()),
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                stream.write_all(head.as_bytes()).ok();
                stream.write_all(&body).ok();
            }
        });
        Self { url, files, moved, key: Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap() }
    }

    fn config(&self) -> String {
        let key = STANDARD.encode(self.key.public_key());
        format!("[update]\nurl = \"{}\"\npublic_key = \"{key}\"\n", self.url)
    }

    fn put(&self, name: &str, content: &[u8]) {
        self.files.lock().unwrap().insert(name.to_owned(), content.to_vec());
    }

    /// Answers a request for `name` with a redirect.
    fn redirect(&self, name: &str, to: &str) {
        self.moved.lock().unwrap().insert(name.to_owned(), to.to_owned());
    }

    /// Publishes a program, signed.
    fn publish(&self, version: &str, program: &str) {
        let sha256: String =
            Sha256::digest(program).iter().map(|byte| format!("{byte:02x}")).collect();
        let machine = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        let programs = json!({ machine: { "file": "program", "sha256": sha256 } });
        self.sign(&json!({ "version": version, "programs": programs }).to_string());
        self.put("program", program.as_bytes());
    }

    fn sign(&self, release: &str) {
        let signature = STANDARD.encode(self.key.sign(release.as_bytes()));
        // As the program `base64` writes it.
        let (line, rest) = signature.split_at(76);
        self.put("release.json", release.as_bytes());
        self.put("release.json.sig", format!("{line}\n{rest}\n").as_bytes());
    }
}

/// A copy of the program, which may be replaced.
fn installed(fixture: &ProgramFixture) -> PathBuf {
    let folder = fixture.folder().join("installed");
    fs::create_dir(&folder).unwrap();
    let exe = folder.join("peacrab");
    let program = env!("CARGO_BIN_EXE_peacrab");
    fs::hard_link(program, &exe).or_else(|_| fs::copy(program, &exe).map(drop)).unwrap();
    exe
}

#[expect(clippy::disallowed_methods, reason = "the program is this test's own child")]
fn command(fixture: &ProgramFixture, exe: &Path, args: &[&str]) -> Command {
    let path = format!("{}:/usr/bin:/bin", fixture.folder().join("bin").display());
    let mut command = Command::new(exe);
    command.arg("--home").arg(fixture.home());
    command.arg("--config").arg(fixture.folder().join("config.toml")).args(args);
    command.env_clear().env("HOME", fixture.folder()).env("PATH", path).kill_on_drop(true);
    command
}

async fn update(fixture: &ProgramFixture, exe: &Path) -> Ended {
    fixture.run_with(command(fixture, exe, &["update", "--healthy-for", "1"]), "").await
}

/// A program that is another version of this one.
fn another(version: &str, exe: &str, run: &str) -> String {
    format!(
        "#!/bin/sh\ncase \"$*\" in\n--version) echo peacrab {version} ;;\n*\\ run) {run} ;;\n\
         *) exec {exe} \"$@\" ;;\nesac\n"
    )
}

fn is_unchanged(exe: &Path) -> bool {
    let names = fs::read_dir(exe.parent().unwrap()).unwrap().count();
    names == 1
        && fs::metadata(exe).unwrap().len()
            == fs::metadata(env!("CARGO_BIN_EXE_peacrab")).unwrap().len()
}

#[tokio::test]
async fn nothing_is_changed_without_a_source_or_a_newer_version() {
    let fixture = ProgramFixture::new("");
    let exe = installed(&fixture);
    let ended = update(&fixture, &exe).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("nothing was changed"), "{ended:?}");

    let server = Server::start();
    let fixture = ProgramFixture::new(&server.config());
    let exe = installed(&fixture);
    let ended = update(&fixture, &exe).await;
    assert!(ended.err.contains("cannot fetch release.json: the server answered 404"), "{ended:?}");
    for version in ["0.0.1", env!("CARGO_PKG_VERSION"), concat!(env!("CARGO_PKG_VERSION"), "-rc1")]
    {
        server.publish(version, "#!/bin/sh\n");
        let ended = update(&fixture, &exe).await;
        assert!(ended.out.contains("is up to date"), "{version}: {ended:?}");
    }
    server.publish("99.0.0", "#!/bin/sh\n");
    let ended = fixture.run_with(command(&fixture, &exe, &["update", "--check"]), "").await;
    assert!(ended.out.contains("Version 99.0.0 can be installed"), "{ended:?}");
    assert!(is_unchanged(&exe));
}

#[tokio::test]
async fn a_release_that_is_not_signed_whole_or_able_to_run_is_refused() {
    let server = Server::start();
    let fixture = ProgramFixture::new(&server.config());
    let exe = installed(&fixture);
    let refused = async |words: &str| {
        let ended = update(&fixture, &exe).await;
        assert_eq!(ended.code, Some(1), "{words}: {ended:?}");
        assert!(ended.err.contains(words), "{words}: {ended:?}");
        assert!(is_unchanged(&exe), "{words}");
    };
    let good = another("99.0.0", env!("CARGO_BIN_EXE_peacrab"), "exit 1");
    server.publish("99.0.0", &good);
    let signed = server.files.lock().unwrap()["release.json"].clone();
    let text = String::from_utf8(signed).unwrap().replace("99.0.0", "99.0.1");
    server.put("release.json", text.as_bytes());
    refused("is not signed").await;
    server.publish("99.0.0", &good);
    server.put("release.json.sig", b"?");
    refused("is not Base64").await;
    server.publish("99.0.0", &good);
    server.put("program", b"#!/bin/sh\necho evil\n");
    refused("differs from the signed one").await;
    server.sign("{\"version\": \"99.0.0\", \"programs\": {}}");
    refused("has no program for this machine").await;
    server.sign("{\"version\": \"99\"}");
    refused("cannot read release.json").await;
    // Signed, and wrong.
    server.publish("99.0.0", &another("98.0.0", env!("CARGO_BIN_EXE_peacrab"), "exit 1"));
    refused("says that it is \"peacrab 98.0.0\"").await;
    server.publish("99.0.0", "#!/bin/sh\necho it breaks >&2\nexit 3\n");
    refused("it breaks").await;
    let wrong = ProgramFixture::new("[update]\nurl = \"https://example.com\"\n");
    let ended = wrong.run(&["update"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("needs both"), "{ended:?}");
    // A key that cannot be used is not a missing one.
    let url = "[update]\nurl = \"https://example.com\"\n";
    let wrong = ProgramFixture::new(&format!("{url}public_key = \"AAAA\"\n"));
    let ended = wrong.run(&["update"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("must be the 32 bytes of an Ed25519 key"), "{ended:?}");
    assert!(!ended.err.contains("needs both"), "{ended:?}");
}

#[tokio::test]
async fn redirects_are_followed_and_what_they_lead_to_is_checked_as_ever() {
    // As hosts of releases do: another server has the files.
    let (server, store) = (Server::start(), Server::start());
    let fixture = ProgramFixture::new(&server.config());
    let exe = installed(&fixture);
    let names = ["release.json", "release.json.sig", "program"];
    for name in names {
        server.redirect(name, &format!("{}/latest/{name}?token=not-to-be-shown", store.url));
        store.redirect(&format!("latest/{name}?token=not-to-be-shown"), &format!("../{name}"));
    }
    let checked = async || fixture.run(&["update", "--check"]).await;
    store.publish("99.0.0", &another("99.0.0", env!("CARGO_BIN_EXE_peacrab"), "exit 1"));
    let ended = checked().await;
    assert!(ended.out.contains("Version 99.0.0 can be installed"), "{ended:?}");
    let refused = async |words: &str| {
        let ended = update(&fixture, &exe).await;
        assert_eq!(ended.code, Some(1), "{words}: {ended:?}");
        assert!(ended.err.contains(words), "{words}: {ended:?}");
        assert!(!ended.err.contains("not-to-be-shown"), "{words}: {ended:?}");
        assert!(is_unchanged(&exe), "{words}");
    };
    store.put("program", b"#!/bin/sh\necho evil\n");
    refused("differs from the signed one").await;
    store.put("release.json", b"{}");
    refused("is not signed").await;
    for elsewhere in ["file:///etc/passwd", "ftp://example.com/x", "data:,x", "http://"] {
        store.redirect("latest/release.json?token=not-to-be-shown", elsewhere);
        refused("redirects to no address of http or https").await;
    }
    server.redirect("release.json", "release.json");
    refused("cannot fetch release.json: the server redirects more than 5 times").await;
    // What is installed at the end is the program.
    for name in names {
        server.redirect(name, &format!("{}/{name}", store.url));
    }
    let program = another("99.0.0", env!("CARGO_BIN_EXE_peacrab"), "exit 1");
    store.publish("99.0.0", &program);
    let ended = update(&fixture, &exe).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(fs::read_to_string(&exe).unwrap(), program);
}

/// Waits in a script until no daemon has the home. Its socket is gone before that, while it still holds the lock.
fn await_end(home: &Path) -> String {
    let lock = home.join("lock");
    format!("[ ! -e {lock} ] || flock {lock} true", lock = lock.display())
}

/// A systemd whose one service is the installed program.
fn systemd(fixture: &ProgramFixture, exe: &Path) {
    let (home, exe) = (fixture.home(), exe.display());
    let restart = format!(
        "kill -TERM $(cat {home}/lock)\n{end}\n\
         setsid {exe} --home {home} --config {home}/../config.toml run </dev/null >/dev/null 2>&1 &\n",
        home = home.display(),
        end = await_end(&home)
    );
    let state = "LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nResult=success\\nNRestarts=0\\n";
    put_program(
        fixture,
        "systemctl",
        &format!(
            "case \"$*\" in\n--user*) exit 1 ;;\n*show*) printf '{state}' ;;\n*restart*) {restart} ;;\nesac"
        ),
    );
}

#[tokio::test]
async fn a_healthy_version_stays_and_the_old_program_is_kept() {
    let server = Server::start();
    let fixture = ProgramFixture::new(&server.config());
    let exe = installed(&fixture);
    systemd(&fixture, &exe);
    let run = command(&fixture, &exe, &["run"]);
    let _daemon = fixture.begin(run);
    crate::support::binary::until("the daemon", async || {
        (fixture.run(&["status"]).await.code == Some(0)).then_some(())
    })
    .await;
    let before = fixture.status().await["pid"].clone();
    let real = fixture.folder().join("real");
    fs::hard_link(&exe, &real).unwrap();
    let new =
        another("99.0.0", &real.display().to_string(), &format!("exec {} \"$@\"", real.display()));
    server.publish("99.0.0", &new);
    let ended = update(&fixture, &exe).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.out.contains("Version 99.0.0 runs."), "{ended:?}");
    let after = fixture.status().await["pid"].as_i64().unwrap();
    assert_ne!(before, after);
    assert_eq!(fs::read_to_string(&exe).unwrap(), new);
    assert_eq!(fs::metadata(&exe).unwrap().permissions().mode() & 0o777, 0o755);
    let old = exe.with_extension("old");
    assert_eq!(fs::metadata(old).unwrap().len(), fs::metadata(real).unwrap().len());
    end(after);
}

#[tokio::test]
async fn the_service_of_another_home_is_not_restarted() {
    let server = Server::start();
    let fixture = ProgramFixture::new(&server.config());
    let exe = installed(&fixture);
    let calls = fixture.folder().join("calls");
    let state = "LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nResult=success\\nNRestarts=0\\n";
    let systemctl = format!(
        "echo \"$*\" >> {}\ncase \"$*\" in\n*MainPID*) echo MainPID=1 ;;\n*show*) printf '{state}' ;;\nesac",
        calls.display()
    );
    put_program(&fixture, "systemctl", &systemctl);
    let daemon = fixture.begin(command(&fixture, &exe, &["run"]));
    crate::support::binary::until("the daemon", async || {
        (fixture.run(&["status"]).await.code == Some(0)).then_some(())
    })
    .await;
    let new = another("99.0.0", env!("CARGO_BIN_EXE_peacrab"), "exit 1");
    server.publish("99.0.0", &new);
    let ended = update(&fixture, &exe).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.out.contains("The running daemon is not a systemd service."), "{ended:?}");
    assert_eq!(fs::read_to_string(&exe).unwrap(), new);
    let calls = fs::read_to_string(&calls).unwrap();
    assert!(calls.contains("MainPID") && !calls.contains("restart"), "{calls}");
    daemon.terminate().await;
}

#[tokio::test]
async fn a_version_that_does_not_come_up_makes_way_for_the_old_one() {
    let server = Server::start();
    let fixture = ProgramFixture::new(&server.config());
    let exe = installed(&fixture);
    systemd(&fixture, &exe);
    let _daemon = fixture.begin(command(&fixture, &exe, &["run"]));
    crate::support::binary::until("the daemon", async || {
        (fixture.run(&["status"]).await.code == Some(0)).then_some(())
    })
    .await;
    let before = fixture.status().await["pid"].clone();
    // systemd says at once that it has failed.
    let log = fixture.folder().join("restarts");
    let systemctl = fs::read_to_string(fixture.folder().join("bin/systemctl")).unwrap();
    let fails =
        format!("*restart*) echo . >> {0}; [ $(wc -l < {0}) = 1 ] && exit 1\n", log.display());
    put_program(
        &fixture,
        "systemctl",
        systemctl.trim_start_matches("#!/bin/sh\n").replace("*restart*) ", &fails).as_str(),
    );
    server.publish("99.0.0", &another("99.0.0", env!("CARGO_BIN_EXE_peacrab"), "exit 1"));
    let ended = update(&fixture, &exe).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("The old version runs again"), "{ended:?}");
    assert!(is_unchanged(&exe));
    let after = fixture.status().await["pid"].as_i64().unwrap();
    assert_ne!(before, after);
    end(after);
}

#[tokio::test]
async fn a_version_that_has_changed_the_store_stays() {
    let server = Server::start();
    let fixture = ProgramFixture::new(&server.config());
    let exe = installed(&fixture);
    systemd(&fixture, &exe);
    let _daemon = fixture.begin(command(&fixture, &exe, &["run"]));
    crate::support::binary::until("the daemon", async || {
        (fixture.run(&["status"]).await.code == Some(0)).then_some(())
    })
    .await;
    // The new version migrates the store, and ends before it is ready.
    let newer = fixture.folder().join("newer.db");
    let store = rusqlite::Connection::open(&newer).unwrap();
    store.execute_batch("CREATE TABLE later (x)").unwrap();
    store.pragma_update(None, "user_version", 9999).unwrap();
    drop(store);
    let (home, newer) = (fixture.home().display().to_string(), newer.display().to_string());
    let end = await_end(&fixture.home());
    let calls = fixture.folder().join("calls");
    let log = calls.display().to_string();
    let state = "LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nResult=success\\nNRestarts=0\\n";
    let restart = format!(
        "echo \"$*\" >> {log}\n[ -e {home}/control.sock ] || exit 0\nkill -TERM $(cat {home}/lock)\n\
         {end}\nrm -f {home}/state.db*\n\
         cp {newer} {home}/state.db\nexit 1\n"
    );
    let systemctl = format!(
        "case \"$*\" in\n--user*) exit 1 ;;\n*show*) printf '{state}' ;;\n*stop*) echo \"$*\" >> {log} ;;\n\
         *restart*) {restart} ;;\nesac"
    );
    put_program(&fixture, "systemctl", &systemctl);
    let new = another("99.0.0", env!("CARGO_BIN_EXE_peacrab"), "exit 1");
    server.publish("99.0.0", &new);
    let ended = update(&fixture, &exe).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in
        ["may be unable to open the store now", "schema 9999", "restore the backup", "peacrab.old"]
    {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
    assert_eq!(fs::read_to_string(&exe).unwrap(), new, "the new program stays");
    let calls = fs::read_to_string(&calls).unwrap();
    let restart = "restart --no-block peacrab.service";
    assert_eq!(calls.lines().collect::<Vec<_>>(), [restart, "stop peacrab.service", restart]);
}

#[tokio::test]
async fn an_interrupted_update_says_what_is_installed() {
    let server = Server::start();
    let fixture = ProgramFixture::new(&server.config());
    let exe = installed(&fixture);
    systemd(&fixture, &exe);
    let _daemon = fixture.begin(command(&fixture, &exe, &["run"]));
    crate::support::binary::until("the daemon", async || {
        (fixture.run(&["status"]).await.code == Some(0)).then_some(())
    })
    .await;
    // The service never comes up.
    let flag = fixture.folder().join("restarted");
    let (home, touched) = (fixture.home().display().to_string(), flag.display().to_string());
    let state = "LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nResult=success\\nNRestarts=0\\n";
    let systemctl = format!(
        "case \"$*\" in --user*) exit 1;; *show*) printf '{state}';; \
         *restart*) kill -TERM $(cat {home}/lock); touch {touched};; esac"
    );
    put_program(&fixture, "systemctl", &systemctl);
    let new = another("99.0.0", env!("CARGO_BIN_EXE_peacrab"), "exit 1");
    server.publish("99.0.0", &new);
    // With a log of its own.
    let beside = ProgramFixture::new("");
    let update = beside.begin(command(&fixture, &exe, &["update"]));
    crate::support::binary::until("the restart", async || flag.exists().then_some(())).await;
    assert_eq!(update.terminate().await.code(), Some(1));
    let said = fs::read_to_string(beside.folder().join("log")).unwrap();
    assert!(said.contains("interrupted. Version 99.0.0 is installed"), "{said}");
    assert_eq!(fs::read_to_string(&exe).unwrap(), new);
    assert!(exe.with_extension("old").exists());
}

/// Ends a daemon that a restart has begun.
fn end(pid: i64) {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
}
