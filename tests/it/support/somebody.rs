//! Somebody who calls tools, in a workspace of their own.

use chrono::TimeZone as _;
use chrono_tz::UTC;
use peacrab::bus::Wake;
use peacrab::conversation::actions::{Actions, Images};
use peacrab::people::Role;
use peacrab::store::{self, Store};
use peacrab::tools::ToolContext;
use peacrab::trust::instruction_watch::Oversight;
use peacrab::types::message::{Address, Place, Sender};
use peacrab::types::session::SessionId;
use peacrab::workspace::Workspace;
use tempfile::TempDir;

/// What tools are told of Ada, and the folder that it lies in.
pub(crate) fn somebody(role: Role, place: Place) -> (ToolContext, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &store::StoreOptions::default()).unwrap();
    let actions = Actions { store, images: Images::open(folder.path()).unwrap() };
    let workspace = Workspace::open(&folder.path().join("workspace")).unwrap();
    let cx = ToolContext {
        oversight: Oversight::new(workspace.clone(), actions.clone(), Wake::default()),
        actions,
        session: SessionId(1),
        workspace,
        who: Sender::person("1", "Ada"),
        role,
        address: Address { channel: "home".into(), chat: "1".into(), thread: None },
        place,
        came_here: [].into(),
        channels: ["home".into()].into(),
        now: UTC.with_ymd_and_hms(2026, 7, 17, 9, 5, 0).unwrap(),
        tainted: false,
    };
    (cx, folder)
}
