//! Texts that are put on one line or shortened.

use peacrab::short_text::{first_chars, one_line, shortened};
use proptest::prelude::*;

#[test]
fn a_text_that_fits_stays_whole() {
    assert_eq!(shortened("crab", 4), "crab");
    assert_eq!(first_chars("crab", 4), "crab");
    assert_eq!(shortened("", 0), "");
}

#[test]
fn a_cut_is_marked_and_leaves_no_space_before_the_mark() {
    assert_eq!(shortened("a crab walks", 7), "a crab…");
    assert_eq!(shortened("🦀🦀🦀", 2), "🦀🦀…");
    assert_eq!(first_chars("🦀🦀🦀", 2), "🦀🦀");
}

proptest! {
    #[test]
    fn a_shortened_text_is_within_its_bound(text in any::<String>(), max in 0_usize..20) {
        let short = shortened(&text, max);
        prop_assert!(short.chars().count() <= max + 1);
        prop_assert!(text.starts_with(short.strip_suffix('…').unwrap_or(&short)) || short == text);
        prop_assert!(first_chars(&text, max).chars().count() <= max);
    }

    #[test]
    fn one_line_has_no_break_and_all_words(text in any::<String>()) {
        let line = one_line(&text);
        prop_assert!(!line.contains(['\n', '\r', '\t']) && !line.contains("  "));
        prop_assert!(line.split_whitespace().eq(text.split_whitespace()));
    }
}
