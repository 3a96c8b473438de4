//! The help of the command line, and its errors, as wide as the terminal. A file and another program get them as they are.

use std::io::{self, IsTerminal as _};

use clap::{Command, Error};
use unicode_width::UnicodeWidthStr as _;

use super::print;

/// Columns in which a description can be read beside its option. With fewer it stands below.
const ABOUT_COLUMNS_LEAST: usize = 20;

/// Indent of a description below its option.
const BELOW: usize = 4;

/// Returns a command whose errors show the usage of the whole command. By itself the parser shows a usage with only those
/// options that were given, or that it takes a wrong one for.
pub(super) fn with_whole_usage(mut command: Command) -> Command {
    // Full names are then known below, too.
    command.build();
    add_usages(command)
}

fn add_usages(mut command: Command) -> Command {
    let usage = command.render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned();
    command.override_usage(usage).mut_subcommands(add_usages)
}

/// Prints what the parser says in place of a command line.
pub(super) fn show(said: &Error) {
    let text = said.to_string();
    let is_error = said.use_stderr();
    let is_shown = match is_error {
        true => io::stderr().is_terminal(),
        false => io::stdout().is_terminal(),
    };
    let text = if is_shown { wrap(&text, print::columns()) } else { text };
    match is_error {
        true => print::error(text.trim_end_matches('\n')),
        false => print::piece(&text),
    }
}

fn wrap(text: &str, columns: usize) -> String {
    text.lines().map(|line| wrap_line(line, columns) + "\n").collect()
}

/// Wraps a line. A description continues below its beginning.
fn wrap_line(line: &str, columns: usize) -> String {
    let entry = line.trim_start();
    // At least two blanks stand between an option and its description.
    let Some(gap) = entry.rfind("  ").filter(|_| line.width() > columns) else {
        return print::wrap(line, columns);
    };
    let about = entry[gap..].trim_start();
    let beside = line.len() - about.len();
    let (begin, indent) = match beside + ABOUT_COLUMNS_LEAST <= columns {
        true => (line[..beside].to_owned(), beside),
        false => {
            let indent = line.len() - entry.len() + BELOW;
            (format!("{}\n{}", line[..beside].trim_end(), " ".repeat(indent)), indent)
        }
    };
    let wrapped = print::wrap(about, columns.saturating_sub(indent).max(ABOUT_COLUMNS_LEAST));
    begin + &wrapped.replace('\n', &format!("\n{}", " ".repeat(indent)))
}
