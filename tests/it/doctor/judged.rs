//! The judgement of each state that no test can bring about in the real program, and the advice that belongs to it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use peacrab::bus::Publisher;
use peacrab::channels::{Channel, ChannelError, ChannelProbe, PlatformLimits, SendLookup, Sent};
use peacrab::doctor::backups::{BackupState, backup_finding};
use peacrab::doctor::daemon::{index_finding, memory_finding};
use peacrab::doctor::links::{
    LinkReport, check_channels, check_models, link_finding, probe_finding, server_finding,
    unusable_finding,
};
use peacrab::doctor::machine::{
    DiskState, clock_finding, disk_finding, kernel_finding, unreadable_finding,
};
use peacrab::doctor::service::{AskedManager, ServicePlace, service_finding, unreachable};
use peacrab::doctor::store::{check_log, failure};
use peacrab::doctor::wear::{check_wear, wear_finding};
use peacrab::doctor::{Finding, Severity};
use peacrab::memory::recall::progress::{IndexCount, IndexedParts};
use peacrab::provider::models::{Model, Standing};
use peacrab::provider::{DeltaStream, Models, Provider, ProviderError, Request};
use peacrab::sandbox::{Protections, SandboxLevel, SandboxState};
use peacrab::store::{OpenError, StoreError};
use peacrab::types::message::{Address, Hint, Outbound};

use crate::support::fake_channel::FakeChannel;

/// A finding is of this severity, and has these words and this advice in it.
fn judged(finding: &Finding, severity: Severity, words: &str, advice: Option<&str>) {
    assert_eq!(finding.severity, severity, "{finding:?}");
    assert!(finding.words.contains(words), "no `{words}` in {finding:?}");
    match (advice, &finding.advice) {
        (None, None) => {}
        (Some(advice), Some(given)) => {
            assert!(given.contains(advice), "no `{advice}` in {finding:?}");
        }
        (_, given) => panic!("the advice is {given:?}: {finding:?}"),
    }
}

/// Fails in one way.
struct FailingProvider(fn() -> ProviderError);

#[async_trait]
impl Provider for FailingProvider {
    fn name(&self) -> &'static str {
        "main (pea-1)"
    }

    async fn stream<'a>(
        &'a self,
        _request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        Err((self.0)())
    }
}

/// A failure, with what the doctor says and advises.
type ModelFailure = (fn() -> ProviderError, &'static str, &'static str);

#[tokio::test]
async fn each_failure_of_a_model_has_its_advice() {
    let cases: [ModelFailure; 9] = [
        (
            || ProviderError::busy("overloaded"),
            "overloaded",
            "check the network and that the server of [providers.main] runs",
        ),
        (
            || ProviderError::Stalled("it fell silent".to_owned()),
            "it fell silent",
            "if it does, wait and try again",
        ),
        (
            || ProviderError::Broken("a page".to_owned()),
            "a page",
            "check that base_url of [providers.main] is the address of a model's API",
        ),
        (
            || ProviderError::TooLong,
            "the conversation is too long",
            "the context window of [providers.main] is too small for one sentence",
        ),
        (
            || ProviderError::OverBudget("used up".to_owned()),
            "used up",
            "wait, or raise the budget with /budget",
        ),
        (
            || ProviderError::NoCredit("no credit".to_owned()),
            "no credit",
            "pay for the account whose api_key [providers.main] has; nothing else is wrong",
        ),
        (
            || ProviderError::NoTools("no tools".to_owned()),
            "no tools",
            "write `tools = \"text\"` into [providers.main], so that tools are described to it in words",
        ),
        (
            || ProviderError::Unauthorized("no such key".to_owned()),
            "no such key",
            "correct api_key, model and base_url of [providers.main]",
        ),
        (
            || ProviderError::Refused("no such model".to_owned()),
            "no such model",
            "correct api_key, model and base_url of [providers.main], and run `peacrab reload`; the base_url of Ollama, \
             llama.cpp and most others ends in /v1",
        ),
    ];
    for (error, words, advice) in cases {
        for (standing, severity) in
            [(Standing::Default, Severity::Wrong), (Standing::Chosen, Severity::Warning)]
        {
            let provider = Arc::new(FailingProvider(error));
            let models = Models::new(vec![Model { name: "main".to_owned(), provider, standing }]);
            let found = check_models(&models).await;
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].check, "model main");
            let words = format!("main (pea-1) does not answer: {words}");
            judged(&found[0], severity, &words, Some(advice));
        }
    }
}

/// A platform that accepts connections and never answers.
struct SilentPlatform;

#[async_trait]
impl Channel for SilentPlatform {
    fn limits(&self) -> PlatformLimits {
        FakeChannel::new().limits()
    }

    async fn probe(&self) -> Result<ChannelProbe, ChannelError> {
        std::future::pending().await
    }

    async fn listen(&self, _: &Publisher) -> Result<(), ChannelError> {
        std::future::pending().await
    }

    async fn send(&self, _: &Outbound) -> Result<Sent, ChannelError> {
        std::future::pending().await
    }

    async fn hint(&self, _: &Address, _: Hint) -> Result<(), ChannelError> {
        std::future::pending().await
    }

    async fn find(&self, _: &Outbound, _: DateTime<Utc>) -> Result<SendLookup, ChannelError> {
        std::future::pending().await
    }
}

const CHECK_NETWORK: &str =
    "check the network, the machine's DNS, and `api_url` if the config has one";

#[tokio::test(start_paused = true)]
async fn a_platform_that_never_answers_is_wrong_within_a_minute() {
    let begun = tokio::time::Instant::now();
    let platform: Arc<dyn Channel> = Arc::new(SilentPlatform);
    let found = check_channels(&[("home".into(), platform)]).await;
    assert_eq!((found.len(), found[0].check.as_str()), (1, "channel home"));
    judged(&found[0], Severity::Wrong, "the platform does not answer", Some(CHECK_NETWORK));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn each_trouble_of_a_link_has_its_advice() {
    let link = LinkReport {
        up: false,
        about: "@pea".to_owned(),
        last_byte_s: Some(3),
        trouble: None,
        failing: None,
    };
    let connecting = link_finding("home", &link);
    let wait = "wait a moment and try again; if it stays so, look at the log";
    judged(&connecting, Severity::Warning, "connecting", Some(wait));
    let down = LinkReport { trouble: Some("no connection".to_owned()), ..link.clone() };
    let reason = "do what the reason says; if it names no remedy, check the network";
    judged(&link_finding("home", &down), Severity::Wrong, "down: no connection", Some(reason));
    let failing = Some((2, "no right".to_owned()));
    let failing = LinkReport { up: true, failing, ..link.clone() };
    let words = "up, @pea, but deliveries fail (2): no right";
    let advice = "read the reason; `";
    judged(&link_finding("home", &failing), Severity::Wrong, words, Some(advice));
    let advice = link_finding("home", &failing).advice.unwrap();
    assert!(advice.ends_with("status` shows when it began"), "{advice}");
    let silent = LinkReport { up: true, last_byte_s: Some(181), ..link };
    let words = "up, @pea, but last heard 181 s ago";
    judged(&link_finding("home", &silent), Severity::Warning, words, Some(CHECK_NETWORK));

    let server = |up, trouble| server_finding("files", up, 9, trouble);
    judged(&server(true, None), Severity::Ok, "up, 9 tools", None);
    judged(
        &server(false, None),
        Severity::Warning,
        "starting",
        Some("wait a minute and try again"),
    );
    let down = server(false, Some("no such program"));
    let advice = "correct its section in the config and run `";
    judged(&down, Severity::Wrong, "down: no such program", Some(advice));

    let denied = |error| probe_finding("channel home", Err(error));
    let closed = denied(ChannelError::Closed("token not accepted: get a new one".to_owned()));
    judged(&closed, Severity::Wrong, "get a new one", None);
    let refused = denied(ChannelError::Refused("discord refuses it".to_owned()));
    let advice = "check that the token is this bot's, and what the bot may do at its platform";
    judged(&refused, Severity::Wrong, "discord refuses it", Some(advice));
    let (after, reason) = (Some(Duration::from_secs(7)), "limits the rate".to_owned());
    let limited = denied(ChannelError::Unavailable { after, reason });
    let wait = Some("wait a few minutes, and run `");
    judged(&limited, Severity::Wrong, "limits the rate", wait);
    for error in [
        ChannelError::unavailable("no connection"),
        ChannelError::Ambiguous("no connection".to_owned()),
    ] {
        judged(&denied(error), Severity::Wrong, "no connection", Some(CHECK_NETWORK));
    }
    let unusable = unusable_finding("channel home", &anyhow::anyhow!("the token is empty"));
    let words = "it cannot be set up: the token is empty";
    let advice = "correct its section in the config; `";
    judged(&unusable, Severity::Wrong, words, Some(advice));
}

#[test]
fn each_state_of_the_machine_has_its_advice() {
    let well = DiskState {
        free: 1 << 30,
        files_free: Some(10_000),
        is_read_only: false,
        is_writable: true,
    };
    let make_room = "make room: old logs (`journalctl --vacuum-size=50M`), caches of packages";
    let cases = [
        (
            DiskState { is_read_only: true, ..well },
            Severity::Wrong,
            "it is read-only",
            "a failing card is mounted read-only: save its files, and read `dmesg`",
        ),
        (DiskState { free: 19 << 20, ..well }, Severity::Wrong, "only 19 MB are free", make_room),
        (
            DiskState { is_writable: false, ..well },
            Severity::Wrong,
            "this account cannot write to the home",
            "give the home to the account that runs Peacrab (chown)",
        ),
        (
            DiskState { files_free: Some(5), ..well },
            Severity::Wrong,
            "only 5 more files can be created",
            "delete small files of other programs on this disk (`df -i` shows the limit)",
        ),
        (DiskState { free: 100 << 20, ..well }, Severity::Warning, "100 MB are free", make_room),
    ];
    for (disk, severity, words, advice) in cases {
        judged(&disk_finding(&disk), severity, words, Some(advice));
    }
    let failed = unreadable_finding(Path::new("/srv"), &std::io::Error::from_raw_os_error(5));
    let words = "/srv cannot be read: Input/output error";
    judged(&failed, Severity::Wrong, words, Some("check the disk and that it is mounted"));
    let set = "set the clock (`timedatectl set-ntp true`); jobs wait until it is right, and platforms and models \
               refuse connections by a wrong one";
    let words = "it shows 1970-01-01 00:00 UTC, which is in the past";
    judged(&clock_finding(DateTime::UNIX_EPOCH, None), Severity::Wrong, words, Some(set));
    let old = kernel_finding("5.10.103-v7+", "armv7l");
    let update = "everything works except the shell; update the system to get the shell";
    judged(&old, Severity::Warning, "is older than 5.13", Some(update));
}

#[test]
fn the_wear_of_the_disk_that_has_the_home_counts_also_below_a_partition() {
    let (home, sys) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let device = fs::metadata(home.path()).unwrap().dev();
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let at = |path: &str| sys.path().join(path);
    let put = |path: &str, name: &str, content: &str| {
        fs::create_dir_all(at(path)).unwrap();
        fs::write(at(path).join(name), content).unwrap();
    };
    // Another disk is worn out, and has nothing of the home.
    put("block/mmcblk1/device", "life_time", "0x0b 0x0b\n");
    put("block/mmcblk0/device", "life_time", "0x02 0x05\n");
    put("block/mmcblk0/device", "pre_eol_info", "0x01\n");
    put("block/mmcblk0/mmcblk0p2", "partition", "2\n");
    fs::create_dir_all(at("dev/block")).unwrap();
    let link = at("dev/block").join(&number);
    for device in ["block/mmcblk0/mmcblk0p2", "block/mmcblk0"] {
        symlink(at(device), &link).unwrap();
        let words = "at most 50 % of its expected life is used";
        judged(&check_wear(home.path(), sys.path()), Severity::Ok, words, None);
        // A home that does not exist yet is on the disk of the folder above.
        let later = home.path().join("not/yet");
        judged(&check_wear(&later, sys.path()), Severity::Ok, words, None);
        fs::remove_file(&link).unwrap();
    }
    assert_eq!(check_wear(home.path(), sys.path()).check, "wear of the disk");
    let replace = Some("make backups on another disk, and replace this one soon");
    let cases = [
        ("0x0b 0x01", "0x01", Severity::Wrong, "it has reached the end of the life"),
        ("0x01 0x01", "0x02", Severity::Warning, "80 % of its spare blocks are used"),
        ("0x01 0x01", "0x03", Severity::Warning, "90 % of its spare blocks are used"),
        ("0x09 0x01", "0x01", Severity::Warning, "at most 90 % of its expected life is used"),
    ];
    for (life_time, reserve, severity, words) in cases {
        judged(&wear_finding(life_time, reserve), severity, words, replace);
    }
}

#[test]
fn each_state_of_the_backups_has_its_words_and_advice() {
    let now: DateTime<Utc> = "2026-11-22T12:00:00Z".parse().unwrap();
    let well = BackupState {
        folder: Path::new("/backups"),
        has_folder: true,
        missing_mount: None,
        every: Duration::from_hours(24),
        newest: Some(now - TimeDelta::hours(30)),
        was_started: true,
    };
    let judge = |state, severity, words: &str, advice: Option<&str>| {
        let finding = backup_finding(state, now);
        assert_eq!(finding.check, "backups");
        judged(&finding, severity, words, advice);
    };
    let none = "none are made regularly; `to` in [backup] names a folder for them";
    judge(None, Severity::Ok, none, None);
    let new = BackupState { has_folder: false, newest: None, was_started: false, ..well };
    judge(Some(new), Severity::Ok, "the first start makes one in /backups", None);
    let gone = BackupState { has_folder: false, ..well };
    let advice = "mount its disk or make the folder, and give it to the account that runs Peacrab";
    judge(Some(gone), Severity::Wrong, "there is no folder /backups", Some(advice));
    let unmounted = BackupState { missing_mount: Some(Path::new("/mnt/usb")), ..well };
    let words = "/backups is not on its disk, because /mnt/usb is not mounted";
    let advice =
        "mount it; or if the backups are to go there from now on, delete the file backup-folder";
    judge(Some(unmounted), Severity::Wrong, words, Some(advice));
    let look = Some("look at the log for `Cannot make the regular backup`, and if the daemon runs");
    let missing = BackupState { newest: None, ..well };
    judge(Some(missing), Severity::Wrong, "there is none in /backups", look);
    let late = BackupState { newest: Some(now - TimeDelta::hours(49)), ..well };
    judge(Some(late), Severity::Warning, "although one is due every 24 h", look);
    judge(Some(well), Severity::Ok, "the newest is of 2026-11-21 06:00 UTC", None);
}

#[test]
fn each_place_has_its_words_about_a_service() {
    let judge = |place, words: &str, advice| {
        judged(&service_finding(None, place), Severity::Ok, words, advice);
    };
    judge(ServicePlace::Systemd, "not installed", Some("service install` installs it"));
    judge(ServicePlace::OtherInit, "not installed; systemd does not run here", None);
    let engine = "not installed; the engine of this container starts the program";
    judge(ServicePlace::Container, engine, None);
    let system = |place| unreachable(place, AskedManager::System).unwrap();
    let words = "systemd does not run on this machine; let its own init start `";
    assert!(system(ServicePlace::OtherInit).starts_with(words));
    let words = "systemd does not run in this container; its engine starts `";
    assert!(system(ServicePlace::Container).starts_with(words));
}

#[test]
fn an_index_that_is_being_filled_is_to_be_waited_for() {
    assert_eq!(index_finding(None), None);
    let count = IndexCount { parts: IndexedParts::Messages, done: 40, total: 120 };
    let finding = index_finding(Some(count)).unwrap();
    let advice =
        "wait; until then, searches do not find everything, and a restart loses none of it";
    judged(&finding, Severity::Warning, "indexing messages: 40 of 120", Some(advice));
}

#[test]
fn each_kind_of_memory_limit_is_explained() {
    let shell = |group| SandboxState::Sandboxed {
        level: SandboxLevel::Required,
        enforced: Protections { group, ..Protections::default() },
    };
    let words = |group| memory_finding(&shell(group)).unwrap().words;
    assert_eq!(words(true), "exact: the kernel limits each command by a control group");
    assert_eq!(
        words(false),
        "counted: no control group was delegated to the daemon, so a command may use more for a moment"
    );
}

#[test]
fn each_store_that_cannot_be_opened_says_what_to_do() {
    let path = || PathBuf::from("/home/state.db");
    let broken = || StoreError::Broken("disk I/O error".to_owned());
    let home = OpenError::Home { path: "/home".into(), cause: std::io::Error::other("no") };
    // The words of an error say it, where there is no advice.
    let cases = [
        (
            OpenError::Newer { path: path(), found: 99, known: 42 },
            "schema 99",
            Some("install the newer"),
        ),
        (OpenError::Older { path: path(), found: 3 }, "ballast and undo away to start with", None),
        (
            OpenError::NotMigrated { path: path(), found: 30, known: 42 },
            "start the daemon once",
            None,
        ),
        (OpenError::Full { path: path() }, "Free some space", None),
        (OpenError::LogAlone { path: path() }, "bring the file back", None),
        (OpenError::Copy { path: path(), cause: broken() }, "cannot copy the store to", None),
        (home, "cannot use the home /home: no", None),
        (
            OpenError::Database { path: path(), cause: broken() },
            "it cannot be read: the database failed (disk I/O error)",
            Some("look at the log of the kernel (`dmesg`), which shows if the disk fails"),
        ),
        (
            OpenError::Denied { path: path(), why: "run this as root".to_owned() },
            "this account cannot open it",
            Some("run this as root"),
        ),
        (
            OpenError::Emptied { path: path() },
            "the file is empty, although this home was in use: what it contained is lost",
            Some("or move state.db, state.db-wal, ballast and undo away"),
        ),
        (
            OpenError::Gone { path: path() },
            "state.db is not there, although this home was in use: no daemon starts without it",
            Some("bring the file back, or restore the newest backup"),
        ),
    ];
    for (error, words, advice) in cases {
        judged(&failure(&error, None), Severity::Wrong, words, advice);
    }
    let used = OpenError::InUse { path: path(), holder: "process 42 (sqlite3)".to_owned() };
    let words = "it cannot be examined, because process 42 (sqlite3) has it locked";
    let close = Some("close that program, and run `");
    judged(&failure(&used, Some(false)), Severity::Wrong, words, close);
    let words = "the daemon that runs reads and writes it; it cannot be examined from here";
    let close = Some("if that is not the daemon, close that program");
    judged(&failure(&used, Some(true)), Severity::Warning, words, close);
}

#[test]
fn each_loss_of_the_log_of_the_store_has_its_words() {
    let home = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(home.path().join(name), bytes).unwrap();
    put("state.db", b"a database");
    assert_eq!(check_log(home.path()), None);
    let advice = Some("bring the file back before the next start, if it was moved; if much is");
    let loss = "the newest messages, answers and jobs are lost";
    put("state.db-shm", &[0; 32 * 1024]);
    let words =
        format!("state.db-wal is missing, and state.db-shm, which belongs to it, is not: {loss}");
    judged(&check_log(home.path()).unwrap(), Severity::Warning, &words, advice);
    put("state.db-wal", &[b'x'; 64]);
    let words = format!("state.db-wal cannot be read: {loss}");
    let found = check_log(home.path()).unwrap();
    assert_eq!(found.check, "log of the store");
    judged(&found, Severity::Warning, &words, advice);
}
