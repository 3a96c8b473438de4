//! The result of a command, for people and models to read.

use std::time::Duration;

use super::{CommandEnding, ExceededLimit};
use crate::replies;

impl CommandEnding {
    /// Describes the end of the command. `time_max` was its time limit.
    pub fn describe(&self, time_max: Duration) -> String {
        match self {
            Self::Exit(code) => replies::exit_code(*code),
            // By the kernel's own numbers, the same on all that we run on.
            Self::Signal(24) => replies::COMMAND_OVER_CPU.to_owned(),
            Self::Signal(25) => replies::COMMAND_OVER_FILE.to_owned(),
            Self::Signal(signal) => replies::ended_by_signal(*signal),
            Self::Over(ExceededLimit::Time) => replies::command_over_time(time_max),
            Self::Over(ExceededLimit::Memory) => replies::COMMAND_OVER_MEMORY.to_owned(),
            Self::Over(ExceededLimit::Processes) => replies::COMMAND_OVER_PROCESSES.to_owned(),
            Self::Over(ExceededLimit::Disk) => replies::COMMAND_OVER_DISK.to_owned(),
            Self::Over(ExceededLimit::Output) => replies::COMMAND_OVER_OUTPUT.to_owned(),
            Self::Over(ExceededLimit::Asked) => replies::COMMAND_KILLED.to_owned(),
            Self::Refused(why) => replies::command_refused(why),
            Self::Lost => replies::COMMAND_LOST.to_owned(),
        }
    }
}

/// Returns the output as text, without control sequences of terminals.
pub fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '\u{1b}' => skip_sequence(&mut signs),
            '\r' if signs.peek() != Some(&'\n') => out.push('\n'),
            '\n' | '\t' => out.push(sign),
            _ if sign.is_control() => {}
            _ => out.push(sign),
        }
    }
    out
}

/// Skips an escape sequence: ECMA-48's control sequences end with a letter or the like, its strings with
/// BEL or ESC \.
fn skip_sequence(signs: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match signs.next() {
        Some('[') => {
            for sign in signs.by_ref() {
                if ('\u{40}'..='\u{7e}').contains(&sign) {
                    return;
                }
            }
        }
        Some(']' | 'P' | '_' | '^') => {
            while let Some(sign) = signs.next() {
                if sign == '\u{7}' || sign == '\u{1b}' && signs.next_if_eq(&'\\').is_some() {
                    return;
                }
            }
        }
        _ => {}
    }
}
