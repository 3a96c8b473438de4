//! Whatever people say, press and take back, however models and tools behave, and wherever the daemon is
//! killed: transcripts stay valid, each message has one outcome, order holds, and nothing is left over.
//! Stories are made at random and told in paused time; one that goes wrong is shown as short as it can be.

mod brain;
mod daemon;
mod story;
mod trap;
mod verdict;
mod wire;

use proptest::test_runner::{Config, TestRunner};

use crate::support::effort;

/// Stories that are told for each change.
const STORIES: u32 = 40;

/// How often a shorter story is tried.
const SHORTER_MAX: u32 = 400;

#[test]
fn whatever_happens_each_message_has_one_outcome() {
    let config = Config {
        cases: effort::cases(STORIES),
        max_shrink_iters: SHORTER_MAX,
        failure_persistence: None,
        ..Config::default()
    };
    let wire = wire::Apis::start();
    let told = TestRunner::new(config).run(&story::stories(), |story| {
        daemon::tell(&story, &wire).map_err(proptest::test_runner::TestCaseError::fail)
    });
    if let Err(error) = told {
        panic!("{error}");
    }
    wire.finish();
}
