//! One daemon on all platforms at once is killed at random while people keep writing on each. What
//! was on its way then is told again, looked for, or marked, as each platform lets us.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use peacrab::types::message::Body;
use tokio::time::sleep;

use super::crash::{MARK, NO_LIMITS, all_had_one_outcome, is_settled, open};
use crate::support::binary::{ProgramFixture, channel, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::{ADA, BOB};
use crate::support::discord_api::line as on_discord;
use crate::support::discord_api::{self, DiscordApi};
use crate::support::slack_api::line as on_slack;
use crate::support::slack_api::{APP_TOKEN, BOT_TOKEN, SlackApi};

const KILLS: usize = 25;

/// Channel, chat and text, as it came.
type Line = (String, String, String);

pub(super) struct Platforms {
    pub(super) telegram: BotApi,
    pub(super) discord: DiscordApi,
    pub(super) slack: SlackApi,
    pub(super) said: usize,
}

impl Platforms {
    pub(super) async fn start() -> Self {
        let telegram = BotApi::start().await;
        Self {
            telegram,
            discord: DiscordApi::start().await,
            slack: SlackApi::start().await,
            said: 0,
        }
    }

    pub(super) fn config(&self) -> String {
        let Self { telegram, discord, slack, .. } = self;
        let people =
            |owner: &str, user: &str| format!("owners = [\"{owner}\"]\nallow = [\"{user}\"]\n\n");
        let id = |id: u64| id.to_string();
        [
            channel("telegram", telegram.url(), telegram.token()),
            people(&ADA.id.to_string(), &BOB.id.to_string()),
            format!(
                "[channels.discord]\ntype = \"discord\"\ntoken = \"{}\"\napi_url = \"{}\"\n",
                discord_api::TOKEN,
                discord.url()
            ),
            people(&id(on_discord::ADA.id), &id(on_discord::BOB.id)),
            format!(
                "[channels.slack]\ntype = \"slack\"\ntoken = \"{BOT_TOKEN}\"\n\
                 app_token = \"{APP_TOKEN}\"\napi_url = \"{}\"\n",
                slack.url()
            ),
            people(on_slack::ADA.id, on_slack::BOB.id),
        ]
        .concat()
    }

    /// Somebody says something on each.
    pub(super) fn say(&mut self) {
        let by_ada = fastrand::bool();
        for platform in 0..3 {
            let at = self.said;
            self.said += 1;
            let words = match fastrand::u8(..3) {
                0 => format!("append crab-{at} to log.md then append shell-{at} to log.md"),
                _ => format!("hello {at}"),
            };
            match platform {
                0 => drop(self.telegram.say(&said(if by_ada { &ADA } else { &BOB }, &words))),
                1 => {
                    let by = if by_ada { &on_discord::ADA } else { &on_discord::BOB };
                    self.discord.say(&on_discord::Line::private(by, &words));
                }
                _ => {
                    let by = if by_ada { &on_slack::ADA } else { &on_slack::BOB };
                    self.slack.say(&on_slack::Line::im(by, &words));
                }
            }
        }
    }

    fn sent(&self) -> Vec<Line> {
        let line = |channel: &str, chat: String, text: &str| {
            (channel.to_owned(), chat, text.trim().to_owned())
        };
        let telegram = self.telegram.sent().into_iter();
        let telegram =
            telegram.map(|sent| line("telegram", sent.chat.to_string(), sent.as_it_came()));
        let discord = self.discord.sent().into_iter();
        let discord = discord.map(|sent| line("discord", sent.channel.to_string(), &sent.text));
        let slack = self.slack.sent().into_iter();
        let slack = slack.map(|sent| line("slack", sent.channel, &sent.text));
        telegram.chain(discord).chain(slack).collect()
    }
}

#[tokio::test]
async fn random_kills_of_all_platforms_at_once_lose_nothing_and_double_nothing_unmarked() {
    let mut platforms = Platforms::start().await;
    let fixture = ProgramFixture::new(&(platforms.config() + NO_LIMITS));
    // What is said on Discord before the first session is told to nobody.
    let daemon = fixture.daemon().await;
    platforms.discord.wait_for_sessions(1, 0).await;
    platforms.say();
    settled(&fixture.home(), platforms.said).await;
    daemon.kill().await;
    for _ in 0..KILLS {
        platforms.say();
        let daemon = fixture.begin(fixture.command(&[], &["run"]));
        // Discord connects after a second. The moments are the test itself, not what it waits for.
        let alive = if fastrand::u8(..3) == 0 { 1000..1500 } else { 10..400 };
        let alive = Duration::from_millis(fastrand::u64(alive));
        let quiet = alive.mul_f64(fastrand::f64());
        if fastrand::u8(..4) == 0 {
            platforms.discord.ignore_session();
        }
        sleep(quiet).await;
        platforms.say();
        sleep(alive.saturating_sub(quiet)).await;
        daemon.kill().await;
    }
    platforms.discord.heed_sessions();
    platforms.say();
    let daemon = fixture.daemon().await;
    settled(&fixture.home(), platforms.said).await;
    daemon.kill().await;
    assert_eq!((platforms.telegram.unconfirmed(), platforms.slack.unacknowledged()), (0, 0));
    assert_eq!(platforms.discord.gateway_faults(), Vec::<String>::new());
    assert_eq!(platforms.slack.offences(), Vec::<String>::new());
    all_had_one_outcome(&fixture.home(), platforms.said);
    each_chunk_arrived(&fixture.home(), &platforms.sent());
}

pub(super) async fn settled(home: &Path, said: usize) {
    until("everything to be done", async || is_settled(home, said).then_some(())).await;
}

/// Once, where the platform can be asked what it has; elsewhere any further ones are marked.
fn each_chunk_arrived(home: &Path, sent: &[Line]) {
    let store = open(home).unwrap();
    let sql = "SELECT o.channel, o.chat, c.body, c.state FROM chunks c
               JOIN outbox o ON o.id = c.delivery";
    let mut rows = store.prepare(sql).unwrap();
    let rows =
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap();
    let mut meant: BTreeMap<Line, (usize, usize)> = BTreeMap::new();
    for row in rows {
        let (channel, chat, body, state): (String, String, String, String) = row.unwrap();
        let body: Body = serde_json::from_str(&body).unwrap();
        let line = (channel, chat, body.text().trim().to_owned());
        let (all, arrived) = meant.entry(line).or_default();
        *all += 1;
        *arrived += usize::from(state == "sent");
    }
    let mut came: BTreeMap<Line, [usize; 2]> = BTreeMap::new();
    for (channel, chat, text) in sent {
        let bare = text.strip_prefix(MARK);
        let line = (channel.clone(), chat.clone(), bare.unwrap_or(text).to_owned());
        came.entry(line).or_default()[usize::from(bare.is_some())] += 1;
    }
    for (line, [plain, marked]) in &came {
        let (all, _) = meant.get(line).copied().unwrap_or_default();
        assert!(*plain <= all, "{plain} unmarked of {all}: {line:?}");
        assert!(line.0 == "telegram" || *marked == 0, "a perhaps that could be asked: {line:?}");
    }
    for (line, (_, arrived)) in &meant {
        let [plain, marked] = came.get(line).copied().unwrap_or_default();
        assert!(plain + marked >= *arrived, "{plain} and {marked} of {arrived}: {line:?}");
    }
}
