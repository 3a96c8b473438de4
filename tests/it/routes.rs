//! Every way in which a text can travel to a model that obeys everything, times every act that the table of decisions
//! asks about: nothing happens before a person was shown the call whole. The acts are those of the table.

mod acts;
mod clones;
mod entrances;
mod inside;
mod ordinary;
mod persons;
mod programs;
mod sequences;
mod sources;
mod unattended;
mod ways;
mod week;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use acts::{Attempt, attempts};
use ordinary::is_question;
use ways::Way;

use crate::support::rig::{OWNER, Rig};
use crate::support::script::{OBEYED, Order};

/// The letters of all orders, as a text that an obedient model follows.
fn orders(attempts: &[Attempt]) -> (Vec<Order>, String) {
    let letters = 'a'..='z';
    let all: Vec<_> = letters
        .zip(attempts)
        .map(|(letter, attempt)| Order {
            letter,
            tool: attempt.tool.to_owned(),
            arguments: attempt.arguments.clone(),
        })
        .collect();
    assert_eq!(all.len(), attempts.len());
    let text: String = all.iter().map(|order| order.letter).collect();
    (all, format!("~{text}~"))
}

/// All files that nobody but their person changes, and the record of the tools that act.
fn snapshot(rig: &Rig) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for folder in ["workspace", "shared", "acts"] {
        read_all(&rig.path().join(folder), &mut found);
    }
    found
}

fn read_all(folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, found);
        } else if let Ok(bytes) = fs::read(&path) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            found.insert(path.display().to_string(), text);
        }
    }
}

/// Answers no, as this account, to each question until the model says that it has ended, and gives the questions.
async fn deny_until(rig: &mut Rig, who: &str, chat: &str, end: &str) -> Vec<String> {
    let mut questions = Vec::new();
    loop {
        let text = rig.next_message(chat).await;
        if text.ends_with(end) {
            return questions;
        }
        if is_question(&text) {
            let number = text.split("/deny ").nth(1).expect("the question has a number");
            let number: String = number.chars().take_while(char::is_ascii_digit).collect();
            rig.say_as(who, chat, &format!("/deny {number}"));
            questions.push(text);
        }
    }
}

/// The states of an attempt's calls, and the words of each outcome.
fn outcomes(rig: &Rig, attempt: &Attempt) -> Vec<String> {
    rig.query(&format!(
        "SELECT state || ': ' || coalesce(output, '') FROM calls WHERE tool = '{}' AND arguments = '{}'",
        attempt.tool, attempt.arguments
    ))
}

/// Returns true if a call was refused for this reason, before anybody could be asked.
fn is_refused_as(outcome: &str, reason: &str) -> bool {
    outcome.strip_prefix("failed: ").is_some_and(|words| words.contains(reason))
}

/// Returns true if a text shows the call of an attempt.
fn shows(text: &str, attempt: &Attempt) -> bool {
    text.contains(attempt.tool) && text.contains(attempt.mark)
}

/// The reason for which an attempt is refused in a group, where nobody needs to be asked about it. Everything else is
/// asked about.
fn refusal_in_group(attempt: &Attempt) -> Option<&'static str> {
    match (attempt.tool, attempt.mark) {
        ("remember" | "note", _) => Some("Groups have no memory"),
        ("write_file", "evil group") => Some(OF_ANOTHER_GROUP),
        _ => None,
    }
}

/// Of a file in the folder of a group, for everybody but the owner in private and that group.
const OF_ANOTHER_GROUP: &str = "is private: only its owner can reach it";

const NO_TOOL: &str = "There is no tool";

/// Of a call that somebody would have been asked about.
const NOBODY_THERE: &str = "nobody can be asked in this run";

/// Each attempt was made, shown whole and denied.
fn check_denied(rig: &Rig, attempts: &[Attempt], questions: &[String], whence: &str) {
    for attempt in attempts {
        let outcomes = outcomes(rig, attempt);
        assert!(!outcomes.is_empty(), "{whence}: the model was not told {attempt:?}");
        let is_denied = |outcome: &String| outcome.starts_with("denied: ");
        assert!(outcomes.iter().all(is_denied), "{whence} {attempt:?}: {outcomes:?}");
        let is_shown = questions.iter().any(|question| shows(question, attempt));
        assert!(is_shown, "{whence} {attempt:?} was not shown: {questions:?}");
    }
}

/// No file has changed since, nothing was sent to others, and no job was made of what others wrote.
fn check_unchanged(rig: &Rig, before: &BTreeMap<String, String>, whence: &str) {
    assert_eq!(snapshot(rig), *before, "{whence}");
    assert_eq!(rig.unread("2"), Vec::<String>::new(), "{whence}");
    assert_eq!(evil_jobs(rig), Vec::<String>::new(), "{whence}");
}

fn evil_jobs(rig: &Rig) -> Vec<String> {
    rig.query("SELECT payload FROM jobs WHERE payload LIKE '%evil%'")
}

/// An obedient model is shown all orders in this way, and does nothing of them unasked.
async fn check(way: Way) {
    let attempts = attempts(way.is_group(), true);
    let (all, text) = orders(&attempts);
    let mut rig = Rig::of(way.options(&text)).await;
    acts::fill(&rig);
    way.prepare(&mut rig, &text, &all).await;
    let before = snapshot(&rig);
    rig.model.obeys(&all);
    way.arrive(&rig, &text);
    let questions = deny_until(&mut rig, OWNER, way.chat(), OBEYED).await;
    for attempt in &attempts {
        let outcomes = outcomes(&rig, attempt);
        if !way.arrives() {
            assert!(outcomes.is_empty(), "{way:?} {attempt:?}: {outcomes:?}");
            continue;
        }
        assert!(!outcomes.is_empty(), "{way:?}: the model was not told {attempt:?}");
        let in_group = way.is_group().then(|| refusal_in_group(attempt)).flatten();
        // The subagent lacks these tools, and whoever has made it obeys, too.
        let is_lacking =
            way == Way::SubagentTask && ["schedule", "message"].contains(&attempt.tool);
        let refusal = in_group.or(is_lacking.then_some(NO_TOOL));
        let is_refused = |outcome: &String| {
            outcome.starts_with("denied: ")
                || refusal.is_some_and(|reason| is_refused_as(outcome, reason))
        };
        assert!(outcomes.iter().all(is_refused), "{way:?} {attempt:?}: {outcomes:?}");
        let is_shown = questions.iter().any(|question| shows(question, attempt));
        assert_eq!(is_shown, in_group.is_none(), "{way:?} {attempt:?}: {outcomes:?} {questions:?}");
    }
    assert_eq!(questions.is_empty(), !way.arrives(), "{way:?}");
    rig.settled().await;
    check_unchanged(&rig, &before, &format!("{way:?}"));
    rig.stop().await;
}

/// A test for each way.
macro_rules! ways {
    ($($name:ident = $way:expr;)+) => {
        $(
            #[tokio::test]
            async fn $name() {
                Box::pin(check($way)).await;
            }
        )+

        const CHECKED: &[Way] = &[$($way),+];
    };
}

ways! {
    a_file_of_the_downloads = Way::DownloadedFile;
    a_file_for_all = Way::SharedFile;
    a_files_name = Way::ListedName;
    a_link_into_the_downloads = Way::SymbolicLink;
    a_second_name_of_a_file = Way::HardLink;
    a_page = Way::Page;
    search_results = Way::SearchResults;
    a_result_of_an_mcp_server = Way::McpResult;
    the_output_of_a_command = Way::CommandOutput;
    a_quoted_message = Way::Quoted;
    a_quoted_message_of_the_bot_after_new = Way::QuotedBot;
    a_button_after_new = Way::Button;
    a_plan_after_compaction = Way::Plan;
    a_summary = Way::Summary;
    a_summary_that_a_call_opens = Way::OpenedSummary;
    a_summary_of_a_group = Way::GroupSummary;
    the_result_of_a_subagent = Way::SubagentResult;
    the_task_of_a_subagent = Way::SubagentTask;
    a_former_conversation = Way::PastTalk;
    an_answer_aside = Way::Aside;
    an_answer_aside_that_is_looked_for = Way::OpenedAside;
    a_picture = Way::Picture;
    the_name_of_an_attachment = Way::AttachmentName;
    what_was_overheard = Way::Overheard;
    what_somebody_with_fewer_rights_said = Way::LowerPerson;
    what_a_reminder_of_somebody_with_fewer_rights_said = Way::LowerReminder;
    a_job_of_somebody_with_fewer_rights_in_the_conversation = Way::LowerJobHere;
    the_report_of_a_job_of_somebody_with_fewer_rights = Way::LowerJob;
    what_a_job_of_somebody_with_fewer_rights_did = Way::LowerActions;
    the_name_of_a_person = Way::PersonName;
    a_section_of_a_file = Way::MarkdownSection;
    the_explanation_of_a_failed_edit = Way::FailedEdit;
    the_record_of_what_was_done = Way::ListedActions;
    the_record_of_what_a_job_did = Way::ActionsOfJob;
    the_quoted_answer_of_a_command = Way::QuotedCommand;
    the_report_of_a_job = Way::JobReport;
    the_report_of_a_job_that_a_call_opens = Way::OpenedJobReport;
    a_file_of_a_restored_backup = Way::RestoredFile;
    a_second_name_in_a_restored_backup = Way::RestoredHardLink;
    a_conversation_of_a_restored_backup = Way::RestoredTalk;
    the_memory_of_another_bot = Way::ImportedFile;
    a_conversation_of_another_bot = Way::ImportedTalk;
    a_fact_that_was_noticed_in_it = Way::Fact;
    a_fact_that_is_looked_for = Way::OpenedFact;
    the_name_of_a_conversation = Way::SessionName;
    a_button_under_a_message = Way::MessageButton;
    a_proposal_of_somebody_with_a_lower_role = Way::LowerProposal;
    a_note_of_an_earlier_turn = Way::Note;
    a_note_before_compaction = Way::NoteAtCompaction;
    the_caption_of_a_forwarded_picture = Way::ForwardedCaption;
    a_forwarded_picture = Way::ForwardedPicture;
    a_message_by_way_of_another_bot = Way::ByWayOfBot;
    the_text_of_a_document = Way::Document;
    a_message_that_a_script_has_sent = Way::SentByScript;
}

#[test]
fn each_way_is_checked() {
    for way in Way::ALL {
        assert!(CHECKED.contains(&way), "{way:?}");
    }
}
