//! The sandbox where there are no namespaces, as in most containers: what a command has started is found
//! wherever it went, and its temporary files are bounded and gone.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use peacrab::sandbox::{self, CommandEnding, CommandLimits, ExceededLimit};
use tokio::time::{Instant, sleep};

use super::degrade::{NO_NAMESPACES, without};
use super::{MB, Scene};

/// A process of this machine: its parent, its state, its arguments.
struct Process {
    pid: i32,
    parent: i32,
    state: char,
    arguments: String,
}

fn processes() -> Vec<Process> {
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
        Some(Process { pid, parent, state, arguments })
    });
    all.collect()
}

/// The guards and first processes of this test program's commands.
fn cages(all: &[Process]) -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let guards = all.iter().filter(|it| it.parent == own && it.arguments.contains("__sandbox"));
    let guards: Vec<i32> = guards.map(|it| it.pid).collect();
    let firsts = all.iter().filter(|it| guards.contains(&it.parent)).map(|it| it.pid);
    firsts.chain(guards.clone()).collect()
}

/// A number of seconds that no other test sleeps.
fn mark() -> String {
    format!("77{:05}", fastrand::u32(..100_000))
}

fn alive(mark: &str) -> usize {
    processes().iter().filter(|it| it.arguments.contains(mark)).count()
}

#[test]
fn orphans_are_counted_and_none_is_left() {
    without(NO_NAMESPACES, async || {
        let mut scene = Scene::bare();
        scene.sandbox.bounds = CommandLimits::new(256 * MB, 64 * MB, 200 * MB, 24);
        let mark = mark();
        for bomb in [
            "while :; do (setsid sleep MARK >/dev/null 2>&1 &); done",
            "while :; do (setsid sh -c '(sleep MARK &) &' >/dev/null 2>&1 &); done",
            // Root's processes have no limit of the kernel. This one ends by itself, should nobody end it.
            "b() { [ $1 = 0 ] || { b $(($1 - 1)) | b $(($1 - 1)) & }; }; b 12; sleep MARK",
        ] {
            let done = scene.run(&format!("({bomb}) 2>/dev/null").replace("MARK", &mark)).await;
            assert_eq!(
                done.ending,
                CommandEnding::Over(ExceededLimit::Processes),
                "{bomb}: {done:?}"
            );
            assert!(done.took < Duration::from_secs(30), "{done:?}");
            assert_eq!(alive(&mark), 0, "{bomb}");
        }
        // Also at the end that the command has itself.
        let few = "for i in 1 2 3 4 5; do (setsid sleep MARK >/dev/null 2>&1 &); done; echo done";
        assert_eq!(scene.run(&few.replace("MARK", &mark)).await.well(), "done\n");
        assert_eq!(alive(&mark), 0);
    });
}

#[test]
fn a_process_that_begins_another_and_ends_is_overtaken() {
    without(NO_NAMESPACES, async || {
        let scene = Scene::bare();
        let mark = mark();
        // Neither its number nor its parent is ever the same for long.
        scene.write("hop.sh", "date +%s%N > beat\nsetsid sh ./hop.sh $1 >/dev/null 2>&1 &\n");
        for _ in 0..5 {
            let command = format!(
                "sh ./hop.sh {mark} >/dev/null 2>&1 &\n while ! test -s beat; do sleep 0.01; done; \
                 sleep 0.1; echo hops"
            );
            assert_eq!(scene.run(&command).await.well(), "hops\n");
            let heartbeat_run = scene.read("beat");
            sleep(Duration::from_millis(200)).await;
            assert_eq!((scene.read("beat"), alive(&mark)), (heartbeat_run, 0));
        }
    });
}

#[test]
fn orphans_that_end_are_waited_for() {
    without(NO_NAMESPACES, async || {
        let scene = Scene::bare();
        let command = "i=0; while [ $i -lt 300 ]; do (true &); i=$((i + 1)); done; touch made; \
                       while ! test -e looked; do sleep 0.01; done; echo done";
        let look = async {
            while !scene.workspace().join("made").exists() {
                sleep(Duration::from_millis(10)).await;
            }
            let until = Instant::now() + Duration::from_secs(20);
            let dead = loop {
                let all = processes();
                let cages = cages(&all);
                assert!(!cages.is_empty());
                let dead = all.iter().filter(|it| it.state == 'Z' && cages.contains(&it.parent));
                let dead = dead.count();
                if dead < 10 || Instant::now() > until {
                    break dead;
                }
                sleep(Duration::from_millis(10)).await;
            };
            scene.write("looked", "");
            dead
        };
        let (done, dead) = tokio::join!(scene.run(command), look);
        assert_eq!(done.well(), "done\n");
        assert!(dead < 10, "{dead} are dead, and nobody has waited for them");
    });
}

#[test]
fn temporary_files_are_bounded_and_do_not_stay() {
    without(NO_NAMESPACES, async || {
        let mut scene = Scene::bare();
        scene.sandbox.bounds.tmp = 8 * MB;
        let begin = "echo $TMPDIR > where; cd $TMPDIR;";
        let gone = |scene: &Scene| {
            let folder = PathBuf::from(scene.read("where").trim());
            assert!(folder.starts_with("/tmp") && !folder.exists(), "{}", folder.display());
        };
        let few = format!("{begin} mkdir -p a/b; head -c 4M /dev/zero > a/b/x; sleep 0.3; echo ok");
        assert_eq!(scene.run(&few).await.well(), "ok\n");
        gone(&scene);
        for too_much in [
            "head -c 30M /dev/zero > x; sleep 60",
            "i=0; while :; do : > f$i; i=$((i + 1)); done",
            "mkdir -p a/b/c; for i in 1 2 3 4; do head -c 5M /dev/zero > a/b/c/$i; done; sleep 60",
        ] {
            let done = scene.run(&format!("{begin} {too_much}")).await;
            assert_eq!(
                done.ending,
                CommandEnding::Over(ExceededLimit::Disk),
                "{too_much}: {done:?}"
            );
            gone(&scene);
        }
        // Whatever was made of the folder.
        let maze = "i=0; while [ $i -lt 60 ]; do d=$(printf '%0200d' 7); mkdir $d; cd -P $d; i=$((i + 1)); done; \
                    touch here; ln -s / away; cd $TMPDIR; mkdir shut; touch shut/x; chmod 0 shut; \
                    touch -- '-rf' \"$(printf 'a\\nb')\"; echo made";
        let done = scene.run(&format!("({begin} {maze}) 2>/dev/null")).await;
        assert_eq!(done.well(), "made\n");
        gone(&scene);
    });
}

/// A folder as a command's guard makes one, of this age.
fn folder(name: &str, age: Duration) -> PathBuf {
    let folder = Path::new("/tmp").join(format!("{name}{:016x}", fastrand::u64(..)));
    fs::create_dir_all(folder.join("in/side")).unwrap();
    fs::write(folder.join("in/file"), "left").unwrap();
    let then = SystemTime::now() - age;
    File::open(&folder).unwrap().set_modified(then).unwrap();
    folder
}

#[test]
fn what_killed_commands_have_left_is_swept_up() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let left = folder("peacrab-sandbox-", HOUR);
    let (used, young) = (folder("peacrab-sandbox-", HOUR), folder("peacrab-cage-", Duration::ZERO));
    let other = folder("peacrab-others-", HOUR);
    let lock = File::open(&used).unwrap();
    lock.lock().unwrap();
    // One that is a link leads nowhere.
    let link = Path::new("/tmp").join(format!("peacrab-sandbox-{:016x}", fastrand::u64(..)));
    std::os::unix::fs::symlink(&other, &link).unwrap();
    sandbox::sweep();
    assert!(!left.exists(), "it was left");
    for kept in [&used, &young, &other] {
        assert!(kept.join("in/file").exists(), "{}", kept.display());
        fs::remove_dir_all(kept).unwrap();
    }
    fs::remove_file(link).unwrap();
}

#[test]
fn a_killed_guard_leaves_a_folder_that_the_next_start_removes() {
    without(NO_NAMESPACES, async || {
        let scene = Scene::bare();
        // Without its guard, the command lives on until it ends by itself.
        let command = "echo $TMPDIR > where; echo x > $TMPDIR/x; mv where there; sleep 4";
        let kill = async {
            while !scene.workspace().join("there").exists() {
                sleep(Duration::from_millis(10)).await;
            }
            let all = processes();
            let own = std::process::id().cast_signed();
            let mine = |it: &&Process| it.parent == own && it.arguments.contains("__sandbox");
            // The one whose command has this workspace, of all that other tests run.
            let workspace = scene.workspace();
            let shell = all.iter().find(|it| {
                it.arguments.contains("mv where there")
                    && fs::read_link(format!("/proc/{}/cwd", it.pid))
                        .is_ok_and(|at| at == workspace)
            });
            let first = shell.map_or(0, |shell| shell.parent);
            let guard = all.iter().find(|it| it.pid == first).map_or(0, |first| first.parent);
            assert!(all.iter().filter(mine).any(|it| it.pid == guard));
            let guard = rustix::process::Pid::from_raw(guard).unwrap();
            rustix::process::kill_process(guard, rustix::process::Signal::KILL).unwrap();
        };
        let (done, ()) = tokio::join!(scene.run(command), kill);
        assert_eq!(done.ending, CommandEnding::Lost, "{done:?}");
        let folder = PathBuf::from(scene.read("there").trim());
        assert!(folder.exists());
        let then = SystemTime::now() - Duration::from_secs(3_600);
        File::open(&folder).unwrap().set_modified(then).unwrap();
        sandbox::sweep();
        assert!(!folder.exists());
    });
}
