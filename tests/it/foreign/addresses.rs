//! Which addresses count as written by somebody: people leave out what everybody adds, and put signs around
//! them.

use axum::http::Uri;
use peacrab::trust::known_urls::{contains_url, is_same_url};
use proptest::array::uniform6;
use proptest::option::weighted;
use proptest::prelude::*;
use url::Url;

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
        ("www.example.com/x?", "https://www.example.com/x"),
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
        ("https://example.com/x", "https://EXAMPLE.com:443/y/../x"),
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
        ("http://example.com:8080/x", "https://example.com:8080/x"),
        ("https://example.com/x", "https://www.example.com/x"),
        ("www.example.com/x", "https://example.com/x"),
        ("https://example.com/x", "https://example.com./x"),
        ("https://example.com/x", "https://example.com/x//"),
        ("https://example.com/x/", "https://example.com/x//"),
        ("https://example.com/x//", "https://example.com/x"),
        ("https://example.com", "https://example.com//"),
        ("https://example.com/x?a", "https://example.com/x/?a"),
        ("https://example.com/x", "https://example.com/x?"),
        ("https://example.com/x", "https://example.com/x;"),
        ("https://example.com/A", "https://example.com/%41"),
        ("https://example.com/x!!!!!!!!!!!!", "https://example.com/x!"),
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

/// Parts of addresses with other spellings of them.
const SPELLINGS: [&[&str]; 6] = [
    &["http://", "https://", "HTTP://", "http:\\\\", "ht\ntp://"],
    &["", "@", "u@", "u:p@"],
    &["ä.example", "xn--4ca.example", "Ä.example", "www.ä.example", "ä.example.", "%C3%A4.example"],
    &["", ":80", ":443", ":8080"],
    &[
        "", "/", "//", "/x", "/x/", "/x//", "/./x", "/y/../x", "/X", "/%78", "\\x", "/\tx", "/x;",
        "/x%2F",
    ],
    &["", "#", "#y", "?", "?y", "?y/", "?#y", "?Y", "?%79"],
];

/// A multiple of each number of spellings.
const CHOICES: usize = 1260;

fn spell(spellings: [usize; 6]) -> Option<Url> {
    let parts = SPELLINGS.iter().zip(spellings);
    let address: String = parts.map(|(of_part, at)| of_part[at % of_part.len()]).collect();
    Url::parse(&address).ok()
}

/// The part of a request line that differs between addresses, as the client sends it.
fn target(url: &Url) -> String {
    url.as_str().parse::<Uri>().unwrap().path_and_query().unwrap().to_string()
}

proptest! {
    #[test]
    fn addresses_that_count_as_the_same_make_the_same_request(
        one in uniform6(0..CHOICES),
        changes in uniform6(weighted(0.2, 0..CHOICES)),
    ) {
        let mut other = one;
        for (at, change) in other.iter_mut().zip(changes) {
            *at = change.unwrap_or(*at);
        }
        if let (Some(one), Some(other)) = (spell(one), spell(other))
            && is_same_url(&one, &other)
        {
            prop_assert_eq!(one.scheme(), other.scheme());
            prop_assert_eq!((one.host_str(), one.port()), (other.host_str(), other.port()));
            prop_assert_eq!(
                (one.username(), one.password()),
                (other.username(), other.password())
            );
            let (one, other) = (target(&one), target(&other));
            let is_one_slash = |a: &str, b: &str| a.strip_suffix('/') == Some(b);
            prop_assert!(
                one == other || is_one_slash(&one, &other) || is_one_slash(&other, &one),
                "{} {}", one, other
            );
            prop_assert!(one == other || !(one.ends_with("//") || other.ends_with("//")));
        }
    }
}
