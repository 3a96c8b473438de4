//! The sentences that the bot says by itself, in one place, so that a person can proof-read them. Not here: the
//! decision which of them is said, texts for models (`turn`), the help of commands (`types::commands`), the reasons of
//! decisions (`trust::permission`), and errors and states of links (`channels`).

mod actions;
mod asks;
mod call_files;
mod commands;
mod deliveries;
mod former_home;
mod heartbeat;
mod job_commands;
mod jobs;
mod mcp;
mod memory;
mod pairing;
mod people;
mod sessions;
mod persona;
mod restored;
mod shell;
mod spending;
mod status;
mod store;
mod subagents;
mod times;
mod trusting;
mod visible;
mod web;
mod why;

use std::fmt::Display;

pub use crate::short_text::is_invisible;
use crate::short_text::{clean_name, visible_line};
use crate::types::commands::{COMMANDS, CommandSpec};
use visible::visible;

pub use actions::*;
pub use asks::*;
pub use call_files::*;
pub use commands::*;
pub use deliveries::*;
pub use former_home::*;
pub use heartbeat::*;
pub use job_commands::*;
pub use jobs::*;
pub use mcp::*;
pub use memory::*;
pub use pairing::*;
pub use people::*;
pub use persona::*;
pub use restored::*;
pub use sessions::*;
pub use shell::*;
pub use spending::*;
pub use status::*;
pub use store::*;
pub use subagents::*;
pub use times::*;
pub use trusting::*;
pub use web::*;
pub use why::*;

/// Escapes others' words (names, names of files, reasons) so that a Markdown text shows them as they are, on one line:
/// nobody can put a link of theirs into the bot's words.
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

/// Stands for a name of which nothing can be seen.
const NO_NAME: &str = "(no visible name)";

/// Returns the name of a person, file or conversation for a sentence: short, with nothing invisible, and escaped.
fn shown_name(name: impl Display) -> String {
    as_is(clean_name(&name.to_string()).as_deref().unwrap_or(NO_NAME))
}

/// Returns a path for a sentence: whole, with its invisible characters named, and escaped.
fn shown_path(path: impl Display) -> String {
    as_is(visible(&path.to_string()))
}

/// Several lines of what others wrote, as they are: a fence that nothing in them can close.
fn fenced(language: &str, lines: &str) -> String {
    let ticks = lines.split(|sign| sign != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(ticks.max(2) + 1);
    format!("{fence}{language}\n{lines}\n{fence}")
}

/// Returns a number with its noun, which takes an “s” in the plural.
fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

pub fn too_many_chats(most: usize) -> String {
    format!("{most} terminals are connected already: close one of them first.")
}

// Buttons.

/// The bot's name for itself where it quotes itself.
pub const OWN_NAME: &str = "you";
pub const NOT_YOURS_TO_PRESS: &str = "Sorry, you can't answer this one.";
pub const PRESS_LATER: &str = "Too many messages are waiting here. Press the button again later.";
pub const ALREADY_DECIDED: &str = "This is no longer open: it was already decided or withdrawn.";
pub const BUTTON_TOO_OLD: &str = "This question is too old. Please write your answer as a message.";

/// The text of a question after one of its buttons was pressed.
pub fn decided(question: &str, choice: &str, by: &str) -> String {
    format!("{question}\n\n→ {} ({})", as_is(visible_line(choice)), shown_name(by))
}

/// A question where there are no buttons.
pub fn question_with_choices<'a>(
    question: &str,
    choices: impl Iterator<Item = (&'a String, &'a String)>,
) -> String {
    let line = |(label, says): (&String, &String)| match label == says {
        true => format!("- {says}"),
        false => format!("- {label}: {says}"),
    };
    let lines: Vec<_> = choices.map(line).collect();
    format!("{question}\n\n{}", lines.join("\n"))
}

// Files.

pub const WHOLE_ANSWER_NAME: &str = "answer.md";
pub const WHOLE_ANSWER: &str = "Here is the full answer.";

pub fn file_saved_at(name: &str, path: &str) -> String {
    format!("[file {}: {} in the workspace]", shown_name(name), shown_path(path))
}

pub fn file_not_sent(name: &str, reason: &str) -> String {
    format!("I couldn't send the file {}: {}.", shown_name(name), as_is(reason))
}

pub fn file_over_limit(name: &str, bytes_max: u64) -> String {
    let name = clean_name(name).unwrap_or_else(|| NO_NAME.to_owned());
    format!("{name} is larger than {} MB, the limit for files here", bytes_max / 1_000_000)
}

pub const FILE_TOO_LARGE: &str = "it is too large";
pub const FILE_OVER_TELEGRAM: &str = "it is larger than 20 MB, Telegram's limit for bots";
pub const FILE_GONE: &str = "the platform no longer has it";
pub const FILE_TOO_SLOW: &str = "the download took too long";
pub const FILE_BROKE: &str = "the download failed (my log has the details)";

pub fn file_over_intake(bytes_max: u64) -> String {
    format!("it is larger than my limit of {} MB", bytes_max / 1_000_000)
}

pub fn too_many_files(files_max: usize) -> String {
    format!("I accept at most {files_max} files in one message")
}

pub const NO_TRANSCRIPTION: &str = "my owner has not set up [transcription] in config.toml";
pub const TRANSCRIPT_TOO_SLOW: &str = "the transcription took too long";

// Messages that cannot be taken.

pub fn too_many_waiting(bound: usize) -> String {
    format!(
        "{bound} of your messages are still waiting, so I can't accept more yet. Send this one again once I have answered them, or use /stop to drop them."
    )
}

pub fn too_fast(most: usize) -> String {
    format!(
        "That's more than {} in a minute, and I left this one out. Give me a minute, then send it again.",
        counted(most as u64, "message")
    )
}

pub fn chat_too_fast(most: usize) -> String {
    format!(
        "That's more than {} in a minute in this chat, and I left this one out. Please send it again in a minute.",
        counted(most as u64, "message")
    )
}

pub fn too_many_files_today(most: usize) -> String {
    format!(
        "You've sent me as many files as I take from one person in 24 hours ({most}), so I left this message out. Send it again tomorrow."
    )
}

pub const TOO_LATE: &str = "I was offline when you wrote this, and found it more than a day later. Send it again if you still want an answer.";

// Turns.

/// The status that Slack shows behind the bot's name.
pub const WORKING: &str = "is working on it…";

pub const EMPTY_ANSWER: &str =
    "The model gave an empty answer. Please try rephrasing your message.";
/// In place of a line of an answer that stands for a file which cannot be sent.
pub fn not_attached(line: &str, why: &str) -> String {
    format!("{line} (I cannot attach this file: {})", as_is(why))
}

/// The words of an answer that has only files.
pub fn files_alone(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(shown_name).collect();
    format!("📎 {}", names.join(", "))
}

/// In place of a silence that the model chose where a person waits for an answer.
pub const NOTHING_TO_SAY: &str = "I have read this, and have nothing to add.";
pub const LIMIT_USED_UP: &str = "The model reached its output limit before it answered. My owner can raise max_tokens in config.toml.";
/// The same, to the owner.
pub const LIMIT_USED_UP_OWNER: &str = "The model reached its output limit before it answered. Raise max_tokens in config.toml, then restart me.";
pub const MODEL_REFUSED: &str = "The model declined to answer this.";
/// The end of a text that is still being written.
pub const CONTINUATION_MARK: &str = " …";

/// The line for a running tool: its name, and its first argument.
pub fn running_tool(tool: &str, arguments: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 60;
    let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
    let first = arguments.as_object().and_then(|arguments| arguments.values().next());
    let first = first.and_then(serde_json::Value::as_str).unwrap_or_default();
    let line = first.lines().next().unwrap_or_default().replace('`', "'");
    let shown: String = line.chars().take(SHOWN_CHARS_MAX).collect();
    let more = if shown.len() < first.len() { "…" } else { "" };
    if shown.is_empty() { format!("⚙ {tool}") } else { format!("⚙ {tool} `{shown}{more}`") }
}

pub const REPEATED: &str =
    "(The model repeated the same words again and again, so I cut the repetition.)";
pub const CUT_SHORT: &str =
    "(My answer was cut off at the model's output limit. Ask me for the rest.)";
pub const TOO_LONG: &str = "Our conversation is too long for the model now. Use /new to start a new one. I can still search this one.";
/// The line for a model that has not begun its answer.
pub fn reading_prompt(seconds: u64) -> String {
    format!("⚙ waiting for the model, {seconds} s…")
}

/// The line for a turn that waits for a summary.
pub const COMPACTING: &str = "⚙ summarising our earlier messages";
pub const INTERRUPTED_TOO_OFTEN: &str = "I tried this three times and was interrupted each time, so I stopped. Please send it again. If that doesn't help, try rephrasing it.";
pub const SOMETHING_BROKE: &str =
    "Something went wrong on my side. Please try again. The details are in my log.";

pub const REPEATED_CALLS: &str = "I kept repeating the same calls with the same results, so I stopped. Please try rephrasing it.";

pub fn steps_exhausted(steps: usize) -> String {
    format!("I stopped after {steps} steps and I'm not finished yet. Say “go on” to continue.")
}

pub fn model_unavailable(reason: &str) -> String {
    let reason = as_is(reason);
    format!(
        "I can't reach a model: {reason}. Your message is saved in our conversation. Please ask me again later."
    )
}

/// The only message to people while their turn waits for a model.
pub const MODEL_UNREACHABLE: &str = "I can't reach the model; I'll answer when it's back.";

/// The same, to the owner.
pub fn model_away_because(reason: &str) -> String {
    format!("{MODEL_UNREACHABLE} (/stop ends the wait; the reason: {})", as_is(reason))
}

/// A wait for a model is over. `since` is when it began, by the owner's clock.
pub fn gave_up_waiting_for_model(since: &str, reason: &str) -> String {
    format!(
        "I have waited for the model since {since} and still can't reach it, so I have stopped waiting: {}. Your \
         message is kept in our conversation; ask me again once it is back.",
        as_is(reason)
    )
}

/// The model began an answer and did not bring it to its end.
pub fn model_broke_off(reason: &str) -> String {
    let reason = as_is(reason);
    format!(
        "The model did not finish its answer: {reason}. Your message is kept in our conversation; ask me again."
    )
}

/// The way out for a person who is not the owner.
const OWNER_HAS_TO_ACT: &str = "My owner needs to fix this. Please ask me again later.";

pub fn model_refused_us(reason: &str, to_owner: bool) -> String {
    let then = if to_owner {
        "Please fix it in config.toml, or in the variable or file that it names. Then restart me and ask again. `peacrab check` shows the settings I would start with."
    } else {
        OWNER_HAS_TO_ACT
    };
    format!("The model's service rejected my request: {}. {then}", as_is(reason))
}

/// The model's service refuses all requests with tools.
pub fn model_without_tools(reason: &str, to_owner: bool) -> String {
    let then = if to_owner {
        "Please write `tools = \"text\"` into the model's section of config.toml: I then describe my tools to it in words. Run `peacrab reload`, and ask again."
    } else {
        OWNER_HAS_TO_ACT
    };
    format!("The model's service rejected my request: {}. {then}", as_is(reason))
}

// Commands.

/// The name and description of a command's arguments in a platform's menu.
pub const COMMAND_WORDS: (&str, &str) = ("words", "The text after the command");

/// Whoever invokes a command natively sees this at once, and nobody else does; what comes of the
/// command follows as a message.
pub const COMMAND_RECEIVED: &str = "Got it.";
pub const COMMAND_NOT_ALLOWED: &str = "You can't use this command here.";
/// For a script.
pub const PIPED_COMMAND: &str = "Piped input cannot be a command, because anybody may have written it. Pass the command as an argument: \
     peacrab chat -m \"/status\"";
pub const COMMAND_ELSEWHERE: &str = "I'm not a member of this conversation, so I can't answer here. Invite me, or write to me directly.";

/// The name of a thread whose question has no words.
pub const THREAD_NAME: &str = "Question";

/// The answer to `/help`, from the table of commands.
pub fn help() -> String {
    let first = "Just write to me. You can also use these commands:".to_owned();
    let lines = COMMANDS.iter().filter_map(CommandSpec::help_line);
    let lines: Vec<_> = [first].into_iter().chain(lines).collect();
    lines.join("\n")
}

pub const NOTHING_TO_STOP: &str = "There is nothing to stop.";
pub const STOPPED: &str = "Stopped.";
pub const CLEAN_IN_PRIVATE: &str =
    "/clean works in a private chat only. In a group, /new starts a new conversation.";
pub const NOTHING_TO_CLEAN: &str =
    "There is no untrusted content here, so there is nothing to leave out.";
pub const NEW_SESSION: &str =
    "This is a new conversation. The old one is saved, but I don't use it here.";
pub const INCOGNITO: &str = "This is a new conversation that I won't keep: I save no notes, and erase all of it when you end it with /new. Files that I write or that you send stay.";
pub const INCOGNITO_OVER: &str = "I erase the conversation. This is a new one, which is saved.";
pub const INCOGNITO_IN_PRIVATE: &str = "/incognito works in a private chat only.";
pub const NOT_YOURS_TO_STOP: &str =
    "I'm working for someone else here. Only they or an admin can stop that.";
pub const NOT_YOURS_TO_CLOSE: &str = "In a group, only an admin can start a new conversation.";

pub const NOT_YOURS_TO_COMPACT: &str = "In a group, only an admin can compact our conversation.";
pub const COMPACTED_MEANWHILE: &str =
    "Our conversation was restarted or compacted in the meantime, so I changed nothing.";

pub const COMPACT_LATER: &str =
    "I'm waiting for an answer here. Use /compact again once I have it.";

pub fn compacted(turns: usize, words: usize) -> String {
    let (turns, words) = (counted(turns as u64, "exchange"), counted(words as u64, "word"));
    format!("I compacted {turns} into a summary of {words}.")
}

pub fn nothing_to_compact(turns: usize) -> String {
    format!("There is nothing to compact. I always keep the last {turns} exchanges in full.")
}

pub fn not_compacted(reason: impl Display) -> String {
    format!(
        "I couldn't compact our conversation: {reason}. Nothing was lost. Please try again later."
    )
}

pub fn stopped_and_withdrawn(waiting: usize) -> String {
    match waiting {
        0 => STOPPED.to_owned(),
        1 => "Stopped. I also dropped the message that was waiting.".to_owned(),
        n => format!("Stopped. I also dropped the {n} messages that were waiting."),
    }
}

/// Adds to the confirmation of a command how many waiting messages it has dropped.
pub fn and_dropped(confirmation: String, waiting: usize) -> String {
    match waiting {
        0 => confirmation,
        n => format!(
            "{confirmation} I dropped {}. Resend any you still need answered.",
            counted(n as u64, "waiting message")
        ),
    }
}

/// Says who somebody is, and which tools can be used for them here.
pub fn who_you_are(
    person: impl Display,
    role: impl Display,
    place: impl Display,
    tools: &[&str],
) -> String {
    let (person, place, tools) = (as_is(person), as_is(place), tools_for_you(tools));
    format!("You are {person}. Your role is {role}. This is {place}.\n{tools}")
}

fn tools_for_you(tools: &[&str]) -> String {
    let tools = if tools.is_empty() { "none".to_owned() } else { as_is(tools.join(", ")) };
    format!("Tools available to you: {tools}")
}

/// The words about a key or a line at a terminal that cannot be read.
pub const NOT_UTF8: &str = "I can't read that: it has bytes that are not UTF-8. Set the terminal to UTF-8, and type it again.";

// Models.

/// One line beside an answer: who could not give it and why, and who did.
pub fn another_provider_answered(failed: &[(&str, String)], by: &str) -> String {
    let failed: Vec<_> =
        failed.iter().map(|(name, why)| format!("{name} is unavailable: {}", as_is(why))).collect();
    format!("({}, so {by} answered.)", failed.join("; "))
}
