//! Every sentence that the bot says by itself, in one place, so that a person can proof-read it.

mod actions;
mod asks;
mod commands;
mod deliveries;
mod heartbeat;
mod jobs;
mod shell;
mod store;
mod subagents;

use std::fmt::{Display, Write as _};

use crate::types::commands::COMMANDS;

pub use actions::*;
pub use asks::*;
pub use commands::*;
pub use deliveries::*;
pub use heartbeat::*;
pub use jobs::*;
pub use shell::*;
pub use store::*;
pub use subagents::*;

/// What others wrote — names, names of files, reasons — so that a Markdown text shows it as it is, on
/// one line: nobody can put a link of theirs into the bot's words.
fn as_is(text: impl Display) -> String {
    let text = text.to_string();
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        let is_inside = |beside: Option<&char>| beside.is_some_and(|char| char.is_alphanumeric());
        let is_markup = match sign {
            // Inside of a word it means nothing, and many files have it in their names.
            '_' => !(is_inside(Some(&before)) && is_inside(signs.peek())),
            _ => "\\`*[]<>~|#".contains(sign),
        };
        if is_markup {
            out.push('\\');
        }
        let is_line_end = sign.is_control() || matches!(sign, '\u{2028}' | '\u{2029}');
        out.push(if is_line_end { ' ' } else { sign });
        before = sign;
    }
    out
}

/// Several lines of what others wrote, as they are: a fence that nothing in them can close.
fn fenced(language: &str, lines: &str) -> String {
    let ticks = lines.split(|sign| sign != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(ticks.max(2) + 1);
    format!("{fence}{language}\n{lines}\n{fence}")
}

// Strangers and pairing.

pub const CROWDED: &str =
    "I don't know you, and too many people are waiting to be let in. Please try again in an hour.";

pub fn pairing_code(code: &str, have_owner: bool) -> String {
    let how = if have_owner {
        format!("Ask my owner to approve it: /pair approve {code}")
    } else {
        format!(
            "If this is your bot, run this on its machine and you become its owner:\n\
             peacrab pair approve {code}"
        )
    };
    format!("I don't know you yet. Your code is {code}, good for an hour.\n{how}")
}

pub fn stranger_asks(stranger: impl Display, channel: impl Display, code: &str) -> String {
    let (stranger, channel) = (as_is(stranger), as_is(channel));
    format!(
        "{stranger} wants to talk to me on {channel}.\n\
         To let them in: /pair approve {code}\nTo turn them away: /pair deny {code}"
    )
}

pub const LET_IN: &str = "Let in";
pub const TURN_AWAY: &str = "Turn away";

pub const WELCOME_OWNER: &str = "You are my owner now. Say anything, or /help for what I can do.";
pub const WELCOME_USER: &str = "You have been let in. Say anything, or /help for what I can do.";
pub const TURNED_AWAY: &str = "Sorry, you have not been let in.";
pub const UNKNOWN_CODE: &str =
    "I don't know this code; codes are good for an hour. /pair list shows who is waiting.";
pub const NOBODY_WAITS: &str = "Nobody is waiting, and nobody has been paired.";
pub const PAIR_USAGE: &str =
    "Say /pair list, /pair approve CODE, /pair deny CODE or /pair revoke CHANNEL ID.";
pub const OWNER_ONLY: &str = "Only my owner may do that.";

pub fn approved(person: impl Display, role: impl Display) -> String {
    format!("{} has been let in as {role}.", as_is(person))
}

pub fn denied(person: impl Display) -> String {
    format!("{} has been turned away.", as_is(person))
}

pub fn revoked(person: impl Display) -> String {
    format!("{} has been shut out.", as_is(person))
}

pub fn not_paired(person: impl Display) -> String {
    format!("{} was not let in by pairing; people in config.toml are removed there.", as_is(person))
}

// Buttons.

/// How the bot calls itself where it quotes itself.
pub const ME: &str = "you";
pub const NOT_YOURS_TO_PRESS: &str = "This is not for you to decide.";
pub const PRESS_LATER: &str = "Too much is waiting here. Press it again later.";
pub const ALREADY_DECIDED: &str = "This has been decided already.";
pub const BUTTON_TOO_OLD: &str = "This question is too old. Say it in words instead.";

/// What becomes of a question once one of its buttons was pressed.
pub fn decided(question: &str, choice: &str, by: &str) -> String {
    format!("{question}\n\n→ {} ({})", as_is(choice), as_is(by))
}

/// A question where there are no buttons.
pub fn choices_in_words<'a>(
    question: &str,
    choices: impl Iterator<Item = (&'a String, &'a String)>,
) -> String {
    let lines: Vec<_> = choices.map(|(label, says)| format!("{label}: {says}")).collect();
    format!("{question}\n\n{}", lines.join("\n"))
}

// Files.

pub const WHOLE_ANSWER_NAME: &str = "answer.md";
pub const WHOLE_ANSWER: &str = "The whole answer.";

pub fn file_lies_at(name: &str, path: &str) -> String {
    format!("[file {}: {} in the workspace]", as_is(name), as_is(path))
}

pub fn file_not_sent(name: &str, reason: &str) -> String {
    format!("I could not send the file {}: {}.", as_is(name), as_is(reason))
}

pub fn file_over_limit(name: &str, bytes_max: u64) -> String {
    format!("{name} is larger than the {} MB that can be sent here", bytes_max / 1_000_000)
}

pub const FILE_TOO_LARGE: &str = "it is larger than I take";
pub const FILE_OVER_TELEGRAM: &str = "it is larger than the 20 MB that Telegram gives to bots";
pub const FILE_GONE: &str = "the platform does not have it any more";
pub const FILE_TOO_SLOW: &str = "it took too long to come";
pub const FILE_BROKE: &str = "something broke while it was fetched; it is in my log";

pub fn file_over_intake(bytes_max: u64) -> String {
    format!("it is larger than the {} MB that I take", bytes_max / 1_000_000)
}

pub fn too_many_files(files_max: usize) -> String {
    format!("I take {files_max} files of one message")
}

pub const NO_TRANSCRIPTION: &str = "my owner has not set up [transcription] in config.toml";
pub const TRANSCRIPT_TOO_SLOW: &str = "the transcription took too long";

// Messages that cannot be taken.

pub fn too_many_waiting(bound: usize) -> String {
    format!(
        "{bound} of your messages are still waiting, so I can't take this one, or more, until I have come to those. Send it again then, or say /stop to drop what waits."
    )
}

pub const TOO_LATE: &str = "I was away when you wrote, and found it more than a day later. Send it again if you still want an answer.";

// Turns.

/// What Slack shows behind the bot's name.
pub const WORKING: &str = "is working on it…";

pub const NO_WORDS: &str = "The model had nothing to say. Try to put it differently.";
pub const LIMIT_USED_UP: &str = "The model used up its limit before it said anything. My owner can raise max_tokens in config.toml.";
/// The same, to the owner.
pub const LIMIT_USED_UP_OWNER: &str = "The model used up its limit before it said anything. Raise max_tokens in config.toml, and restart me.";
pub const MODEL_REFUSED: &str = "The model declined to answer this.";
/// The end of a text that is still being written.
pub const GOES_ON: &str = " …";

/// What a tool is doing, while it does: its name, and the first thing that it was told.
pub fn doing(tool: &str, arguments: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 60;
    let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
    let first = arguments.as_object().and_then(|arguments| arguments.values().next());
    let first = first.and_then(serde_json::Value::as_str).unwrap_or_default();
    let line = first.lines().next().unwrap_or_default().replace('`', "'");
    let shown: String = line.chars().take(SHOWN_CHARS_MAX).collect();
    let more = if shown.len() < first.len() { "…" } else { "" };
    if shown.is_empty() { format!("⚙ {tool}") } else { format!("⚙ {tool} `{shown}{more}`") }
}

pub const CUT_SHORT: &str = "(The model's limit cut this short; ask for the rest.)";
pub const TOO_LONG: &str = "Our conversation has become too long for the model. Say /new to begin a fresh one; I can still search this one.";
/// What is shown while a turn waits for a summary.
pub const COMPACTING: &str = "⚙ summing up what we said before";
pub const GAVE_UP: &str = "I tried three times to work on this and was cut off each time, so I have stopped. Please put it differently.";
pub const SOMETHING_BROKE: &str =
    "Something broke inside me while I worked on this. It is in my log; please try again.";

pub const IN_CIRCLES: &str = "I was going in circles, calling the same things with the same results, so I have stopped. Please put it differently.";

pub fn steps_exhausted(steps: usize) -> String {
    format!("I have stopped after {steps} steps without finishing. Say \"go on\" to continue.")
}

pub fn model_unavailable(reason: &str) -> String {
    let reason = as_is(reason);
    format!(
        "I can't reach a model: {reason}. Your message is kept in our conversation; ask me again in a while."
    )
}

pub fn model_refused_us(reason: &str, to_owner: bool) -> String {
    let then = if to_owner {
        "Once that is mended in config.toml, or in the variable or file that it names, restart me and ask again; `peacrab check` says what I would start with."
    } else {
        "My owner has to mend that; ask me again later."
    };
    format!("The model's service turned me down: {}. {then}", as_is(reason))
}

// Commands.

/// What follows a command that takes arguments, as a platform asks for it.
pub const COMMAND_WORDS: (&str, &str) = ("words", "What you would write after it");

/// Whoever invokes a command natively sees this at once, and nobody else does; what comes of the
/// command follows as a message.
pub const COMMAND_TAKEN: &str = "Got it.";
pub const COMMAND_NOT_TAKEN: &str = "I can't take this from you here.";
pub const COMMAND_ELSEWHERE: &str =
    "I'm not in this conversation, so I couldn't answer here. Invite me, or write to me directly.";

/// The name of a thread whose question has no words.
pub const THREAD_NAME: &str = "Question";

/// The answer to `/help`, from the table of commands.
pub fn help() -> String {
    let lines = COMMANDS.iter().filter_map(|spec| spec.help);
    let lines: Vec<_> = ["Just write to me. Besides that:"].into_iter().chain(lines).collect();
    lines.join("\n")
}

pub const NOTHING_TO_STOP: &str = "There is nothing to stop.";
pub const STOPPED: &str = "Stopped.";
pub const NEW_SESSION: &str =
    "A fresh start. What we said before is kept, but I no longer have it in mind.";
pub const NOT_YOURS_TO_STOP: &str =
    "I am working for somebody else here; only they or an admin can stop that.";
pub const NOT_YOURS_TO_CLOSE: &str = "In a group, only an admin can begin a fresh conversation.";

pub const NOT_YOURS_TO_COMPACT: &str =
    "In a group, only an admin can have our conversation compacted.";
pub const COMPACTED_MEANWHILE: &str =
    "Our conversation was begun afresh or compacted meanwhile, so I have left it as it is.";

pub const COMPACT_LATER: &str = "I wait for an answer here. Say /compact again once I have it.";

pub fn compacted(turns: usize, words: usize) -> String {
    let turns = if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
    format!("Compacted: {turns} into {words} words.")
}

pub fn nothing_to_compact(turns: usize) -> String {
    format!("There is nothing to compact: the last {turns} turns stay as they are.")
}

pub fn not_compacted(reason: impl Display) -> String {
    format!(
        "I could not compact our conversation: {reason}. Nothing of it is lost; try again later."
    )
}

pub fn stopped_and_withdrawn(waiting: usize) -> String {
    match waiting {
        0 => STOPPED.to_owned(),
        1 => "Stopped, and dropped the message that was waiting.".to_owned(),
        n => format!("Stopped, and dropped the {n} messages that were waiting."),
    }
}

pub fn who_you_are(person: impl Display, role: impl Display, place: impl Display) -> String {
    format!("You are {}. Your role is {role}. This is {}.", as_is(person), as_is(place))
}

/// What `/status` tells.
pub struct StatusShown<'a> {
    pub provider: &'a str,
    /// How much it is to think, if somebody has said so.
    pub effort: Option<&'a str>,
    /// What becomes of what is said meanwhile, if somebody has chosen.
    pub queue: Option<&'a str>,
    pub busy_here: bool,
    pub turns: usize,
    pub tools: usize,
    /// What each MCP server is, as [`lender`] says it.
    pub lenders: Vec<String>,
    /// Read and written in the last 30 days.
    pub tokens: (u64, u64),
    /// Of the next prompt here, and what there is room for.
    pub context: (u64, u64),
}

/// How an MCP server is.
pub fn lender(name: &str, up: bool, tools: usize, trouble: Option<&str>) -> String {
    match (up, trouble) {
        (true, _) => format!("{name} up, {tools} tools"),
        (false, Some(trouble)) => format!("{name} down ({trouble})"),
        (false, None) => format!("{name} down"),
    }
}

pub fn status(status: &StatusShown<'_>) -> String {
    let StatusShown { provider, effort, queue, busy_here, turns, tools, lenders, tokens, context } =
        status;
    let ((read, written), (used, room)) = (tokens, context);
    let mut here_only = String::new();
    if let Some(effort) = effort {
        let _ = write!(here_only, "\nThinking: {effort}");
    }
    if let Some(queue) = queue {
        let _ = write!(here_only, "\nWhat is said meanwhile: {queue}");
    }
    let lent = match lenders.join("; ") {
        none if none.is_empty() => none,
        lenders => format!("MCP servers: {lenders}\n"),
    };
    let here = if *busy_here { "I am working here" } else { "I am idle here" };
    format!(
        "{here}; turns running in all: {turns}.\nModel: {provider}{here_only}\nTools: {tools}\n{lent}\
         Context here: about {used} of {room} tokens\n\
         Tokens in the last 30 days: {read} read, {written} written\nVersion: {}",
        env!("CARGO_PKG_VERSION")
    )
}

// Models.

/// One line beside an answer: who could not give it and why, and who did.
pub fn another_provider_answered(failed: &[(&str, String)], by: &str) -> String {
    let failed: Vec<_> = failed
        .iter()
        .map(|(name, why)| format!("{name} is not available: {}", as_is(why)))
        .collect();
    format!("({}; {by} answered.)", failed.join("; "))
}
