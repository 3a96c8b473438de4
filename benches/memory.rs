//! Prints what the index of the memory finds, and how long it takes, as Markdown: questions about sessions that are
//! generated with known answers, and searches at different sizes. It asserts nothing; times depend on the machine.
//!
//! `cargo bench --bench memory` takes some minutes, `-- quick` leaves the million out.

#![expect(clippy::print_stdout, reason = "a bench prints")]

#[path = "memory/questions.rs"]
mod questions;
#[path = "memory/sizes.rs"]
mod sizes;

use std::env;
use std::error::Error;

use peacrab::store::{Store, StoreOptions};
use tokio::runtime::Builder;

type Done = Result<(), Box<dyn Error>>;

/// Entries of the index.
const SIZES: [usize; 3] = [100, 10_000, 1_000_000];

fn main() -> Done {
    let is_quick = env::args().any(|word| word == "quick");
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let home = tempfile::tempdir()?;
        questions::print(&Store::open(home.path(), &StoreOptions::default())?).await?;
        let sizes = if is_quick { &SIZES[..2] } else { &SIZES[..] };
        println!("{}", sizes::HEADING);
        for size in sizes {
            let home = tempfile::tempdir()?;
            let store = Store::open(home.path(), &StoreOptions::default())?;
            sizes::print(&store, home.path(), *size).await?;
        }
        Ok(())
    })
}
