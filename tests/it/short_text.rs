//! Texts that are put on one line or shortened.

use peacrab::short_text::{
    NAME_CHARS_MAX, clean_name, escaped_path, first_chars, is_invisible, one_line,
    reorders_or_hides, shortened,
};
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

#[test]
fn a_name_is_one_line_of_visible_characters() {
    for (name, clean) in [
        ("Ada", Some("Ada")),
        ("  Ada\u{a0}\u{3000}Lovelace\r\n\t", Some("Ada Lovelace")),
        ("A\u{ad}d\u{61c}a\u{180e}\u{fe00}\u{fe0f}\u{e01ef}\u{e0041}\u{feff}", Some("Ada")),
        ("\u{202e}\u{2066}\u{200b}\u{7f}\u{85}", None),
        ("", None),
        (
            "123456789 123456789 123456789 123456789 123",
            Some("123456789 123456789 123456789 123456789"),
        ),
        ("Ñandú 🦀", Some("Ñandú 🦀")),
    ] {
        assert_eq!(clean_name(name).as_deref(), clean, "{name:?}");
    }
    assert_eq!(escaped_path("notes/ñ 🦀.md"), "notes/ñ 🦀.md");
    assert_eq!(escaped_path("a\u{200b}\u{e0001}"), "a\\u200b\\udb40\\udc01");
}

#[test]
fn what_cannot_be_seen_is_known() {
    let hidden = "\u{0}\u{a0}\u{ad}\u{600}\u{605}\u{61c}\u{6dd}\u{70f}\u{890}\u{8e2}\u{200b}\u{202e}\u{2066}\u{2800}\u{fe00}\u{feff}\
                  \u{fff9}\u{fffc}\u{110bd}\u{110cd}\u{13430}\u{1343f}\u{1bca0}\u{1d159}\u{1d173}\u{e0041}\u{e01ef}";
    for sign in hidden.chars() {
        assert!(is_invisible(sign), "{sign:?}");
    }
    for sign in "aß é\n\t🦀ل\u{301}\u{fffd}\u{13440}".chars() {
        assert!(!is_invisible(sign) && !reorders_or_hides(sign), "{sign:?}");
    }
    // All that a terminal leaves out is invisible, and joiners are not left out.
    for sign in (0..=0x0010_ffff).filter_map(char::from_u32) {
        assert!(!reorders_or_hides(sign) || is_invisible(sign), "{sign:?}");
    }
    assert!(!"\u{200c}\u{200d}\u{fe0f}\u{a0}\u{3000}".contains(reorders_or_hides));
}

proptest! {
    #[test]
    fn a_clean_name_is_within_its_bound_and_stays_as_it_is(text in any::<String>()) {
        if let Some(name) = clean_name(&text) {
            prop_assert!((1..=NAME_CHARS_MAX).contains(&name.chars().count()));
            prop_assert!(!name.chars().any(|sign| sign.is_control() || is_invisible(sign)));
            prop_assert_eq!(clean_name(&name), Some(name));
        }
    }

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
