//! The header line of a message is no part of an answer.

use peacrab::provider::echo::HeaderFilter;
use proptest::prelude::*;

fn filtered(text: &str, chunk: usize) -> String {
    let mut filter = HeaderFilter::default();
    let signs: Vec<char> = text.chars().collect();
    let pieces = signs.chunks(chunk.max(1)).map(|piece| piece.iter().collect::<String>());
    let shown: String = pieces.map(|piece| filter.push(&piece)).collect();
    shown + &filter.finish()
}

#[test]
fn an_echoed_header_is_left_out() {
    let check = |text: &str, expected: &str| {
        for chunk in [1, 2, 7, 1000] {
            assert_eq!(filtered(text, chunk), expected, "{text:?} by {chunk}");
        }
    };
    let header = "[Sun 2026-11-22 18:39 +00:00 · Ada (owner) · home, private]";
    check(&format!("{header}\nHello!"), "Hello!");
    check(&format!("{header}\n\n\nHello!"), "Hello!");
    check(&format!(" {header} \nHello\n{header}\nagain"), "Hello\nagain");
    check("[Sun 2026-11-22 18:39 -03:30]\nHello!", "Hello!");
    check(header, "");
    check("[Sun 2026-11-22 18:39 +00:00 · Ada", "[Sun 2026-11-22 18:39 +00:00 · Ada");
    check("[Sunday is free]\nHello!", "[Sunday is free]\nHello!");
    check("[Sun 2026-11-22] was fine", "[Sun 2026-11-22] was fine");
    check("- [ ] milk\n[x]\n\n[a](b)\n", "- [ ] milk\n[x]\n\n[a](b)\n");
    check("Hello [Sun 2026-11-22 18:39 +00:00]\n", "Hello [Sun 2026-11-22 18:39 +00:00]\n");
    check("[Sun 2026-11-22 18:39 +00:00](link)", "[Sun 2026-11-22 18:39 +00:00](link)");
}

proptest! {
    #[test]
    fn nothing_else_is_left_out(text in "[a-z\\[\\] \\n:·0-9+-]{0,80}", chunk in 1_usize..20) {
        prop_assert_eq!(filtered(&text, chunk), text);
    }
}
