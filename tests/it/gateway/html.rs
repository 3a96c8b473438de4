//! Markdown as HTML: nothing of a text becomes markup of its own.

use peacrab::gateway::html::render;
use proptest::prelude::*;

fn check(text: &str, html: &str) {
    assert_eq!(render(text).trim_end(), html, "{text}");
}

#[test]
fn shows_markdown() {
    check("**b** and `c`", "<p><strong>b</strong> and <code>c</code></p>");
    check("one\ntwo", "<p>one<br />\ntwo</p>");
    check("```rust\na < b\n```", "<pre><code class=\"language-rust\">a &lt; b\n</code></pre>");
    check(
        "[here](https://example.com/?a=1&b=2)",
        "<p><a href=\"https://example.com/?a=1&amp;b=2\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">here</a></p>",
    );
}

#[test]
fn runs_nothing() {
    check("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>");
    check("a <img src=x onerror=alert(1)>", "<p>a &lt;img src=x onerror=alert(1)&gt;</p>");
    check("[x](javascript:alert(1))", "<p><a>x</a></p>");
    check("[x](JavaScript:alert(1))", "<p><a>x</a></p>");
    check("[x](data:text/html,x)", "<p><a>x</a></p>");
    check(
        "[x](https://e.example/\"onclick=\"alert(1))",
        "<p><a href=\"https://e.example/&quot;onclick=&quot;alert(1)\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">x</a></p>",
    );
    // A picture would be fetched by itself, with a secret in its address.
    check(
        "![x](https://e.example/?secret)",
        "<p><a href=\"https://e.example/?secret\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">x</a></p>",
    );
    check(
        "```\"><script>\nx\n```",
        "<pre><code class=\"language-&quot;&gt;&lt;script&gt;\">x\n</code></pre>",
    );
}

/// Tags that the page shows, and their attributes.
fn is_harmless(html: &str) -> bool {
    let known = [
        "p",
        "br",
        "strong",
        "em",
        "del",
        "code",
        "pre",
        "a",
        "ul",
        "ol",
        "li",
        "blockquote",
        "hr",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "input",
    ];
    html.split('<').skip(1).all(|rest| {
        let tag = rest.split('>').next().unwrap_or_default();
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        let attributes = tag.split(' ').skip(1);
        let mut names = attributes.filter_map(|attribute| attribute.split_once('=')).map(|it| it.0);
        known.contains(&name) && !names.any(|name| name.starts_with("on") || name == "src")
    })
}

proptest! {
    #[test]
    fn only_known_tags_come_out(text in "[<>a-z\"'=!\\[\\]()/:#*_`|&;\\- \n]{0,80}") {
        let html = render(&text);
        prop_assert!(is_harmless(&html), "{text:?} became {html:?}");
    }
}
