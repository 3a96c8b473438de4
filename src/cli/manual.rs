//! Shell completions and man pages, from the definitions that the command line is read by.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use super::arguments::Cli;
use super::print;

/// Prints the completions for a shell.
pub(super) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "peacrab", &mut script);
    // A reader that has gone away, such as `head`, is no failure.
    io::stdout().write_all(&script).ok();
    Ok(())
}

/// Writes `peacrab.1` and a page for each subcommand.
pub(super) fn pages(folder: &Path) -> anyhow::Result<()> {
    let write = || {
        fs::create_dir_all(folder)?;
        clap_mangen::generate_to(Cli::command(), folder)
    };
    write().with_context(|| format!("cannot write to {}", folder.display()))?;
    print::line(&format!("The man pages are in {}.", folder.display()));
    Ok(())
}
