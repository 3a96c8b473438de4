//! The bot's own sentences, as far as others can put words into them.

use peacrab::replies::{decided, stranger_asks};

#[test]
fn shows_what_others_wrote_as_it_is() {
    let asks = stranger_asks("[Tap](https://evil.org) *now*\n# x", "home", "C");
    let shown = "\\[Tap\\](https://evil.org) \\*now\\* \\# x wants to talk to me on home.";
    assert_eq!(asks.lines().next(), Some(shown));
    let inside = decided("Q", "my_long_name.pdf", "_a_ <b> `c`");
    assert_eq!(inside, "Q\n\n→ my_long_name.pdf (\\_a\\_ \\<b\\> \\`c\\`)");
    let decided = decided("**Tea?**", "No", "~~me~~ | you");
    assert_eq!(decided, "**Tea?**\n\n→ No (\\~\\~me\\~\\~ \\| you)");
}
