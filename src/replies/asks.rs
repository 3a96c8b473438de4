//! Sentences for questions to people, and for their decisions.

use std::fmt::{Display, Write as _};

use super::visible::visible;
use super::{as_is, counted, fenced};

// What stands on the buttons.
pub const ONCE: &str = "Once";
pub const ALWAYS: &str = "Always";
pub const DENY: &str = "No";
pub const CLEAN: &str = "No, and forget what others wrote";

// What stands in the place of the buttons afterwards.
pub const NOBODY_ANSWERED: &str = "no answer in time";
pub const NO_LONGER_NEEDED: &str = "no longer needed";

pub const APPROVE_USAGE: &str = "/approve lists the requests. /approve NUMBER allows one once, and /approve NUMBER always allows its tool from now on. /deny NUMBER refuses one, and /deny TOOL makes me ask again.";
pub const NOT_YOURS_TO_APPROVE: &str = "Only an admin or my owner can approve this.";
pub const ASKED_ELSEWHERE: &str =
    "I asked my owner to approve this, and I'm waiting for the answer.";
pub const NOTHING_TO_APPROVE: &str = "Nothing is waiting for approval.";

/// The person in a question to themselves.
pub const YOU_YOURSELF: &str = "You";

pub const CALL_FOR_ITS_PERSON: &str =
    "That call belongs to a private conversation of somebody else. Only they can decide it.";

pub const CALL_OF_SOMEBODY_ELSE: &str =
    "That call belongs to a private conversation of somebody else. Only my owner can decide it.";

/// The longest arguments that stand in the question itself. Longer ones come as a file, as whoever allows a call
/// must see all that it does.
const ARGUMENTS_CHARS_MAX: usize = 6_000;

/// Of longer ones, what the question shows of their beginning and of their end.
const HEAD_CHARS: usize = 2_000;
const TAIL_CHARS: usize = 1_000;

pub fn no_always(id: i64) -> String {
    format!("I ask about calls like this one every time. Use /approve {id} to allow this one.")
}

pub fn answered_by(name: &str) -> String {
    format!("answered by {}", as_is(name))
}

pub fn choice_of(choice: &str, name: &str) -> String {
    format!("{choice} ({})", as_is(name))
}

/// A question as it stands there once nobody can press its buttons any more.
pub fn closed(question: &str, words: &str) -> String {
    format!("{question}\n\n→ {words}")
}

/// A call that must be allowed.
pub struct ApprovalPrompt<'a> {
    pub id: i64,
    /// For whom it is made.
    pub person: String,
    pub tool: &'a str,
    pub arguments: &'a str,
    /// The difference that it makes to a file, which is shown in the place of the arguments.
    pub change: Option<&'a str>,
    /// Why it must be, as the rest of a sentence.
    pub why: &'a str,
    /// Who would read a message that tells what was said in private.
    pub tells: Option<&'a str>,
}

impl ApprovalPrompt<'_> {
    /// All that the call does: its arguments, or the difference that it makes to a file.
    fn whole(&self) -> String {
        visible(self.change.unwrap_or(self.arguments))
    }

    /// The call, if it is too long for the question: name and content of a file that stands before it.
    pub fn file(&self) -> Option<(String, String)> {
        let whole = self.whole();
        let is_long = whole.chars().count() > ARGUMENTS_CHARS_MAX;
        is_long.then(|| (format!("call-{}.txt", self.id), whole))
    }
}

/// Asks whether a call may be made; `always` is a choice if calls of the tool can be allowed for good.
pub fn may_i(call: &ApprovalPrompt<'_>, can_be_granted: bool, minutes: u64) -> String {
    let ApprovalPrompt { id, person, tool, change, why, tells, .. } = call;
    let language = if change.is_some() { "diff" } else { "json" };
    let (shown, more) = match call.file() {
        None => (fenced(language, &call.whole()), String::new()),
        Some((name, whole)) => {
            let signs: Vec<char> = whole.chars().collect();
            let part = |signs: &[char]| fenced(language, &signs.iter().collect::<String>());
            let (head, tail) = (&signs[..HEAD_CHARS], &signs[signs.len() - TAIL_CHARS..]);
            let left = signs.len() - HEAD_CHARS - TAIL_CHARS;
            let more = format!("\n{left} characters between are only in the file {name} above.");
            (format!("{}\n…\n{}", part(head), part(tail)), more)
        }
    };
    let always = if can_be_granted { format!(", /approve {id} always") } else { String::new() };
    let time = match minutes {
        120.. if minutes.is_multiple_of(60) => counted(minutes / 60, "hour"),
        _ => counted(minutes, "minute"),
    };
    let ends = format!(
        "(Or reply /approve {id}{always} or /deny {id}.) No answer within {time} means no."
    );
    if let Some(reader) = tells {
        let reader = as_is(reader);
        return format!(
            "May I tell {reader} this? It comes from our private chat.\n{shown}{more}\n{ends}"
        );
    }
    format!(
        "{} asked for this. I'd like to run {} with:\n{shown}{more}\nI'm asking because {}. Approve? {ends}",
        as_is(person),
        as_is(tool),
        as_is(why),
    )
}

/// Returns a person with the chat in which they read.
pub fn reader(name: &str, chat: impl Display) -> String {
    format!("{} ({chat})", as_is(name))
}

/// Maximum length of a call that was not made in a message, in characters.
const NOT_DONE_CHARS_MAX: usize = 1_500;

/// Reports a call that a task did not make because nobody could be asked.
pub fn not_done(task: Option<&str>, tool: &str, arguments: &str) -> String {
    let whole = visible(arguments);
    let shown: String = whole.chars().take(NOT_DONE_CHARS_MAX).collect();
    let more = if shown.len() < whole.len() { "\n(cut)" } else { "" };
    format!(
        "I did not run {} for {}, because it needs approval and nobody was there to ask:\n{}{more}\nIf you want it, \
         ask me for it here.",
        as_is(tool),
        as_is(task.unwrap_or("a job")),
        fenced("json", &shown),
    )
}

pub fn approved_once(tool: &str) -> String {
    format!("Approved once: {}.", as_is(tool))
}

pub fn approved_always(tool: &str, person: impl Display) -> String {
    let tool = as_is(tool);
    format!("Approved for {} from now on: {tool}. Use /deny {tool} to undo that.", as_is(person))
}

pub fn denied_call(tool: &str) -> String {
    format!("Denied: {}.", as_is(tool))
}

pub fn revoked_grants(tool: &str, grants: usize) -> String {
    match grants {
        0 => format!("{} was not always allowed for anyone.", as_is(tool)),
        _ => format!("I'll ask again before each call of {}.", as_is(tool)),
    }
}

/// Confirms that a conversation goes on without what others wrote.
pub fn cleaned(left_out: usize) -> String {
    format!(
        "I left out what others wrote, and {} of mine that came after it. Your own words are still here. The old \
         conversation is saved.",
        counted(left_out as u64, "message")
    )
}

// Trusting a file.

pub const COPY_IT: &str = "Copy it";
pub const TRUST_USAGE: &str = "/trust PATH shows a file of downloads/, shared/ or a group, and then copies it into the workspace. For example: /trust downloads/recipe.md";
pub const TRUSTED_ALREADY: &str = "it lies in the workspace, whose files I trust";
pub const TRUST_NO_LINKS: &str = "it is a link; name the file that it leads to";

/// A whole text with its invisible characters named.
pub fn shown_whole(text: &str) -> String {
    visible(text)
}

/// Asks whether a file is to be copied; `text` is its content, unless that stands in a file above.
pub fn may_trust(path: impl Display, copy: impl Display, text: Option<&str>) -> String {
    let shown = match text {
        Some(text) => format!("{path} says:\n{}", fenced("", &visible(text))),
        None => format!("The file above has the whole text of {path}."),
    };
    format!(
        "{shown}\nShall I copy exactly this into {copy}, as text that you trust? The file itself stays untrusted."
    )
}

pub fn trusted(path: impl Display, copy: impl Display) -> String {
    format!("Copied {path} to {copy}, exactly as you saw it. I trust the copy.")
}

pub fn changed_since_shown(path: impl Display) -> String {
    format!("{path} has changed since you saw it. Use /trust {path} to see it again.")
}

pub fn not_trusted(path: &str, why: &impl Display) -> String {
    format!("I cannot copy {}: {why}.", as_is(path))
}

pub fn is_there(path: impl Display) -> String {
    format!("there is another {path} already")
}

// Proposals.

pub const DO_IT: &str = "Do it";
pub const DO_NOT: &str = "No";
pub const NO_PROPOSALS: &str = "There are no proposals in this conversation.";

/// Models write Markdown: it is shown as that.
pub fn proposal(id: i64, title: &str, body: &str) -> String {
    format!("Proposal {id}: **{}**\n\n{body}", as_is(title))
}

/// The text that a pressed button of a proposal stands for.
pub fn accepts(id: i64, title: &str) -> String {
    format!("Yes to proposal {id} ({title}): do it.")
}

pub fn declines(id: i64, title: &str) -> String {
    format!("No to proposal {id} ({title}).")
}

/// Proposals on a line each.
pub fn proposals(lines: impl Iterator<Item = String>) -> String {
    lines.map(as_is).collect::<Vec<_>>().join("\n")
}

/// The arguments of a call that somebody decides about, whole.
pub fn call_arguments(arguments: &str) -> String {
    visible(arguments)
}

/// The list of calls that wait for approval (number, tool, arguments) and of granted permissions (tool, person).
pub fn approvals<'a>(
    waiting: impl Iterator<Item = (i64, &'a str, &'a str)>,
    granted: impl Iterator<Item = (&'a str, String)>,
) -> String {
    const SHOWN_CHARS_MAX: usize = 200;
    let mut text = String::new();
    for (id, tool, arguments) in waiting {
        let arguments = visible(arguments);
        let shown: String = arguments.chars().take(SHOWN_CHARS_MAX).collect();
        let more = if shown.len() < arguments.len() { "…" } else { "" };
        writeln!(text, "{id}: {} {}{more}", as_is(tool), as_is(shown)).expect("a string takes all");
    }
    if text.is_empty() {
        text.push_str(NOTHING_TO_APPROVE);
        text.push('\n');
    }
    for (tool, person) in granted {
        writeln!(text, "Always allowed: {} for {}", as_is(tool), as_is(person))
            .expect("a string takes all");
    }
    text.trim_end().to_owned()
}
