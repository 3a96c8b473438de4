//! The daemon is killed before and after each of its commits, and at random, in a process of its
//! own, and begun again. Whatever was accepted has its one outcome; nothing is said or done twice.

mod attachments;
mod budgets;
mod child;
mod commands;
mod compaction;
mod extraction;
mod forgetting;
mod incognito;
mod pause;
mod suspended;
mod restart;
mod resuming;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::effort;
use crate::support::platform::{Platform, PlatformBehavior};
use child::{Asks, At, Kill, Spec, When};
use suspended::Reaction;

/// The longest that a daemon may take to bring everything to its end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What people say: plain words, several tools in a row, files, memory, messages to elsewhere,
/// commands, a picture, and an answer that is cut into several.
const SAID: &[(&str, &str)] = &[
    ("1", "hello"),
    ("1", "append one to log.md then append two to log.md then append three to log.md"),
    (
        "2",
        "remember that the crab is small then note that it rained then tell home:3 lunch is ready",
    ),
    ("2", "/status"),
    ("3", "write first to a.md then replace first with second in a.md then read a.md"),
    // Text in a picture is untrusted, so that the other chats would be asked about what they do.
    ("4", "a photo"),
    ("1", "append four to log.md"),
    (
        "3",
        "a long one: lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor \
           incididunt ut labore et dolore magna aliqua. Ut enim ad minim veniam, quis nostrud exercitation \
           ullamco laboris nisi ut aliquip ex ea commodo consequat.",
    ),
];

/// A long answer that is stopped, what waited behind it, a fresh session, and what comes after.
const STOPPED: &[(&str, &str)] = &[
    ("1", "append one to log.md then wait 60"),
    ("1", "never mind"),
    ("1", "/stop"),
    ("1", "hello again"),
    ("2", "wait 60"),
    ("2", "/new"),
    ("2", "hello anew"),
];

const KNOWING: PlatformBehavior =
    PlatformBehavior { knows: true, misbehaves: false, hangs: false, text_max: 160 };
const UNKNOWING: PlatformBehavior = PlatformBehavior { knows: false, ..KNOWING };

/// A home, a platform, and daemons that come and go.
struct Scene {
    folder: TempDir,
    manners: PlatformBehavior,
    asks: Asks,
    /// What the person does when something is asked.
    reaction: Reaction,
    /// It runs as a service, which begins it again when it ends.
    restarts: bool,
    /// Facts are noticed.
    extracts: bool,
}

impl Scene {
    fn new(manners: PlatformBehavior) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (asks, reaction) = (Asks::default(), Reaction::None);
        Self { folder, manners, asks, reaction, restarts: false, extracts: false }
    }

    fn with_said(manners: PlatformBehavior, said: &[(&str, &str)]) -> Self {
        let scene = Self::new(manners);
        said.iter().for_each(|(chat, text)| scene.platform().say(chat, text));
        scene
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn log(&self) -> PathBuf {
        self.home().join("workspace/log.md")
    }

    fn platform(&self) -> Platform {
        Platform::new(&self.folder.path().join("platform"), self.manners)
    }

    /// Begins a daemon that is killed as said.
    #[expect(clippy::disallowed_methods, reason = "the daemon is this test's own child")]
    fn daemon(&self, kill: Option<Kill>) -> Child {
        let spec = Spec {
            home: self.home(),
            platform: self.folder.path().join("platform"),
            manners: self.manners,
            asks: self.asks.clone(),
            restarts: self.restarts,
            extracts: self.extracts,
            kill,
        };
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child::daemon", "--nocapture"])
            .env(child::SPEC, serde_json::to_string(&spec).unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Runs a daemon until it is killed or has nothing left to do; true if it was killed.
    fn run(&self, kill: Kill) -> bool {
        let mut daemon = self.daemon(Some(kill));
        self.settle(&mut daemon).is_some()
    }

    /// Runs a daemon until nothing is left to do.
    fn bring_to_end(&self) {
        let mut daemon = self.daemon(None);
        let ended = self.settle(&mut daemon);
        assert_eq!(ended, None, "the daemon ended by itself");
    }

    /// Waits until nothing is left to do and kills the daemon, or until it is dead.
    fn settle(&self, daemon: &mut Child) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Some(status) = daemon.try_wait().unwrap() {
                return Some(status);
            }
            self.reaction.happens(&self.platform());
            if verdict::is_settled(&self.home(), self.platform().said().len()) {
                daemon.kill().unwrap();
                daemon.wait().unwrap();
                return None;
            }
            assert!(begun.elapsed() < PATIENCE, "{}", verdict::what_is_left(&self.home()));
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    /// The one answer, whole, without drafts.
    fn answer(&self) -> String {
        let got = self.platform().got();
        let chunks: Vec<_> = got.iter().filter(|got| got.delivery != 0).collect();
        assert!(chunks.iter().all(|got| got.delivery == chunks[0].delivery), "{got:?}");
        chunks.iter().map(|got| got.text.as_str()).collect()
    }

    fn judge(&self) {
        verdict::judge(&self.home(), &self.platform(), self.manners);
    }
}

/// Kills before or after each commit in turn, each in a world of its own, until there is no commit
/// left to kill at.
fn kill_at_each_commit(manners: PlatformBehavior, when: When, said: &[(&str, &str)]) {
    for commit in 1.. {
        let scene = Scene::with_said(manners, said);
        let killed = scene.run(Kill { at: At::Commit(commit), when });
        scene.bring_to_end();
        scene.judge();
        if !killed {
            assert!(commit > 8, "there should be more than {commit} commits");
            return;
        }
    }
}

#[test]
fn nothing_is_lost_or_doubled_by_a_kill_before_any_commit() {
    kill_at_each_commit(KNOWING, When::Before, SAID);
}

#[test]
fn nothing_is_lost_or_doubled_by_a_kill_after_any_commit() {
    kill_at_each_commit(KNOWING, When::After, SAID);
}

#[test]
fn what_was_reserved_at_a_kill_is_booked_and_no_call_is_forgotten_or_counted_twice() {
    for (label, when, estimated) in [
        ("reserved", When::Before, 0),
        ("reserved", When::After, 1),
        ("completion", When::Before, 1),
        ("completion", When::After, 0),
        ("answer", When::Before, 1),
        ("answer", When::After, 0),
    ] {
        let mut scene = Scene::with_said(KNOWING, &[("1", "append one to log.md")]);
        scene.asks.budget = Some(1_000_000);
        assert!(scene.run(Kill { at: At::Label(label.to_owned()), when }), "{label}");
        scene.bring_to_end();
        scene.judge();
        let calls = |state| verdict::calls_in_ledger(&scene.home(), state);
        // One for the call of the tool, and one for the answer.
        assert_eq!(calls("settled"), 2, "{label} {when:?}");
        assert_eq!(calls("estimated"), estimated, "{label} {when:?}");
        assert_eq!(calls("reserved"), 0, "{label} {when:?}");
    }
}

#[test]
fn what_may_be_doubled_by_a_kill_before_any_commit_is_marked() {
    kill_at_each_commit(UNKNOWING, When::Before, SAID);
}

#[test]
fn what_may_be_doubled_by_a_kill_after_any_commit_is_marked() {
    kill_at_each_commit(UNKNOWING, When::After, SAID);
}

#[test]
fn what_was_stopped_stays_stopped_after_a_kill_before_any_commit() {
    kill_at_each_commit(KNOWING, When::Before, STOPPED);
}

#[test]
fn what_was_stopped_stays_stopped_after_a_kill_after_any_commit() {
    kill_at_each_commit(KNOWING, When::After, STOPPED);
}

/// Kills at random moments while people keep talking to a platform that misbehaves.
fn kill_at_random(manners: PlatformBehavior, kills: u32) {
    let mut scene = Scene::new(PlatformBehavior { misbehaves: true, ..manners });
    for kill in 0..kills {
        let (chat, text) = SAID[fastrand::usize(..SAID.len())];
        let text = text.replace("append ", &format!("append {kill}-"));
        scene.platform().say(chat, &text);
        scene.manners.hangs = true;
        let mut daemon = scene.daemon(None);
        std::thread::sleep(Duration::from_millis(fastrand::u64(10..150)));
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
    scene.manners.hangs = false;
    scene.bring_to_end();
    scene.judge();
}

#[test]
fn random_kills_lose_and_double_nothing() {
    kill_at_random(KNOWING, effort::kills());
}

#[test]
fn random_kills_of_a_platform_that_cannot_be_asked_double_nothing_unmarked() {
    kill_at_random(UNKNOWING, effort::times(20, 60));
}

/// Kills once a file change is written down and before it is made, and then again once it is made
/// and before that is written down.
#[test]
fn a_file_change_that_was_cut_off_is_made_once() {
    for (label, when) in [("call starts", When::After), ("call ends", When::Before)] {
        let scene = Scene::new(KNOWING);
        scene.platform().say("1", "append one to log.md");
        assert!(scene.run(Kill { at: At::Label(label.to_owned()), when }));
        scene.bring_to_end();
        scene.judge();
        assert_eq!(std::fs::read_to_string(scene.log()).unwrap(), "one\n");
    }
}

#[test]
fn a_file_change_of_which_nobody_knows_is_left_to_the_model() {
    let scene = Scene::new(KNOWING);
    scene.platform().say("1", "append one to log.md");
    assert!(scene.run(Kill { at: At::Label("call starts".to_owned()), when: When::After }));
    std::fs::write(scene.log(), "somebody was here\n").unwrap();
    scene.bring_to_end();
    assert_eq!(std::fs::read_to_string(scene.log()).unwrap(), "somebody was here\n");
    let got = scene.platform().got();
    // What is not of the outbox is a draft.
    let answer = got.iter().find(|got| got.delivery != 0).unwrap();
    assert!(answer.text.contains("may or may not have happened"), "{got:?}");
}

/// Kills before or after each commit of an undo in turn.
fn kill_at_each_commit_of_an_undo(words: &str, when: When) {
    for commit in 1.. {
        let scene = Scene::new(KNOWING);
        for line in ["write first to a.md", "replace first with second in a.md"] {
            scene.platform().say("1", line);
            scene.bring_to_end();
        }
        scene.platform().say("1", words);
        let killed = scene.run(Kill { at: At::Commit(commit), when });
        scene.bring_to_end();
        let file = std::fs::read_to_string(scene.home().join("workspace/a.md")).unwrap();
        assert_eq!(file, "first\n", "commit {commit}");
        let undone = verdict::states(&scene.home(), "undo");
        assert_eq!(undone, ["done"], "commit {commit}");
        let got = scene.platform().got();
        let told =
            got.iter().filter(|got| got.delivery != 0 && got.text.contains("Undone: action"));
        assert_eq!(told.count(), 1, "commit {commit}: {got:?}");
        if !killed {
            assert!(commit > 4, "there should be more than {commit} commits");
            return;
        }
    }
}

#[test]
fn an_undo_is_made_once_after_a_kill_before_any_commit() {
    kill_at_each_commit_of_an_undo("/undo", When::Before);
    kill_at_each_commit_of_an_undo("undo", When::Before);
}

#[test]
fn an_undo_is_made_once_after_a_kill_after_any_commit() {
    kill_at_each_commit_of_an_undo("/undo", When::After);
    kill_at_each_commit_of_an_undo("undo", When::After);
}

#[test]
fn an_undo_of_which_nobody_knows_is_told_and_left() {
    let scene = Scene::new(KNOWING);
    scene.platform().say("1", "append one to log.md");
    scene.bring_to_end();
    scene.platform().say("1", "/undo");
    assert!(scene.run(Kill { at: At::Label("undo starts".to_owned()), when: When::After }));
    std::fs::write(scene.log(), "somebody was here\n").unwrap();
    scene.bring_to_end();
    assert_eq!(std::fs::read_to_string(scene.log()).unwrap(), "somebody was here\n");
    assert_eq!(verdict::states(&scene.home(), "undo"), ["interrupted"]);
}

/// Kills before or after each commit in turn, while a turn waits for the model, goes on, and waits again.
fn kill_at_each_commit_of_a_wait(when: When) {
    for commit in 1.. {
        let scene = Scene::with_said(KNOWING, &[("1", child::AWAY)]);
        let killed = scene.run(Kill { at: At::Commit(commit), when });
        scene.bring_to_end();
        scene.judge();
        let den = fs::read_to_string(scene.home().join("workspace/den.md")).unwrap();
        assert_eq!(den, "crab\n", "commit {commit}");
        let got = scene.platform().got();
        let told = got.iter().filter(|got| got.text.contains("I can't reach the model"));
        assert!(told.count() <= 1, "commit {commit}: {got:?}");
        let answers = got.iter().filter(|got| got.delivery != 0 && got.text.contains("Added to"));
        assert_eq!(answers.count(), 1, "commit {commit}: {got:?}");
        if !killed {
            assert!(commit > 8, "there should be more than {commit} commits");
            return;
        }
    }
}

#[test]
fn a_turn_that_waits_for_the_model_is_answered_once_after_a_kill_before_any_commit() {
    kill_at_each_commit_of_a_wait(When::Before);
}

#[test]
fn a_turn_that_waits_for_the_model_is_answered_once_after_a_kill_after_any_commit() {
    kill_at_each_commit_of_a_wait(When::After);
}

/// Kills before or after each commit in turn, while a subagent works beside the conversation or is
/// waited for.
fn kill_at_each_commit_of_a_subagent(words: &str, when: When) {
    for commit in 1.. {
        let scene = Scene::with_said(KNOWING, &[("1", words)]);
        let killed = scene.run(Kill { at: At::Commit(commit), when });
        scene.bring_to_end();
        scene.judge();
        let den = fs::read_to_string(scene.home().join("workspace/den.md")).unwrap();
        assert_eq!(den, "crab\n", "commit {commit}");
        let got = scene.platform().got();
        let told =
            got.iter().filter(|got| got.delivery != 0 && got.text.contains("Subagent 1 is done"));
        assert_eq!(told.count(), usize::from(words == child::SPAWN), "commit {commit}: {got:?}");
        if !killed {
            assert!(commit > 8, "there should be more than {commit} commits");
            return;
        }
    }
}

#[test]
fn a_result_of_a_subagent_comes_once_after_a_kill_before_any_commit() {
    kill_at_each_commit_of_a_subagent(child::SPAWN, When::Before);
    kill_at_each_commit_of_a_subagent(child::AWAIT, When::Before);
}

#[test]
fn a_result_of_a_subagent_comes_once_after_a_kill_after_any_commit() {
    kill_at_each_commit_of_a_subagent(child::SPAWN, When::After);
    kill_at_each_commit_of_a_subagent(child::AWAIT, When::After);
}

/// Kills before or after each commit in turn, while a job is made, is due and is done.
fn kill_at_each_commit_of_a_job(words: &str, when: When) {
    for commit in 1.. {
        let scene = Scene::with_said(KNOWING, &[("1", words)]);
        let killed = scene.run(Kill { at: At::Commit(commit), when });
        scene.bring_to_end();
        scene.judge();
        assert_eq!(verdict::runs(&scene.home()), ["done"], "commit {commit}");
        let got = scene.platform().got();
        let told = |is_it: &dyn Fn(&str) -> bool| {
            got.iter().filter(|got| got.delivery != 0 && is_it(&got.text)).count()
        };
        if words.starts_with(child::REMIND) {
            let reminders = told(&|text| text == "the crab");
            assert_eq!(reminders, 1, "commit {commit}: {got:?}");
        } else {
            let den = fs::read_to_string(scene.home().join("workspace/den.md")).unwrap();
            assert_eq!(den, "crab\n", "commit {commit}");
            let answers = told(&|text| text.contains("Added to den.md"));
            assert_eq!(answers, 1, "commit {commit}: {got:?}");
        }
        if !killed {
            assert!(commit > 6, "there should be more than {commit} commits");
            return;
        }
    }
}

#[test]
fn what_was_promised_for_later_is_done_once_after_a_kill_before_any_commit() {
    for words in [child::JOB, child::JOB_HERE, "remind me of the crab"] {
        kill_at_each_commit_of_a_job(words, When::Before);
    }
}

#[test]
fn what_was_promised_for_later_is_done_once_after_a_kill_after_any_commit() {
    for words in [child::JOB, child::JOB_HERE, "remind me of the crab"] {
        kill_at_each_commit_of_a_job(words, When::After);
    }
}

/// Kills before or after each commit in turn, while a heartbeat run is asked for, works and tells.
fn kill_at_each_commit_of_a_beat(when: When) {
    for commit in 1.. {
        let scene = Scene::with_said(KNOWING, &[("1", "hello"), ("1", "/heartbeat now")]);
        fs::create_dir_all(scene.home().join("workspace")).unwrap();
        fs::write(scene.home().join("workspace/HEARTBEAT.md"), child::WATCH).unwrap();
        let killed = scene.run(Kill { at: At::Commit(commit), when });
        scene.bring_to_end();
        let beats =
            verdict::look(&scene.home(), "SELECT state FROM tasks WHERE kind = 'heartbeat'");
        assert_eq!(beats, ["done"], "commit {commit}");
        let got = scene.platform().got();
        for words in [child::TIDE, peacrab::replies::HEARTBEAT_BEGUN] {
            let told = got.iter().filter(|got| got.delivery != 0 && got.text == words).count();
            assert_eq!(told, 1, "commit {commit}: {words} {got:?}");
        }
        let noted = "SELECT input FROM steps WHERE input LIKE '[Your heartbeat looked%'";
        assert_eq!(verdict::look(&scene.home(), noted).len(), 1, "commit {commit}");
        if !killed {
            assert!(commit > 6, "there should be more than {commit} commits");
            return;
        }
    }
}

#[test]
fn a_beat_tells_once_after_a_kill_before_any_commit() {
    kill_at_each_commit_of_a_beat(When::Before);
}

#[test]
fn a_beat_tells_once_after_a_kill_after_any_commit() {
    kill_at_each_commit_of_a_beat(When::After);
}

/// The line for a message whose turn was killed again and again. A quote of the message may stand above it.
const GIVEN_UP: &str = "I tried this three times";

/// Each kill comes around a claim, with one more thing that was promised.
#[test]
fn kills_around_claims_lose_and_double_no_reminder() {
    let kills = effort::kills();
    let scene = Scene::new(KNOWING);
    for n in 0..kills {
        // Each in a chat of its own: what one person says in a chat is joined.
        scene.platform().say(&format!("c{n}"), &format!("{} crab-{n}.", child::REMIND));
        let when = if fastrand::bool() { When::Before } else { When::After };
        scene.run(Kill { at: At::Label("jobs claimed".to_owned()), when });
    }
    scene.bring_to_end();
    let got = scene.platform().got();
    let mut reminded = 0;
    for n in 0..kills {
        let chat = format!("c{n}");
        let told = |text: &str| {
            let told = got.iter().filter(|got| got.delivery != 0 && got.chat == chat);
            told.filter(|got| got.text.starts_with(text)).count()
        };
        // A turn that was killed three times over was given up, in words, before there was a job.
        match told(&format!("crab-{n}.")) {
            0 => {
                let given_up = got.iter().filter(|got| {
                    got.delivery != 0 && got.chat == chat && got.text.contains(GIVEN_UP)
                });
                assert_eq!(given_up.count(), 1, "{chat}: {got:?}");
            }
            times => assert_eq!(times, 1, "{chat}: {got:?}"),
        }
        reminded += told(&format!("crab-{n}."));
    }
    assert_eq!(verdict::runs(&scene.home()).len(), reminded);
    assert!(reminded > kills as usize / 2, "only {reminded} were reminded of");
}

/// What acts outside cannot be asked whether it did: it is never done a second time, and the model
/// is told when nobody knows.
#[test]
fn a_call_that_acts_is_never_made_twice() {
    let doubt = "may or may not have happened";
    for when in [When::Before, When::After] {
        for commit in 1.. {
            let scene = Scene::with_said(KNOWING, &[("1", child::ACT)]);
            let killed = scene.run(Kill { at: At::Commit(commit), when });
            scene.bring_to_end();
            let acts = fs::read_to_string(scene.home().join(child::ACTS)).unwrap_or_default();
            let answer = scene.answer();
            match acts.as_str() {
                "acted\n" => {}
                "" => assert!(answer.contains(doubt), "{answer}"),
                more => panic!("it has acted more than once: {more}"),
            }
            if !killed {
                assert!(commit > 5 && answer.contains("it has acted"), "{commit} {answer}");
                break;
            }
        }
    }
}

#[test]
fn a_call_that_may_be_made_twice_is_made_again_after_a_crash() {
    for (label, when) in [("call starts", When::After), ("call ends", When::Before)] {
        let scene = Scene::with_said(KNOWING, &[("1", child::LOOK)]);
        assert!(scene.run(Kill { at: At::Label(label.to_owned()), when }));
        scene.bring_to_end();
        let answer = scene.answer();
        assert!(answer.contains("it has acted"), "{answer}");
    }
}

#[test]
fn a_turn_that_kills_the_process_ends_with_words_after_three_attempts() {
    let scene = Scene::new(KNOWING);
    scene.platform().say("1", child::DEADLY);
    for _ in 0..3 {
        let mut daemon = scene.daemon(None);
        assert!(scene.settle(&mut daemon).is_some(), "it should have died");
    }
    scene.platform().say("2", "hello");
    scene.bring_to_end();
    let got = scene.platform().got();
    let told = |chat: &str| got.iter().find(|got| got.chat == chat).unwrap().text.clone();
    assert!(told("1").contains(GIVEN_UP), "{got:?}");
    assert!(told("2").starts_with("You said: hello"), "{got:?}");
}

fn database(home: &Path) -> PathBuf {
    home.join("state.db")
}
