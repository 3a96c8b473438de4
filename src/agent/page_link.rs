//! `/web`: a link with which a person signs in on the web page. It is given in private chats alone, and never on the
//! page itself: a program that uses the page's API with a token must not get a sign-in that outlives the token.

use chrono::Utc;
use rusqlite::Connection;

use super::scope::CommandScope;
use crate::bus::journal::WaitingMessage;
use crate::people::persons::PersonAccount;
use crate::people::{LOCAL, Role, page_accounts};
use crate::replies;
use crate::services::{Services, role_of};
use crate::store::{StoreError, Sync};
use crate::types::commands::CommandId;
use crate::types::message::{ChannelName, SenderId};

/// Answers `/web`.
pub(super) async fn reply_text(
    scope: &CommandScope<'_>,
    control: &WaitingMessage,
) -> Result<String, StoreError> {
    let (services, inbound) = (&scope.turns.services, &control.inbound);
    let channel = &inbound.from.channel;
    let role = role_of(services, &inbound.from, control.sender()).await?;
    if !CommandId::Web.spec().allows(role, inbound.chat_kind) {
        return Ok(replies::WEB_PRIVATELY.to_owned());
    }
    let Some(entrance) = &scope.config.web else {
        return Ok(match role {
            Role::Owner => replies::WEB_IS_OFF.to_owned(),
            Role::Admin | Role::User | Role::Guest => replies::WEB_IS_OFF_HERE.to_owned(),
        });
    };
    if channel == entrance.web.name() {
        return Ok(replies::WEB_FROM_ELSEWHERE.to_owned());
    }
    let person = match role {
        Role::Owner => Some(LOCAL.into()),
        _ => account_on(services, entrance.web.name(), control).await?,
    };
    let Some(person) = person else { return Ok(replies::WEB_WITHOUT_ACCOUNT.to_owned()) };
    if !services.bus.rates.may_get_link(channel, &control.sender().id) {
        return Ok(replies::WEB_TOO_OFTEN.to_owned());
    }
    let asked_by = PersonAccount { channel: channel.clone(), sender: control.sender().id.clone() };
    Ok(match entrance.link_for(&person, asked_by) {
        Some(page_link) => {
            tracing::info!(%person, %channel, "Gave a link to sign in on the page");
            replies::web_link_in_chat(&page_link.link, page_link.is_local)
        }
        None => replies::WEB_DOES_NOT_LISTEN.to_owned(),
    })
}

/// Returns the sender's account on the web page, and creates one if necessary. None for a sender who has access only
/// because everybody has.
async fn account_on(
    services: &Services,
    page: &ChannelName,
    control: &WaitingMessage,
) -> Result<Option<SenderId>, StoreError> {
    let (people, page) = (services.bus.people.clone(), page.clone());
    let (channel, sender) = (control.inbound.from.channel.clone(), control.sender().id.clone());
    let account = PersonAccount { channel, sender };
    let find_account = move |store: &Connection| {
        page_accounts::account_for(store, &people, &page, &account, Utc::now())
    };
    services.bus.store.write("account on the page", Sync::Now, find_account).await
}
