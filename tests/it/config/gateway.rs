//! `[gateway]`, `[api_tokens.NAME]` and `[webhooks.NAME]`: what loads, and what is refused in which words.

use peacrab::gateway::config::{WebhookAction, WebhookProof};

use super::{load, secrets};

const WHOLE: &str = r#"
[gateway]
allow = ["ben"]

[api_tokens.laptop]
token = "geheim-geheim-laptop"

[api_tokens.phone]
token = "geheim-geheim-phone"
person = "ben"

[webhooks.deploy]
secret = "geheim-geheim-deploy"
prompt = "{sender.login} pushed {{to}} {repository.name}"
events = ["push"]
to = "terminal:local"

[webhooks.door]
token = "geheim-geheim-door"
message = "{body}"
person = "ben"
body_kb = 2
per_minute = 3
"#;

#[test]
fn reads_tokens_and_webhooks() {
    let config = load(WHOLE, &secrets()).unwrap();
    let gateway = config.gateway.as_ref().unwrap();
    assert_eq!(gateway.tokens["laptop"].person.as_str(), "local");
    assert_eq!(gateway.tokens["phone"].person.as_str(), "ben");
    let deploy = &gateway.webhooks["deploy"];
    assert!(matches!(deploy.proof, WebhookProof::Signature(_)));
    assert_eq!((deploy.bytes_max, deploy.per_minute), (256_000, 10));
    assert_eq!(deploy.to.as_ref().unwrap().to_string(), "terminal:local");
    let WebhookAction::Prompt(prompt) = &deploy.action else { panic!() };
    assert_eq!(
        prompt.render(|place| format!("<{place:?}>")),
        "<Value([\"sender\", \"login\"])> \
        pushed {to} <Value([\"repository\", \"name\"])>"
    );
    let door = &gateway.webhooks["door"];
    assert_eq!((door.bytes_max, door.per_minute, &door.to), (2_000, 3, &None));
    for secret in ["laptop", "phone", "deploy", "door"] {
        let secret = format!("geheim-geheim-{secret}");
        assert!(config.secrets().any(|known| known.reveal() == secret), "{secret}");
    }
    let described = config.describe();
    assert!(described.contains("  token phone: speaks as ben\n"), "{described}");
    assert!(described.contains("  webhook deploy: a signature, for local\n"), "{described}");
    assert!(!format!("{config:?}{described}").contains("geheim"));
}

#[test]
fn tells_what_is_wrong() {
    for (wrong, words) in [
        (
            "[api_tokens.a]\ntoken = 'short'",
            "`token` in [api_tokens.a] is shorter than 16 characters",
        ),
        ("[api_tokens.a]\nperson = 'ben'", "missing key `token` in [api_tokens.a]"),
        (
            "[api_tokens.a]\ntoken = '0123456789abcdef'\nperson = 'bem'",
            "names a person of [gateway] that does not exist; did you mean `ben`?",
        ),
        (
            "[api_tokens.a]\ntoken = '0123456789abcdef'\n[api_tokens.b]\ntoken = '0123456789abcdef'",
            "[api_tokens.b] has the token of [api_tokens.a]: make another",
        ),
        ("[webhooks.a]\nmessage = 'x'", "[webhooks.a] needs exactly one of token, secret"),
        (
            "[webhooks.a]\ntoken = '0123456789abcdef'\nmessage = 'x'\njob = 1",
            "[webhooks.a] needs exactly one of prompt, message, job",
        ),
        (
            "[webhooks.a]\ntoken = '0123456789abcdef'\nmessage = ' '",
            "`message` in [webhooks.a] is empty",
        ),
        (
            "[webhooks.a]\ntoken = '0123456789abcdef'\nmessage = 'a { b'",
            "has a single `{`; write `{{` for a brace",
        ),
        (
            "[webhooks.a]\ntoken = '0123456789abcdef'\nmessage = '{a b}'",
            "has an unknown placeholder; there are {body}, {header:NAME} and {key.key}",
        ),
        (
            "[webhooks.a]\ntoken = '0123456789abcdef'\nmessage = 'x'\nto = 'nowhere:1'",
            "`to` in [webhooks.a] names a channel that does not exist",
        ),
        (
            "[webhooks.a]\ntoken = '0123456789abcdef'\nmessage = 'x'\nto = 'nowhere'",
            "`to` in [webhooks.a] must be CHANNEL:CHAT",
        ),
    ] {
        let config = format!("[gateway]\nallow = ['ben']\n{wrong}\n");
        let faults = load(config, &secrets()).unwrap_err();
        assert!(faults.contains(words), "{wrong}: {faults}");
    }
    for section in ["api_tokens", "webhooks"] {
        let faults = load(format!("[{section}.a]\ntoken = '0123456789abcdef'\n"), &secrets());
        let words = format!("[{section}.a] has no effect without [gateway]: add that section");
        assert!(faults.as_ref().unwrap_err().contains(&words), "{faults:?}");
    }
}
