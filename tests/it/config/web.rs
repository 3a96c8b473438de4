//! `[web]` and `[search.NAME]`: what loads, and what is refused in which words.

use peacrab::people::Role;
use peacrab::tools::web::Config;
use peacrab::tools::web::search::{Engine, EngineKind};

use super::{load, secrets};

const KEYED: &str = r#"
[web]
role = "admin"
allow = ["127.0.0.1:8080", "NAS.local"]
engines = ["own", "brave"]

[search.brave]
type = "brave"
api_key = "BSA-geheim-1"

[search.tavily]
type = "tavily"
api_key = "tvly-geheim-2"
base_url = "http://127.0.0.1:9000/"

[search.own]
type = "searxng"
base_url = "https://search.example/searx/"
"#;

#[test]
fn reads_who_is_asked_and_what_may_be_reached() {
    let config = load(KEYED, &secrets()).unwrap();
    let names: Vec<_> = config.web.engines.iter().map(|engine| engine.name.as_str()).collect();
    assert_eq!(names, ["own", "brave"]);
    assert_eq!(config.web.engines[0].base_url, "https://search.example/searx");
    assert_eq!(config.web.engines[1].base_url, "https://api.search.brave.com");
    assert_eq!((config.web.role, config.web.enabled), (Role::Admin, true));
    let listed: Vec<_> = config.web.allow.iter().map(ToString::to_string).collect();
    assert_eq!(listed, ["127.0.0.1:8080", "nas.local"]);
    let described = config.describe();
    let expected = "web\n  role admin, public addresses and 127.0.0.1:8080 nas.local; search: own \
                    (searxng, https://search.example/searx), then brave (brave, https://api.search.brave.com)\n";
    assert!(described.contains(expected), "{described}");
    assert!(!described.contains("geheim"), "{described}");
}

#[test]
fn keys_of_engines_are_secrets() {
    let config = load(KEYED, &secrets()).unwrap();
    let has = |secret: &str| config.secrets().any(|known| known.reveal() == secret);
    assert!(has("BSA-geheim-1"));
    assert!(!format!("{config:?}").contains("geheim"));
    let all = KEYED.replace("engines = [\"own\", \"brave\"]\n", "");
    let config = load(all, &secrets()).unwrap();
    let names: Vec<_> = config.web.engines.iter().map(|engine| engine.name.as_str()).collect();
    assert_eq!(names, ["brave", "tavily", "own"], "the order of the file");
    assert!(config.secrets().any(|known| known.reveal() == "tvly-geheim-2"));
}

#[test]
fn without_engines_it_is_the_one_that_needs_no_key() {
    assert_eq!(load("", &secrets()).unwrap().web, Config::default());
    let config = load("[web]\nenabled = false\n", &secrets()).unwrap();
    assert_eq!(config.web, Config { enabled: false, ..Config::default() });
    assert!(config.describe().contains("web\n  off\n"));
    let duck = Engine::default();
    assert_eq!((duck.api, duck.api_key), (EngineKind::DuckDuckGo, None));
    let named = load("[search.duck]\ntype = \"duckduckgo\"\n", &secrets()).unwrap();
    assert_eq!(named.web.engines[0].base_url, duck.base_url);
}

#[test]
fn tells_what_is_wrong() {
    let wrong = r#"
[web]
enabled = "yes"
role = "usr"
allow = ["*", "http://nas", "nas:0", 7]
engines = ["brav", "duck", "duck"]
proxy = "x"

[search.brave]
type = "brave"

[search.tavily]
type = "tavily"
api_key = { env = "NOT_THERE" }
base_url = "http://tavily.example"

[search.own]
type = "searxng"

[search.duck]
type = "duckduckgo"
api_key = "geheim"

[search.other]
type = "google"
"#;
    insta::assert_snapshot!(load(wrong, &secrets()).unwrap_err(), @r#"
    config.toml:3:11: `enabled` in [web] must be true or false, not a string
    config.toml:4:8: `role` in [web] must be one of guest, user, admin, owner; did you mean `user`?
    config.toml:5:10: an entry of `allow` in [web] must name one host; there is no `*` here
    config.toml:5:15: an entry of `allow` in [web] must be a host or HOST:PORT, such as "192.168.1.10" or "nas.local:8080"
    config.toml:5:29: an entry of `allow` in [web] must be a host or HOST:PORT, such as "192.168.1.10" or "nas.local:8080"
    config.toml:5:38: an entry of `allow` in [web] must be a string, not a whole number
    config.toml:6:12: an entry of `engines` in [web] names a search engine that does not exist; did you mean `brave`?
    config.toml:6:28: an entry of `engines` in [web] names `duck` twice
    config.toml:7:1: unknown key `proxy` in [web]; known keys: enabled, role, allow, engines
    config.toml:9:9: missing key `api_key` in [search.brave]: a secret, which the vendor gives you
    config.toml:14:11: `api_key` in [search.tavily] needs the environment variable NOT_THERE, which is missing or empty: set it
    config.toml:15:12: `base_url` in [search.tavily] must begin with https://; http:// is for this machine only (127.0.0.1)
    config.toml:17:9: missing key `base_url` in [search.own]: the address of your SearXNG
    config.toml:22:1: `api_key` in [search.duck] has no effect for a search engine of type duckduckgo: remove it
    config.toml:25:8: `type` in [search.other] must be one of brave, tavily, searxng, duckduckgo
    "#);
    let none = load("[web]\nengines = [\"brave\"]\n", &secrets()).unwrap_err();
    assert!(none.contains("names a search engine that does not exist; none is defined"), "{none}");
}
