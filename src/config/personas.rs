//! `[personas.NAME]`: how the bot is with some people or in some places.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::reading::NamedSection;
use crate::conversation::budgets::Budget;
use crate::people::Role;
use crate::tasks::heartbeat::QuietHours;
use crate::turn::personas::{NamedPerson, NamedServer, PersonaMatch, PersonaRule};
use crate::types::message::Address;
use crate::types::person::PersonId;
use crate::types::persona::{AllowedTools, Persona, PersonaMemory, PersonaName};
use crate::types::session::Finish;

use super::money::{BudgetSection, Dollars, TOKENS_MOST};
use super::reading::ConfigSource;
use super::values::{At, Flag, Text, Within};

/// A persona: how the bot is with some people or in some places, and what it may use there. You choose
/// the name. Its words are the file `personas/NAME.md` in the workspace, which is added to the
/// instructions. The most specific persona counts: that of the thread, else of the chat, the person, the
/// server, the channel, the role, else the default one. /persona shows which, and why. A persona gives
/// nobody a tool that their role does not have.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PersonaSection {
    /// Chats and threads, as CHANNEL:CHAT or CHANNEL:CHAT:THREAD. Default: none.
    chats: Vec<At<String>>,
    /// People: p5 (with all accounts; /people shows the numbers) or CHANNEL:ID. Default: none.
    people: Vec<At<String>>,
    /// Servers and workspaces with all their chats, as CHANNEL:ID. Default: none.
    servers: Vec<At<String>>,
    /// Channels, by name. Default: none.
    channels: Vec<At<String>>,
    /// Roles: guest, user, admin, owner. Default: none.
    roles: Vec<At<Role>>,
    /// If true, it counts where no other persona does.
    default: Flag<false>,
    /// The tools that it may call, by name: ["read_file", "web_*"]. `web_*` stands for every tool whose
    /// name begins with web_. Default: all.
    tools: Option<Vec<String>>,
    /// Providers, by name: the first one answers, and /model can choose only among them. They need not be
    /// in [agent] providers, which step in if one fails. Default: as [agent] says.
    providers: Option<At<Vec<At<String>>>>,
    /// The longest answer, in tokens. 0: no limit.
    tokens_max: Within<0, 100_000>,
    /// The end of a turn: answer | explicit, as in [agent]. Default: that of [agent].
    finish: Option<Finish>,
    /// Its memory: person (all of the person) | place (only what was said in the chat) | none
    /// (only the conversation that goes on).
    memory: PersonaMemory,
    /// Quiet hours by the owner's clock, such as "21:00-07:00": nobody but the owner is answered then,
    /// and jobs of these people wait until they end. Default: none.
    quiet: Option<At<Text<String>>>,
    /// A budget for all who have this persona together: tokens in a day, as in [budgets.NAME]. 0: no
    /// limit.
    tokens_per_day: Option<Within<0, TOKENS_MOST>>,
    /// Tokens in a month. 0: no limit.
    tokens_per_month: Option<Within<0, TOKENS_MOST>>,
    /// Dollars in a day. 0: no limit.
    dollars_per_day: Option<Dollars>,
    /// Dollars in a month. 0: no limit.
    dollars_per_month: Option<Dollars>,
}

/// The personas of a file.
pub(super) struct ReadPersonas {
    pub(super) rules: Vec<PersonaRule>,
    pub(super) budgets: BTreeMap<PersonaName, Budget>,
}

/// Reads the personas, whose providers and channels must be among these.
pub(super) fn personas(
    source: &ConfigSource<'_>,
    sections: BTreeMap<String, PersonaSection>,
    providers: &[&str],
    channels: &[&str],
) -> ReadPersonas {
    let mut read = ReadPersonas { rules: Vec::new(), budgets: BTreeMap::new() };
    // The targets of earlier personas.
    let mut taken = BTreeSet::new();
    for NamedSection { name, place, read: section } in source.named("personas", sections) {
        // Its fault is reported already.
        let Ok(name) = name.parse::<PersonaName>() else { continue };
        let matches = section.matches(source, channels, &mut taken);
        if matches == PersonaMatch::default() {
            place.fault(format!(
                "{} is for nobody: name chats, people, servers, channels or roles, or set `default = true`",
                place.title()
            ));
        }
        if section.default.0 && !taken.insert("default".to_owned()) {
            place.fault(format!("{} is not the only default", place.title()));
        }
        let order = |names: &At<Vec<At<String>>>| source.order(names, "provider", providers);
        let quiet = |text: &At<Text<String>>| {
            let wanted = "must be two times of the day, such as \"21:00-07:00\"";
            text.value.0.parse::<QuietHours>().map_err(|()| source.refuse(text, wanted)).ok()
        };
        let quiet = section.quiet.as_ref().and_then(quiet);
        let providers = section.providers.as_ref().map(order).unwrap_or_default();
        let budget = section.budget().over(Budget::default());
        if budget != Budget::default() {
            read.budgets.insert(name, budget);
        }
        let persona = Persona {
            name: Some(name),
            tools: AllowedTools::new(section.tools, section.memory),
            providers,
            tokens_max: Some(section.tokens_max.0).filter(|most| *most > 0),
            finish: section.finish,
            memory: section.memory,
        };
        read.rules.push(PersonaRule { persona: Arc::new(persona), matches, quiet });
    }
    read
}

impl PersonaSection {
    fn budget(&self) -> BudgetSection {
        BudgetSection {
            tokens_per_day: self.tokens_per_day,
            tokens_per_month: self.tokens_per_month,
            dollars_per_day: self.dollars_per_day,
            dollars_per_month: self.dollars_per_month,
        }
    }

    fn matches(
        &self,
        source: &ConfigSource<'_>,
        channels: &[&str],
        taken: &mut BTreeSet<String>,
    ) -> PersonaMatch {
        let mut is_new = |kind: &str, value: &At<String>| {
            let is_new = taken.insert(format!("{kind} {}", value.value));
            if !is_new {
                source.refuse(value, "is named by another persona, too");
            }
            is_new
        };
        let is_known = |value: &At<String>, channel: &str| {
            let is_known = channels.contains(&channel);
            if !is_known {
                source.refuse(value, format!("names the channel {channel}, which does not exist"));
            }
            is_known
        };
        let mut matches = PersonaMatch { is_default: self.default.0, ..PersonaMatch::default() };
        for value in self.chats.iter().filter(|value| is_new("chat", value)) {
            match value.value.parse::<Address>() {
                Ok(at) if is_known(value, at.channel.as_str()) => matches.chats.push(at),
                Ok(_) => {}
                Err(_) => source.refuse(value, "must be CHANNEL:CHAT or CHANNEL:CHAT:THREAD"),
            }
        }
        for value in self.people.iter().filter(|value| is_new("person", value)) {
            let person = match (PersonId::parse(&value.value), value.value.split_once(':')) {
                (Some(person), _) => Some(NamedPerson::Person(person)),
                (None, Some((channel, id))) => is_known(value, channel)
                    .then(|| NamedPerson::Account(channel.into(), id.into())),
                (None, None) => {
                    source.refuse(value, "must be a number such as p5, or CHANNEL:ID");
                    None
                }
            };
            matches.people.extend(person);
        }
        for value in self.servers.iter().filter(|value| is_new("server", value)) {
            match value.value.split_once(':') {
                Some((channel, id)) if is_known(value, channel) => {
                    matches.servers.push(NamedServer { channel: channel.into(), id: id.into() });
                }
                Some(_) => {}
                None => source.refuse(value, "must be CHANNEL:ID"),
            }
        }
        for value in self.channels.iter().filter(|value| is_new("channel", value)) {
            if is_known(value, &value.value) {
                matches.channels.push(value.value.as_str().into());
            }
        }
        for role in &self.roles {
            if taken.insert(format!("role {}", role.value)) {
                matches.roles.push(role.value);
            } else {
                source.fault_of(role.at, "is named by another persona, too");
            }
        }
        matches
    }
}
