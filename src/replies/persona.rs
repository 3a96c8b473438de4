//! The bot's sentences about personas.

use std::fmt::Write as _;

/// A persona, as somebody sees it.
#[derive(Clone, Debug)]
pub struct PersonaShown {
    /// None where no persona of the config fits.
    pub name: Option<String>,
    /// `thread`, `chat`, `person`, `server`, `channel`, `role`, `default`, `guest` or `nothing`.
    pub reason: &'static str,
    /// The tools that can be called.
    pub tools: Vec<String>,
    /// Empty: as elsewhere.
    pub models: Vec<String>,
    pub tokens_max: Option<u32>,
    /// `person`, `place` or `none`
    pub memory: &'static str,
    pub quiet: Option<String>,
}

/// The answer to `/persona`.
pub fn persona(shown: &PersonaShown) -> String {
    let mut text = match (&shown.name, shown.reason) {
        (Some(name), "default") => format!("My persona here is {name}, which is the default."),
        (Some(name), reason) => format!("My persona here is {name}, because of the {reason}."),
        (None, "guest") => {
            "I have no persona here. As a guest you have only a few tools.".to_owned()
        }
        (None, _) => "I have no persona here. The usual settings apply.".to_owned(),
    };
    let tools = match shown.tools.is_empty() {
        true => "none".to_owned(),
        false => shown.tools.join(", "),
    };
    let _ = write!(text, "\nTools available to you: {tools}");
    if !shown.models.is_empty() {
        let _ = write!(text, "\nModels: {}", shown.models.join(", "));
    }
    if let Some(most) = shown.tokens_max {
        let _ = write!(text, "\nLongest answer: {most} tokens");
    }
    let memory = match shown.memory {
        "person" => "what I know of you",
        "place" => "what was said in this chat",
        _ => "this conversation only",
    };
    let _ = write!(text, "\nMemory: {memory}");
    if let Some(quiet) = &shown.quiet {
        let _ = write!(text, "\nQuiet hours: {quiet}");
    }
    text
}

/// The answer to a message in quiet hours.
pub fn quiet_until(until: &str) -> String {
    format!("These are quiet hours. I\'ll answer again {until}; please write to me then.")
}

/// The answer to `/model` with a model that the persona does not have.
pub fn model_of_other_persona(models: &[String]) -> String {
    format!("Here I can use only {}.", models.join(", "))
}
