//! SKILL.md as text, however carelessly it was written.

use peacrab::workspace::skills::SkillEnvironment;
use peacrab::workspace::skills::format::parse;

#[track_caller]
fn check(text: &str, expected: Result<(&str, &str, &str), &str>) {
    let found = parse(text, "folder");
    match (&found, expected) {
        (Ok(parsed), Ok((name, description, warning))) => {
            assert_eq!((parsed.name.as_str(), parsed.description.as_str()), (name, description));
            assert!(parsed.warnings.join("; ").contains(warning), "{:?}", parsed.warnings);
            assert_eq!(parsed.warnings.is_empty(), warning.is_empty(), "{:?}", parsed.warnings);
        }
        (Err(reason), Err(part)) if reason.contains(part) => {}
        _ => panic!("{found:?} is not {expected:?}"),
    }
}

#[test]
fn reads_name_and_description_however_they_are_written() {
    check("---\nname: a-1\ndescription: Does it.\n---\nBody", Ok(("a-1", "Does it.", "")));
    check("---\r\nname: a\r\ndescription: 'x: y'\r\n---\r\n", Ok(("a", "x: y", "")));
    check(
        "---\nname: a\ndescription: >\n  two\n  lines\nmetadata: {x: [1]}\n---\n",
        Ok(("a", "two lines", "")),
    );
}

#[test]
fn reads_a_value_with_a_colon_as_if_it_were_quoted() {
    check(
        "---\nname: a\ndescription: Use when: it's asked: now\n---\n",
        Ok(("a", "Use when: it's asked: now", "quotes")),
    );
}

#[test]
fn takes_what_is_nearly_right_and_says_so() {
    check("---\nname: A b\ndescription: x\n---\n", Ok(("a-b", "x", "name must be")));
    check("---\ndescription: x\n---\n", Ok(("folder", "x", "name must be")));
    check("---\nname: a\nmetadata: '{'\ndescription: x\n---\n", Ok(("a", "x", "metadata")));
    let long = "x".repeat(1_025);
    check(&format!("---\nname: a\ndescription: {long}\n---\n"), Ok(("a", &long[1..], "longer")));
}

#[test]
fn says_why_a_skill_is_broken() {
    check("# No front matter", Err("front matter"));
    check("---\nname: a\n", Err("front matter"));
    check("---\nname: a\n---\n", Err("no description"));
    check("---\nname: [a\ndescription: x\n---\n", Err("not valid"));
}

#[test]
fn reads_metadata_as_a_map_and_as_json_in_a_text() {
    for metadata in [
        "metadata: {openclaw: {always: true, requires: {bins: [no-such]}}}",
        "metadata: '{\"nanobot\":{\"always\":true,\"requires\":{\"bins\":[\"no-such\"]}}}'",
        "metadata:\n  clawdbot:\n    always: true\n    requires:\n      bins:\n        - no-such",
    ] {
        let text = format!("---\nname: a\ndescription: x\n{metadata}\n---\n");
        let parsed = parse(&text, "").unwrap();
        assert!(parsed.always, "{metadata}");
        let missing = parsed.needs.missing(&SkillEnvironment::default());
        assert_eq!(missing.unwrap(), "it needs the program no-such", "{metadata}");
    }
}

#[test]
fn refuses_aliases_that_would_fill_the_memory() {
    let mut yaml = "---\na0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for n in 1..40 {
        let alias = format!("*a{}", n - 1);
        yaml += &format!("a{n}: &a{n} [{}]\n", vec![alias; 9].join(","));
    }
    check(&(yaml + "name: a\ndescription: x\n---\n"), Err("not valid"));
}
