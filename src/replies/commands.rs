//! What the bot says of commands that set something or list something.

use std::fmt::Write as _;

use super::as_is;

// Settings of a conversation.

pub const NOT_YOURS_TO_SET: &str = "In a group, only an admin can change how I work here.";
pub const NOT_FOR_GUESTS: &str = "Guests can't change how I work.";

/// A model that can be chosen.
pub struct ModelShown<'a> {
    pub name: &'a str,
    /// Its section and model together.
    pub shown: &'a str,
    pub chosen: bool,
    pub in_line: bool,
}

pub fn models(models: &[ModelShown<'_>]) -> String {
    let chosen = models.iter().any(|model| model.chosen);
    let mut text = "Models:".to_owned();
    for (at, model) in models.iter().enumerate() {
        let state = match (model.chosen, model.in_line) {
            (true, _) => ", answers here",
            (false, true) if at == 0 && !chosen => ", answers here (the default)",
            (false, true) if at == 0 => ", the default",
            (false, true) => ", steps in",
            (false, false) => "",
        };
        let _ = write!(text, "\n{}{state}", model.shown);
    }
    match models.first() {
        None => "There is no model to choose.".to_owned(),
        Some(first) => {
            let _ = write!(text, "\nSay /model {} or /model default.", first.name);
            text
        }
    }
}

pub fn unknown_model(asked: &str) -> String {
    let asked = as_is(asked);
    format!("There is no model {asked} in my config. /model shows those that there are.")
}

pub fn model_is(model: &str) -> String {
    format!("{model} answers here now. If it can't, the others step in.")
}

pub fn effort_is(effort: &str) -> String {
    match effort {
        "default" => "The model thinks as it does by itself.".to_owned(),
        "off" => "The model does not think before it answers, or as little as it can.".to_owned(),
        effort => format!("The model thinks before it answers: {effort}."),
    }
}

pub fn thinking_shown(shown: bool) -> &'static str {
    if shown {
        "I'll show what the model thinks, above its answers, where it tells."
    } else {
        "I keep to myself what the model thinks."
    }
}

pub fn thinking_is(effort: &str, shown: bool) -> String {
    let shown = if shown { "shown" } else { "not shown" };
    format!(
        "Thinking: {effort}, {shown}.\nSay /think off, low, medium, high or default; /think show or hide."
    )
}

pub fn queue_is(mode: &str) -> String {
    let what = match mode {
        "steer" => "I hear it at my next step",
        "followup" => "each message waits, and I answer it by itself",
        "collect" => "it waits, and I answer all of it at once",
        _ => "I drop what I am doing and turn to it",
    };
    format!(
        "While I work for you and you say more, {what} ({mode}).\n\
         Say /queue steer, followup, collect, interrupt or default."
    )
}

/// What is shown of what a model thought, in characters.
const THOUGHT_CHARS_MAX: usize = 1_500;

/// What a model thought, as a quotation above its answer.
pub fn thought(text: &str) -> String {
    let text = text.trim();
    let mut shown: String = text.chars().take(THOUGHT_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    let lines: Vec<_> = shown.lines().map(|line| format!("> {line}")).collect();
    lines.join("\n")
}

// Questions aside.

pub const BTW_USAGE: &str = "Say /btw and a question: I answer it aside, whatever I am doing.";
pub const BTW_BUSY: &str =
    "I am still busy with your other question aside. Please ask again once it is answered.";
pub const BTW_CROWDED: &str =
    "I am answering too many questions aside. Please ask again in a minute.";
pub const BTW_INTERRUPTED: &str =
    "A restart came between your question aside and my answer. Please ask again.";
pub const BTW_TOO_SLOW: &str =
    "The model took too long over your question aside. Please ask again.";

// Skills.

pub const SKILL_USAGE: &str =
    "Say /skill NAME and what to do with it. /skills shows those that there are.";

/// What of a skill's description is shown in a list, in characters.
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
    format!("There is no skill {name} to begin with. /skills shows those that there are.")
}

pub fn skill_unusable(name: &str, reason: &str) -> String {
    format!("The skill {name} can't be used here: {}.", as_is(reason))
}

pub fn skills(skills: &[SkillShown<'_>], broken: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for skill in skills {
        let mut about: String = skill.about.chars().take(ABOUT_CHARS_MAX).collect();
        if about.len() < skill.about.len() {
            about.push('…');
        }
        let about = as_is(about);
        let state = match (skill.missing, skill.for_model, skill.for_people) {
            (Some(missing), ..) => format!("can't be used: {}", as_is(missing)),
            (None, true, _) if skill.always => "always in mind".to_owned(),
            (None, true, true) => "ready".to_owned(),
            (None, true, false) => "ready, not by /skill".to_owned(),
            (None, false, true) => "only by /skill".to_owned(),
            (None, false, false) => "switched off".to_owned(),
        };
        let _ = writeln!(text, "{} ({state}): {about}", skill.name);
        for warning in skill.warnings {
            let _ = writeln!(text, "  note: {}", as_is(warning));
        }
    }
    for (path, reason) in broken {
        let _ = writeln!(text, "{} was left out: {}", as_is(path), as_is(reason));
    }
    if text.is_empty() { "There are no skills.".to_owned() } else { text.trim_end().to_owned() }
}

// What it costs.

#[derive(Clone, Copy)]
pub struct Tokens {
    pub read: u64,
    pub cached: u64,
    pub written: u64,
}

pub const USAGE_FOR_ADMINS: &str = "Only my owner and admins may see what I use.";

/// Tokens by provider: today's, and those of 30 days.
pub fn usage(used: &[(&str, Tokens, Tokens)]) -> String {
    if used.is_empty() {
        return "No tokens in the last 30 days.".to_owned();
    }
    let tokens = |Tokens { read, cached, written }: &Tokens| {
        format!("{read} read (of which {cached} from the cache), {written} written")
    };
    let lines = used.iter().map(|(provider, today, month)| {
        format!("{provider}\n  today: {}\n  30 days: {}", tokens(today), tokens(month))
    });
    format!("Tokens\n{}", lines.collect::<Vec<_>>().join("\n"))
}

// Restarting.

pub const RESTARTING: &str = "I restart now. What I was working on goes on right after.";
pub const CANNOT_RESTART: &str =
    "Nobody would start me again: I don't run as a systemd service. Restart me by hand.";
