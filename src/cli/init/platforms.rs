//! The platforms that `init` knows: their names, the steps on their websites, and the tokens that they give out. Data only.

use anyhow::bail;
use zeroize::Zeroizing;

#[cfg(feature = "slack")]
use crate::channels;
use crate::channels::ChannelKind;
use crate::secret::Secret;

/// A platform, as `init` explains it.
pub(super) struct PlatformGuide {
    pub(super) word: &'static str,
    pub(super) title: &'static str,
    pub(super) is_built: bool,
    /// Instructions for the platform's website.
    pub(super) steps: &'static str,
    /// Lines to copy.
    pub(super) sample: &'static str,
    pub(super) tokens: &'static [PlatformToken],
    /// The words before the bot's link where that is no chat with it, but lets it in.
    pub(super) invitation: &'static str,
}

/// A token that a platform gives out.
pub(super) struct PlatformToken {
    pub(super) key: &'static str,
    pub(super) variable: &'static str,
    /// The ending of its file.
    pub(super) ending: &'static str,
    /// Tells Slack's two apart.
    pub(super) prefix: &'static str,
    pub(super) title: &'static str,
}

#[cfg(feature = "slack")]
const SLACK_MANIFEST: &str = channels::slack::manifest::MANIFEST;
#[cfg(not(feature = "slack"))]
const SLACK_MANIFEST: &str = "";

pub(super) const PLATFORMS: [PlatformGuide; 3] = [
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
        invitation: "",
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
        invitation: "First let it into a server of yours. It can be written to only by people who share one with it. Open:",
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
        invitation: "",
    },
];

/// Tokens in the order of [`PlatformGuide::tokens`].
pub(super) type TypedTokens = Vec<Zeroizing<String>>;

/// The word of a platform. None for the terminal.
pub(super) fn word_of(kind: &ChannelKind) -> Option<&'static str> {
    match kind {
        ChannelKind::Telegram(_) => Some("telegram"),
        ChannelKind::Discord(_) => Some("discord"),
        ChannelKind::Slack(_) => Some("slack"),
        ChannelKind::Terminal => None,
    }
}

/// Returns true if a section has these tokens, in the order of [`PlatformGuide::tokens`].
pub(super) fn has_tokens(kind: &ChannelKind, tokens: &TypedTokens) -> bool {
    let own = match kind {
        ChannelKind::Telegram(telegram) => vec![&telegram.token],
        ChannelKind::Discord(discord) => vec![&discord.token],
        ChannelKind::Slack(slack) => vec![&slack.token, &slack.app_token],
        ChannelKind::Terminal => return false,
    };
    let given: Vec<_> = tokens.iter().map(|token| Secret::new(token.as_str())).collect();
    own.into_iter().eq(&given)
}

/// Returns the platform with this name; none for `none`.
pub(super) fn parse(word: &str) -> anyhow::Result<Option<&'static PlatformGuide>> {
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
