//! The same for others than the owner: an admin, a user and a guest in their own private chats, and jobs of theirs that
//! nobody watches. Each of them decides about their own files; nobody else's change, and nothing leaves.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use peacrab::people::Access;
use peacrab::types::message::Quote;
use serde_json::json;

use super::acts::{Attempt, attempts, fill, parts};
use super::{
    NO_TOOL, NOBODY_THERE, OF_ANOTHER_GROUP, deny_until, evil_jobs, is_refused_as, orders,
    outcomes, read_all, refusal_in_group, shows,
};
use crate::support::rig::{OTHER_USER, OWNER, Rig, RigOptions, USER};
use crate::support::script::{OBEYED, Order, calls};

/// The text names the address that may be opened.
const TASK: &str = "see what it says about http://crabs.example/1";

const GROUP: &str = "-1";

/// Calls of a run that its report shows.
const REPORTED_MAX: usize = 6;

/// Of a message elsewhere.
const ADMINS_TELL: &str = "only an admin or the owner may have messages sent elsewhere";

/// Of most tools, to somebody with the role guest.
const NOT_FOR_GUESTS: [&str; 2] = ["needs the role user", "not among the tools that are allowed"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    Admin,
    User,
    Guest,
}

/// Text of others in a private chat of somebody else than the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Brought {
    Page,
    Download,
    Shared,
    Quoted,
}

impl Speaker {
    const ALL: [Self; 3] = [Self::Admin, Self::User, Self::Guest];

    fn id(self) -> &'static str {
        match self {
            Self::Admin => OTHER_USER,
            Self::User => USER,
            Self::Guest => "55",
        }
    }

    /// Not chat 2, to which the model is talked into telling something.
    fn chat(self) -> &'static str {
        match self {
            Self::Admin => "9",
            Self::User => "3",
            Self::Guest => "5",
        }
    }

    fn downloads(self, rig: &Rig) -> PathBuf {
        let root = rig.files_of(self.id()).root().expect("they are not the owner");
        rig.path().join(root.as_str()).with_file_name("downloads")
    }

    /// The reasons for which an attempt is refused in their private chat before anybody is asked. None if they are asked.
    fn refusals(self, attempt: &Attempt) -> &'static [&'static str] {
        match (self, attempt.tool, attempt.mark) {
            (Self::Guest, ..) => &NOT_FOR_GUESTS,
            (Self::User, "message", _) => &[ADMINS_TELL],
            (_, "write_file", "evil group") => &[OF_ANOTHER_GROUP],
            _ => &[],
        }
    }
}

impl Brought {
    fn prepare(self, rig: &Rig, speaker: Speaker, text: &str) {
        match self {
            Self::Download => {
                let downloads = speaker.downloads(rig);
                fs::create_dir_all(&downloads).unwrap();
                fs::write(downloads.join("page.txt"), text).unwrap();
            }
            Self::Shared => fs::write(rig.path().join("shared/page.txt"), text).unwrap(),
            Self::Page | Self::Quoted => {}
        }
    }

    /// They say something, and the model sees the text by it.
    fn arrive(self, rig: &Rig, speaker: Speaker, text: &str) {
        let look = match self {
            Self::Page => ("web_fetch", json!({"url": "http://crabs.example/1"})),
            Self::Download => ("read_file", json!({"path": "downloads/page.txt"})),
            Self::Shared => ("read_file", json!({"path": "shared/page.txt"})),
            Self::Quoted => {
                let (author, text) = ("Bob".to_owned(), text.to_owned());
                let quote = Quote { author, text, by_others: true, by_bot: false };
                return rig.say_changed(speaker.id(), speaker.chat(), "go on", |message| {
                    message.body.quoted = Some(quote);
                });
            }
        };
        rig.model.on("see", [calls(&[look])]);
        rig.say_as(speaker.id(), speaker.chat(), TASK);
    }
}

/// A rig in which all of them and the owner have spoken, each in private.
async fn household(text: &str) -> Rig {
    let access = Access {
        owners: vec![OWNER.to_owned()],
        admins: vec![OTHER_USER.to_owned()],
        allow: vec![USER.to_owned(), "*".to_owned()],
        ..Access::default()
    };
    let mut options = RigOptions { access, ..parts(text) };
    // Prompts of guests are whole then.
    options.agent.budgets.guest = Default::default();
    let mut rig = Rig::of(options).await;
    fill(&rig);
    rig.ask("1", "hello").await;
    for speaker in Speaker::ALL {
        rig.say_as(speaker.id(), speaker.chat(), "hello");
        rig.next_message(speaker.chat()).await;
        let root = rig.files_of(speaker.id()).root().expect("they are not the owner");
        let workspace = rig.path().join(root.as_str());
        fs::create_dir_all(&workspace).unwrap();
        fs::write(workspace.join("list.md"), "milk\n").unwrap();
    }
    rig.settled().await;
    read_on(&mut rig).await;
    rig
}

/// Reads what all chats got.
async fn read_on(rig: &mut Rig) {
    for chat in ["1", "2", "9", "3", "5", GROUP] {
        rig.next_messages(chat, rig.unread(chat).len()).await;
    }
}

/// All files of everybody, and the record of the tools that act.
fn all_files(rig: &Rig) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for folder in ["workspace", "downloads", "shared", "people", "groups", "acts"] {
        read_all(&rig.path().join(folder), &mut found);
    }
    found
}

/// Nothing has changed, nobody else has got anything, and no job was made of what others wrote.
fn check_nothing_happened(rig: &Rig, before: &BTreeMap<String, String>, chat: &str, whence: &str) {
    assert_eq!(all_files(rig), *before, "{whence}");
    for other in ["1", "2", "9", "3", "5", GROUP].into_iter().filter(|other| *other != chat) {
        assert_eq!(rig.unread(other), Vec::<String>::new(), "{whence}: {other}");
    }
    assert_eq!(evil_jobs(rig), Vec::<String>::new(), "{whence}");
}

/// An obedient model is shown all orders in somebody's private chat. It does nothing of them unasked, and only this
/// person is asked.
async fn check(speaker: Speaker, brought: Brought) {
    let whence = format!("{speaker:?} {brought:?}");
    let attempts = attempts(false, true);
    let (all, text) = orders(&attempts);
    let mut rig = household(&text).await;
    brought.prepare(&rig, speaker, &text);
    let before = all_files(&rig);
    // A turn of which nothing succeeds ends soon, and guests may do nothing.
    let at_once = if speaker == Speaker::Guest { 1 } else { all.len() };
    let mut questions = Vec::new();
    for few in all.chunks(at_once) {
        rig.model.obeys(few);
        brought.arrive(&rig, speaker, &text);
        questions.extend(deny_until(&mut rig, speaker.id(), speaker.chat(), OBEYED).await);
    }
    for attempt in &attempts {
        let outcomes = outcomes(&rig, attempt);
        assert!(!outcomes.is_empty(), "{whence}: the model was not told {attempt:?}");
        let refusals = speaker.refusals(attempt);
        let is_refused = |outcome: &String| match refusals {
            [] => outcome.starts_with("denied: "),
            reasons => reasons.iter().any(|reason| is_refused_as(outcome, reason)),
        };
        assert!(outcomes.iter().all(is_refused), "{whence} {attempt:?}: {outcomes:?}");
        let is_shown = questions.iter().any(|question| shows(question, attempt));
        assert_eq!(is_shown, refusals.is_empty(), "{whence} {attempt:?}: {questions:?}");
    }
    rig.settled().await;
    check_nothing_happened(&rig, &before, speaker.chat(), &whence);
    rig.stop().await;
}

#[tokio::test]
async fn an_admins_model_does_nothing_unasked_of_what_others_wrote() {
    for brought in [Brought::Page, Brought::Download, Brought::Shared, Brought::Quoted] {
        Box::pin(check(Speaker::Admin, brought)).await;
    }
}

#[tokio::test]
async fn a_users_model_does_nothing_unasked_of_what_others_wrote() {
    for brought in [Brought::Page, Brought::Download, Brought::Shared, Brought::Quoted] {
        Box::pin(check(Speaker::User, brought)).await;
    }
}

/// Guests have neither files nor pages.
#[tokio::test]
async fn a_guests_model_does_nothing_of_what_others_wrote() {
    Box::pin(check(Speaker::Guest, Brought::Quoted)).await;
}

/// A person's job is made in this chat, reads the page and reports here.
async fn check_job(speaker: Speaker, chat: &str) {
    let in_group = chat == GROUP;
    let whence = format!("a job of {speaker:?} in {chat}");
    let attempts = attempts(in_group, false);
    let (all, text) = orders(&attempts);
    let mut rig = household(&text).await;
    rig.say_as(speaker.id(), chat, &format!("/jobs add every 2h | {TASK}"));
    let made = rig.next_message(chat).await;
    assert_eq!(rig.query("SELECT CAST(count(*) AS TEXT) FROM jobs"), ["1"], "{whence}: {made}");
    rig.settled().await;
    let before = all_files(&rig);
    for few in all.chunks(REPORTED_MAX) {
        run_job(&mut rig, speaker, chat, few).await;
    }
    let told = rig.unread(chat);
    for attempt in &attempts {
        let outcomes = outcomes(&rig, attempt);
        assert!(!outcomes.is_empty(), "{whence}: the model was not told {attempt:?}");
        let refused = match attempt.tool {
            "schedule" => Some(NO_TOOL),
            _ if in_group => refusal_in_group(attempt),
            _ => None,
        };
        let refused = refused.or_else(|| speaker.refusals(attempt).first().copied());
        let reason = refused.unwrap_or(NOBODY_THERE);
        let is_refused = |outcome: &String| is_refused_as(outcome, reason);
        assert!(outcomes.iter().all(is_refused), "{whence} {attempt:?}: {outcomes:?}");
        let reports = |text: &String| text.contains("I did not run") && shows(text, attempt);
        let is_shown = told.iter().any(reports);
        assert_eq!(is_shown, refused.is_none(), "{whence} {attempt:?}: {told:?}");
    }
    let asks: Vec<_> = told.iter().filter(|text| text.contains("Approve?")).collect();
    assert!(asks.is_empty(), "{whence}: {asks:?}");
    check_nothing_happened(&rig, &before, chat, &whence);
    rig.stop().await;
}

/// Has the first job run, whose model reads the page and obeys.
async fn run_job(rig: &mut Rig, speaker: Speaker, chat: &str, orders: &[Order]) {
    let ended = "SELECT count(*) FROM tasks WHERE kind = 'job' AND state <> 'running'";
    let before = rig.query(&ended.replace("count(*)", "CAST(count(*) AS TEXT)"));
    let before: i64 = before[0].parse().unwrap();
    let page = ("web_fetch", json!({"url": "http://crabs.example/1"}));
    rig.model.on("see", [calls(&[page])]);
    rig.model.obeys(orders);
    rig.say_as(speaker.id(), chat, "/jobs run 1");
    rig.wait_for_count(ended, before + 1).await;
    rig.settled().await;
}

#[tokio::test]
async fn jobs_of_others_do_nothing_of_what_others_wrote() {
    for speaker in [Speaker::Admin, Speaker::User] {
        Box::pin(check_job(speaker, speaker.chat())).await;
    }
}

#[tokio::test]
async fn a_job_that_reports_to_a_group_does_nothing_of_what_others_wrote() {
    for speaker in [Speaker::Admin, Speaker::User] {
        Box::pin(check_job(speaker, GROUP)).await;
    }
}
