//! A year in a second: the clock is a value, the power goes each day, and every due time of every job is
//! accounted for.

use std::collections::BTreeSet;

use chrono::{DateTime, Duration, TimeZone, Utc};
use peacrab::conversation::sessions::NOTES_MAX;
use peacrab::people::{Access, People, Role};
use peacrab::store::{Store, StoreOptions, Sync};
use peacrab::tasks::schedule::{
    self, CommandResult, CommandRun, Commands, JobConversation, JobDefinition, JobId, JobOperation,
    JobScope, LATE_AFTER, Missed, PassInputs, Payload, PreapprovedCalls, Timing, pass,
};
use peacrab::tasks::{self, TaskOutcome};
use peacrab::types::message::{Address, ChatKind, Printed, Sender};
use peacrab::types::origin::TaskKind;
use rusqlite::Connection;
use tempfile::TempDir;

const ADA: &str = "1";

fn start() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 1, 10, 0, 0, 30).unwrap()
}

/// A store, its people, and a clock that is a value.
struct Scene {
    folder: TempDir,
    store: Store,
    inputs: PassInputs,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), &StoreOptions::default()).unwrap();
        let access = Access { owners: vec![ADA.to_owned()], ..Access::default() };
        let people = People::new([("home".into(), access)].into());
        let inputs = PassInputs {
            people,
            channels: ["home".into()].into(),
            commands: Some(Commands {
                sandbox: crate::sandbox::sandbox(),
                folder_roles: Default::default(),
                role: Role::Admin,
                time_max: std::time::Duration::from_secs(60),
                files_sandboxed: true,
                network: false,
            }),
            zone: chrono_tz::Tz::UTC,
            personas: Default::default(),
        };
        Self { folder, store, inputs }
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> T {
        self.store.write("test", Sync::Later, work).await.unwrap()
    }

    async fn add(&self, timing: Timing, payload: Payload, missed: Missed, now: DateTime<Utc>) {
        let to = Address { channel: "home".into(), chat: "1".into(), thread: None };
        let definition = JobDefinition {
            to,
            known_on: "home".into(),
            chat_kind: ChatKind::Private,
            sender: Sender::person(ADA, "Ada"),
            timing,
            payload,
            needs: Default::default(),
            missed,
            tainted: false,
        };
        let order = JobOperation::Add(Box::new(definition));
        let zone = chrono_tz::Tz::UTC;
        let handle = move |store: &_| schedule::handle(store, &JobScope::All, order, now, zone);
        self.write(handle).await.unwrap();
    }

    /// What the task does when it wakes up; gives when it would again.
    async fn pass(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let inputs = self.inputs.clone();
        self.write(move |store| pass(store, now, &inputs)).await.wake
    }

    /// What the agent loop does: each run that works ends so.
    async fn work(&self, ended: TaskOutcome, now: DateTime<Utc>) {
        self.write(move |store| {
            for job in 1..=20 {
                if let Some(run) = schedule::find_job_run(store, JobId(job))? {
                    schedule::settle(store, &run, ended, Some("it broke"), now)?;
                    peacrab::conversation::sessions::close(store, run.origin())?;
                }
            }
            Ok(())
        })
        .await;
    }

    /// What the task does with commands: those that are to begin are run, unless the power goes in their
    /// middle; those that had begun before are settled. Gives the runs whose commands were run.
    async fn run_commands(&self, cut: bool, now: DateTime<Utc>) -> Vec<i64> {
        let mut ran = Vec::new();
        let found = self.store.read(schedule::list_command_runs).await.unwrap();
        for CommandRun { run, began } in found {
            if began {
                let ended = TaskOutcome::Interrupted;
                self.write(move |it| schedule::settle(it, &run, ended, Some("cut off"), now)).await;
                continue;
            }
            let id = run.id;
            assert!(self.write(move |it| schedule::begin_command(it, id, now)).await);
            ran.push(id.0);
            if !cut {
                let printed =
                    Printed { text: format!("run {}", id.0), untrusted: false, webhook: None };
                let (came, zone) = (CommandResult::Printed(printed), chrono_tz::Tz::UTC);
                self.write(move |it| schedule::end_command(it, &run, came, now, zone)).await;
            }
        }
        ran
    }

    /// The power goes and comes back.
    fn power_cut(&mut self) {
        self.store = Store::open(self.folder.path(), &StoreOptions::default()).unwrap();
    }

    /// The runs that were claimed since one.
    async fn claimed_since(&self, id: i64) -> Vec<Claimed> {
        let claimed = move |store: &Connection| {
            let mut rows =
                store.prepare("SELECT id, job, due, details ->> 'late' FROM tasks WHERE kind = 'job' AND id > ? ORDER BY id")?;
            rows.query_map([id], |row| {
                let due = DateTime::from_timestamp_millis(row.get(2)?).unwrap();
                Ok(Claimed { id: row.get(0)?, job: row.get(1)?, due, late: row.get(3)? })
            })?
            .collect()
        };
        self.store.read(claimed).await.unwrap()
    }

    async fn rows(&self, sql: &'static str) -> Vec<String> {
        let rows = move |store: &Connection| {
            let mut rows = store.prepare(sql)?;
            rows.query_map([], |row| row.get(0))?.collect()
        };
        self.store.read(rows).await.unwrap()
    }
}

#[derive(Debug, PartialEq)]
struct Claimed {
    id: i64,
    job: i64,
    due: DateTime<Utc>,
    late: bool,
}

fn message(text: &str) -> Payload {
    Payload::Message(text.to_owned())
}

fn prompt(text: &str) -> Payload {
    Payload::Prompt {
        text: text.to_owned(),
        session: JobConversation::Own,
        check: None,
        webhook: None,
        unasked: PreapprovedCalls::default(),
    }
}

/// Every due time in a year has a run, or lies in a time without power that one run makes up for.
#[tokio::test]
async fn a_year_of_daily_power_cuts_leaves_no_due_time_unaccounted_for() {
    let mut scene = Scene::new();
    let zone = chrono_tz::Tz::Europe__Berlin;
    let cron = |fields: &str| Timing::Cron { fields: fields.to_owned(), zone };
    let timings = [
        cron("30 7 * * 1-5"),
        cron("30 2 * * *"),
        cron("0 */3 * * *"),
        Timing::Every { seconds: 5 * 3600, from: start() },
    ];
    for timing in &timings {
        scene.add(timing.clone(), message("x"), Missed::Once, start()).await;
    }
    scene.add(timings[2].clone(), prompt("y"), Missed::Skip, start()).await;
    let end = start() + Duration::days(365);
    let mut now = start();
    let mut dark: Vec<(DateTime<Utc>, DateTime<Utc>)> = Vec::new();
    let mut runs: Vec<Claimed> = Vec::new();
    let mut random = fastrand::Rng::with_seed(6);
    let mut next_cut = now + Duration::minutes(random.i64(60..2_000));
    while now < end {
        let wake = scene.pass(now).await;
        runs.extend(scene.claimed_since(runs.last().map_or(0, |run| run.id)).await);
        let wake = wake.unwrap();
        assert!(wake > now, "it would spin");
        // Sometimes the power goes in the middle of a run, which then ends after it.
        let cut = wake >= next_cut;
        if !cut || random.bool() {
            scene.work(TaskOutcome::Done, now).await;
        }
        if !cut {
            now = wake;
            continue;
        }
        let off = next_cut.max(now);
        now = off + Duration::minutes(random.i64(1..600));
        dark.push((off, now));
        next_cut = now + Duration::minutes(random.i64(60..2_000));
        scene.power_cut();
        scene.work(TaskOutcome::Done, now).await;
    }
    assert!(dark.len() > 200 && runs.len() > 3_000, "{} {}", dark.len(), runs.len());
    for (job, timing) in (1..).zip(&timings) {
        let mut claimed = runs.iter().filter(|run| run.job == job).peekable();
        let next = |at: &DateTime<Utc>| timing.next_after(*at).filter(|at| *at < end);
        for due in std::iter::successors(timing.next_after(start()), next) {
            let run = claimed.next_if(|run| run.due == due);
            let hours = dark.iter().find(|(off, on)| *off <= due && due <= *on);
            match (run, hours) {
                (Some(run), hours) => {
                    let was_late = hours.is_some_and(|(_, on)| *on - due > LATE_AFTER);
                    assert_eq!(run.late, was_late, "job {job} at {due}");
                }
                // One run stands for all that were missed, and it is the first of them.
                (None, Some((off, _))) => {
                    let first = timing.next_after(*off - Duration::seconds(1)).unwrap();
                    assert!(first < due, "job {job} was not run for {due}");
                }
                (None, None) => panic!("job {job} was not run at {due}"),
            }
        }
        assert_eq!(claimed.next(), None, "job {job} was run when it was not due, or twice");
    }
    let kept =
        scene.rows("SELECT CAST(count(*) AS TEXT) FROM tasks WHERE kind = 'job' AND job = 1").await;
    assert_eq!(kept, ["50"]);
    let skipped = scene
        .rows("SELECT DISTINCT state FROM tasks WHERE kind = 'job' AND job = 5 ORDER BY state")
        .await;
    assert_eq!(skipped, ["done", "skipped"]);
    let open = scene.rows("SELECT 'x' FROM sessions WHERE kind = 'job' AND closed IS NULL").await;
    assert!(open.is_empty());
}

#[tokio::test]
async fn what_was_promised_once_comes_once_and_says_when_it_is_late() {
    let scene = Scene::new();
    let in_time = start() + Duration::minutes(20);
    scene.add(Timing::At(in_time), message("tea"), Missed::Once, start()).await;
    let late = start() + Duration::hours(2);
    scene.add(Timing::At(late), message("coffee"), Missed::Skip, start()).await;
    assert_eq!(scene.pass(start()).await, Some(in_time));
    assert_eq!(scene.pass(in_time).await, Some(late));
    for _ in 0..3 {
        assert_eq!(scene.pass(late + Duration::days(3)).await, None);
    }
    let sent = scene.rows("SELECT json_extract(body, '$.text') FROM outbox ORDER BY id").await;
    assert_eq!(sent[0], "tea");
    assert!(sent[1].starts_with("(This was due ") && sent[1].ends_with("\ncoffee"), "{sent:?}");
    assert_eq!(sent.len(), 2);
    assert_eq!(scene.rows("SELECT state FROM jobs").await, ["done", "done"]);
}

#[tokio::test]
async fn a_clock_that_jumps_neither_repeats_nor_holds_up_a_job() {
    let scene = Scene::new();
    let zone = chrono_tz::Tz::UTC;
    let daily = Timing::Cron { fields: "0 8 * * *".to_owned(), zone };
    scene.add(daily, message("x"), Missed::Once, start()).await;
    let eight = Utc.with_ymd_and_hms(2026, 1, 10, 8, 0, 0).unwrap();
    let tomorrow = eight + Duration::days(1);
    let reckon = async |now| {
        scene.write(move |store| schedule::recompute_due_times(store, now)).await;
    };
    assert_eq!(scene.pass(eight).await, Some(tomorrow));
    // Set back by an hour: today's has been done.
    reckon(eight - Duration::hours(1)).await;
    assert_eq!(scene.pass(eight - Duration::hours(1)).await, Some(tomorrow));
    assert_eq!(scene.pass(eight).await, Some(tomorrow));
    // Forward by years, and back: tomorrow's was made up for, but what is due in that future is not
    // waited for.
    let future = eight + Duration::days(2_000);
    assert!(scene.pass(future).await.unwrap() > future);
    let after = tomorrow + Duration::days(1);
    reckon(tomorrow - Duration::hours(2)).await;
    assert_eq!(scene.pass(tomorrow).await, Some(after));
    assert_eq!(scene.pass(after).await, Some(after + Duration::days(1)));
    assert_eq!(
        scene.rows("SELECT state FROM tasks WHERE kind = 'job'").await,
        ["done", "done", "done"]
    );
}

#[tokio::test]
async fn failures_are_told_after_two_rest_longer_each_time_and_pause_after_ten() {
    let scene = Scene::new();
    scene
        .write(|store| {
            let owner = Address { channel: "home".into(), chat: "9".into(), thread: None };
            peacrab::people::set_owner_address(store, &owner, &ADA.into())
        })
        .await;
    let every = Timing::Every { seconds: 60, from: start() };
    scene.add(every, prompt("x"), Missed::Once, start()).await;
    let mut now = start();
    let mut rests = Vec::new();
    while let Some(wake) = scene.pass(now).await {
        rests.push((wake - now).num_minutes());
        now = wake;
        scene.pass(now).await;
        scene.work(TaskOutcome::Failed, now).await;
        assert!(rests.len() < 20);
    }
    assert_eq!(rests, [1, 1, 2, 4, 8, 16, 32, 64, 128, 256]);
    let told = scene.rows("SELECT chat || ' ' || json_extract(body, '$.text') FROM outbox").await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("9 Job 1 (x) has failed 2 times in a row: it broke"), "{told:?}");
    assert!(told[1].contains("so I paused it") && told[1].contains("/jobs resume 1"), "{told:?}");
    let handle = move |store: &_| {
        schedule::handle(
            store,
            &JobScope::All,
            JobOperation::Resume(JobId(1)),
            now,
            chrono_tz::Tz::UTC,
        )
    };
    assert!(scene.write(handle).await.unwrap().starts_with("Resumed: job 1, every 1m, next"));
    let wake = scene.pass(now).await.unwrap();
    scene.pass(wake).await;
    scene.work(TaskOutcome::Done, wake).await;
    assert_eq!(scene.rows("SELECT CAST(failures AS TEXT) FROM jobs").await, ["0"]);
}

#[tokio::test]
async fn at_most_four_runs_that_cost_something_work_at_once_and_messages_do_not_wait() {
    let scene = Scene::new();
    let due = start() + Duration::minutes(1);
    for _ in 0..6 {
        scene.add(Timing::At(due), prompt("x"), Missed::Once, start()).await;
    }
    scene.add(Timing::At(due), message("y"), Missed::Once, start()).await;
    scene.pass(due).await;
    let running = "SELECT state FROM tasks WHERE kind = 'job' AND state = 'running'";
    assert_eq!(scene.rows(running).await.len(), 4);
    assert_eq!(scene.rows("SELECT body FROM outbox").await.len(), 1);
    scene.work(TaskOutcome::Silent, due).await;
    scene.pass(due).await;
    assert_eq!(scene.rows(running).await.len(), 2);
}

#[tokio::test]
async fn jobs_of_people_who_were_shut_out_are_paused_and_the_owner_is_told() {
    let mut scene = Scene::new();
    scene
        .write(|store| {
            let owner = Address { channel: "home".into(), chat: "9".into(), thread: None };
            peacrab::people::set_owner_address(store, &owner, &ADA.into())
        })
        .await;
    let due = start() + Duration::minutes(1);
    scene.add(Timing::At(due), message("x"), Missed::Once, start()).await;
    scene.inputs.people = People::new([("home".into(), Access::default())].into());
    assert_eq!(scene.pass(due).await, None);
    assert_eq!(scene.rows("SELECT state FROM jobs").await, ["paused"]);
    let told = scene.rows("SELECT json_extract(body, '$.text') FROM outbox").await;
    assert!(told.len() == 1 && told[0].contains("belongs to Ada (id 1), who no longer has access"));
    // Where its channel is not, nothing happens at all.
    scene.write(|store| store.execute("UPDATE jobs SET state = 'active'", [])).await;
    scene.inputs.channels = BTreeSet::new();
    assert_eq!(scene.pass(due).await, None);
    assert_eq!(scene.rows("SELECT state FROM jobs").await, ["active"]);
}

#[tokio::test]
async fn old_jobs_and_the_conversations_of_their_runs_are_forgotten() {
    let scene = Scene::new();
    let due = start() + Duration::minutes(1);
    scene.add(Timing::At(due), prompt("x"), Missed::Once, start()).await;
    scene.pass(due).await;
    scene.work(TaskOutcome::Done, due).await;
    scene.write(|store| store.execute("UPDATE inbound SET state = 'done'", [])).await;
    let later = Utc::now() + Duration::days(1);
    while scene.write(move |store| tasks::prune(store, TaskKind::Job, later)).await > 0 {}
    for table in [
        "SELECT 'x' FROM jobs",
        "SELECT 'x' FROM tasks WHERE kind = 'job'",
        "SELECT 'x' FROM sessions",
    ] {
        assert!(scene.rows(table).await.is_empty(), "{table}");
    }
}

/// The same for commands: each due time has a run, each run's command is begun once, and of those in whose
/// middle the power went, that is told.
#[tokio::test]
async fn a_year_of_power_cuts_runs_no_command_twice_and_tells_of_each_that_was_cut_off() {
    let mut scene = Scene::new();
    let every = Timing::Every { seconds: 6 * 3600, from: start() };
    scene.add(every.clone(), Payload::Command("date".to_owned()), Missed::Once, start()).await;
    let checked = Payload::Prompt {
        text: "x".to_owned(),
        session: JobConversation::Own,
        check: Some("date".to_owned()),
        webhook: None,
        unasked: PreapprovedCalls::default(),
    };
    scene.add(every, checked, Missed::Once, start() + Duration::seconds(1)).await;
    let (mut now, end) = (start(), start() + Duration::days(365));
    let mut random = fastrand::Rng::with_seed(7);
    let (mut ran, mut cuts) = (Vec::new(), 0);
    let mut claimed = 0;
    while now < end {
        let wake = scene.pass(now).await.unwrap();
        let cut = random.u8(..) < 40;
        let begun = scene.run_commands(cut, now).await;
        cuts += if cut { begun.len() } else { 0 };
        ran.extend(begun);
        if cut {
            scene.power_cut();
            now += Duration::minutes(random.i64(1..600));
            assert!(scene.run_commands(false, now).await.is_empty(), "it was begun again");
        }
        scene.work(TaskOutcome::Done, now).await;
        claimed += scene.claimed_since(claimed).await.len() as i64;
        now = now.max(wake);
    }
    assert!(ran.len() > 2_000 && cuts > 100, "{} {cuts}", ran.len());
    let runs: BTreeSet<_> = ran.iter().copied().collect();
    assert!(runs.into_iter().eq(1..=ran.len() as i64), "one run, one command");
    assert_eq!(claimed, ran.len() as i64, "each that was claimed was run");
    let said = scene.rows("SELECT body FROM outbox WHERE body GLOB '*run [0-9]*'").await;
    let unlike = said.iter().collect::<BTreeSet<_>>().len();
    assert_eq!(unlike, said.len(), "an output was sent twice");
    // Every other one is handed to a model.
    assert!(said.len() > ran.len() / 3, "{} of {}", said.len(), ran.len());
    let told = "SELECT body FROM outbox WHERE body LIKE '%interrupted%' OR body LIKE '%in a row%'";
    let told = scene.rows(told).await.len();
    assert!(told > 0 && told <= cuts, "{told} of {cuts}");
    let left = scene.rows("SELECT state FROM tasks WHERE kind = 'job' AND state = 'running'").await;
    assert!(left.is_empty());
    let notes = scene.rows("SELECT CAST(count(*) AS TEXT) FROM turns WHERE noted = 1").await;
    assert_eq!(notes, [NOTES_MAX.to_string()], "notes of a silent conversation are bounded");
}
