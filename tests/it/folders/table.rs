//! The one table of decisions: total, never laxer after untrusted content, and never waiting where nobody is.

use peacrab::conversation::asks::{ApprovalSettings, OnUntrusted};
use peacrab::people::Role;
use peacrab::tools::{Reach, ToolKind, ToolTerms};
use peacrab::trust::acts::{CommandAccess, CrossChatMessage};
use peacrab::trust::permission::{self, Decision, PermissionRequest};
use peacrab::trust::table::{Act, Ruling, TurnState, decide, markdown};
use peacrab::trust::taint::Taint;
use peacrab::workspace::Folder;

#[test]
fn every_cell_of_the_table_is_as_the_docs_say() {
    let docs = include_str!("../../../docs/trust.md");
    let table = markdown();
    assert!(docs.contains(&table), "put this into docs/trust.md:\n{table}");
}

#[test]
fn nothing_is_laxer_after_untrusted_content_and_nothing_waits_where_nobody_is() {
    for act in Act::all() {
        for is_attended in [false, true] {
            let clean = decide(act, TurnState { is_tainted: false, is_attended });
            let tainted = decide(act, TurnState { is_tainted: true, is_attended });
            assert!(tainted == clean || clean == Ruling::Do, "{act}: {clean}, then {tainted}");
            assert!(is_attended || (clean != Ruling::Ask && tainted != Ruling::Ask), "{act}");
        }
        for is_tainted in [false, true] {
            let alone = decide(act, TurnState { is_tainted, is_attended: false });
            let asked = decide(act, TurnState { is_tainted, is_attended: true });
            assert_eq!(alone == Ruling::Do, asked == Ruling::Do, "{act}");
        }
    }
}

#[test]
fn after_untrusted_content_no_private_data_is_changed_and_nothing_leaves_unasked() {
    let tainted = TurnState { is_tainted: true, is_attended: true };
    let harmless = [
        Act::Stay,
        Act::Write(Folder::Downloads),
        Act::Write(Folder::Group),
        Act::Run(CommandAccess::Downloads),
        Act::OpenNamedUrl,
    ];
    for act in Act::all() {
        let expected = match act {
            // A running command keeps its folders.
            Act::WriteToCommand => Ruling::Refuse,
            act if harmless.contains(&act) => Ruling::Do,
            _ => Ruling::Ask,
        };
        assert_eq!(decide(act, tainted), expected, "{act}");
    }
    // Without it, only what has private data and an outlet is asked about, what the config names, and what tells
    // others of it.
    let clean = TurnState { is_tainted: false, is_attended: true };
    let asks: Vec<_> = Act::all().filter(|act| decide(*act, clean) != Ruling::Do).collect();
    let [network, shared, both] =
        [CommandAccess::AskedNetwork, CommandAccess::NamedAndShared, CommandAccess::Both]
            .map(Act::Run);
    assert_eq!(asks, [network, shared, both, Act::GrantJob, Act::Tell]);
}

/// All reaches, and if their address may be opened.
fn reaches() -> impl Iterator<Item = (Reach, bool)> {
    let files = Folder::ALL.map(Reach::File);
    let commands = CommandAccess::ALL.map(Reach::Command);
    let url = || Reach::Url("https://example.org/".to_owned());
    let rest = [
        (Reach::Here, false),
        (Reach::RunningCommand, false),
        (Reach::Outside, false),
        (Reach::JobNeeds, false),
        (Reach::Tell(CrossChatMessage { to: "home:2".parse().unwrap(), text: None }), false),
        (Reach::Instructions, false),
        (Reach::Memory, false),
        (url(), true),
        (url(), false),
    ];
    files.into_iter().chain(commands).map(|reach| (reach, false)).chain(rest)
}

#[test]
fn permission_decides_as_the_table_does() {
    let terms = ToolTerms { role: Role::User, kind: ToolKind::Writes, retries: false };
    let taint = Taint::Tool("read_file".to_owned());
    for (reach, knows_url) in reaches() {
        for turn in TurnState::ALL {
            let asked = PermissionRequest {
                tool: "it",
                terms,
                reach: reach.clone(),
                role: Role::Owner,
                own_role: Role::Owner,
                taint: turn.is_tainted.then_some(&taint),
                knows_url,
                is_attended: turn.is_attended,
            };
            let decision = permission::decide(&asked, &ApprovalSettings::default());
            let ruling = decide(Act::of(&reach, knows_url), turn);
            let agrees = match ruling {
                Ruling::Do => decision == Decision::Allow,
                Ruling::Ask => matches!(decision, Decision::Ask(_)),
                Ruling::Downloads | Ruling::Refuse => matches!(decision, Decision::Deny(_)),
            };
            assert!(agrees, "{reach:?} {turn:?}: {ruling}, but {decision:?}");
            // The config's "allow" is a clean turn's, and its "deny" refuses what would be asked.
            let by = |untrusted| {
                permission::decide(
                    &asked,
                    &ApprovalSettings { untrusted, ..ApprovalSettings::default() },
                )
            };
            let clean = permission::decide(
                &PermissionRequest { taint: None, ..asked.clone() },
                &ApprovalSettings::default(),
            );
            assert_eq!(by(OnUntrusted::Allow), clean);
            let denied = by(OnUntrusted::Deny);
            assert!(denied == clean || matches!(denied, Decision::Deny(_)), "{denied:?}");
        }
    }
}
