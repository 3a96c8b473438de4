//! The ways in which a text travels to a model.

use std::fs;

use peacrab::documents::DocumentReader;
use peacrab::types::message::{Cause, DeliveryId, MediaKind, MediaRef, Press, Quote, Sender};
use serde_json::{Value, json};

use super::acts::parts;
use super::{deny_until, entrances};
use crate::support::documents::pdf;
use crate::support::fake_channel::FetchBehavior;
use crate::support::rig::{OWNER, Rig, RigOptions, USER};
use crate::support::script::{Order, Reply, calls, says};

/// The ways in which others' text reaches the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    DownloadedFile,
    SharedFile,
    ListedName,
    SymbolicLink,
    HardLink,
    Page,
    SearchResults,
    McpResult,
    CommandOutput,
    Quoted,
    QuotedBot,
    Button,
    MessageButton,
    LowerProposal,
    Plan,
    Summary,
    OpenedSummary,
    GroupSummary,
    SubagentResult,
    SubagentTask,
    PastTalk,
    Aside,
    OpenedAside,
    Picture,
    AttachmentName,
    Overheard,
    LowerPerson,
    /// A job that sends a text.
    LowerReminder,
    /// A job in the conversation.
    LowerJobHere,
    /// The report of a job.
    LowerJob,
    LowerActions,
    PersonName,
    MarkdownSection,
    FailedEdit,
    ListedActions,
    ActionsOfJob,
    QuotedCommand,
    JobReport,
    OpenedJobReport,
    RestoredFile,
    RestoredHardLink,
    RestoredTalk,
    ImportedFile,
    ImportedTalk,
    Fact,
    OpenedFact,
    SessionName,
    /// A note and a memory that the model wanted to keep, after it had read the text.
    Note,
    /// The same, when it is asked for notes before the conversation is compacted.
    NoteAtCompaction,
    /// The caption of a picture that somebody else has sent elsewhere.
    ForwardedCaption,
    ForwardedPicture,
    /// As the adapters decode a message that another bot wrote, and that the owner sends.
    ByWayOfBot,
    Document,
    /// By `peacrab send`, of which the owner speaks.
    SentByScript,
}

const JPEG: &[u8] = b"\xff\xd8\xff\xe0 crab";

fn one(tool: &str, arguments: Value) -> Reply {
    calls(&[(tool, arguments)])
}

fn reads(path: &str) -> Reply {
    one("read_file", json!({"path": path}))
}

/// A call that nobody is asked about, whose arguments tell the text.
fn keeps(text: &str) -> Reply {
    one("write_file", json!({"path": "downloads/kept.md", "content": text}))
}

/// The model reads the page, and the person goes on to talk of other things.
pub(super) fn read_page(rig: &Rig, more: Option<Reply>, said: &str) {
    let replies = [Some(reads("downloads/page.txt")), more, Some(says(said))];
    rig.model.on("what is on the page", replies.into_iter().flatten());
    rig.say("1", "what is on the page?");
}

impl Way {
    pub(super) const ALL: [Self; 54] = [
        Self::DownloadedFile,
        Self::SharedFile,
        Self::ListedName,
        Self::SymbolicLink,
        Self::HardLink,
        Self::Page,
        Self::SearchResults,
        Self::McpResult,
        Self::CommandOutput,
        Self::Quoted,
        Self::QuotedBot,
        Self::Button,
        Self::MessageButton,
        Self::LowerProposal,
        Self::Plan,
        Self::Summary,
        Self::OpenedSummary,
        Self::GroupSummary,
        Self::SubagentResult,
        Self::SubagentTask,
        Self::PastTalk,
        Self::Aside,
        Self::OpenedAside,
        Self::Picture,
        Self::AttachmentName,
        Self::Overheard,
        Self::LowerPerson,
        Self::LowerReminder,
        Self::LowerJobHere,
        Self::LowerJob,
        Self::LowerActions,
        Self::PersonName,
        Self::MarkdownSection,
        Self::FailedEdit,
        Self::ListedActions,
        Self::ActionsOfJob,
        Self::QuotedCommand,
        Self::JobReport,
        Self::OpenedJobReport,
        Self::RestoredFile,
        Self::RestoredHardLink,
        Self::RestoredTalk,
        Self::ImportedFile,
        Self::ImportedTalk,
        Self::Fact,
        Self::OpenedFact,
        Self::SessionName,
        Self::Note,
        Self::NoteAtCompaction,
        Self::ForwardedCaption,
        Self::ForwardedPicture,
        Self::ByWayOfBot,
        Self::Document,
        Self::SentByScript,
    ];

    /// A rig with all tools.
    pub(super) fn options(self, text: &str) -> RigOptions {
        let mut options = parts(text);
        if self == Self::Document {
            let reader = DocumentReader::new(env!("CARGO_BIN_EXE_peacrab"));
            options.intake.documents = Some(reader);
        }
        options
    }

    pub(super) fn is_group(self) -> bool {
        matches!(
            self,
            Self::Overheard
                | Self::LowerPerson
                | Self::LowerReminder
                | Self::LowerJobHere
                | Self::LowerJob
                | Self::LowerActions
                | Self::LowerProposal
                | Self::PersonName
                | Self::GroupSummary
        )
    }

    pub(super) fn chat(self) -> &'static str {
        if self.is_group() { "-1" } else { "1" }
    }

    /// False if the model is never shown the text by it.
    pub(super) fn arrives(self) -> bool {
        !matches!(
            self,
            Self::SymbolicLink
                | Self::Summary
                | Self::Aside
                | Self::JobReport
                | Self::Fact
                | Self::SessionName
                | Self::Note
                | Self::NoteAtCompaction
        )
    }

    /// All that others say in a group before.
    async fn prepare_group(self, rig: &mut Rig, text: &str, orders: &[Order]) {
        match self {
            Self::GroupSummary => {
                rig.say_as(USER, "-1", text);
                rig.next_message("-1").await;
                for said in ["the key is under the mat", "and it rains"] {
                    rig.say_as(OWNER, "-1", said);
                    rig.next_message("-1").await;
                }
                rig.model.obeys(orders);
                rig.say_as(OWNER, "-1", "/compact");
                let done = rig.next_message("-1").await;
                assert!(done.starts_with("I compacted"), "{done}");
            }
            Self::LowerPerson => {
                rig.say_as(USER, "-1", text);
                rig.next_message("-1").await;
            }
            Self::LowerReminder | Self::LowerJobHere | Self::LowerJob | Self::LowerActions => {
                self.prepare_lower_job(rig, text).await;
            }
            Self::LowerProposal => {
                let proposal = one("propose", json!({"title": text, "body": "It is good."}));
                rig.model.on("a plan", [proposal, says("Have a look.")]);
                rig.say_as(USER, "-1", "make a plan");
                rig.next_messages("-1", 2).await;
                rig.say_as(OWNER, "-1", "/new");
                rig.next_message("-1").await;
            }
            Self::PersonName => {
                rig.say_changed(USER, "-1", "hello", |message| {
                    message.cause = Cause::Person(Sender::person(USER, text));
                });
                rig.next_message("-1").await;
            }
            other => unreachable!("{other:?} is in no group"),
        }
    }

    /// A job of somebody with a lower role runs in a conversation that the owner has begun, or before.
    async fn prepare_lower_job(self, rig: &mut Rig, text: &str) {
        let said = if self == Self::LowerActions { "It is about crabs." } else { text };
        let acts = (self == Self::LowerActions).then(|| keeps(text));
        let ends = one("task_completion", json!({"result": said}));
        match self {
            Self::LowerReminder => {
                rig.say_as(USER, "-1", &format!("/jobs message every 2h | {text}"));
            }
            Self::LowerJobHere => {
                let job =
                    json!({"action": "add", "when": "every 2h", "kind": "here", "text": text});
                rig.model.on("later", [one("schedule", job), says("I will.")]);
                rig.say_as(USER, "-1", "later");
            }
            _ => {
                rig.model.on("look at it", acts.into_iter().chain([ends]));
                rig.say_as(USER, "-1", "/jobs add every 2h | look at it");
            }
        }
        rig.next_message("-1").await;
        if self != Self::LowerActions {
            rig.say_as(OWNER, "-1", "/new");
            rig.next_message("-1").await;
        }
        rig.say_as(USER, "-1", "/jobs run 1");
        rig.next_messages("-1", 2).await;
        rig.say_as(USER, "-1", "/jobs rm 1");
        rig.next_message("-1").await;
        if self == Self::LowerActions {
            rig.say_as(OWNER, "-1", "/new");
            rig.next_message("-1").await;
        }
    }

    /// All that happens before the model is obedient.
    pub(super) async fn prepare(self, rig: &mut Rig, text: &str, orders: &[Order]) {
        let downloads = rig.path().join("downloads");
        fs::write(downloads.join("page.txt"), text).unwrap();
        match self {
            Self::SharedFile => fs::write(rig.path().join("shared/page.txt"), text).unwrap(),
            Self::ListedName => {
                fs::create_dir(downloads.join("names")).unwrap();
                fs::write(downloads.join("names").join(text), "x").unwrap();
            }
            Self::SymbolicLink => {
                let link = rig.workspace().join("page.md");
                std::os::unix::fs::symlink("../downloads/page.txt", link).unwrap();
            }
            Self::HardLink => {
                fs::hard_link(downloads.join("page.txt"), rig.workspace().join("page.md")).unwrap();
            }
            Self::RestoredHardLink
            | Self::RestoredFile
            | Self::RestoredTalk
            | Self::ImportedFile
            | Self::ImportedTalk
            | Self::Fact
            | Self::OpenedFact
            | Self::SessionName => self.prepare_entrance(rig, text).await,
            Self::QuotedBot
            | Self::Button
            | Self::MessageButton
            | Self::PastTalk
            | Self::Aside
            | Self::OpenedAside => self.prepare_words(rig, text).await,
            Self::GroupSummary
            | Self::LowerPerson
            | Self::LowerReminder
            | Self::LowerJobHere
            | Self::LowerJob
            | Self::LowerActions
            | Self::LowerProposal
            | Self::PersonName => {
                self.prepare_group(rig, text, orders).await;
            }
            Self::Plan | Self::Summary | Self::OpenedSummary | Self::ListedActions => {
                self.prepare_summary(rig, text, orders).await;
            }
            Self::MarkdownSection => {
                fs::write(downloads.join("page.md"), format!("# Tea\n\n## Green\n{text}\n"))
                    .unwrap();
            }
            Self::ActionsOfJob | Self::JobReport | Self::OpenedJobReport => {
                self.prepare_job(rig, text).await;
            }
            Self::QuotedCommand => {
                read_page(rig, None, "It is about crabs.");
                rig.next_message("1").await;
                let told = rig.ask("1", "/actions").await;
                assert!(told.contains("read_file"), "{told}");
                rig.ask("1", "/new").await;
            }
            Self::Picture | Self::ForwardedPicture => {
                rig.home.has_file("jpeg", [FetchBehavior::Bytes(JPEG.to_vec())]);
            }
            // A model that sees a picture obeys all: this one shows nothing.
            Self::ForwardedCaption => {
                rig.home.has_file("jpeg", [FetchBehavior::Bytes(b"no picture".to_vec())]);
            }
            Self::Document => rig.home.has_file("pdf", [FetchBehavior::Bytes(pdf(&[text]))]),
            Self::SentByScript => {
                entrances::send(rig, "home:1", text).await;
                let sent = rig.next_message("1").await;
                assert!(sent.contains(text), "{sent}");
            }
            Self::Note | Self::NoteAtCompaction => self.prepare_note(rig, text, orders).await,
            Self::AttachmentName => rig.home.has_file("pdf", [FetchBehavior::Bytes(b"x".to_vec())]),
            Self::DownloadedFile
            | Self::FailedEdit
            | Self::Page
            | Self::SearchResults
            | Self::McpResult
            | Self::CommandOutput
            | Self::Quoted
            | Self::ByWayOfBot
            | Self::SubagentResult
            | Self::SubagentTask
            | Self::Overheard => {}
        }
    }

    /// The model reads the page and says its text, which comes back after a new conversation has begun.
    async fn prepare_words(self, rig: &mut Rig, text: &str) {
        let evil = format!("It says {text}");
        match self {
            Self::QuotedBot => {
                read_page(rig, None, &evil);
                assert_eq!(rig.next_message("1").await, evil);
                rig.ask("1", "/new").await;
            }
            Self::Button => {
                let proposal = one("propose", json!({"title": text, "body": "It is good."}));
                read_page(rig, Some(proposal), "Have a look.");
                rig.next_messages("1", 2).await;
                rig.ask("1", "/new").await;
            }
            Self::MessageButton => {
                let question = one("message", json!({"text": text, "choices": ["Yes", "No"]}));
                read_page(rig, Some(question), "Have a look.");
                rig.next_messages("1", 2).await;
                rig.ask("1", "/new").await;
            }
            Self::PastTalk | Self::Aside | Self::OpenedAside => {
                read_page(rig, None, "It is about crabs.");
                rig.next_message("1").await;
                rig.model.on("zebras", [says(&evil)]);
                let aside = if self == Self::PastTalk { "" } else { "/btw " };
                rig.ask("1", &format!("{aside}what of zebras?")).await;
                rig.ask("1", "/new").await;
            }
            _ => unreachable!("{self:?} has no words of the model"),
        }
    }

    /// The model reads the page and would keep its text, and a new conversation begins.
    async fn prepare_note(self, rig: &mut Rig, text: &str, orders: &[Order]) {
        const SAID: &str = "It is about crabs.";
        let note = || one("note", json!({"text": text}));
        match self {
            Self::Note => {
                let remember = one("remember", json!({"text": text}));
                let replies = [reads("downloads/page.txt"), remember, note(), says(SAID)];
                rig.model.on("what is on the page", replies);
                rig.say("1", "what is on the page?");
                let questions = deny_until(rig, OWNER, "1", SAID).await;
                assert_eq!(questions.len(), 2, "{questions:?}");
            }
            _ => {
                let notes = [note(), says("NO_REPLY")];
                rig.model.on("is about to be replaced by a summary", notes);
                read_page(rig, None, SAID);
                rig.next_message("1").await;
                rig.ask("1", "the key is under the mat").await;
                rig.ask("1", "and it rains").await;
                rig.model.obeys(orders);
                let done = rig.ask("1", "/compact").await;
                assert!(done.starts_with("I compacted"), "{done}");
            }
        }
        rig.settled().await;
        rig.next_messages("1", rig.unread("1").len()).await;
        rig.ask("1", "/new").await;
    }

    /// A job reads the page and reports.
    async fn prepare_job(self, rig: &mut Rig, text: &str) {
        let evil = format!("It says {text}");
        let said = if self == Self::ActionsOfJob { "It is about crabs." } else { &*evil };
        let ends = one("task_completion", json!({"result": said}));
        let replies = [reads("downloads/page.txt"), keeps(text), ends];
        rig.model.on("look at it", replies);
        rig.ask("1", "/jobs add every 2h | look at it").await;
        rig.say("1", "/jobs run 1");
        rig.next_messages("1", 2).await;
        rig.ask("1", "/jobs rm 1").await;
        if self == Self::ActionsOfJob {
            rig.ask("1", "/new").await;
        }
    }

    /// A backup is restored, another bot's home imported, or the program notes something by itself.
    async fn prepare_entrance(self, rig: &mut Rig, text: &str) {
        match self {
            Self::RestoredHardLink => {
                let page = rig.path().join("downloads/page.txt");
                fs::hard_link(page, rig.workspace().join("page.md")).unwrap();
                entrances::restore_backup(rig).await;
            }
            Self::RestoredFile => entrances::restore_backup(rig).await,
            Self::RestoredTalk => {
                read_page(rig, None, &format!("It says {text}"));
                rig.next_message("1").await;
                entrances::restore_backup(rig).await;
            }
            Self::ImportedFile | Self::ImportedTalk => entrances::import_bot(rig, text).await,
            Self::Fact | Self::OpenedFact => entrances::notice_facts(rig, text).await,
            Self::SessionName => {
                entrances::notice_facts(rig, text).await;
                // It begins with words that somebody else wrote.
                self.quote(rig, text);
                rig.next_message("1").await;
                rig.ask("1", "/new").await;
                let list = rig.ask("1", "/sessions").await;
                assert!(list.contains("what is on the page") && !list.contains(text), "{list}");
            }
            _ => {}
        }
    }

    /// The model reads the page, and the conversation is compacted.
    async fn prepare_summary(self, rig: &mut Rig, text: &str, orders: &[Order]) {
        let evil = format!("It says {text}");
        let plan = one("plan", json!({"items": [{"text": text, "state": "todo"}]}));
        let more = match self {
            Self::Plan => Some(plan),
            Self::ListedActions => Some(keeps(text)),
            _ => None,
        };
        read_page(rig, more, &evil);
        rig.next_message("1").await;
        rig.ask("1", "the key is under the mat").await;
        rig.ask("1", "and it rains").await;
        rig.model.obeys(orders);
        let done = rig.ask("1", "/compact").await;
        assert!(done.starts_with("I compacted"), "{done}");
        // Who summed it up has retold it.
        let stored = rig.query("SELECT untrusted_summary FROM sessions");
        assert!(stored[0].contains(text), "{stored:?}");
    }

    /// True if the model is shown the text by a call of its own.
    pub(super) fn is_look(self) -> bool {
        let is_shown = matches!(
            self,
            Self::Plan
                | Self::Summary
                | Self::JobReport
                | Self::RestoredTalk
                | Self::Fact
                | Self::SessionName
                | Self::Quoted
                | Self::QuotedBot
                | Self::QuotedCommand
                | Self::Button
                | Self::MessageButton
                | Self::Picture
                | Self::AttachmentName
                | Self::Overheard
                | Self::Note
                | Self::NoteAtCompaction
                | Self::ForwardedCaption
                | Self::ForwardedPicture
                | Self::ByWayOfBot
                | Self::Document
                | Self::SentByScript
        );
        !is_shown && (!self.is_group() || self == Self::LowerActions)
    }

    /// The call by which a model is shown the text, if one is needed.
    pub(super) fn look(self, rig: &Rig, text: &str) -> Option<Reply> {
        if !self.is_look() {
            return None;
        }
        let search = |scope: &str| one("memory_search", json!({"query": "zebras", "scope": scope}));
        Some(match self {
            Self::DownloadedFile => reads("downloads/page.txt"),
            Self::SharedFile => reads("shared/page.txt"),
            Self::ListedName => one("list_files", json!({"path": "downloads/names"})),
            Self::SymbolicLink | Self::HardLink => reads("page.md"),
            Self::RestoredFile => reads("downloads/page.txt"),
            Self::RestoredHardLink => reads(entrances::RESTORED_LINK),
            Self::ImportedFile => reads("downloads/imports/picoclaw/memory/MEMORY.md"),
            Self::ImportedTalk => reads("downloads/imports/picoclaw/sessions/telegram_1.md"),
            Self::OpenedFact => {
                one("memory_search", json!({"query": "Bauer", "scope": "untrusted"}))
            }
            Self::MarkdownSection => {
                one("read_markdown", json!({"path": "downloads/page.md", "heading": "Green"}))
            }
            Self::FailedEdit => {
                // The nearest line is told.
                let old = text.replace('a', "X");
                one("edit_file", json!({"path": "downloads/page.txt", "old": old, "new": "y"}))
            }
            Self::ListedActions | Self::ActionsOfJob | Self::LowerActions => {
                one("list_actions", json!({}))
            }
            Self::Page => one("web_fetch", json!({"url": "http://crabs.example/1"})),
            Self::SearchResults => one("web_search", json!({"query": "crabs"})),
            Self::McpResult => one("mcp_crabs", json!({})),
            Self::CommandOutput => one("run_downloads", json!({"command": "git log"})),
            Self::OpenedSummary => search("summary"),
            Self::OpenedJobReport => {
                let kept =
                    "SELECT 'result ' || max(t.id) FROM turns t JOIN sessions s ON s.id = t.session
                            WHERE s.kind = 'aside' AND t.noted";
                let query = rig.query(kept).remove(0);
                one("memory_search", json!({"query": query, "scope": "untrusted"}))
            }
            Self::PastTalk | Self::OpenedAside => search("untrusted"),
            Self::Aside => search("past"),
            Self::SubagentResult => {
                let completes = one("task_completion", json!({"result": text}));
                rig.model.on("look into it", [reads("downloads/page.txt"), completes]);
                one("subagent", json!({"task": "look into it"}))
            }
            Self::SubagentTask => {
                rig.model.on("see", [reads("downloads/page.txt")]);
                one("subagent", json!({"task": text}))
            }
            shown => unreachable!("{shown:?} is no call"),
        })
    }

    /// The owner says something, and the model sees the text by it.
    pub(super) fn arrive(self, rig: &Rig, text: &str) {
        if let Some(looks) = self.look(rig, text) {
            rig.model.on("see", [looks]);
            return rig.say(self.chat(), "see what it says about http://crabs.example/1");
        }
        match self {
            Self::GroupSummary
            | Self::LowerPerson
            | Self::LowerReminder
            | Self::LowerJobHere
            | Self::LowerJob
            | Self::PersonName => {
                rig.say_as(OWNER, "-1", "go on");
            }
            Self::Overheard => {
                rig.home.overhears(rig.home.message(USER, "-1", text));
                rig.say_as(OWNER, "-1", "go on");
            }
            Self::Quoted
            | Self::QuotedBot
            | Self::QuotedCommand
            | Self::ByWayOfBot
            | Self::SentByScript => self.quote(rig, text),
            Self::ForwardedCaption => Self::forward_picture(rig, text),
            Self::ForwardedPicture => Self::forward_picture(rig, ""),
            Self::SessionName => {
                let list = rig.home.got().borrow().last().unwrap().text.clone();
                Self::QuotedBot.quote(rig, &list);
            }
            Self::Fact => rig.say("1", "what does Bauer want?"),
            Self::Button | Self::MessageButton | Self::LowerProposal => {
                let got = rig.home.got();
                let asked = got.borrow().iter().rev().find(|got| !got.choices.is_empty()).cloned();
                let delivery = DeliveryId(asked.unwrap().delivery);
                rig.say_changed(OWNER, self.chat(), "", |message| {
                    message.body.press = Some(Press { delivery, choice: 0 });
                });
            }
            Self::Picture | Self::AttachmentName | Self::Document => self.send_file(rig, text),
            _ => rig.say("1", "go on"),
        }
    }

    /// The owner says something about a message of somebody else, or of the bot.
    fn quote(self, rig: &Rig, text: &str) {
        let by_bot = matches!(self, Self::QuotedBot | Self::QuotedCommand | Self::SentByScript);
        let author = match self {
            Self::ByWayOfBot => "by way of Gif",
            _ if by_bot => "Peacrab",
            _ => "Bob",
        };
        let author = author.to_owned();
        let quote = Quote { author, text: text.to_owned(), by_others: !by_bot, by_bot };
        rig.say_changed(OWNER, "1", "see this", |message| message.body.quoted = Some(quote));
    }

    fn send_file(self, rig: &Rig, text: &str) {
        let file = match self {
            Self::Picture => photo(),
            Self::Document => document("paper.pdf".to_owned()),
            _ => document(format!("{text}.pdf")),
        };
        rig.say_changed(OWNER, "1", "see this", |message| message.body.media = vec![file]);
    }

    /// The owner passes on the picture of somebody else, as the adapters decode it.
    fn forward_picture(rig: &Rig, caption: &str) {
        let (author, text) = ("forwarded from Bob".to_owned(), caption.to_owned());
        let quote = Quote { author, text, by_others: true, by_bot: false };
        let file = MediaRef { quoted: true, ..photo() };
        rig.say_changed(OWNER, "1", "", |message| {
            message.body.quoted = Some(quote);
            message.body.media = vec![file];
        });
    }
}

fn photo() -> MediaRef {
    MediaRef {
        kind: MediaKind::Image,
        name: None,
        mime: Some("image/jpeg".to_owned()),
        size: None,
        handle: "jpeg".to_owned(),
        fetched: None,
        quoted: false,
    }
}

fn document(name: String) -> MediaRef {
    let (handle, mime) = ("pdf".to_owned(), None);
    MediaRef { kind: MediaKind::Document, name: Some(name), handle, mime, ..photo() }
}
