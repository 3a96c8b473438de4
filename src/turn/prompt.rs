//! The prompt: values in, texts out. Parts that change least come first, and parts that were sent once are
//! repeated byte for byte, so that providers' caches stay valid.

pub(crate) mod files;
mod tail;

use std::fmt::Write as _;

pub(crate) use tail::{InvokedSkills, SkillInvocation};
pub use tail::{PromptTail, TIME_AGAIN_AFTER, is_time_due, tail};

use crate::memory;
use crate::people::Role;
use crate::provider::tokens;
use crate::short_text::{clean_name, one_line};
use crate::tasks::subagents::SubagentId;
use crate::trust::permission::PermissionReason;
use crate::types::message::ChannelName;
use crate::types::origin::TaskKind;
use crate::types::session::{Finish, FrozenContext};
use crate::types::source::{Author, Source, SourcedText};
use crate::types::untrusted;
use crate::workspace::WorkspacePath;

/// The bot's identity. It does not depend on the instructions.
const IDENTITY: &str = "\
You are Peacrab, an assistant that runs on its owner's own machine. ";

/// The program's lines in a group.
const GROUP_LINES: &str = "\
Each message begins with a line in square brackets that the program wrote: the time, who speaks with which role, and \
where. Never write such a line yourself. ";

/// The same in a private chat.
const PRIVATE_LINES: &str =
    "A line in square brackets, such as the time, is the program's. Never write one yourself. ";

/// The explanation of a turn's end.
const ANSWER: &str = "\
Your answer is sent to where the message came from by itself; a line ![name](path) in it sends that file. ";

/// The explanation of a turn's end, if only a call ends it.
const EXPLICIT: &str = "\
What you write beside calls is thought aloud: work until what was asked is done, then call task_completion with the \
answer; call converse to say something else to the person. ";

/// The explanation of silence in a group.
const GROUP_SILENCE: &str = "Answer with NO_REPLY alone if nothing should be said.";

/// The explanation of silence in a private chat, where jobs also send messages.
const PRIVATE_SILENCE: &str = "NO_REPLY alone says nothing; it is no answer to a person.";

const PATHS: &str =
    "\nPaths are relative to your workspace, which holds the files below, memory and notes.";

/// The table of decisions (`trust::table`) in short: what is untrusted, and where the model may still write.
const UNTRUSTED: &str = "\
After pages, downloads/ or others' words, write to downloads/; the rest needs approval. ";

/// The identity for a small context window.
const COMPACT_IDENTITY: &str = "\
You are Peacrab, an assistant on its owner's own machine. Paths are relative to your workspace. ";

/// The program's lines in a group, for a small context window.
const COMPACT_GROUP_LINES: &str = "\
The line in square brackets before a message is the program's: time, speaker, role, place. Never write one. ";

/// Returns the reminder for a model that has written a text where only a call ends the turn.
pub(crate) fn reminder(again: &[&str]) -> String {
    let calls = again.join(" or ");
    format!(
        "[That was no call, so nobody has read it and nothing has ended. Go on with the tools; when you are done, \
         call {calls} with all that is to be said.]"
    )
}

/// A reminder for a model that would leave a person without an answer.
pub(crate) const ANSWER_DUE: &str = "\
[Nobody else is here, and the person waits for an answer to this message. Answer it in words.]";

/// A reminder for a model whose whole answer is a call in JSON that its server has not recognized.
pub(crate) const LOST_CALL: &str = "\
[Nobody has read that, and it called nothing. Answer the person in plain words.]";

/// A reminder for the model of a heartbeat run that has written a text where only a call ends the turn.
pub(crate) const HEARTBEAT_REMINDER: &str = "\
[That was no call, so nobody has read it and nothing has ended. Go on with the tools; then call converse with what \
your owner would want to be told, or task_completion if that is nothing.]";

/// A note for a model that loops.
pub(crate) const REPEATED_CALL: &str = "\
[You have made the same calls with the same results several times. Do something else, or answer with what you have.]";

/// The result of a question that nobody answered.
pub(crate) const NOBODY_ANSWERED: &str = "\
Nobody answered in time. Go on without the answer if you can, and say what you assumed; else say what you would need to know.";

/// The result of a call that nobody has approved in time.
pub(crate) const NOBODY_APPROVED: &str = "\
Not done: nobody who may allow it answered in time. Do not try it in another way; say that it was not allowed.";

/// The result of a call whose files are not those that people approved.
pub(crate) const CHANGED_SINCE_APPROVAL: &str = "\
Not done: a file of this call is not as it was when it was approved. Read it again, and make the call that is right now; \
people are asked again.";

/// Returns the result of a call that is denied: the reason, and the one way that works.
pub fn denied(why: &PermissionReason) -> String {
    format!("Denied: {why}. What works: {}. Try no other way.", why.alternative())
}

/// Returns the result of a call for a job whose command is not allowed in the other tool.
pub(crate) fn cannot_stand_for(other: &str, why: &str) -> String {
    format!("Not done: commands of jobs are run as {other} runs them, and that cannot be. {why}")
}

/// Returns the result of a call that would change an instruction by another path, without approval.
pub(crate) fn instruction_by_other_path(path: &WorkspacePath) -> String {
    format!(
        "Not changed: {path} is an instruction or memory file, and this conversation has read untrusted content. Name it \
         by its own path, so that somebody is asked; a change of it is taken back by the person, with /undo."
    )
}

/// Returns the result of a call that would change a file in another folder than the one it names.
pub(crate) fn file_by_other_path(path: &WorkspacePath) -> String {
    format!(
        "Not changed: the file is {path}, and this conversation has read untrusted content. Name it by its own path, so \
         that somebody is asked, or save to downloads/."
    )
}

pub(crate) fn denied_by(name: &str) -> String {
    let name = plain(name);
    format!("Not done: {name} did not allow it. Do not try it in another way; go on without it.")
}

/// The note before a side question.
pub(crate) const SIDE_QUESTION: &str = "\
[A side question, while the conversation above goes on elsewhere. Answer it by itself and briefly, without \
calling tools; neither question nor answer becomes part of the conversation.]";

/// Returns the system prompt of a background task with this identity.
pub(crate) fn task_system(identity: &str, instructions: &str) -> Vec<String> {
    let instructions = instructions.trim();
    vec![match instructions.is_empty() {
        true => identity.to_owned(),
        false => format!("{identity}\n\n{instructions}"),
    }]
}

/// Returns the note in a conversation to which the heartbeat has sent a message. `by` is the person it acts for.
pub(crate) fn heartbeat_note(by: Author, tainted: bool) -> SourcedText {
    let read = if tainted { format!(" It {}.", untrusted::HAS_READ) } else { String::new() };
    let (kind, by) = (TaskKind::Heartbeat, Some(by));
    SourcedText::of(
        Source::Task { kind, number: None, by, read_others: tainted },
        format!(
            "[Your heartbeat looked after HEARTBEAT.md; what it had to say was sent here as it stands below.{read}]"
        ),
    )
}

/// Returns the result of a call that has started a subagent.
pub(crate) fn spawned(id: SubagentId) -> String {
    format!("Subagent {id} has begun; its result will be sent here.")
}

pub(crate) fn too_many_subagents(most: usize) -> String {
    format!(
        "{most} subagents work already, which is the most. Wait until one has ended, or do it yourself."
    )
}

/// Maximum length of a task that is repeated to the model that gave it, in characters.
const TASK_CHARS_MAX: usize = 300;

/// Returns the note for a model about the end of a subagent that it has started. The result follows as its own answer.
pub(crate) fn subagent_ended(
    id: SubagentId,
    task: &str,
    went_well: bool,
    by: Option<Author>,
    tainted: bool,
) -> SourcedText {
    let read = if tainted { format!(" It {}.", untrusted::HAS_READ) } else { String::new() };
    let ended = if went_well { "is done; its result was" } else { "did not get it done; why was" };
    let task = bare(task);
    SourcedText::of(
        subagent(id, by, tainted),
        format!(
            "[Subagent {id}, to which you have handed the task “{task}”, {ended} sent here as it stands below.{read}]"
        ),
    )
}

/// Returns the source of texts of a subagent that works for this person.
pub(crate) fn subagent(id: SubagentId, by: Option<Author>, read_others: bool) -> Source {
    Source::Task { kind: TaskKind::Subagent, number: Some(id.0), by, read_others }
}

/// Returns the beginning of a task on one line, without brackets, so that it cannot imitate a line of the program.
fn bare(task: &str) -> String {
    let task: String = task.chars().filter(|c| !"[]".contains(*c)).take(TASK_CHARS_MAX).collect();
    one_line(&task)
}

/// The note for a subagent that has used up its tokens.
pub(crate) const TOKENS_USED_UP: &str = "\
[You have used up what you may use, and cannot call tools any more. Answer now: say what you have found and \
done, and what is left to do.]";

/// Returns the note for a model that has used up its steps.
pub(crate) fn steps_used_up(steps: usize) -> String {
    format!(
        "[You have used up your {steps} steps, and cannot call tools any more. Answer now: say what you \
         have found and done, and what is left to do.]"
    )
}

/// Returns the note for the model of a heartbeat run that has used up its steps.
pub(crate) fn heartbeat_steps_used_up(steps: usize) -> String {
    format!(
        "[You have used up your {steps} steps, and cannot call tools any more. Answer now with what your owner \
         would want to be told; with NO_REPLY alone if that is nothing.]"
    )
}

/// The note for the model of a heartbeat run when the quiet hours begin.
pub(crate) const QUIET_HOURS_BEGAN: &str = "\
[The quiet hours of your owner have begun, and you cannot call tools any more. Answer now with what they would want \
to be told, which they are when these hours end; with NO_REPLY alone if that is nothing.]";

/// The result of a call that would repeat a message of the heartbeat.
pub(crate) const SENT_BEFORE: &str =
    "Not sent: you have told them the same there in the last 24 hours.";

/// The result of a call that would send a message of the heartbeat in quiet hours.
pub(crate) const NOT_IN_QUIET_HOURS: &str = "\
Not sent: the quiet hours of your owner have begun. What you answer in the end is told when these are over.";

/// The note before a conversation is compacted. The model's answer to it is not sent.
pub(crate) const TAKE_NOTES: &str = "\
[The older part of this conversation is about to be replaced by a summary. If something in it should last \
beyond the conversation and is neither in your memory nor in your notes, call `remember` or `note` for it now, \
and nothing else. If there is nothing, answer NO_REPLY. Nobody sees this.]";

/// The instructions, as files of the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstructionTexts {
    /// AGENTS.md, SOUL.md and IDENTITY.md.
    pub rules: String,
    /// USER.md, which is about the person of a private chat and shown to nobody else.
    pub user: String,
    /// Name, description and place of each skill.
    pub skills: String,
    /// Skills that are always in the prompt, with a heading each.
    pub always: String,
}

/// Minimum size of a part of the instructions, in tokens: the mark of a cut alone has 25.
const PART_TOKENS_MIN: u64 = 60;

impl InstructionTexts {
    /// Cuts each part to its share of `tokens_max`, if all parts together are longer. A part whose share is too small
    /// to be readable is left out, and its share goes to the others.
    pub fn fit(&mut self, tokens_max: u64) {
        let parts = [
            (&mut self.rules, "your instructions"),
            (&mut self.user, "USER.md"),
            (&mut self.skills, "the list of skills"),
            (&mut self.always, "these skills"),
        ];
        let all = |parts: &[(&mut String, &str)]| -> u64 {
            parts.iter().map(|(text, _)| tokens(text)).sum()
        };
        // The least important parts stand last.
        for at in (1..parts.len()).rev() {
            let all = all(&parts);
            if all <= tokens_max {
                return;
            }
            if tokens(parts[at].0) * tokens_max / all < PART_TOKENS_MIN {
                parts[at].0.clear();
            }
        }
        let all = all(&parts);
        if all <= tokens_max {
            return;
        }
        for (text, name) in parts {
            *text = memory::fit(text, tokens(text) * tokens_max / all, name);
        }
    }
}

/// The circumstances of a conversation, as its prompt describes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationSetting {
    /// Host, workspace, model and version on one line. Empty for everybody but the owner.
    pub about: String,
    /// The only person of a private chat; empty in a group.
    pub with: String,
    pub is_compact: bool,
}

/// Returns the line that tells the model where it runs.
pub(crate) fn about(host: &str, workspace: &str, model: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "You run on {host} with the model {model} (Peacrab {version}); your workspace is {workspace}."
    )
}

/// Returns the line that names the speaker of a private chat, in place of a line before each message. The name is in
/// quotation marks, because the person has chosen it.
pub(crate) fn with(name: &str, role: Role, channel: &ChannelName) -> String {
    let name = plain(name).replace(['“', '”', '"'], "");
    format!("Private chat on {channel} with “{name}” ({role}).")
}

/// Returns the system prompt in parts. Earlier parts change less often than later ones.
pub fn system(
    instructions: &InstructionTexts,
    frozen: &FrozenContext,
    finish: Finish,
    setting: &ConversationSetting,
) -> Vec<String> {
    let sections = |sections: &[(&str, &str)]| {
        let mut text = String::new();
        for (heading, body) in sections.iter().filter(|(_, body)| !body.trim().is_empty()) {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            match *heading {
                "" => text.push_str(body.trim()),
                heading => {
                    let _ = write!(text, "# {heading}\n{}", body.trim());
                }
            }
        }
        text
    };
    let finish_text = match finish {
        Finish::Answer => ANSWER,
        Finish::Explicit => EXPLICIT,
    };
    let (lines, silence) = match (setting.with.is_empty(), setting.is_compact) {
        (false, _) => (PRIVATE_LINES, PRIVATE_SILENCE),
        (true, false) => (GROUP_LINES, GROUP_SILENCE),
        (true, true) => (COMPACT_GROUP_LINES, GROUP_SILENCE),
    };
    let identity = match setting.is_compact {
        true => [COMPACT_IDENTITY, UNTRUSTED, lines, finish_text, silence].concat(),
        false => [IDENTITY, UNTRUSTED, lines, finish_text, silence, PATHS].concat(),
    };
    let identity = format!("{identity}\n{}", setting.about);
    // Others have a USER.md of their own, and see nothing about the host.
    let user_heading = if setting.about.is_empty() { "Who you talk to" } else { "Your owner" };
    let instructions = sections(&[
        ("", &identity),
        ("", &instructions.rules),
        (user_heading, &instructions.user),
        ("Skills (read a skill's file before you use it)", &instructions.skills),
        ("", &instructions.always),
        ("", &setting.with),
    ]);
    let facts = frozen.facts.as_ref().map_or("", |facts| facts.text.trim());
    let memory = sections(&[
        ("Facts to remember", facts),
        ("Your memory", &frozen.memory),
        ("Your recent notes", &frozen.notes),
    ]);
    [instructions, memory].into_iter().filter(|part| !part.is_empty()).collect()
}

/// Returns a name as it may stand in a prompt: without characters that could imitate a line of the program.
fn plain(name: &str) -> String {
    let name = clean_name(&name.replace(['[', ']', '(', ')', '·'], ""));
    name.unwrap_or_else(|| "somebody".to_owned())
}
