//! Whatever people say, in which order they get roles, are linked, parted, blocked and removed: nobody comes to see what
//! another person said in private. Stories are made at random; each private word carries a mark, and each prompt and each
//! message is searched for the marks of others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use peacrab::conversation::asks::OnUntrusted;
use peacrab::people::Access;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::json;

use crate::support::effort;
use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{OWNER, Rig, RigOptions};
use crate::support::script::{Reply, calls, says};

/// Stories that are told for each change; `PROPTEST_CASES` sets another number.
const STORIES: u32 = 4;

/// The number that proptest uses without that variable.
const PROPTEST_CASES: u32 = 256;

const STEPS_MAX: usize = 14;

/// An account with its private chat.
struct Account {
    channel: &'static str,
    id: &'static str,
    chat: &'static str,
}

/// The owner, and three who are let in as guests, two of them on the same channel.
const ACCOUNTS: [Account; 4] = [
    Account { channel: "home", id: OWNER, chat: "1" },
    Account { channel: "home", id: "21", chat: "c21" },
    Account { channel: "home", id: "22", chat: "c22" },
    Account { channel: "work", id: "23", chat: "c23" },
];

const GROUP: &str = "-1";

/// Ways to say something, and to have it kept.
#[derive(Clone, Copy, Debug)]
enum Telling {
    Say,
    Remember,
    Note,
    Write,
    Fact,
    Job,
}

#[derive(Clone, Debug)]
enum Step {
    Tell(usize, Telling),
    /// Looks at everything that can be asked for.
    Look {
        who: usize,
        in_group: bool,
    },
    New(usize),
    Role(usize, &'static str),
    Block(usize),
    Unblock(usize),
    Remove(usize, bool),
    Link(usize, usize),
    Unlink(usize),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let anybody = || 0..ACCOUNTS.len();
    let others = || 1..ACCOUNTS.len();
    let telling = prop::sample::select(vec![
        Telling::Say,
        Telling::Remember,
        Telling::Note,
        Telling::Write,
        Telling::Fact,
        Telling::Job,
    ]);
    let step = prop_oneof![
        6 => (anybody(), telling).prop_map(|(who, how)| Step::Tell(who, how)),
        4 => (anybody(), any::<bool>()).prop_map(|(who, in_group)| Step::Look { who, in_group }),
        1 => anybody().prop_map(Step::New),
        3 => (others(), prop::sample::select(vec!["guest", "user", "admin"]))
            .prop_map(|(who, role)| Step::Role(who, role)),
        1 => others().prop_map(Step::Block),
        1 => others().prop_map(Step::Unblock),
        2 => (others(), any::<bool>()).prop_map(|(who, purge)| Step::Remove(who, purge)),
        3 => (anybody(), anybody()).prop_map(|(one, other)| Step::Link(one, other)),
        2 => anybody().prop_map(Step::Unlink),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..STEPS_MAX)
}

#[test]
fn nobody_comes_to_see_what_another_person_said_in_private() {
    let cases = match Config::default().cases {
        PROPTEST_CASES => STORIES,
        // A night's number is for properties without a daemon.
        wanted => effort::times(wanted, effort::cases(STORIES)),
    };
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 60, ..Config::default() };
    let told = TestRunner::new(config).run(&steps(), |steps| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Box::pin(tell(&steps))).map_err(TestCaseError::fail)
    });
    if let Err(error) = told {
        panic!("{error}");
    }
}

#[tokio::test]
async fn a_removed_account_that_is_linked_again_brings_nothing_of_its_past() {
    let story = [Step::Tell(1, Telling::Remember), Step::Remove(1, false), Step::Link(0, 1)];
    Box::pin(tell(&story)).await.unwrap();
    let purged = [Step::Tell(1, Telling::Write), Step::Remove(1, true), Step::Link(0, 1)];
    Box::pin(tell(&purged)).await.unwrap();
}

/// Tells a story, and lets everybody look around at its end.
async fn tell(steps: &[Step]) -> Result<(), String> {
    let mut world = World::new().await;
    for step in steps {
        world.take(step).await.map_err(|leak| format!("{step:?}: {leak}"))?;
    }
    for who in 0..ACCOUNTS.len() {
        for in_group in [false, true] {
            let look = Step::Look { who, in_group };
            world.take(&look).await.map_err(|leak| format!("at the end, {look:?}: {leak}"))?;
        }
    }
    world.rig.stop().await;
    Ok(())
}

struct World {
    rig: Rig,
    work: Arc<FakeChannel>,
    /// By number, the accounts whose persons may see a mark.
    marks: Vec<BTreeSet<usize>>,
    /// Number of prompts, and of each channel's messages, that were read.
    prompts: usize,
    read: [usize; 2],
    looks: usize,
}

impl World {
    async fn new() -> Self {
        let access = Access {
            owners: vec![OWNER.to_owned()],
            allow: vec!["*".to_owned()],
            ..Access::default()
        };
        let work = Arc::new(FakeChannel::with(true, 1_000_000));
        let channels = vec![("work", Arc::clone(&work))];
        let mut parts = RigOptions { access, channels, ..RigOptions::default() };
        // Prompts of guests are whole then.
        parts.agent.budgets.guest = Default::default();
        // Nobody is asked anything, whatever was read.
        parts.agent.asking.untrusted = OnUntrusted::Allow;
        let rig = Rig::with(FakeChannel::with(true, 1_000_000), parts).await;
        Self { rig, work, marks: Vec::new(), prompts: 0, read: [0, 0], looks: 0 }
    }

    /// The mark of a text. The word before it is what is searched for.
    fn mark(number: usize) -> String {
        format!("quokka tale{number}x")
    }

    /// An account says something, and all that comes of it is searched.
    async fn say(&mut self, who: usize, in_group: bool, text: &str) -> Result<(), String> {
        let Account { channel, id, chat } = ACCOUNTS[who];
        let chat = if in_group { GROUP } else { chat };
        if channel == "home" {
            self.rig.say_as(id, chat, text);
        } else {
            super::say_at_work(&self.work, id, chat, text);
        }
        self.settle().await;
        let prompts = self.rig.model.asked();
        for prompt in &prompts[self.prompts..] {
            self.search(&prompt.whole(), (!in_group).then_some(who), "a prompt")?;
        }
        self.prompts = prompts.len();
        self.search_messages()
    }

    async fn settle(&mut self) {
        let work = Arc::clone(&self.work);
        self.rig.wait_until(|_| work.unaccepted() == 0).await;
        self.rig.settled().await;
        self.rig.wait_for_count("SELECT count(*) FROM folder_orders", 0).await;
    }

    /// Searches the new messages of all chats.
    fn search_messages(&mut self) -> Result<(), String> {
        for (at, fake_channel) in
            [Arc::clone(&self.rig.home), Arc::clone(&self.work)].iter().enumerate()
        {
            let got = fake_channel.got();
            let got = got.borrow();
            for message in &got[self.read[at]..] {
                let reader = ACCOUNTS.iter().position(|account| account.chat == message.chat);
                self.search(&message.text, reader, "a message")?;
            }
            self.read[at] = got.len();
        }
        Ok(())
    }

    /// Fails if a text has a mark that its reader, or a group, may not see.
    fn search(&self, text: &str, reader: Option<usize>, what: &str) -> Result<(), String> {
        for (number, allowed) in self.marks.iter().enumerate() {
            let may_see = reader.is_some_and(|reader| allowed.contains(&reader));
            if !may_see && text.contains(&format!("tale{number}x")) {
                let reader = reader.map_or(GROUP, |reader| ACCOUNTS[reader].id);
                return Err(format!("{reader} sees mark {number} in {what}:\n{text}"));
            }
        }
        Ok(())
    }

    /// The person of each account that is somebody's.
    fn persons(&self) -> BTreeMap<usize, String> {
        let person = |(at, account): (usize, &Account)| {
            let sql = format!(
                "SELECT 'p' || person FROM accounts WHERE channel = '{}' AND sender = '{}'",
                account.channel, account.id
            );
            Some((at, self.rig.query(&sql).pop()?))
        };
        ACCOUNTS.iter().enumerate().filter_map(person).collect()
    }

    /// The accounts of the same person.
    fn same(&self, who: usize) -> BTreeSet<usize> {
        let persons = self.persons();
        let same = |other: &usize| *other == who || persons.get(other) == persons.get(&who);
        persons.keys().copied().filter(same).chain([who]).collect()
    }

    async fn take(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Tell(who, how) => self.tell(who, how).await,
            Step::Look { who, in_group } => self.look(who, in_group).await,
            Step::New(who) => self.say(who, false, "/new").await,
            Step::Role(who, role) => self.order(who, role).await,
            Step::Block(who) => self.order(who, "block").await,
            Step::Unblock(who) => self.order(who, "unblock").await,
            Step::Remove(who, purges) => self.remove(who, purges).await,
            Step::Link(one, other) => self.link(one, other).await,
            Step::Unlink(who) => self.say(who, false, "/unlink").await,
            Step::Restart => {
                self.rig.stop_and_start_again().await;
                Ok(())
            }
        }
    }

    async fn tell(&mut self, who: usize, how: Telling) -> Result<(), String> {
        let number = self.marks.len();
        let text = Self::mark(number);
        let mut allowed = self.same(who);
        if matches!(how, Telling::Job) {
            // The owner pays for all jobs, and sees them.
            allowed.extend(self.same(0));
        }
        self.marks.push(allowed);
        let words = match how {
            Telling::Fact => format!("/remember {text}"),
            Telling::Job => format!("/jobs add every 2h | {text}"),
            _ => format!("keep it: {text}"),
        };
        let kept = match how {
            Telling::Remember => vec![("remember", json!({"text": text}))],
            Telling::Note => vec![("note", json!({"text": text}))],
            Telling::Write => vec![("write_file", json!({"path": "list.md", "content": text}))],
            Telling::Say | Telling::Fact | Telling::Job => Vec::new(),
        };
        if !kept.is_empty() {
            self.rig.model.on(&text, [calls(&kept), says("Kept.")]);
        }
        self.say(who, false, &words).await
    }

    /// Has the model look at all there is, and asks for all that commands list.
    async fn look(&mut self, who: usize, in_group: bool) -> Result<(), String> {
        self.looks += 1;
        let words = format!("look around, the {}. time", self.looks);
        self.rig.model.on(&words, looks(&self.persons()));
        self.say(who, in_group, &words).await?;
        let id = ACCOUNTS[who].id;
        let others = super::isolation::calls_of_others(&self.rig, id);
        let newest = others.iter().rev().take(4);
        let numbered = newest.flat_map(|it| [format!("/why {it}"), format!("/undo {it}")]);
        let numbered: Vec<_> = numbered.collect();
        let commands =
            ["/actions 50", "/jobs", "/memory", "/approve", "/why", "/plan", "/persona", "/people"];
        for command in commands.into_iter().chain(numbered.iter().map(String::as_str)) {
            self.say(who, in_group, command).await?;
        }
        Ok(())
    }

    /// The owner orders something about a person.
    async fn order(&mut self, who: usize, verb: &str) -> Result<(), String> {
        match self.persons().get(&who) {
            Some(person) => {
                let words = format!("/people {verb} {person}");
                self.say(0, false, &words).await
            }
            None => Ok(()),
        }
    }

    /// Whoever returns afterwards is somebody else.
    async fn remove(&mut self, who: usize, purges: bool) -> Result<(), String> {
        let theirs = self.same(who);
        let verb = if purges { "purge" } else { "remove" };
        let before = self.persons().get(&who).cloned();
        self.order(who, verb).await?;
        if before.is_some() && self.persons().get(&who) != before.as_ref() {
            self.marks.iter_mut().for_each(|allowed| allowed.retain(|it| !theirs.contains(it)));
        }
        Ok(())
    }

    /// Makes two accounts one person's, if they may be.
    async fn link(&mut self, one: usize, other: usize) -> Result<(), String> {
        self.say(one, false, "/link").await?;
        let codes = "SELECT code FROM links WHERE other_sender IS NULL ORDER BY made DESC LIMIT 1";
        let Some(code) = self.rig.query(codes).pop() else { return Ok(()) };
        self.say(other, false, &format!("/link {code}")).await?;
        // Only the account with the higher role can confirm it.
        for who in [one, other] {
            self.say(who, false, &format!("/link yes {code}")).await?;
        }
        let same = self.same(one);
        for allowed in &mut self.marks {
            if !allowed.is_disjoint(&same) {
                allowed.extend(&same);
            }
        }
        Ok(())
    }
}

/// Calls that look at everything a model can ask for.
fn looks(persons: &BTreeMap<usize, String>) -> [Reply; 2] {
    let mut looks = vec![
        ("list_files", json!({"depth": 8})),
        ("list_files", json!({"path": "downloads"})),
        ("memory_search", json!({"query": "quokka"})),
        ("list_actions", json!({"limit": 50})),
        ("list_proposals", json!({})),
        ("schedule", json!({"action": "list"})),
    ];
    let own = ["list.md", "memory/MEMORY.md"].map(str::to_owned);
    let below = persons.values().flat_map(|person| {
        ["workspace/list.md", "workspace/memory/MEMORY.md"].map(|file| {
            [format!("people/{person}/{file}"), format!("downloads/from-{person}/{file}")]
        })
    });
    let archived = persons.values().map(|it| format!("people/archive/{it}/workspace/list.md"));
    let paths = own.into_iter().chain(below.flatten()).chain(archived);
    looks.extend(paths.map(|path| ("read_file", json!({"path": path}))));
    [calls(&looks), says("Seen.")]
}
