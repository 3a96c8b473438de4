//! Every sentence that the bot says by itself, in one place, so that a person can proof-read it.

// Models

/// One line beside an answer: who could not give it and why, and who did.
pub fn another_provider_answered(failed: &[(&str, String)], by: &str) -> String {
    let failed: Vec<_> =
        failed.iter().map(|(name, why)| format!("{name} is not available: {why}")).collect();
    format!("({}; {by} answered.)", failed.join("; "))
}
