//! A new version that does not come up, whatever its way of not coming up is, and whatever happens to the update meanwhile.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use peacrab::control::{self, SOCKET};
use peacrab::store::{HomeLock, newest_schema};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::{Server, another, await_end, command, end, installed, is_unchanged};
use crate::service::put_program;
use crate::support::binary::{Daemon, Ended, PATIENCE, ProgramFixture, until};

/// A home whose daemon is the installed program and a service of a systemd that a script plays.
struct Service {
    server: Server,
    fixture: ProgramFixture,
    exe: PathBuf,
}

impl Service {
    /// `after` is what the script does at the end of each call, whose words are `$*`.
    fn new(after: &str) -> Self {
        let server = Server::start();
        let fixture = ProgramFixture::new(&server.config());
        let exe = installed(&fixture);
        let service = Self { server, fixture, exe };
        let (home, folder) = (service.fixture.home(), service.fixture.folder());
        let begin = format!(
            "setsid sh -c 'echo $$ > {pid}; exec {exe} --home {home} --config {config} run' </dev/null >/dev/null 2>&1 &\n\
             while [ ! -s {pid} ]; do sleep 0.01; done",
            pid = service.pid().display(),
            exe = service.exe.display(),
            home = home.display(),
            config = folder.join("config.toml").display()
        );
        let end = format!(
            "[ -e {pid} ] && kill -TERM $(cat {pid}); rm -f {pid} {shown}\n\
             {gone}",
            pid = service.pid().display(),
            shown = service.shown().display(),
            gone = await_end(&home)
        );
        let state = "LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nResult=success\\nNRestarts=0\\n";
        let script = format!(
            "echo \"$*\" >> {calls}\ncase \"$*\" in\n--user*) exit 1 ;;\n*show*) cat {shown} 2>/dev/null || printf '{state}' ;;\n\
             *restart*) {end}\n{begin} ;;\n*stop*) {end} ;;\nesac\n{after}",
            calls = service.calls_file().display(),
            shown = service.shown().display()
        );
        put_program(
            &service.fixture,
            "systemctl",
            &script.replace("FOLDER", &folder.display().to_string()),
        );
        service
    }

    /// Begins the daemon, and waits until it is healthy.
    async fn begin(&self) -> Daemon {
        let daemon = self.fixture.begin(command(&self.fixture, &self.exe, &["run"]));
        until("the daemon", async || {
            (self.fixture.run(&["status"]).await.code == Some(0)).then_some(())
        })
        .await;
        fs::write(self.pid(), self.fixture.status().await["pid"].to_string()).unwrap();
        daemon
    }

    /// Publishes a version whose daemon is this line of a shell.
    fn publish(&self, run: &str) {
        self.server.publish("99.0.0", &another("99.0.0", env!("CARGO_BIN_EXE_peacrab"), run));
    }

    async fn update(&self, seconds: &str) -> Ended {
        let args = ["update", "--health-timeout", seconds, "--healthy-for", "1"];
        self.fixture.run_with(command(&self.fixture, &self.exe, &args), "").await
    }

    /// A script cannot update itself: its program is another file. This one can, in its place.
    fn make_new_program_able_to_update(&self) {
        if fs::read(&self.exe).unwrap().starts_with(b"#!") {
            let copy = self.fixture.folder().join("copy");
            fs::copy(env!("CARGO_BIN_EXE_peacrab"), &copy).unwrap();
            fs::rename(copy, &self.exe).unwrap();
        }
    }

    fn pid(&self) -> PathBuf {
        self.fixture.folder().join("pid")
    }

    /// The state that systemd shows, if there is such a file.
    fn shown(&self) -> PathBuf {
        self.fixture.folder().join("shown")
    }

    /// Publishes a version that is healthy until there is the file `end`. Then systemd shows that it has ended and is to be
    /// started again. The shell goes on with `after`.
    fn publish_healthy_until_end(&self, result: &str, after: &str) {
        let state = format!(
            "ActiveState=activating\\nSubState=auto-restart\\nResult={result}\\nStatusText=\\n"
        );
        self.publish(&format!(
            "{program} \"$@\" & while [ ! -e {end} ]; do sleep 0.01; done\n\
             kill -TERM $!; wait $!; printf '{state}' > {shown}; {after}",
            program = env!("CARGO_BIN_EXE_peacrab"),
            end = self.fixture.folder().join("end").display(),
            shown = self.shown().display()
        ));
    }

    /// The rest of such a shell: for one look of the update or two, nobody answers, and then a daemon does.
    fn restart(&self) -> String {
        format!(
            "asked=$(grep -c ^show {calls}); while [ $(grep -c ^show {calls}) -lt $((asked + 2)) ]; do sleep 0.05; done; \
             rm -f {shown}; exec {program} \"$@\"",
            calls = self.calls_file().display(),
            shown = self.shown().display(),
            program = env!("CARGO_BIN_EXE_peacrab")
        )
    }

    /// Begins an update with a health timeout and a time to stay healthy, and waits until it says that the new version is
    /// healthy. The new version ends once there is the file `end`.
    async fn begin_update(&self, [within, healthy_for]: [&str; 2]) -> RunningUpdate {
        let args = ["update", "--health-timeout", within, "--healthy-for", healthy_for];
        let update = RunningUpdate::begin(command(&self.fixture, &self.exe, &args));
        until("a healthy version", async || update.out().contains("is watched for").then_some(()))
            .await;
        update
    }

    fn end_new_version(&self) {
        fs::write(self.fixture.folder().join("end"), "").unwrap();
    }

    /// Updates, and lets the new version end as soon as the update says that it is healthy.
    async fn update_until_end(&self, healthy_for: &str) -> Ended {
        let update = self.begin_update(["60", healthy_for]).await;
        self.end_new_version();
        update.ended().await
    }

    fn calls_file(&self) -> PathBuf {
        self.fixture.folder().join("calls")
    }

    /// How often systemd was asked for this.
    fn calls(&self, verb: &str) -> usize {
        let calls = fs::read_to_string(self.calls_file()).unwrap_or_default();
        calls.lines().filter(|line| line.starts_with(verb)).count()
    }

    fn note(&self) -> PathBuf {
        beside(&self.exe, ".update")
    }

    async fn finish(self) {
        end(self.fixture.status().await["pid"].as_i64().unwrap());
    }
}

/// An update at work, and the files to which it writes.
struct RunningUpdate {
    update: Child,
    written: TempDir,
}

impl RunningUpdate {
    fn begin(mut command: Command) -> Self {
        let written = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(written.path().join(name)).unwrap();
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        Self { update: command.spawn().unwrap(), written }
    }

    fn out(&self) -> String {
        fs::read_to_string(self.written.path().join("out")).unwrap()
    }

    async fn ended(mut self) -> Ended {
        let ended = timeout(PATIENCE, self.update.wait()).await;
        let ended = ended.unwrap_or_else(|_| panic!("it does not end: {}", self.out())).unwrap();
        let err = fs::read_to_string(self.written.path().join("err")).unwrap();
        Ended { code: ended.code(), out: self.out(), err }
    }

    /// Interrupts it.
    async fn interrupt(self) -> Ended {
        end(i64::from(self.update.id().expect("it runs")));
        self.ended().await
    }
}

fn beside(exe: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", exe.display()))
}

#[tokio::test]
async fn a_version_that_hangs_before_it_is_ready_makes_way_for_the_old_one() {
    let service = Service::new("");
    let _daemon = service.begin().await;
    let before = service.fixture.status().await["pid"].clone();
    service.publish("exec sleep 600");
    let ended = service.update("1").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("The old version runs again"), "{ended:?}");
    assert!(is_unchanged(&service.exe));
    assert_ne!(service.fixture.status().await["pid"], before);
    service.finish().await;
}

#[tokio::test]
async fn a_version_that_runs_and_is_unhealthy_makes_way_for_the_old_one() {
    let service = Service::new("");
    let _daemon = service.begin().await;
    let home = service.fixture.home();
    // The new version answers as the old one does, and says that it is stuck.
    let mut socket = control::connect(&home).await.unwrap();
    socket.write_all(b"{\"verb\":\"status\"}\n").await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let mut answer: Value = serde_json::from_str(answer.trim()).unwrap();
    answer["status"]["health"]["agent_loop"] = json!(false);
    answer["status"]["since"] = json!("2999-01-01T00:00:00Z");
    let answer = format!("{answer}\n");
    let flag = service.fixture.folder().join("runs");
    service.publish(&format!("touch {}; exec sleep 600", flag.display()));
    let new_version = async {
        until("the new version", async || flag.exists().then_some(())).await;
        // Until its end the old version removes whatever socket is there.
        let lock = until("the old version's end", async || HomeLock::claim(&home).ok()).await;
        let listener = control::bind(&home).unwrap();
        let answers = async {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut asked = String::new();
                BufReader::new(&mut client).read_line(&mut asked).await.ok();
                client.write_all(answer.as_bytes()).await.ok();
            }
        };
        tokio::select! {
            () = answers => {}
            () = until("its end", async || (service.calls("stop") > 0).then_some(())) => {}
        }
        fs::remove_file(home.join(SOCKET)).ok();
        // Its end, for which the script waits.
        drop(lock);
    };
    let (ended, ()) = tokio::join!(service.update("20"), new_version);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in ["it is unhealthy", "The old version runs again"] {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
    assert!(is_unchanged(&service.exe));
    service.finish().await;
}

#[tokio::test]
async fn a_version_that_is_healthy_once_and_ends_makes_way_for_the_old_one() {
    let service = Service::new("");
    let _daemon = service.begin().await;
    service.publish_healthy_until_end("exit-code", "exit 1");
    let ended = service.update_until_end("600").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let watched = "Version 99.0.0 is healthy. It is watched for 600 seconds.";
    assert!(ended.out.contains(watched), "{ended:?}");
    for words in ["it ended soon after it was healthy: exit-code", "The old version runs again"] {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
    assert!(is_unchanged(&service.exe));
    service.finish().await;
}

#[tokio::test]
async fn a_new_version_that_is_told_to_restart_stays() {
    let service = Service::new("");
    let _daemon = service.begin().await;
    service.publish_healthy_until_end("success", &service.restart());
    let ended = service.update_until_end("10").await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.out.contains("Version 99.0.0 runs."), "{ended:?}");
    assert!(fs::read(&service.exe).unwrap().starts_with(b"#!"), "the old program is back");
    assert_eq!((service.calls("restart"), service.calls("stop")), (1, 0));
    service.finish().await;
}

#[tokio::test]
async fn a_new_version_that_restarts_after_the_health_timeout_stays() {
    let service = Service::new("");
    let _daemon = service.begin().await;
    service.publish_healthy_until_end("success", &service.restart());
    let update = service.begin_update(["20", "600"]).await;
    let before = service.fixture.status().await["pid"].clone();
    // The health timeout is over, seen from the update's restart.
    sleep(Duration::from_secs(20)).await;
    service.end_new_version();
    until("the new version again", async || {
        let ended = service.fixture.run(&["status", "--json"]).await;
        let status: Value = serde_json::from_str(&ended.out).ok()?;
        (ended.code == Some(0) && status["pid"] != before).then_some(())
    })
    .await;
    // It is watched as before. Between two questions to systemd, the update looks at the daemon.
    let asked = service.calls("show");
    until("a look", async || (service.calls("show") >= asked + 2).then_some(())).await;
    let ended = update.interrupt().await;
    let words = "interrupted. Version 99.0.0 is installed";
    assert!(ended.code == Some(1) && ended.err.contains(words), "{ended:?}");
    assert!(fs::read(&service.exe).unwrap().starts_with(b"#!"), "the old program is back");
    assert_eq!((service.calls("restart"), service.calls("stop")), (1, 0));
    service.finish().await;
}

#[tokio::test]
async fn a_new_version_that_restarts_without_end_makes_way_for_the_old_one() {
    let service = Service::new("");
    let _daemon = service.begin().await;
    service.publish(&format!(
        "trap 'kill -TERM $!; wait $!; exit 0' TERM; while :; do {} \"$@\" & sleep 2; kill -TERM $!; wait $!; done",
        env!("CARGO_BIN_EXE_peacrab")
    ));
    let args = ["update", "--health-timeout", "20", "--healthy-for", "600"];
    let update = command(&service.fixture, &service.exe, &args);
    let ended = service.fixture.run_with(update, "").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in ["did not stay so", "The old version runs again"] {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
    assert!(is_unchanged(&service.exe));
    service.finish().await;
}

#[tokio::test]
async fn an_update_that_is_killed_on_the_way_back_goes_on_with_the_next() {
    for at in ["stop", "reset-failed"] {
        let kill = format!(
            "case \"$*\" in {at}*) grep -q ^stop FOLDER/calls && [ ! -e FOLDER/killed ] && {{ touch FOLDER/killed; kill -9 $PPID; }} ;; esac; true"
        );
        let service = Service::new(&kill);
        let _daemon = service.begin().await;
        service.publish("exec sleep 600");
        let ended = service.update("1").await;
        assert_eq!(ended.code, None, "{at}: {ended:?}");
        assert!(service.note().exists(), "{at}");
        // Somebody else's home is not the one whose service is down.
        service.make_new_program_able_to_update();
        let others = ProgramFixture::new("");
        let refused = others.run_with(command(&others, &service.exe, &["update"]), "").await;
        assert_eq!(refused.code, Some(1), "{at}: {refused:?}");
        assert!(refused.err.contains("its service has another home"), "{at}: {refused:?}");
        let ended = service.update("1").await;
        assert_eq!(ended.code, Some(1), "{at}: {ended:?}");
        assert!(ended.out.contains("The update to version 99.0.0 was cut off"), "{at}: {ended:?}");
        assert!(ended.err.contains("The old version runs again"), "{at}: {ended:?}");
        assert!(is_unchanged(&service.exe), "{at}");
        service.finish().await;
    }
}

#[tokio::test]
async fn an_update_that_is_killed_while_it_waits_goes_on_with_the_next() {
    let service = Service::new("");
    let note = |version: &str, former: &str| {
        let home = service.fixture.home();
        let note = json!({
            "version": version, "former": former, "home": home, "is_service_of_account": false, "goes_back": false
        });
        fs::write(service.note(), note.to_string()).unwrap();
    };
    // This is the new version, whose service is down.
    note(env!("CARGO_PKG_VERSION"), "0.0.1");
    fs::write(beside(&service.exe, ".old"), "#!/bin/sh\n").unwrap();
    let ended = service.update("60").await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let runs = format!("Version {} runs. The old program is", env!("CARGO_PKG_VERSION"));
    assert!(ended.out.contains(&runs), "{ended:?}");
    assert!(!service.note().exists());
    // Somebody has waited for it meanwhile.
    note(env!("CARGO_PKG_VERSION"), "0.0.1");
    let (ended, restarts) = (service.update("60").await, service.calls("restart"));
    assert_eq!((ended.code, restarts), (Some(0), 1), "{ended:?}");
    assert!(!service.note().exists());
    // Somebody has put another program there.
    note("5.0.0", "4.0.0");
    service.server.publish("0.0.1", "#!/bin/sh\n");
    let ended = service.update("60").await;
    assert!(ended.code == Some(0) && ended.out.contains("is up to date"), "{ended:?}");
    assert!(!service.note().exists());
    service.finish().await;
}

#[tokio::test]
async fn an_update_that_goes_on_returns_to_no_version_that_cannot_open_the_store() {
    let service = Service::new("");
    service.fixture.daemon().await.terminate().await;
    // This is the new version, and has updated the database before the update was killed.
    let note = json!({
        "version": env!("CARGO_PKG_VERSION"), "former": "0.0.1", "former_schema": newest_schema() - 1,
        "home": service.fixture.home(), "is_service_of_account": false, "goes_back": true
    });
    fs::write(service.note(), note.to_string()).unwrap();
    let old = beside(&service.exe, ".old");
    fs::write(&old, "#!/bin/sh\n").unwrap();
    let ended = service.update("60").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in ["may be unable to open the store now", "So the new version stays"] {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
    assert!(old.exists() && !service.note().exists());
    assert_eq!((service.calls("stop"), service.calls("restart")), (1, 1));
    until("the new version", async || {
        (service.fixture.run(&["status"]).await.code == Some(0)).then_some(())
    })
    .await;
    service.finish().await;
}

#[tokio::test]
async fn an_end_from_before_a_restart_is_not_taken_for_one_of_the_new_version() {
    // systemd shows the former state until the restart has its turn, unless that state is reset.
    let state = "ActiveState=failed\\nSubState=failed\\nResult=exit-code\\nStatusText=\\n";
    let service = Service::new(&format!(
        "case \"$*\" in reset-failed*) touch FOLDER/reset ;; restart*) [ -e FOLDER/reset ] || printf '{state}' > FOLDER/shown ;; esac"
    ));
    let home = service.fixture.home();
    let note = json!({
        "version": env!("CARGO_PKG_VERSION"), "former": "0.0.1", "home": home, "is_service_of_account": false,
        "goes_back": false
    });
    fs::write(service.note(), note.to_string()).unwrap();
    fs::write(beside(&service.exe, ".old"), "#!/bin/sh\n").unwrap();
    let ended = service.update("60").await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!((service.calls("reset-failed"), service.calls("restart")), (1, 1));
    service.finish().await;
}

#[tokio::test]
async fn a_second_update_at_the_same_time_is_refused() {
    let hold = "case \"$*\" in restart*) while [ ! -e FOLDER/go ]; do sleep 0.01; done ;; esac";
    let service = Service::new(hold);
    let _daemon = service.begin().await;
    let real = service.fixture.folder().join("real");
    fs::hard_link(&service.exe, &real).unwrap();
    service.publish(&format!("exec {} \"$@\"", real.display()));
    // With a log of its own.
    let log = ProgramFixture::new("");
    let first =
        log.begin(command(&service.fixture, &service.exe, &["update", "--healthy-for", "1"]));
    until("the restart", async || (service.calls("restart") == 1).then_some(())).await;
    service.make_new_program_able_to_update();
    let second = service.update("60").await;
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(second.err.contains(" update` is at work"), "{second:?}");
    fs::write(service.fixture.folder().join("go"), "").unwrap();
    assert!(first.ended().await.success());
    // The old program is the one from before both.
    let old = beside(&service.exe, ".old");
    assert_eq!(fs::metadata(old).unwrap().len(), fs::metadata(real).unwrap().len());
    assert_eq!((service.calls("restart"), service.note().exists()), (1, false));
    service.finish().await;
}
