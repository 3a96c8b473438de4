//! An ordinary week of a household: an owner and two children with lists, notes, a git repository, recipes from pages,
//! photos, mail and reminders; five jobs, two of them at night, and a heartbeat. It asks at most twice a day, and never
//! at night. Commands have no network, as by default, so the repository of notes is committed to and not pushed: a push
//! would be asked about each time.

use std::fs;

use chrono::{DateTime, Duration, Timelike as _, Utc};
use chrono_tz::Tz;
use peacrab::config::AgentConfig;
use peacrab::replies;
use peacrab::tasks::schedule::Clock;
use serde_json::json;
use tokio::sync::watch;

use super::ordinary::{
    Asker, Begin, OWNER_HERE, Task, append, fetch, is_question, later, parts, questions_of, run,
    task, write,
};
use crate::support::fake_channel::{FetchBehavior, ReceivedMessage};
use crate::support::rig::{OTHER_USER, Rig, RigOptions, USER};
use crate::support::script::calls;

const DAYS: i64 = 7;

/// The hours of a day after eight in the morning.
const EVENING: i64 = 11;
const NIGHT: i64 = 20;

const CHILDREN: [Asker; 2] = [Asker { who: USER, chat: "2" }, Asker { who: OTHER_USER, chat: "3" }];

const CHATS: [&str; 3] = ["1", "2", "3"];

/// A household whose clock a test sets, and the runs that it has seen.
struct Household {
    rig: Rig,
    hands: watch::Sender<DateTime<Utc>>,
    begun: DateTime<Utc>,
    jobs: i64,
    heartbeats: i64,
    questions: usize,
}

/// A zone in which it is eight in the morning.
fn zone(now: DateTime<Utc>) -> Tz {
    let ahead = 8 - i64::from(now.hour());
    let ahead = if ahead < -12 { ahead + 24 } else { ahead };
    // These names count westwards.
    format!("Etc/GMT{:+}", -ahead).parse().unwrap()
}

impl Household {
    async fn new() -> Self {
        let begun = Utc::now();
        let (hands, clock) = watch::channel(begun);
        let parts = parts();
        let agent = AgentConfig { timezone: Some(zone(begun)), ..parts.agent };
        let rig = Rig::of(RigOptions { agent, clock: Clock::with_hands(clock), ..parts }).await;
        fs::write(rig.workspace().join("list.md"), "# List\nmilk\n").unwrap();
        let photo = b"\xff\xd8\xff\xe0 crab".to_vec();
        rig.home.has_file("jpeg", (0..DAYS).map(|_| FetchBehavior::Bytes(photo.clone())));
        Self { rig, hands, begun, jobs: 0, heartbeats: 0, questions: 0 }
    }

    /// Sets the clock, and waits for the jobs and heartbeats that are due.
    async fn at(&mut self, hours: i64, jobs: i64, heartbeats: i64) {
        self.hands.send_replace(self.begun + Duration::hours(hours));
        (self.jobs, self.heartbeats) = (self.jobs + jobs, self.heartbeats + heartbeats);
        for (kind, runs) in [("job", self.jobs), ("heartbeat", self.heartbeats)] {
            let ended = "SELECT count(*) FROM tasks WHERE state <> 'running' AND kind =";
            self.rig.wait_for_count(&format!("{ended} '{kind}'"), runs).await;
        }
        self.quiet().await;
    }

    /// Reads what has arrived, once nothing is left to do.
    async fn quiet(&mut self) {
        self.rig.settled().await;
        for chat in CHATS {
            self.rig.next_messages(chat, self.rig.unread(chat).len()).await;
        }
    }

    /// Has tasks done one after another, all of which somebody wanted.
    async fn do_all(&mut self, asker: Asker, tasks: &[Task]) {
        for task in tasks {
            questions_of(&mut self.rig, asker, task).await;
            self.quiet().await;
        }
    }

    /// Returns the questions since it was last asked.
    fn new_questions(&mut self) -> Vec<String> {
        let got = self.rig.home.got();
        let all: Vec<_> =
            got.borrow().iter().filter(|it| asks(it)).map(|it| it.text.clone()).collect();
        let new = all[self.questions..].to_vec();
        self.questions = all.len();
        new
    }
}

/// Returns true for a message that wants something decided: a call, or whether a call of a run is made now. A message that
/// only offers to undo what was kept does not.
fn asks(message: &ReceivedMessage) -> bool {
    let has_choices = message.choices.iter().any(|label| label != replies::UNDO_IT);
    has_choices || is_question(&message.text)
}

fn five_jobs() -> Task {
    let jobs = vec![
        later("cron: 0 7 * * *", "look at the tide", "prompt"),
        later("cron: 0 12 * * *", "Feed the crab.", "message"),
        later("cron: 0 17 * * *", "read http://crabs.example/1", "prompt"),
        later("cron: 0 3 * * *", "sum up the mail", "prompt"),
        later("cron: 30 3 * * *", "rm -f log.txt", "command"),
    ];
    task("do this each day", jobs)
}

/// In a conversation without anything of others.
fn morning() -> Vec<Task> {
    let commits = "test -d repo || git init -q repo; cp list.md repo/; git -C repo add -A; \
                   git -C repo -c user.name=Ada -c user.email=a@crabs.example commit -qm list";
    vec![
        task("put eggs on the list", vec![append("list.md", "eggs\n")]),
        task("note that Ada called", vec![("note", json!({"text": "Ada called."}))]),
        task("commit the list", vec![run(commits)]),
        task("what did we say of tea", vec![("memory_search", json!({"query": "tea"}))]),
    ]
}

fn reminder() -> Task {
    let arguments = later("in 20 minutes", "Take the bins out.", "message");
    task("remind me in 20 minutes. Take the bins out.", vec![arguments])
}

/// Of the owner, in the same conversation.
fn evening() -> Vec<Task> {
    vec![
        task("what is in my mail", vec![("mcp_crabs", json!({}))]),
        Task { begin: Begin::Sends("jpeg"), ..task("what is on this photo", vec![]) },
        task(
            "see http://crabs.example/1 and put on the list:\nleeks",
            vec![fetch(), append("list.md", "leeks\n")],
        ),
        task(
            "keep the recipe of http://crabs.example/1",
            vec![fetch(), write("notes/soup.md", "Soup.")],
        ),
        reminder(),
    ]
}

/// Of a child, from a page.
fn homework() -> Vec<Task> {
    vec![
        task("put a pen on my list", vec![append("list.md", "pen\n")]),
        task("what says http://crabs.example/1", vec![fetch()]),
        reminder(),
    ]
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the questions are read by people")]
async fn an_ordinary_week_asks_at_most_twice_a_day_and_never_at_night() {
    let mut house = Household::new().await;
    let days = usize::try_from(DAYS).unwrap();
    let ends = |words: &str| calls(&[("task_completion", json!({"result": words}))]);
    let model = &house.rig.model;
    model.on("look at the tide", (1..days).map(|_| ends("Low.")));
    model.on("Is the tide high?", (1..2 * days).map(|_| ends("Nothing.")));
    let reads = |tool: &str, arguments| calls(&[(tool, arguments)]);
    let news = || reads("web_fetch", json!({"url": "http://crabs.example/1"}));
    let of_news = (0..days).flat_map(|_| [news(), ends("Crabs.")]);
    model.on("read http://crabs.example/1", of_news);
    let of_mail = (0..days).flat_map(|_| [reads("mcp_crabs", json!({})), ends("No mail.")]);
    model.on("sum up the mail", of_mail);
    let mut asked = Vec::new();
    for day in 0..DAYS {
        let begins = 24 * day;
        if day > 0 {
            house.at(begins, 1, 1).await;
        }
        for chat in CHATS {
            let who =
                CHILDREN.iter().find(|it| it.chat == chat).map_or(OWNER_HERE.who, |it| it.who);
            house.rig.say_as(who, chat, "/new");
            house.rig.next_message(chat).await;
        }
        if day == 0 {
            house.do_all(OWNER_HERE, &[five_jobs()]).await;
            let tasks = "- [ ] Is the tide high?\n";
            fs::write(house.rig.workspace().join("HEARTBEAT.md"), tasks).unwrap();
        }
        house.do_all(OWNER_HERE, &morning()).await;
        assert_eq!(house.new_questions(), Vec::<String>::new(), "the morning of day {day}");
        house.at(begins + EVENING, 2, 1).await;
        for child in CHILDREN {
            house.do_all(child, &homework()).await;
        }
        house.do_all(OWNER_HERE, &evening()).await;
        let questions = house.new_questions();
        // Two jobs, and three reminders.
        house.at(begins + NIGHT, 5, 0).await;
        assert_eq!(house.new_questions(), Vec::<String>::new(), "the night of day {day}");
        println!("day {day}: {} questions {questions:?}", questions.len());
        asked.push(questions.len());
    }
    assert!(asked.iter().all(|questions| *questions <= 2), "{asked:?}");
    let failed = "SELECT tool || ' ' || output FROM calls WHERE state <> 'done'";
    assert_eq!(house.rig.query(failed), Vec::<String>::new());
    house.rig.finish().await;
}
