//! The program; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before there are threads, which a sandbox cannot have.
    peacrab::sandbox::run_entry(std::env::args_os())
        .or_else(|| peacrab::documents::run_entry(std::env::args_os()))
        .or_else(|| peacrab::tools::web::helper::entry(std::env::args_os()))
        .unwrap_or_else(|| peacrab::cli::main(std::env::args_os()))
}
