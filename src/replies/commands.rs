//! Answers to commands that set or list something.

use std::fmt::Write as _;
use std::path::Path;

use super::as_is;
use crate::short_text::shortened;

// Settings of a conversation.

pub const NOT_YOURS_TO_SET: &str = "In a group, only an admin can change how I work here.";
pub const NOT_FOR_GUESTS: &str = "Guests can't change how I work.";

/// A model that can be chosen.
pub struct ModelShown<'a> {
    pub name: &'a str,
    /// Its section and model together.
    pub shown: &'a str,
    pub chosen: bool,
    pub is_default: bool,
}

pub fn models(models: &[ModelShown<'_>]) -> String {
    let chosen = models.iter().any(|model| model.chosen);
    let mut text = "Models:".to_owned();
    for (at, model) in models.iter().enumerate() {
        let state = match (model.chosen, model.is_default) {
            (true, _) => ", answers here",
            (false, true) if at == 0 && !chosen => ", answers here (the default)",
            (false, true) if at == 0 => ", the default",
            (false, true) => ", a fallback",
            (false, false) => "",
        };
        let _ = write!(text, "\n{}{state}", model.shown);
    }
    match models.first() {
        None => "There is no model to choose from.".to_owned(),
        Some(first) => {
            let _ = write!(text, "\nUse /model {} or /model default to change it.", first.name);
            text
        }
    }
}

pub fn unknown_model(asked: &str) -> String {
    let asked = as_is(asked);
    format!("There is no model {asked} in my config. /model lists the models.")
}

pub fn model_is(model: &str) -> String {
    format!("{model} now answers here. The others are its fallbacks.")
}

pub fn effort_is(effort: &str) -> String {
    match effort {
        "default" => "Thinking is now at the model's default.".to_owned(),
        "off" => "The model now thinks as little as possible before it answers.".to_owned(),
        effort => format!("The model now thinks before it answers: {effort}."),
    }
}

pub fn thinking_shown(shown: bool) -> &'static str {
    if shown {
        "I'll show the model's thinking above its answers, if its service reveals it."
    } else {
        "I won't show the model's thinking."
    }
}

pub fn thinking_is(effort: &str, shown: bool) -> String {
    let shown = if shown { "shown" } else { "not shown" };
    format!(
        "Thinking: {effort}, {shown}.\nUse /think off, low, medium, high or default to change it, and /think show or hide."
    )
}

pub fn queue_is(mode: &str) -> String {
    let what = match mode {
        "steer" => "I'll read your new messages at my next step",
        "followup" => "your new messages wait, and I'll answer them one by one",
        "collect" => "your new messages wait, and I'll answer them together",
        _ => "a new message makes me stop and answer it",
    };
    format!(
        "While I work for you, {what} ({mode}).\n\
         Use /queue steer, followup, collect, interrupt or default to change it."
    )
}

/// Maximum length of a model's thinking in a message, in characters.
const THOUGHT_CHARS_MAX: usize = 1_500;

/// The model's thinking, as a quotation above its answer.
pub fn quoted_thinking(text: &str) -> String {
    let shown = shortened(text.trim(), THOUGHT_CHARS_MAX);
    let lines: Vec<_> = shown.lines().map(|line| format!("> {line}")).collect();
    lines.join("\n")
}

// Questions aside.

pub const BTW_USAGE: &str =
    "Use /btw with a question. I'll answer it separately, even while I'm working.";
pub const BTW_BUSY: &str =
    "I'm still answering your last /btw question. Please ask again once it is answered.";
pub const BTW_CROWDED: &str =
    "I'm answering too many /btw questions right now. Please ask again in a minute.";
pub const BTW_INTERRUPTED: &str = "A restart interrupted your /btw question. Please ask it again.";
pub const BTW_TOO_SLOW: &str =
    "The model took too long to answer your /btw question. Please ask it again.";

// Skills.

pub const SKILL_USAGE: &str = "Use /skill NAME, followed by your task. /skills lists my skills.";

/// Maximum length of a skill's description in a list, in characters.
const ABOUT_CHARS_MAX: usize = 120;

/// A skill as people are shown it.
pub struct SkillShown<'a> {
    pub name: &'a str,
    pub about: &'a str,
    pub always: bool,
    pub for_people: bool,
    pub for_model: bool,
    pub missing: Option<&'a str>,
    pub warnings: &'a [String],
}

pub fn no_skill(name: &str) -> String {
    let name = as_is(name);
    format!("There is no skill {name} for /skill. /skills lists my skills.")
}

pub fn skill_unusable(name: &str, reason: &str) -> String {
    format!("The skill {name} can't be used here: {}.", as_is(reason))
}

pub fn skills(skills: &[SkillShown<'_>], broken: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for skill in skills {
        let about = as_is(shortened(skill.about, ABOUT_CHARS_MAX));
        let state = match (skill.missing, skill.for_model, skill.for_people) {
            (Some(missing), ..) => format!("can't be used: {}", as_is(missing)),
            (None, true, _) if skill.always => "always active".to_owned(),
            (None, true, true) => "ready".to_owned(),
            (None, true, false) => "ready, but not with /skill".to_owned(),
            (None, false, true) => "only with /skill".to_owned(),
            (None, false, false) => "switched off".to_owned(),
        };
        let _ = writeln!(text, "{} ({state}): {about}", skill.name);
        for warning in skill.warnings {
            let _ = writeln!(text, "  note: {}", as_is(warning));
        }
    }
    for (path, reason) in broken {
        let _ = writeln!(text, "{} was skipped: {}", as_is(path), as_is(reason));
    }
    if text.is_empty() { "There are no skills.".to_owned() } else { text.trim_end().to_owned() }
}

// Restarting.

pub const RESTARTING: &str = "I'm restarting. I'll continue my work right after.";

pub fn restarted(version: &str) -> String {
    format!("I'm back (Peacrab {version}).")
}

pub const CANNOT_RESTART: &str = "I can't restart by myself, because nothing here would start me again: I run neither as a systemd service nor in my \
     Docker image. Please restart me by hand; for a changed config, `peacrab reload` is enough.";

/// Tells the owner that there is no restart. `kept` is the file with the config that works.
pub fn restart_refused(reason: &str, kept: Option<&Path>) -> String {
    let kept = kept.map(|file| format!("\nThe config that I use is kept in {}.", file.display()));
    format!(
        "I'm not restarting, because I couldn't start again with my changed config. Please correct it and send /restart \
         again:\n{reason}{}\nA variable that you have just added to my service's environment counts only after a restart \
         by hand.",
        kept.unwrap_or_default()
    )
}

/// In a group, where the reason is not told.
pub const RESTART_REFUSED: &str = "I'm not restarting, because I couldn't start again with my changed config. The reason is in the owner's private chat, and \
     `peacrab check` shows it.";

// Commands that do not exist.

pub fn unknown_command(typed: &str, meant: Option<&str>) -> String {
    let typed = super::as_is(typed);
    match meant {
        Some(meant) => {
            format!("I don't know {typed}. Did you mean /{meant}? /help lists my commands.")
        }
        None => format!("I don't know {typed}. /help lists my commands."),
    }
}
