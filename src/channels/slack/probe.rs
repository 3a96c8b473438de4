//! Checks the bot's account by calls that receive no event: `auth.test`, the scopes of the token, and the URL of a link.

use super::call::AuthTest;
use super::failure::SlackCallError;
use super::inbound::SlackIdentity;
use super::{Slack, manifest};
use crate::channels::{ChannelError, ChannelProbe};

impl Slack {
    pub(super) async fn probe_account(&self) -> Result<ChannelProbe, ChannelError> {
        let result = self.api.call_with_scopes::<_, SlackIdentity>(&AuthTest {}).await;
        let (me, scopes) = result.map_err(SlackCallError::while_asking)?;
        self.socket_address().await?;
        let missing = |has: Vec<String>| {
            let lacks = |scope: &&str| !has.iter().any(|it| it == scope);
            manifest::BOT_SCOPES
                .iter()
                .copied()
                .filter(lacks)
                .filter(|it| *it != manifest::OPTIONAL_SCOPE)
                .collect::<Vec<_>>()
                .join(", ")
        };
        // A server may not name the scopes. Then there is nothing to compare.
        let missing = scopes.map(missing).filter(|missing| !missing.is_empty());
        let faults = missing.map(|missing| {
            format!(
                "the app lacks scopes: {missing}. Add them at https://api.slack.com/apps under OAuth & Permissions, \
                 and install the app again"
            )
        });
        let name = format!("@{}", me.name);
        Ok(ChannelProbe { name, link: None, faults: faults.into_iter().collect() })
    }
}
