//! Requests that a page, a redirect, a name or a strange way of writing would have the program make
//! to what is not public: none is made.

use std::net::SocketAddr;

use peacrab::tools::web::FetchLimits;

use super::Reader;
use crate::support::site::{Answer, Names, Site};

/// One that may reach nothing but what is public; there are no names.
fn stranger() -> Reader {
    Reader::new(&[], &Names::default(), FetchLimits::default())
}

#[tokio::test]
async fn reaches_nothing_here_however_it_is_written() {
    let trap = Site::start().await;
    let port = trap.at.port();
    let reader = stranger();
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "0x7f.1",
        "0177.0.0.1",
        "0x7f.0x0.0x0.0x1",
        "127.0.0.1.",
        "127.000.000.001",
        "127.1.",
        "0",
        "0.0.0.0",
        "0x0",
        "１２７.0.0.1",
        "127。0。0。1",
        "127｡0．0.1",
        "①②⑦.0.0.1",
        "%31%32%37.0.0.1",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "[2001::80ff:fffe]",
        "127.127.127.127",
        "127.255.255.255",
    ] {
        let words = reader.fetch(&format!("http://{host}:{port}/")).await.refused();
        assert!(words.contains("which is not public"), "{host}: {words}");
    }
    trap.finish(&[]);
}

#[tokio::test]
async fn reaches_no_inner_network_and_no_cloud_s_secrets() {
    let reader = stranger();
    for host in [
        "169.254.169.254",
        "169.254.170.2",
        "0xa9fea9fe",
        "2852039166",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "10.0.0.1",
        "10.1",
        "192.168.1",
        "172.20.0.1",
        "100.64.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "[fe80::1]",
        "[fc00::1]",
        "[ff02::1]",
        "[fec0::1]",
        "[2001:db8::1]",
    ] {
        let words = reader.fetch(&format!("http://{host}/latest/meta-data/")).await.refused();
        assert!(words.contains("which is not public"), "{host}: {words}");
    }
}

#[tokio::test]
async fn reaches_no_name_that_leads_there() {
    let trap = Site::start().await;
    let port = trap.at.port();
    for addresses in [
        &["127.0.0.1"] as &[&str],
        &["::1"],
        &["1.1.1.1", "127.0.0.1"],
        &["2606:4700::1", "::ffff:127.0.0.1"],
        &["169.254.169.254"],
        &["64:ff9b::7f00:1"],
        &["0.0.0.0"],
    ] {
        let names = Names::of(&[("inner.example", addresses)]);
        let reader = Reader::new(&[], &names, FetchLimits::default());
        let words = reader.fetch(&format!("http://Inner.EXAMPLE:{port}/")).await.refused();
        assert!(words.contains("inner.example leads to "), "{words}");
        assert!(words.contains("which is not public"), "{words}");
        assert_eq!(names.left(), 0);
    }
    trap.finish(&[]);
}

#[tokio::test]
async fn the_system_s_own_names_for_this_machine_lead_nowhere() {
    let trap = Site::start().await;
    let (cx, _folder) = super::tool_context();
    let names = std::sync::Arc::new(peacrab::tools::web::SystemNames);
    let tool = peacrab::tools::web::fetch::WebFetch::new(&[], names, super::hasty());
    for host in ["localhost", "LOCALHOST", "localhost."] {
        let url = format!("http://{host}:{}/", trap.at.port());
        match super::call(&tool, &cx, &serde_json::json!({ "url": url })).await {
            super::Came::Refused(words) => {
                assert!(words.contains("which is not public"), "{words}")
            }
            // A system may know no name with a dot at its end.
            super::Came::Passing(_) if host.ends_with('.') => {}
            other => panic!("{host}: {other:?}"),
        }
    }
    trap.finish(&[]);
}

/// A name whose second answer is another one gains nothing: it is asked once for a connection, and
/// what it said then is what is connected to.
#[tokio::test]
async fn a_name_that_changes_its_mind_is_held_to_what_was_checked() {
    let site = Site::start_at("127.0.0.2:0".parse().unwrap()).await;
    let trap = Site::start_at(SocketAddr::new("127.0.0.1".parse().unwrap(), site.at.port())).await;
    site.has("/", Answer::html("<p>checked</p>"));
    site.has("/more", Answer::html("<p>checked, too</p>"));
    let names = Names::of(&[
        ("rebinding.example", &["127.0.0.2"]),
        ("rebinding.example", &["127.0.0.1"]),
        ("rebinding.example", &["127.0.0.2"]),
        ("rebinding.example", &["127.0.0.2", "127.0.0.1"]),
    ]);
    // What stands for the public address is the one that is listed.
    let reader = Reader::new(&["127.0.0.2"], &names, FetchLimits::default());
    let url = format!("http://rebinding.example:{}", site.at.port());
    assert!(reader.fetch(&url).await.text().contains("checked"));
    assert_eq!(names.left(), 3, "it was asked once");
    let words = reader.fetch(&format!("{url}/more")).await.refused();
    assert!(words.contains("rebinding.example leads to 127.0.0.1"), "{words}");
    assert!(reader.fetch(&format!("{url}/more")).await.text().contains("too"));
    let words = reader.fetch(&format!("{url}/other")).await.refused();
    assert!(words.contains("rebinding.example leads to 127.0.0.1"), "{words}");
    site.finish(&["/", "/more"]);
    trap.finish(&[]);
}

#[tokio::test]
async fn a_name_says_nothing_of_the_port() {
    let site = Site::start().await;
    site.has("/", Answer::html("<p>here</p>"));
    // The double gives port 9 with each answer.
    let names = Names::of(&[("nas.example", &["127.0.0.1"])]);
    let listed = format!("nas.example:{}", site.at.port());
    let reader = Reader::new(&[&listed], &names, FetchLimits::default());
    assert!(reader.fetch(&format!("http://{listed}/")).await.text().contains("here"));
}

#[tokio::test]
async fn redirects_lead_to_nothing_that_is_not_public() {
    let (site, trap) = (Site::start().await, Site::start().await);
    let reader = Reader::of(&site);
    let trapped = trap.at.port();
    let places = [
        format!("http://127.0.0.1:{trapped}/"),
        format!("//127.0.0.1:{trapped}/"),
        format!("http://0x7f.1:{trapped}/"),
        format!("http://[::ffff:127.0.0.1]:{trapped}/"),
        format!("http://127.0.0.2:{}/", site.at.port()),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://10.0.0.1/".to_owned(),
    ];
    for (at, place) in places.iter().enumerate() {
        for status in [301, 302, 303, 307, 308] {
            let path = format!("/{at}/{status}");
            site.has(&path, Answer::redirect(status, place));
            let words = reader.fetch(&site.url(&path)).await.refused();
            assert!(words.contains("which is not public"), "{place}: {words}");
        }
    }
    trap.finish(&[]);
}

#[tokio::test]
async fn redirects_lead_to_no_other_scheme_and_no_bad_port() {
    let site = Site::start().await;
    let reader = Reader::of(&site);
    for (place, reason) in [
        ("file:///etc/passwd", "not spoken here"),
        ("gopher://127.0.0.1:70/_x", "not spoken here"),
        ("ftp://ftp.example/", "not spoken here"),
        ("data:text/plain,hello", "not spoken here"),
        ("javascript:alert(1)", "not spoken here"),
        ("ws://1.1.1.1/", "not spoken here"),
        ("http://1.1.1.1:25/", "port 25 is not one of the web's"),
        ("http://user:geheim@1.1.1.1/", "it holds a name or password"),
        ("http://", "an invalid address"),
        ("http://[::1", "an invalid address"),
    ] {
        site.has("/", Answer::redirect(302, place));
        let words = reader.fetch(&site.url("/")).await.refused();
        assert!(words.contains(reason), "{place}: {words}");
        assert!(!words.contains("geheim"), "{words}");
    }
}

#[tokio::test]
async fn six_redirects_in_a_row_are_too_many() {
    let site = Site::start().await;
    let reader = Reader::of(&site);
    for step in 0..6 {
        site.has(&format!("/{step}"), Answer::redirect(302, &format!("{}", step + 1)));
    }
    site.has("/6", Answer::html("<p>the end</p>"));
    let words = reader.fetch(&site.url("/0")).await.refused();
    assert!(words.contains("is redirected more than 5 times"), "{words}");
    site.finish(&["/0", "/1", "/2", "/3", "/4", "/5"]);
    let text = reader.fetch(&site.url("/1")).await.text();
    assert!(text.starts_with(&format!("(it has led here) {}\n", site.url("/6"))), "{text}");
    site.has("/loop", Answer::redirect(301, "/loop"));
    assert!(reader.fetch(&site.url("/loop")).await.refused().contains("more than 5 times"));
}

#[tokio::test]
async fn nothing_is_believed_that_stands_before_an_at_sign() {
    let trap = Site::start().await;
    let port = trap.at.port();
    let reader = Reader::of(&trap);
    for url in [
        format!("http://example.com@127.0.0.1:{port}/"),
        format!("http://user:pass@127.0.0.1:{port}/"),
        format!("http://example.com%2F@127.0.0.1:{port}/"),
        format!("http://:pass@127.0.0.1:{port}/"),
    ] {
        let words = reader.fetch(&url).await.refused();
        assert!(words.contains("it holds a name or password"), "{words}");
        assert!(!words.contains("pass@"), "{words}");
    }
    let stranger = stranger();
    // A backslash is a slash, and a number sign ends the host.
    for url in [
        format!("http://127.0.0.1:{port}\\@example.com/"),
        format!("http://127.0.0.1:{port}#@example.com/"),
        format!("http://127.0.0.1:{port}?@example.com/"),
        format!("  http:\\\\127.0.0.1:{port}/  "),
        format!("http:/127.0.0.1:{port}/"),
        format!("http:127.0.0.1:{port}/"),
        format!("ht\ntp://127.0.\t0.1:{port}/"),
    ] {
        let words = stranger.fetch(&url).await.refused();
        assert!(words.contains("which is not public"), "{url}: {words}");
    }
    trap.finish(&[]);
}

#[tokio::test]
async fn speaks_nothing_but_http_and_to_no_bad_port() {
    let reader = stranger();
    for (url, reason) in [
        ("file:///etc/passwd", "not spoken here"),
        ("file://localhost/etc/passwd", "not spoken here"),
        ("gopher://1.1.1.1/", "not spoken here"),
        ("ftp://1.1.1.1/", "not spoken here"),
        ("dict://1.1.1.1:11211/stat", "not spoken here"),
        ("data:text/html,x", "not spoken here"),
        ("http://1.1.1.1:22/", "port 22"),
        ("https://1.1.1.1:6667/", "port 6667"),
        ("http://1.1.1.1:0/", "port 0"),
        ("http://1.1.1.1:99999/", "The URL is wrong"),
        ("http://[fe80::1%25eth0]/", "The URL is wrong"),
        ("http://1.1.1.256/", "The URL is wrong"),
        ("http://0x100000000/", "The URL is wrong"),
        ("http://exa mple.com/", "The URL is wrong"),
        ("http://", "The URL is wrong"),
        ("example.com", "Write it whole, as in https://"),
        ("", "The URL is wrong"),
    ] {
        let words = reader.fetch(url).await.refused();
        assert!(words.contains(reason), "{url}: {words}");
    }
    let long = format!("https://example.com/{}", "x".repeat(2_000));
    assert!(reader.fetch(&long).await.refused().contains("longer than 2000 characters"));
}

#[tokio::test]
async fn what_is_listed_is_reached_and_nothing_beside_it() {
    let (site, trap) = (Site::start().await, Site::start().await);
    site.has("/", Answer::html("<p>my own</p>"));
    let reader = Reader::of(&site);
    assert!(reader.fetch(&site.url("/")).await.text().contains("my own"));
    assert!(reader.fetch(&trap.url("/")).await.refused().contains("which is not public"));
    trap.finish(&[]);
    site.finish(&["/"]);
}
