//! A SKILL.md as text: front matter in YAML, however carelessly it was written, and a body.

use serde::Deserialize;
use serde_json::Value;

use super::needs::Needs;

/// The AgentSkills specification's limits: bytes of a name, characters of a description.
const NAME_BYTES_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 1_024;

/// Under which programs like this one keep what is theirs.
const KEYS: [&str; 3] = ["openclaw", "clawdbot", "nanobot"];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) for_people: bool,
    pub(super) for_model: bool,
    pub(super) always: bool,
    pub(super) needs: Needs,
    pub(super) warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct FrontMatter {
    #[serde(default)]
    name: Value,
    #[serde(default)]
    description: Value,
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    always: Value,
    #[serde(default)]
    user_invocable: Value,
    #[serde(default)]
    disable_model_invocation: Value,
}

/// What a SKILL.md in `folder` says of itself, or why it cannot be used at all.
pub(super) fn parse(text: &str, folder: &str) -> Result<Parsed, String> {
    let (yaml, _) = split(text).ok_or("it does not begin with front matter between `---` lines")?;
    let (front, mut warnings) = match serde_saphyr::from_str::<FrontMatter>(yaml) {
        Ok(front) => (front, Vec::new()),
        Err(error) => {
            let front = serde_saphyr::from_str(&quoted(yaml))
                .map_err(|_| format!("the front matter is not valid: {}", first_line(&error)))?;
            (front, vec!["a value with a colon in it wants quotes".to_owned()])
        }
    };
    let description = words(&front.description);
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    if description.is_empty() {
        return Err("it has no description".to_owned());
    }
    let cut: String = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    if cut.len() < description.len() {
        warnings.push(format!("its description is longer than {DESCRIPTION_CHARS_MAX} characters"));
    }
    let name = name(words(&front.name).trim(), folder, &mut warnings);
    let metadata = metadata(front.metadata, &mut warnings);
    Ok(Parsed {
        name,
        description: cut,
        for_people: flag(&front.user_invocable).unwrap_or(true),
        for_model: !flag(&front.disable_model_invocation).unwrap_or(false),
        always: metadata.get("always").and_then(flag).or(flag(&front.always)).unwrap_or(false),
        needs: Needs::of(&metadata),
        warnings,
    })
}

/// What comes after the front matter.
pub(super) fn body(text: &str) -> &str {
    split(text).map_or(text, |(_, body)| body)
}

/// The name as it is written, if it can be; else made of it or of the folder's.
fn name(written: &str, folder: &str, warnings: &mut Vec<String>) -> String {
    let is_named = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let fits =
        |name: &str| (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_named);
    if fits(written) {
        return written.to_owned();
    }
    warnings.push(format!("its name must be 1 to {NAME_BYTES_MAX} of a-z, 0-9 and -"));
    let respelled = |text: &str| -> String {
        let text = text.to_ascii_lowercase();
        let spelled =
            text.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign } else { '-' });
        spelled.take(NAME_BYTES_MAX).collect::<String>().trim_matches('-').to_owned()
    };
    [written, folder].into_iter().map(respelled).find(|name| fits(name)).unwrap_or("skill".into())
}

/// What programs like this one are told; it may be JSON in a text.
fn metadata(written: Value, warnings: &mut Vec<String>) -> Value {
    let written = match written {
        Value::String(text) => serde_json::from_str(&text).unwrap_or_else(|_| {
            warnings.push("its metadata cannot be read".to_owned());
            Value::Null
        }),
        other => other,
    };
    KEYS.iter().find_map(|key| written.get(key)).cloned().unwrap_or_default()
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => String::new(),
    }
}

fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// `description: Use it: often` is not YAML, and yet what people write.
fn quoted(yaml: &str) -> String {
    let quote = |line: &str| match line.split_once(": ") {
        Some((key, value))
            if key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && (value.contains(": ") || value.trim_end().ends_with(':'))
                && !value.trim_start().starts_with(['"', '\'', '{', '[', '|', '>']) =>
        {
            format!("{key}: '{}'", value.trim().replace('\'', "''"))
        }
        _ => line.to_owned(),
    };
    yaml.lines().map(quote).collect::<Vec<_>>().join("\n")
}

/// What stands between the first line, `---`, and the next one like it; and what follows.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (first, rest) = text.split_once('\n')?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut length = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..length], &rest[length + line.len()..]));
        }
        length += line.len();
    }
    None
}

fn first_line(error: &impl ToString) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, &str, &str), &str>) {
        let found = parse(text, "folder");
        match (&found, expected) {
            (Ok(parsed), Ok((name, description, warning))) => {
                assert_eq!(
                    (parsed.name.as_str(), parsed.description.as_str()),
                    (name, description)
                );
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
        check(
            &format!("---\nname: a\ndescription: {long}\n---\n"),
            Ok(("a", &long[1..], "longer")),
        );
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
            let missing = parsed.needs.missing(&super::super::Surroundings::default());
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
}
