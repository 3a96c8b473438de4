//! The address of a platform's API, and when it is doubted.

use std::time::Duration;

use peacrab::channels::call::ApiClient;
use reqwest::StatusCode;

const OWN: &str = "https://api.example/v1";

fn ambiguity(api_url: &str, status: u16) -> Option<String> {
    let caller = ApiClient::new(api_url, OWN, Duration::from_secs(1)).expect("a URL");
    caller.ambiguity(StatusCode::from_u16(status).expect("a status"))
}

#[test]
fn only_an_address_that_somebody_wrote_is_doubted() {
    for own in [OWN, "https://api.example/v1/", "https://API.example:443/v1"] {
        assert_eq!(ambiguity(own, 404), None, "{own}");
    }
    for (written, place) in [
        ("http://127.0.0.1:8081", "http://127.0.0.1:8081"),
        ("http://[::1]:8081/", "http://[::1]:8081"),
        ("https://api.example/v2", "https://api.example/v2"),
        ("https://ada:geheim@api.example/v2?key=geheim#geheim", "https://api.example/v2"),
    ] {
        let words = format!("404 Not Found at {place}: is api_url right?");
        assert_eq!(ambiguity(written, 404), Some(words));
    }
}

#[test]
fn an_address_is_not_doubted_where_a_server_is_in_trouble() {
    let doubted = |status: &u16| ambiguity("http://127.0.0.1:8081", *status).is_some();
    let statuses = [301, 400, 401, 403, 404, 405, 413, 429, 500, 502, 503, 504];
    let found: Vec<u16> = statuses.into_iter().filter(doubted).collect();
    assert_eq!(found, [301, 400, 401, 403, 404, 405]);
}
