//! Somebody who calls tools, in a workspace of their own.

use chrono::TimeZone as _;
use chrono_tz::UTC;
use peacrab::bus::Notifier;
use peacrab::bus::access::AccessWatch;
use peacrab::conversation::actions::{Actions, BeforeImages};
use peacrab::people::persons::PersonAccount;
use peacrab::people::{People, Role};
use peacrab::store::{self, Store};
use peacrab::tools::{ToolContext, ToolOutput};
use peacrab::trust::instruction_watch::InstructionWatcher;
use peacrab::trust::path_watch::PathWatcher;
use peacrab::trust::taint;
use peacrab::types::message::{Address, ChatKind, Sender};
use peacrab::types::person::FolderOwner;
use peacrab::types::session::SessionId;
use peacrab::types::source::{Source, SourcedText};
use peacrab::workspace::Workspace;
use tempfile::TempDir;

/// What tools are told of Ada, and the folder that it lies in.
pub(crate) fn tool_context(role: Role, chat_kind: ChatKind) -> (ToolContext, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &store::StoreOptions::default()).unwrap();
    let actions = Actions { store, images: BeforeImages::open(folder.path()).unwrap() };
    let workspace = Workspace::open(&folder.path().join("workspace")).unwrap();
    let account = PersonAccount { channel: "home".into(), sender: "1".into() };
    let (people, changed) = (People::default(), Notifier::default());
    let cx = ToolContext {
        instruction_watcher: InstructionWatcher::new(
            workspace.clone(),
            actions.clone(),
            Notifier::default(),
        ),
        path_watcher: PathWatcher::new(actions.store.clone(), Notifier::default()),
        access: AccessWatch::new(actions.store.clone(), people.clone(), account, &changed),
        actions,
        session: SessionId(1),
        workspace,
        who: Sender::person("1", "Ada"),
        known_on: "home".into(),
        people,
        owner: FolderOwner::Account("home".into(), "1".into()),
        role,
        own_role: role,
        allowed: Default::default(),
        address: Address { channel: "home".into(), chat: "1".into(), thread: None },
        chat_kind,
        arrived_here: [].into(),
        channels: ["home".into()].into(),
        now: UTC.with_ymd_and_hms(2026, 7, 17, 9, 5, 0).unwrap(),
        tainted: false,
        approved_files: None,
    };
    (cx, folder)
}

/// A text that the model has heard from somebody.
pub(crate) fn said(text: &str) -> SourcedText {
    SourcedText::of(Source::Person { channel: "home".into(), id: "7".into() }, text)
}

/// Returns true if a tool's output has an untrusted source.
pub(crate) fn is_untrusted(output: &ToolOutput, cx: &ToolContext) -> bool {
    let audience = cx.reader().audience;
    match output {
        ToolOutput::Text { sources, .. } => {
            sources.iter().any(|source| taint::is_untrusted(source, audience))
        }
        _ => false,
    }
}

/// The text that the model reads of a tool's output.
pub(crate) fn text_of(output: ToolOutput) -> String {
    match output {
        ToolOutput::Text { for_model, .. } | ToolOutput::Effects { for_model, .. } => for_model,
        ToolOutput::Change(change) => change.for_model,
        ToolOutput::Asks(_) | ToolOutput::Awaits(_) => String::new(),
    }
}
