//! Model APIs' errors, sorted by who acts next.

use std::time::Duration;

use chrono::DateTime;
use peacrab::provider::ProviderError;
use peacrab::provider::fault::{ApiFault, retry_after};
use peacrab::secret::Secret;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

#[test]
fn reads_every_form_of_retry_after() {
    let now = DateTime::from_timestamp(784_111_777, 0).unwrap(); // Sun, 06 Nov 1994 08:49:37 GMT
    let check = |name: &'static str, value: &'static str, expected| {
        let name = HeaderName::from_static(name);
        let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
        assert_eq!(retry_after(&headers, now), expected, "{value}");
    };
    check("retry-after", "7", Some(Duration::from_secs(7)));
    check("retry-after", "0.5", Some(Duration::from_millis(500)));
    check("retry-after-ms", "250", Some(Duration::from_millis(250)));
    check("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT", Some(Duration::from_secs(30)));
    check("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT", Some(Duration::ZERO));
    check("retry-after", "-3", None);
    check("retry-after", "soon", None);
    check("x-other", "3", None);
}

fn sorted(status: u16, body: &str) -> String {
    let secret = Secret::new("sk-very-secret");
    match ApiFault::of_response(status, None, body).classify(Some(&secret)) {
        ProviderError::Busy { reason, .. } => format!("busy: {reason}"),
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

#[test]
fn tells_a_long_prompt_from_a_wrong_setting() {
    for (status, body) in [
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However…","code":"context_length_exceeded"}}"#,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}"#,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"}}"#,
        ),
        (
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
        ),
        (413, "<html>413</html>"),
        (
            400,
            r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"the request exceeds the available context size, try increasing it"}}"#,
        ),
        (400, r#"{"error":"the input length exceeds the context length"}"#),
        (
            429,
            r#"{"error":{"code":"rate_limit_exceeded","message":"Request too large for gpt-4o: Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully."}}"#,
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."}}]"#,
        ),
    ] {
        assert_eq!(sorted(status, body), "too long", "{body}");
    }
    let wrong = r#"{"error":{"message":"max_tokens is too large: 99999. This model supports at most 16384 completion tokens","type":"invalid_request_error","param":"max_tokens"}}"#;
    assert!(sorted(400, wrong).starts_with("refused: the request was not accepted"));
}

#[test]
fn tries_again_after_a_call_that_the_server_could_not_read() {
    let body = r#"{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=look"}}"#;
    assert_eq!(
        sorted(400, body),
        "broken: the model wrote a tool call that its server could not read (400: Failed to call a function.)"
    );
}

#[test]
fn tells_that_no_tools_are_accepted() {
    for (status, message) in [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (500, "tools param requires --jinja flag"),
        (500, "Unsupported param: tools"),
        (
            400,
            r#"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"#,
        ),
        (404, "No endpoints found that support tool use."),
        (400, "`tool calling` is not supported with this model"),
        (400, "deepseek-reasoner does not support Function Calling"),
    ] {
        let body = format!(r#"{{"error":{{"message":"{message}"}}}}"#);
        let expected = "no tools: the model or its server accepts no tools (";
        let found = sorted(status, &body);
        assert!(found.starts_with(expected), "{found}");
    }
    let body = r#"{"error":{"message":"tools[0].function.name is too long"}}"#;
    assert!(sorted(400, body).starts_with("refused: the request was not accepted"));
}

#[test]
fn quotes_words_that_are_no_text() {
    for (body, expected) in [
        (
            r#"{"object":"error","message":{"detail":[{"loc":["body"],"msg":"no sk-very-secret"}]}}"#,
            r#"{"detail":[{"loc":["body"],"msg":"no [key]"}]}"#,
        ),
        (r#"{"detail":[{"msg":"Field required"}]}"#, r#"[{"msg":"Field required"}]"#),
    ] {
        assert_eq!(
            sorted(422, body),
            format!(
                "refused: the request was not accepted; check model and max_tokens (422: {expected})"
            )
        );
    }
    let long = format!(r#"{{"detail":["{}"]}}"#, "x".repeat(900));
    assert!(sorted(422, &long).chars().count() < 300);
}

#[test]
fn shows_little_of_what_servers_say_and_never_the_key() {
    let long = format!(r#"{{"error":{{"message":"key sk-very-secret\nis {}"}}}}"#, "x".repeat(900));
    let shown = sorted(401, &long);
    assert!(shown.starts_with(
        "unauthorized: the key was not accepted; copy it again (401: key [key] is xxx"
    ));
    assert!(shown.chars().count() < 280, "{shown}");
    assert_eq!(sorted(502, "<!doctype html><p>Bad gateway"), "busy: the server failed (502)");
    assert_eq!(
        sorted(404, "no such page"),
        "refused: nothing there has this name; check model and base_url (404: no such page)"
    );
}
