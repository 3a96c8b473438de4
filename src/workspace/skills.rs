//! The catalogue of skills, in the format that other assistants share: name and description of each
//! `NAME/SKILL.md`, and whether it can be used here. A body is read when it is needed.
//!
//! Of skills of one name the first place wins: the workspace's `skills`, its `.agents/skills`, the
//! home folder's `.agents/skills`, and, where the workspace has no `skills` at all, those that ship.

pub mod format;
pub mod needs;
mod skill;

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::snapshot::cut_middle;
use super::stamp::Stamp;
use super::template::TEMPLATE;
use super::{EntryKind, FileError, ListingEntry, Workspace, WorkspacePath};
use format::ParsedSkill;
pub use needs::SkillEnvironment;
pub use skill::{BrokenSkill, Catalogue, Skill, SkillPlace};
pub(super) use skill::{IN_WORKSPACE, SkillCache};
use skill::{ListedSkill, SHIPPED};

/// Maximum number of skills. A folder full of skills cannot fill the prompt.
const SKILLS_MAX: usize = 100;

/// Maximum length of the front matter, in bytes.
const FRONT_MATTER_BYTES_MAX: u64 = 16 * 1024;

/// Maximum size of a SKILL.md in bytes, and of the part of its body that a model gets at once, in characters.
const SKILL_BYTES_MAX: u64 = 256 * 1024;
const BODY_CHARS_MAX: usize = 20_000;

/// Maximum length of a body that is in every prompt, in characters, and maximum number of such skills.
const ALWAYS_CHARS_MAX: usize = 4_000;
const ALWAYS_MAX: usize = 3;

/// Returns the present skills of the workspace. Only changed files are read.
pub fn catalogue(workspace: &Workspace) -> Catalogue {
    let mut cache = workspace.0.skills.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let stamps: Vec<_> = places(workspace, &mut cache.listed)
        .into_iter()
        .map(|place| (place.clone(), stamp(workspace, &place)))
        .collect();
    if cache.stamps.as_ref() != Some(&stamps) {
        cache.catalogue = read_all(workspace, stamps.iter().map(|(place, _)| place));
        let is_settled = stamps.iter().filter_map(|(_, stamp)| *stamp).all(|it| it.is_settled())
            && !workspace.has_blocked_instructions();
        cache.stamps = is_settled.then_some(stamps);
    }
    let mut catalogue = cache.catalogue.clone();
    drop(cache);
    // A program may be installed without any skill being changed.
    for skill in &mut catalogue.skills {
        skill.missing = skill.needs.missing(&workspace.0.skill_environment);
    }
    catalogue
}

/// A skill's body as a model is given it, with its folder in place of `{baseDir}`.
///
/// # Errors
/// In words: it cannot be read.
pub fn body(workspace: &Workspace, skill: &Skill) -> Result<String, String> {
    let text = whole(workspace, &skill.place, SKILL_BYTES_MAX)?;
    let body = format::body(&text).trim().replace("{baseDir}", &skill.place.base_dir());
    Ok(cut_middle(&body, BODY_CHARS_MAX, &skill.name))
}

/// The workspace's folders of skills, listed again only if they have changed.
fn listed<'a>(workspace: &Workspace, known: &'a mut Option<ListedSkill>) -> &'a ListedSkill {
    let stamps = IN_WORKSPACE.map(|folder| super::snapshot::stamp(workspace, folder));
    let is_settled = stamps.iter().flatten().all(Stamp::is_settled);
    if let Some(listed) = known.take_if(|it| is_settled && it.stamps == stamps) {
        return known.insert(listed);
    }
    let mut listed = ListedSkill { stamps, places: Vec::new(), have_own: false };
    for folder in IN_WORKSPACE {
        let path: WorkspacePath = folder.parse().expect("a path");
        let listing = match workspace.list(Some(&path)) {
            Ok(listing) => listing,
            Err(FileError::Missing(_)) => continue,
            // The skills of a folder that cannot be read stay in force.
            Err(_) => {
                let known = workspace.known_instructions(&path);
                listed.have_own |= folder == SHIPPED;
                listed.places.extend(known.into_iter().map(SkillPlace::Workspace));
                continue;
            }
        };
        listed.have_own |= folder == SHIPPED;
        for ListingEntry { name, kind } in listing.entries {
            if matches!(kind, EntryKind::Folder | EntryKind::Link)
                && let Ok(path) = format!("{folder}/{name}/SKILL.md").parse()
            {
                listed.places.push(SkillPlace::Workspace(path));
            }
        }
    }
    known.insert(listed)
}

/// Every place where a skill is expected, in order.
fn places(workspace: &Workspace, known: &mut Option<ListedSkill>) -> Vec<SkillPlace> {
    let listed = listed(workspace, known);
    let (mut places, have_own) = (listed.places.clone(), listed.have_own);
    if let Some(home) = &workspace.0.skill_environment.home {
        places.extend(folders(&home.join(".agents/skills")).into_iter().map(SkillPlace::Home));
    }
    if !have_own && let Some(shipped) = TEMPLATE.get_dir(SHIPPED) {
        let names = shipped.dirs().filter_map(|dir| dir.path().file_name()?.to_str());
        places.extend(names.map(|name| SkillPlace::Shipped(name.to_owned())));
    }
    places.truncate(SKILLS_MAX + 1);
    places
}

/// The SKILL.md of each folder in one that need not be there, or be readable.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.take(SKILLS_MAX * 10).flatten().map(|entry| entry.path());
    let mut found: Vec<_> =
        entries.filter(|path| path.is_dir()).map(|path| path.join("SKILL.md")).collect();
    found.sort();
    found
}

fn stamp(workspace: &Workspace, place: &SkillPlace) -> Option<Stamp> {
    match place {
        SkillPlace::Workspace(path) => super::snapshot::stamp(workspace, path.as_str()),
        SkillPlace::Home(path) => fs::metadata(path).ok().as_ref().map(Stamp::from),
        SkillPlace::Shipped(_) => None,
    }
}

fn read_all<'a>(workspace: &Workspace, places: impl Iterator<Item = &'a SkillPlace>) -> Catalogue {
    let mut catalogue = Catalogue::default();
    let mut always = 0;
    for (count, place) in places.enumerate() {
        if count == SKILLS_MAX {
            let reason = format!("there are more than {SKILLS_MAX} skills");
            catalogue.broken.push(BrokenSkill { path: place.to_string(), reason });
            break;
        }
        match read(workspace, place, always < ALWAYS_MAX) {
            Ok(skill) if catalogue.find(&skill.name).is_some() => {}
            Ok(skill) => {
                always += usize::from(skill.always.is_some());
                catalogue.skills.push(skill);
            }
            Err(reason) => catalogue.broken.push(BrokenSkill { path: place.to_string(), reason }),
        }
    }
    catalogue.skills.sort_by(|one, other| one.name.cmp(&other.name));
    catalogue
}

fn read(workspace: &Workspace, place: &SkillPlace, may_always: bool) -> Result<Skill, String> {
    let text = whole(workspace, place, FRONT_MATTER_BYTES_MAX)?;
    let base_dir = place.base_dir();
    let folder = base_dir.rsplit('/').next().unwrap_or_default();
    let parsed = format::parse(&text, folder)?;
    let ParsedSkill { name, description, for_people, for_model, needs, mut warnings, .. } = parsed;
    let place = place.clone();
    let missing = None;
    let always = None;
    let mut skill = Skill {
        name,
        description,
        place,
        for_people,
        for_model,
        always,
        warnings: Vec::new(),
        missing,
        needs,
    };
    if parsed.always && may_always {
        skill.always =
            Some(cut_middle(&body(workspace, &skill)?, ALWAYS_CHARS_MAX, &skill.name).into());
    } else if parsed.always {
        warnings
            .push(format!("{ALWAYS_MAX} others are in every prompt; this one is read on demand"));
    }
    skill.warnings = warnings;
    Ok(skill)
}

/// A SKILL.md up to so many bytes.
fn whole(workspace: &Workspace, place: &SkillPlace, max: u64) -> Result<String, String> {
    let text = match place {
        // The model will read it for anybody, and the catalogue is shown to all.
        SkillPlace::Workspace(path) => {
            let text = workspace.public_instruction(path, SKILL_BYTES_MAX);
            let missing = || FileError::Missing(path.clone()).to_string();
            text.map_err(|error| error.to_string())?.ok_or_else(missing)?
        }
        SkillPlace::Home(path) => {
            let bytes =
                read_home(path, max).map_err(|error| format!("it cannot be read: {error}"))?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
        SkillPlace::Shipped(name) => {
            let file = TEMPLATE.get_file(format!("{SHIPPED}/{name}/SKILL.md"));
            String::from_utf8_lossy(file.ok_or("it has no SKILL.md")?.contents()).into_owned()
        }
    };
    let end = text.floor_char_boundary(usize::try_from(max).unwrap_or(usize::MAX));
    Ok(text[..end].to_owned())
}

/// Reads a regular file outside of the workspace, without waiting for the other end of a pipe.
fn read_home(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let file = fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}
