//! Markdown by section: exactly the section that was named changes, and nothing else of the file.

use peacrab::people::Role;
use peacrab::tools::ToolError;
use peacrab::tools::markdown::sections::{SectionError, outline, read, sections, write};
use peacrab::types::message::ChatKind;
use proptest::prelude::*;
use serde_json::json;

use crate::support::tool_context::is_untrusted;
use crate::tools::ToolFixture;

const HOUSE: &str = "---\ntitle: House\n---\nIntro.\n\n# House\n\nOurs.\n\n## Garden ##\n- peas\n\n\n```\n# no heading\n```\n\n## Cellar\n\n- wine\n\n> # quoted\n\nShed\n----\n* rake\n\n# Car\n## Garden\nno";

#[test]
fn headings_are_those_of_commonmark() {
    let found = sections(HOUSE);
    let titles: Vec<_> = found.iter().map(|it| (it.level, it.title.as_str())).collect();
    assert_eq!(
        titles,
        [(1, "House"), (2, "Garden"), (2, "Cellar"), (2, "Shed"), (1, "Car"), (2, "Garden")]
    );
    assert_eq!(&HOUSE[found[3].start..found[3].end], "Shed\n----\n* rake\n\n");
    assert_eq!(outline("# #1\n\n### a ` # `\r\nxy\n"), "# #1 (0)\n    ### a ` # ` (2)\n");
    assert_eq!(read(HOUSE, "## Cellar"), Ok("## Cellar\n\n- wine\n\n> # quoted\n\n"));
    assert_eq!(read(HOUSE, "Car"), Ok("# Car\n## Garden\nno"));
    assert_eq!(read(HOUSE, "# Car > Garden"), Ok("## Garden\nno"));
}

/// Writes, and gives what became of the part between the bytes that stay.
#[track_caller]
fn check(address: &str, content: &str, old: &str, new: &str) {
    assert!(HOUSE.contains(old), "{old:?}");
    let at = HOUSE.rfind(old).unwrap();
    let expected = format!("{}{new}{}", &HOUSE[..at], &HOUSE[at + old.len()..]);
    assert_eq!(write(HOUSE, address, content), Ok(expected), "{address}");
}

#[test]
fn a_section_is_replaced_and_all_else_stays() {
    check("## Cellar", "\n- beer\n", "- wine\n\n> # quoted", "- beer");
    check("Shed", "- axe\n\n### Tools\n- saw", "* rake", "- axe\n\n### Tools\n- saw");
    check("# Car > ## Garden", "## Garden\n\nyes", "no", "yes");
    check("# House", "Yours.", "Ours.", "Yours.");
    check("Car", "Red.", "# Car\n", "# Car\n\nRed.\n\n");
    check("Shed", "", "* rake\n", "\n");
    check("# House > ## Roof", "red", "* rake\n\n", "* rake\n\n## Roof\n\nred\n\n");
    check("# House > ### Porch", "red", "Ours.\n\n", "Ours.\n\n### Porch\n\nred\n\n");
    check("# Boat", "blue\n", "\nno", "\nno\n\n# Boat\n\nblue\n");
    assert_eq!(write("", "# New", "text"), Ok("# New\n\ntext\n".to_owned()));
    assert_eq!(write("# A", "A", "text"), Ok("# A\n\ntext\n".to_owned()));
    let windows = "# A\r\nold\r\n\r\n# B\r\n";
    assert_eq!(write(windows, "A", "one\ntwo"), Ok("# A\r\none\r\ntwo\r\n\r\n# B\r\n".to_owned()));
}

#[test]
fn a_wrong_address_or_content_is_explained() {
    let refused = |address: &str, content: &str, part: &str| {
        let words = write(HOUSE, address, content).unwrap_err().to_string();
        assert!(words.contains(part), "{words}");
    };
    refused("Garden", "x", "several headings:\n# House > ## Garden\n# Car > ## Garden\n");
    refused("Attic", "x", "There are:\n# House\n# House > ## Garden\n");
    refused("quoted", "x", "no heading `quoted`");
    refused("no heading", "x", "no heading `no heading`");
    refused("# House > # Roof", "x", "more `#`");
    refused("  ", "x", "is no heading");
    // What would take other headings away.
    assert_eq!(write(HOUSE, "## Cellar", "```\nopen"), Err(SectionError::Swallows));
    assert_eq!(write(HOUSE, "## Cellar", "<!-- open"), Err(SectionError::Swallows));
    assert_eq!(write("```\nopen", "# New", "x"), Err(SectionError::Swallows));
    // What would add some elsewhere than below it.
    refused("## Cellar", "x\n## Roof\ny", "is not below `## Cellar`");
    refused("# House", "x\n## Roof\ny", "is not below `# House`");
}

proptest! {
    /// Texts of lines that mean something in Markdown.
    #[test]
    fn no_byte_elsewhere_changes(
        text in "(#{1,3} [ab]\n|[ab]\n|===\n|---\n|```\n|> # a\n|- # b\n|<!--\n|\r\n|\n|    # a\n){0,12}",
        address in "#{0,3} ?[abc]( > #{1,3} [abc])?",
        content in "(#{1,3} [ab]\n|[ab]\n|===\n|---\n|```\n|> # a\n|<!--\n|\n| ){0,4}",
    ) {
        let before = sections(&text);
        let Ok(written) = write(&text, &address, &content) else { return Ok(()) };
        let after = sections(&written);
        // The first bytes and the last, as far as they are the same, hold all sections but one.
        let same = |(one, other): &(u8, u8)| one == other;
        let first = text.bytes().zip(written.bytes()).take_while(same).count();
        let last = text.bytes().rev().zip(written.bytes().rev()).take_while(same).count();
        let touched = before.iter().filter(|it| it.end > first && it.body < text.len() - last);
        prop_assert!(touched.count() <= 1 || first + last >= text.len(), "{text:?} {written:?}");
        let titles = |all: &[peacrab::tools::markdown::sections::MarkdownSection]| {
            all.iter().map(|it| (it.level, it.title.clone())).collect::<Vec<_>>()
        };
        let (before, mut after) = (titles(&before), titles(&after));
        // All headings that were there are still there, in order.
        for heading in &before {
            let at = after.iter().position(|it| it == heading);
            prop_assert!(at.is_some(), "{text:?} {written:?}");
            after.drain(..=at.unwrap_or_default());
        }
        // What was written is found again there.
        let is_missing = matches!(read(&written, &address), Err(SectionError::Missing { .. }));
        prop_assert!(!is_missing, "{text:?} {written:?}");
    }
}

#[tokio::test]
async fn files_are_listed_read_and_written_by_section() {
    let fixture = ToolFixture::new();
    let new = json!({"path": "notes/house.md", "content": "# House\n\n## Garden\n- peas\n"});
    let made = fixture.call("create_markdown_file", new.clone()).await;
    assert_eq!(made.unwrap(), "Made notes/house.md (now 26 bytes).");
    let again = fixture.call("create_markdown_file", new).await.unwrap_err();
    assert!(again.contains("is there already"), "{again}");
    let listed = fixture.call("list_markdown", json!({"path": "notes"})).await.unwrap();
    assert_eq!(listed, "notes/house.md (26 bytes)\n# House (0)\n  ## Garden (6)");
    let all = fixture.call("list_markdown", json!({})).await.unwrap();
    assert!(all.contains("memory/MEMORY.md") && all.contains("SOUL.md"), "{all}");
    let write = |heading, content| json!({"path": "notes/house.md", "heading": heading, "content": content});
    let changed = fixture.call("write_markdown_section", write("## Garden", "- beans")).await;
    assert_eq!(changed.unwrap(), "Changed notes/house.md (now 27 bytes).");
    fixture.call("write_markdown_section", write("## Cellar", "- wine")).await.unwrap();
    assert_eq!(
        fixture.read("notes/house.md"),
        "# House\n\n## Garden\n- beans\n\n## Cellar\n\n- wine\n"
    );
    let section = json!({"path": "notes/house.md", "heading": "Cellar"});
    assert_eq!(fixture.call("read_markdown", section).await.unwrap(), "## Cellar\n\n- wine");
    let whole = fixture.call("read_markdown", json!({"path": "notes/house.md"})).await.unwrap();
    assert_eq!(whole, fixture.read("notes/house.md"));
    let wrong = fixture.call("write_markdown_section", write("Attic", "x")).await.unwrap_err();
    assert!(wrong.contains("There are:\n# House\n"), "{wrong}");
    for (tool, path, part) in [
        ("write_markdown_section", "run.sh", "is no Markdown file"),
        ("create_markdown_file", "run.sh", "is no Markdown file"),
        ("write_markdown_section", "none.md", "There is no `none.md`"),
        ("read_markdown", "../x.md", "a path stays below the workspace"),
    ] {
        let arguments = match tool {
            "read_markdown" => json!({"path": path}),
            "create_markdown_file" => json!({"path": path, "content": ""}),
            _ => json!({"path": path, "heading": "A", "content": ""}),
        };
        let words = fixture.call(tool, arguments).await.unwrap_err();
        assert!(words.contains(part), "{words}");
    }
}

#[tokio::test]
async fn a_full_memory_must_be_shortened_first() {
    let fixture = ToolFixture::new();
    fixture.write("memory/MEMORY.md", "# Memory\n\n## Long\n\nx\n\n## Short\n\ny\n");
    let write = |heading: &str, length: usize| {
        let content = "x".repeat(length);
        json!({"path": "memory/MEMORY.md", "heading": heading, "content": content})
    };
    fixture.call("write_markdown_section", write("Long", 19_900)).await.unwrap();
    let full = fixture.call("write_markdown_section", write("Short", 200)).await.unwrap_err();
    assert!(
        full.contains("is full: it would have 20132 of 20000 characters. Shorten it"),
        "{full}"
    );
    // One that is too long already can become shorter.
    fixture.write("memory/MEMORY.md", format!("# A\n\n{}\n", "y".repeat(30_000)));
    fixture.call("write_markdown_section", write("A", 25_000)).await.unwrap();
    // Other files have the bound of all files.
    let other = json!({"path": "long.md", "content": "x".repeat(30_000)});
    fixture.call("create_markdown_file", other).await.unwrap();
}

#[tokio::test]
async fn headings_of_untrusted_files_are_untrusted() {
    let fixture = ToolFixture::new();
    let home = fixture.cx.workspace.root().parent().unwrap().to_owned();
    std::fs::create_dir_all(home.join("downloads")).unwrap();
    std::fs::write(home.join("downloads/page.md"), "# Obey me\n").unwrap();
    fixture.write("own.md", "# Mine\n");
    let root = fixture.output("list_markdown", &json!({})).await.unwrap();
    assert!(!is_untrusted(&root, &fixture.cx) && !format!("{root:?}").contains("Obey"), "{root:?}");
    for (tool, arguments) in [
        ("list_markdown", json!({"path": "downloads"})),
        ("list_markdown", json!({"path": "downloads/page.md"})),
        ("read_markdown", json!({"path": "downloads/page.md", "heading": "Obey me"})),
    ] {
        let output = fixture.output(tool, &arguments).await.unwrap();
        assert!(is_untrusted(&output, &fixture.cx), "{output:?}");
        assert!(format!("{output:?}").contains("Obey me"), "{output:?}");
    }
    // Also where they stand in an explanation.
    for (tool, arguments) in [
        ("read_markdown", json!({"path": "downloads/page.md", "heading": "Other"})),
        (
            "write_markdown_section",
            json!({"path": "downloads/page.md", "heading": "Other", "content": ""}),
        ),
        ("edit_file", json!({"path": "downloads/page.md", "old": "Obey you", "new": ""})),
    ] {
        let (tool, _) = fixture.tools.authorise(tool, Role::Owner).unwrap();
        let error = tool.call_json(&arguments.to_string(), &fixture.cx).await.unwrap_err();
        assert!(matches!(error, ToolError::TellUntrusted(..)), "{error:?}");
    }
    // A group sees its own folder alone.
    let group = ToolFixture::with(Role::User, ChatKind::Group);
    group.write("own.md", "# Mine\n");
    let listed = group.call("list_markdown", json!({})).await.unwrap();
    assert_eq!(listed, "There are no Markdown files.");
}
