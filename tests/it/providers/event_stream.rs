//! Server-sent events, as strictly as servers need it, and the patience with the server that sends them.

use std::collections::VecDeque;

use peacrab::provider::HttpTimeouts;
use peacrab::provider::http::Parser;
use proptest::prelude::*;

const STREAM: &str = "\u{feff}: hello\r\n\r\nevent: a\ndata: {\"ü\": 1}\nid: 7\n\ndata:x\rdata: y 🦀\r\r\
                      nonsense\nerror: {\"code\":500}\n\ndata: [DONE]";

fn parse<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let (mut parser, mut events) = (Parser::default(), VecDeque::new());
    chunks.into_iter().for_each(|chunk| parser.feed(chunk, &mut events));
    parser.flush(&mut events);
    events.into()
}

#[test]
fn reads_payloads_only() {
    let wanted = ["{\"ü\": 1}", "x\ny 🦀", "{\"error\":{\"code\":500}}", "[DONE]"];
    assert_eq!(parse([STREAM.as_bytes()]), wanted);
}

#[test]
fn waits_longer_for_this_machine_and_its_network() {
    let limits = |url| {
        let limits = HttpTimeouts::of(url);
        (limits.begin.as_secs(), limits.stall.as_secs())
    };
    for own in [
        "http://127.0.0.1:11434/v1",
        "http://localhost:8080/v1",
        "http://[::1]/v1",
        "http://box.lan/v1",
    ] {
        assert_eq!(limits(own), (900, 300), "{own}");
    }
    assert_eq!(limits("https://api.openai.com/v1"), (90, 60));
}

proptest! {
    #[test]
    fn does_not_care_where_a_stream_is_split(size in 1usize..STREAM.len()) {
        prop_assert_eq!(parse(STREAM.as_bytes().chunks(size)), parse([STREAM.as_bytes()]));
    }
}
