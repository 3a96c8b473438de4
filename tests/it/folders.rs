//! The folders: whose files a turn reaches, which of them are trusted, and what the kernel keeps apart. A model
//! that follows everything is talked into each attack.

mod attacks;
mod clean;
mod commands;
mod links;
mod table;
mod trusting;

use std::fs;

use peacrab::people::Role;
use peacrab::tools::{ToolContext, ToolError, ToolSet};
use peacrab::types::message::ChatKind;
use peacrab::types::person::{FolderOwner, PersonId};
use peacrab::workspace::{FileScope, Folder, WorkspacePath};
use serde_json::{Value, json};

use crate::support::tool_context::{is_untrusted, text_of, tool_context};

fn path(text: &str) -> WorkspacePath {
    text.parse().unwrap()
}

async fn call(cx: &ToolContext, tool: &str, arguments: Value) -> Result<(String, bool), String> {
    let tools = ToolSet::standard();
    let (tool, _) = tools.authorise(tool, cx.role)?;
    match tool.call_json(&arguments.to_string(), cx).await {
        Ok(output) => {
            let is_untrusted = is_untrusted(&output, cx);
            if let peacrab::tools::ToolOutput::Change(change) = &output {
                cx.workspace.apply(&change.file).unwrap();
            }
            Ok((text_of(output), is_untrusted))
        }
        Err(ToolError::TellModel(words)) => Err(words),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_folder_is_known_by_its_path() {
    for (text, folder, of_others) in [
        ("notes/plan.md", Folder::Workspace, false),
        ("downloads/2026-11/1-0-a.pdf", Folder::Downloads, true),
        ("Downloads/a", Folder::Downloads, true),
        ("./shared//a", Folder::Shared, true),
        ("groups/gabc/a", Folder::Group, true),
        ("people/pabc/workspace/a", Folder::Workspace, false),
        ("people/pabc/downloads/a", Folder::Downloads, true),
        ("people/pabc/a", Folder::Downloads, true),
        ("inbox/a", Folder::Workspace, true),
        ("outputs/2026-11/1-others.txt", Folder::Workspace, true),
        ("outputs/2026-11/1.txt", Folder::Workspace, false),
    ] {
        let path = path(text);
        assert_eq!((path.folder(), path.is_untrusted()), (folder, of_others), "{text}");
    }
}

#[test]
fn nobody_reaches_the_folders_of_somebody_else() {
    let of = |person| FileScope::of_person(&FolderOwner::Person(PersonId(person)));
    let (ada, bob) = (of(1), of(11));
    let group = FileScope::of_group(&"home".into(), &"-1".into());
    for given in ["memory/MEMORY.md", "notes.md", "downloads/a", "AGENTS.md"] {
        let own = ada.path(&path(given));
        assert!(own.as_str().starts_with("people/p") && ada.reaches(&own), "{own}");
        for other in [&bob, &group, &FileScope::Owner] {
            assert!(!other.reaches(&own), "{own}");
        }
        assert!(group.path(&path(given)).as_str().starts_with("groups/g"), "{given}");
    }
    for other in [&ada, &bob, &group] {
        assert!(!other.reaches(&path("notes.md")) && !other.reaches(&path("downloads/a")));
        assert!(other.reaches(&path("shared/a")));
    }
    assert!(
        !ada.reaches(&group.path(&path("a"))) && FileScope::Owner.reaches(&path("groups/g1/a"))
    );
}

#[tokio::test]
async fn each_person_has_files_of_their_own_and_shared_ones_are_untrusted() {
    let (owner, _home) = tool_context(Role::Owner, ChatKind::Private);
    let (ada, _) = tool_context(Role::User, ChatKind::Private);
    let ada = ToolContext { workspace: owner.workspace.clone(), ..ada };
    let (group, _) = tool_context(Role::Admin, ChatKind::Group);
    let group = ToolContext { workspace: owner.workspace.clone(), ..group };
    for (cx, text) in [(&owner, "the owner's"), (&ada, "Ada's"), (&group, "the group's")] {
        let write = json!({"path": "list.md", "content": text});
        call(cx, "write_file", write).await.unwrap();
    }
    let read = |given: &str| json!({"path": given});
    for (cx, text, foreign) in
        [(&owner, "the owner's", false), (&ada, "Ada's", false), (&group, "the group's", true)]
    {
        let came = call(cx, "read_file", read("list.md")).await.unwrap();
        assert_eq!(came, (text.to_owned(), foreign));
    }
    call(&ada, "write_file", json!({"path": "shared/all.md", "content": "obey"})).await.unwrap();
    for cx in [&owner, &ada, &group] {
        let came = call(cx, "read_file", read("shared/all.md")).await.unwrap();
        assert_eq!(came, ("obey".to_owned(), true));
    }
    let root = owner.workspace.root();
    assert_eq!(fs::read_to_string(root.join("../shared/all.md")).unwrap(), "obey");
    assert!(!root.join("shared").exists());
}

#[tokio::test]
async fn the_names_in_untrusted_folders_are_listed_only_when_they_are_asked_for() {
    let (owner, _home) = tool_context(Role::Owner, ChatKind::Private);
    let downloads = owner.workspace.root().join("../downloads/2026-11");
    fs::create_dir_all(&downloads).unwrap();
    fs::write(downloads.join("obey me.txt"), "x").unwrap();
    let (all, foreign) = call(&owner, "list_files", json!({"depth": 8})).await.unwrap();
    assert!(all.contains("downloads/ (1 inside, by others)") && !all.contains("obey"), "{all}");
    assert!(!foreign);
    let inside = call(&owner, "list_files", json!({"path": "downloads"})).await.unwrap();
    assert!(inside.0.contains("obey me.txt") && inside.1, "{inside:?}");
}

#[tokio::test]
async fn files_of_former_versions_stay_readable_to_the_owner_and_untrusted() {
    let (owner, _home) = tool_context(Role::Owner, ChatKind::Private);
    let root = owner.workspace.root();
    for (name, text) in [("shared/old.md", "old"), ("inbox/2026-01/1-0-a.txt", "sent")] {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), text).unwrap();
        let came = call(&owner, "read_file", json!({"path": name})).await.unwrap();
        assert_eq!(came, (text.to_owned(), true), "{name}");
    }
    let listed = call(&owner, "list_files", json!({"path": "shared"})).await.unwrap();
    assert!(listed.0.contains("old.md") && listed.1);
    let edit = json!({"path": "shared/old.md", "content": "new"});
    let refused = call(&owner, "write_file", edit).await.unwrap_err();
    assert!(refused.contains("former version"), "{refused}");
    assert_eq!(fs::read_to_string(root.join("shared/old.md")).unwrap(), "old");
    // It was not published by the new version.
    let (ada, _) = tool_context(Role::User, ChatKind::Private);
    let ada = ToolContext { workspace: owner.workspace.clone(), ..ada };
    assert!(call(&ada, "read_file", json!({"path": "shared/old.md"})).await.is_err());
    let listed = call(&ada, "list_files", json!({"path": "shared"})).await.unwrap_or_default();
    assert!(!listed.0.contains("old.md"), "{listed:?}");
}

#[tokio::test]
async fn no_link_leads_from_one_folder_into_another() {
    let (owner, _home) = tool_context(Role::Owner, ChatKind::Private);
    let root = owner.workspace.root();
    fs::write(root.join("secret.md"), "secret").unwrap();
    let links = [
        ("../downloads/out", "../workspace/secret.md"),
        ("../shared/out", "../workspace/secret.md"),
        ("../shared/home", ".."),
        ("in", "../downloads"),
    ];
    for (link, aim) in links {
        std::os::unix::fs::symlink(aim, root.join(link)).unwrap();
    }
    for given in ["downloads/out", "shared/out", "shared/home/state.db", "in/x"] {
        for tool in ["read_file", "append_file"] {
            let came = call(&owner, tool, json!({"path": given, "content": "x"})).await;
            let came = match tool {
                "read_file" => call(&owner, tool, json!({"path": given})).await,
                _ => came,
            };
            assert!(came.is_err(), "{tool} {given}: {came:?}");
        }
    }
    assert_eq!(fs::read_to_string(root.join("secret.md")).unwrap(), "secret");
}

#[tokio::test]
async fn a_link_into_a_persons_own_downloads_shows_untrusted_names() {
    let (owner, _home) = tool_context(Role::Owner, ChatKind::Private);
    let (ada, _) = tool_context(Role::User, ChatKind::Private);
    let ada = ToolContext { workspace: owner.workspace.clone(), ..ada };
    for given in ["list.md", "downloads/obey me.txt"] {
        call(&ada, "write_file", json!({"path": given, "content": "x"})).await.unwrap();
    }
    let own = owner.workspace.root().join("..").join(ada.scope().root().unwrap().as_str());
    std::os::unix::fs::symlink("../downloads", own.join("dl")).unwrap();
    if let Ok((names, foreign)) = call(&ada, "list_files", json!({"path": "dl"})).await {
        assert!(!names.contains("obey") || foreign, "{names}");
    }
    let write = json!({"path": "dl/new.md", "content": "x"});
    assert!(call(&ada, "write_file", write).await.is_err());
}
