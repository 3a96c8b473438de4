//! The table of chat commands. It is the source for parsing, the controls that bypass the queue, the platforms' menus,
//! `/help`, the roles that may use a command, and docs/commands.md.

mod mistyped;
mod table;

use std::fmt;

pub use mistyped::{MistypedCommand, mistyped};
pub use table::COMMANDS;

use super::message::ChatKind;
use super::role::Role;

/// Identifies a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandId {
    Stop,
    New,
    Incognito,
    Clean,
    Trust,
    Compact,
    Sessions,
    Resume,
    Remember,
    Memory,
    Forget,
    Status,
    WhoAmI,
    Persona,
    Actions,
    Undo,
    Why,
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
    Budget,
    Web,
    Approve,
    Deny,
    Restart,
    Activation,
    People,
    Link,
    Unlink,
    Pair,
    Help,
}

/// One row of the table.
#[derive(Debug)]
pub struct CommandSpec {
    pub id: CommandId,
    /// The name without the slash.
    pub name: &'static str,
    /// Other accepted names, which no menu or help text lists.
    pub aliases: &'static [&'static str],
    /// The words that may follow, as the docs write them; empty if nothing follows.
    pub arguments: &'static str,
    /// The description in the platforms' menus, at most 100 characters (Discord, application command
    /// structure); none if the menus leave the command out.
    pub menu: Option<&'static str>,
    pub help: HelpLine,
    /// The description in docs/commands.md.
    pub details: &'static str,
    pub allowed: CommandRoles,
    pub runs: CommandTiming,
}

/// The line of a command in `/help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelpLine {
    /// Its name, its arguments, and its description in the menus.
    FromMenu,
    Own(&'static str),
    /// The line of another command covers this one.
    None,
}

/// When a command is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandTiming {
    /// At once, also while turns run: a control.
    AtOnce,
    /// As a turn, which waits like any message.
    AsTurn,
}

/// The least roles that may use a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRoles {
    pub in_private: Role,
    /// None if the command works in private only.
    pub in_groups: Option<Role>,
}

impl CommandRoles {
    const EVERYBODY: Self = Self::from(Role::Guest);
    /// A group's conversation belongs to all its members.
    const ADMINS_IN_GROUPS: Self = Self { in_groups: Some(Role::Admin), ..Self::EVERYBODY };
    /// To change a setting; everybody may look at it.
    const SETTINGS: Self = Self { in_private: Role::User, in_groups: Some(Role::Admin) };
    const PRIVATE: Self = Self { in_groups: None, ..Self::EVERYBODY };
    const OWNER_IN_PRIVATE: Self = Self { in_private: Role::Owner, in_groups: None };

    const fn from(role: Role) -> Self {
        Self { in_private: role, in_groups: Some(role) }
    }
}

impl CommandSpec {
    /// Returns the line in `/help`. None if another command's line covers this one.
    pub fn help_line(&self) -> Option<String> {
        match self.help {
            HelpLine::Own(line) => Some(line.to_owned()),
            HelpLine::FromMenu => {
                let mut description = self.menu?.chars();
                let first = description.next()?.to_lowercase();
                Some(format!("{} – {first}{}", self.id.line(self.arguments), description.as_str()))
            }
            HelpLine::None => None,
        }
    }

    /// Returns true if a person with this role may use the command in this kind of chat.
    pub fn allows(&self, role: Role, chat_kind: ChatKind) -> bool {
        match chat_kind {
            ChatKind::Private => role >= self.allowed.in_private,
            ChatKind::Group => self.allowed.in_groups.is_some_and(|least| role >= least),
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

    /// Returns the command as a person writes it, with its slash and its arguments, if there are any.
    pub fn line(self, arguments: impl fmt::Display) -> String {
        format!("/{} {arguments}", self.spec().name).trim_end().to_owned()
    }
}

/// Returns the command that a text begins with.
pub fn find(text: &str) -> Option<&'static CommandSpec> {
    let word = text.split_whitespace().next()?;
    COMMANDS.iter().find(|spec| spec.is_named(word))
}

/// Returns true if a text begins with a command that is carried out at once, and so never waits behind turns. An unknown
/// command counts as one: no model is needed to explain it.
pub fn is_control(text: &str) -> bool {
    is_known_control(text) || mistyped(text).is_some()
}

/// Returns true if a text begins with a command that exists and is carried out at once.
pub fn is_known_control(text: &str) -> bool {
    find(text).is_some_and(|spec| spec.runs == CommandTiming::AtOnce)
}

/// Returns the commands whose names begin with the text, each with its slash. Empty if the text is longer than a name.
pub fn completions(prefix: &str) -> Vec<String> {
    let Some(prefix) = prefix.strip_prefix('/') else { return Vec::new() };
    let matching = COMMANDS.iter().filter(|spec| spec.name.starts_with(prefix));
    matching.map(|spec| format!("/{} ", spec.name)).collect()
}

/// The commands that platforms list, with their descriptions.
pub fn menu() -> impl Iterator<Item = (&'static CommandSpec, &'static str)> {
    COMMANDS.iter().filter_map(|spec| Some((spec, spec.menu?)))
}
