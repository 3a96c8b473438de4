//! Answers that tell on which facts they rest: by a schema, of which people see the text alone, or by a mark.

use peacrab::provider::answer_reader::AnswerReader;
use peacrab::provider::{StopReason, Structured, takes_schema};
use proptest::prelude::*;

use super::*;

const MARK: &str = "[used #1 #2]";

/// An answer in this form, cut into pieces of so many letters.
fn answer_in_pieces(platform: Platform, text: &str, size: usize) -> Vec<Value> {
    let letters: Vec<char> = text.chars().collect();
    let pieces = letters.chunks(size).map(|it| it.iter().collect::<String>());
    match platform {
        Platform::OpenAi => {
            let chunks = pieces.map(|piece| super::openai::chunk(&json!({"content": piece})));
            chunks.chain([super::openai::finish("stop")]).collect()
        }
        Platform::Anthropic => {
            let delta = |piece| {
                json!({"type": "content_block_delta", "index": 0,
                    "delta": {"type": "text_delta", "text": piece}})
            };
            let start = json!({"type": "content_block_start", "index": 0,
                "content_block": {"type": "text", "text": ""}});
            let end = [
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
                json!({"type": "message_stop"}),
            ];
            [start].into_iter().chain(pieces.map(delta)).chain(end).collect()
        }
    }
}

/// Asks with these facts in the prompt. Returns the completion and the text as it was seen.
async fn ask_about(provider: &dyn Provider, facts: &[i64]) -> (Completion, String) {
    let (system, tools, turns) = (system(), tools(), [hearing("Hello?")]);
    let request = Request {
        system: &system,
        tools: &tools,
        facts,
        may_call: true,
        effort: Effort::Medium,
        attempts: Attempts::Usual,
        tokens_max: None,
        messages: messages(&turns),
        pictures: &Pictures::default(),
    };
    let mut seen = String::new();
    let watch = |delta: &Delta| {
        if let Delta::Text(text) = delta {
            seen.push_str(text);
        }
    };
    let completion = complete(provider, &request, watch).await.unwrap();
    (completion, seen)
}

fn provider_with(api: &ModelApi, structured: Structured) -> Arc<dyn Provider> {
    connected(&Config { structured, ..config(api) }, "main", LIMITS)
}

fn schema_of(platform: Platform, body: &Value) -> &Value {
    match platform {
        Platform::OpenAi => &body["response_format"]["json_schema"]["schema"],
        Platform::Anthropic => &body["output_config"]["format"]["schema"],
    }
}

const PLATFORMS: [Platform; 2] = [Platform::OpenAi, Platform::Anthropic];

#[tokio::test]
async fn people_see_the_text_alone_however_the_json_is_cut() {
    let text = "She is “seven” 🦀,\n\\frac{1}{2} \"today\".";
    for platform in PLATFORMS {
        let api = ModelApi::start(platform).await;
        let provider = provider_with(&api, Structured::On);
        let forms = [
            json!({"text": text, "used": [4, 7]}).to_string(),
            format!(" {{ \"used\" : [ 4 , 7 ] ,\n \"text\" : {} }}\n", json!(text)),
            // The crab in two escapes, as ASCII encoders write it.
            json!({"text": text, "used": [4, 7]}).to_string().replace('🦀', "\\ud83e\\udd80"),
            format!(
                "{{\"why\": {{\"text\": \"no\"}}, \"text\": {}, \"used\": [4, 7]}}",
                json!(text)
            ),
        ];
        for (form, size) in forms.iter().flat_map(|form| [1, 2, 3, 50].map(|size| (form, size))) {
            api.reply(Reply::events(&answer_in_pieces(platform, form, size)));
            let (completion, seen) = ask_about(&*provider, &[4, 7]).await;
            assert_eq!((completion.text.as_str(), seen.as_str()), (text, text), "{form}");
            assert_eq!(completion.used_facts, [4, 7]);
        }
        api.finish();
    }
}

#[tokio::test]
async fn the_schema_allows_only_the_facts_of_the_prompt_and_no_other_ids_count() {
    for platform in PLATFORMS {
        let api = ModelApi::start(platform).await;
        let provider = provider_with(&api, Structured::On);
        let lies = json!({"text": "Hi", "used": [9, 7, -4, 7, "4", 1e3]}).to_string();
        api.reply(Reply::events(&answer_in_pieces(platform, &lies, 5)));
        let (completion, _) = ask_about(&*provider, &[4, 7]).await;
        assert_eq!((completion.text.as_str(), &*completion.used_facts), ("Hi", &[4, 7][..]));
        let body = api.requests().remove(0);
        let allowed = schema_of(platform, &body).pointer("/properties/used/items/enum");
        assert_eq!(allowed, Some(&json!([4, 7])));
        assert!(!body.to_string().contains(MARK), "{body}");
        api.finish();
    }
}

#[tokio::test]
async fn nothing_is_added_without_facts() {
    for platform in PLATFORMS {
        let api = ModelApi::start(platform).await;
        for structured in [Structured::On, Structured::Auto, Structured::Off] {
            let text = "{\"text\": \"Hi\"} [used #1]";
            api.reply(Reply::events(&answer_in_pieces(platform, text, 3)));
            let (completion, _) = ask_about(&*provider_with(&api, structured), &[]).await;
            assert_eq!((completion.text.as_str(), completion.used_facts), (text, vec![]));
        }
        let bodies = api.requests();
        assert_eq!((&bodies[0], &bodies[0]), (&bodies[1], &bodies[2]));
        assert!(schema_of(platform, &bodies[0]).is_null());
        assert!(!bodies[0].to_string().contains(MARK));
        api.finish();
    }
}

#[tokio::test]
async fn unknown_endpoints_and_models_without_native_tools_get_the_mark() {
    for platform in PLATFORMS {
        let api = ModelApi::start(platform).await;
        let text_tools = Config { structured: Structured::On, tools: Tools::Text, ..config(&api) };
        let providers = [
            provider_with(&api, Structured::Auto),
            provider_with(&api, Structured::Off),
            peacrab::provider::connect("main", &text_tools).unwrap(),
        ];
        for provider in providers {
            api.reply(Reply::events(&answer_in_pieces(platform, "Hi.\n\n[used #7 #9]", 3)));
            let (completion, seen) = ask_about(&*provider, &[4, 7]).await;
            assert_eq!((completion.text.as_str(), seen.as_str()), ("Hi.", "Hi."));
            assert_eq!(completion.used_facts, [7]);
            let body = api.requests().pop().unwrap();
            assert!(schema_of(platform, &body).is_null());
            assert_eq!(body.to_string().matches(MARK).count(), 1);
        }
        api.finish();
    }
}

#[tokio::test]
async fn an_endpoint_that_refuses_the_schema_is_asked_for_the_mark_and_remembered() {
    for platform in PLATFORMS {
        let api = ModelApi::start(platform).await;
        let provider = provider_with(&api, Structured::On);
        let refusal =
            json!({"error": {"message": "Unknown parameter", "type": "invalid_request_error"}});
        api.reply(Reply::error(400, &refusal));
        for _ in 0..2 {
            api.reply(Reply::events(&answer_in_pieces(platform, "Hi. [used #4]", 9)));
        }
        for _ in 0..2 {
            let (completion, _) = ask_about(&*provider, &[4, 7]).await;
            assert_eq!((completion.text.as_str(), &*completion.used_facts), ("Hi.", &[4][..]));
        }
        let has_schema: Vec<_> =
            api.requests().iter().map(|body| !schema_of(platform, body).is_null()).collect();
        assert_eq!(has_schema, [true, false, false]);
        api.finish();
    }
}

#[tokio::test]
async fn a_refusal_of_the_schema_in_the_first_event_of_a_stream_is_noticed() {
    for platform in PLATFORMS {
        let refusal = json!({"type": "error", "error": {
            "type": "invalid_request_error", "code": 400,
            "message": "This model does not support the response format",
        }});
        // Servers that do not stream send it as their whole answer.
        for reply in [Reply::events(std::slice::from_ref(&refusal)), Reply::error(200, &refusal)] {
            let api = ModelApi::start(platform).await;
            let provider = provider_with(&api, Structured::On);
            api.reply(reply);
            for _ in 0..2 {
                api.reply(Reply::events(&answer_in_pieces(platform, "Hi. [used #4]", 9)));
            }
            for _ in 0..2 {
                let (completion, _) = ask_about(&*provider, &[4, 7]).await;
                assert_eq!((completion.text.as_str(), &*completion.used_facts), ("Hi.", &[4][..]));
            }
            let has_schema: Vec<_> =
                api.requests().iter().map(|body| !schema_of(platform, body).is_null()).collect();
            assert_eq!(has_schema, [true, false, false]);
            api.finish();
        }
    }
}

#[tokio::test]
async fn other_errors_in_a_stream_are_told_and_not_remembered() {
    let api = ModelApi::start(Platform::OpenAi).await;
    let provider = provider_with(&api, Structured::On);
    let refusal = json!({"error": {"type": "invalid_request_error", "message": "Bad messages"}});
    let begun = super::openai::chunk(&json!({"content": "{\"text\": \"She is"}));
    // Both forms are refused at the beginning, then one in its middle.
    api.reply(Reply::events(std::slice::from_ref(&refusal)));
    api.reply(Reply::events(std::slice::from_ref(&refusal)));
    api.reply(Reply::events(&[begun, refusal]));
    api.reply(Reply::events(&answer_in_pieces(Platform::OpenAi, r#"{"text": "Hi"}"#, 4)));
    let (system, turns) = (system(), [hearing("Hello?")]);
    let request = Request {
        system: &system,
        tools: &[],
        facts: &[4],
        may_call: true,
        effort: Effort::Default,
        attempts: Attempts::Usual,
        tokens_max: None,
        messages: messages(&turns),
        pictures: &Pictures::default(),
    };
    for _ in 0..2 {
        let refused = complete(&*provider, &request, |_| {}).await;
        let is_refused =
            matches!(refused, Err(ProviderError::Refused(_) | ProviderError::Unauthorized(_)));
        assert!(is_refused, "{refused:?}");
    }
    assert_eq!(ask_about(&*provider, &[4]).await.0.text, "Hi");
    let has_schema: Vec<_> =
        api.requests().iter().map(|body| body.get("response_format").is_some()).collect();
    assert_eq!(has_schema, [true, false, true, true]);
    api.finish();
}

#[tokio::test]
async fn a_model_that_refuses_to_answer_is_quoted() {
    let said = |field: &str, text: &str| super::openai::chunk(&json!({ field: text }));
    let refusal = [said("refusal", "I can't "), said("refusal", "say that.")];
    let cases: [(Vec<Value>, &str); 3] = [
        (refusal.to_vec(), "I can't say that."),
        // It had begun to answer by the schema.
        ([vec![said("content", "{\"text\": \"")], refusal.to_vec()].concat(), "I can't say that."),
        ([vec![said("content", " \n")], refusal.to_vec()].concat(), "I can't say that."),
    ];
    let api = ModelApi::start(Platform::OpenAi).await;
    let provider = provider_with(&api, Structured::On);
    for (events, text) in cases {
        api.reply(Reply::events(&[events, vec![super::openai::finish("stop")]].concat()));
        let (completion, seen) = ask_about(&*provider, &[4, 7]).await;
        assert_eq!((completion.text.trim(), seen.trim()), (text, text));
        assert_eq!(completion.used_facts, [0_i64; 0]);
    }
    // What is cut by a filter before its text shows no JSON.
    api.reply(Reply::events(&[said("content", "{\"te"), super::openai::finish("content_filter")]));
    let (completion, _) = ask_about(&*provider, &[4, 7]).await;
    assert_eq!((completion.text.as_str(), completion.stop), ("", Some(StopReason::Refused)));
    api.finish();
}

#[tokio::test]
async fn a_refusal_for_another_reason_is_not_remembered() {
    let api = ModelApi::start(Platform::OpenAi).await;
    let provider = provider_with(&api, Structured::On);
    let refusal = json!({"error": {"message": "Invalid 'temperature'"}});
    api.reply(Reply::error(400, &refusal));
    api.reply(Reply::error(400, &refusal));
    // A wrong key is not tried twice.
    api.reply(Reply::error(401, &refusal));
    api.reply(Reply::events(&answer_in_pieces(Platform::OpenAi, r#"{"text": "Hi"}"#, 4)));
    let turns = [hearing("Hello?")];
    let request = Request {
        system: &system(),
        tools: &[],
        facts: &[4],
        may_call: true,
        effort: Effort::Default,
        attempts: Attempts::Usual,
        tokens_max: None,
        messages: messages(&turns),
        pictures: &Pictures::default(),
    };
    for _ in 0..2 {
        let refused = complete(&*provider, &request, |_| {}).await;
        let is_refused =
            matches!(refused, Err(ProviderError::Refused(_) | ProviderError::Unauthorized(_)));
        assert!(is_refused, "{refused:?}");
    }
    assert_eq!(ask_about(&*provider, &[4]).await.0.text, "Hi");
    let has_schema: Vec<_> =
        api.requests().iter().map(|body| body.get("response_format").is_some()).collect();
    assert_eq!(has_schema, [true, false, true, true]);
    api.finish();
}

#[tokio::test]
async fn calls_come_beside_an_answer_of_the_schema_or_without_one() {
    let api = ModelApi::start(Platform::OpenAi).await;
    let provider = provider_with(&api, Structured::On);
    let call = json!({"tool_calls": [{"index": 0, "id": "a", "type": "function",
        "function": {"name": "look", "arguments": "{}"}}]});
    for (content, text) in [
        ("", ""),
        ("Let me see.", "Let me see."),
        (r#"{"text": "Let me see.", "used": [4]}"#, "Let me see."),
        (r#"{"text": "", "used": []}"#, ""),
    ] {
        api.reply(Reply::events(&[
            super::openai::chunk(&json!({"content": content})),
            super::openai::chunk(&call),
            super::openai::finish("tool_calls"),
        ]));
        let (completion, seen) = ask_about(&*provider, &[4]).await;
        assert_eq!((completion.text.as_str(), seen.as_str()), (text, text));
        assert_eq!(completion.calls.len(), 1);
    }
    api.finish();
}

/// The text and the facts of an answer of the schema, read in pieces of so many letters.
fn read(json: &str, size: usize, stop: StopReason) -> (String, Vec<i64>) {
    let mut reader = AnswerReader::new(&[4, 7]);
    let letters: Vec<char> = json.chars().collect();
    let pieces = letters.chunks(size).map(|it| it.iter().collect::<String>());
    let mut text: String = pieces.map(|piece| reader.push(&piece)).collect();
    let (rest, used) = reader.finish(stop);
    text.push_str(&rest);
    (text, used)
}

#[test]
fn broken_json_shows_what_can_be_read() {
    let cases: [(&str, &str, &[i64]); 16] = [
        ("Just words.", "Just words.", &[]),
        ("", "", &[]),
        ("{\"a\": 1}", "{\"a\": 1}", &[]),
        ("{nonsense", "{nonsense", &[]),
        ("{\"text\": \"cut in the mid", "cut in the mid", &[]),
        ("{\"text\": \"a\\ud83e", "a\u{fffd}", &[]),
        ("{\"text\": \"a\\ud83ex\\udd80\"}", "a\u{fffd}x\u{fffd}", &[]),
        ("{\"text\": \"\\ud83e\\ud83e\\udd80\"}", "\u{fffd}🦀", &[]),
        ("{\"text\": \"\\uzz\"}", "\u{fffd}zz", &[]),
        ("{\"text\": \"\\alpha\"}", "\\alpha", &[]),
        ("{\"text\": \"a\nb\"}", "a\nb", &[]),
        ("{\"text\": \"a\", \"used\": [4", "a", &[]),
        ("{\"text\": \"a\", \"text\": \"b\", \"used\": [7]}", "a", &[7]),
        ("{\"text\": null, \"used\": [7]}", "", &[7]),
        ("{\"text\": \"a\"} {\"text\": \"b\"}", "a", &[]),
        ("{\"text\": \"a [used #4]\", \"used\": []}", "a [used #4]", &[]),
    ];
    for (json, text, used) in cases {
        for size in [1, 2, 3, 100] {
            let expected = (text.to_owned(), used.to_vec());
            assert_eq!(read(json, size, StopReason::Done), expected, "{json}");
        }
    }
    assert_eq!(read("{\"te", 1, StopReason::MaxTokens), (String::new(), vec![]));
}

#[test]
fn ten_megabytes_of_json_keep_little_in_memory() {
    let ids = "4,8,".repeat(2_500_000);
    let (text, used) =
        read(&format!("{{\"used\":[{ids}7],\"text\":\"Hi\"}}"), 4096, StopReason::Done);
    assert_eq!((text.as_str(), &*used), ("Hi", &[4, 7][..]));
    let deep = "[".repeat(10_000_000);
    let (text, used) = read(&format!("{{\"text\":\"Hi\",\"x\":{deep}"), 4096, StopReason::Done);
    assert_eq!((text.as_str(), &*used), ("Hi", &[][..]));
    // An object that is not of the form is a text, and is shown as it comes.
    let mut reader = AnswerReader::new(&[4]);
    let begun = reader.push(&format!("{{\"x\":\"{}", "y".repeat(70_000)));
    assert!(begun.len() > 64 * 1024);
}

#[test]
fn the_schema_is_for_models_that_are_known_to_take_it() {
    const OPENAI: &str = "https://api.openai.com/v1";
    const ANTHROPIC: &str = "https://api.anthropic.com";
    let (openai, anthropic) = (ProviderKind::OpenAi, ProviderKind::Anthropic);
    let cases = [
        (openai, "gpt-5-mini", OPENAI, true),
        (openai, "gpt-4.1", OPENAI, true),
        (openai, "gpt-4o-2024-08-06", OPENAI, true),
        (openai, "gpt-4o-2024-05-13", OPENAI, false),
        (openai, "o1-mini", OPENAI, false),
        (openai, "o3", OPENAI, true),
        (openai, "gpt-4-turbo", OPENAI, false),
        (openai, "gpt-3.5-turbo", OPENAI, false),
        (openai, "gpt-5-mini", "https://eu.api.openai.com/v1", true),
        (openai, "gpt-4o", "https://mine.openai.azure.com/openai/v1", true),
        (openai, "our-deployment", "https://mine.openai.azure.com/openai/v1", false),
        (openai, "gpt-35-turbo", "https://mine.openai.azure.com/openai/v1", false),
        (openai, "gpt-4o", "https://openai.azure.com.example.test/v1", false),
        (openai, "gpt-5-mini", "http://127.0.0.1:8080/v1", false),
        (openai, "gpt-5-mini", "https://openrouter.ai/api/v1", false),
        (anthropic, "claude-sonnet-4-5", ANTHROPIC, true),
        (anthropic, "claude-opus-4-6", ANTHROPIC, true),
        (anthropic, "claude-haiku-4-5-20251001", ANTHROPIC, true),
        (anthropic, "claude-opus-4-20250514", ANTHROPIC, false),
        (anthropic, "claude-3-7-sonnet-20250219", ANTHROPIC, false),
        (anthropic, "claude-sonnet-4-5", "https://api.z.ai/api/anthropic", false),
        (anthropic, "glm-5", ANTHROPIC, false),
    ];
    for (kind, model, url, expected) in cases {
        assert_eq!(takes_schema(kind, model, url), expected, "{model} at {url}");
    }
}

proptest! {
    #[test]
    fn any_text_arrives_as_it_was_written(text in "\\PC*|[\"\\\\\n🦀{}\\[\\],:u0-9a-f]*", size in 1_usize..9, ascii: bool, swapped: bool) {
        let mut json = json!(text).to_string();
        if ascii {
            let escape = |sign: char| match sign.is_ascii() {
                true => sign.to_string(),
                false => sign.encode_utf16(&mut [0; 2]).iter().map(|it| format!("\\u{it:04X}")).collect(),
            };
            json = json.chars().map(escape).collect();
        }
        let json = match swapped {
            true => format!("{{\"used\":[7],\"text\":{json}}}"),
            false => format!("{{\"text\":{json},\"used\":[7]}}"),
        };
        prop_assert_eq!(read(&json, size, StopReason::Done), (text, vec![7]));
    }

    #[test]
    fn anything_can_be_read(json in "\\PC*|[\"\\\\{}\\[\\],:textusd0-9 ]*", size in 1_usize..9) {
        let whole = read(&json, 1_000, StopReason::Done);
        prop_assert_eq!(&read(&json, size, StopReason::Done), &whole);
        prop_assert!(whole.1.iter().all(|id| [4, 7].contains(id)));
    }
}
