//! The catalogue of skills: the name and description of each `skills/NAME/SKILL.md`. Their bodies
//! are read by the model, with the tool that reads files, when it needs one.

use serde::Deserialize;

use super::{Entry, EntryKind, FileError, Workspace, WorkspacePath};

/// So that a folder full of skills cannot fill the prompt.
const SKILLS_MAX: usize = 100;

/// The AgentSkills specification's limits: bytes of a name, characters of a description.
const NAME_BYTES_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 1_024;

/// Where the front matter must have ended, in bytes.
const FRONT_MATTER_BYTES_MAX: u64 = 16 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    /// On one line.
    pub description: String,
    pub path: WorkspacePath,
}

/// All skills by name, and those that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    pub skills: Vec<Skill>,
    pub broken: Vec<Broken>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub path: String,
    /// For the operator.
    pub reason: String,
}

#[derive(Deserialize)]
struct FrontMatter {
    name: Option<String>,
    description: Option<String>,
}

/// The skills of the workspace as they are now.
pub fn catalogue(workspace: &Workspace) -> Catalogue {
    let mut catalogue = Catalogue::default();
    let folder: WorkspacePath = "skills".parse().expect("a path");
    let Ok(listing) = workspace.list(Some(&folder)) else { return catalogue };
    for Entry { name, kind } in listing.entries {
        let path = format!("skills/{name}/SKILL.md");
        if matches!(kind, EntryKind::File(_) | EntryKind::Special) {
            continue;
        }
        if catalogue.skills.len() == SKILLS_MAX {
            let reason = format!("there are more than {SKILLS_MAX} skills");
            catalogue.broken.push(Broken { path, reason });
            break;
        }
        match skill(workspace, &path) {
            Ok(skill) => catalogue.skills.push(skill),
            Err(reason) => catalogue.broken.push(Broken { path, reason }),
        }
    }
    catalogue.skills.sort_by(|one, other| one.name.cmp(&other.name));
    catalogue
}

fn skill(workspace: &Workspace, path: &str) -> Result<Skill, String> {
    let path: WorkspacePath = path.parse().map_err(|error| format!("{error}"))?;
    // The model will read it for anybody, and the catalogue is shown to all.
    let found = workspace.resolve(&path).map_err(|error| error.to_string())?;
    if found.is_private() {
        return Err(FileError::Private(found).to_string());
    }
    let page =
        workspace.read_page(&path, 0, FRONT_MATTER_BYTES_MAX).map_err(|error| error.to_string())?;
    let (name, description) = parse(&String::from_utf8_lossy(&page.bytes))?;
    Ok(Skill { name, description, path })
}

/// Name and description of a SKILL.md, or why it has none.
fn parse(text: &str) -> Result<(String, String), String> {
    let yaml =
        front_matter(text).ok_or("it does not begin with front matter between `---` lines")?;
    let FrontMatter { name, description } = serde_saphyr::from_str(yaml)
        .map_err(|error| format!("the front matter is not valid: {}", first_line(&error)))?;
    let name = name.unwrap_or_default();
    let is_named = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_named) {
        return Err(format!("its name must be 1 to {NAME_BYTES_MAX} of a-z, 0-9 and -"));
    }
    let description = description.unwrap_or_default();
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    match description.chars().count() {
        0 => Err("it has no description".to_owned()),
        length if length > DESCRIPTION_CHARS_MAX => {
            Err(format!("its description is longer than {DESCRIPTION_CHARS_MAX} characters"))
        }
        _ => Ok((name, description)),
    }
}

/// What stands between the first line, `---`, and the next one like it.
fn front_matter(text: &str) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (first, rest) = text.split_once('\n')?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut length = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some(&rest[..length]);
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
    use super::parse;

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, &str), &str>) {
        let found = parse(text);
        match (&found, expected) {
            (Ok((name, description)), Ok(expected)) => {
                assert_eq!((name.as_str(), description.as_str()), expected);
            }
            (Err(reason), Err(part)) if reason.contains(part) => {}
            _ => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn reads_name_and_description_however_they_are_written() {
        check("---\nname: a-1\ndescription: Does it.\n---\nBody", Ok(("a-1", "Does it.")));
        check("---\r\nname: a\r\ndescription: 'x: y'\r\n---\r\n", Ok(("a", "x: y")));
        check(
            "---\nname: a\ndescription: >\n  two\n  lines\nmetadata: {x: [1]}\n---\n",
            Ok(("a", "two lines")),
        );
    }

    #[test]
    fn says_why_a_skill_is_broken() {
        check("# No front matter", Err("front matter"));
        check("---\nname: a\n", Err("front matter"));
        check("---\nname: a\n---\n", Err("no description"));
        check("---\nname: A b\ndescription: x\n---\n", Err("name must be"));
        check("---\nname: [a\ndescription: x\n---\n", Err("not valid"));
        check(&format!("---\nname: a\ndescription: {}\n---\n", "x".repeat(1_025)), Err("longer"));
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
