//! The list of skills for people: each with its purpose, and with the reason if it cannot be used.

use serde_json::json;

use crate::replies::{self, SkillShown};
use crate::workspace::{Workspace, skills};

/// Returns the text of `/skills` and of the command line.
pub fn skills_text(workspace: &Workspace) -> String {
    let catalogue = skills::catalogue(workspace);
    let skills = catalogue.skills.iter().map(|skill| SkillShown {
        name: &skill.name,
        about: &skill.description,
        always: skill.always.is_some(),
        for_people: skill.for_people,
        for_model: skill.for_model,
        missing: skill.missing.as_deref(),
        warnings: &skill.warnings,
    });
    let broken = catalogue.broken.iter().map(|it| (it.path.as_str(), it.reason.as_str()));
    replies::skills(&skills.collect::<Vec<_>>(), &broken.collect::<Vec<_>>())
}

/// Returns the list of skills as JSON, for scripts.
pub fn skills_json(workspace: &Workspace) -> String {
    let catalogue = skills::catalogue(workspace);
    let skills = catalogue.skills.iter().map(|skill| {
        json!({
            "name": skill.name, "about": skill.description, "for_people": skill.for_people,
            "for_model": skill.for_model, "missing": skill.missing, "warnings": skill.warnings,
        })
    });
    let broken = catalogue.broken.iter();
    let broken = broken.map(|it| json!({ "path": it.path, "reason": it.reason }));
    let listed = json!({
        "skills": skills.collect::<Vec<_>>(), "broken": broken.collect::<Vec<_>>(),
    });
    format!("{listed:#}")
}
