//! `peacrab import`: brings files, conversations and jobs of another bot. What it brings is untrusted: files lie in
//! downloads/ until their owner accepts each, and jobs are only proposed. Nothing of the other bot is changed.

pub mod formats;
mod left_out;
mod other_folder;
mod sparse;
mod wanted;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use cap_std::fs::DirEntry;
use chrono::Utc;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::invocation::Invocation;
use super::print::{self, ResultForm};
use super::progress::ProgressLine;
use crate::atomic_file;
use crate::types::commands::CommandId;
use crate::workspace::{NewFolder, PathError, WorkspacePath};
use formats::{ImportedJob, OtherSession, read_jobs, read_session};
use left_out::{LeftOutLines, typeable};
use other_folder::{DecodedLines, OtherFolder, UnreadFile};
use wanted::{NOT_IMPORTED, first_name, is_wanted_folder, reason_to_leave_out};

/// The folder of the home for imports.
const FOLDER: &str = "downloads/imports";

/// Files of another bot that are copied; more are no notebook.
const FILES_MAX: usize = 2_000;

/// Larger files are left out, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Conversations with their calls can be longer, in bytes.
const SESSION_BYTES_MAX: u64 = 64 << 20;

/// Lists of jobs, in bytes: each job is a line of the report.
const JOBS_BYTES_MAX: u64 = 1 << 20;

/// Depth of the folders that are looked at.
const DEPTH_MAX: usize = 8;

/// A bot whose files are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OtherBot {
    Picoclaw,
    Nanobot,
    Openclaw,
}

impl OtherBot {
    fn name(self) -> &'static str {
        match self {
            Self::Picoclaw => "picoclaw",
            Self::Nanobot => "nanobot",
            Self::Openclaw => "openclaw",
        }
    }

    /// Returns true if the formats of its conversations and jobs are known.
    fn has_sessions_and_jobs(self) -> bool {
        self != Self::Openclaw
    }
}

/// The imported things.
#[derive(Default)]
struct Report {
    memory: Vec<String>,
    skills: Vec<String>,
    others: Vec<String>,
    sessions: Vec<String>,
    jobs: Vec<ImportedJob>,
    left_out: LeftOutLines,
}

/// Imports from the folder of another bot, and prints a report.
pub(super) fn import(
    on: &Invocation,
    bot: OtherBot,
    path: &Path,
    form: ResultForm,
) -> anyhow::Result<()> {
    ensure!(path.is_dir(), "{} is not a folder", path.display());
    let root =
        OtherFolder::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    // A link is named below, as one that is left out.
    let inner = root.below(Path::new("workspace")).ok();
    ensure!(
        on.home.is_dir(),
        "there is no home in {} yet: start the daemon once, or use --home",
        on.home.display()
    );
    let progress = ProgressLine::new("Importing", None);
    let (report, program) = (Report::default(), on.program());
    let folder = format!("{FOLDER}/{}", bot.name()).parse()?;
    let mut import = Import { bot, home: &on.home, program, folder, into: None, report, progress };
    import.copy_files(inner.as_ref().unwrap_or(&root))?;
    if inner.is_some() {
        import.name_others(&root, path);
    }
    if bot.has_sessions_and_jobs() {
        for folder in inner.iter().chain([&root]) {
            import.convert_sessions(folder)?;
            import.propose_jobs(folder);
        }
    }
    if import.into.is_none() && import.report.jobs.is_empty() {
        let left_out = import.report.left_out.all();
        let left_out: String = left_out.iter().map(|line| format!("\n- {line}")).collect();
        bail!("found no data of {} in {}{left_out}", bot.name(), path.display());
    }
    import.into.take().map(NewFolder::finish).transpose()?;
    atomic_file::give_to_owner(&on.home, &on.home.join("downloads"))
        .context("cannot give the files to the account of the home")?;
    let Import { report, progress, folder, .. } = import;
    drop(progress);
    match form {
        ResultForm::Words => print::line(&words(&report, &folder)),
        ResultForm::Json => print::json(&json(&report, &on.home.join(&folder))),
    }
    Ok(())
}

struct Import<'a> {
    bot: OtherBot,
    home: &'a Path,
    /// The command by which people start this program for the home.
    program: String,
    /// Its path in the home. An import never overwrites an earlier one: once it is made, it may have a number.
    folder: WorkspacePath,
    /// None as long as nothing was imported.
    into: Option<NewFolder>,
    report: Report,
    progress: ProgressLine,
}

impl Import<'_> {
    /// Copies the bot's texts and skills. Keys and configs are not among them.
    fn copy_files(&mut self, workspace: &OtherFolder) -> anyhow::Result<()> {
        let mut folders = vec![(PathBuf::new(), 0)];
        let mut count = 0;
        while let Some((folder, depth)) = folders.pop() {
            let opened = workspace.below(&folder);
            for entry in self.entries(&opened, &folder) {
                let path = folder.join(entry.file_name());
                let meta = match entry.metadata() {
                    Ok(meta) => meta,
                    Err(error) => {
                        self.leave_out(&path, UnreadFile::from(error));
                        continue;
                    }
                };
                if is_hidden(&entry) || self.is_read_elsewhere(&path) {
                    // Neither named nor copied here.
                } else if meta.is_symlink() {
                    self.leave_out(&path, UnreadFile::Link);
                } else if meta.is_dir() && is_wanted_folder(&path) {
                    match depth < DEPTH_MAX {
                        true => folders.push((path, depth + 1)),
                        false => self.leave_out(&path, "too deep"),
                    }
                } else if !meta.is_file() {
                    self.leave_out(&path, NOT_IMPORTED);
                } else if let Some(why) = reason_to_leave_out(&path) {
                    self.leave_out(&path, why);
                } else if meta.len() > FILE_BYTES_MAX {
                    self.leave_out(&path, UnreadFile::TooLarge);
                } else if count >= FILES_MAX {
                    self.leave_out(&path, format_args!("one more than {FILES_MAX} files"));
                } else if let Ok(opened) = &opened {
                    count += 1;
                    self.copy_file(opened, &path)?;
                }
            }
        }
        Ok(())
    }

    fn copy_file(&mut self, folder: &OtherFolder, path: &Path) -> anyhow::Result<()> {
        match folder.read(path.file_name().unwrap_or_default(), FILE_BYTES_MAX) {
            Ok(text) => {
                if let Some(name) = self.put(path, &text)? {
                    self.report.list_of(path).push(name);
                }
            }
            Err(why) => self.leave_out(path, why),
        }
        Ok(())
    }

    /// Names the files and folders beside the workspace, such as skills for all workspaces: they are not imported.
    fn name_others(&mut self, root: &OtherFolder, path: &Path) {
        for entry in self.entries(&root.below(Path::new("")), path) {
            let name = PathBuf::from(entry.file_name());
            let is_workspace = name == Path::new("workspace");
            if !is_workspace && !is_hidden(&entry) && !self.is_read_elsewhere(&name) {
                self.leave_out(&path.join(name), NOT_IMPORTED);
            }
        }
    }

    /// The entries of a folder, sorted by name. `shown` is its name for people.
    fn entries(&mut self, folder: &Result<OtherFolder, UnreadFile>, shown: &Path) -> Vec<DirEntry> {
        let shown = if shown.as_os_str().is_empty() { Path::new("the folder") } else { shown };
        match folder {
            Ok(folder) => {
                let (entries, failed) = folder.entries();
                failed.into_iter().for_each(|error| self.leave_out(shown, UnreadFile::from(error)));
                entries
            }
            Err(UnreadFile::Missing) => Vec::new(),
            Err(why) => {
                self.leave_out(shown, why);
                Vec::new()
            }
        }
    }

    /// Returns true for the folders of conversations and jobs, if these are read.
    fn is_read_elsewhere(&self, path: &Path) -> bool {
        let is_theirs = path == Path::new("sessions") || path == Path::new("cron");
        is_theirs && self.bot.has_sessions_and_jobs()
    }

    fn leave_out(&mut self, path: &Path, why: impl Display) {
        self.report.left_out.add(path, why);
    }

    /// Writes conversations down as texts. Of one in both formats, the lines are read: a bot that has changed to them goes on
    /// there.
    fn convert_sessions(&mut self, within: &OtherFolder) -> anyhow::Result<()> {
        let folder = within.below(Path::new("sessions"));
        let mut entries = self.entries(&folder, Path::new("sessions"));
        entries.sort_by_key(|entry| !entry.file_name().as_encoded_bytes().ends_with(b".jsonl"));
        let mut converted = BTreeSet::new();
        for entry in entries {
            let name = entry.file_name();
            let shown = name.to_string_lossy().into_owned();
            if is_hidden(&entry) || shown.ends_with(".meta.json") {
                continue;
            }
            let path = Path::new("sessions").join(&shown);
            let stem = shown.strip_suffix(".jsonl").or_else(|| shown.strip_suffix(".json"));
            let (Some(stem), Ok(folder)) = (stem, &folder) else {
                self.leave_out(&path, NOT_IMPORTED);
                continue;
            };
            if converted.contains(stem) {
                self.leave_out(
                    &path,
                    format_args!("{}.jsonl was imported", typeable(Path::new(stem))),
                );
                continue;
            }
            let DecodedLines { text, skipped } = match folder.read_lines(&name, SESSION_BYTES_MAX) {
                Ok(read) => read,
                Err(why) => {
                    self.leave_out(&path, why);
                    continue;
                }
            };
            let summary = self.summary(folder, stem);
            match read_session(&text, summary.as_deref()) {
                Some(OtherSession { messages: 0, .. }) => self.leave_out(&path, "has no messages"),
                Some(mut session) => {
                    session.skipped += skipped;
                    self.put_session(stem, &session)?;
                    converted.insert(stem.to_owned());
                }
                None => self.leave_out(&path, "cannot be read"),
            }
        }
        Ok(())
    }

    fn summary(&mut self, folder: &OtherFolder, stem: &str) -> Option<String> {
        let name = format!("{stem}.meta.json");
        match folder.read_text(name.as_ref(), FILE_BYTES_MAX) {
            Ok(summary) => Some(summary),
            Err(UnreadFile::Missing) => None,
            Err(why) => {
                self.leave_out(&Path::new("sessions").join(name), why);
                None
            }
        }
    }

    fn put_session(&mut self, stem: &str, session: &OtherSession) -> anyhow::Result<()> {
        let path = Path::new("sessions").join(format!("{stem}.md"));
        if self.put(&path, session.text.as_bytes())?.is_some() {
            let skipped = match session.skipped {
                0 => String::new(),
                lines => format!(", {lines} unreadable lines left out"),
            };
            let stem = typeable(Path::new(stem));
            self.report.sessions.push(format!("{stem}: {} messages{skipped}", session.messages));
        }
        Ok(())
    }

    fn propose_jobs(&mut self, within: &OtherFolder) {
        let path = Path::new("cron/jobs.json");
        let folder = match within.below(Path::new("cron")) {
            Ok(folder) => folder,
            Err(UnreadFile::Missing) => return,
            Err(why) => return self.leave_out(Path::new("cron"), why),
        };
        match folder.read_text("jobs.json".as_ref(), JOBS_BYTES_MAX) {
            Ok(text) => match read_jobs(&text, Utc::now()) {
                Some(jobs) => {
                    let jobs = jobs.into_iter().map(|job| job.started_by(&self.program));
                    self.report.jobs.extend(jobs);
                }
                None => self.leave_out(path, "cannot be read"),
            },
            Err(UnreadFile::Missing) => {}
            Err(why) => self.leave_out(path, why),
        }
    }

    /// Writes a file below the folder of this import. Returns its path there, which can be typed in a chat; None if the
    /// file is left out, because there is none.
    fn put(&mut self, path: &Path, content: &[u8]) -> anyhow::Result<Option<String>> {
        self.progress.add(content.len() as u64);
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        ensure!(is_inside, "the path {} points outside of the folder", path.display());
        let name = typeable(path);
        let refused = match self.write(&name, content)? {
            Ok(true) => None,
            Ok(false) => Some("another file has this name".to_owned()),
            Err(why) => Some(why.to_string()),
        };
        if let Some(why) = refused {
            self.leave_out(path, why);
            return Ok(None);
        }
        Ok(Some(name))
    }

    /// Writes a file below the folder, which is made for the first one. Returns false if another one has its name, and the
    /// reason if it can have no such name.
    fn write(&mut self, name: &str, content: &[u8]) -> anyhow::Result<Result<bool, PathError>> {
        let whole = format!("{}/{name}", self.folder).parse::<WorkspacePath>();
        let below = match whole.and_then(|_| name.parse::<WorkspacePath>()) {
            Ok(below) => below,
            Err(error) => return Ok(Err(error)),
        };
        let failed = || format!("cannot write to {}", self.home.join(&self.folder).display());
        let into = match self.into.take() {
            Some(into) => into,
            None => NewFolder::make(self.home, &self.folder).with_context(failed)?,
        };
        let written = into.put(&below, content).with_context(failed);
        self.folder = into.path().clone();
        self.into = Some(into);
        Ok(Ok(written?))
    }
}

impl Report {
    fn list_of(&mut self, path: &Path) -> &mut Vec<String> {
        let first = first_name(path);
        if first == "skills" {
            &mut self.skills
        } else if first == "memory" || path == Path::new("MEMORY.md") {
            &mut self.memory
        } else {
            &mut self.others
        }
    }
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().as_encoded_bytes().starts_with(b".")
}

/// The report for a script.
fn json(report: &Report, into: &Path) -> Value {
    let jobs: Vec<_> = report.jobs.iter().map(|job| &job.line).collect();
    json!({
        "folder": into,
        "memory": report.memory,
        "skills": report.skills,
        "others": report.others,
        "sessions": report.sessions,
        "jobs": jobs,
        "left_out": report.left_out.all(),
    })
}

/// The report: what lies where, and how each is accepted.
fn words(report: &Report, shown: &WorkspacePath) -> String {
    let mut words =
        format!("Imported into {shown}/, as untrusted content. Nothing of it is used yet.");
    let mut list = |title: &str, lines: &[String]| {
        if !lines.is_empty() {
            words += &format!("\n\n{title}");
            lines.iter().for_each(|line| words += &format!("\n- {line}"));
        }
    };
    let memory: Vec<_> = report
        .memory
        .iter()
        .map(|path| CommandId::Trust.line(format_args!("{shown}/{path}")))
        .collect();
    list(
        "Memory. Send these in your private chat; each file is shown before it is copied to notes/:",
        &memory,
    );
    list(
        "Skills. Ask the bot to install one; it shows you the whole text before it writes it:",
        &report.skills,
    );
    list("Other texts, such as instructions. Take from them what you like:", &report.others);
    list(
        "Conversations, as texts in sessions/. The bot finds them when you ask for them:",
        &report.sessions,
    );
    let jobs: Vec<_> = report.jobs.iter().map(|job| job.line.clone()).collect();
    list("Jobs. None was created. Run the lines that you want:", &jobs);
    list("Left out:", &report.left_out.all());
    words
}
