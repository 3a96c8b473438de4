//! How a model is told that its memory has changed.

use peacrab::memory::{CHANGES_CHARS_MAX, changes};
use proptest::prelude::*;

proptest! {
    #[test]
    fn tells_of_a_change_if_and_only_if_there_is_one(
        told in "(- [a-c é]{0,3}\n?){0,5}", now in "(- [a-c é]{0,3}\n?){0,5}"
    ) {
        prop_assert_eq!(changes(&told, &now).is_none(), told == now);
    }

    #[test]
    fn tells_of_changes_within_its_bound(told in "(.{0,400}\n){0,40}", now in "(.{0,400}\n){0,40}") {
        let telling = changes(&told, &now).unwrap_or_default();
        prop_assert!(telling.chars().count() <= CHANGES_CHARS_MAX);
    }

    #[test]
    fn blank_lines_are_no_changes_to_count(blank in 1..50_usize) {
        let now = format!("- a\n{}- b\n", "\n".repeat(blank));
        prop_assert_eq!(changes("- a\n", &now), Some("- added: b".to_owned()));
    }

    #[test]
    fn tells_of_each_line_that_came(told in "([a-z]{1,9}\n){0,5}", line in "[A-Z]{1,9}") {
        let telling = changes(&told, &format!("{told}- {line}\n"));
        prop_assert_eq!(telling, Some(format!("- added: {line}")));
    }
}
