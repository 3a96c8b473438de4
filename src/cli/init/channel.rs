//! The second step of `init`: a bot that its platform knows.

use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use zeroize::Zeroizing;

use super::super::dialog::TRIES_MAX;
use super::platforms::{PLATFORMS, PlatformGuide, TypedTokens, has_tokens, parse, word_of};
use super::setup::{Setup, full_stop, sentence};
use crate::channels::{self, Channel, ChannelError, ChannelKind, ChannelProbe};
use crate::config::Config;
use crate::config::edit::{NewSection, SecretPlace};
use crate::types::message::ChannelName;

/// A bot that was tested.
pub(super) struct TestedBot {
    /// The name of its section.
    pub(super) channel: ChannelName,
    pub(super) title: &'static str,
    /// As [`PlatformGuide::invitation`].
    pub(super) invitation: &'static str,
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

/// Why a bot cannot be set up with a token.
enum BotFailure {
    /// The config cannot have what the options say.
    Settings(String),
    /// The platform could not be asked.
    Unreachable(String),
    /// The platform knows no such bot, or the bot lacks something.
    Refused(String),
}

impl BotFailure {
    fn reason(&self) -> &str {
        match self {
            Self::Settings(why) | Self::Unreachable(why) | Self::Refused(why) => why,
        }
    }

    /// Returns the error where nobody can be asked again.
    fn error(&self, guide: &PlatformGuide) -> anyhow::Error {
        let title = guide.title;
        match self {
            Self::Settings(why) => anyhow!("the options for {title} cannot be used: {why}"),
            Self::Unreachable(why) => anyhow!("{title} cannot be asked: {why}"),
            Self::Refused(why) => anyhow!("{title} does not accept this: {why}"),
        }
    }
}

/// Checks all that the options say about the platform, before anything is tested.
pub(super) fn check_options(setup: &Setup<'_>, config: &Config) -> anyhow::Result<()> {
    let options = setup.options;
    let named = options.channel.as_deref().map(parse).transpose()?;
    if matches!(named, Some(None)) && options.owner.is_some() {
        bail!(OWNER_OF_NOTHING);
    }
    if setup.dialog.asks() {
        return Ok(());
    }
    let guide = match named {
        Some(guide) => guide,
        None if options.token_file.is_some() => {
            bail!("name the platform of --token-file with --channel")
        }
        None if first_in_file(setup, config, None).is_some() => return Ok(()),
        None => platform_of_environment(setup),
    };
    let Some(guide) = guide else {
        anyhow::ensure!(options.owner.is_none(), OWNER_OF_NOTHING);
        return Ok(());
    };
    match tokens_of_options(setup, guide).or_else(|| tokens_of_environment(setup, guide)) {
        Some(tokens) if find_bot(setup, config, guide, &tokens).is_none() => {
            let name = setup.edit.free_name("channels", guide.word);
            match try_section(setup, &name, guide, &tokens)? {
                Ok(_) => Ok(()),
                Err(failure) => Err(failure.error(guide)),
            }
        }
        None if first_in_file(setup, config, Some(guide)).is_none() => {
            Err(missing_tokens(setup, guide))
        }
        _ => Ok(()),
    }
}

/// The error about `--owner` without a platform.
const OWNER_OF_NOTHING: &str =
    "--owner names you on a chat platform, and none is set up: give --channel";

/// The platform whose tokens are in the environment.
fn platform_of_environment(setup: &Setup<'_>) -> Option<&'static PlatformGuide> {
    PLATFORMS.iter().find(|guide| tokens_of_environment(setup, guide).is_some())
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
        None => platform_of_environment(setup),
    };
    let Some(guide) = guide else {
        anyhow::ensure!(options.owner.is_none(), OWNER_OF_NOTHING);
        setup.dialog.say(&format!(
            "No platform is set up; `{} chat` talks to the bot in a terminal.\n",
            setup.on.program()
        ));
        return Ok(None);
    };
    let known = tokens_of_options(setup, guide).or_else(|| tokens_of_environment(setup, guide));
    let asks = setup.dialog.asks();
    match known {
        Some(tokens) if !asks || options.token_file.is_some() => {
            match try_tokens(setup, guide, &tokens).await? {
                Ok(bot) => Ok(Some(bot)),
                Err(failure) if asks => {
                    let why = setup.on.name_commands(failure.reason());
                    setup.dialog.say(&format!("That does not work: {}\n", full_stop(&why)));
                    ask_tokens(setup, guide, None).await.map(Some)
                }
                Err(failure) => Err(failure.error(guide)),
            }
        }
        None if !asks => match keep_first(setup, config, Some(guide)).await? {
            Some(bot) => Ok(Some(bot)),
            None => Err(missing_tokens(setup, guide)),
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
    match first_in_file(setup, config, guide) {
        Some(known) => keep(setup, known).await.map(Some),
        None => Ok(None),
    }
}

/// The first bot of the config file, of this platform if one is given.
fn first_in_file<'a>(
    setup: &Setup<'_>,
    config: &'a Config,
    guide: Option<&PlatformGuide>,
) -> Option<KnownChannel<'a>> {
    let in_file = setup.edit.names("channels");
    let first = config.channels.iter().find(|(name, channel)| {
        let word = word_of(&channel.kind);
        in_file.iter().any(|known| known == name.as_str())
            && word.is_some()
            && guide.is_none_or(|guide| word == Some(guide.word))
    });
    first.map(|(name, config)| KnownChannel { name, config })
}

/// The bot of the config file that has these tokens.
fn find_bot<'a>(
    setup: &Setup<'_>,
    config: &'a Config,
    guide: &PlatformGuide,
    tokens: &TypedTokens,
) -> Option<KnownChannel<'a>> {
    let in_file = setup.edit.names("channels");
    let found = config.channels.iter().find(|(name, channel)| {
        in_file.iter().any(|known| known == name.as_str())
            && word_of(&channel.kind) == Some(guide.word)
            && has_tokens(&channel.kind, tokens)
    });
    found.map(|(name, config)| KnownChannel { name, config })
}

/// Tests a bot of the config file. `--owner` joins its owners.
async fn keep(setup: &mut Setup<'_>, known: KnownChannel<'_>) -> anyhow::Result<TestedBot> {
    let KnownChannel { name, config } = known;
    let Some(connected) = channels::connect(&config.kind)? else { bail!("it is not a platform") };
    let probe = match probe(&connected).await {
        Ok(probe) => probe,
        Err(failure) => bail!(
            "the config has the channel {name} already, but it does not work: {}. Correct [channels.{name}] and run this \
             again, or add another one with --channel",
            failure.reason()
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
    let invitation = guide.map_or("", |guide| guide.invitation);
    Ok(TestedBot { channel: name.clone(), title, invitation, probe, new_owner })
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
                Err(error) => setup.dialog.say(&sentence(&error)),
            },
        }
    }
    bail!("no platform was chosen")
}

fn tokens_of_options(setup: &Setup<'_>, guide: &PlatformGuide) -> Option<TypedTokens> {
    let given = [&setup.secrets.token, &setup.secrets.app_token];
    given.into_iter().take(guide.tokens.len()).cloned().collect()
}

/// Returns the error about the options that name too few tokens.
fn missing_tokens(setup: &Setup<'_>, guide: &PlatformGuide) -> anyhow::Error {
    let (title, secrets) = (guide.title, &setup.secrets);
    match (&secrets.token, &secrets.app_token) {
        _ if guide.tokens.len() < 2 => anyhow!("{title} needs a token: give --token-file"),
        (Some(_), _) => anyhow!("{title} needs a second token: give --app-token-file, too"),
        (None, Some(_)) => anyhow!("{title} needs a second token: give --token-file, too"),
        (None, None) => anyhow!("{title} needs two tokens: give --token-file and --app-token-file"),
    }
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
    // Rather now than after a token was typed.
    setup.check_writable()?;
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
            Ok(bot) => {
                setup.dialog.show_typed();
                return Ok(bot);
            }
            Err(failure) => {
                let why = setup.on.name_commands(failure.reason());
                setup.dialog.say(&format!("That does not work: {} Try again.", full_stop(&why)));
            }
        }
    }
    let (title, continues) = (guide.title, setup.how_to_continue());
    bail!("{title} accepted no token; its page in docs/ shows each step; {continues}")
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
) -> anyhow::Result<Result<TestedBot, BotFailure>> {
    if let Ok(config) = setup.edit.load(setup.environment())
        && let Some(known) = find_bot(setup, &config, guide, tokens)
    {
        return keep(setup, known).await.map(Ok);
    }
    setup.check_writable()?;
    setup.dialog.say(&format!("Testing: asking {} who the bot is …", guide.title));
    let name = setup.edit.free_name("channels", guide.word);
    let channel = match try_section(setup, &name, guide, tokens)? {
        Ok(channel) => channel,
        Err(failure) => return Ok(Err(failure)),
    };
    let Some(connected) = channels::connect(&channel.kind)? else { bail!("it is not a platform") };
    let probe = match probe(&connected).await {
        Ok(probe) => probe,
        Err(failure) => return Ok(Err(failure)),
    };
    let mut edit = setup.edit.clone();
    let mut kept = Vec::new();
    for (token, text) in guide.tokens.iter().zip(tokens) {
        let file = edit.write_secret(&name, token.ending, text)?;
        kept.push((token.key, SecretPlace::File(file)));
    }
    edit.add(&section(setup, &name, guide, kept))?;
    setup.save(edit)?;
    setup.dialog.say(&format!("The bot is {}. Saved as [channels.{name}].\n", probe.name));
    let new_owner = setup.options.owner.as_ref().map(|id| NewOwner::of(&channel.kind, id));
    let PlatformGuide { title, invitation, .. } = *guide;
    Ok(Ok(TestedBot { channel: name.as_str().into(), title, invitation, probe, new_owner }))
}

/// Returns the channel that the config would have with these tokens. Asks and saves nothing.
fn try_section(
    setup: &Setup<'_>,
    name: &str,
    guide: &PlatformGuide,
    tokens: &TypedTokens,
) -> anyhow::Result<Result<channels::Config, BotFailure>> {
    let here = guide.tokens.iter().zip(tokens);
    let here = here.map(|(token, text)| (token.key, SecretPlace::Here(text.to_string()))).collect();
    let mut trial = setup.edit.clone();
    trial.add(&section(setup, name, guide, here))?;
    match trial.load(setup.environment()) {
        Ok(mut config) => {
            let channel = config.channels.remove(&ChannelName::from(name));
            channel.map(Ok).context("the channel is missing")
        }
        // Their places are in a file that does not exist.
        Err(faults) => Ok(Err(BotFailure::Settings(faults.messages()))),
    }
}

/// The new section of a bot, as the options describe it.
fn section(
    setup: &Setup<'_>,
    name: &str,
    guide: &PlatformGuide,
    secrets: Vec<(&'static str, SecretPlace)>,
) -> NewSection {
    let mut texts = vec![("type", guide.word.to_owned())];
    texts.extend(setup.options.api_url.iter().map(|url| ("api_url", url.clone())));
    let owners = setup.options.owner.iter().map(|id| ("owners", vec![id.clone()]));
    NewSection { kind: "channels", name: name.to_owned(), texts, lists: owners.collect(), secrets }
}

/// Asks the platform: what it says, or what is wrong, faults of the bot's settings included.
async fn probe(channel: &Arc<dyn Channel>) -> Result<ChannelProbe, BotFailure> {
    let probe = channel.probe().await.map_err(|error| match error {
        ChannelError::Unavailable { .. } | ChannelError::Ambiguous(_) => {
            BotFailure::Unreachable(error.to_string())
        }
        ChannelError::DraftGone | ChannelError::Refused(_) | ChannelError::Closed(_) => {
            BotFailure::Refused(error.to_string())
        }
    })?;
    match probe.faults.is_empty() {
        true => Ok(probe),
        false => Err(BotFailure::Refused(probe.faults.join("; "))),
    }
}
