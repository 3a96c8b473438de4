//! A skill, its place, and the catalogue of all. Data only: `skills` reads the files.

use std::path::PathBuf;
use std::sync::Arc;

use super::needs::SkillNeeds;
use crate::workspace::WorkspacePath;
use crate::workspace::stamp::Stamp;

/// The folder of skills that come with the program.
pub(super) const SHIPPED: &str = "skills";

/// The workspace's folders of skills.
pub(in crate::workspace) const IN_WORKSPACE: [&str; 2] = ["skills", ".agents/skills"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    /// On one line.
    pub description: String,
    pub place: SkillPlace,
    /// True if people may begin a turn with it.
    pub for_people: bool,
    /// True if the model is told of it.
    pub for_model: bool,
    /// The body, if it is to be in every prompt.
    pub always: Option<Arc<str>>,
    /// Faults that do not prevent its use.
    pub warnings: Vec<String>,
    /// Why it cannot be used here; none if it can.
    pub missing: Option<String>,
    pub(super) needs: SkillNeeds,
}

/// The place of a SKILL.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillPlace {
    Workspace(WorkspacePath),
    /// A file outside of the workspace, which no tool for files can open.
    Home(PathBuf),
    /// A file that is part of the program.
    Shipped(String),
}

/// All skills by name, and those that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    pub skills: Vec<Skill>,
    pub broken: Vec<BrokenSkill>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenSkill {
    pub path: String,
    /// The explanation for the operator.
    pub reason: String,
}

/// The catalogue as it was read last, and of which files.
#[derive(Default)]
pub(in crate::workspace) struct SkillCache {
    /// The skills of the workspace's folders, while these are unchanged.
    pub(super) listed: Option<ListedSkill>,
    pub(super) stamps: Option<Vec<(SkillPlace, Option<Stamp>)>>,
    pub(super) catalogue: Catalogue,
}

/// Folders of skills in the workspace, and what they hold.
pub(super) struct ListedSkill {
    pub(super) stamps: [Option<Stamp>; IN_WORKSPACE.len()],
    pub(super) places: Vec<SkillPlace>,
    /// The workspace has skills of its own, or none on purpose.
    pub(super) have_own: bool,
}

impl Catalogue {
    /// The skills that a model is told of, but for those that are in every prompt anyway.
    pub fn for_model(&self) -> impl Iterator<Item = &Skill> {
        self.skills.iter().filter(|skill| skill.for_model && skill.missing.is_none())
    }

    pub fn find(&self, name: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.name.eq_ignore_ascii_case(name))
    }
}

impl SkillPlace {
    /// Returns the replacement for its folder in its body.
    pub fn base_dir(&self) -> String {
        match self {
            Self::Workspace(path) => path.parent().map_or_else(String::new, |it| it.to_string()),
            Self::Home(path) => path.parent().unwrap_or(path).display().to_string(),
            Self::Shipped(name) => format!("{SHIPPED}/{name}"),
        }
    }
}

impl std::fmt::Display for SkillPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Workspace(path) => path.fmt(f),
            Self::Home(path) => path.display().fmt(f),
            Self::Shipped(name) => write!(f, "{name} (shipped)"),
        }
    }
}
