//! The second step of `init`: a bot that its platform knows.

use std::sync::Arc;

use anyhow::bail;
use zeroize::Zeroizing;

use super::super::dialog::TRIES_MAX;
use super::setup::{Setup, secret_of};
use crate::channels::{self, Channel, ChannelKind, ChannelProbe};
use crate::config::Config;
use crate::config::edit::{NewSection, SecretPlace};
use crate::secret::Secret;
use crate::types::message::ChannelName;

/// A platform, as this step explains it.
struct PlatformGuide {
    word: &'static str,
    title: &'static str,
    is_built: bool,
    /// Instructions for the platform's website.
    steps: &'static str,
    /// Lines to copy.
    sample: &'static str,
    tokens: &'static [PlatformToken],
}

/// A token that a platform gives out.
struct PlatformToken {
    key: &'static str,
    variable: &'static str,
    /// The ending of its file.
    ending: &'static str,
    /// Tells Slack's two apart.
    prefix: &'static str,
    title: &'static str,
}

#[cfg(feature = "slack")]
const SLACK_MANIFEST: &str = channels::slack::manifest::MANIFEST;
#[cfg(not(feature = "slack"))]
const SLACK_MANIFEST: &str = "";

const PLATFORMS: [PlatformGuide; 3] = [
    PlatformGuide {
        word: "telegram",
        title: "Telegram",
        is_built: cfg!(feature = "telegram"),
        steps: "1. Open https://t.me/BotFather and send /newbot.\n\
                2. Answer its two questions: a name, and a user name that ends in bot.\n\
                3. Copy the token that it gives you; it looks like 123456:ABC-DEF.",
        sample: "",
        tokens: &[PlatformToken {
            key: "token",
            variable: "TELEGRAM_BOT_TOKEN",
            ending: "token",
            prefix: "",
            title: "Token",
        }],
    },
    PlatformGuide {
        word: "discord",
        title: "Discord",
        is_built: cfg!(feature = "discord"),
        steps: "1. Open https://discord.com/developers/applications and create a New Application.\n\
                2. Under Bot, press Reset Token and copy the token.\n\
                3. On the same page, switch on Message Content Intent, and switch off Public Bot.",
        sample: "",
        tokens: &[PlatformToken {
            key: "token",
            variable: "DISCORD_BOT_TOKEN",
            ending: "token",
            prefix: "",
            title: "Token",
        }],
    },
    PlatformGuide {
        word: "slack",
        title: "Slack",
        is_built: cfg!(feature = "slack"),
        steps: "1. Open https://api.slack.com/apps?new_app=1, choose From a manifest and your workspace, and paste the lines \
                below.\n\
                2. Choose Install App, and copy the bot token; it begins with xoxb-.\n\
                3. Under Basic Information, App-Level Tokens, create a token with the scope connections:write, and copy it; it \
                begins with xapp-.",
        sample: SLACK_MANIFEST,
        tokens: &[
            PlatformToken {
                key: "token",
                variable: "SLACK_BOT_TOKEN",
                ending: "token",
                prefix: "xoxb-",
                title: "Both tokens, in one line or two",
            },
            PlatformToken {
                key: "app_token",
                variable: "SLACK_APP_TOKEN",
                ending: "app-token",
                prefix: "xapp-",
                title: "The other token",
            },
        ],
    },
];

/// Tokens in the order of [`PlatformGuide::tokens`].
type TypedTokens = Vec<Zeroizing<String>>;

/// A bot that was tested.
pub(super) struct TestedBot {
    /// The name of its section.
    pub(super) channel: ChannelName,
    pub(super) title: &'static str,
    pub(super) probe: ChannelProbe,
    /// The owner whom `--owner` has named just now.
    pub(super) new_owner: Option<NewOwner>,
}

/// An owner whom the config did not name before.
pub(super) struct NewOwner {
    /// The private chat with them. None if the platform tells it only when they write.
    pub(super) chat: Option<String>,
}

/// The section of the config that has a bot already.
struct KnownChannel<'a> {
    name: &'a ChannelName,
    config: &'a channels::Config,
}

/// Sets up a platform, unless the config file has one. Returns the bot; none if there is no platform.
pub(super) async fn set_up(
    setup: &mut Setup<'_>,
    config: &Config,
) -> anyhow::Result<Option<TestedBot>> {
    let options = setup.options;
    if options.channel.is_none()
        && options.token_file.is_none()
        && let Some(bot) = keep_first(setup, config, None).await?
    {
        return Ok(Some(bot));
    }
    let guide = match options.channel.as_deref() {
        Some(word) => parse(word)?,
        None if setup.dialog.asks() => ask(setup).await?,
        None if options.token_file.is_some() => {
            bail!("name the platform of --token-file with --channel")
        }
        None => PLATFORMS.iter().find(|guide| tokens_of_environment(setup, guide).is_some()),
    };
    let Some(guide) = guide else {
        if options.owner.is_some() {
            bail!("--owner names you on a chat platform, and none is set up: give --channel");
        }
        setup.dialog.say(&format!(
            "No platform is set up; `{} chat` talks to the bot in a terminal.\n",
            setup.on.program()
        ));
        return Ok(None);
    };
    let known = tokens_of_options(setup, guide)?.or_else(|| tokens_of_environment(setup, guide));
    let asks = setup.dialog.asks();
    match known {
        Some(tokens) if !asks || options.token_file.is_some() => {
            match try_tokens(setup, guide, &tokens).await? {
                Ok(bot) => Ok(Some(bot)),
                Err(why) if asks => {
                    setup.dialog.say(&format!("That does not work: {why}.\n"));
                    ask_tokens(setup, guide, None).await.map(Some)
                }
                Err(why) => bail!("{} does not accept this: {why}", guide.title),
            }
        }
        None if !asks => match keep_first(setup, config, Some(guide)).await? {
            Some(bot) => Ok(Some(bot)),
            None => bail!("{} needs a token: give --token-file", guide.title),
        },
        known => ask_tokens(setup, guide, known).await.map(Some),
    }
}

/// Keeps and tests the first bot of the config file, of this platform if one is given.
async fn keep_first(
    setup: &mut Setup<'_>,
    config: &Config,
    guide: Option<&PlatformGuide>,
) -> anyhow::Result<Option<TestedBot>> {
    let in_file = setup.edit.names("channels");
    let first = config.channels.iter().find(|(name, channel)| {
        let word = word_of(&channel.kind);
        in_file.iter().any(|known| known == name.as_str())
            && word.is_some()
            && guide.is_none_or(|guide| word == Some(guide.word))
    });
    match first {
        Some((name, config)) => keep(setup, KnownChannel { name, config }).await.map(Some),
        None => Ok(None),
    }
}

/// Tests a bot of the config file. `--owner` joins its owners.
async fn keep(setup: &mut Setup<'_>, known: KnownChannel<'_>) -> anyhow::Result<TestedBot> {
    let KnownChannel { name, config } = known;
    let Some(connected) = channels::connect(&config.kind)? else { bail!("it is not a platform") };
    let probe = match probe(&connected).await {
        Ok(probe) => probe,
        Err(why) => bail!(
            "the config has the channel {name} already, but it does not work: {why}. Correct [channels.{name}] and run this \
             again, or add another one with --channel"
        ),
    };
    let is = &probe.name;
    setup.dialog.say(&format!("The config has the channel {name} already: the bot is {is}.\n"));
    let options = setup.options;
    let new_owner = match &options.owner {
        Some(id) if !config.access.owners.contains(id) => {
            let mut edit = setup.edit.clone();
            edit.add_owner(name.as_str(), id)?;
            setup.save(edit)?;
            setup.dialog.say(&format!("{id} is an owner in [channels.{name}] now.\n"));
            Some(NewOwner::of(&config.kind, id))
        }
        _ => None,
    };
    let word = word_of(&config.kind);
    let guide = PLATFORMS.iter().find(|guide| word == Some(guide.word));
    let title = guide.map_or("the platform", |guide| guide.title);
    Ok(TestedBot { channel: name.clone(), title, probe, new_owner })
}

impl NewOwner {
    fn of(kind: &ChannelKind, id: &str) -> Self {
        let chat = match kind {
            // A private chat has the id of its person.
            ChannelKind::Telegram(_) => Some(id.to_owned()),
            ChannelKind::Discord(_) | ChannelKind::Slack(_) | ChannelKind::Terminal => None,
        };
        Self { chat }
    }
}

/// The word of a platform. None for the terminal.
fn word_of(kind: &ChannelKind) -> Option<&'static str> {
    match kind {
        ChannelKind::Telegram(_) => Some("telegram"),
        ChannelKind::Discord(_) => Some("discord"),
        ChannelKind::Slack(_) => Some("slack"),
        ChannelKind::Terminal => None,
    }
}

/// Returns true if a section has these tokens, in the order of [`PlatformGuide::tokens`].
fn has_tokens(kind: &ChannelKind, tokens: &TypedTokens) -> bool {
    let own = match kind {
        ChannelKind::Telegram(telegram) => vec![&telegram.token],
        ChannelKind::Discord(discord) => vec![&discord.token],
        ChannelKind::Slack(slack) => vec![&slack.token, &slack.app_token],
        ChannelKind::Terminal => return false,
    };
    let given: Vec<_> = tokens.iter().map(|token| Secret::new(token.as_str())).collect();
    own.into_iter().eq(&given)
}

fn parse(word: &str) -> anyhow::Result<Option<&'static PlatformGuide>> {
    if word.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let guide = PLATFORMS.iter().find(|guide| guide.word.eq_ignore_ascii_case(word));
    match guide {
        Some(guide) if guide.is_built => Ok(Some(guide)),
        Some(guide) => bail!("this program was built without {}", guide.title),
        None => bail!("{word} is not a platform; choose telegram, discord, slack or none"),
    }
}

async fn ask(setup: &mut Setup<'_>) -> anyhow::Result<Option<&'static PlatformGuide>> {
    let number = setup.question();
    setup.dialog.say(&format!("{number} Where do you want to talk to it?"));
    let built: Vec<_> = PLATFORMS.iter().filter(|guide| guide.is_built).collect();
    for (at, guide) in built.iter().enumerate() {
        setup.dialog.say(&format!("  {} {}", at + 1, guide.title));
    }
    setup.dialog.say(&format!("  {} only in a terminal", built.len() + 1));
    for _ in 0..TRIES_MAX {
        let answer = setup.dialog.ask("Number", Some("1")).await?;
        match answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1)) {
            Some(at) if at < built.len() => return Ok(Some(built[at])),
            Some(at) if at == built.len() => return Ok(None),
            _ => match parse(&answer) {
                Ok(guide) => return Ok(guide),
                Err(error) => setup.dialog.say(&format!("{error:#}")),
            },
        }
    }
    bail!("no platform was chosen")
}

fn tokens_of_options(
    setup: &Setup<'_>,
    guide: &PlatformGuide,
) -> anyhow::Result<Option<TypedTokens>> {
    let options = setup.options;
    let files = [options.token_file.as_deref(), options.app_token_file.as_deref()];
    files.into_iter().take(guide.tokens.len()).map(secret_of).collect()
}

fn tokens_of_environment(setup: &Setup<'_>, guide: &PlatformGuide) -> Option<TypedTokens> {
    let found = guide.tokens.iter().map(|token| setup.environment().text(token.variable));
    guide.is_built.then_some(())?;
    found.map(|text| text.map(|text| Zeroizing::new(text.to_owned()))).collect()
}

/// Asks for the tokens until the platform accepts them.
async fn ask_tokens(
    setup: &mut Setup<'_>,
    guide: &'static PlatformGuide,
    known: Option<TypedTokens>,
) -> anyhow::Result<TestedBot> {
    let number = setup.question();
    setup
        .dialog
        .say(&format!("{number} {} needs a bot of your own:\n{}", guide.title, guide.steps));
    if !guide.sample.is_empty() {
        setup.dialog.show(&format!("\n{}", guide.sample));
    }
    if known.is_some() {
        let names: Vec<_> = guide.tokens.iter().map(|token| token.variable).collect();
        setup.dialog.say(&format!("Press Enter to use {}.", names.join(" and ")));
    }
    for _ in 0..TRIES_MAX {
        let tokens = match (read_tokens(setup, guide).await?, &known) {
            (Some(tokens), _) => tokens,
            (None, Some(known)) => known.clone(),
            (None, None) => {
                setup.dialog.say("A token is needed here.");
                continue;
            }
        };
        match try_tokens(setup, guide, &tokens).await? {
            Ok(bot) => return Ok(bot),
            Err(why) => setup.dialog.say(&format!("That does not work: {why}. Try again.")),
        }
    }
    bail!("{} accepted no token; its page in docs/ shows each step", guide.title)
}

/// Reads as many tokens as the platform has. None if the first line is empty.
async fn read_tokens(
    setup: &Setup<'_>,
    guide: &PlatformGuide,
) -> anyhow::Result<Option<TypedTokens>> {
    let mut found: Vec<Zeroizing<String>> = Vec::new();
    while found.len() < guide.tokens.len() {
        let line = setup.dialog.ask_secret(guide.tokens[found.len()].title).await?;
        let words: Vec<_> =
            line.split_whitespace().map(|it| Zeroizing::new(it.to_owned())).collect();
        if words.is_empty() {
            return Ok(None);
        }
        found.extend(words);
    }
    // Slack's may come in any order.
    let ordered = guide.tokens.iter().map(|token| {
        let fits = |text: &&Zeroizing<String>| text.starts_with(token.prefix);
        found.iter().find(fits).cloned().unwrap_or_else(|| found[0].clone())
    });
    Ok(Some(ordered.collect()))
}

/// Asks the platform who the bot is, and saves the section if all is well.
async fn try_tokens(
    setup: &mut Setup<'_>,
    guide: &'static PlatformGuide,
    tokens: &TypedTokens,
) -> anyhow::Result<Result<TestedBot, String>> {
    let in_file = setup.edit.names("channels");
    if let Ok(config) = setup.edit.load(setup.environment()) {
        let known = config.channels.iter().find(|(name, channel)| {
            in_file.iter().any(|known| known == name.as_str())
                && word_of(&channel.kind) == Some(guide.word)
                && has_tokens(&channel.kind, tokens)
        });
        if let Some((name, config)) = known {
            return keep(setup, KnownChannel { name, config }).await.map(Ok);
        }
    }
    let name = setup.edit.free_name("channels", guide.word);
    let mut texts = vec![("type", guide.word.to_owned())];
    texts.extend(setup.options.api_url.iter().map(|url| ("api_url", url.clone())));
    let owners = setup.options.owner.iter().map(|id| ("owners", vec![id.clone()]));
    let owners: Vec<_> = owners.collect();
    let section = |secrets| NewSection {
        kind: "channels",
        name: name.clone(),
        texts: texts.clone(),
        lists: owners.clone(),
        secrets,
    };
    setup.dialog.say(&format!("Testing: asking {} who the bot is …", guide.title));
    let here = guide.tokens.iter().zip(tokens);
    let here = here.map(|(token, text)| (token.key, SecretPlace::Here(text.to_string()))).collect();
    let mut trial = setup.edit.clone();
    trial.add(&section(here))?;
    let config = match trial.load(setup.environment()) {
        Ok(config) => config,
        Err(faults) => return Ok(Err(faults.to_string())),
    };
    let Some(channel) = config.channels.get(&name.as_str().into()) else {
        bail!("the channel is missing")
    };
    let Some(connected) = channels::connect(&channel.kind)? else { bail!("it is not a platform") };
    let probe = match probe(&connected).await {
        Ok(probe) => probe,
        Err(why) => return Ok(Err(why)),
    };
    let mut edit = setup.edit.clone();
    let mut kept = Vec::new();
    for (token, text) in guide.tokens.iter().zip(tokens) {
        let file = edit.write_secret(&name, token.ending, text)?;
        kept.push((token.key, SecretPlace::File(file)));
    }
    edit.add(&section(kept))?;
    setup.save(edit)?;
    setup.dialog.say(&format!("The bot is {}. Saved as [channels.{name}].\n", probe.name));
    let new_owner = setup.options.owner.as_ref().map(|id| NewOwner::of(&channel.kind, id));
    Ok(Ok(TestedBot { channel: name.as_str().into(), title: guide.title, probe, new_owner }))
}

/// Asks the platform: what it says, or what is wrong, faults of the bot's settings included.
async fn probe(channel: &Arc<dyn Channel>) -> Result<ChannelProbe, String> {
    let probe = channel.probe().await.map_err(|error| error.to_string())?;
    match probe.faults.is_empty() {
        true => Ok(probe),
        false => Err(probe.faults.join("; ")),
    }
}
