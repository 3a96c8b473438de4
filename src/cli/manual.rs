//! Shell completions and man pages, from the definitions that the command line is read by.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap::{Arg, ArgAction, Command, CommandFactory as _};
use clap_complete::Shell;

use super::arguments::Cli;
use super::print;

/// Prints the completions for a shell.
pub(super) fn completions(shell: Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "peacrab", &mut script);
    print::bytes(&script);
}

/// Writes `peacrab.1` and a page for each subcommand.
pub(super) fn pages(folder: &Path) -> anyhow::Result<()> {
    let write = || {
        fs::create_dir_all(folder)?;
        clap_mangen::generate_to(with_synopsis(Cli::command()), folder)
    };
    write().with_context(|| format!("cannot write to {}", folder.display()))?;
    print::line(&format!("The man pages are in {}.", folder.display()));
    Ok(())
}

/// Returns a command whose synopsis, with those of its subcommands, shows what follows each option. The generator leaves
/// that out.
fn with_synopsis(command: Command) -> Command {
    let mut command = command.disable_help_subcommand(true);
    // Global options and full names are then known below, too.
    command.build();
    add_synopses(command)
}

fn add_synopses(command: Command) -> Command {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let shown = command.get_arguments().filter(|it| !it.is_hide_set());
    let (positional, options): (Vec<_>, Vec<_>) = shown.partition(|it| it.is_positional());
    let mut words = vec![name];
    words.extend(options.into_iter().chain(positional).map(synopsis));
    if command.has_subcommands() {
        let is_required = command.is_subcommand_required_set();
        words.push(if is_required { "<COMMAND>" } else { "[COMMAND]" }.to_owned());
    }
    command.override_usage(words.join(" ")).mut_subcommands(add_synopses)
}

/// An argument with the names of its values: `[--home HOME]`.
fn synopsis(argument: &Arg) -> String {
    let long = argument.get_long().map(|long| format!("--{long}"));
    let short = argument.get_short().map(|short| format!("-{short}"));
    let option = [short, long].into_iter().flatten().collect::<Vec<_>>().join("|");
    let values = match argument.get_action().takes_values() {
        true => argument.get_value_names().unwrap_or_default().join(" "),
        false => String::new(),
    };
    let mut text = [option, values];
    let has_more = argument.get_num_args().is_some_and(|count| count.max_values() > 1)
        || matches!(argument.get_action(), ArgAction::Append);
    if has_more {
        text[1] += "...";
    }
    let text = text.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ");
    if argument.is_required_set() { text } else { format!("[{text}]") }
}
