//! Suggestions for misspelt words, and lists of the known ones.

/// Returns the one of `words` that `word` was probably meant to be.
pub(super) fn nearest<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    /// Found by trial: `apikey`, `allow_from`, `bot_token` find theirs; unrelated words do not.
    const LIKENESS_MIN: f64 = 0.5;
    words
        .map(|other| (strsim::normalized_damerau_levenshtein(word, other), other))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}

/// Returns `; did you mean …?`, or an empty text.
pub(super) fn hint<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> String {
    nearest(word, words).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}

/// Returns the message about a word that is not among `words`.
pub(super) fn none_of(word: &str, words: &[&str]) -> String {
    format!("must be one of {}{}", words.join(", "), hint(word, words.iter().copied()))
}

/// Returns true for a valid name. Names occur in addresses (`CHANNEL:CHAT`) and commands, so they have no
/// punctuation or spaces.
pub(super) fn is_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=32).contains(&name.len()) && name.chars().all(is_allowed)
}
