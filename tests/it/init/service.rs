//! The question about the service, with programs in the place of systemd's that write down how they are called.

use std::ffi::OsStr;
use std::fs;
use std::process::Stdio;

use rustix::process::geteuid;
use tokio::process::Command;

use super::{
    COLUMNS, answer, empty, lines_fit, no_line_is_longer, own_server, unwrapped, wait_for_count,
    wait_for_text,
};
use crate::service::{log, put_program, systemd};
use crate::support::binary::{ProgramFixture, until};
use crate::support::model_api::ModelApi;
use crate::support::pty::Pty;

const QUESTION: &str =
    "Question 1 of 6. Start Peacrab now and at each boot, as a service? yes or no [yes]:";

/// Lets a program run as an account that is not root, if this one is.
const AS_ACCOUNT: [&str; 4] = ["unshare", "-U", "--map-user=1000", "--map-group=1000"];

/// Lets a program run as root of a system whose settings and services are its own, from where the system's service can
/// start it. It shows what it has left there.
const AS_ROOT: [&str; 6] = [
    "unshare",
    "-rm",
    "sh",
    "-c",
    "for folder in /etc /var/lib /usr/local/bin; do mount -t tmpfs -o mode=755 tmpfs $folder || exit 9; done; \
     touch /usr/local/bin/peacrab && mount --bind \"$1\" /usr/local/bin/peacrab || exit 9; shift; \
     /usr/local/bin/peacrab \"$@\"; code=$?; echo It has left:; \
     cat /etc/systemd/system/peacrab.service /var/lib/peacrab/config.toml 2>&1; exit $code",
    "sh",
];

/// The program as [`AS_ROOT`] has it.
const PROGRAM_OF_ROOT: &str = "/usr/local/bin/peacrab";

/// Returns these words as those before a program. None where they do not work.
#[expect(clippy::disallowed_methods, reason = "what it starts is not the program")]
async fn wrapper(words: &'static [&'static str]) -> Option<Vec<&'static OsStr>> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg("/bin/true").stdout(Stdio::null()).stderr(Stdio::null());
    let works = command.status().await.is_ok_and(|status| status.success());
    if !works {
        print_skipped();
    }
    works.then(|| words.iter().map(OsStr::new).collect())
}

#[expect(clippy::print_stderr, reason = "who reads the tests' output must see it")]
fn print_skipped() {
    eprintln!("skipped: no namespace can be made here");
}

async fn as_account() -> Option<Vec<&'static OsStr>> {
    if geteuid().is_root() { wrapper(&AS_ACCOUNT).await } else { Some(Vec::new()) }
}

/// The programs of the fixture are found first.
fn finds_programs(mut command: Command, fixture: &ProgramFixture) -> Command {
    let programs = fixture.folder().join("bin");
    command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    command
}

/// The setup with a model that answers, at a terminal, up to the service.
fn begin(fixture: &ProgramFixture, wrapper: &[&OsStr], columns: u16, model: &ModelApi) -> Pty {
    model.reply(answer("OK"));
    let wrapper = [&Pty::session() as &[&OsStr], wrapper].concat();
    let args = ["init", "--provider", &model.base_url, "--channel", "none"];
    Pty::begin(finds_programs(fixture.bare_command_by(&wrapper, &args), fixture), columns)
}

fn calls(fixture: &ProgramFixture) -> Vec<String> {
    let calls = fs::read_to_string(log(fixture)).unwrap();
    calls.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn yes_installs_and_starts_the_service_of_the_account() {
    let Some(as_account) = as_account().await else { return };
    for columns in COLUMNS {
        let (fixture, model) = (empty(), own_server().await);
        systemd(&fixture, "");
        let mut screen = begin(&fixture, &as_account, columns, &model);
        wait_for_text(&screen, QUESTION).await;
        screen.type_keys("ok\r");
        wait_for_text(&screen, "Please answer yes or no.").await;
        wait_for_count(&screen, "yes or no [yes]:", 2).await;
        screen.type_keys("\r");
        let unit = fixture.folder().join(".config/systemd/user/peacrab.service");
        let words =
            format!("The service runs, and starts at each boot. Its unit is {}.", unit.display());
        wait_for_text(&screen, &words).await;
        wait_for_text(&screen, "All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
        no_line_is_longer(&screen, columns);
        assert!(!unwrapped(&screen.raw()).contains("Start it with"), "{}", screen.raw());
        let text = fs::read_to_string(&unit).unwrap();
        assert!(
            text.contains(&format!("ExecStart={} run", env!("CARGO_BIN_EXE_peacrab"))),
            "{text}"
        );
        assert!(text.contains(&format!("PEACRAB_HOME={}", fixture.home().display())), "{text}");
        assert_eq!(
            calls(&fixture),
            [
                "systemctl --user show --property=Version",
                "systemctl --user show --property=Version",
                "systemctl --user daemon-reload",
                "systemctl --user enable peacrab.service",
                "systemctl --user restart peacrab.service",
                "loginctl enable-linger",
            ]
        );
    }
}

#[tokio::test]
async fn no_installs_nothing_and_says_how_to_start() {
    let Some(as_account) = as_account().await else { return };
    for columns in COLUMNS {
        let (fixture, model) = (empty(), own_server().await);
        systemd(&fixture, "");
        let mut screen = begin(&fixture, &as_account, columns, &model);
        wait_for_text(&screen, QUESTION).await;
        screen.type_keys("no\r");
        wait_for_text(&screen, "Start it with `").await;
        wait_for_text(&screen, "All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
        no_line_is_longer(&screen, columns);
        let by_hand = format!("--home {} run`.", fixture.home().display());
        assert!(unwrapped(&screen.raw()).contains(&by_hand), "{}", screen.raw());
        assert_eq!(calls(&fixture), ["systemctl --user show --property=Version"]);
        assert!(!fixture.folder().join(".config").exists());
    }
}

#[tokio::test]
async fn a_service_that_does_not_start_is_said_with_what_is_saved() {
    let Some(as_account) = as_account().await else { return };
    for columns in COLUMNS {
        let (fixture, model) = (empty(), own_server().await);
        let script =
            "case \"$*\" in *restart*) echo 'Job for peacrab.service failed.' >&2; exit 1;; esac";
        put_program(&fixture, "systemctl", script);
        let mut screen = begin(&fixture, &as_account, columns, &model);
        wait_for_text(&screen, QUESTION).await;
        screen.type_keys("yes\r");
        wait_for_text(
            &screen,
            "service install` tries this again, but the service does not run: `systemctl --user restart peacrab.service` \
             failed: Job for peacrab.service failed.",
        )
        .await;
        assert_eq!(screen.ends().await, Some(1));
        let shown = unwrapped(&screen.raw());
        assert!(shown.contains("peacrab: all else is set up and saved, and `"), "{shown}");
        assert!(
            !shown.contains("The service runs") && !shown.contains("All is set up."),
            "{shown}"
        );
        let written = fs::read_to_string(fixture.home().join("config.toml")).unwrap();
        assert!(written.contains("[providers.server]"), "{written}");
        // As it says.
        systemd(&fixture, "");
        let again = fixture.bare_command(&["service", "install", "--user"]);
        let ended = fixture.run_with(finds_programs(again, &fixture), "").await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    }
}

#[tokio::test]
async fn where_no_service_can_be_installed_nobody_is_asked() {
    for columns in COLUMNS {
        let (fixture, model) = (empty(), own_server().await);
        let script = "echo 'System has not been booted with systemd as init system.' >&2; exit 1";
        put_program(&fixture, "systemctl", script);
        let mut screen = begin(&fixture, &[], columns, &model);
        wait_for_text(&screen, "A service can't be installed here:").await;
        // systemctl's words end as a sentence.
        wait_for_text(
            &screen,
            "System has not been booted with systemd as init system. Start it with `",
        )
        .await;
        wait_for_text(&screen, "All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
        no_line_is_longer(&screen, columns);
        assert!(!unwrapped(&screen.raw()).contains("as a service?"), "{}", screen.raw());
        assert!(!fixture.folder().join(".config").exists());
    }
}

#[tokio::test]
async fn a_service_that_cannot_be_is_refused_before_anything_is_tested() {
    let (fixture, model) = (empty(), own_server().await);
    put_program(&fixture, "systemctl", "echo 'Failed to connect to bus' >&2; exit 1");
    let args = ["init", "--yes", "--provider", &model.base_url, "--service", "user"];
    let ended = fixture.run_with(finds_programs(fixture.bare_command(&args), &fixture), "").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("Failed to connect to bus"), "{ended:?}");
    assert!(!ended.out.contains("Testing") && !fixture.home().join("config.toml").exists());
    model.finish();
}

#[tokio::test]
async fn options_install_the_service_of_the_account() {
    let (fixture, model) = (empty(), own_server().await);
    systemd(&fixture, "");
    model.reply(answer("OK"));
    let args =
        ["init", "--yes", "--provider", &model.base_url, "--channel", "none", "--service", "user"];
    let ended = fixture.run_with(finds_programs(fixture.bare_command(&args), &fixture), "").await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let unit = fixture.folder().join(".config/systemd/user/peacrab.service");
    let words =
        format!("The service runs, and starts at each boot. Its unit is {}.", unit.display());
    assert!(unwrapped(&ended.out).contains(&words), "{ended:?}");
    assert!(unit.exists());
    assert_eq!(calls(&fixture).last().unwrap(), "loginctl enable-linger");
    // Where it does not start, that is no success.
    let (fixture, model) = (empty(), own_server().await);
    put_program(
        &fixture,
        "systemctl",
        "case \"$*\" in *enable*) echo 'Access denied' >&2; exit 1;; esac",
    );
    model.reply(answer("OK"));
    let args =
        ["init", "--yes", "--provider", &model.base_url, "--channel", "none", "--service", "user"];
    let ended = fixture.run_with(finds_programs(fixture.bare_command(&args), &fixture), "").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("service install` tries this again"), "{ended:?}");
    assert!(
        ended.err.contains("Access denied") && !ended.out.contains("All is set up"),
        "{ended:?}"
    );
    assert!(fixture.home().join("config.toml").exists());
}

/// The calls by which root's setup finds out about systemd, and installs the service.
const CALLS_OF_ROOT: [&str; 6] = [
    "systemctl show --property=Version",
    "systemctl show --property=Version",
    "systemctl show --property=Version",
    "systemctl daemon-reload",
    "systemctl enable peacrab.service",
    "systemctl restart peacrab.service",
];

#[tokio::test]
async fn root_sets_up_the_home_of_the_systems_service() {
    let Some(as_root) = wrapper(&AS_ROOT).await else { return };
    for columns in COLUMNS {
        let (fixture, model) = (empty(), own_server().await);
        systemd(&fixture, "");
        model.reply(answer("OK"));
        let args = ["init", "--provider", &model.base_url, "--channel", "none"].map(OsStr::new);
        let wrapper = [&Pty::session() as &[&OsStr], &as_root].concat();
        let command = finds_programs(fixture.program(&wrapper, &args), &fixture);
        let mut screen = Pty::begin(command, columns);
        wait_for_text(
            &screen,
            "You are root, so this sets up the service of the system, which has its home in /var/lib/peacrab. For another \
             home, stop with Ctrl-C and give --home.",
        )
        .await;
        wait_for_text(&screen, "This sets up Peacrab in /var/lib/peacrab.").await;
        wait_for_text(&screen, QUESTION).await;
        screen.type_keys("\r");
        wait_for_text(&screen, "Its unit is /etc/systemd/system/peacrab.service.").await;
        wait_for_text(&screen, "The config is /var/lib/peacrab/config.toml.").await;
        assert_eq!(screen.ends().await, Some(0));
        // The terminal still has some of it.
        let shown = until("what it has left", async || {
            let shown = screen.raw();
            let (_, left) = shown.split_once("It has left:")?;
            left.contains("[providers.server]").then_some(shown)
        });
        let shown = shown.await;
        let (dialog, left) = shown.split_once("It has left:").unwrap();
        lines_fit(dialog, columns);
        assert!(left.contains(&format!("ExecStart={PROGRAM_OF_ROOT} run")), "{left}");
        assert_eq!(calls(&fixture), CALLS_OF_ROOT);
    }
    // So does a script.
    let (fixture, model) = (empty(), own_server().await);
    systemd(&fixture, "");
    model.reply(answer("OK"));
    let args = [
        "init",
        "--yes",
        "--provider",
        &model.base_url,
        "--channel",
        "none",
        "--service",
        "system",
    ];
    let command = fixture.program(&as_root, &args.map(OsStr::new));
    let ended = fixture.run_with(finds_programs(command, &fixture), "").await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(
        unwrapped(&ended.out).contains("Its unit is /etc/systemd/system/peacrab.service."),
        "{ended:?}"
    );
    assert!(ended.out.contains("[providers.server]"), "{ended:?}");
}

#[tokio::test]
async fn root_learns_that_another_home_has_no_service() {
    let Some(as_root) = wrapper(&AS_ROOT).await else { return };
    for columns in COLUMNS {
        let (fixture, model) = (empty(), own_server().await);
        systemd(&fixture, "");
        let mut screen = begin(&fixture, &as_root, columns, &model);
        let home = fixture.home().display().to_string();
        let words = format!(
            "You are root. The service of the system has its home in /var/lib/peacrab, and this is another one, {home}: it \
             can't run as that service. To set that one up, stop with Ctrl-C and give --home /var/lib/peacrab."
        );
        wait_for_text(&screen, &words).await;
        let refused = format!(
            "A service can't be installed here: the service of the system has its home in /var/lib/peacrab: move {home} \
             there, and use `--home /var/lib/peacrab`. Start it with `"
        );
        wait_for_text(&screen, &refused).await;
        wait_for_text(&screen, "All is set up.").await;
        assert_eq!(screen.ends().await, Some(0));
        lines_fit(screen.raw().split("It has left:").next().unwrap(), columns);
        assert!(fixture.home().join("config.toml").exists());
        assert_eq!(calls(&fixture), ["systemctl show --property=Version"; 2]);
    }
}

#[tokio::test]
async fn root_without_a_home_installs_the_service_of_the_systems_home() {
    let Some(as_root) = wrapper(&AS_ROOT).await else { return };
    let fixture = empty();
    let install = async |variables: &[(&str, &str)]| {
        let command = fixture.program(&as_root, &["service", "install"].map(OsStr::new));
        let mut command = finds_programs(command, &fixture);
        command.envs(variables.iter().copied());
        fixture.run_with(command, "").await
    };
    systemd(&fixture, "");
    // It is that home in which nothing is set up yet.
    let ended = install(&[]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words = format!("run `{PROGRAM_OF_ROOT} --home /var/lib/peacrab init` first");
    assert!(ended.err.contains(&words), "{ended:?}");
    // Another one that is set up, or named, is not passed over.
    let own = fixture.folder().join(".local/share/peacrab");
    fs::create_dir_all(&own).unwrap();
    let section = "[providers.main]\ntype = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\n";
    fs::write(own.join("config.toml"), section).unwrap();
    let refused = "the service of the system has its home in /var/lib/peacrab: move ";
    assert!(install(&[]).await.err.contains(refused));
    fs::remove_file(own.join("config.toml")).unwrap();
    let named = own.display().to_string();
    let ended = install(&[("PEACRAB_HOME", &named)]).await;
    assert!(ended.err.contains(&format!("{refused}{named}")), "{ended:?}");
    // Where systemd does not run, that is the reason.
    put_program(&fixture, "systemctl", "echo 'Failed to connect to bus' >&2; exit 1");
    let ended = install(&[]).await;
    assert!(!ended.err.contains("move "), "{ended:?}");
}
