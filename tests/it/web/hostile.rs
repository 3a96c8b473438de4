//! Servers that want their reader to hang, to swell or to break: it is told in time, in words.

use std::time::{Duration, Instant};

use peacrab::tools::web::FetchLimits;

use super::{Reader, hasty};
use crate::support::site::{Answer, Site};

const TEXT: &str = "200 OK\r\ncontent-type: text/plain";

#[tokio::test]
async fn a_body_without_an_end_is_read_up_to_a_bound() {
    let site = Site::start().await;
    site.has("/", Answer::Endless(TEXT.to_owned(), b"0123456789abcdef\n".repeat(512)));
    let limits = FetchLimits { bytes: 100_000, ..FetchLimits::default() };
    let reader = Reader::hasty(&site, limits);
    let text = reader.fetch(&site.url("/")).await.text();
    assert!(text.contains("[Characters 0 to 7000 of 100000. Read on with offset 7000.]"), "{text}");
    let last = serde_json::json!({ "url": site.url("/"), "offset": 99_990 });
    let text = reader.call(last).await.text();
    assert!(text.contains("This is the end.]"), "{text}");
    assert!(
        text.ends_with(
            "[There is more that I cannot show: only its first 100000 bytes were read.]"
        )
    );
    site.finish(&["/"]);
}

#[tokio::test]
async fn a_huge_page_is_kept_in_part_and_says_so() {
    let site = Site::start().await;
    let paragraph = format!("<p>{}</p>\n", "wörter ".repeat(100));
    site.has("/", Answer::html(paragraph.repeat(4_000)));
    let reader = Reader::of(&site);
    let text = reader.fetch(&site.url("/")).await.text();
    assert!(text.contains("[Characters 0 to 7000 of "), "{}", &text[text.len() - 200..]);
    let count = text.rsplit_once(" of ").unwrap().1.split('.').next().unwrap();
    assert!(count.parse::<usize>().unwrap() <= 512 * 1024);
}

#[tokio::test]
async fn a_server_that_drips_is_left_in_time() {
    let site = Site::start().await;
    let head = "200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100000";
    let drops = vec![b'x'; 100_000];
    site.has("/drips", Answer::Slow(head.to_owned(), drops, Duration::from_millis(20)));
    site.has("/silent", Answer::Silence);
    let silent = Answer::Slow(head.to_owned(), vec![b'x'], Duration::from_secs(60));
    site.has("/headed", silent);
    let reader = Reader::hasty(&site, hasty());
    let begun = Instant::now();
    let text = reader.fetch(&site.url("/drips")).await.text();
    assert!(text.contains("\nxxx"), "{text}");
    let end =
        "[There is more that I cannot show: its server was too slow: it took longer than 0.4 s.]";
    assert!(text.ends_with(end), "{text}");
    for path in ["/silent", "/headed"] {
        let words = reader.fetch(&site.url(path)).await.passing();
        assert!(words.ends_with("could not be fetched: it took longer than 0.4 s."), "{words}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_slow_chain_of_redirects_has_one_time_for_all() {
    let site = Site::start().await;
    for step in 0..5 {
        site.has(&format!("/{step}"), Answer::redirect(302, &format!("/{}", step + 1)));
    }
    site.has("/5", Answer::Silence);
    let reader = Reader::hasty(&site, hasty());
    let begun = Instant::now();
    assert!(reader.fetch(&site.url("/0")).await.refused().contains("longer than 0.4 s"));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_compressed_body_is_not_unpacked() {
    let site = Site::start().await;
    for encoding in ["gzip", "br", "deflate", "zstd", "GZIP, gzip"] {
        let head = format!("200 OK\r\ncontent-type: text/html\r\ncontent-encoding: {encoding}");
        site.has("/", Answer::of(&head, b"\x1f\x8b\x08\0\0\0\0\0\0\x03bomb"));
        let words = Reader::of(&site).fetch(&site.url("/")).await.refused();
        assert!(words.contains("its server sends it compressed"), "{words}");
    }
    let head = "200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: identity";
    site.has("/", Answer::of(head, b"as it is"));
    assert!(Reader::of(&site).fetch(&site.url("/")).await.text().ends_with("as it is"));
}

#[tokio::test]
async fn a_bomb_of_headers_is_refused() {
    let site = Site::start().await;
    let many: String = (0..10_000).map(|n| format!("x-{n}: y\r\n")).collect();
    site.has("/many", Answer::of(&format!("200 OK\r\n{many}content-type: text/plain"), b"x"));
    let long = "y".repeat(2_000_000);
    site.has("/long", Answer::of(&format!("200 OK\r\nx-long: {long}\r\nx: y"), b"x"));
    // Without an end.
    let open = format!("HTTP/1.1 200 OK\r\nx-open: {}", "y".repeat(900_000));
    site.has("/open", Answer::Raw(open.into()));
    let reader = Reader::hasty(
        &site,
        FetchLimits { whole: Duration::from_secs(5), bytes: 10_000, ..hasty() },
    );
    for path in ["/many", "/long", "/open"] {
        let words = reader.fetch(&site.url(path)).await.passing();
        assert!(words.contains("could not be fetched"), "{path}: {words}");
    }
    let redirect = format!("/{}", "a".repeat(60_000));
    site.has("/far", Answer::redirect(302, &redirect));
    let words = reader.fetch(&site.url("/far")).await.refused();
    assert!(words.contains("404") && words.len() < 1_000, "{words}");
}

#[tokio::test]
async fn what_is_no_http_is_told_in_words() {
    let site = Site::start().await;
    let reader = Reader::hasty(&site, hasty());
    for (path, bytes) in [
        ("/empty", b"" as &[u8]),
        ("/ssh", b"SSH-2.0-OpenSSH_9.6\r\n"),
        ("/junk", b"\0\xff\0\xff\0\xff"),
        ("/half", b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 10\r\n\r\nhalf"),
        ("/chunk", b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
    ] {
        site.has(path, Answer::Raw(bytes.to_vec()));
        let words = reader.fetch(&site.url(path)).await.passing();
        assert!(words.contains("could not be fetched: "), "{path}: {words}");
        assert!(!words.contains("error sending request"), "{path}: {words}");
    }
}

/// Pages of a few bytes that would grow into trees of gigabytes, or keep a reader busy for hours.
#[tokio::test]
async fn a_page_that_is_made_to_cost_its_reader_does_not() {
    let site = Site::start().await;
    let formats: String = (0..3_000).map(|n| format!("<b a={n}>")).collect();
    let attributes: String = (0..200_000).map(|n| format!(" a{n}")).collect();
    let cells = "<td>x".repeat(20_000);
    let rows = "<tr><td>x".repeat(20_000);
    for (what, page) in [
        ("deep", "<div>".repeat(300_000)),
        ("deep lists", "<ul><li>".repeat(100_000)),
        ("deep quotes", "<blockquote>".repeat(100_000)),
        ("deep tables", "<table><tr><td>".repeat(60_000)),
        ("formats opened again and again", format!("<p>{formats}{}", "</p>x<p>".repeat(20_000))),
        ("links in links", "<a href=x><p>".repeat(50_000)),
        ("a table thrown out of a table", format!("<table>{}", "<i>x".repeat(50_000))),
        ("attributes", format!("<p{attributes}>x")),
        ("wide tables", format!("<table><tr><th>h{cells}{rows}")),
        ("pieces of code", "<code>x</code>".repeat(50_000)),
        ("options", format!("<select>{}", "<option selected><div>".repeat(20_000))),
        ("templates", "<template>".repeat(50_000)),
        ("letters", "&lt;".repeat(200_000)),
        ("nul", "\0".repeat(200_000)),
        ("open", format!("<p>x<!--{}", "-".repeat(500_000))),
        ("svg", "<svg><foreignObject>".repeat(50_000)),
        ("long words", format!("<pre>{}", "`".repeat(500_000))),
        ("list numbers", "<ol start=99999999999><li>x".repeat(1_000)),
    ] {
        site.has("/", Answer::html(format!("<!doctype html><p>begin</p>{page}")));
        let begun = Instant::now();
        let came = Reader::of(&site).fetch(&site.url("/")).await;
        let text = came.text();
        assert!(text.chars().count() <= 8_000, "{what}");
        assert!(text.contains("begin"), "{what}: {text}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{what} took {:?}", begun.elapsed());
    }
}

/// The bytes of a process that are its own and in memory (proc(5), statm: resident less shared).
fn own_memory() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: Vec<u64> = statm.split(' ').take(3).map(|it| it.parse().unwrap()).collect();
    (pages[1] - pages[2]) * rustix::param::page_size() as u64
}

/// Pages whose trees take a hundred megabytes leave no more than eight behind, and take no more on the way. The test is
/// in a process of its own, because all tests share one.
#[test]
fn hostile_pages_cost_another_process_its_memory_and_this_one_little() {
    #[expect(clippy::disallowed_methods, reason = "this test alone reads it")]
    let is_alone = std::env::var_os(ALONE).is_some();
    if !is_alone {
        #[expect(clippy::disallowed_methods, reason = "the program is this test itself")]
        let ran = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "web::hostile::hostile_pages_cost_another_process_its_memory_and_this_one_little",
            ])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let site = Site::start().await;
        // Endless, as the site is in this process, and a long page would be, too.
        let pieces = ["<b a=1><p>x", "<div><i>x", "<table><tr><td>x", "&lt;a"];
        let head = "200 OK\r\ncontent-type: text/html";
        for (n, piece) in pieces.iter().enumerate() {
            let piece = piece.repeat(1_000).into_bytes();
            site.has(&format!("/{n}"), Answer::Endless(head.to_owned(), piece));
        }
        let reader = Reader::of(&site);
        let read = async |n: usize| {
            let text = reader.fetch(&site.url(&format!("/{n}"))).await.text();
            assert!(text.contains('x') || text.contains('a'), "{text}");
        };
        // The first fetch makes what later ones use again, such as certificates.
        site.has("/small", Answer::html("<p>x</p>"));
        reader.fetch(&site.url("/small")).await.text();
        let before = own_memory();
        let mut most = 0;
        for n in 0..pieces.len() {
            read(n).await;
            most = most.max(own_memory().saturating_sub(before));
        }
        peacrab::process::return_free_memory();
        let left = own_memory().saturating_sub(before);
        assert!(most <= GROWTH_BYTES_MAX && left <= GROWTH_BYTES_MAX, "{most} and {left} bytes");
    });
}

/// Marks the process that runs one test alone.
const ALONE: &str = "PEACRAB_TEST_ALONE";

/// The growth that is promised.
const GROWTH_BYTES_MAX: u64 = 8 * 1024 * 1024;

#[tokio::test]
async fn a_reader_that_dies_or_says_nonsense_is_told_in_words() {
    let site = Site::start().await;
    site.has("/", Answer::html("<p>x</p>"));
    for program in ["/bin/false", "/bin/true", "/bin/cat", "/no/such/program"] {
        let (cx, _folder) = super::tool_context();
        let listed = [site.at.to_string().parse().unwrap()];
        let names = std::sync::Arc::new(crate::support::site::Names::default());
        let tool =
            peacrab::tools::web::fetch::WebFetch::new(&listed, names, FetchLimits::default());
        let tool = tool.with_program(program);
        let url = serde_json::json!({ "url": site.url("/") });
        let words = super::call(&tool, &cx, &url).await.refused();
        assert!(words.ends_with("cannot be read: its HTML broke my reader."), "{program}: {words}");
    }
}

#[tokio::test]
async fn the_process_that_reads_pages_has_no_way_to_files_or_the_network() {
    #[expect(clippy::disallowed_methods, reason = "the program is this test's own child")]
    let mut child = std::process::Command::new(super::PROGRAM)
        .arg("__page")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It waits for its page once it has taken its rights away.
    let status = format!("/proc/{}/status", child.id());
    let is_confined = || std::fs::read_to_string(&status).unwrap().contains("Seccomp:\t2");
    let confined = async {
        while !is_confined() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), confined).await.unwrap();
    let head = serde_json::json!({
        "page": { "url": "http://a.example/", "content_type": "text/html" }
    });
    let page = format!("{head}\n<p>Read anyway");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), page.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("Read anyway"));
}
