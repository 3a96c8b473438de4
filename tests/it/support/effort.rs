//! How much the tests try at random: enough for each change, or as much as a night has time for.

use std::env;

/// Returns `a_change`, or `a_night` where the variable `PEACRAB_TEST_NIGHTLY` is set.
pub(crate) fn times(a_change: u32, a_night: u32) -> u32 {
    #[expect(clippy::disallowed_methods, reason = "how .ci/nightly says that there is time")]
    let nightly = env::var_os("PEACRAB_TEST_NIGHTLY").is_some();
    if nightly { a_night } else { a_change }
}

/// Returns how many random cases a property is tried with: `usual`, at night twenty times as many.
pub(crate) fn cases(usual: u32) -> u32 {
    times(usual, usual * 20)
}

/// Returns how many kills at random moments a daemon must survive.
pub(crate) fn kills() -> u32 {
    times(40, 200)
}
