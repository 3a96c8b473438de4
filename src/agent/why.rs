//! `/why`: explains which persons and sources led to an answer, an action, the present content of a file, or a fact.

use rusqlite::Connection;

use crate::agent::facts::{day_of, fact_shown};
use crate::agent::undo::reader_of;
use crate::bus::journal::WaitingMessage;
use crate::conversation::actions::{self, ActionQuery, ActionScope, UndoState};
use crate::conversation::reasons::{self, ReasonQuery, Reasons};
use crate::memory::facts::{self, FactId};
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
use crate::types::message::{AllowedPressers, Body, ChatKind, Choice, Question, Sender};
use crate::types::session::CallId;
use crate::types::source::Source;
use crate::workspace::FileScope;

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
    let role = role_of(services, &control.inbound.from, control.sender()).await?;
    let (at, chat_kind) = (control.inbound.from.clone(), control.inbound.chat_kind);
    let query = match asked.clone() {
        WhySubject::Fact(id) => return explain_fact(services, control, role, id).await,
        WhySubject::LastAnswer => None,
        WhySubject::Action(ActionQuery::File(given)) => {
            let files = files_of(services, control, role).await?;
            let path = files.path(&given);
            // The same reply, whether the file exists, was changed, or neither.
            if !files.reaches(&path) {
                return commits::refuse_command(store, control, replies::not_yours_to_see(&given))
                    .await;
            }
            Some(ActionQuery::File(path))
        }
        WhySubject::Action(query) => Some(query),
    };
    let (who, reader) = (control.sender().clone(), reader_of(services, control));
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
    let Some((reasons, is_kept)) = store.read(find_reasons).await? else {
        return commits::refuse_command(store, control, asked.not_found_text()).await;
    };
    let is_own = is_own(services, control, role, &reasons).await?;
    let undoable =
        reasons.action.as_ref().filter(|action| is_own && action.undo == UndoState::Open);
    let undo = undoable.filter(|_| CommandId::Undo.spec().allows(role, chat_kind)).map(|it| it.id);
    let asker = Asker { who: control.sender(), role, chat_kind, is_own, is_kept };
    let text = asker.explain(services, &reasons, undo);
    match undo {
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

/// Returns the files that the person who asks can reach here.
async fn files_of(
    services: &Services,
    control: &WaitingMessage,
    role: Role,
) -> Result<FileScope, StoreError> {
    let (at, who) = (&control.inbound.from, control.sender().id.clone());
    let channel = at.channel.clone();
    let owner = services.bus.store.read(move |store| folder_owner(store, &channel, &who)).await?;
    Ok(memory::file_scope(role, control.inbound.chat_kind, at, &owner))
}

/// Explains the sources of a fact of the person or group, and its former versions.
async fn explain_fact(
    services: &Services,
    control: &WaitingMessage,
    role: Role,
    id: FactId,
) -> Result<(), StoreError> {
    let store = &services.bus.store;
    let (at, chat_kind) = (control.inbound.from.clone(), control.inbound.chat_kind);
    let who = control.sender().id.clone();
    let query = move |store: &Connection| {
        let keys = recall::conversation_keys(store, &at, chat_kind, &who)?;
        let known = facts::list(store, &keys)?;
        let Some(fact) = known.iter().find(|fact| fact.id == id).cloned() else { return Ok(None) };
        let former = facts::former_of(store, id)?;
        let former = known.into_iter().filter(|it| former.contains(&it.id)).collect::<Vec<_>>();
        Ok(Some((fact, former)))
    };
    let Some((fact, former)) = store.read(query).await? else {
        return commits::refuse_command(store, control, replies::no_such_fact(id.0)).await;
    };
    let asker = Asker { who: control.sender(), role, chat_kind, is_own: true, is_kept: false };
    let former = former.iter().map(|it| {
        let until = it.ended.map(|ended| day_of(services, ended));
        (it.text.as_str(), until.unwrap_or_default())
    });
    let text = replies::fact_explained(&FactExplanation {
        fact: fact_shown(services, &fact, control),
        uses: fact.accesses,
        sources: fact.sources.iter().filter_map(|source| asker.line(source)).collect(),
        former: former.collect(),
    });
    commits::reply(store, control, text).await
}

/// Returns true if the turn worked for the person who asks, with any of their accounts.
async fn is_own(
    services: &Services,
    control: &WaitingMessage,
    role: Role,
    reasons: &Reasons,
) -> Result<bool, StoreError> {
    let Some(person) = &reasons.person else { return Ok(role == Role::Owner) };
    let worked_for =
        PersonAccount { channel: reasons.origin.channel().clone(), sender: person.id.clone() };
    let (asker, people, begun) = (control.account(), services.bus.people.clone(), reasons.begun);
    services.bus.store.read(move |store| people.owns_past(store, &asker, &worked_for, begun)).await
}

/// The person who asks, and where.
struct Asker<'a> {
    who: &'a Sender,
    role: Role,
    chat_kind: ChatKind,
    is_own: bool,
    /// True if the content of the action is kept from them.
    is_kept: bool,
}

impl Asker<'_> {
    fn explain(&self, services: &Services, reasons: &Reasons, undo: Option<CallId>) -> String {
        let now = services.now();
        let person = match (self.is_own, &reasons.person) {
            (true, _) => replies::YOU,
            (false, Some(person)) if reasons.chat_kind == ChatKind::Group => &person.name,
            (false, _) => replies::SOMEONE_ELSE,
        };
        // The content of another person's private conversation is not shown.
        let may_see = self.is_own || (reasons.chat_kind == ChatKind::Group && !self.is_kept);
        let lines = |sources: &[Source]| sources.iter().filter_map(|it| self.line(it)).collect();
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

    fn line(&self, source: &Source) -> Option<String> {
        let is_own = match source {
            Source::Person { id, .. } | Source::Button { id, .. } => {
                *id == self.who.id || (self.is_own && self.chat_kind == ChatKind::Private)
            }
            _ => false,
        };
        let audience = memory::audience(self.role, self.chat_kind);
        replies::source_line(source, is_own, taint::is_untrusted(source, audience))
    }
}
