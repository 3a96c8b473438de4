//! The table of chat commands. Parsing, the controls that bypass the queue, the menus of the platforms, `/help`,
//! the roles that may use a command, and docs/commands.md are made from it.

use super::message::Place;
use super::role::Role;

/// A command, by what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandId {
    Stop,
    New,
    Compact,
    Status,
    WhoAmI,
    Actions,
    Undo,
    Plan,
    Subagents,
    Jobs,
    Heartbeat,
    Proposals,
    Model,
    Think,
    Queue,
    Btw,
    Skills,
    Skill,
    Usage,
    Approve,
    Deny,
    Restart,
    Pair,
    Help,
}

/// One row of the table.
#[derive(Debug)]
pub struct CommandSpec {
    pub id: CommandId,
    /// The name without the slash.
    pub name: &'static str,
    /// Other names that work too and are listed nowhere.
    pub aliases: &'static [&'static str],
    /// The words that may follow, as the docs write them; empty if nothing follows.
    pub arguments: &'static str,
    /// The description in the platforms' menus, at most 100 characters (Discord, application command
    /// structure); none if the menus leave the command out.
    pub menu: Option<&'static str>,
    /// The line in `/help`; none if the line of another command covers this one.
    pub help: Option<&'static str>,
    /// The description in docs/commands.md.
    pub details: &'static str,
    pub allowed: Allowed,
    pub runs: Runs,
}

/// When a command is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// At once, also while turns run: a control.
    AtOnce,
    /// As a turn, which waits like any message.
    AsTurn,
}

/// The least roles that may use a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    pub in_private: Role,
    /// None if the command works in private only.
    pub in_groups: Option<Role>,
}

impl Allowed {
    const EVERYBODY: Self = Self::from(Role::Guest);
    /// A group's conversation belongs to all its members.
    const ADMINS_IN_GROUPS: Self = Self { in_groups: Some(Role::Admin), ..Self::EVERYBODY };
    /// To change a setting; everybody may look at it.
    const SETTINGS: Self = Self { in_private: Role::User, in_groups: Some(Role::Admin) };
    const OWNER_IN_PRIVATE: Self = Self { in_private: Role::Owner, in_groups: None };

    const fn from(role: Role) -> Self {
        Self { in_private: role, in_groups: Some(role) }
    }
}

impl CommandSpec {
    /// Returns true if a person with this role may use the command in this kind of chat.
    pub fn allows(&self, role: Role, place: Place) -> bool {
        match place {
            Place::Private => role >= self.allowed.in_private,
            Place::Group => self.allowed.in_groups.is_some_and(|least| role >= least),
        }
    }

    /// Returns true if the word is the command's name, with its slash, in upper or lower case.
    fn is_named(&self, word: &str) -> bool {
        let names = self.aliases.iter().chain([&self.name]);
        word.strip_prefix('/')
            .is_some_and(|word| names.into_iter().any(|name| name.eq_ignore_ascii_case(word)))
    }
}

impl CommandId {
    /// Returns the command's row.
    pub fn spec(self) -> &'static CommandSpec {
        COMMANDS.iter().find(|spec| spec.id == self).expect("each command has a row")
    }
}

/// Returns the command that a text begins with.
pub fn find(text: &str) -> Option<&'static CommandSpec> {
    let word = text.split_whitespace().next()?;
    COMMANDS.iter().find(|spec| spec.is_named(word))
}

/// Returns true if a text begins with a command that is carried out at once and never waits behind turns; or is one that
/// does not exist, which needs no model to be explained.
pub fn is_control(text: &str) -> bool {
    names_control(text) || mistyped(text).is_some()
}

/// Returns true if a text begins with a command that exists and is carried out at once.
pub fn names_control(text: &str) -> bool {
    find(text).is_some_and(|spec| spec.runs == Runs::AtOnce)
}

/// A command that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistyped {
    /// As it was typed, with its slash.
    pub typed: String,
    /// The command that is nearly the same, if there is one.
    pub meant: Option<&'static str>,
}

/// Returns the command that a text seems to begin with, if there is none of that name. A text that goes on behind a word
/// that is like no command is none: `/tmp is full`.
pub fn mistyped(text: &str) -> Option<Mistyped> {
    let mut words = text.split_whitespace();
    let typed = words.next()?;
    let name = typed.strip_prefix('/')?;
    let is_name = name.len() <= NAME_BYTES_MAX
        && name.starts_with(|sign: char| sign.is_ascii_alphabetic())
        && name.chars().all(|sign| sign.is_ascii_alphanumeric() || matches!(sign, '_' | '-'));
    if !is_name || find(typed).is_some() {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let names = COMMANDS.iter().flat_map(|spec| spec.aliases.iter().chain([&spec.name]));
    let alike = names.map(|known| (strsim::normalized_damerau_levenshtein(&name, known), *known));
    let best = alike.max_by(|one, other| one.0.total_cmp(&other.0));
    let meant = best.filter(|(likeness, _)| *likeness >= ALIKE).map(|(_, known)| known);
    (meant.is_some() || words.next().is_none()).then(|| Mistyped { typed: typed.to_owned(), meant })
}

/// A command's name in a chat (Telegram's Bot API, BotCommand).
const NAME_BYTES_MAX: usize = 32;

/// Of [`strsim::normalized_damerau_levenshtein`]: one slip in a short name, two in a longer one.
const ALIKE: f64 = 0.7;

/// Returns the commands whose names begin like the text, each with its slash; none if the text has gone beyond a name.
pub fn completions(begun: &str) -> Vec<String> {
    let Some(begun) = begun.strip_prefix('/') else { return Vec::new() };
    let named = COMMANDS.iter().filter(|spec| spec.name.starts_with(begun));
    named.map(|spec| format!("/{} ", spec.name)).collect()
}

/// Returns the commands that platforms list, with their descriptions.
pub fn menu() -> impl Iterator<Item = (&'static CommandSpec, &'static str)> {
    COMMANDS.iter().filter_map(|spec| Some((spec, spec.menu?)))
}

/// All commands, in the order in which menus, help and docs list them.
pub const COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        id: CommandId::Stop,
        name: "stop",
        aliases: &[],
        arguments: "",
        menu: Some("Stop my current work here"),
        help: Some("/stop – stop my current work here"),
        details: "Ends the running turn and drops the waiting messages. In a group, you can end your own turn; admins can end any.",
        allowed: Allowed::EVERYBODY,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::New,
        name: "new",
        aliases: &[],
        arguments: "",
        menu: Some("Start a new conversation (the old one is saved)"),
        help: Some("/new – start a new conversation (the old one is saved)"),
        details: "Closes this conversation and starts a new one. The old one is saved.",
        allowed: Allowed::ADMINS_IN_GROUPS,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Compact,
        name: "compact",
        aliases: &[],
        arguments: "[what matters]",
        menu: Some("Summarise our conversation, to make room for more"),
        help: Some("/compact [what matters] – summarise our conversation, to make room for more"),
        details: "Summarises the conversation so far, to make room in the model's context window. The answer comes when it is done.",
        allowed: Allowed::ADMINS_IN_GROUPS,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Status,
        name: "status",
        aliases: &[],
        arguments: "",
        menu: Some("Show my state"),
        help: Some("/status – show my state"),
        details: "Shows what the bot is doing here, and how full the model's context window is.",
        allowed: Allowed::EVERYBODY,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::WhoAmI,
        name: "whoami",
        aliases: &[],
        arguments: "",
        menu: Some("Show your id and role"),
        help: Some("/whoami – show your id and role"),
        details: "Shows your id and role.",
        allowed: Allowed::EVERYBODY,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Actions,
        name: "actions",
        aliases: &[],
        arguments: "[n]",
        menu: Some("Show my last actions here"),
        help: Some("/actions [n] – show my last actions here"),
        details: "Lists the last actions; 10 of them if you give no number.",
        allowed: Allowed::EVERYBODY,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Undo,
        name: "undo",
        aliases: &[],
        arguments: "[number]",
        menu: Some("Undo my last file change, or the one with this number"),
        help: Some("/undo [number] – undo my last file change, or the one with this number"),
        details: "Undoes the last change of a file, or the action with that number.",
        allowed: Allowed::from(Role::User),
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Plan,
        name: "plan",
        aliases: &[],
        arguments: "",
        menu: Some("Show my plan"),
        help: Some("/plan – show my plan"),
        details: "Shows the plan of this conversation.",
        allowed: Allowed::EVERYBODY,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Subagents,
        name: "subagents",
        aliases: &[],
        arguments: "",
        menu: Some("List the subagents here"),
        help: Some("/subagents – list the subagents here"),
        details: "Lists the subagents of this conversation, with their tasks and states.",
        allowed: Allowed::EVERYBODY,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Jobs,
        name: "jobs",
        aliases: &[],
        arguments: "[verb] [number]",
        menu: Some("List jobs; show, run, pause, resume, rm, history and a number"),
        help: Some("/jobs – list jobs; /jobs run, pause, resume, rm NUMBER; /jobs add WHEN | WHAT"),
        details: "Lists and changes jobs; the verbs are below.",
        allowed: Allowed::from(Role::User),
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Heartbeat,
        name: "heartbeat",
        aliases: &[],
        arguments: "[on, off or now]",
        menu: Some("Show the heartbeat, or set it: on, off, now (owner)"),
        help: Some("/heartbeat – show the heartbeat; /heartbeat on, off, now (owner)"),
        details: "Shows the heartbeat and its last runs, turns it on or off, or runs it now.",
        allowed: Allowed::OWNER_IN_PRIVATE,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Proposals,
        name: "proposals",
        aliases: &[],
        arguments: "",
        menu: Some("List my suggestions here"),
        help: Some("/proposals – list my suggestions here"),
        details: "Lists the suggestions of this conversation. Each came with a button for yes and one for no.",
        allowed: Allowed::EVERYBODY,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Model,
        name: "model",
        aliases: &[],
        arguments: "[NAME or default]",
        menu: Some("Show or choose the model that answers here"),
        help: Some("/model – show the models; /model NAME chooses one"),
        details: "Lists the models. With a name, that model answers in this conversation, and the others are its fallbacks. Everybody can see the list.",
        allowed: Allowed::SETTINGS,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Think,
        name: "think",
        aliases: &[],
        arguments: "[off, low, medium, high, default, show or hide]",
        menu: Some("Set how much the model thinks: off, low, medium, high, default; show, hide"),
        help: Some("/think – set how much the model thinks, and if you see it"),
        details: "Sets how much the model thinks in this conversation, and shows or hides its thinking above its answers, as far as the provider reveals it. Everybody can see the setting.",
        allowed: Allowed::SETTINGS,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Queue,
        name: "queue",
        aliases: &[],
        arguments: "[steer, followup, collect, interrupt or default]",
        menu: Some(
            "Set how I handle new messages while I work: steer, followup, collect, interrupt",
        ),
        help: Some("/queue – set how I handle new messages while I work"),
        details: "Sets how the bot handles messages that you send while it works for you in this conversation. [People and groups](people-and-groups.md) explains the modes. Everybody can see the setting.",
        allowed: Allowed::SETTINGS,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Btw,
        name: "btw",
        aliases: &[],
        arguments: "QUESTION",
        menu: Some("Ask a side question, even while I work"),
        help: Some("/btw QUESTION – ask a side question, even while I work"),
        details: "Answers a side question, even while a turn runs. The model sees the conversation. The question and the answer are not added to it.",
        allowed: Allowed::EVERYBODY,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Skills,
        name: "skills",
        aliases: &[],
        arguments: "",
        menu: Some("List my skills"),
        help: Some("/skills – list my skills; /skill NAME uses one"),
        details: "Lists the skills, and why some of them cannot be used.",
        allowed: Allowed::EVERYBODY,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Skill,
        name: "skill",
        aliases: &[],
        arguments: "NAME [what to do]",
        menu: Some("Use one of my skills"),
        help: None,
        details: "Starts a turn with a skill. It waits its turn, like any message.",
        allowed: Allowed::EVERYBODY,
        runs: Runs::AsTurn,
    },
    CommandSpec {
        id: CommandId::Usage,
        name: "usage",
        aliases: &[],
        arguments: "",
        menu: Some("Show my token usage (owner and admins)"),
        help: Some("/usage – show my token usage (owner and admins)"),
        details: "Shows the tokens used today and in 30 days, by provider.",
        allowed: Allowed::from(Role::Admin),
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Approve,
        name: "approve",
        aliases: &[],
        arguments: "[number] [always]",
        menu: Some("List requests for approval; with a number, approve one (owner and admins)"),
        help: Some("/approve, /deny – decide on my requests for approval (owner and admins)"),
        details: "Lists the calls that wait for approval. With a number, approves that call; with `always`, later calls of that tool too.",
        allowed: Allowed::from(Role::Admin),
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Deny,
        name: "deny",
        aliases: &[],
        arguments: "number or TOOL",
        menu: Some("Refuse the request with this number (owner and admins)"),
        help: None,
        details: "Refuses the call with that number. With a tool's name, ends an `always`: the bot asks again before each call of that tool.",
        allowed: Allowed::from(Role::Admin),
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Restart,
        name: "restart",
        aliases: &[],
        arguments: "",
        menu: Some("Restart me (owner)"),
        help: Some("/restart – restart me (owner)"),
        details: "Ends the daemon so that systemd starts it again, and reports back here. Elsewhere the bot answers that it cannot.",
        allowed: Allowed::from(Role::Owner),
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Pair,
        name: "pair",
        aliases: &[],
        arguments: "[list, approve CODE, deny CODE or revoke CHANNEL ID]",
        menu: None,
        help: Some("/pair – manage who can talk to me (owner)"),
        details: "Lists, approves and removes the people who can talk to the bot.",
        allowed: Allowed::OWNER_IN_PRIVATE,
        runs: Runs::AtOnce,
    },
    CommandSpec {
        id: CommandId::Help,
        name: "help",
        aliases: &["start"],
        arguments: "",
        menu: Some("List my commands"),
        help: Some("/help – show this list"),
        details: "Lists the commands.",
        allowed: Allowed::EVERYBODY,
        runs: Runs::AtOnce,
    },
];
