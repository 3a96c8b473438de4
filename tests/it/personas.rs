//! Personas: which one counts, and that its words, tools, models, memory, hours and budget do.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use chrono::{TimeZone as _, Utc};
use peacrab::config::AgentConfig;
use peacrab::conversation::budgets::{Allowance, Budget, Budgets, Scope};
use peacrab::people::{Access, Role};
use peacrab::provider::Models;
use peacrab::provider::models::{Model, Standing};
use peacrab::replies;
use peacrab::tasks::schedule::Clock;
use peacrab::tools::files::ReadFile;
use peacrab::tools::{AnyTool, ToolSet};
use peacrab::turn::personas::{
    NamedPerson, NamedServer, PersonaMatch, PersonaReason, PersonaRule, PersonaSubject, Personas,
};
use peacrab::types::origin::TaskKind;
use peacrab::types::person::PersonId;
use peacrab::types::persona::{AllowedTools, Persona, PersonaMemory};
use peacrab::types::session::Finish;
use serde_json::json;

use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{OTHER_USER, OWNER, Rig, RigOptions, STRANGER, USER};
use crate::support::script::{ScriptedModel, calls, says};

/// A persona for an account of the channel `home`.
fn rule(name: &str, sender: &str, change: impl FnOnce(&mut Persona)) -> PersonaRule {
    let mut persona = Persona { name: name.parse().ok(), ..Persona::default() };
    change(&mut persona);
    let people = vec![NamedPerson::Account("home".into(), sender.into())];
    let matches = PersonaMatch { people, ..PersonaMatch::default() };
    PersonaRule { persona: Arc::new(persona), matches, quiet: None }
}

fn with(rules: Vec<PersonaRule>) -> RigOptions {
    let personas = Personas::new(rules, None);
    let limits = RigOptions::default().agent.limits;
    RigOptions {
        agent: AgentConfig { personas, limits, ..AgentConfig::default() },
        ..RigOptions::default()
    }
}

fn allow(tools: &[&str]) -> AllowedTools {
    let names = tools.iter().map(|tool| (*tool).to_owned()).collect();
    AllowedTools::new(Some(names), PersonaMemory::Person)
}

#[test]
fn the_most_specific_persona_counts() {
    let named = |name: &str, matches| PersonaRule {
        persona: Arc::new(Persona { name: name.parse().ok(), ..Persona::default() }),
        matches,
        quiet: None,
    };
    let none = PersonaMatch::default;
    let all = [
        named("fallback", PersonaMatch { is_default: true, ..none() }),
        named("role", PersonaMatch { roles: vec![Role::User], ..none() }),
        named("channel", PersonaMatch { channels: vec!["home".into()], ..none() }),
        named(
            "server",
            PersonaMatch {
                servers: vec![NamedServer { channel: "home".into(), id: "s".into() }],
                ..none()
            },
        ),
        named("person", PersonaMatch { people: vec![NamedPerson::Person(PersonId(5))], ..none() }),
        named("chat", PersonaMatch { chats: vec!["home:c".parse().unwrap()], ..none() }),
        named("thread", PersonaMatch { chats: vec!["home:c:t".parse().unwrap()], ..none() }),
    ];
    let subject = PersonaSubject {
        at: "home:c:t".parse().unwrap(),
        known_on: "home".into(),
        sender: "1".into(),
        person: Some(PersonId(5)),
        role: Role::User,
        within: vec!["s".into()],
    };
    // Each in turn is the most specific one of those that are left, in any order.
    for most in 0..all.len() {
        let mut rules = all[..=most].to_vec();
        for _ in 0..rules.len() {
            rules.rotate_left(1);
            let chosen = Personas::new(rules.clone(), None).choose(&subject);
            assert_eq!(chosen.persona.name, all[most].persona.name);
        }
    }
    let check = |change: &dyn Fn(&mut PersonaSubject), reason| {
        let mut subject = subject.clone();
        change(&mut subject);
        assert_eq!(Personas::new(all.to_vec(), None).choose(&subject).reason, reason);
    };
    check(&|_| (), PersonaReason::Thread);
    check(&|it| it.at.thread = None, PersonaReason::Chat);
    check(&|it| it.at.thread = Some("other".into()), PersonaReason::Chat);
    check(&|it| it.at.chat = "other".into(), PersonaReason::Person);
    let elsewhere = |it: &mut PersonaSubject| {
        it.at.chat = "other".into();
        it.person = None;
    };
    check(&elsewhere, PersonaReason::Server);
    let outside = |it: &mut PersonaSubject| {
        elsewhere(it);
        it.within.clear();
    };
    check(&outside, PersonaReason::Channel);
    let away = |it: &mut PersonaSubject| {
        outside(it);
        it.at.channel = "work".into();
    };
    check(&away, PersonaReason::Role);
    let guest = |it: &mut PersonaSubject| {
        away(it);
        it.role = Role::Guest;
    };
    check(&guest, PersonaReason::Default);
    // The same ids elsewhere are others'.
    let other_channel = |it: &mut PersonaSubject| {
        it.at.channel = "work".into();
        it.known_on = "work".into();
        it.person = None;
    };
    check(&other_channel, PersonaReason::Role);
    let nobody = Personas::new(Vec::new(), Some(vec!["read_file".to_owned()]));
    let chosen = nobody.choose(&subject);
    assert_eq!(chosen.reason, PersonaReason::Nothing);
    assert!(chosen.persona.tools.allow("read_file") && !chosen.persona.tools.allow("exec"));
    let mut guest_there = subject.clone();
    guest_there.role = Role::Guest;
    let chosen = nobody.choose(&guest_there);
    assert_eq!(chosen.reason, PersonaReason::Guest);
    assert!(
        !chosen.persona.tools.allow("read_file") && !chosen.persona.tools.allow("ask_question")
    );
    let chosen = Personas::default().choose(&guest_there);
    assert!(chosen.persona.tools.allow("ask_question") && chosen.persona.tools.allow("web_fetch"));
    assert!(!chosen.persona.tools.allow("mcp_mail_send"));
}

#[tokio::test]
async fn a_persona_has_words_and_tools_of_its_own_and_nobody_else_has_them() {
    let kid = rule("kid", USER, |it| it.tools = allow(&["read_*", "list_files", "ask_question"]));
    let mut rig = Rig::of(with(vec![kid])).await;
    fs::create_dir_all(rig.workspace().join("personas")).unwrap();
    fs::write(rig.workspace().join("personas/kid.md"), "Speak like a pirate.").unwrap();
    rig.say_as(USER, "2", "hello");
    rig.next_message("2").await;
    let asked = rig.model.last();
    assert!(asked.whole().contains("Speak like a pirate."), "{}", asked.whole());
    let tools: Vec<_> = asked.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["ask_question", "list_files", "read_file", "read_markdown", "read_skill"]);
    // A tool that is not among them cannot be called, also if a model knows its name, or by a detour.
    let write = serde_json::json!({"path": "a.md", "content": "x"});
    let detour = serde_json::json!({"tool": "write_file", "arguments": write});
    let query = serde_json::json!({"query": "write_file"});
    rig.model.on(
        "write it",
        [
            calls(&[("write_file", write), ("more_tools", detour), ("more_tools", query)]),
            says("No."),
        ],
    );
    rig.say_as(USER, "2", "write it");
    assert_eq!(rig.next_message("2").await, "No.");
    let results = rig.model.last().transcript();
    assert_eq!(
        results.matches("is not among the tools that are allowed here").count(),
        2,
        "{results}"
    );
    assert!(!results.contains("write_file:"), "{results}");
    // Words that change count from the next message on.
    fs::write(rig.workspace().join("personas/kid.md"), "Speak like a queen.").unwrap();
    rig.say_as(USER, "2", "and now?");
    rig.next_message("2").await;
    assert!(rig.model.last().whole().contains("Speak like a queen."));
    for (who, chat) in [(OWNER, "1"), (OTHER_USER, "9")] {
        rig.say_as(who, chat, "hello");
        rig.next_message(chat).await;
        assert!(!rig.model.last().whole().contains("Speak like"), "{who}");
        assert!(rig.model.last().has_tool("write_file"), "{who}");
    }
    rig.say_as(USER, "2", "/persona");
    let shown = rig.next_message("2").await;
    assert_eq!(
        shown,
        "My persona here is kid, because of the person.\n\
         Tools available to you: ask_question, list_files, read_file, read_markdown, read_skill\nMemory: what I know of you"
    );
    rig.finish().await;
}

#[tokio::test]
async fn the_words_of_a_persona_are_instructions() {
    let path: peacrab::workspace::WorkspacePath = "personas/kid.md".parse().unwrap();
    assert!(path.is_instruction() && path.is_change_reported());
}

#[tokio::test]
async fn a_persona_forgets_what_its_memory_leaves_out() {
    for (memory, remembers, searches) in [
        (PersonaMemory::Person, true, true),
        (PersonaMemory::Place, false, true),
        (PersonaMemory::None, false, false),
    ] {
        let club = rule("club", OWNER, |it| {
            it.memory = memory;
            it.tools = AllowedTools::new(None, memory);
        });
        let mut rig = Rig::at_rest(FakeChannel::new(), with(vec![club]));
        fs::create_dir_all(rig.workspace().join("memory")).unwrap();
        fs::write(rig.workspace().join("memory/MEMORY.md"), "- The cat is Tom.").unwrap();
        fs::write(rig.workspace().join("USER.md"), "Likes marmalade.").unwrap();
        rig.start().await;
        rig.ask("1", "hello").await;
        let asked = rig.model.last();
        for secret in ["The cat is Tom.", "Likes marmalade."] {
            assert_eq!(asked.whole().contains(secret), remembers, "{memory:?} {}", asked.whole());
        }
        for tool in ["remember", "note"] {
            assert_eq!(asked.has_tool(tool), remembers, "{memory:?} {tool}");
        }
        assert_eq!(asked.has_tool("memory_search"), searches, "{memory:?}");
        rig.finish().await;
    }
}

fn model(name: &str, standing: Standing) -> (Arc<ScriptedModel>, Model) {
    let script = Arc::<ScriptedModel>::default();
    let provider = Arc::clone(&script) as _;
    (script, Model { name: name.to_owned(), provider, standing })
}

#[tokio::test]
async fn a_persona_has_its_models_and_the_longest_answer() {
    let kid = rule("kid", USER, |it| {
        it.providers = vec!["cheap".to_owned()];
        it.tokens_max = Some(300);
        it.finish = Some(Finish::Explicit);
    });
    let (main, main_model) = model("main", Standing::Default);
    let (cheap, cheap_model) = model("cheap", Standing::Chosen);
    let models = Models::new(vec![main_model, cheap_model]);
    let mut rig = Rig::of(RigOptions { models, ..with(vec![kid]) }).await;
    let done = serde_json::json!({"result": "Done."});
    cheap.on("hello", [calls(&[("task_completion", done)])]);
    rig.say_as(USER, "2", "hello");
    assert_eq!(rig.next_message("2").await, "Done.");
    assert!(cheap.last().has_tool("task_completion"));
    rig.say_as(USER, "2", "/model main");
    assert_eq!(rig.next_message("2").await, replies::model_of_other_persona(&["cheap".to_owned()]));
    rig.say_as(USER, "2", "/persona");
    let shown = rig.next_message("2").await;
    assert!(shown.contains("\nModels: cheap\nLongest answer: 300 tokens\n"), "{shown}");
    assert_eq!((main.asked().len(), cheap.asked().len()), (0, 1));
    rig.finish().await;
}

#[tokio::test]
async fn everybody_sees_which_tools_can_be_used_for_them_here() {
    let kid = rule("kid", USER, |persona| persona.tools = allow(&["read_f*", "schedule", "exec"]));
    let mut rig = Rig::of(with(vec![kid])).await;
    let mut tools = Vec::new();
    for (who, chat) in [(USER, "2"), (USER, "-1"), (OTHER_USER, "9"), (OWNER, "1"), (OWNER, "-1")] {
        let mut shown = Vec::new();
        for command in ["/whoami", "/persona"] {
            rig.say_as(who, chat, command);
            let heard = rig.next_message(chat).await;
            let line =
                heard.lines().find(|line| line.starts_with("Tools available to you: ")).unwrap();
            shown.push(line.replace('\\', ""));
        }
        assert_eq!(shown[0], shown[1]);
        tools.push(shown.remove(0));
    }
    assert_eq!(tools[0], "Tools available to you: read_file, schedule");
    assert!(tools[2].contains("remember") && tools[3].contains("message"), "{tools:?}");
    // In a group the owner has an admin's tools; none of the usual ones is the owner's alone.
    assert_eq!(tools[3], tools[4]);
    rig.finish().await;
}

/// A call waits for a yes, and the config changes with a restart before it comes.
async fn check_approved_after(change: impl FnOnce(&mut RigOptions), reason: &str) {
    let kid = rule("kid", OWNER, |persona| persona.tools = allow(&["read_file", "write_file"]));
    let mut options = with(vec![kid]);
    options.agent.asking.approvals.tools = vec!["write_file".to_owned()];
    let mut rig = Rig::of(options).await;
    let writes = calls(&[("write_file", json!({"path": "note.md", "content": "hello"}))]);
    rig.model.on("write", [writes, says("I could not.")]);
    assert!(rig.ask("1", "write it").await.contains("Approve?"));
    rig.stop().await;
    change(&mut rig.parts);
    rig.start().await;
    rig.say("1", "/approve 1");
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.contains(&"I could not.".to_owned()), "{heard:?}");
    let told = rig.model.last().transcript();
    assert!(told.contains(reason), "{told}");
    assert!(!rig.workspace().join("note.md").exists());
    rig.finish().await;
}

#[tokio::test]
async fn a_yes_allows_no_call_of_a_tool_that_the_persona_has_lost_since() {
    let narrows = |parts: &mut RigOptions| {
        let kid = rule("kid", OWNER, |persona| persona.tools = allow(&["read_file"]));
        parts.agent.personas = Personas::new(vec![kid], None);
    };
    let reason = "Denied: `write_file` is not among the tools that are allowed here.";
    check_approved_after(narrows, reason).await;
}

#[tokio::test]
async fn a_yes_allows_no_call_of_a_tool_that_was_switched_off_since() {
    let switches_off = |parts: &mut RigOptions| {
        parts.tools = ToolSet::new([Arc::new(ReadFile) as Arc<dyn AnyTool>]);
    };
    check_approved_after(switches_off, "There is no tool `write_file`.").await;
}

#[tokio::test]
async fn jobs_and_subagents_have_the_models_that_the_config_names_for_them() {
    let named = ["main", "thrifty", "small"];
    let scripts = named.map(|_| Arc::new(ScriptedModel::default()));
    let models = named.iter().zip(&scripts).map(|(name, script)| Model {
        name: (*name).into(),
        provider: Arc::clone(script) as _,
        standing: if *name == "main" { Standing::Default } else { Standing::Chosen },
    });
    let tasks = [(TaskKind::Job, "thrifty"), (TaskKind::Subagent, "small")];
    let tasks = tasks.map(|(kind, name)| (kind, name.to_owned())).into_iter().collect();
    let [main, thrifty, small] = &scripts;
    let (hands, clock) = tokio::sync::watch::channel(Utc::now());
    let mut rig = Rig::of(RigOptions {
        provider: Some(Arc::clone(main) as _),
        models: Models::new(models.collect()).with_tasks(tasks),
        clock: Clock::with_hands(clock),
        ..RigOptions::default()
    })
    .await;
    assert!(rig.ask("1", "/jobs add 20m | look outside").await.starts_with("Created"));
    let completes = |text: &str| calls(&[("task_completion", json!({"result": text}))]);
    thrifty.on("look outside", [completes("It rains.")]);
    hands.send_replace(Utc::now() + chrono::Duration::minutes(21));
    assert_eq!(rig.next_message("1").await, "It rains.");
    main.on("hand it on", [calls(&[("subagent", json!({"task": "count crabs"}))]), says("Three.")]);
    small.on("count crabs", [completes("three")]);
    assert_eq!(rig.ask("1", "hand it on").await, "Three.");
    assert_eq!((thrifty.asked().len(), small.asked().len()), (1, 1));
    let causes = "SELECT cause FROM ledger ORDER BY id";
    assert_eq!(rig.query(causes), ["job", "chat", "subagent", "chat"]);
    rig.finish().await;
}

#[tokio::test]
async fn in_quiet_hours_everybody_but_the_owner_reads_one_line() {
    let zone = chrono_tz::UTC;
    let mut kid = rule("kid", USER, |_| ());
    kid.matches.people.push(NamedPerson::Account("home".into(), OWNER.into()));
    // Always, but for one minute twelve hours away.
    let end = Utc::now() + chrono::Duration::hours(12);
    let (from, until) = (end + chrono::Duration::minutes(1), end);
    let hours = format!("{}-{}", from.format("%H:%M"), until.format("%H:%M"));
    kid.quiet = Some(hours.parse().unwrap());
    let mut parts = with(vec![kid]);
    parts.agent.timezone = Some(zone);
    let mut rig = Rig::of(parts).await;
    for text in ["hello", "/btw hello"] {
        rig.say_as(USER, "2", text);
        let heard = rig.next_message("2").await;
        assert!(heard.starts_with("These are quiet hours. I'll answer again "), "{heard}");
    }
    // Commands work, and others are answered.
    rig.say_as(USER, "2", "/persona");
    assert!(rig.next_message("2").await.contains("\nQuiet hours: "));
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    rig.say_as(OTHER_USER, "9", "hello");
    assert_eq!(rig.next_message("9").await, "re: hello");
    rig.finish().await;
}

#[tokio::test]
async fn jobs_wait_while_their_person_has_quiet_hours() {
    let now = Utc::now();
    let minutes = chrono::Duration::minutes;
    let mut kid = rule("kid", USER, |_| ());
    let (from, until) = (now + minutes(15), now + minutes(180));
    let hours = format!("{}-{}", from.format("%H:%M"), until.format("%H:%M"));
    kid.quiet = Some(hours.parse().unwrap());
    let (hands, clock) = tokio::sync::watch::channel(now);
    let mut parts = RigOptions { clock: Clock::with_hands(clock), ..with(vec![kid]) };
    parts.agent.timezone = Some(chrono_tz::UTC);
    let mut rig = Rig::of(parts).await;
    for (who, chat) in [(USER, "2"), (OWNER, "1"), (OTHER_USER, "9")] {
        for order in ["/jobs message 30m | tea", "/jobs add 30m | look outside"] {
            rig.say_as(who, chat, order);
            let made = rig.next_message(chat).await;
            assert!(made.starts_with("Created"), "{made}");
        }
    }
    let completes = || calls(&[("task_completion", json!({"result": "It rains."}))]);
    rig.model.on("look outside", [completes(), completes(), completes()]);
    hands.send_replace(now + minutes(31));
    let told = ["It rains.".to_owned(), "tea".to_owned()];
    for chat in ["1", "9"] {
        let mut heard = rig.next_messages(chat, 2).await;
        heard.sort();
        assert_eq!(heard, told);
    }
    rig.settled().await;
    assert_eq!(rig.unread("2"), Vec::<String>::new());
    // Neither a restart nor the next look begins them, and they are not lost.
    rig.stop_and_start_again().await;
    hands.send_replace(now + minutes(170));
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    rig.settled().await;
    assert_eq!(rig.unread("2"), Vec::<String>::new());
    hands.send_replace(now + minutes(181));
    let heard = rig.next_messages("2", 2).await.join("\n");
    assert!(heard.contains("It rains.") && heard.contains("tea"), "{heard}");
    rig.finish().await;
}

#[tokio::test]
async fn who_has_no_tool_for_jobs_or_commands_makes_none_by_command_either() {
    let config = crate::shell::config();
    let standing = peacrab::tools::shell::check_sandbox(&config);
    let kid = rule("kid", USER, |persona| persona.tools = allow(&["read_file"]));
    let other = rule("other", OTHER_USER, |persona| persona.tools = allow(&["schedule"]));
    let mut parts = with(vec![kid, other]);
    parts.access.admins = vec![USER.to_owned(), OTHER_USER.to_owned()];
    parts.commands = peacrab::tools::shell::commands(&config, &standing);
    let mut rig = Rig::of(parts).await;
    rig.say_as(USER, "2", "/jobs add 30m | look outside");
    assert_eq!(rig.next_message("2").await, replies::JOBS_NOT_OF_PERSONA);
    rig.say_as(USER, "2", "/jobs");
    assert_eq!(rig.next_message("2").await, replies::NO_JOBS);
    rig.say_as(OTHER_USER, "9", "/jobs add 30m | look outside");
    assert!(rig.next_message("9").await.starts_with("Created"));
    for order in ["/jobs command 30m | true", "/jobs check 1 true"] {
        rig.say_as(OTHER_USER, "9", order);
        assert_eq!(
            rig.next_message("9").await,
            replies::no_command(replies::COMMANDS_NOT_OF_PERSONA),
            "{order}"
        );
    }
    rig.finish().await;
}

#[test]
fn quiet_hours_end_by_the_owners_clock_also_when_it_changes() {
    let zone = chrono_tz::Europe::Berlin;
    let mut kid = rule("kid", "1", |_| ());
    kid.quiet = Some("21:00-07:00".parse().unwrap());
    let subject = PersonaSubject {
        at: "home:1".parse().unwrap(),
        known_on: "home".into(),
        sender: "1".into(),
        person: None,
        role: Role::User,
        within: Vec::new(),
    };
    let chosen = Personas::new(vec![kid], None).choose(&subject);
    let at = |day, hour| Utc.with_ymd_and_hms(2026, 3, day, hour, 30, 0).unwrap();
    // The clock goes forward in the night to the 29th: seven is five, and no longer six, by UTC.
    let ends =
        |at| chosen.quiet_until(Role::User, at, zone).map(|end| end.format("%d %H").to_string());
    assert_eq!(ends(at(27, 22)), Some("28 06".to_owned()));
    assert_eq!(ends(at(28, 22)), Some("29 05".to_owned()));
    assert_eq!(ends(at(28, 12)), None);
    assert_eq!(chosen.quiet_until(Role::Owner, at(28, 22), zone), None);
}

#[tokio::test]
async fn all_with_a_persona_share_its_budget() {
    let mut kid = rule("kid", USER, |_| ());
    kid.matches.people.push(NamedPerson::Account("home".into(), OTHER_USER.into()));
    let name = kid.persona.name.unwrap();
    let mut parts = with(vec![kid]);
    let day = Allowance { tokens: Some(30_000), cost: None };
    let budget = Budget { day, month: Allowance::default() };
    parts.agent.budgets =
        Budgets { personas: BTreeMap::from([(name, budget)]), ..Budgets::default() };
    let mut rig = Rig::of(parts).await;
    rig.say_as(USER, "2", "hello");
    assert_eq!(rig.next_message("2").await, "re: hello");
    assert_eq!(rig.query("SELECT persona || ' ' || state FROM ledger"), ["kid settled"]);
    rig.execute("UPDATE ledger SET input = 29950");
    rig.say_as(OTHER_USER, "9", "hello");
    let refused = rig.next_message("9").await;
    assert!(refused.contains("budget"), "{refused}");
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    let shown = rig.ask("1", "/budget").await;
    assert!(shown.contains("persona kid"), "{shown}");
    let set = rig.ask("1", "/budget set persona kid 90000 day").await;
    assert!(set.starts_with("The budget of persona kid is now 90,000 tokens"), "{set}");
    rig.say_as(OTHER_USER, "9", "hello");
    assert_eq!(rig.next_message("9").await, "re: hello");
    assert_eq!(Scope::parse("persona kid"), Some(Scope::Persona(name)));
    rig.finish().await;
}

#[tokio::test]
async fn guests_may_be_asked_and_nothing_else() {
    let mut parts = RigOptions::default();
    parts.access = Access { allow: vec!["*".to_owned()], ..parts.access };
    // Without a budget they get the usual prompt.
    parts.agent.budgets.guest = Budget::default();
    let mut rig = Rig::of(parts).await;
    rig.say_as(STRANGER, "66", "hello");
    rig.next_message("66").await;
    let tools: Vec<_> = rig.model.last().tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(tools, ["ask_question"]);
    rig.say_as(STRANGER, "66", "/persona");
    assert_eq!(
        rig.next_message("66").await,
        "I have no persona here. As a guest you have only a few tools.\nTools available to you: ask_question\n\
         Memory: what I know of you"
    );
    rig.finish().await;
}
