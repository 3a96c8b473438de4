//! Which addresses count as written by somebody: people leave out what everybody adds, and put signs around
//! them.

use peacrab::trust::known_urls::contains_url;

#[test]
fn an_address_is_known_however_people_write_it() {
    for (text, url) in [
        ("look at example.com/x", "https://example.com/x"),
        ("look at example.com/x, please", "http://example.com/x"),
        ("example.com", "https://example.com/"),
        ("Example.COM/x.", "https://example.com/x"),
        ("https://example.com/x/", "https://example.com/x"),
        ("https://example.com/x", "https://example.com/x/"),
        ("http://example.com/x", "https://example.com/x"),
        ("http://example.com:80/x", "https://example.com/x"),
        ("https://example.com:443", "https://example.com"),
        ("<https://example.com/x>", "https://example.com/x"),
        ("[here](https://example.com/x), and", "https://example.com/x"),
        ("(see https://example.com/x)", "https://example.com/x"),
        ("(https://example.com/x).", "https://example.com/x"),
        ("**https://example.com/x**!", "https://example.com/x"),
        ("“https://example.com/x”", "https://example.com/x"),
        ("www.example.com/x?", "https://example.com/x"),
        ("example.com/x", "https://www.example.com/x"),
        (
            "https://en.wikipedia.org/wiki/Crab_(animal)",
            "https://en.wikipedia.org/wiki/Crab_(animal)",
        ),
        (
            "[c](https://en.wikipedia.org/wiki/Crab_(animal))",
            "https://en.wikipedia.org/wiki/Crab_(animal)",
        ),
        ("https://example.com/x?a=1&b=2.", "https://example.com/x?a=1&b=2"),
        ("https://example.com/x#top", "https://example.com/x"),
        ("https://example.com/x", "https://example.com/x#top"),
        ("https://bücher.example/x", "https://bücher.example/x"),
        ("Bücher.example/x", "https://bücher.example/x"),
        ("https://ada:tea@example.com/x", "https://ada:tea@example.com/x"),
        ("http://[::1]:8080/x", "http://[::1]:8080/x"),
        ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080/x"),
        ("见https://example.com/x。", "https://example.com/x"),
        ("{\"url\":\"https://example.com/x\"}", "https://example.com/x"),
    ] {
        assert!(contains_url(text, url), "{url} in {text}");
    }
}

#[test]
fn an_address_of_which_anything_else_differs_is_not_known() {
    for (text, url) in [
        ("look at example.com/x", "https://example.com/y"),
        ("look at example.com/x", "https://example.com/X"),
        ("look at example.com/x", "https://example.com/x/y"),
        ("look at example.com/x", "https://example.com/"),
        ("look at example.com/x", "https://example.com/x?tea"),
        ("example.com/x?q=secret", "https://example.com/x?q=sec"),
        ("example.com/x?q=secret", "https://example.com/x"),
        ("example.com/x", "https://tea@example.com/x"),
        ("https://ada:tea@example.com/x", "https://example.com/x"),
        ("https://ada:tea@example.com/x", "https://ada:cup@example.com/x"),
        ("mail ada@example.com", "https://example.com"),
        ("example.com/x", "https://example.com.evil.example/x"),
        ("example.com.evil.example/x", "https://example.com/x"),
        ("myexample.com/x", "https://example.com/x"),
        ("tea.example.com/x", "https://example.com/x"),
        ("example.com/x", "https://tea.example.com/x"),
        ("my-example.com/x", "https://example.com/x"),
        ("example.com/x", "https://example.com:8443/x"),
        ("example.com:8443/x", "https://example.com/x"),
        ("https://example.com/x", "http://example.com/x"),
        ("https://evil.example/example.com/x", "https://example.com/x"),
        ("https://evil.example/?u=example.com/x", "https://example.com/x"),
        ("example.com/x", "ftp://example.com/x"),
        ("example.com/x", "example.com/x"),
        ("", "https://example.com/x"),
        ("anything", "https:///"),
    ] {
        assert!(!contains_url(text, url), "{url} in {text}");
    }
}
