//! The shell: what the config says of it, and that each key does it.

use std::time::Duration;

use peacrab::sandbox::SandboxLevel;
use peacrab::tools::shell::NetworkRule;

use super::*;

const WHOLE: &str = r#"
[exec]
enabled = true
role = "owner"
sandbox = "best-effort"
network = "on"
trusted = ["/srv/photos/ours", "/srv/other"]
read = ["/opt/tools", "/etc/hosts"]
write = ["/srv/photos"]
env = { EDITOR = "true", KEY = { env = "THEIR_KEY" }, LANG = "de_DE.UTF-8" }
timeout_seconds = 7
background_minutes = 3
memory_mb = 64
file_mb = 5
disk_mb = 50
processes = 20
"#;

const MB: u64 = 1024 * 1024;

#[test]
fn the_shell_is_as_the_config_says() {
    let variables = [("THEIR_KEY", "geheimnis"), ("TZ", "Europe/Kyiv"), ("OTHER", "not this")];
    let config = load(WHOLE, &Environment::from_iter(variables)).unwrap();
    let exec = &config.exec;
    assert_eq!((exec.enabled, exec.role), (true, Role::Owner));
    let sandbox = &exec.sandbox;
    assert_eq!((sandbox.level, exec.network), (SandboxLevel::BestEffort, NetworkRule::On));
    assert_eq!(sandbox.read, [PathBuf::from("/opt/tools"), "/etc/hosts".into()]);
    assert_eq!(sandbox.write, [PathBuf::from("/srv/photos")]);
    assert_eq!(exec.trusted, [PathBuf::from("/srv/photos/ours"), "/srv/other".into()]);
    let warnings = config.warnings(&[]);
    let unseen = "[exec] trusted: no command sees /srv/other; name it in read or write, too";
    assert!(warnings.contains(&unseen.to_owned()), "{warnings:?}");
    let env: Vec<_> =
        sandbox.env.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
    let [_, _, _, path, ..] = env[..] else { panic!("{env:?}") };
    assert!(path.0 == "PATH" && path.1.ends_with("/usr/bin:/sbin:/bin"), "{env:?}");
    let others: Vec<_> = env.iter().filter(|(name, _)| *name != "PATH").copied().collect();
    let expected = [
        ("EDITOR", "true"),
        ("KEY", "geheimnis"),
        ("LANG", "de_DE.UTF-8"),
        ("TERM", "dumb"),
        ("TZ", "Europe/Kyiv"),
    ];
    assert_eq!(others, expected);
    assert_eq!(exec.time_max, Duration::from_secs(7));
    assert_eq!(exec.background_max, Duration::from_secs(180));
    let bounds = sandbox.bounds;
    assert_eq!((bounds.memory, bounds.file, bounds.disk), (64 * MB, 5 * MB, 50 * MB));
    assert_eq!(bounds.processes, 20);
    assert!(config.secrets().any(|secret| secret.reveal() == "geheimnis"));
    let shown = format!("{config:?}{}", config.describe());
    assert!(!shown.contains("geheimnis"), "{shown}");
    assert!(shown.contains("for role owner, sandbox best-effort, network on, 7 s"), "{shown}");
}

#[test]
fn the_shell_is_sandboxed_for_admins_and_without_a_network_by_default() {
    let config = load("", &secrets()).unwrap();
    assert_eq!((config.exec.enabled, config.exec.role), (true, Role::Admin));
    assert_eq!(
        (config.exec.sandbox.level, config.exec.network),
        (SandboxLevel::Required, NetworkRule::Off)
    );
    assert!(!config.warnings(&[]).iter().any(|warning| warning.contains("[exec]")));
    let off = load("[exec]\nenabled = false\n", &secrets()).unwrap();
    assert!(!off.exec.enabled && off.describe().contains("shell: off"));
    for level in ["best-effort", "off"] {
        let config = load(format!("[exec]\nsandbox = '{level}'\n"), &secrets()).unwrap();
        let warnings = config.warnings(&[]).join("\n");
        assert!(warnings.contains(&format!("[exec] sandbox = \"{level}\"")), "{warnings}");
    }
}

#[test]
fn a_wrong_shell_is_refused_in_words() {
    for (wrong, words) in [
        ("enabled = 'yes'", "must be true or false"),
        ("role = 'guest'", "must be one of user, admin, owner"),
        ("sandbox = 'require'", "did you mean `required`?"),
        ("read = ['opt']", "must be an absolute path"),
        ("read = ['/']", "not the whole machine"),
        ("write = ['/srv/../etc']", "without `..`"),
        ("write = '/srv'", "must be a list"),
        ("env = { 'A=B' = 'x' }", "is not a valid name of an environment variable"),
        ("timeout_seconds = 101", "must be from 1 to 100"),
        ("background_minutes = 0", "must be from 1 to 1440"),
        ("memory_mb = 8", "must be from 32 to 1000000"),
        ("file_mb = 0", "must be from 1 to 1000000"),
        ("disk_mb = 0", "must be from 1 to 1000000"),
        ("processes = 2", "must be from 8 to 4000"),
        ("timeout = 3", "known keys: enabled, role, sandbox"),
    ] {
        let faults = load(format!("[exec]\n{wrong}\n"), &secrets()).unwrap_err();
        assert!(faults.contains(words) && faults.contains(":2:"), "{wrong}: {faults}");
    }
}
