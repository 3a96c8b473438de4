//! `/why`: who and what led to an answer, an action or the present state of a file.

use rusqlite::Connection;

use crate::bus::journal::WaitingMessage;
use crate::conversation::actions::{self, ActionQuery, ActionScope, UndoWay};
use crate::conversation::reasons::{self, ReasonQuery, Reasons};
use crate::memory;
use crate::people::Role;
use crate::people::persons::PersonAccount;
use crate::replies::{self, ExplainedSources, Explanation};
use crate::services::{Services, role_of};
use crate::store::StoreError;
use crate::trust::taint;
use crate::turn::commits;
use crate::types::commands::CommandId;
use crate::types::message::{Body, ChatKind, Choice, Entitled, Question, Sender};
use crate::types::session::CallId;
use crate::types::source::Source;

/// The subject of a `/why`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WhyAsked {
    LastAnswer,
    Action(ActionQuery),
}

impl WhyAsked {
    /// Parses nothing, a number, or a path in the workspace. None if it is none of them.
    pub(super) fn parse(said: &str) -> Option<Self> {
        let said = said.trim();
        if said.is_empty() {
            return Some(Self::LastAnswer);
        }
        if let Ok(id) = said.trim_start_matches('#').parse() {
            return Some(Self::Action(ActionQuery::Id(CallId(id))));
        }
        said.parse().ok().map(|path| Self::Action(ActionQuery::File(path)))
    }

    /// Says that there is nothing like it to be seen.
    fn nothing(&self) -> String {
        match self {
            Self::LastAnswer => replies::NOTHING_TO_EXPLAIN.to_owned(),
            Self::Action(ActionQuery::Id(id)) => replies::no_such_action(id),
            Self::Action(ActionQuery::File(path)) => replies::no_change_known(path),
        }
    }
}

/// Answers `/why`, with a button if the action can be undone.
pub(super) async fn handle(
    services: &Services,
    control: &WaitingMessage,
    asked: Option<WhyAsked>,
) -> Result<(), StoreError> {
    let store = &services.bus.store;
    let Some(asked) = asked else {
        return commits::handled(store, control, replies::WHY_USAGE.to_owned()).await;
    };
    let role = role_of(services, &control.inbound.from, control.sender()).await?;
    let (at, place) = (control.inbound.from.clone(), control.inbound.place);
    let (who, wanted) = (control.sender().clone(), asked.clone());
    let look = move |store: &Connection| {
        let session = actions::session_at(store, &at)?;
        let role = if place == ChatKind::Group { role.min(Role::Admin) } else { role };
        let scope = ActionScope::of(&who, role, place, session);
        let query = match wanted {
            WhyAsked::LastAnswer => ReasonQuery::LastAnswer(session),
            WhyAsked::Action(query) => ReasonQuery::Action(query),
        };
        reasons::find(store, &scope, &query)
    };
    let Some(reasons) = store.read(look).await? else {
        return commits::handled(store, control, asked.nothing()).await;
    };
    let is_own = is_own(services, control, role, &reasons).await?;
    let open = reasons.action.as_ref().filter(|action| is_own && action.undo == UndoWay::Open);
    let undo = open.filter(|_| CommandId::Undo.spec().allows(role, place)).map(|it| it.id);
    let asker = Asker { who: control.sender(), role, place, is_own };
    let text = asker.explain(services, &reasons, undo);
    match undo {
        None => commits::handled(store, control, text).await,
        Some(id) => {
            let undo = Choice { label: replies::UNDO_IT.to_owned(), says: format!("/undo {id}") };
            let who = Entitled::Only(control.sender().id.clone());
            let question = Question { text, choices: vec![undo], who, proposal: None };
            commits::handled_with_bodies(store, control, vec![Body::Choice(question)]).await
        }
    }
}

/// Returns true if the turn worked for the person who asks. An owner has several accounts.
async fn is_own(
    services: &Services,
    control: &WaitingMessage,
    role: Role,
    reasons: &Reasons,
) -> Result<bool, StoreError> {
    let Some(person) = &reasons.person else { return Ok(role == Role::Owner) };
    let theirs =
        PersonAccount { channel: reasons.origin.channel().clone(), sender: person.id.clone() };
    let own = PersonAccount {
        channel: control.inbound.from.channel.clone(),
        sender: control.sender().id.clone(),
    };
    let people = services.bus.people.clone();
    services.bus.store.read(move |store| people.are_same(store, &own, &theirs)).await
}

/// The person who asks, and where.
struct Asker<'a> {
    who: &'a Sender,
    role: Role,
    place: ChatKind,
    is_own: bool,
}

impl Asker<'_> {
    fn explain(&self, services: &Services, reasons: &Reasons, undo: Option<CallId>) -> String {
        let now = services.now();
        let person = match (self.is_own, &reasons.person) {
            (true, _) => replies::YOU,
            (false, Some(person)) if reasons.place == ChatKind::Group => &person.name,
            (false, _) => replies::SOMEONE_ELSE,
        };
        // A private conversation of another person stays theirs.
        let sees = self.is_own || reasons.place == ChatKind::Group;
        let lines = |sources: &[Source]| sources.iter().filter_map(|it| self.line(it)).collect();
        replies::explanation(&Explanation {
            action: reasons.action.clone().map(|action| match sees {
                true => action.words(now),
                false => action.without_words().words(now),
            }),
            at: replies::time_relative_to(now, reasons.begun),
            person,
            task: reasons.origin.task().map(|task| task.to_string()),
            sources: sees.then(|| ExplainedSources {
                of_turn: lines(&reasons.of_turn),
                earlier: lines(&reasons.earlier),
            }),
            undo: undo.map(|id| id.0),
        })
    }

    fn line(&self, source: &Source) -> Option<String> {
        let is_own = match source {
            Source::Person { id, .. } | Source::Button { id, .. } => {
                *id == self.who.id || (self.is_own && self.place == ChatKind::Private)
            }
            _ => false,
        };
        let audience = memory::audience(self.role, self.place);
        replies::source_line(source, is_own, taint::is_untrusted(source, audience))
    }
}
