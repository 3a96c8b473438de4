//! What of files is set in a config: how many may come, who sees them, and who hears.

use super::*;

#[test]
fn reads_what_files_may_come_and_who_hears_and_sees() {
    let config = load(
        "[media]\nfile_max_mb = 3\ninbox_max_mb = 7\nperson_max_mb = 6\nkeep_days = 30\n\
         [transcription]\nmodel = 'whisper-1'\napi_key = 'sk-ears'\n\
         [providers.blind]\ntype = 'openai'\nmodel = 'm'\nbase_url = 'http://127.0.0.1:1'\n\
         [providers.a]\ntype = 'anthropic'\nmodel = 'm'\nbase_url = 'http://127.0.0.1:2'\n\
         [providers.b]\ntype = 'openai'\nmodel = 'm'\napi_key = 'sk-b'\n\
         [providers.c]\ntype = 'openai'\nmodel = 'm'\napi_key = 'sk-c'\nimages = false\n",
        &secrets(),
    )
    .unwrap();
    assert_eq!((config.media.file_max, config.media.inbox_max), (3_000_000, 7_000_000));
    let days = config.media.kept.as_secs() / (24 * 3600);
    assert_eq!((config.media.person_max, days), (6_000_000, 30));
    let ears = config.transcription.as_ref().unwrap();
    assert_eq!(ears.base_url, "https://api.openai.com/v1");
    assert!(config.secrets().any(|secret| secret.reveal() == "sk-ears"));
    let sees = |name: &str| config.providers[name].images;
    assert_eq!(["blind", "a", "b", "c"].map(sees), [false, true, true, false]);
    let faults = load(
        "[media]\nfile_max_mb = 30\ninbox_max_mb = 10\nperson_max_mb = 20\n\
         [transcription]\nlanguage = 'German'\nbase_url = 'https://api.openai.com/v1'\n",
        &secrets(),
    );
    insta::assert_snapshot!(faults.unwrap_err(), @r#"
config.toml:1:2: `inbox_max_mb` in [media] must not be less than `file_max_mb`
config.toml:1:2: `person_max_mb` in [media] must not be less than `file_max_mb`
config.toml:5:2: missing key `model` in [transcription]: the model's name, such as whisper-1
config.toml:5:2: missing key `api_key` in [transcription]: https://api.openai.com/v1 requires one
config.toml:6:12: `language` in [transcription] must be a language's code of two or three letters, such as "de"
"#);
}
