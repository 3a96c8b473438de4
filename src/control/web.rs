//! Requests of the command line about the web page: create a link to sign in, list sign-ins, and end them.

use chrono::Utc;
use rusqlite::Connection;
use serde_json::json;

use super::{ControlServer, Response, WebRequest};
use crate::channels::web::logins;
use crate::people::{LOCAL, People, page_accounts, persons};
use crate::replies;
use crate::store::{StoreError, Sync};
use crate::types::message::{ChannelName, SenderId};
use crate::types::person::PersonId;

pub(super) async fn answer(
    server: &ControlServer,
    request: WebRequest,
) -> Result<Response, StoreError> {
    let Some(entrance) = &server.web else {
        return Ok(Response::Failed(replies::WEB_IS_OFF.to_owned()));
    };
    let store = &server.turns.services.bus.store;
    match request {
        WebRequest::Link { person, json } => {
            let person = SenderId::from(person.unwrap_or_else(|| LOCAL.to_owned()));
            let (people, channel) =
                (server.turns.services.bus.people.clone(), entrance.web.name().clone());
            let name = person.clone();
            let find = move |store: &Connection| account_of(store, &people, &channel, name);
            let found = store.write("account on the page", Sync::Now, find).await?;
            let Some(person) = found else {
                return Ok(Response::Failed(replies::web_stranger(person.as_str())));
            };
            Ok(match entrance.link(&person).await {
                Some(link) if json => Response::Listing(json!({ "link": link })),
                Some(link) => Response::Done(replies::web_link(&link)),
                None => Response::Failed(replies::WEB_DOES_NOT_LISTEN.to_owned()),
            })
        }
        WebRequest::Logins => {
            let people = server.turns.services.bus.people.clone();
            let page = entrance.web.name().clone();
            let list = move |store: &Connection| logins::list(store, &people, &page);
            let listed = store.read(list).await?;
            Ok(Response::Listing(json!(listed)))
        }
        WebRequest::Revoke { id } => {
            let revoke = move |store: &Connection| logins::revoke(store, &id);
            let ended = store.write("sign-ins", Sync::Now, revoke).await?;
            entrance.web.note_ended_login();
            Ok(match ended {
                0 => Response::Failed(replies::NO_SUCH_LOGIN.to_owned()),
                ended => Response::Done(replies::logins_ended(ended)),
            })
        }
    }
}

/// Returns the account on the page for a name: that in the config, or that of the person with this number.
fn account_of(
    store: &Connection,
    people: &People,
    page: &ChannelName,
    name: SenderId,
) -> rusqlite::Result<Option<SenderId>> {
    if people.role_of(store, page, &name)?.is_some() {
        return Ok(Some(name));
    }
    let Some(person) = PersonId::parse(name.as_str()) else { return Ok(None) };
    let accounts = persons::accounts(store)?;
    let Some(known) = accounts.into_iter().find(|it| it.person == person) else { return Ok(None) };
    let account = persons::PersonAccount { channel: known.channel, sender: known.sender };
    page_accounts::account_for(store, people, page, &account, Utc::now())
}
