//! Suggestions for misspelt words, and lists of the known ones.

/// The one of `words` that `word` was probably meant to be.
pub(super) fn nearest<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    /// Found by trial: `apikey`, `allow_from`, `bot_token` find theirs; unrelated words do not.
    const LIKENESS_MIN: f64 = 0.5;
    words
        .map(|other| (strsim::normalized_damerau_levenshtein(word, other), other))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}

/// `; did you mean …?`, or nothing.
pub(super) fn hint<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> String {
    nearest(word, words).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}

/// The complaint about a word that is not among `words`.
pub(super) fn none_of(word: &str, words: &[&str]) -> String {
    format!("must be one of {}{}", words.join(", "), hint(word, words.iter().copied()))
}

/// Names stand in addresses (`CHANNEL:CHAT`) and in commands, so they hold no marks or blanks.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=32).contains(&name.len()) && name.chars().all(fits)
}
