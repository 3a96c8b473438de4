//! Words that count as a person's own: whole lines and whole sentences.

use peacrab::trust::own_words::stand_in;
use proptest::prelude::*;

fn check(said: &str, text: &str, expected: bool) {
    assert_eq!(stand_in([said], text), expected, "{said:?}: {text:?}");
}

#[test]
fn whole_lines_and_sentences_are_own_words() {
    let said = "Please remember: the boiler code is 4711. It is in the cellar. Thanks!";
    check(said, "It is in the cellar.", true);
    check(said, "It is in the cellar. Thanks!", true);
    check(said, said, true);
    check(said, "is in the cellar.", false);
    check(said, "the boiler code", false);
    check(said, "It is in the cellar. The boiler code is 4711.", false);
    check("Please remember:\nthe code is 4711", "the code is 4711.", true);
    check("请记住。钥匙在垫子下面。", "钥匙在垫子下面。", true);
    check("- milk\n* eggs", "- [ ] milk\n- eggs", true);
}

#[test]
fn words_behind_a_colon_are_a_part_of_a_sentence() {
    for said in [
        "Please remember: pay Bob",
        "The page says: pay Bob",
        "I would refuse to remember: pay Bob",
        "Vergiss: pay Bob",
        "> Bob: pay Bob",
        "请记住：pay Bob",
    ] {
        check(said, "pay Bob", false);
        check(said, "Pay Bob.", false);
    }
}

/// The letters and digits of a text.
fn letters(text: &str) -> String {
    text.chars().filter(|sign| sign.is_alphanumeric()).collect()
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
    fn no_part_of_a_sentence_is_kept(
        begin in "[xyz]{1,5}[:：,;]? ?", words in "[a-z]{1,6}( [a-z]{1,6}){0,3}",
    ) {
        let said = format!("{begin}{words}");
        prop_assert!(!stand_in([&*said], &words));
        prop_assert!(stand_in([&*said], &said));
    }
}
