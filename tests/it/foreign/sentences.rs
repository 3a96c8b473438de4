//! Words that count as a person's own: whole lines, whole sentences, and what stands behind a colon.

use peacrab::trust::own_words::stand_in;
use proptest::prelude::*;

fn check(said: &str, text: &str, expected: bool) {
    assert_eq!(stand_in([said], text), expected, "{said:?}: {text:?}");
}

#[test]
fn words_behind_a_colon_are_a_sentence() {
    let said = "Please remember: the boiler code is 4711. It is in the cellar. Thanks!";
    check(said, "the boiler code is 4711", true);
    check(said, "The boiler code is 4711.", true);
    check(said, "the boiler code is 4711. It is in the cellar.", true);
    check(said, "It is in the cellar.", true);
    check(said, said, true);
    check(said, "boiler code is 4711", false);
    check(said, "the boiler code is 4711. Thanks!", false);
    check(said, "the boiler code", false);
    check("请记住：钥匙在垫子下面。", "钥匙在垫子下面。", true);
    check("- List: milk\n* eggs", "- [ ] milk\n- eggs", true);
    check("I don't know. Note: Ada's key is here", "Ada's key is here", true);
}

#[test]
fn addresses_and_times_have_no_words_behind_a_colon() {
    for (said, text) in [
        ("open https://a.example/pay", "//a.example/pay"),
        ("open https：//a.example/pay", "//a.example/pay"),
        ("wake me at 12:30 sharp", "30 sharp"),
        ("wake me at 12: 30 sharp", "30 sharp"),
        ("wake me at １２：３０", "３０"),
        ("see notes/a.md:12 first", "12 first"),
        (": tell Bob all", "tell Bob all"),
    ] {
        check(said, text, false);
    }
    check("at 12:30 remember: tea is ready", "tea is ready", true);
    // Only the first colon counts.
    check("remember the note: the code: 4711", "the code: 4711", true);
    check("remember the note: the code: 4711", "4711", false);
}

#[test]
fn words_of_somebody_else_are_none_behind_a_colon_either() {
    for said in [
        "He wrote \"all is well\" and then: tell Bob all",
        "The page says “pay: tell Bob all",
        "Bob meant ‘now’: tell Bob all",
        "> Bob: tell Bob all",
        "He said «no. Then he said: tell Bob all",
        "Never do this: tell Bob all",
        "Please don’t: tell Bob all",
        "Mach das bitte nicht: tell Bob all",
    ] {
        check(said, "tell Bob all", false);
    }
    // An apostrophe quotes nothing.
    check("Here's what I'd like: tell Bob all", "tell Bob all", true);
}

/// The letters and digits of a text.
fn letters(text: &str) -> String {
    let letters = text.chars().filter(|sign| sign.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

proptest! {
    #[test]
    fn nothing_is_kept_that_the_person_did_not_write(
        said in "[ab：:.!?\"' \n-]{0,30}",
        text in "[ab：:.!?\"' \n-]{1,12}",
    ) {
        if stand_in([&*said], &text) {
            let own: Vec<_> = said.lines().map(letters).collect();
            let is_own = |line: &str| own.iter().any(|own| own.contains(&letters(line)));
            prop_assert!(text.lines().all(is_own), "{said:?} {text:?}");
        }
    }

    #[test]
    fn what_a_person_introduces_can_be_kept(
        begin in "[xyz]{1,5}", words in "[a-z]{1,6}( [a-z]{1,6}){0,3}", wide in any::<bool>(),
    ) {
        let colon = if wide { "：" } else { ": " };
        let said = format!("{begin}{colon}{words}");
        prop_assert!(stand_in([&*said], &words));
    }

    #[test]
    fn a_quotation_before_a_colon_keeps_the_words_behind_it_from_counting(
        begin in "[a-z ]{0,6}[\"“„«`][a-z ]{0,6}", words in "[a-z]{3,8}",
    ) {
        let said = format!("{begin}: {words}");
        prop_assert!(!stand_in([&*said], &words));
    }

    #[test]
    fn a_colon_within_a_word_splits_nothing(begin in "[a-z0-9]{1,6}", rest in "[a-z0-9/]{1,8}") {
        let said = format!("{begin}:{rest}");
        prop_assert!(!stand_in([&*said], &rest));
    }
}
