//! Files that must stay out of reach, by whatever name they are called.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use peacrab::sandbox::{self, CommandEnding, ExceededLimit, Sandbox};

use super::{SECRET, Scene, have};

/// Each in sh, with `R` for the folder in which the home is, and `P` for the test's process. `others` is
/// followed by what must not be there, unless it is on the way to `R`, wherever that is.
const READS: &[(&str, &str)] = &[
    ("the config", "cat R/home/config.toml"),
    ("the state", "cat R/home/state.db"),
    ("what files were", "cat R/home/undo/blob"),
    ("the config, by ..", "cat ../config.toml"),
    ("the config, by a way around", "cat notes/../../config.toml"),
    ("somebody's key", "cat R/person/.ssh/id_rsa"),
    ("all of the home", "grep -r . R/home --include='*' --exclude-dir=workspace"),
    ("all of the folder", "tar cf - R/ 2>/dev/null | grep -a the-secret"),
    ("the key wherever it is", "find / -name id_rsa -exec cat {} +"),
    ("a symbolic link to the config", "ln -s R/home/config.toml l; cat l"),
    ("a symbolic link to the home", "ln -s R/home d; cat d/config.toml"),
    ("a relative link", "ln -s ../config.toml r; cat r"),
    ("a link to a link", "ln -s R/home d2; ln -s d2/config.toml l2; cat l2"),
    ("a hard link", "ln R/home/config.toml h; cat h"),
    ("a copy", "cp R/home/config.toml c; cat c"),
    ("the config, moved here", "mv R/home/config.toml m; cat m"),
    ("the first process's environment", "cat /proc/1/environ | tr '\\0' '\\n'"),
    ("the first process's root", "cat /proc/1/root/R/home/config.toml"),
    ("one's own root", "cat /proc/self/root/R/home/config.toml"),
    ("one's own folder", "cat /proc/self/cwd/../config.toml"),
    ("the daemon's environment", "cat /proc/P/environ | tr '\\0' '\\n'"),
    ("the daemon's root", "cat /proc/P/root/R/home/config.toml"),
    ("the daemon's folder", "cat /proc/P/cwd/Cargo.toml && echo the-secret"),
    ("the daemon's open files", "for f in /proc/P/fd/*; do cat $f; done"),
    ("the daemon's memory", "head -c 1 /proc/P/mem && echo the-secret"),
    ("every open file", "for f in /proc/self/fd/* /dev/fd/*; do timeout 1 cat $f </dev/null; done"),
    ("other numbers of open files", "for i in 3 4 5 6 7 8 9 10 11 12; do eval \"cat <&$i\"; done"),
    (
        "mounted devices",
        "for d in /dev/[svx]d* /dev/mem /dev/kmem /proc/kcore; do head -c 1 $d && echo the-secret; done",
    ),
    ("passwords", "cat /etc/shadow /etc/gshadow /etc/sudoers && echo the-secret"),
    ("keys of the machine", "cat /etc/ssh/*key /etc/ssl/private/* && echo the-secret"),
    ("the home of root", "others /root/* /root/.[!.]*"),
    ("homes", "others /home/* /home/*/*"),
    ("what others wrote to /tmp", "others /tmp/* /tmp/.[!.]*"),
    ("logs", "cat /var/log/* && echo the-secret"),
    ("what services keep", "others /run/* /run/*/* /var/lib/* /var/lib/*/*"),
];

/// Each must change nothing.
const WRITES: &[(&str, &str)] = &[
    ("a new file in the home", "echo x > R/home/new"),
    ("a new folder beside it", "mkdir R/new"),
    ("more in the config", "echo x >> R/home/config.toml"),
    ("an empty state", ": > R/home/state.db"),
    ("a shorter state", "truncate -s 0 R/home/state.db"),
    ("no key", "rm -rf R/person"),
    ("the config under another name", "mv R/home/config.toml R/home/new"),
    ("something in its place", "cp notes/plan.md R/home/config.toml"),
    ("something moved out", "mv notes/plan.md ../new || cp notes/plan.md ../new"),
    ("rights", "chmod 777 R/home/config.toml R/person/.ssh/id_rsa && touch ../new"),
    ("by a link", "ln -s R/home out; echo x > out/new"),
    ("by a link to a file", "ln -s R/home/config.toml f; echo x > f"),
    ("by a hard link", "ln R/home/config.toml hl && echo x > hl"),
    ("the workspace itself, renamed", "cd /; mv R/home/workspace R/home/gone"),
    ("by a process of the first", "echo x > /proc/1/root/R/home/config.toml"),
    ("by the daemon's root", "echo x > /proc/P/root/R/home/config.toml"),
    ("a program of the system", "echo x > /usr/bin/evil && touch ../new"),
    ("a setting of the system", "echo x > /etc/evil && touch ../new"),
    (
        "a setting of the kernel",
        "echo 1 > /proc/sys/kernel/evil || echo core > /proc/sys/kernel/core_pattern && touch ../new",
    ),
    ("a key of the machine", "echo b > /proc/sysrq-trigger && touch ../new"),
];

fn filled(scene: &Scene, command: &str) -> String {
    let root = format!("{}/", scene.root().display());
    let command = match command.strip_prefix("others ") {
        Some(places) => &format!(
            "for f in {places}; do case R/ in \"$f\"/*) ;; *) ls -d \"$f\" && echo the-secret ;; esac; done"
        ),
        None => command,
    };
    command.replace("R/", &root).replace("/proc/P/", &format!("/proc/{}/", std::process::id()))
}

#[tokio::test]
async fn nothing_but_the_workspace_and_the_system_can_be_read() {
    for (name, command) in READS {
        let scene = Scene::new();
        let command = filled(&scene, command);
        let done = scene.run(&command).await;
        assert!(!done.out.contains("the-secret"), "{name}: {command}\n{}", done.out);
        scene.check();
    }
}

#[tokio::test]
async fn nothing_but_the_workspace_can_be_written() {
    for (name, command) in WRITES {
        let scene = Scene::new();
        let command = filled(&scene, command);
        let before = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
        scene.run(&command).await;
        scene.check();
        assert!(scene.workspace().is_dir(), "{name}: {command}");
        assert_eq!(fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap(), before, "{name}");
        assert!(!fs::exists("/usr/bin/evil").unwrap() && !fs::exists("/etc/evil").unwrap());
    }
}

#[tokio::test]
async fn files_that_the_daemon_has_left_open_are_closed() {
    let scene = Scene::new();
    let file = File::open(scene.root().join("home/config.toml")).unwrap();
    let folder = File::open(scene.root()).unwrap();
    // Copies that a program inherits.
    let _open = (rustix::io::dup(&file).unwrap(), rustix::io::dup(&folder).unwrap());
    let command = "for i in $(ls /proc/self/fd); do cat <&$i; cat /dev/fd/$i/home/config.toml; done; \
                   for i in 3 4 5 6 7 8 9 $(seq 10 200); do cat /dev/fd/$i /dev/fd/$i/home/config.toml; done";
    let done = scene.run_with(command, "").await;
    assert!(!done.out.contains(SECRET), "{}", done.out);
    scene.check();
}

#[tokio::test]
async fn races_over_links_and_names_lead_nowhere() {
    let races = [
        // The folder is now one's own, now a link to the home.
        "mkdir real; echo mine > real/config.toml; \
         (while :; do rm -rf d; ln -s R/home d; rm d; cp -r real d; done) & \
         i=0; while [ $i -lt 300 ]; do cat d/config.toml; echo x > d/new; i=$((i + 1)); done",
        // A file and a link change places.
        "echo mine > a; ln -s R/home/config.toml b; \
         (while :; do mv a c; mv b a; mv c b; done) & \
         i=0; while [ $i -lt 300 ]; do cat a b; i=$((i + 1)); done",
        // The folder in which one stands is moved.
        "mkdir -p deep/er; (while :; do mv deep/er er; mv er deep/er; done) & \
         cd deep/er; i=0; while [ $i -lt 300 ]; do cat ../../config.toml ../config.toml; echo x > ../../new; i=$((i + 1)); done",
    ];
    for race in races {
        let scene = Scene::new();
        let done = scene.run(&format!("({}) 2>/dev/null", filled(&scene, race))).await;
        assert!(!done.out.contains(SECRET), "{race}");
        // What it wrote to its own folder is its own.
        assert!(matches!(done.ending, CommandEnding::Exit(_)), "{done:?}");
        scene.check();
    }
}

#[tokio::test]
async fn programs_that_become_root_stay_who_they_are() {
    let scene = Scene::new();
    let command = filled(
        &scene,
        "cp /bin/cat ./cat; chmod 4755 ./cat; ./cat R/home/config.toml R/person/.ssh/id_rsa; \
         su -c 'cat R/home/config.toml' </dev/null; sudo -n cat R/home/config.toml; \
         grep -E '^(NoNewPrivs|CapEff|CapBnd|Seccomp):' /proc/self/status",
    );
    let done = scene.run(&command).await;
    assert!(!done.out.contains(SECRET), "{}", done.out);
    let out = done.out.replace('\t', " ");
    for line in
        ["NoNewPrivs: 1", "CapEff: 0000000000000000", "CapBnd: 0000000000000000", "Seccomp: 2"]
    {
        assert!(out.contains(line), "{out}");
    }
    scene.check();
}

#[tokio::test]
async fn no_file_is_made_that_lends_the_daemons_rights() {
    let scene = Scene::new();
    let command = "cp /bin/cat ./cat; chmod 755 ./cat && echo plain; chmod u+s ./cat || echo no user; \
                   chmod 2755 ./cat || echo no group; cp /bin/cat ./new && echo made; \
                   ls -l cat | cut -c1-10; if command -v python3 >/dev/null; then python3 -c \
                   'import os; os.open(\"x\", os.O_CREAT | os.O_WRONLY, 0o4755)' 2>&1 | tail -1; \
                   else echo PermissionError; fi";
    let done = scene.run(command).await;
    for words in ["plain", "no user", "no group", "made", "-rwxr-xr-x", "PermissionError"] {
        assert!(done.out.contains(words), "{words}: {}", done.out);
    }
    scene.check();
}

#[tokio::test]
async fn python_reaches_no_more_than_sh() {
    // Without Python, sh has made the same attempts above.
    if !have("python3") {
        return;
    }
    let scene = Scene::new();
    let script = r#"
import os
root = "ROOT"
targets = [root + "/home/config.toml", root + "/person/.ssh/id_rsa", "/etc/shadow", "/proc/1/environ",
           "/proc/PID/environ", "/proc/PID/mem", "/proc/PID/root/etc/hostname"]
def attempt(what, call):
    try:
        print(what, "WENT THROUGH", call())
    except (OSError, ValueError) as error:
        print(what, "held", type(error).__name__)
for target in targets:
    attempt("open " + target, lambda: open(target, "rb").read(100))
    attempt("write " + target, lambda: open(target, "r+b").write(b"x"))
    attempt("open from a folder " + target, lambda: os.open(target, os.O_RDONLY, dir_fd=os.open(".", os.O_RDONLY)))
    attempt("O_PATH " + target, lambda: os.read(os.open("/proc/self/fd/%d" % os.open(target, os.O_PATH), os.O_RDONLY), 100))
    attempt("link " + target, lambda: os.link(target, "linked"))
    attempt("rename " + target, lambda: os.rename(target, "renamed"))
    attempt("replace " + target, lambda: os.replace("notes/plan.md", target))
attempt("list", lambda: os.listdir(root + "/home/undo"))
attempt("climb", lambda: open("../" * 20 + root.lstrip("/") + "/home/config.toml").read())
"#;
    let script = script.replace("ROOT", &scene.root().display().to_string());
    scene.write("attempts.py", script.replace("PID", &std::process::id().to_string()));
    let out = scene.run("python3 attempts.py").await.well();
    assert!(!out.contains("WENT THROUGH") && !out.contains(SECRET), "{out}");
    assert_eq!(out.lines().count(), 7 * 7 + 2, "{out}");
    scene.check();
}

#[tokio::test]
async fn what_the_config_names_can_be_read_or_written_and_no_more() {
    let mut scene = Scene::new();
    let root = scene.root();
    fs::create_dir(root.join("person/read")).unwrap();
    fs::create_dir(root.join("person/write")).unwrap();
    fs::write(root.join("person/read/book"), "a book").unwrap();
    scene.sandbox.read.push(root.join("person/read"));
    scene.sandbox.write.push(root.join("person/write"));
    let command = filled(
        &scene,
        "cat R/person/read/book; echo x > R/person/read/new; echo y > R/person/write/new; \
         cat R/person/write/new; cat R/person/.ssh/id_rsa",
    );
    let done = scene.run(&format!("({command}) 2>/dev/null")).await;
    assert_eq!(done.out, "a booky\n");
    assert!(!root.join("person/read/new").exists() && root.join("person/write/new").exists());
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_said() {
    let mut scene = Scene::new();
    scene.order.cwd = scene.workspace().join("nowhere");
    let done = scene.run("echo begun").await;
    let CommandEnding::Refused(why) = done.ending else { panic!("{done:?}") };
    assert!(why.contains("nowhere") && done.out.is_empty(), "{why}");
    scene.order.cwd = scene.workspace();
    scene.order.time_max = Duration::from_secs(1);
    assert_eq!(scene.run("sleep 100").await.ending, CommandEnding::Over(ExceededLimit::Time));
}

#[test]
fn what_commands_would_see_of_the_home_or_of_secrets_is_found() {
    let scene = Scene::new();
    let root = scene.root();
    let (home, workspace) = (root.join("home"), root.join("home/workspace"));
    let key = root.join("person/.ssh/id_rsa");
    let found = |home: &Path, read: &[PathBuf], secrets: &[PathBuf]| {
        let sandbox = Sandbox { read: read.to_vec(), ..scene.sandbox.clone() };
        let found = sandbox::find_exposed_path(&sandbox, home, &home.join("workspace"), secrets);
        found.map(|found| (found.hidden, found.by))
    };
    let said = |hidden: &Path, by: &Path| Some((hidden.to_owned(), by.to_owned()));
    assert_eq!(found(&home, &[], &[key.clone(), home.join("config.toml")]), None);
    assert_eq!(found(&home, &[root.join("persons")], std::slice::from_ref(&key)), None);
    // Below what every command reads, there or not yet.
    for (home, by) in [
        ("/usr/lib/peacrab", "/usr"),
        ("/lib/peacrab", "/usr"),
        ("/nix/store/home", "/nix/store"),
        ("/etc/profile.d/../profile.d", "/etc/profile.d"),
        ("/usr", "/usr"),
        ("/etc", "/etc/alternatives"),
    ] {
        let home = Path::new(home);
        let seen = found(home, &[], &[]).unwrap();
        // Where /lib is no link, it is named itself.
        assert!(seen == (home.to_owned(), by.into()) || home.starts_with(&seen.1), "{seen:?}");
    }
    // Below what is listed, and around it.
    for by in [&root, &home, &home.join("undo"), &home.join("state.db"), &workspace] {
        assert_eq!(
            found(&home, std::slice::from_ref(by), &[]),
            said(&home, by),
            "{}",
            by.display()
        );
    }
    let person = root.join("person");
    let listed = found(&home, std::slice::from_ref(&person), std::slice::from_ref(&key));
    assert_eq!(listed, said(&key, &person));
    // By another name, too.
    let link = root.join("link");
    std::os::unix::fs::symlink(&person, &link).unwrap();
    let linked = found(&home, std::slice::from_ref(&link), std::slice::from_ref(&key));
    assert_eq!(linked, said(&key, &link));
    let by_link = link.join(".ssh/id_rsa");
    let listed = found(&home, std::slice::from_ref(&person), std::slice::from_ref(&by_link));
    assert_eq!(listed, said(&by_link, &person));
    // Also if there is nothing yet where it leads.
    let early = root.join("early");
    std::os::unix::fs::symlink("home/undo/later", &early).unwrap();
    let part = fs::canonicalize(&home).unwrap().join("undo/later/part");
    assert_eq!(sandbox::resolve_links(&early.join("part")), part);
    assert_eq!(found(&home, std::slice::from_ref(&early), &[]), said(&home, &early));
    let circle = root.join("circle");
    std::os::unix::fs::symlink("circle", &circle).unwrap();
    assert_eq!(sandbox::resolve_links(&circle), circle);
    // In the workspace, wherever that leads.
    let inside = workspace.join("notes/key");
    assert_eq!(found(&home, &[], std::slice::from_ref(&inside)), said(&inside, &workspace));
    let other = root.join("other");
    fs::create_dir(&other).unwrap();
    std::os::unix::fs::symlink(&root, other.join("workspace")).unwrap();
    assert_eq!(found(&other, &[], &[]), said(&other, &other.join("workspace")));
}
