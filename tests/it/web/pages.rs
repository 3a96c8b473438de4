//! What pages say, as a model reads it: by their type, in their own characters, without what is not
//! for reading.

use super::Reader;
use crate::support::site::{Answer, Site};

/// What is shown of a body of this type, without the address.
async fn shown(content_type: &str, body: impl AsRef<[u8]>) -> String {
    let site = Site::start().await;
    site.has("/a/page", Answer::page(content_type, body));
    let text = Reader::of(&site).fetch(&site.url("/a/page")).await.text();
    let text = text.replace(&site.url(""), "http://site");
    text.strip_prefix("http://site/a/page\n").unwrap().to_owned()
}

async fn html(body: &str) -> String {
    shown("text/html; charset=utf-8", body).await
}

#[tokio::test]
async fn a_page_reads_like_this() {
    let page = r##"<!doctype html><html><head><title> How to  grow
peas </title><style>p { color: red }</style><script>alert("no")</script>
<meta name="description" content="not shown"></head>
<body><nav><a href="/">Home</a></nav><header><h1>Peas</h1></header>
<p>Sow them in <em>March</em>, <strong>not</strong> later.
See <a href="../other?x=1&amp;y=2" title="t">the other page</a>, <a href="#below">below</a>
or <a href="javascript:alert(1)">this</a>.<br>A new line.</p>
<ul><li>one</li><li>two<ul><li>inner</li></ul></li></ul>
<ol start="3"><li>three</li><li>four</li></ol>
<blockquote>Who sows, reaps.</blockquote>
<pre><code class="language-sh">echo "a  b" &gt; c
exit</code></pre>
<p>Run <code>make</code><code>it</code>.</p>
<table><tr><th>Month</th><th>Work</th></tr><tr><td>March</td><td>sow</td></tr></table>
<img src="/pea.png" alt="A pea"><img src="/pixel.gif"><img src="data:image/png;base64,AAAA" alt="inline">
<div hidden>hidden</div><div aria-hidden="true">hidden</div><p style="display: none">hidden</p>
<div role="navigation">menu</div><noscript>no script</noscript><template><p>template</p></template>
<form><label>Name <input value="x"></label><button>Send</button><select><option>o</option></select></form>
<svg><text>drawn</text></svg><iframe src="/x">frame</iframe><!-- comment -->
<dl><dt>Pea</dt><dd>A plant</dd></dl><custom-tag>custom</custom-tag>
<footer>Imprint</footer></body></html>"##;
    insta::assert_snapshot!(html(page).await, @r#"
    Title: How to grow peas

    # Peas

    Sow them in March, not later. See [the other page](http://site/other?x=1&y=2), below or this.\
    A new line.

    - one
    - two
      - inner

    3. three
    4. four

    > Who sows, reaps.

    ```sh
    echo "a  b" > c
    exit
    ```

    Run `make``it`.

    | Month | Work |
    | ----- | ---- |
    | March | sow  |

    ![A pea](http://site/pea.png)

    Name

    Pea

    A plant

    custom
    "#);
}

#[tokio::test]
async fn what_a_page_is_about_is_shown_where_it_says_so() {
    let long = "Peas are green. ".repeat(20);
    let page = |main: &str| format!("<p>around</p><main>{main}</main><p>after</p>");
    assert_eq!(html(&page(&long)).await, format!("\n{}", long.trim()));
    assert_eq!(html(&page("short")).await, "\naround\n\nshort\n\nafter");
}

#[tokio::test]
async fn links_lead_from_where_the_page_says_it_is() {
    let page = r#"<base href="http://base.example/dir/"><a href="x">x</a> <a href="//h/y">y</a>
        <a href="mailto:a@b.example">z</a> <a href="file:///etc">f</a> <a href="http://[">b</a>"#;
    let links = "\n[x](http://base.example/dir/x) [y](http://h/y) [z](mailto:a@b.example) f b";
    assert_eq!(html(page).await, links);
}

#[tokio::test]
async fn a_page_without_text_says_so() {
    for page in ["", " \n ", "<script>run()</script>", "<div id=root></div>", "<nav>x</nav>"] {
        let text = html(page).await;
        assert_eq!(text, "\n[The page has no text; it may be made by scripts alone.]", "{page}");
    }
}

#[tokio::test]
async fn texts_are_shown_as_they_are() {
    for (kind, body) in [
        ("application/json", "{\"a\": [1, 2]}"),
        ("application/activity+json; charset=utf-8", "{}"),
        ("application/xml", "<a><b/></a>"),
        ("image/svg+xml", "<svg/>"),
        ("application/rss+xml", "<rss/>"),
        ("text/plain", "# not <b>markup</b>"),
        ("text/markdown", "# *marked*"),
        ("text/csv", "a,b\n1,2"),
        ("application/javascript", "let x = 1 < 2;"),
        ("application/yaml", "a: b"),
        ("", "no type"),
        ("application/octet-stream", "plain"),
    ] {
        assert_eq!(shown(kind, body).await, format!("\n{body}"), "{kind}");
    }
    let untyped = shown("application/octet-stream", "<!DOCTYPE HTML><p>a <i>page</i></p>").await;
    assert_eq!(untyped, "\na page");
}

#[tokio::test]
async fn what_is_no_text_is_named() {
    let site = Site::start().await;
    let reader = Reader::of(&site);
    for (kind, body, reason) in [
        ("application/pdf", b"%PDF-1.7" as &[u8], "it is a PDF, whose text cannot be read here"),
        ("image/png", b"\x89PNG", "it is not text but image (image/png)"),
        ("video/mp4", b"x", "it is not text but video (video/mp4)"),
        ("application/zip", b"PK", "it is not readable text (application/zip)"),
        ("application/x-evil\x07", b"x", "could not be fetched"),
        ("nonsense", b"x", "it is not readable text (nonsense)"),
        ("application/octet-stream", b"%PDF-1.7", "it is a PDF"),
        ("application/octet-stream", b"\x7fELF\0\0", "it is not text"),
        ("", b"PK\x03\x04\0", "it is not text"),
        ("text/plain", b"a\0b", "it is not text, though its server says so"),
    ] {
        site.has("/", Answer::page(kind, body));
        let words = match reader.fetch(&site.url("/")).await {
            super::Came::Refused(words) | super::Came::Passing(words) => words,
            other => panic!("{kind}: {other:?}"),
        };
        assert!(words.contains(reason), "{kind}: {words}");
    }
}

#[tokio::test]
async fn pages_are_read_in_their_own_characters() {
    let expected = "\nGrüße: \u{20ac}";
    for (kind, body) in [
        ("text/plain; charset=utf-8", "Grüße: €".as_bytes()),
        ("text/plain", "Grüße: €".as_bytes()),
        ("text/plain; charset=windows-1252", b"Gr\xfc\xdfe: \x80"),
        ("text/plain; charset=ISO-8859-1", b"Gr\xfc\xdfe: \x80"),
        ("text/plain", b"Gr\xfc\xdfe: \x80"),
        ("text/html", b"<meta charset=\"windows-1252\">Gr\xfc\xdfe: \x80"),
        (
            "text/html",
            b"<meta http-equiv=content-type content='text/html; charset=cp1252'>Gr\xfc\xdfe: \x80",
        ),
        ("text/plain; charset=\"utf-8\"", "Grüße: €".as_bytes()),
        ("text/plain; charset=nonsense", "Grüße: €".as_bytes()),
        ("text/plain; charset=windows-1252", "\u{feff}Grüße: €".as_bytes()),
        ("text/plain", b"\xff\xfeG\0r\0\xfc\0\xdf\0e\0:\0 \0\xac\x20"),
        ("text/html", b"\xfe\xff\0G\0r\0\xfc\0\xdf\0e\0:\0 \x20\xac"),
    ] {
        assert_eq!(shown(kind, body).await, expected, "{kind}");
    }
    let japanese = shown("text/html; charset=Shift_JIS", b"<p>\x93\xfa\x96{").await;
    assert_eq!(japanese, "\n日本");
    let utf16 = shown("text/html", b"<meta charset=utf-16><p>ascii").await;
    assert_eq!(utf16, "\nascii", "a page that says so in ASCII is not in UTF-16");
}
