//! `/why`: explains which persons and sources led to an answer, an action, the present content of a file, or a fact.

mod listing;

use rusqlite::Connection;

use crate::agent::facts::{day_of, fact_shown};
use crate::bus::journal::WaitingMessage;
use crate::conversation::actions::{self, ActionQuery, ActionReader, ActionScope, UndoState};
use crate::conversation::reasons::{self, ReasonQuery, Reasons};
use crate::memory::facts::{self, Fact, FactId};
use crate::memory::{self, recall};
use crate::people::Role;
use crate::people::folders::folder_owner;
use crate::people::persons::PersonAccount;
use crate::replies::{self, ExplainedSources, Explanation, FactExplanation};
use crate::services::{Services, role_of};
use crate::store::StoreError;
use crate::trust::taint;
use crate::turn::commits;
use crate::types::commands::CommandId;
use crate::types::message::{Address, AllowedPressers, Body, ChatKind, Choice, Question, Sender};
use crate::types::session::CallId;
use crate::types::source::Source;
use crate::workspace::FileScope;
pub use listing::why_listing;

/// The argument before the number of a fact.
const FACT: &str = "fact";

/// The subject of a `/why`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WhySubject {
    LastAnswer,
    Action(ActionQuery),
    Fact(FactId),
}

impl WhySubject {
    /// Parses no argument, a number, `fact` with a number, or a path in the workspace. None for anything else.
    pub(super) fn parse(argument: &str) -> Option<Self> {
        let argument = argument.trim();
        if argument.is_empty() {
            return Some(Self::LastAnswer);
        }
        if let Some((kind, number)) = argument.split_once(char::is_whitespace)
            && kind.eq_ignore_ascii_case(FACT)
            && let Ok(id) = number.trim().trim_start_matches('#').parse()
        {
            return Some(Self::Fact(FactId(id)));
        }
        if let Ok(id) = argument.trim_start_matches('#').parse() {
            return Some(Self::Action(ActionQuery::Id(CallId(id))));
        }
        argument.parse().ok().map(|path| Self::Action(ActionQuery::File(path)))
    }

    /// Returns the reply if the subject was not found.
    fn not_found_text(&self) -> String {
        match self {
            Self::LastAnswer => replies::NOTHING_TO_EXPLAIN.to_owned(),
            Self::Action(ActionQuery::Id(id)) => replies::no_such_action(id),
            Self::Action(ActionQuery::File(path)) => replies::no_change_known(path),
            Self::Fact(id) => replies::no_such_fact(id.0),
        }
    }
}

/// The person who asks, and where.
struct Asker {
    who: Sender,
    at: Address,
    role: Role,
    chat_kind: ChatKind,
}

/// The reasons of an answer or an action, and the rights of the person who asks.
struct FoundReasons {
    reasons: Reasons,
    /// True if the turn worked for the person who asks.
    is_own: bool,
    /// True if the content of the action is kept from them.
    is_kept: bool,
    /// The action, if they can undo it.
    undo: Option<CallId>,
}

/// A fact, and its former versions.
struct FoundFact {
    fact: Fact,
    former: Vec<Fact>,
}

/// The subject of a `/why`, as it was found.
enum FoundSubject {
    Reasons(Box<FoundReasons>),
    Fact(FoundFact),
}

/// Answers `/why`, with a button if the action can be undone.
pub(super) async fn handle(
    services: &Services,
    control: &WaitingMessage,
    asked: Option<WhySubject>,
) -> Result<(), StoreError> {
    let store = &services.bus.store;
    let Some(asked) = asked else {
        return commits::refuse_command(store, control, replies::WHY_USAGE.to_owned()).await;
    };
    let at = control.inbound.from.clone();
    let chat_kind = control.inbound.chat_kind;
    let asker = Asker::read(services, at, control.sender().clone(), chat_kind).await?;
    let found = match find(services, &asker, &asked).await? {
        Ok(FoundSubject::Reasons(found)) => found,
        Ok(FoundSubject::Fact(found)) => {
            let text = fact_text(services, control, &asker, &found);
            return commits::reply(store, control, text).await;
        }
        Err(message) => return commits::refuse_command(store, control, message).await,
    };
    let text = asker.explain(services, &found);
    match found.undo {
        None => commits::reply(store, control, text).await,
        Some(id) => {
            let undo =
                Choice { label: replies::UNDO_IT.to_owned(), says: CommandId::Undo.line(id) };
            let who = AllowedPressers::Only(control.sender().id.clone());
            let question = Question::new(text, vec![undo], who);
            commits::reply_with_bodies(store, control, vec![Body::Choice(question)]).await
        }
    }
}

/// Finds the subject as far as the person who asks may see it. The error is a sentence for them.
async fn find(
    services: &Services,
    asker: &Asker,
    asked: &WhySubject,
) -> Result<Result<FoundSubject, String>, StoreError> {
    let query = match asked.clone() {
        WhySubject::Fact(id) => {
            let found = find_fact(services, asker, id).await?;
            return Ok(found.map(FoundSubject::Fact).ok_or_else(|| asked.not_found_text()));
        }
        WhySubject::LastAnswer => None,
        WhySubject::Action(ActionQuery::File(given)) => {
            let files = files_of(services, asker).await?;
            let path = files.path(&given);
            // The same reply, whether the file exists, was changed, or neither.
            if !files.reaches(&path) {
                return Ok(Err(replies::not_yours_to_see(&given)));
            }
            Some(ActionQuery::File(path))
        }
        WhySubject::Action(query) => Some(query),
    };
    let (who, at, role, chat_kind) =
        (asker.who.clone(), asker.at.clone(), asker.role, asker.chat_kind);
    let reader =
        ActionReader { people: services.bus.people.clone(), accounts: vec![asker.account()] };
    let find_reasons = move |store: &Connection| {
        let session = actions::session_at(store, &at)?;
        let scope = ActionScope::of(&who, role, chat_kind, session);
        let query = query.map_or(ReasonQuery::LastAnswer(session), ReasonQuery::Action);
        let Some(found) = reasons::find(store, &scope, &query)? else { return Ok(None) };
        let is_kept = match &found.action {
            Some(action) => reader.is_kept_from(store, action.id)?,
            None => false,
        };
        Ok((!is_kept || scope == ActionScope::ALL).then_some((found, is_kept)))
    };
    let Some((reasons, is_kept)) = services.bus.store.read(find_reasons).await? else {
        return Ok(Err(asked.not_found_text()));
    };
    let is_own = is_own(services, asker, &reasons).await?;
    let undoable =
        reasons.action.as_ref().filter(|action| is_own && action.undo == UndoState::Open);
    let undo = undoable.filter(|_| CommandId::Undo.spec().allows(role, chat_kind)).map(|it| it.id);
    Ok(Ok(FoundSubject::Reasons(Box::new(FoundReasons { reasons, is_own, is_kept, undo }))))
}

/// Returns the files that the person who asks can reach here.
async fn files_of(services: &Services, asker: &Asker) -> Result<FileScope, StoreError> {
    let (channel, who) = (asker.at.channel.clone(), asker.who.id.clone());
    let owner = services.bus.store.read(move |store| folder_owner(store, &channel, &who)).await?;
    Ok(memory::file_scope(asker.role, asker.chat_kind, &asker.at, &owner))
}

/// Returns a fact of the person or group, and its former versions.
async fn find_fact(
    services: &Services,
    asker: &Asker,
    id: FactId,
) -> Result<Option<FoundFact>, StoreError> {
    let (at, chat_kind, who) = (asker.at.clone(), asker.chat_kind, asker.who.id.clone());
    let query = move |store: &Connection| {
        let keys = recall::conversation_keys(store, &at, chat_kind, &who)?;
        let known = facts::list(store, &keys)?;
        let Some(fact) = known.iter().find(|fact| fact.id == id).cloned() else { return Ok(None) };
        let former = facts::former_of(store, id)?;
        let former = known.into_iter().filter(|it| former.contains(&it.id)).collect::<Vec<_>>();
        Ok(Some(FoundFact { fact, former }))
    };
    services.bus.store.read(query).await
}

/// Explains the sources of a fact.
fn fact_text(
    services: &Services,
    control: &WaitingMessage,
    asker: &Asker,
    found: &FoundFact,
) -> String {
    let former = found.former.iter().map(|it| {
        let until = it.ended.map(|ended| day_of(services, ended));
        (it.text.as_str(), until.unwrap_or_default())
    });
    replies::fact_explained(&FactExplanation {
        fact: fact_shown(services, &found.fact, control),
        uses: found.fact.accesses,
        sources: found.fact.sources.iter().filter_map(|it| asker.line(it, true)).collect(),
        former: former.collect(),
    })
}

/// Returns true if the turn worked for the person who asks, with any of their accounts.
async fn is_own(services: &Services, asker: &Asker, reasons: &Reasons) -> Result<bool, StoreError> {
    let Some(person) = &reasons.person else { return Ok(asker.role == Role::Owner) };
    let worked_for =
        PersonAccount { channel: reasons.origin.channel().clone(), sender: person.id.clone() };
    let (account, people, begun) = (asker.account(), services.bus.people.clone(), reasons.begun);
    let is_own = move |store: &Connection| people.owns_past(store, &account, &worked_for, begun);
    services.bus.store.read(is_own).await
}

impl FoundReasons {
    /// Returns true if the person who asks may see the content. That of another person's private conversation is not shown.
    fn may_see(&self) -> bool {
        self.is_own || (self.reasons.chat_kind == ChatKind::Group && !self.is_kept)
    }

    /// Returns the name of the person for whom the turn worked. None if it is not shown.
    fn person(&self) -> Option<&str> {
        let is_group = self.reasons.chat_kind == ChatKind::Group;
        self.reasons.person.as_ref().filter(|_| is_group).map(|person| person.name.as_str())
    }
}

impl Asker {
    async fn read(
        services: &Services,
        at: Address,
        who: Sender,
        chat_kind: ChatKind,
    ) -> Result<Self, StoreError> {
        let role = role_of(services, &at, &who).await?;
        Ok(Self { who, at, role, chat_kind })
    }

    fn account(&self) -> PersonAccount {
        PersonAccount { channel: self.at.channel.clone(), sender: self.who.id.clone() }
    }

    fn explain(&self, services: &Services, found: &FoundReasons) -> String {
        let now = services.now();
        let FoundReasons { reasons, is_own, undo, .. } = found;
        let person = match is_own {
            true => replies::YOU,
            false => found.person().unwrap_or(replies::SOMEONE_ELSE),
        };
        let may_see = found.may_see();
        let lines =
            |sources: &[Source]| sources.iter().filter_map(|it| self.line(it, *is_own)).collect();
        replies::explanation(&Explanation {
            action: reasons.action.clone().map(|action| match may_see {
                true => action.describe(now),
                false => action.without_texts().describe(now),
            }),
            at: replies::time_relative_to(now, reasons.begun),
            person,
            task: reasons.origin.task().map(|task| task.to_string()),
            sources: may_see.then(|| ExplainedSources {
                of_turn: lines(&reasons.of_turn),
                earlier: lines(&reasons.earlier),
            }),
            undo: undo.map(|id| id.0),
        })
    }

    /// Returns true if the person who asks is the author. `is_own` is true if the turn worked for them.
    fn wrote(&self, source: &Source, is_own: bool) -> bool {
        match source {
            Source::Person { id, .. } | Source::Button { id, .. } => {
                *id == self.who.id || (is_own && self.chat_kind == ChatKind::Private)
            }
            _ => false,
        }
    }

    fn distrusts(&self, source: &Source) -> bool {
        taint::is_untrusted(source, memory::audience(self.role, self.chat_kind))
    }

    fn line(&self, source: &Source, is_own: bool) -> Option<String> {
        replies::source_line(source, self.wrote(source, is_own), self.distrusts(source))
    }
}
