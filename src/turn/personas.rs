//! Chooses the bot's persona: that of the thread, the chat, the person, the server, the channel, the role, or the
//! default one; the most specific one comes first.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::bus::journal;
use crate::conversation::incognito::{self, HIDDEN_TOOLS};
use crate::people::folders::folder_owner;
use crate::people::{People, Role};
use crate::replies;
use crate::services::Services;
use crate::store::StoreError;
use crate::tasks::heartbeat::QuietHours;
use crate::tasks::schedule::{JobDefinition, JobPersonas, JobTerms};
use crate::tools::shell::EXEC;
use crate::types::message::{Address, ChannelName, ChatId, Sender, SenderId};
use crate::types::person::{FolderOwner, PersonId};
use crate::types::persona::{AllowedTools, Persona, PersonaMemory};
use crate::types::session::Session;
use crate::types::words::words;

/// The tools of guests without a configured persona. The config decides which roles may use the web.
const SAFE_TOOLS: [&str; 3] = ["ask_question", "web_search", "web_fetch"];

/// The reason why a persona was chosen, the most specific first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PersonaReason {
    Thread,
    Chat,
    Person,
    Server,
    Channel,
    Role,
    Default,
    /// No persona of the config matches a guest.
    Guest,
    /// No persona of the config matches.
    Nothing,
}

words!(PersonaReason {
    Thread = "thread",
    Chat = "chat",
    Person = "person",
    Server = "server",
    Channel = "channel",
    Role = "role",
    Default = "default",
    Guest = "guest",
    Nothing = "nothing",
});

/// A person for whom a persona is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedPerson {
    /// A person with all accounts.
    Person(PersonId),
    Account(ChannelName, SenderId),
}

/// A server of a channel, which contains chats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedServer {
    pub channel: ChannelName,
    pub id: ChatId,
}

/// The people and places for which a persona is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersonaMatch {
    /// Chats, or threads in them.
    pub chats: Vec<Address>,
    pub people: Vec<NamedPerson>,
    pub servers: Vec<NamedServer>,
    pub channels: Vec<ChannelName>,
    pub roles: Vec<Role>,
    pub is_default: bool,
}

/// A persona of the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonaRule {
    pub persona: Arc<Persona>,
    pub matches: PersonaMatch,
    /// Hours in which it answers only the owner.
    pub quiet: Option<QuietHours>,
}

/// The speaker and the place for which a persona is chosen.
#[derive(Clone, Debug)]
pub struct PersonaSubject {
    pub at: Address,
    /// The channel on which the account is known.
    pub known_on: ChannelName,
    pub sender: SenderId,
    pub person: Option<PersonId>,
    pub role: Role,
    /// The containers of the chat, such as its server.
    pub within: Vec<ChatId>,
}

impl PersonaSubject {
    /// Creates a subject whose person and place are not looked up yet.
    pub(crate) fn new(at: Address, known_on: ChannelName, sender: SenderId, role: Role) -> Self {
        Self { at, known_on, sender, person: None, role, within: Vec::new() }
    }

    /// Looks up the person, and the containers of the chat if they matter. Returns the owner of the folder.
    fn look_up(&mut self, store: &Connection, have_servers: bool) -> rusqlite::Result<FolderOwner> {
        let owner = folder_owner(store, &self.known_on, &self.sender)?;
        if let FolderOwner::Person(person) = owner {
            self.person = Some(person);
        }
        if have_servers {
            self.within = journal::containers_of(store, &self.at)?;
        }
        Ok(owner)
    }
}

/// The chosen persona, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenPersona {
    pub persona: Arc<Persona>,
    pub reason: PersonaReason,
    pub quiet: Option<QuietHours>,
    /// The owner of the person's folder, if it was looked up.
    pub owner: Option<FolderOwner>,
}

impl ChosenPersona {
    /// Sets the persona and the person of a session.
    pub(crate) fn enter(self, session: &mut Session) {
        (session.persona, session.owner) = (self.persona, self.owner);
    }

    /// Returns the reply to a message in quiet hours. None outside of them.
    pub(crate) fn quiet_hours_text(&self, role: Role, now: DateTime<Tz>) -> Option<String> {
        let until = self.quiet_until(role, now.to_utc(), now.timezone())?;
        Some(replies::quiet_until(&replies::time_relative_to(now, until)))
    }

    /// Returns the end of the quiet hours, if `now` is within them. The owner has none.
    pub fn quiet_until(&self, role: Role, now: DateTime<Utc>, zone: Tz) -> Option<DateTime<Utc>> {
        self.quiet.as_ref().filter(|_| role < Role::Owner)?.ends(now, zone)
    }
}

/// The personas of the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Personas {
    rules: Vec<PersonaRule>,
    /// The persona if none of the config matches.
    usual: Arc<Persona>,
    guest: Arc<Persona>,
}

impl Default for Personas {
    fn default() -> Self {
        Self::new(Vec::new(), None)
    }
}

impl Personas {
    /// `tools` are for people without a matching persona. None allows all tools.
    pub fn new(rules: Vec<PersonaRule>, tools: Option<Vec<String>>) -> Self {
        let usual = AllowedTools::new(tools, PersonaMemory::Person);
        let safe = SAFE_TOOLS.iter().filter(|tool| usual.allow(tool));
        let safe = safe.map(|tool| (*tool).to_owned()).collect();
        let guest = AllowedTools::new(Some(safe), PersonaMemory::Person);
        let with_tools = |tools| Arc::new(Persona { tools, ..Persona::default() });
        Self { rules, usual: with_tools(usual), guest: with_tools(guest) }
    }

    /// Returns the persona for a subject.
    pub fn choose(&self, subject: &PersonaSubject) -> ChosenPersona {
        let matching = self.rules.iter().filter_map(|rule| Some((reason(rule, subject)?, rule)));
        match matching.min_by_key(|(reason, _)| *reason) {
            Some((reason, rule)) => ChosenPersona {
                persona: Arc::clone(&rule.persona),
                reason,
                quiet: rule.quiet,
                owner: None,
            },
            None => {
                let (persona, reason) = match subject.role {
                    Role::Guest => (&self.guest, PersonaReason::Guest),
                    Role::User | Role::Admin | Role::Owner => (&self.usual, PersonaReason::Nothing),
                };
                ChosenPersona { persona: Arc::clone(persona), reason, quiet: None, owner: None }
            }
        }
    }

    /// Returns the terms of jobs, by the personas of their persons.
    pub fn of_jobs(&self, people: &People, zone: Tz) -> JobPersonas {
        let (personas, people) = (self.clone(), people.clone());
        JobPersonas::new(move |store, job, now| {
            let JobDefinition { to, known_on, sender, .. } = &job.definition;
            let role = people.role_of(store, known_on, &sender.id)?;
            let Some(role) = role else { return Ok(JobTerms::default()) };
            let (known_on, sender) = (known_on.clone(), sender.id.clone());
            let mut subject = PersonaSubject::new(to.clone(), known_on, sender, role);
            subject.look_up(store, personas.have_servers())?;
            let chosen = personas.choose(&subject);
            Ok(JobTerms {
                quiet_until: chosen.quiet_until(role, now, zone),
                may_command: chosen.persona.tools.allow(EXEC),
            })
        })
    }

    /// Returns the persona for a known subject. An incognito conversation hides some tools.
    pub(crate) fn choose_for(&self, known: KnownSubject) -> ChosenPersona {
        let KnownSubject { subject, owner, is_incognito } = known;
        let mut chosen = ChosenPersona { owner: Some(owner), ..self.choose(&subject) };
        if is_incognito {
            let persona = Arc::make_mut(&mut chosen.persona);
            persona.tools = persona.tools.hiding(&HIDDEN_TOOLS);
        }
        chosen
    }

    /// Returns true if a persona is for the chats of a server.
    pub(crate) fn have_servers(&self) -> bool {
        self.rules.iter().any(|rule| !rule.matches.servers.is_empty())
    }
}

/// Returns the most specific reason for which a persona matches. None if it does not match.
fn reason(rule: &PersonaRule, subject: &PersonaSubject) -> Option<PersonaReason> {
    let PersonaMatch { chats, people, servers, channels, roles, is_default } = &rule.matches;
    let PersonaSubject { at, known_on, sender, person, role, within } = subject;
    let chat = Address { thread: None, ..at.clone() };
    let is_person = |it: &NamedPerson| match it {
        NamedPerson::Person(id) => Some(id) == person.as_ref(),
        NamedPerson::Account(channel, id) => channel == known_on && id == sender,
    };
    let is_server = |it: &NamedServer| it.channel == at.channel && within.contains(&it.id);
    let reasons = [
        (at.thread.is_some() && chats.contains(at), PersonaReason::Thread),
        (chats.contains(&chat), PersonaReason::Chat),
        (people.iter().any(is_person), PersonaReason::Person),
        (servers.iter().any(is_server), PersonaReason::Server),
        (channels.contains(&at.channel), PersonaReason::Channel),
        (roles.contains(role), PersonaReason::Role),
        (*is_default, PersonaReason::Default),
    ];
    reasons.into_iter().find_map(|(matches, reason)| matches.then_some(reason))
}

/// The person to whom the bot speaks.
#[derive(Clone, Copy)]
pub(crate) struct PersonaListener<'a> {
    /// The channel on which the person is known.
    pub(crate) known_on: &'a ChannelName,
    pub(crate) sender: &'a Sender,
    pub(crate) role: Role,
}

/// Returns the persona for a person at an address.
pub(crate) async fn persona_for(
    services: &Services,
    personas: &Personas,
    at: &Address,
    PersonaListener { known_on, sender, role }: PersonaListener<'_>,
) -> Result<ChosenPersona, StoreError> {
    let have_servers = personas.have_servers();
    let subject = PersonaSubject::new(at.clone(), known_on.clone(), sender.id.clone(), role);
    let query = move |store: &Connection| KnownSubject::read(store, subject, have_servers);
    Ok(personas.choose_for(services.bus.store.read(query).await?))
}

/// A speaker with the data of the store that the choice of a persona needs.
pub(crate) struct KnownSubject {
    subject: PersonaSubject,
    owner: FolderOwner,
    is_incognito: bool,
}

impl KnownSubject {
    pub(crate) fn read(
        store: &Connection,
        mut subject: PersonaSubject,
        have_servers: bool,
    ) -> rusqlite::Result<Self> {
        let owner = subject.look_up(store, have_servers)?;
        let is_incognito = incognito::is_on(store, &subject.at)?;
        Ok(Self { subject, owner, is_incognito })
    }
}
