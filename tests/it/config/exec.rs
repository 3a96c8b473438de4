//! The shell: what the config says of it, and that each key does it.

use std::os::unix::fs::symlink;
use std::time::Duration;

use peacrab::people::folder_roles::{FolderRoles, RoleFolder};
use peacrab::sandbox::SandboxLevel;
use peacrab::tools::shell::NetworkRule;

use super::*;

const WHOLE: &str = r#"
[exec]
enabled = true
role = "owner"
sandbox = "best-effort"
network = "on"
trusted = ["/opt/tools/ours", "/srv/other"]
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
    assert_eq!(exec.trusted, [PathBuf::from("/opt/tools/ours"), "/srv/other".into()]);
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
        (
            "read = [7]",
            "must be a path, or a table: { path = \"..\", role = \"..\" }, not a whole number",
        ),
        ("read = [{ path = 'opt' }]", "must be an absolute path"),
        ("read = [{ path = '/srv', role = 'guest' }]", "must be one of user, admin, owner"),
        ("write = [{ path = '/srv', role = 'ovner' }]", "did you mean `owner`?"),
        ("write = [{ path = '/srv', roel = 'owner' }]", "did you mean `role`?"),
        ("read = [{ role = 'owner' }]", "needs a `path`"),
        (
            "read = ['/srv', { path = '/srv/photos', role = 'owner' }]",
            "is for the role owner, but /srv shows it to the role admin",
        ),
        ("write = ['/srv', '/srv/photos']", "is in /srv, where commands could replace it"),
        (
            "write = ['/srv']\nread = [{ path = '/srv/photos/ours', role = 'owner' }]",
            "is in /srv, where commands could replace it",
        ),
        (
            "write = ['/srv']\ntrusted = ['/srv/tools']",
            "is in /srv, where commands could replace it",
        ),
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
        let is_there = faults.contains(":2:") || wrong.contains('\n');
        assert!(faults.contains(words) && is_there, "{wrong}: {faults}");
    }
}

#[test]
fn a_link_to_a_part_of_a_folder_that_commands_change_is_refused_as_that_part() {
    let folder = tempfile::tempdir().unwrap();
    let (data, link) = (folder.path().join("data"), folder.path().join("link"));
    fs::create_dir_all(data.join("part")).unwrap();
    symlink(data.join("part"), &link).unwrap();
    for wrong in [
        format!("write = [{data:?}, {link:?}]"),
        format!("write = [{data:?}]\nread = [{link:?}]"),
        format!("write = [{data:?}]\ntrusted = [{link:?}]"),
    ] {
        let faults = load(format!("[exec]\n{wrong}\n"), &secrets()).unwrap_err();
        assert!(faults.contains("where commands could replace it by a link"), "{wrong}: {faults}");
    }
    load(format!("[exec]\nwrite = [{link:?}]\ntrusted = [{link:?}]\n"), &secrets()).unwrap();
}

#[test]
fn what_a_command_could_have_lead_elsewhere_is_neither_run_nor_shown_to_a_server() {
    let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (data, tool) = (folder.path().join("data"), home.path().join("workspace/tool"));
    for made in [data.join("part"), home.path().join("workspace")] {
        fs::create_dir_all(made).unwrap();
    }
    fs::write(folder.path().join("program"), "").unwrap();
    symlink(folder.path().join("program"), &tool).unwrap();
    let text = format!(
        "[exec]\nwrite = [{data:?}]\n[hooks.tell]\non = [\"turn_end\"]\ncommand = [{tool:?}]\n\
         [mcp.part]\ncommand = \"cat\"\npaths = [{:?}]\n\
         [mcp.whole]\ncommand = \"cat\"\npaths = [{data:?}]\n",
        data.join("part")
    );
    let file = home.path().join("config.toml");
    fs::write(&file, text).unwrap();
    private(&file);
    let config = load_in(&home, &secrets()).unwrap();
    let found: Vec<_> = config
        .cautions(home.path())
        .into_iter()
        .filter_map(|caution| {
            Some(caution.split_once(": it is not started, because ")?.0.to_owned())
        })
        .collect();
    assert_eq!(found, ["[hooks.tell]", "The MCP server part"]);
}

#[test]
fn a_folder_names_the_least_role_that_sees_it() {
    let folder = |path: &str, role| RoleFolder { path: path.into(), role };
    let file = "[exec]\nrole = 'user'\nread = ['/opt/tools', { path = '/srv/photos', role = 'user' }]\n\
                write = [{ path = '/srv/photos', role = 'admin' }, { path = '/srv/own', role = 'owner' }]\n";
    let exec = load(file, &secrets()).unwrap().exec;
    let read = vec![folder("/opt/tools", Role::User), folder("/srv/photos", Role::User)];
    let write = vec![folder("/srv/photos", Role::Admin), folder("/srv/own", Role::Owner)];
    assert_eq!(exec.folder_roles, FolderRoles { read, write });
    for (role, read, write) in [
        (Role::User, vec!["/opt/tools", "/srv/photos"], vec![]),
        (Role::Admin, vec!["/opt/tools", "/srv/photos"], vec!["/srv/photos"]),
        (Role::Owner, vec!["/opt/tools", "/srv/photos"], vec!["/srv/photos", "/srv/own"]),
    ] {
        let seen = exec.folder_roles.visible(&exec.sandbox, role);
        let paths = |paths: &[PathBuf]| -> Vec<String> {
            paths.iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(paths(&seen.read), read, "{role}");
        assert_eq!(paths(&seen.write), write, "{role}");
    }
    // The part of a folder that an entry of its own shows is visible, though the whole is not.
    let file = "[exec]\nrole = 'user'\nread = [{ path = '/srv', role = 'owner' }, '/srv/music']\n";
    let exec = load(file, &secrets()).unwrap().exec;
    let seen = exec.folder_roles.visible(&exec.sandbox, Role::User);
    assert_eq!(seen.read, [PathBuf::from("/srv/music")]);
}

#[test]
fn a_role_below_that_of_the_shell_is_warned_about_and_counts_as_that() {
    let file = "[exec]\nread = [{ path = '/srv/photos', role = 'user' }]\n";
    let config = load(file, &secrets()).unwrap();
    assert_eq!(config.exec.folder_roles.read[0].role, Role::Admin);
    let warning = "[exec] role = \"user\" of /srv/photos has no effect: commands are for the role admin and above";
    let warnings = config.warnings(&[]);
    assert!(warnings.contains(&warning.to_owned()), "{warnings:?}");
}
