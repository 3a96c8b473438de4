//! Files that come with an answer: a line of it that is nothing but a picture in Markdown with a path of the workspace,
//! `![Chart](outputs/chart.png)`, stands for that file, whatever kind of file it is. The file is copied as it is now and
//! queued with the answer.

use crate::replies;
use crate::tools::message::copies_of;
use crate::turn::error::TurnError;
use crate::turn::run::active::ActiveTurn;
use crate::types::message::Attachment;
use crate::workspace::{Workspace, WorkspacePath};

/// Files of one answer.
const FILES_MAX: usize = 10;

const FENCE: &str = "```";

/// A line of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerLine<'a> {
    Text(&'a str),
    /// Stands for a file.
    File {
        line: &'a str,
        label: &'a str,
        path: WorkspacePath,
    },
}

/// Splits an answer into lines, and finds those that stand for files: none in a code block, and no address of the web.
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
    // Addresses (`https:`, `data:`) and titles behind a path are the platform's matter.
    if path.contains([':', '"', '(', ')']) {
        return None;
    }
    Some((label.trim(), path.strip_prefix('/').unwrap_or(path).parse().ok()?))
}

impl ActiveTurn<'_> {
    /// Takes the files out of an answer. A file that cannot be sent is explained in its place.
    pub(super) async fn attach(
        &self,
        words: Option<String>,
    ) -> Result<(Option<String>, Vec<Attachment>), TurnError> {
        let Some(words) = words else { return Ok((None, Vec::new())) };
        let lines = answer_lines(&words);
        if !lines.iter().any(|line| matches!(line, AnswerLine::File { .. })) {
            return Ok((Some(words), Vec::new()));
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
            match cx.workspace.off_thread(copy).await {
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
        // An answer has words: it ends the draft, and replies to the question.
        let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
        Ok((Some(replies::files_alone(&names)), files))
    }
}
