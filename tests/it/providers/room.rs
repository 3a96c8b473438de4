//! How much a model takes at once, where the config does not say.

use peacrab::provider::default_context;

const VENDORS_CONTEXT: u32 = 128_000;
const OTHERS_CONTEXT: u32 = 32_768;

#[test]
fn knows_models_and_hosts() {
    for (model, url, context) in [
        ("claude-sonnet-4-5", "https://api.anthropic.com", 200_000),
        ("anthropic/claude-sonnet-4.5", "https://openrouter.ai/api/v1", 200_000),
        ("gpt-oss:20b", "http://127.0.0.1:11434/v1", OTHERS_CONTEXT),
        ("deepseek-chat", "https://api.deepseek.com", VENDORS_CONTEXT),
        ("qwen3:8b", "http://127.0.0.1:11434/v1", OTHERS_CONTEXT),
        ("qwen3:8b", "https://notgroq.com/v1", OTHERS_CONTEXT),
    ] {
        assert_eq!(default_context(model, url), context, "{model} at {url}");
    }
}
