//! A SKILL.md as text: front matter in YAML, however carelessly it was written, and a body.

use serde::Deserialize;
use serde_json::Value;

use super::needs::SkillNeeds;
use crate::short_text::one_line;

/// The AgentSkills specification's limits: bytes of a name, characters of a description.
const NAME_BYTES_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 1_024;

/// Under which programs like this one keep what is theirs.
const KEYS: [&str; 3] = ["openclaw", "clawdbot", "nanobot"];

/// The front matter of a SKILL.md, and what was odd about it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ParsedSkill {
    pub name: String,
    pub description: String,
    pub for_people: bool,
    pub for_model: bool,
    pub always: bool,
    pub needs: SkillNeeds,
    pub warnings: Vec<String>,
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

/// The front matter of a SKILL.md in `folder`, or a sentence why the skill cannot be used at all.
pub fn parse(text: &str, folder: &str) -> Result<ParsedSkill, String> {
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
    let description = one_line(&description);
    if description.is_empty() {
        return Err("it has no description".to_owned());
    }
    let cut: String = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    if cut.len() < description.len() {
        warnings.push(format!("its description is longer than {DESCRIPTION_CHARS_MAX} characters"));
    }
    let name = name(words(&front.name).trim(), folder, &mut warnings);
    let metadata = metadata(front.metadata, &mut warnings);
    Ok(ParsedSkill {
        name,
        description: cut,
        for_people: flag(&front.user_invocable).unwrap_or(true),
        for_model: !flag(&front.disable_model_invocation).unwrap_or(false),
        always: metadata.get("always").and_then(flag).or(flag(&front.always)).unwrap_or(false),
        needs: SkillNeeds::of(&metadata),
        warnings,
    })
}

/// Returns the text after the front matter.
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

/// Returns the metadata for programs like this one; it may be JSON in a text.
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

/// Splits a text into the lines between the first `---` and the next one, and the rest.
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
