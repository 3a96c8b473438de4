//! Sentences for questions to people, and for their decisions.

use std::fmt::{Display, Write as _};

use super::call_files::shown_files;
use super::visible::{visible, visible_diff};
use super::{NO_NAME, as_is, counted, fenced, shown_name};
use crate::short_text::{clean_name, shortened};
use crate::types::call_files::CallFiles;

// What stands on the buttons.
pub const ONCE: &str = "Once";
pub const ALWAYS: &str = "Always";
pub const DENY: &str = "No";
pub const CLEAN: &str = "No, and leave out untrusted content";

// What stands in the place of the buttons afterwards.
pub const NOBODY_ANSWERED: &str = "no answer in time";
pub const NO_LONGER_NEEDED: &str = "no longer needed";

pub const APPROVE_USAGE: &str = "/approve lists the requests. /approve NUMBER allows one once, and /approve NUMBER always allows its tool from now on. /deny NUMBER refuses one, and /deny TOOL makes me ask again.";
pub const NOT_YOURS_TO_APPROVE: &str = "Only an admin or my owner can approve this.";
pub const ASKED_ELSEWHERE: &str =
    "I asked my owner to approve this, and I'm waiting for the answer.";
pub const NOTHING_TO_APPROVE: &str = "Nothing is waiting for approval.";

pub fn no_such_request(id: i64) -> String {
    format!("There is no request {id}. /approve lists those that are waiting.")
}

pub const CALL_FOR_ITS_PERSON: &str =
    "That call belongs to a private conversation of somebody else. Only they can decide it.";

pub const CALL_OF_SOMEBODY_ELSE: &str =
    "That call belongs to a private conversation of somebody else. Only my owner can decide it.";

/// The longest arguments that stand in a question itself, of all its calls together. Longer ones come as files, as
/// whoever allows a call must see all that it does. Of these, the question shows the beginning and the end.
pub const ARGUMENTS_CHARS_MAX: usize = 6_000;

pub fn cannot_always_allow(id: i64) -> String {
    format!("I ask about calls like this one every time. Use /approve {id} to allow this one.")
}

pub fn answered_by(name: &str) -> String {
    format!("answered by {}", shown_name(name))
}

pub fn choice_by(choice: &str, name: &str) -> String {
    format!("{choice} ({})", shown_name(name))
}

/// A question as it stands there once nobody can press its buttons any more.
pub fn closed(question: &str, words: &str) -> String {
    format!("{question}\n\n→ {words}")
}

/// A call that must be allowed.
#[derive(Clone, Debug)]
pub struct ApprovalPrompt {
    pub id: i64,
    /// The person for whom it is made. None if the question goes to themselves.
    pub person: Option<String>,
    /// True if untrusted content may have asked for it.
    pub is_tainted: bool,
    pub tool: String,
    pub arguments: String,
    /// The difference that it makes to a file, which is shown in the place of the arguments.
    pub change: Option<String>,
    /// The files that it sends, or the paths that its command sees, as they are now.
    pub files: Option<CallFiles>,
    /// It was allowed before, but that does not cover its files as they are now.
    pub is_asked_again: bool,
    /// Why it must be, as the rest of a sentence.
    pub why: String,
    /// Recipient, if the message discloses private content.
    pub tells: Option<String>,
    /// Calls of the tool can be allowed permanently.
    pub can_be_granted: bool,
    /// Longer ones come as a file.
    pub chars_max: usize,
}

impl ApprovalPrompt {
    /// Names the person who asked for the call, which a page may have asked for instead.
    fn asked_by(&self) -> String {
        match (self.person.as_ref().map(as_is), self.is_tainted) {
            (Some(person), true) => {
                format!("This may come from untrusted content, not from {person}.")
            }
            (Some(person), false) => format!("{person} asked for this."),
            (None, true) => "This may come from untrusted content, not from you.".to_owned(),
            (None, false) => "You asked for this.".to_owned(),
        }
    }

    /// All that the call does: its arguments, or the difference that it makes to a file.
    fn whole(&self) -> String {
        match &self.change {
            Some(change) => call_change(change),
            None => call_arguments(&self.arguments),
        }
    }

    /// The call with its files, as it stands in a question.
    fn shown(&self) -> String {
        let again = if self.is_asked_again { ASKED_AGAIN } else { "" };
        let files = self.files.as_ref().and_then(shown_files);
        let files = files.map(|files| format!("\n{}", as_is(files)));
        format!("{again}{}{}", self.shown_call(), files.unwrap_or_default())
    }

    /// The call as it stands in a question. What is too long for that is in the file.
    fn shown_call(&self) -> String {
        let language = if self.change.is_some() { "diff" } else { "json" };
        let Some((name, whole)) = self.file() else { return fenced(language, &self.whole()) };
        let signs: Vec<char> = whole.chars().collect();
        let part = |signs: &[char]| fenced(language, &signs.iter().collect::<String>());
        let (head, tail) = (self.chars_max / 3, self.chars_max / 6);
        let left = signs.len() - head - tail;
        let (head, tail) = (&signs[..head], &signs[signs.len() - tail..]);
        let more = format!("{left} characters between are only in the file {name} above.");
        format!("{}\n…\n{}\n{more}", part(head), part(tail))
    }

    /// The call, if it is too long for the question: name and content of a file that stands before it.
    pub fn file(&self) -> Option<(String, String)> {
        let whole = self.whole();
        let is_long = whole.chars().count() > self.chars_max;
        is_long.then(|| (format!("call-{}.txt", self.id), whole))
    }
}

/// Stands before a call that is asked about again. A version that asked before may not have stored its files.
const ASKED_AGAIN: &str =
    "I'm asking again because the files may have changed. This is what the call would do now.\n";

/// Asks whether a call may be made.
pub fn ask_approval(call: &ApprovalPrompt, minutes: u64) -> String {
    let ApprovalPrompt { id, tool, why, can_be_granted, tells, .. } = call;
    let always = if *can_be_granted { format!(", /approve {id} always") } else { String::new() };
    let ends = format!(
        "(Or reply /approve {id}{always} or /deny {id}.) No answer within {} means no.",
        within(minutes),
    );
    if let Some(reader) = tells {
        let (reader, shown) = (as_is(reader), call.shown());
        return format!(
            "May I tell {reader} this? It comes from our private chat.\n{shown}\n{ends}"
        );
    }
    format!(
        "{} I'd like to run {} with:\n{}\nI'm asking because {}. Approve? {ends}",
        call.asked_by(),
        as_is(tool),
        call.shown(),
        as_is(why),
    )
}

/// Returns a person with the chat in which they read. [`ask_approval`] escapes it.
pub fn reader(name: &str, chat: impl Display) -> String {
    let name = clean_name(name);
    format!("{} ({chat})", name.as_deref().unwrap_or(NO_NAME))
}

/// Asks whether several calls of a step may be made.
pub fn ask_joint_approval(calls: &[ApprovalPrompt], minutes: u64) -> String {
    let first = calls.first().map_or(0, |call| call.id);
    let asked_by = calls.first().map(ApprovalPrompt::asked_by).unwrap_or_default();
    let mut text = format!("{asked_by} I'd like to do {} things:\n", calls.len());
    for call in calls {
        let ApprovalPrompt { id, tool, why, .. } = call;
        let (tool, why) = (as_is(tool), as_is(why));
        let _ = writeln!(text, "{id}: {tool} with:\n{}\nI'm asking because {why}.", call.shown());
    }
    format!(
        "{text}Approve? (Or reply /approve {first} all or /deny {first} all. /approve NUMBER and /deny NUMBER decide one.) \
         No answer within {} means no.",
        within(minutes),
    )
}

/// Asks about one of several calls, which were shown whole before.
pub fn ask_single_approval(id: i64, tool: &str, arguments: &str) -> String {
    let arguments = call_arguments(arguments);
    let shown: String = arguments.chars().take(NOT_DONE_CHARS_MAX).collect();
    let more = if shown.len() < arguments.len() { "\n(The rest is above.)" } else { "" };
    format!(
        "{id}: {} with:\n{}{more}\nApprove? (Or reply /approve {id} or /deny {id}.)",
        as_is(tool),
        fenced("json", &shown)
    )
}

/// Confirms that several calls are asked about alone.
pub fn will_ask_each(count: usize) -> String {
    format!("Here they are one by one: {}.", counted(count as u64, "question"))
}

fn within(minutes: u64) -> String {
    match minutes {
        120.. if minutes.is_multiple_of(60) => counted(minutes / 60, "hour"),
        _ => counted(minutes, "minute"),
    }
}

/// Maximum length of a call that was not made in a message, in characters.
const NOT_DONE_CHARS_MAX: usize = 1_500;

// What stands on the buttons of several calls.
pub const ALL: &str = "All";
pub const NONE: &str = "None";
pub const EACH: &str = "One by one";

/// The name of the file with calls that are too long for the message about them.
pub const CALLS_NOT_MADE_FILE: &str = "calls.txt";

pub const NOT_OPEN_ANY_MORE: &str =
    "That call is no longer open: it was already decided, or it is older than 24 hours.";
pub const CALL_WITHOUT_ACCESS: &str =
    "I won't do that: the person for whom it was has no access any more.";

/// A call that was not made because nobody could be asked.
pub struct CallNotMade<'a> {
    pub tool: &'a str,
    pub arguments: &'a str,
    /// The difference that it would make to a file, which is shown in the place of the arguments.
    pub change: Option<&'a str>,
    /// The files that it would send, or the paths that its command would see.
    pub files: Option<&'a CallFiles>,
}

/// Reports the calls that a task did not make because nobody could be asked; and, if they are too long for a message, all
/// of them whole.
pub fn calls_not_made(task: Option<&str>, calls: &[CallNotMade<'_>]) -> (String, Option<String>) {
    let mut tools: Vec<_> = calls.iter().map(|call| as_is(call.tool)).collect();
    tools.dedup();
    let (mut shown, mut whole, mut is_cut) = (String::new(), String::new(), false);
    for CallNotMade { tool, arguments, change, files } in calls {
        let (language, all) = match change {
            Some(change) => ("diff", call_change(change)),
            None => ("json", call_arguments(arguments)),
        };
        let part: String = all.chars().take(NOT_DONE_CHARS_MAX / calls.len()).collect();
        let more = if part.len() < all.len() { "\n(The file above has all of it.)" } else { "" };
        is_cut |= part.len() < all.len();
        let name = if calls.len() > 1 { format!("{}:\n", as_is(tool)) } else { String::new() };
        let _ = writeln!(shown, "{name}{}{more}", fenced(language, &part));
        let _ = writeln!(whole, "{tool}\n{all}\n");
        if let Some(files) = files.and_then(shown_files) {
            let _ = writeln!(shown, "{}", as_is(&files));
            let _ = writeln!(whole, "{files}\n");
        }
    }
    let text = format!(
        "I did not run {} for {}, because it needs approval and nobody was there to ask:\n{}",
        tools.join(", "),
        as_is(task.unwrap_or("a job")),
        shown.trim_end(),
    );
    (text, is_cut.then_some(whole))
}

/// Reports calls that a task did not make because nobody could be asked, and that cannot be read.
pub fn not_done_unreadable(count: usize) -> String {
    format!(
        "I did not make {} that needed approval, because nobody was there to ask. My record of this is damaged, so I \
         can't show it.",
        counted(count as u64, "call")
    )
}

/// Counts further calls that were not made.
pub fn more_calls_not_made(count: usize) -> String {
    format!("… and {count} more, which I don't show here.")
}

/// Follows the offer of calls, if not all that were shown are offered.
pub const ASK_FOR_REST: &str = "If you want the others, ask me for them here.";

/// Says where a call that was not made can be asked for.
pub fn where_to_ask(text: &str) -> String {
    format!("{text}\nIf you want it, ask me for it here.")
}

/// Offers to make calls (number, tool) that were not made.
pub fn offer_deferred_calls(calls: &[(i64, &str)]) -> String {
    match calls {
        [(id, _)] => format!(
            "Shall I do exactly this now? (Or reply /approve later {id} or /deny later {id}.) You can approve this for 24 hours."
        ),
        calls => format!(
            "Shall I do exactly this now? {}. (/approve later NUMBER does one of them, and with `all` behind it, all \
             of them.) You can approve this for 24 hours.",
            listed(calls)
        ),
    }
}

/// Offers the calls that are left.
pub fn offer_remaining_calls(calls: &[(i64, &str)]) -> String {
    format!("Still open: {}.", listed(calls))
}

fn listed(calls: &[(i64, &str)]) -> String {
    let calls: Vec<_> = calls.iter().map(|(id, tool)| call_label(*id, tool)).collect();
    calls.join(", ")
}

/// One of several calls, on a button.
pub fn call_label(id: i64, tool: &str) -> String {
    format!("{id}: {}", as_is(tool))
}

/// Confirms that calls are being made now.
pub fn making_deferred_calls(tools: &[&str]) -> String {
    let how = if tools.len() > 1 { "one after another" } else { "now" };
    format!("I'm doing it {how}: {}. You'll get the result here.", as_is(tools.join(", ")))
}

/// Confirms approved calls that wait for earlier ones.
pub fn will_make_deferred_calls(tools: &[&str]) -> String {
    format!("I'll do it after what you approved before: {}.", as_is(tools.join(", ")))
}

/// Explains that not all approved calls can wait for others. `taken`: the tools of those that do.
pub fn too_many_deferred_calls(most: usize, taken: &[&str]) -> String {
    let busy = format!("{most} approved calls are waiting already, the maximum.");
    let again = "Please approve the rest when some of them have ended.";
    match taken {
        [] => format!("{busy} {again}"),
        taken => format!("I'm doing this: {}. {busy} {again}", as_is(taken.join(", "))),
    }
}

pub fn approved_once(tool: &str) -> String {
    format!("Approved once: {}.", as_is(tool))
}

/// Confirms an approval after which the call is refused all the same.
pub fn approved_in_vain(tool: &str, person: impl Display) -> String {
    format!(
        "You approved {}, but the role of {} no longer allows it, so I won't run it.",
        as_is(tool),
        as_is(person)
    )
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
        0 => format!("{} had no permanent approval.", as_is(tool)),
        _ => format!("I'll ask again before each call of {}.", as_is(tool)),
    }
}

/// Confirms that a conversation goes on without what others wrote. `cut`: the messages of the person that did not fit.
pub fn cleaned(left_out: usize, cut: usize) -> String {
    let own = match cut {
        0 => "Your own words are still here.".to_owned(),
        cut => format!(
            "Your own words are still here, except {} that did not fit whole.",
            counted(cut as u64, "older message")
        ),
    };
    format!(
        "I left out the untrusted content, and {left_out} of my later messages. {own} The old conversation is saved."
    )
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

/// The arguments of a call that somebody decides about, whole. They are written anew, so that no letter hides in an
/// escape, and of a name that stands there twice only the value that counts is shown.
pub fn call_arguments(arguments: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(arguments) {
        Ok(arguments) => visible(&arguments.to_string()),
        Err(_) => visible(arguments),
    }
}

/// The change of a file that somebody decides about, as a unified diff.
pub fn call_change(diff: &str) -> String {
    visible_diff(diff)
}

/// A call that waits for approval.
pub struct WaitingCall<'a> {
    pub id: i64,
    pub tool: &'a str,
    pub arguments: &'a str,
}

/// The list of calls that wait for approval, of those that can be made later, and of granted permissions (tool, person).
pub fn approvals<'a>(
    waiting: impl Iterator<Item = WaitingCall<'a>>,
    later: impl Iterator<Item = WaitingCall<'a>>,
    granted: impl Iterator<Item = (&'a str, String)>,
) -> String {
    const SHOWN_CHARS_MAX: usize = 200;
    let mut text = String::new();
    let call = |WaitingCall { id, tool, arguments }: WaitingCall<'_>| {
        let shown = shortened(&call_arguments(arguments), SHOWN_CHARS_MAX);
        format!("{id}: {} {}\n", as_is(tool), as_is(shown))
    };
    text.extend(waiting.map(call));
    text.extend(later.map(|it| format!("/approve later {}", call(it))));
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
