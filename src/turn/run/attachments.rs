//! Files that are sent with an answer. A line that is only a Markdown picture with a path of the workspace,
//! `![Chart](outputs/chart.png)`, stands for that file, of any kind. The present content of the file is copied, and
//! queued with the answer.

use crate::replies;
use crate::tools::message::copies_of;
use crate::turn::error::TurnError;
use crate::turn::run::active::ActiveTurn;
use crate::types::message::Attachment;
use crate::workspace::{Workspace, WorkspacePath};

/// Maximum number of files in one answer.
const FILES_MAX: usize = 10;

const FENCE: &str = "```";

/// A line of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerLine<'a> {
    Text(&'a str),
    /// A line that stands for a file.
    File {
        line: &'a str,
        label: &'a str,
        path: WorkspacePath,
    },
}

/// Splits an answer into lines, and finds those that stand for files. Lines in code blocks and URLs do not count.
pub fn answer_lines(answer: &str) -> Vec<AnswerLine<'_>> {
    let mut in_code = false;
    let lines = answer.lines().map(|line| {
        in_code ^= line.trim_start().starts_with(FENCE);
        match parse_file_line(line).filter(|_| !in_code) {
            Some((label, path)) => AnswerLine::File { line, label, path },
            None => AnswerLine::Text(line),
        }
    });
    lines.collect()
}

fn parse_file_line(line: &str) -> Option<(&str, WorkspacePath)> {
    let inner = line.trim().strip_prefix("![")?.strip_suffix(')')?;
    let (label, path) = inner.split_once("](")?;
    let path = path.trim();
    // URLs (`https:`, `data:`) and titles behind a path are left to the platform.
    if path.contains([':', '"', '(', ')']) {
        return None;
    }
    Some((label.trim(), path.strip_prefix('/').unwrap_or(path).parse().ok()?))
}

impl ActiveTurn<'_> {
    /// Extracts the files from an answer. An explanation replaces the line of a file that cannot be sent.
    pub(super) async fn attach(
        &self,
        answer: Option<String>,
    ) -> Result<(Option<String>, Vec<Attachment>), TurnError> {
        let Some(answer) = answer else { return Ok((None, Vec::new())) };
        let lines = answer_lines(&answer);
        if !lines.iter().any(|line| matches!(line, AnswerLine::File { .. })) {
            return Ok((Some(answer), Vec::new()));
        }
        let cx = self.tool_context().await?;
        let (reader, month) = (cx.reader(), cx.now.format("%Y-%m").to_string());
        let (mut text, mut files) = (Vec::new(), Vec::new());
        for line in lines {
            let (line, label, path) = match line {
                AnswerLine::File { line, label, path } if files.len() < FILES_MAX => {
                    (line, label.to_owned(), path)
                }
                AnswerLine::File { line, .. } | AnswerLine::Text(line) => {
                    text.push(line.to_owned());
                    continue;
                }
            };
            let (reader, month, paths) = (reader.clone(), month.clone(), vec![path]);
            let copy = move |workspace: &Workspace| copies_of(workspace, paths, &reader, &month);
            match cx.workspace.run_blocking(copy).await {
                Ok(copies) => files.extend(
                    copies.into_iter().map(|it| Attachment { caption: label.clone(), ..it }),
                ),
                Err(error) => text.push(replies::not_attached(line, &error.to_string())),
            }
        }
        let text = text.join("\n").trim().to_owned();
        if !text.is_empty() {
            return Ok((Some(text), files));
        }
        // An answer needs a text, which replaces the draft and replies to the question.
        let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
        Ok((Some(replies::files_alone(&names)), files))
    }
}
