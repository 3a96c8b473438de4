//! Failures, sorted by who acts next.

use super::*;

const BOTH: [Platform; 2] = [Platform::OpenAi, Platform::Anthropic];

/// What the provider makes of this reply, as one line.
async fn sorted(platform: Platform, reply: Reply) -> String {
    sorted_within(LIMITS, platform, reply).await
}

async fn sorted_within(limits: HttpTimeouts, platform: Platform, reply: Reply) -> String {
    let api = ModelApi::start(platform).await;
    api.reply(reply);
    let error = ask(&*connected(&config(&api), "main", limits)).await.0.unwrap_err();
    api.finish();
    told(error)
}

fn told(error: ProviderError) -> String {
    match error {
        ProviderError::Busy { after: None, reason } => format!("busy: {reason}"),
        ProviderError::Busy { after: Some(after), reason } => {
            format!("busy for {after:?}: {reason}")
        }
        ProviderError::Broken(reason) => format!("broken: {reason}"),
        ProviderError::Stalled(reason) => format!("stalled: {reason}"),
        ProviderError::TooLong => "too long".to_owned(),
        ProviderError::Unauthorized(reason) => format!("unauthorized: {reason}"),
        ProviderError::Refused(reason) => format!("refused: {reason}"),
        ProviderError::NoTools(reason) => format!("no tools: {reason}"),
        ProviderError::NoCredit(reason) => format!("no credit: {reason}"),
        ProviderError::OverBudget(words) => format!("over budget: {words}"),
    }
}

#[tokio::test]
async fn tells_who_acts_next() {
    let said = json!({"type": "error", "error": {"type": "some_error", "message": "Oh no."}});
    let quota = json!({"error": {"code": "insufficient_quota", "message": "Oh no."}});
    for (status, body, expected) in [
        (
            400,
            &said,
            "refused: the request was not accepted; check model and max_tokens (400: Oh no.)",
        ),
        (401, &said, "unauthorized: the key was not accepted; copy it again (401: Oh no.)"),
        (
            402,
            &said,
            "no credit: there is no credit left; check the account's billing (402: Oh no.)",
        ),
        (
            403,
            &said,
            "unauthorized: access was denied; check the key and what it may use (403: Oh no.)",
        ),
        (
            404,
            &said,
            "refused: nothing there has this name; check model and base_url (404: Oh no.)",
        ),
        (408, &said, "busy: the server timed out (408: Oh no.)"),
        (429, &said, "busy: the rate limit is reached (429: Oh no.)"),
        (
            429,
            &quota,
            "no credit: there is no credit left; check the account's billing (429: Oh no.)",
        ),
        (500, &said, "busy: the server failed (500: Oh no.)"),
        (529, &said, "busy: the server is overloaded (529: Oh no.)"),
    ] {
        for platform in BOTH {
            assert_eq!(sorted(platform, Reply::error(status, body)).await, expected);
        }
    }
}

#[tokio::test]
async fn tells_when_to_come_back() {
    let reply = Reply::error(429, &json!({})).with_header("retry-after", "7");
    assert_eq!(
        sorted(Platform::Anthropic, reply).await,
        "busy for 7s: the rate limit is reached (429)"
    );
}

#[tokio::test]
async fn shows_no_page_and_no_key() {
    for platform in BOTH {
        let page = |status| Reply::page(status, "text/html", "<html>Welcome</html>");
        assert_eq!(sorted(platform, page(502)).await, "busy: the server failed (502)");
        assert_eq!(
            sorted(platform, page(200)).await,
            "refused: the server is not a model API; check base_url (200)"
        );
        let told = format!("{KEY} is no key. {}", "x".repeat(100_000));
        let told = sorted(platform, Reply::error(401, &json!({"error": told}))).await;
        assert!(!told.contains(KEY) && told.chars().count() < 300, "{told}");
    }
}

#[tokio::test]
async fn does_not_follow_a_redirect_with_the_key() {
    for platform in BOTH {
        let trap = ModelApi::start(platform).await;
        let reply = Reply::page(307, "text/plain", "").with_header("location", &trap.base_url);
        assert_eq!(
            sorted(platform, reply).await,
            "refused: the server redirects to another address; check base_url (307)"
        );
        trap.finish();
    }
}

#[tokio::test]
async fn understands_an_error_within_the_stream() {
    let broken = |platform, error: &Value| {
        let mut events = answer(platform, "Half");
        events.truncate(4);
        events.retain(|event| event.pointer("/choices/0/finish_reason").is_none());
        events.push(error.clone());
        Reply::events(&events)
    };
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let told = sorted(Platform::Anthropic, broken(Platform::Anthropic, &error)).await;
    assert_eq!(told, "busy: the server is overloaded (Overloaded)");

    let error = json!({"error": {"code": 502, "message": "Upstream broke"}, "choices": []});
    let told = sorted(Platform::OpenAi, broken(Platform::OpenAi, &error)).await;
    assert_eq!(told, "busy: the server failed (502: Upstream broke)");

    let error = json!({"error": {"type": "exceed_context_size_error", "message": "Too much"}});
    assert_eq!(sorted(Platform::OpenAi, broken(Platform::OpenAi, &error)).await, "too long");
}

#[tokio::test]
async fn notices_a_broken_stalled_or_silent_answer() {
    for platform in BOTH {
        let half = |ending| half_an_answer(platform, ending);
        let cut = "broken: the answer was cut off in the middle";
        assert_eq!(sorted(platform, half(StreamEnding::Closes)).await, cut);
        let told = sorted(platform, half(StreamEnding::Breaks)).await;
        assert!(told.starts_with("broken: the answer was cut off: "), "{told}");
        let told = sorted_within(SHORT_LIMITS, platform, half(StreamEnding::Stalls)).await;
        assert_eq!(told, "stalled: the answer stalled");
        let told = sorted_within(SHORT_LIMITS, platform, Reply::Silence).await;
        assert_eq!(told, "busy: the server sent nothing for 0.5 s");
    }
}

#[tokio::test]
async fn names_the_host_that_cannot_be_reached() {
    let api = ModelApi::start(Platform::OpenAi).await;
    // Nobody listens on a port that was given up just now.
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", unused.local_addr().unwrap());
    drop(unused);
    let config = Config { base_url, ..config(&api) };
    let error = ask(&*connected(&config, "main", LIMITS)).await.0.unwrap_err();
    let told = told(error);
    assert!(told.starts_with("busy: cannot reach 127.0.0.1: Connection refused"), "{told}");
}

#[tokio::test]
async fn ends_an_endless_answer() {
    let api = ModelApi::start(Platform::OpenAi).await;
    let line = vec![b'x'; 64 * 1024];
    api.reply(Reply::Stream(vec![line; 64], StreamEnding::Stalls));
    let told = told(ask(&*provider(&api)).await.0.unwrap_err());
    assert_eq!(told, "refused: the answer does not end; check the model");
}

#[test]
fn refuses_a_config_that_cannot_work() {
    let config = |base_url: &str, key: &str| Config {
        kind: ProviderKind::OpenAi,
        model: MODEL.to_owned(),
        api_key: Some(Secret::new(key)),
        base_url: base_url.to_owned(),
        tokens_max: Some(1),
        context: 100_000,
        context_is_set: true,
        tools: Tools::Native,
        structured: Default::default(),
        images: false,
        timeouts: Default::default(),
        price: None,
    };
    let refusal = |config: Config| match OpenAi::new("main", &config, LIMITS) {
        Ok(_) => panic!("taken: {config:?}"),
        Err(error) => error.to_string(),
    };
    let expected = "base_url is not a URL: nowhere/chat/completions";
    assert_eq!(refusal(config("nowhere", KEY)), expected);
    assert_eq!(
        refusal(config("ftp://host", KEY)),
        "base_url is not an HTTP URL: ftp://host/chat/completions"
    );
    assert_eq!(refusal(config("http://host", "a\nb")), "api_key contains invalid characters");
}
