//! `peacrab import`: brings files, conversations and jobs of another bot. What it brings is untrusted: files lie in
//! downloads/ until their owner accepts each, and jobs are only proposed. Nothing of the other bot is changed.

pub mod formats;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use chrono::Utc;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::invocation::Invocation;
use super::print::{self, ResultForm};
use super::progress::ProgressLine;
use crate::types::commands::CommandId;
use crate::whole_file;
use formats::{ImportedJob, OtherSession, read_jobs, read_session};

/// The folder within the home's downloads.
const FOLDER: &str = "imports";

/// Files of another bot that are copied; more are no notebook.
const FILES_MAX: usize = 2_000;

/// Larger files are left out, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Conversations with their calls can be longer, in bytes.
const SESSION_BYTES_MAX: u64 = 64 << 20;

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
    left_out: Vec<String>,
}

/// Imports from the folder of another bot, and prints a report.
pub(super) fn import(
    on: &Invocation,
    bot: OtherBot,
    path: &Path,
    form: ResultForm,
) -> anyhow::Result<()> {
    ensure!(path.is_dir(), "{} is not a folder", path.display());
    let inner = path.join("workspace");
    let workspace = if inner.is_dir() { inner } else { path.to_owned() };
    ensure!(
        on.home.is_dir(),
        "there is no home in {} yet: start the daemon once, or use --home",
        on.home.display()
    );
    let into = free_folder(&on.home.join("downloads").join(FOLDER), bot.name());
    let progress = ProgressLine::new("Importing", None);
    let mut import = Import { into: into.clone(), report: Report::default(), progress };
    import.copy_files(&workspace)?;
    if bot.has_sessions_and_jobs() {
        for folder in [workspace.as_path(), path] {
            import.convert_sessions(&folder.join("sessions"))?;
            import.propose_jobs(&folder.join("cron/jobs.json"));
            if workspace == path {
                break;
            }
        }
    }
    if !into.exists() && import.report.jobs.is_empty() {
        bail!("found no data of {} in {}", bot.name(), path.display());
    }
    whole_file::give_to_owner(&on.home, &on.home.join("downloads"))
        .context("cannot give the files to the account of the home")?;
    let Import { report, progress, .. } = import;
    drop(progress);
    match form {
        ResultForm::Words => print::line(&words(&report, &into, &on.home)),
        ResultForm::Json => print::json(&json(&report, &into)),
    }
    Ok(())
}

/// `picoclaw`, `picoclaw-2` and so on: an import never overwrites an earlier one.
fn free_folder(folder: &Path, name: &str) -> PathBuf {
    let numbered = (2..).map(|number| folder.join(format!("{name}-{number}")));
    let mut names = std::iter::once(folder.join(name)).chain(numbered);
    names.find(|path| !path.exists()).expect("there are more numbers than folders")
}

struct Import {
    into: PathBuf,
    report: Report,
    progress: ProgressLine,
}

impl Import {
    /// Copies the bot's texts and skills. Keys and configs are not among them.
    fn copy_files(&mut self, workspace: &Path) -> anyhow::Result<()> {
        let mut folders = vec![(PathBuf::new(), 0)];
        let mut count = 0;
        while let Some((folder, depth)) = folders.pop() {
            let Ok(entries) = fs::read_dir(workspace.join(&folder)) else { continue };
            let mut names: Vec<_> = entries.filter_map(Result::ok).collect();
            names.sort_by_key(fs::DirEntry::file_name);
            for entry in names {
                let path = folder.join(entry.file_name());
                let shown = path.display().to_string();
                let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
                // Links are not followed.
                let Ok(meta) = entry.metadata() else { continue };
                if meta.is_dir() && !is_hidden && is_wanted_folder(&path) && depth < DEPTH_MAX {
                    folders.push((path, depth + 1));
                } else if meta.is_file() && !is_hidden && is_wanted_file(&path) {
                    if meta.len() > FILE_BYTES_MAX || count >= FILES_MAX {
                        self.report.left_out.push(format!("{shown}: too large, or one too many"));
                        continue;
                    }
                    count += 1;
                    let text = fs::read(workspace.join(&path));
                    let text = text.with_context(|| format!("cannot read {shown}"))?;
                    self.put(&path, &text)?;
                    self.report.list_of(&path).push(shown);
                } else if meta.is_symlink() {
                    self.report.left_out.push(format!("{shown}: a link"));
                }
            }
        }
        Ok(())
    }

    /// Writes conversations down as texts.
    fn convert_sessions(&mut self, folder: &Path) -> anyhow::Result<()> {
        let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
        let mut files: Vec<_> = entries.filter_map(Result::ok).map(|it| it.path()).collect();
        files.sort();
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_large = fs::symlink_metadata(&file)
                .map_or(true, |meta| !meta.is_file() || meta.len() > SESSION_BYTES_MAX);
            if is_large || name.ends_with(".meta.json") {
                continue;
            }
            let Some(stem) = name.strip_suffix(".jsonl").or_else(|| name.strip_suffix(".json"))
            else {
                continue;
            };
            let text = fs::read_to_string(&file).unwrap_or_default();
            let summary = fs::read_to_string(folder.join(format!("{stem}.meta.json"))).ok();
            match read_session(&text, summary.as_deref()) {
                Some(OtherSession { messages: 0, .. }) => {}
                Some(session) => {
                    let path = Path::new("sessions").join(format!("{stem}.md"));
                    self.put(&path, session.text.as_bytes())?;
                    let OtherSession { messages, skipped, .. } = session;
                    let skipped = match skipped {
                        0 => String::new(),
                        lines => format!(", {lines} unreadable lines left out"),
                    };
                    self.report.sessions.push(format!("{stem}: {messages} messages{skipped}"));
                }
                None => self.report.left_out.push(format!("sessions/{name}: cannot be read")),
            }
        }
        Ok(())
    }

    fn propose_jobs(&mut self, file: &Path) {
        let Ok(text) = fs::read_to_string(file) else { return };
        match read_jobs(&text, Utc::now()) {
            Some(jobs) => self.report.jobs.extend(jobs),
            None => self.report.left_out.push("cron/jobs.json: cannot be read".to_owned()),
        }
    }

    /// Writes a file below the folder of this import.
    fn put(&mut self, path: &Path, content: &[u8]) -> anyhow::Result<()> {
        self.progress.add(content.len() as u64);
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        ensure!(is_inside, "the path {} points outside of the folder", path.display());
        let file = self.into.join(path);
        let write = || -> io::Result<()> {
            let folder = file.parent().unwrap_or(&self.into);
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            whole_file::replace(&file, content, whole_file::PRIVATE)
        };
        write().with_context(|| format!("cannot write {}", file.display()))
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

fn is_wanted_folder(path: &Path) -> bool {
    let first = first_name(path);
    first == "skills" || first == "memory"
}

/// Texts of the workspace and of its memory, and all of skills.
fn is_wanted_file(path: &Path) -> bool {
    let is_text = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md"));
    first_name(path) == "skills" || is_text
}

fn first_name(path: &Path) -> &OsStr {
    path.iter().next().unwrap_or_default()
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
        "left_out": report.left_out,
    })
}

/// The report: what lies where, and how each is accepted.
fn words(report: &Report, into: &Path, home: &Path) -> String {
    let shown = into.strip_prefix(home).unwrap_or(into).display();
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
    list("Jobs. None was created. Run the lines that you want, for this home:", &jobs);
    list("Left out:", &report.left_out);
    words
}
