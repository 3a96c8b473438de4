//! Configs as operators write them: what loads, what is refused and in which words, and that no
//! secret shows anywhere.

mod edit;
mod exec;
mod files;
mod gateway;
mod heartbeat;
mod mcp;
mod personas;
mod reference;
mod web;

use std::fs;
use std::path::{Path, PathBuf};

use peacrab::channels::slack::Threads;
use peacrab::config::{self, AgentConfig, Config, ConfigErrors, Environment, KEYS};
use peacrab::conversation::asks::OnUntrusted;
use peacrab::people::folder_roles::FolderRoles;
use peacrab::people::{Access, Groups, Paired, People, Role};
use peacrab::sandbox::Sandbox;
use peacrab::secret::Secret;
use peacrab::store::{Store, StoreOptions};
use peacrab::tasks::heartbeat::Config as Heartbeat;
use peacrab::types::message::Sender;
use peacrab::{channels, memory, provider};
use proptest::prelude::*;
use tempfile::TempDir;

const TOKEN: &str = "123456789:AAHxyzAAHxyzAAHxyzAAHxyzAAHxyzAAHxy";
const KEY: &str = "sk-ant-0123456789abcdef0123456789";

fn secrets() -> Environment {
    Environment::from_iter([("ANTHROPIC_API_KEY", KEY), ("TELEGRAM_BOT_TOKEN", TOKEN)])
}

/// A home folder with this config.
fn home(config: impl AsRef<[u8]>) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.toml");
    fs::write(&file, config).unwrap();
    private(&file);
    home
}

fn private(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

fn load(config: impl AsRef<[u8]>, env: &Environment) -> Result<Config, String> {
    let home = home(config);
    load_in(&home, env)
}

/// Errors as they are shown, without the temporary folder.
fn load_in(home: &TempDir, env: &Environment) -> Result<Config, String> {
    config::load(home.path(), None, env).map_err(|errors| shown(&errors, home.path()))
}

fn shown(errors: &ConfigErrors, folder: &Path) -> String {
    errors.to_string().replace(&format!("{}/", folder.display()), "")
}

fn telegram<'a>(config: &'a Config, name: &str) -> &'a channels::telegram::Config {
    match &config.channels[&name.into()].kind {
        channels::ChannelKind::Telegram(telegram) => telegram,
        other => panic!("{name} is {other:?}"),
    }
}

const COMPLETE: &str = r#"
[agent]
providers = ["main", "spare"]      # the first answers; the others are fallbacks, in this order
steps_max = 11
subagent_steps_max = 21
turns_max = 17
wait_for_model = "30m"
clean_after = "90m"
waiting_max = 50
queue = "collect"
timezone = "Europe/Berlin"
finish = "explicit"
summary_provider = "spare"

[asking]
approve_tools = ["write_file", "mcp_*"]
approve_roles = ["user"]
approval_minutes = 2
question_minutes = 30
untrusted = "deny"

[providers.main]
type = "anthropic"
model = "claude-sonnet-4-5"
api_key = { env = "ANTHROPIC_API_KEY" }
base_url = "https://api.anthropic.com"

[providers.spare]
type = "openai"
model = "qwen3:8b"
base_url = "http://127.0.0.1:11434/v1/"
max_tokens = 1000
context = 8192
first_byte = "20m"
stall = "90s"
tools = "text"
images = true

[media]
file_max_mb = 5

[transcription]
base_url = "http://127.0.0.1:8000/v1"
model = "whisper-1"
language = "de"

[channels.home]
type = "telegram"
token = { env = "TELEGRAM_BOT_TOKEN" }
api_url = "https://api.telegram.org"
owners = ["12345678"]
allow = []
groups = "mention"
"#;

#[test]
#[expect(clippy::too_many_lines, reason = "what was read is shown whole")]
fn reads_a_complete_config() {
    let mut config = load(COMPLETE, &secrets()).unwrap();
    // Its own place is another each time.
    assert_eq!(config.files.len(), 1);
    config.files.clear();
    insta::assert_debug_snapshot!(config, @r#"
Config {
    agent: AgentConfig {
        providers: [
            "main",
            "spare",
        ],
        summary_provider: Some(
            "spare",
        ),
        job_provider: None,
        subagent_provider: None,
        steps_max: 11,
        subagent_steps_max: 21,
        turns_max: 17,
        wait_for_model: Some(
            1800s,
        ),
        clean_after: Some(
            5400s,
        ),
        waiting_max: 50,
        queue: Collect,
        timezone: Some(
            Europe/Berlin,
        ),
        finish: Explicit,
        asking: ApprovalSettings {
            approvals: Approvals {
                tools: [
                    "write_file",
                    "mcp_*",
                ],
                roles: [
                    User,
                ],
            },
            approval_time: 120s,
            group_approval_time: 300s,
            question_time: 1800s,
            untrusted: Deny,
        },
        heartbeat: Config {
            every: Some(
                1800s,
            ),
            quiet: Some(
                QuietHours {
                    from: 22:00:00,
                    until: 07:00:00,
                },
            ),
            provider: None,
            to: None,
            steps_max: 10,
            tokens_max: 200000,
        },
        budgets: Budgets {
            total: Budget {
                day: Allowance {
                    tokens: None,
                    cost: None,
                },
                month: Allowance {
                    tokens: None,
                    cost: None,
                },
            },
            jobs: Budget {
                day: Allowance {
                    tokens: None,
                    cost: None,
                },
                month: Allowance {
                    tokens: None,
                    cost: None,
                },
            },
            job: Budget {
                day: Allowance {
                    tokens: None,
                    cost: None,
                },
                month: Allowance {
                    tokens: None,
                    cost: None,
                },
            },
            heartbeat: Budget {
                day: Allowance {
                    tokens: None,
                    cost: None,
                },
                month: Allowance {
                    tokens: None,
                    cost: None,
                },
            },
            owner: Budget {
                day: Allowance {
                    tokens: None,
                    cost: None,
                },
                month: Allowance {
                    tokens: None,
                    cost: None,
                },
            },
            admin: Budget {
                day: Allowance {
                    tokens: None,
                    cost: None,
                },
                month: Allowance {
                    tokens: None,
                    cost: None,
                },
            },
            user: Budget {
                day: Allowance {
                    tokens: None,
                    cost: None,
                },
                month: Allowance {
                    tokens: None,
                    cost: None,
                },
            },
            guest: Budget {
                day: Allowance {
                    tokens: None,
                    cost: None,
                },
                month: Allowance {
                    tokens: Some(
                        5000,
                    ),
                    cost: None,
                },
            },
            personas: {},
        },
        limits: RateLimits {
            person_per_minute: 30,
            chat_per_minute: 120,
            files_per_day: 200,
            turns_per_person: 0,
        },
        personas: Personas {
            rules: [],
            usual: Persona {
                name: None,
                tools: AllowedTools {
                    names: None,
                    without: [],
                    hidden: [],
                },
                providers: [],
                tokens_max: None,
                finish: None,
                memory: Person,
            },
            guest: Persona {
                name: None,
                tools: AllowedTools {
                    names: Some(
                        [
                            "ask_question",
                            "web_search",
                            "web_fetch",
                        ],
                    ),
                    without: [],
                    hidden: [],
                },
                providers: [],
                tokens_max: None,
                finish: None,
                memory: Person,
            },
        },
        memory: Config {
            recall: true,
            facts_max: 50,
            extract: true,
            provider: None,
            tokens_per_day: 500000,
        },
        retention: Retention {
            kept: TimeDelta {
                secs: 31536000,
                nanos: 0,
            },
            database_bytes_max: 2000000000,
        },
    },
    providers: {
        "main": Config {
            kind: Anthropic,
            model: "claude-sonnet-4-5",
            api_key: Some(
                Secret(…),
            ),
            base_url: "https://api.anthropic.com",
            tokens_max: Some(
                16384,
            ),
            context: 200000,
            context_is_set: false,
            tools: Native,
            structured: Auto,
            images: true,
            timeouts: ProviderTimeouts {
                first_byte: None,
                stall: None,
            },
            price: None,
        },
        "spare": Config {
            kind: OpenAi,
            model: "qwen3:8b",
            api_key: None,
            base_url: "http://127.0.0.1:11434/v1",
            tokens_max: Some(
                1000,
            ),
            context: 8192,
            context_is_set: true,
            tools: Text,
            structured: Auto,
            images: true,
            timeouts: ProviderTimeouts {
                first_byte: Some(
                    1200s,
                ),
                stall: Some(
                    90s,
                ),
            },
            price: None,
        },
    },
    channels: {
        ChannelName(
            "home",
        ): Config {
            access: Access {
                owners: [
                    "12345678",
                ],
                admins: [],
                allow: [],
                groups: Mention,
                chats: {},
                bots: [],
                pairing: true,
            },
            kind: Telegram(
                TelegramConfig {
                    token: Secret(…),
                    api_url: "https://api.telegram.org",
                },
            ),
        },
        ChannelName(
            "terminal",
        ): Config {
            access: Access {
                owners: [
                    "local",
                ],
                admins: [],
                allow: [],
                groups: Mention,
                chats: {},
                bots: [],
                pairing: false,
            },
            kind: Terminal,
        },
    },
    media: IntakeLimits {
        file_max: 5000000,
        inbox_max: 500000000,
        person_max: 500000000,
        kept: 31536000s,
        time_max: 60s,
        transcript_time_max: 180s,
        pause: 1s,
        patience: 900s,
    },
    transcription: Some(
        Config {
            base_url: "http://127.0.0.1:8000/v1",
            model: "whisper-1",
            api_key: None,
            language: Some(
                "de",
            ),
        },
    ),
    hooks: {},
    mcp: {},
    web: Config {
        enabled: true,
        role: User,
        allow: [],
        engines: [
            Engine {
                name: "duckduckgo",
                api: DuckDuckGo,
                api_key: None,
                base_url: "https://html.duckduckgo.com",
            },
        ],
    },
    exec: Config {
        enabled: true,
        role: Admin,
        network: Off,
        sandbox: Sandbox {
            program: "/proc/self/exe",
            level: Required,
            network: false,
            read: [],
            write: [],
            env: {
                "LANG": Plain(
                    "C.UTF-8",
                ),
                "PATH": Plain(
                    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                ),
                "TERM": Plain(
                    "dumb",
                ),
            },
            bounds: CommandLimits {
                memory: 536870912,
                file: 268435456,
                processes: 128,
                cpu_seconds: 0,
                disk: 1073741824,
                files: 250000,
                tmp: 134217728,
            },
            least: Protections {
                landlock: 0,
                own_root: false,
                processes: false,
                network: Open,
                signals: false,
                calls: false,
                group: false,
                account: Root,
            },
            places: [],
        },
        time_max: 60s,
        background_max: 3600s,
        trusted: [],
        folder_roles: FolderRoles {
            read: [],
            write: [],
        },
    },
    backup: None,
    gateway: None,
    update: None,
    notes: [],
    files: [],
}
"#);
    assert_eq!(telegram(&config, "home").token.reveal(), TOKEN);
}

#[test]
fn describes_a_complete_config() {
    let config = load(COMPLETE, &secrets()).unwrap();
    insta::assert_snapshot!(config.describe(), @"
channels
  home: telegram (https://api.telegram.org), owners 1, admins 0, allowed 0, groups mention, pairing on
  terminal: terminal
providers
  main: claude-sonnet-4-5 (anthropic, https://api.anthropic.com), context window 200000 tokens, sees pictures, answers
  spare: qwen3:8b (openai, http://127.0.0.1:11434/v1, no key), context window 8192 tokens, tools in text, sees pictures, fallback
limits
  11 steps a turn, 17 turns at a time, 50 messages waiting in a chat; new messages during a turn: collect
heartbeat
  every 30 min, quiet 22:00–07:00, results to owner
files
  5 MB a file, 500 MB in all; voice messages: whisper-1 (http://127.0.0.1:8000/v1, no key), in de
web
  role user, public addresses; search: duckduckgo (duckduckgo, https://html.duckduckgo.com)
shell
  for role admin, sandbox required, network off, 60 s a command, 512 MB of memory
");
    assert_eq!(config.warnings(&[]), Vec::<String>::new());
}

#[test]
fn reads_two_channels_of_one_type_with_all_their_keys() {
    let config = load(
        r#"
        [channels.family]
        type = "telegram"
        token = "111111:one"
        owners = [42, "43"]
        admins = [45]
        allow = ["*", 44]
        groups = "always"

        [channels.work]
        type = "telegram"
        token = "222222:two"
        api_url = "http://localhost:8081/"
        pairing = false
        groups = "off"
        "#,
        &secrets(),
    )
    .unwrap();
    let family = &config.channels[&"family".into()].access;
    assert_eq!(
        (&family.owners[..], &family.allow[..]),
        (&["42", "43"].map(String::from)[..], &["*", "44"].map(String::from)[..])
    );
    assert_eq!(family.admins, ["45"]);
    assert_eq!((family.groups, family.pairing), (Groups::Always, true));
    let work = &config.channels[&"work".into()].access;
    assert_eq!((work.groups, work.pairing), (Groups::Off, false));
    assert_eq!(telegram(&config, "work").api_url, "http://localhost:8081");
    assert_eq!(telegram(&config, "work").token.reveal(), "222222:two");
    insta::assert_snapshot!(config.warnings(&[]).join("\n"), @"
[channels.family] gives everyone access, as guests
[channels.work] has no owners, no allow and no pairing: only people who were paired before have access
");
}

#[tokio::test]
async fn gives_admins_their_role() {
    let access = Access {
        owners: vec!["1".to_owned()],
        admins: vec!["1".to_owned(), "2".to_owned()],
        allow: vec!["2".to_owned(), "3".to_owned(), "*".to_owned()],
        ..Access::default()
    };
    let people = People::new([("home".into(), access)].into());
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &StoreOptions::default()).unwrap();
    for (sender, role) in
        [("1", Role::Owner), ("2", Role::Admin), ("3", Role::User), ("4", Role::Guest)]
    {
        let people = people.clone();
        let role_of = move |store: &_| people.role_of(store, &"home".into(), &sender.into());
        let given = store.read(role_of).await.unwrap();
        assert_eq!(given, Some(role), "{sender}");
    }
}

#[test]
fn warns_where_nobody_can_become_the_owner() {
    let channel = "type = 'telegram'\ntoken = '1:one'\nallow = ['*']\n";
    let config = load(format!("[channels.open]\n{channel}"), &secrets()).unwrap();
    insta::assert_snapshot!(config.warnings(&[]).join("\n"), @"
[channels.open] gives everyone access, as guests
[channels.open] has no owners, and pairing makes none where everyone has access: name them in `owners`
");
}

#[test]
fn warns_no_more_of_nobody_once_somebody_is_paired() {
    let channel =
        |name: &str| format!("[channels.{name}]\ntype = 'telegram'\ntoken = '1:{name}'\n");
    let config = channel("home") + "pairing = false\n" + &channel("work");
    let config = load(config, &secrets()).unwrap();
    let paired = |channel: &str, role| Paired {
        channel: channel.into(),
        sender: Sender::person("7", "Ada"),
        role,
    };
    let home = "[channels.home] has no owners, no allow and no pairing: \
                only people who were paired before have access";
    let work = "[channels.work] has no owners and no allow: nobody has access until paired";
    let none: [&str; 0] = [];
    assert_eq!(config.warnings(&[]), [home, work]);
    assert_eq!(config.warnings(&[paired("work", Role::User)]), [home]);
    assert_eq!(config.warnings(&[paired("home", Role::User)]), [work]);
    assert_eq!(config.warnings(&[paired("home", Role::Owner)]), none);
}

#[test]
fn reads_dotted_keys_inline_tables_and_lists_over_lines() {
    let config = load(
        "agent = { steps_max = 0x14 }\n\
         providers.b = { type = \"rehearsal\" }\n\
         providers.a.type = \"openai\"\n\
         providers.a.model = \"\"\"m\"\"\"\n\
         providers.a.base_url = 'http://[::1]:1'\n\
         channels.x = { type = \"telegram\", token.env = \"TELEGRAM_BOT_TOKEN\", owners = [\n  1_0,\n  # two\n  2,\n] }\n",
        &secrets(),
    )
    .unwrap();
    assert_eq!(config.agent.steps_max, 20);
    assert_eq!(config.agent.providers, ["b", "a"], "the order of the file");
    assert_eq!(config.providers["a"].base_url, "http://[::1]:1");
    assert_eq!(config.channels[&"x".into()].access.owners, ["10", "2"]);
}

#[test]
fn tells_all_faults_at_once_with_their_places() {
    let errors = load(
        r#"steps_max = 3
[agent]
providers = ["main", "spair", "main"]
steps_mx = 10
turns_max = "many"
waiting_max = 0

[providers.main]
type = "antropic"
modell = "m"

[providers.spare]
type = "openai"
apikey = "geheim-geheim"
base_url = "http://models.example/v1"

[providers.dry]
type = "rehearsal"
model = "m"

[channels.home]
type = "telegram"
token = { enw = "T" }
owners = ["@alice", "*", 1.5]
admins = ["*"]
groups = "mentions"
"#,
        &secrets(),
    )
    .unwrap_err();
    insta::assert_snapshot!(errors, @r#"
config.toml:1:1: unknown key `steps_max`; it belongs in [agent]
config.toml:3:22: an entry of `providers` in [agent] names a provider that does not exist; did you mean `spare`?
config.toml:3:31: an entry of `providers` in [agent] names `main` twice
config.toml:4:1: unknown key `steps_mx` in [agent]; did you mean `steps_max`?
config.toml:5:13: `turns_max` in [agent] must be a whole number from 1 to 256, not a string
config.toml:6:15: `waiting_max` in [agent] must be from 1 to 10000
config.toml:9:8: `type` in [providers.main] must be one of anthropic, openai, rehearsal; did you mean `anthropic`?
config.toml:10:1: unknown key `modell` in [providers.main]; did you mean `model`?
config.toml:12:12: missing key `model` in [providers.spare]: the model's name, as the vendor writes it
config.toml:14:1: unknown key `apikey` in [providers.spare]; did you mean `api_key`?
config.toml:15:12: `base_url` in [providers.spare] must begin with https://: http:// is for this machine and local networks (private addresses, names such as ollama or box.lan); allow_http = true allows it all the same
config.toml:19:1: `model` in [providers.dry] has no effect for a provider of type rehearsal: remove it
config.toml:23:9: `token` in [channels.home] must name one of env, file, credential; did you mean `env`?
config.toml:24:11: an entry of `owners` in [channels.home] must be a user id, which is a number, as "12345678" (/whoami shows it); a name can change its owner
config.toml:24:21: an entry of `owners` in [channels.home] cannot be "*": name them one by one
config.toml:24:26: an entry of `owners` in [channels.home] must be an id: a string or a whole number, not a number with a point
config.toml:25:11: an entry of `admins` in [channels.home] cannot be "*": name them one by one
config.toml:26:10: `groups` in [channels.home] must be one of off, mention, always; did you mean `mention`?
"#);
}

#[test]
fn tells_what_is_missing_in_the_wrong_place_or_yet_to_come() {
    let errors = load(
        r#"
color = "blue"
[asking]
approve_tools = "exec"
approve_roles = ["boss"]
approval_minutes = 0
[providers."a:b"]
type = "rehearsal"
[providers.main]
type = "anthropic"
base_url = "https://user:hunter22@api.example"
[providers]
plain = 3
[channels.a]
type = "telegram"
token = "7:same"
pairing = "yes"
[channels.b]
type = "telegram"
token = "7:same"
[channels.c]
type = "web"
token = "x"
[channels.d]
token = "x"
[channels.e]
type = "webb"
[channels.terminal]
type = "terminal"
owners = [1]
[gateway]
listen = "127.0.0.1"
"#,
        &secrets(),
    )
    .unwrap_err();
    insta::assert_snapshot!(errors, @"
config.toml:2:1: unknown key `color`; known keys: agent, asking, heartbeat, limits, memory, retention, budgets, personas, providers, channels, media, transcription, mcp, hooks, web, search, exec, backup, update, gateway, api_tokens, webhooks
config.toml:4:17: `approve_tools` in [asking] must be a list: [..], not a string
config.toml:5:18: an entry of `approve_roles` in [asking] must be one of guest, user, admin, owner
config.toml:6:20: `approval_minutes` in [asking] must be from 1 to 10080
config.toml:7:12: a name in [providers] must be 1 to 32 of a-z, A-Z, 0-9, - and _
config.toml:9:12: missing key `model` in [providers.main]: the model's name, as the vendor writes it
config.toml:11:12: `base_url` in [providers.main] must not contain a user name or password
config.toml:13:1: `providers.plain` must be a section, written [providers.plain]
config.toml:17:11: `pairing` in [channels.a] must be true or false, not a string
config.toml:18:11: [channels.b] has the token of [channels.a]; Telegram allows only one listener for each token
config.toml:21:11: the page in the browser is not a channel: write [gateway]
config.toml:24:11: missing key `type` in [channels.d]: one of telegram, discord, slack, terminal
config.toml:27:8: `type` in [channels.e] must be one of telegram, discord, slack, terminal
config.toml:30:1: `owners` in [channels.terminal] has no effect for a channel of type terminal: remove it
config.toml:32:10: `listen` in [gateway] must be an IP address with a port, such as 127.0.0.1:7450
");
}

#[test]
fn tells_where_the_toml_itself_is_broken() {
    let errors = load("[agent]\nsteps_max = \n\n[agent\nx = 1\n", &secrets()).unwrap_err();
    insta::assert_snapshot!(errors, @"
config.toml:2:13: string values must be quoted, expected literal string
config.toml:4:7: unclosed table, expected `]`
");
    let errors = load("[agent]\nsteps_max = 1\nsteps_max = 2\n", &secrets()).unwrap_err();
    insta::assert_snapshot!(errors, @"config.toml:3:1: duplicate key");
}

#[test]
fn tells_each_wrong_type_once_and_reads_the_rest() {
    let errors = load(
        r#"
agent = 3
providers = "x"
[asking]
approve_tools = [1, "a", 2024-01-01, ""]
approval_minutes = 99999999999999999999
question_minutes = 1.5
[channels.a]
type = 7
token = { env = 3 }
owners = [99999999999999999999]
[exec]
env = ["A"]
[mcp.a]
command = "a"
env = { A = 1 }
"#,
        &secrets(),
    );
    insta::assert_snapshot!(errors.unwrap_err(), @r#"
config.toml:2:1: `agent` must be a section, written [agent]
config.toml:3:1: `providers` must be a section, written [providers]
config.toml:5:18: an entry of `approve_tools` in [asking] must be a string, not a whole number
config.toml:5:26: an entry of `approve_tools` in [asking] must be a string, not a date
config.toml:5:38: an entry of `approve_tools` in [asking] is empty
config.toml:6:20: `approval_minutes` in [asking] is too large
config.toml:7:20: `question_minutes` in [asking] must be a whole number from 1 to 10080, not a number with a point
config.toml:9:8: `type` in [channels.a] must be a string, not a whole number
config.toml:10:9: `token` in [channels.a] must be a string or one of { env = ".." }, { file = ".." }, { credential = ".." }
config.toml:11:11: an entry of `owners` in [channels.a] is too large
config.toml:13:7: `env` in [exec] must be a table: { .. }, not a list
config.toml:16:13: `A` of `env` in [mcp.a] must be a string or one of { env = ".." }, { file = ".." }, { credential = ".." }
"#);
}

#[test]
fn knows_two_ways_of_calling_tools() {
    let with = |tools: &str| {
        let url = "http://127.0.0.1:1/v1";
        let provider = format!("type = \"openai\"\nmodel = \"m\"\nbase_url = \"{url}\"\n{tools}");
        load(format!("[providers.main]\n{provider}"), &secrets())
    };
    for (tools, expected) in [
        ("", provider::Tools::Native),
        ("tools = \"native\"", provider::Tools::Native),
        ("tools = \"text\"", provider::Tools::Text),
    ] {
        assert_eq!(with(tools).unwrap().providers["main"].tools, expected);
    }
    let fault = with("tools = \"texts\"").unwrap_err().to_string();
    let expected = "`tools` in [providers.main] must be one of native, text; did you mean `text`?";
    assert!(fault.contains(expected), "{fault}");
}

#[test]
fn the_former_name_of_the_rule_for_untrusted_content_is_read() {
    let with = |keys: &str| load(format!("[asking]\n{keys}"), &secrets());
    for name in ["untrusted", "foreign"] {
        let config = with(&format!("{name} = \"deny\"")).unwrap();
        assert_eq!(config.agent.asking.untrusted, OnUntrusted::Deny, "{name}");
    }
    let fault = with("untrusted = \"deny\"\nforeign = \"ask\"").unwrap_err();
    let expected = "has `untrusted` and its former name; keep one of them";
    assert!(fault.contains(expected), "{fault}");
}

#[test]
fn tells_no_more_faults_than_a_person_reads() {
    let lines: String = (0..20_000).map(|n| format!("k{n} = 1\n")).collect();
    assert_eq!(load(lines, &secrets()).unwrap_err().lines().count(), 100);
}

#[test]
fn reads_utf8_with_a_mark_and_says_where_it_ends() {
    let config = load("\u{feff}agent.steps_max = 7", &secrets()).unwrap();
    assert_eq!(config.agent.steps_max, 7);
    let at = load("\u{feff}agent.steps_mx = 7", &secrets()).unwrap_err();
    assert!(at.starts_with("config.toml:1:7: unknown key"), "{at}");
    insta::assert_snapshot!(load(b"[agent]\n# \xc3\xa4\xe4\n", &secrets()).unwrap_err(), @"config.toml:2:4: is not UTF-8 here; save it as UTF-8");
    insta::assert_snapshot!(load(b"\xff\xfe[\0a\0", &secrets()).unwrap_err(), @"config.toml: is UTF-16; save it as UTF-8");
    insta::assert_snapshot!(load(vec![b'#'; 2 << 20], &secrets()).unwrap_err(), @"config.toml: is longer than a config can be (1 MiB)");
}

#[test]
fn an_explicit_config_must_exist() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("other.toml");
    let errors = config::load(home.path(), Some(&file), &secrets()).unwrap_err();
    insta::assert_snapshot!(shown(&errors, home.path()), @"other.toml: there is no such file");
    fs::write(&file, "agent.turns_max = 3").unwrap();
    let config = config::load(home.path(), Some(&file), &secrets()).unwrap();
    assert_eq!(config.agent.turns_max, 3);
}

/// Puts a pipe to which nobody writes in the place of a file.
fn make_pipe(file: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, file, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
}

#[test]
fn a_config_that_is_no_regular_file_is_refused_at_once() {
    let home = tempfile::tempdir().unwrap();
    make_pipe(&home.path().join("config.toml"));
    let errors = load_in(&home, &secrets()).unwrap_err();
    assert_eq!(errors, "config.toml: cannot be read: it is no regular file");
    assert_eq!(config::last_good::current_text(home.path(), None), None);
}

#[test]
fn a_secret_is_not_read_from_a_pipe() {
    let home = home(
        "[agent]\nmcp_file = 'mcp.json'\n\
         [channels.a]\ntype = 'telegram'\ntoken = { file = 'pipe' }\n",
    );
    for name in ["pipe", "mcp.json"] {
        make_pipe(&home.path().join(name));
    }
    let errors = load_in(&home, &Environment::default()).unwrap_err();
    let secret = "`token` in [channels.a] needs the file pipe: it is no regular file";
    assert!(errors.contains(secret), "{errors}");
    assert!(errors.contains("mcp.json: cannot be read: it is no regular file"), "{errors}");
}

#[test]
fn starts_what_the_environment_names() {
    let home = tempfile::tempdir().unwrap();
    let env = Environment::from_iter([
        ("OPENROUTER_API_KEY", "or-key"),
        ("OPENAI_API_KEY", "oa-key"),
        ("ANTHROPIC_API_KEY", KEY),
        ("TELEGRAM_BOT_TOKEN", TOKEN),
        ("DISCORD_BOT_TOKEN", "d-token"),
        ("SLACK_APP_TOKEN", ""),
    ]);
    let config = load_in(&home, &env).unwrap();
    assert_eq!(config.agent.providers, ["anthropic", "openai", "openrouter"]);
    assert_eq!(config.providers["openrouter"].base_url, "https://openrouter.ai/api/v1");
    assert_eq!(config.providers["openai"].api_key, Some(Secret::new("oa-key")));
    assert_eq!(telegram(&config, "telegram").token.reveal(), TOKEN);
    assert!(config.notes.is_empty());
    insta::assert_snapshot!(config.describe(), @"
channels
  discord: discord (https://discord.com), owners 0, admins 0, allowed 0, groups mention, pairing on
  telegram: telegram (https://api.telegram.org), owners 0, admins 0, allowed 0, groups mention, pairing on
  terminal: terminal
providers
  anthropic: claude-sonnet-4-5 (anthropic, https://api.anthropic.com), context window 200000 tokens, sees pictures, answers
  openai: gpt-5-mini (openai, https://api.openai.com/v1), context window 288384 tokens, sees pictures, fallback
  openrouter: openrouter/auto (openai, https://openrouter.ai/api/v1), context window 128000 tokens, fallback
limits
  10 steps a turn, 16 turns at a time, 100 messages waiting in a chat; new messages during a turn: steer
heartbeat
  every 30 min, quiet 22:00–07:00, results to owner
files
  20 MB a file, 500 MB in all; voice messages: not transcribed
web
  role user, public addresses; search: duckduckgo (duckduckgo, https://html.duckduckgo.com)
shell
  for role admin, sandbox required, network off, 60 s a command, 512 MB of memory
");
    insta::assert_snapshot!(config.warnings(&[]).join("\n"), @"
[channels.discord] has no owners and no allow: nobody has access until paired
[channels.telegram] has no owners and no allow: nobody has access until paired
");
}

#[test]
fn the_environment_may_name_other_addresses_of_the_vendors_that_it_starts() {
    let home = tempfile::tempdir().unwrap();
    let env = |address: &str| {
        Environment::from_iter([
            ("ANTHROPIC_API_KEY", KEY),
            ("ANTHROPIC_BASE_URL", "https://proxy.example.com/claude/"),
            ("OPENAI_API_KEY", "oa-key"),
            ("OPENAI_BASE_URL", address),
            ("OPENROUTER_API_KEY", "or-key"),
            ("OPENROUTER_BASE_URL", ""),
        ])
    };
    let config = load_in(&home, &env("http://10.0.0.7:4000/v1/chat/completions")).unwrap();
    let address = |name: &str| config.providers[name].base_url.as_str();
    assert_eq!(address("anthropic"), "https://proxy.example.com/claude");
    assert_eq!(address("openai"), "http://10.0.0.7:4000/v1");
    assert_eq!(address("openrouter"), "https://openrouter.ai/api/v1");
    assert_eq!(config.providers["openai"].api_key, Some(Secret::new("oa-key")));
    insta::assert_snapshot!(config.notes.join("\n"), @"
ANTHROPIC_BASE_URL: the key and all that is said go to https://proxy.example.com/claude, not to https://api.anthropic.com
OPENAI_BASE_URL: the key and all that is said go to http://10.0.0.7:4000/v1, not to https://api.openai.com/v1
OPENAI_BASE_URL: the key is sent unencrypted to http://10.0.0.7:4000/v1: whoever listens on that network can read it
");
    // People see it with the other warnings.
    assert!(config.warnings(&[]).iter().any(|it| it.starts_with("ANTHROPIC_BASE_URL: ")));
    let own = load_in(&home, &env("https://api.openai.com/v1")).unwrap();
    assert!(!own.notes.iter().any(|note| note.starts_with("OPENAI_")), "{:?}", own.notes);
    // One that cannot be used starts nothing, and is not shown.
    let refused = |address: &str| load_in(&home, &env(address)).unwrap_err();
    insta::assert_snapshot!(refused("http://example.com/v1"), @"environment: OPENAI_BASE_URL must begin with https://: http:// is for this machine and local networks (private addresses, names such as ollama or box.lan)");
    insta::assert_snapshot!(refused("https://ada:word@example.com"), @"environment: OPENAI_BASE_URL must not contain a user name or password");
    insta::assert_snapshot!(refused("somewhere"), @"environment: OPENAI_BASE_URL must be an address that begins with https:// or http://");
    // The key of a section goes to the section's own address.
    let section =
        "providers.main = { type = 'openai', model = 'm', api_key = { env = 'OPENAI_API_KEY' } }";
    let config = load(section, &env("https://proxy.example.com/v1")).unwrap();
    assert_eq!(config.providers["main"].base_url, "https://api.openai.com/v1");
}

#[test]
fn reads_a_slack_channel_with_all_its_keys() {
    let config = load(
        r#"
        [channels.crew]
        type = "slack"
        token = "xoxb-1"
        app_token = { env = "APP" }
        owners = ["U0ADA"]
        allow = ["W0BOB", "*"]
        bots = ["B0BEEP"]
        chats = { C0CREW = "always", T0CREW = "off" }
        threads = "channel"
        "#,
        &Environment::from_iter([("APP", "xapp-1")]),
    )
    .unwrap();
    let crew = &config.channels[&"crew".into()];
    let channels::ChannelKind::Slack(slack) = &crew.kind else { panic!("{crew:?}") };
    assert_eq!((slack.token.reveal(), slack.app_token.reveal()), ("xoxb-1", "xapp-1"));
    assert_eq!(
        (slack.threads, slack.api_url.as_str()),
        (Threads::Channel, "https://slack.com/api")
    );
    assert_eq!(
        (&crew.access.owners[..], &crew.access.bots[..]),
        (&["U0ADA".into()][..], &["B0BEEP".into()][..])
    );
    let mut secrets: Vec<_> = config.secrets().map(Secret::reveal).collect();
    secrets.sort();
    assert_eq!(secrets, ["xapp-1", "xoxb-1"]);
    insta::assert_snapshot!(config.describe().lines().nth(1).unwrap(), @"  crew: slack (https://slack.com/api), owners 1, admins 0, allowed 1, everyone as guests, groups mention, chats 2, bots 1, pairing on, answers in the channel");
}

#[test]
fn tells_what_is_wrong_with_a_slack_channel() {
    let errors = load(
        r#"
[channels.a]
type = "slack"
token = "xapp-swapped"
app_token = "xoxb-swapped"
owners = ["ada", 7]
threads = "threads"
[channels.b]
type = "slack"
token = "xoxb-1"
[channels.c]
type = "slack"
token = "xoxb-1"
app_token = "xapp-1"
[channels.d]
type = "slack"
token = "same"
app_token = "same"
[channels.e]
type = "telegram"
token = "1:x"
threads = "thread"
"#,
        &Environment::default(),
    )
    .unwrap_err();
    insta::assert_snapshot!(errors, @r#"
config.toml:4:9: `token` in [channels.a] must be a token that begins with xoxb-, not with xapp-
config.toml:5:13: `app_token` in [channels.a] must be a token that begins with xapp-, not with xoxb-
config.toml:6:11: an entry of `owners` in [channels.a] must be a member id, which begins with U or W, as "U012ABCDEF" (in Slack: a profile, ⋮, Copy member ID); a name can change its owner
config.toml:6:18: an entry of `owners` in [channels.a] must be a member id, which begins with U or W, as "U012ABCDEF" (in Slack: a profile, ⋮, Copy member ID); a name can change its owner
config.toml:7:11: `threads` in [channels.a] must be one of thread, channel; did you mean `thread`?
config.toml:8:11: missing key `app_token` in [channels.b]: the app's token for Socket Mode, xapp-…
config.toml:11:11: [channels.c] has the token of [channels.b]; Slack sends each event to only one of them
config.toml:15:11: [channels.d] has the same token twice: `token` begins with xoxb-, `app_token` with xapp-
config.toml:22:1: `threads` in [channels.e] has no effect for a channel of type telegram: remove it
"#);
}

#[test]
fn tells_what_is_no_id_of_the_platform() {
    let errors = load(
        r#"
[channels.telegram]
type = "telegram"
token = "1:x"
chats = { "@crew" = "always", "1001234567890" = "off", "-1001234567890" = "always", 5 = "off" }
bots = ["@beep"]
[channels.discord]
type = "discord"
token = "x"
owners = ["ada"]
[channels.discord.chats]
crew = "always"
81384788765712384 = "of"
[channels.slack]
type = "slack"
token = "xoxb-1"
app_token = "xapp-1"
owners = ["B0BEEP"]
bots = ["beep"]
chats = { '#crew' = "off", C0CREW = "off", T0CREW = "mention", U0ADA = "always" }
[channels.list]
type = "telegram"
token = "2:x"
chats = ["-1"]
"#,
        &Environment::default(),
    )
    .unwrap_err();
    insta::assert_snapshot!(errors, @r#"
config.toml:5:21: `@crew` of `chats` in [channels.telegram] must be a group's id, which is a negative number, as "-1001234567890", or a forum topic's, as "5"
config.toml:5:49: `1001234567890` of `chats` in [channels.telegram] must be a group's id, which is a negative number, as "-1001234567890", or a forum topic's, as "5"
config.toml:6:9: an entry of `bots` in [channels.telegram] must be a user id, which is a number, as "12345678" (/whoami shows it); a name can change its owner
config.toml:10:11: an entry of `owners` in [channels.discord] must be a user id, which is a number, as "80351110224678912" (Developer Mode, Copy User ID); a name can change its owner
config.toml:12:8: `crew` of `chats` in [channels.discord] must be the id of a thread, a channel or a server, which is a number, as "81384788765712384" (Developer Mode, Copy Channel ID or Copy Server ID)
config.toml:13:21: `81384788765712384` of `chats` in [channels.discord] must be one of off, mention, always; did you mean `off`?
config.toml:18:11: an entry of `owners` in [channels.slack] must be a member id, which begins with U or W, as "U012ABCDEF" (in Slack: a profile, ⋮, Copy member ID); a name can change its owner
config.toml:19:9: an entry of `bots` in [channels.slack] must be a bot's id, which begins with B, U or W, as "B012ABCDEF"; a name can change its owner
config.toml:20:21: `#crew` of `chats` in [channels.slack] must be a channel's id, which begins with C, D or G, as "C012ABCDEF" (in Slack: the channel's details, at the end), or a workspace's, which begins with T
config.toml:20:72: `U0ADA` of `chats` in [channels.slack] must be a channel's id, which begins with C, D or G, as "C012ABCDEF" (in Slack: the channel's details, at the end), or a workspace's, which begins with T
config.toml:24:9: `chats` in [channels.list] must be a table: { .. }, not a list
"#);
}

#[test]
fn slack_in_the_environment_needs_both_tokens() {
    let home = tempfile::tempdir().unwrap();
    let tokens = [("SLACK_BOT_TOKEN", "xoxb-1"), ("SLACK_APP_TOKEN", "xapp-1")];
    let config = load_in(&home, &Environment::from_iter(tokens)).unwrap();
    let slack = &config.channels[&"slack".into()];
    assert!(
        matches!(&slack.kind, channels::ChannelKind::Slack(slack) if slack.threads == Threads::Thread)
    );
    let alone = |token| load_in(&home, &Environment::from_iter([token])).unwrap_err();
    insta::assert_snapshot!(alone(tokens[0]), @"environment: SLACK_BOT_TOKEN is set and SLACK_APP_TOKEN is not; Slack needs both (xoxb-… and xapp-…)");
    insta::assert_snapshot!(alone(tokens[1]), @"environment: SLACK_APP_TOKEN is set and SLACK_BOT_TOKEN is not; Slack needs both (xoxb-… and xapp-…)");
}

#[test]
fn starts_with_nothing_at_all() {
    let home = tempfile::tempdir().unwrap();
    let config = load_in(&home, &Environment::default()).unwrap();
    assert_eq!(config.agent.providers, ["rehearsal"]);
    assert_eq!(config.providers["rehearsal"].kind, provider::ProviderKind::Rehearsal);
    let channels: Vec<_> = config.channels.keys().map(|name| name.as_str()).collect();
    assert_eq!(channels, [config::TERMINAL]);
    insta::assert_snapshot!(config.warnings(&[]).join("\n"), @"there is no model: set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY, or write a [providers.NAME] section");
}

#[test]
fn a_file_without_providers_or_channels_takes_those_of_the_environment() {
    let config = load("agent.providers = ['anthropic']", &secrets()).unwrap();
    assert_eq!(config.agent.providers, ["anthropic"]);
    assert!(config.channels.contains_key(&"telegram".into()));
    let config = load("providers.dry.type = 'rehearsal'", &secrets()).unwrap();
    assert_eq!(config.providers.keys().collect::<Vec<_>>(), ["dry"]);
    let config = load("channels.here.type = 'terminal'", &secrets()).unwrap();
    assert!(!config.channels.contains_key(&"telegram".into()));
}

#[test]
fn refuses_a_broken_secret_of_the_environment_without_showing_it() {
    let home = tempfile::tempdir().unwrap();
    let env = Environment::from_iter([("OPENAI_API_KEY", "two halves")]);
    insta::assert_snapshot!(load_in(&home, &env).unwrap_err(), @"environment: OPENAI_API_KEY contains spaces or control characters");
}

#[test]
fn reads_secrets_from_a_variable_a_file_and_a_credential() {
    let home = home(
        "[channels]\n\
         a = { type = 'telegram', token = { env = 'A' } }\n\
         b = { type = 'telegram', token = { file = 'keys/b' } }\n\
         c = { type = 'telegram', token = { credential = 'c' } }\n",
    );
    let folder = home.path().join("keys");
    fs::create_dir(&folder).unwrap();
    for (name, text) in [("b", "\u{feff}from-file\r\n"), ("c", "from-credential\n")] {
        fs::write(folder.join(name), text).unwrap();
        private(&folder.join(name));
    }
    let env = Environment::from_iter([
        ("A", "from-variable".into()),
        ("CREDENTIALS_DIRECTORY", folder.clone().into_os_string()),
    ]);
    let config = load_in(&home, &env).unwrap();
    let mut revealed: Vec<_> = config.secrets().map(Secret::reveal).collect();
    revealed.sort();
    assert_eq!(revealed, ["from-credential", "from-file", "from-variable"]);
    assert_eq!(config.notes, Vec::<String>::new());
}

#[test]
fn warns_of_a_secret_that_everyone_can_read() {
    use std::os::unix::fs::PermissionsExt;
    let home = home("channels.a = { type = 'telegram', token = { file = 'b' } }\n");
    let file = home.path().join("b");
    fs::write(&file, "secret-token").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let notes = load_in(&home, &Environment::default()).unwrap().notes;
    let [note] = &notes[..] else { panic!("{notes:?}") };
    assert!(note.ends_with(&format!("chmod 600 {}", file.display())), "{note}");

    let file = home.path().join("config.toml");
    let channel = |name| format!("[channels.{name}]\ntype = 'telegram'\ntoken = '{name}-token'\n");
    fs::write(&file, channel("a") + &channel("b")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let notes = load_in(&home, &Environment::default()).unwrap().notes;
    let [note] = &notes[..] else { panic!("{notes:?}") };
    assert!(note.ends_with(&format!("chmod 600 {}", file.display())), "{note}");
}

#[test]
fn says_how_to_give_a_secret_that_is_not_there() {
    let home = home(
        "[channels]\n\
         a = { type = 'telegram', token = { env = 'A' } }\n\
         b = { type = 'telegram', token = { file = 'missing' } }\n\
         c = { type = 'telegram', token = { credential = 'c' } }\n\
         d = { type = 'telegram', token = { credential = '../c' } }\n\
         e = { type = 'telegram', token = { env = 'A', file = 'b' } }\n\
         f = { type = 'telegram', token = { file = 'empty' } }\n\
         g = { type = 'telegram', token = '' }\n\
         h = { type = 'telegram' }\n",
    );
    fs::write(home.path().join("empty"), "\n").unwrap();
    insta::assert_snapshot!(load_in(&home, &Environment::default()).unwrap_err(), @"
config.toml:2:34: `token` in [channels.a] needs the environment variable A, which is missing or empty: set it
config.toml:3:34: `token` in [channels.b] needs the file missing: No such file or directory (os error 2)
config.toml:4:34: `token` in [channels.c] needs the systemd credential `c`, but there are none: set LoadCredential=c:/path in the unit
config.toml:5:34: `token` in [channels.d] must name a credential, not a path
config.toml:6:34: `token` in [channels.e] must name exactly one of env, file, credential
config.toml:7:34: `token` in [channels.f] cannot be used: the file empty is empty
config.toml:8:34: `token` in [channels.g] is empty
config.toml:9:1: missing key `token` in [channels.h]: the bot's token, from @BotFather
");
}

#[test]
fn never_shows_a_secret() {
    let config = load(COMPLETE, &secrets()).unwrap();
    for text in [format!("{config:?}"), config.describe(), format!("{:?}", secrets())] {
        assert!(!text.contains(TOKEN) && !text.contains(KEY), "{text}");
    }
    let broken = [
        "token = 'geheim geheim'",
        "token = ['geheim']",
        "token = { env = 3, geheim = 'geheim' }",
        r#"token = "geheim\u0007""#,
        "token = geheim",
        "token = 'geheim",
        "api_url = 'https://geheim:geheim@api.example'",
        "groups = 'geheim'",
        "owners = ['geheim']",
        "owners = 'geheim'",
        "pairing = 'geheim'",
    ];
    for line in broken {
        let errors = load(format!("[channels.a]\ntype = 'telegram'\n{line}\n"), &secrets());
        let errors = errors.unwrap_err();
        assert!(errors.contains("config.toml:3:") && !errors.contains("geheim"), "{errors}");
    }
    let errors = load(format!("\"{TOKEN}\" = 1"), &secrets()).unwrap_err();
    assert!(!errors.contains("AAHxyz"), "{errors}");
}

#[test]
fn the_home_is_what_was_asked_for_first() {
    let env = Environment::from_iter([("PEACRAB_HOME", "/srv/crab")]);
    assert_eq!(config::home(Some("/here".into()), &env), PathBuf::from("/here"));
    assert_eq!(config::home(None, &env), PathBuf::from("/srv/crab"));
    // Parts of the program compare it with other paths.
    let here = std::env::current_dir().unwrap();
    assert_eq!(config::home(Some("crab".into()), &env), here.join("crab"));
    let relative = Environment::from_iter([("PEACRAB_HOME", "./crab")]);
    assert_eq!(config::home(None, &relative), here.join("crab"));
    let home = config::home(None, &Environment::default());
    assert!(home.ends_with("peacrab") || home.ends_with(".peacrab"), "{home:?}");
}

#[test]
fn hooks_name_their_events_and_their_command() {
    let text = "[hooks.log]\non = ['turn_end', 'error']\ncommand = ['/bin/cat', '-n']\ntimeout_s = 3\n\
        private_texts = true\n";
    let env = Environment::from_iter([("PATH", "/bin"), ("SECRET", "s")]);
    let config = load(text, &env).unwrap();
    let hook = &config.hooks["log"];
    assert_eq!(hook.on, ["turn_end", "error"]);
    assert_eq!(hook.command, ["/bin/cat", "-n"]);
    assert_eq!(hook.time_max.as_secs(), 3);
    assert!(hook.private_texts);
    assert_eq!(hook.environment, [("PATH", "/bin".into())]);
    for (wrong, words) in [
        ("command = ['x']", "missing key `on`"),
        ("on = ['turn_end']", "missing key `command`"),
        ("on = []\ncommand = ['x']", "name at least one event"),
        ("on = ['turn_ends']\ncommand = ['x']", "did you mean `turn_end`?"),
        ("on = ['error']\ncommand = []", "the first is the program"),
        ("on = ['error']\ncommand = ['x']\ntimeout_s = 0", "must be from 1 to 600"),
    ] {
        let faults = load(format!("[hooks.log]\n{wrong}\n"), &env).unwrap_err().to_string();
        assert!(faults.contains(words), "{wrong}: {faults}");
    }
}

#[test]
fn the_example_loads_and_shows_every_key() {
    let example = include_str!("../../config.example.toml");
    let mut variables = vec![("OPENAI_API_KEY", "sk-ears"), ("DISCORD_BOT_TOKEN", "d-token")];
    variables.extend([("ANTHROPIC_API_KEY", KEY), ("TELEGRAM_BOT_TOKEN", TOKEN)]);
    variables.extend([("WEATHER_KEY", "geheim"), ("FAR_AUTHORIZATION", "Bearer geheim")]);
    variables.push(("BRAVE_API_KEY", "geheim"));
    variables.push(("GATEWAY_TOKEN", "geheim-geheim-geheim"));
    variables.push(("LAPTOP_TOKEN", "other-geheim-geheim"));
    variables
        .extend([("DEPLOY_SECRET", "third-geheim-geheim"), ("DOOR_TOKEN", "fourth-geheim-geheim")]);
    let env = Environment::from_iter(variables);
    let config = load(example, &env).unwrap();
    let home = home(uncommented(example));
    fs::write(home.path().join("mcp.json"), r#"{ "mcpServers": {} }"#).unwrap();
    let whole = load_in(&home, &env).unwrap();
    // By default it is nobody in particular, which has no name that could stand there.
    assert_eq!(whole.agent.summary_provider.as_deref(), Some("spare"));
    // And the zone is the machine's, whichever that is.
    assert_eq!(whole.agent.timezone, Some(chrono_tz::Tz::Europe__Berlin));
    assert_eq!(whole.agent.heartbeat.provider.as_deref(), Some("spare"));
    let heartbeat = Heartbeat { provider: None, ..whole.agent.heartbeat.clone() };
    assert_eq!(whole.agent.memory.provider.as_deref(), Some("spare"));
    let memory = memory::Config { provider: None, ..whole.agent.memory.clone() };
    let agent = whole.agent.clone();
    assert_eq!(whole.agent.job_provider.as_deref(), Some("spare"));
    assert_eq!(whole.agent.subagent_provider.as_deref(), Some("spare"));
    let agent = AgentConfig {
        summary_provider: None,
        job_provider: None,
        subagent_provider: None,
        timezone: None,
        heartbeat,
        memory,
        // By default there is none, which would show nobody how it is written.
        personas: config.agent.personas.clone(),
        ..agent
    };
    assert_eq!(agent, config.agent, "what is commented out shows the defaults");
    assert_eq!(whole.media, config.media);
    let listed = ["192.168.1.10", "nas.local:8080"].map(|listed| listed.parse().unwrap());
    assert_eq!(whole.web.allow, listed);
    assert_eq!((whole.web.enabled, whole.web.role), (config.web.enabled, config.web.role));
    // By default there is nothing besides, which would show nobody how it is written.
    assert_eq!(whole.exec.sandbox.read, [PathBuf::from("/opt/tools")]);
    assert_eq!(whole.exec.sandbox.write, [PathBuf::from("/srv/photos")]);
    assert_eq!(whole.exec.trusted, [PathBuf::from("/opt/tools")]);
    let mut exec = whole.exec.clone();
    exec.sandbox = Sandbox { read: Vec::new(), write: Vec::new(), ..exec.sandbox };
    exec.trusted.clear();
    exec.folder_roles = FolderRoles::default();
    assert!(exec.sandbox.env.remove("EDITOR").is_some());
    assert_eq!(exec, config.exec, "what is commented out shows the defaults");
    let main = whole.providers["main"].clone();
    let main = provider::Config {
        context_is_set: false,
        timeouts: Default::default(),
        price: None,
        ..main
    };
    assert_eq!(main, config.providers["main"], "what is commented out shows the defaults");
    assert_eq!(telegram(&whole, "home"), telegram(&config, "home"));
    let channels::ChannelKind::Slack(crew) = &whole.channels[&"crew".into()].kind else { panic!() };
    assert_eq!((crew.threads, crew.api_url.as_str()), (Threads::Thread, "https://slack.com/api"));

    let tree: toml::Table = uncommented(example).parse().unwrap();
    let mut in_example: Vec<String> = tree.keys().map(|key| format!(".{key}")).collect();
    for (section, value) in &tree {
        let tables: Vec<(String, &toml::Table)> = match section.as_str() {
            "agent" | "asking" | "backup" | "exec" | "gateway" | "heartbeat" | "limits"
            | "media" | "memory" | "retention" | "transcription" | "update" | "web" => {
                vec![(section.clone(), value.as_table().unwrap())]
            }
            _ => {
                let tables = value.as_table().unwrap().values();
                tables.map(|table| (format!("{section}.NAME"), table.as_table().unwrap())).collect()
            }
        };
        for (section, table) in tables {
            in_example.extend(table.keys().map(|key| format!("{section}.{key}")));
        }
    }
    in_example.sort();
    in_example.dedup();
    let mut known: Vec<String> = KEYS
        .iter()
        .flat_map(|(section, keys)| keys.iter().map(move |key| format!("{section}.{key}")))
        .collect();
    known.sort();
    assert_eq!(in_example, known);
}

/// The example with everything in it switched on.
fn uncommented(example: &str) -> String {
    let is_code = |rest: &str| {
        let word = rest.split(" = ").next().unwrap_or_default();
        rest.starts_with('[')
            || rest.contains(" = ") && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let line = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if is_code(rest) => format!("{rest}\n"),
        _ => format!("{line}\n"),
    };
    example.lines().map(line).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = load(bytes, &secrets());
    }

    #[test]
    fn any_toml_like_text_is_read_or_refused_in_order(
        lines in proptest::collection::vec(
            r#"(\[(agent|channels|providers)(\.[a-c])?\]|\[\[agent\]\]|(agent|channels)\.x|type|token|model|allow|ä) ?(= ?("telegram"|"openai"|\{ ?env ?= ?"A" ?\}|\[1, "\*", \{\}\]|-7|1e9|true|'|""))?"#,
            0..12,
        )
    ) {
        let text = lines.join("\n");
        if let Err(errors) = load(&text, &secrets()) {
            prop_assert!(!errors.is_empty());
            let places: Vec<usize> = errors
                .lines()
                .filter_map(|line| line.split(':').nth(1)?.parse().ok())
                .collect();
            prop_assert!(places.is_sorted(), "{}", errors);
            prop_assert!(places.iter().all(|line| *line <= lines.len() + 1), "{}", errors);
        }
    }
}

#[test]
fn says_that_a_text_wants_quotes() {
    let env = Environment::from_iter::<[(&str, &str); 0]>([]);
    for line in ["token = 123456:ABC", "model = claude"] {
        let errors = load(format!("[channels.home]\n{line}\n"), &env).unwrap_err();
        assert!(errors.contains("; put text in quotes"), "{errors}");
    }
    let errors = load("[agent]\nsteps_max = = 5\n", &env).unwrap_err();
    assert!(!errors.contains("quotes"), "{errors}");
}

#[test]
fn a_discord_channel_has_its_threads() {
    let channel = |more: &str| {
        format!("[channels.a]\ntype = 'discord'\ntoken = 'a.b.c'\nowners = [8]\n{more}\n")
    };
    let env = Environment::from_iter::<[(&str, &str); 0]>([]);
    let config = load(channel("threads = 'open'"), &env).unwrap();
    let channels::ChannelKind::Discord(discord) = &config.channels[&"a".into()].kind else {
        panic!()
    };
    assert_eq!(discord.token.reveal(), "a.b.c");
    assert_eq!(discord.api_url, "https://discord.com");
    assert_eq!(discord.threads, channels::config::DiscordThreads::Open);
    assert!(config.secrets().any(|secret| secret.reveal() == "a.b.c"));
    assert!(config.describe().contains("pairing on, a thread for each question"));
    let twice = channel("") + &channel("").replace("channels.a", "channels.b");
    let errors = load(twice, &env).unwrap_err();
    assert!(errors.contains("Discord allows only one listener for each token"), "{errors}");
    let telegram = channel("threads = 'open'").replace("discord", "telegram");
    let errors = load(telegram, &env).unwrap_err();
    assert!(errors.contains("`threads` in [channels.a] has no effect"), "{errors}");
}

#[test]
fn lets_in_as_many_as_the_file_holds() {
    let ids: Vec<String> = (1..=20_000).map(|id| format!("\"{id}\"")).collect();
    let allow = ids.join(", ");
    let text =
        format!("[channels.home]\ntype = 'telegram'\ntoken = '{TOKEN}'\nallow = [{allow}]\n");
    let config = load(text, &secrets()).unwrap();
    let access = &config.channels[&"home".into()].access;
    assert_eq!((access.allow.len(), &*access.allow[19_999]), (20_000, "20000"));
}

/// A config with one provider at this address.
fn with_model_at(base_url: &str, more: &str) -> Result<Config, String> {
    let section = "[providers.main]\ntype = \"openai\"\nmodel = \"qwen3:8b\"\n";
    load(format!("{section}base_url = \"{base_url}\"\n{more}"), &secrets())
}

#[test]
fn a_model_on_the_local_network_is_asked_without_encryption() {
    for host in [
        "127.0.0.1:11434",
        "192.168.1.20:11434",
        "10.0.0.7",
        "172.16.3.4",
        "169.254.7.7",
        "[::1]",
        "[fe80::1]",
        "[fd00::7]:8080",
        "ollama:11434",
        "big-machine",
        "box.local",
        "box.lan:8080",
        "host.docker.internal:11434",
        "model.home.arpa",
    ] {
        let config = with_model_at(&format!("http://{host}/v1"), "").unwrap();
        assert_eq!(config.providers["main"].base_url, format!("http://{host}/v1"));
        assert_eq!(config.warnings(&[]).iter().filter(|it| it.contains("unencrypted")).count(), 0);
        assert!(config.providers["main"].answer_tokens_max().is_some(), "{host}");
    }
    for host in [
        "models.example",
        "8.8.8.8",
        "172.32.0.1",
        "[2001:db8::1]",
        "local.example",
        "notlocal.com",
    ] {
        let refused = with_model_at(&format!("http://{host}/v1"), "").unwrap_err();
        assert!(refused.contains("http:// is for this machine and local networks"), "{refused}");
        with_model_at(&format!("http://{host}/v1"), "allow_http = true\n").unwrap();
    }
}

#[test]
fn warns_of_a_key_that_goes_unencrypted() {
    let key = "api_key = \"sk-0123456789\"\n";
    let warned = |url: &str, more: &str| {
        let config = with_model_at(url, more).unwrap();
        config.warnings(&[]).into_iter().filter(|it| it.contains("unencrypted")).collect::<Vec<_>>()
    };
    let expected = "[providers.main]: the key is sent unencrypted to http://box.lan/v1: whoever listens on that network can read it";
    assert_eq!(warned("http://box.lan/v1", key), [expected]);
    assert_eq!(warned("http://127.0.0.1:1/v1", key), Vec::<String>::new());
    assert_eq!(warned("https://box.lan/v1", key), Vec::<String>::new());
    assert_eq!(warned("http://models.example/v1", &format!("{key}allow_http = true\n")).len(), 1);
}

#[test]
fn corrects_an_address_of_a_single_call() {
    for (written, expected) in [
        ("https://api.groq.com/openai/v1/chat/completions", "https://api.groq.com/openai/v1"),
        ("http://ollama:11434/v1/chat/completions/", "http://ollama:11434/v1"),
        ("https://models.example/v1/messages", "https://models.example"),
        ("https://models.example/v1/", "https://models.example/v1"),
    ] {
        assert_eq!(with_model_at(written, "").unwrap().providers["main"].base_url, expected);
    }
}

#[test]
fn the_pause_before_untrusted_content_is_left_out_has_bounds() {
    let after = |text: &str| {
        let config = load(format!("[agent]\nclean_after = {text}\n"), &secrets());
        config.map(|config| config.agent.clean_after.map(|after| after.as_secs()))
    };
    let usual = load("", &secrets()).unwrap().agent.clean_after;
    assert_eq!(usual.map(|after| after.as_secs()), Some(7_200));
    for (text, expected) in
        [("\"1m\"", Some(60)), ("\"30d\"", Some(2_592_000)), ("0", None), ("\"off\"", None)]
    {
        assert_eq!(after(text), Ok(expected), "{text}");
    }
    for text in ["\"59s\"", "\"31d\""] {
        let refused = after(text).unwrap_err();
        assert!(refused.contains("`clean_after` in [agent] must be from 1m to 30d"), "{refused}");
    }
}

#[test]
fn lengths_of_time_have_a_unit_and_bounds() {
    let wait = |text: &str| {
        let config = load(format!("[agent]\nwait_for_model = {text}\n"), &secrets());
        config.map(|config| config.agent.wait_for_model.map(|wait| wait.as_secs()))
    };
    for (text, expected) in [
        ("\"90s\"", Some(90)),
        ("\"30m\"", Some(1_800)),
        ("\"12h\"", Some(43_200)),
        ("\"7d\"", Some(604_800)),
        ("0", None),
        ("\"0\"", None),
        ("\"off\"", None),
    ] {
        assert_eq!(wait(text), Ok(expected), "{text}");
    }
    for (text, words) in [
        ("12", "`wait_for_model` in [agent] needs a unit, such as \"30m\" or \"12h\""),
        (
            "\"12\"",
            "`wait_for_model` in [agent] must be a length of time, such as \"90s\", \"30m\", \"12h\" or \"2d\"",
        ),
        ("\"8d\"", "`wait_for_model` in [agent] must be from 1s to 7d"),
        ("\"-1h\"", "`wait_for_model` in [agent] must be a length of time"),
        (
            "true",
            "`wait_for_model` in [agent] must be a length of time, such as \"30m\" or \"12h\", or \"off\"",
        ),
    ] {
        let refused = wait(text).unwrap_err();
        assert!(refused.contains(words), "{text}: {refused}");
    }
}
