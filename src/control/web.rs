//! Requests of the command line about the page in the browser: a link to sign in, the sign-ins, and their end.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{ControlServer, Response};
use crate::channels::web::logins;
use crate::people::LOCAL;
use crate::replies;
use crate::store::{StoreError, Sync};
use crate::types::message::SenderId;

/// A request about the page.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebRequest {
    /// A link for the owner, or for a person of the config.
    Link {
        person: Option<String>,
    },
    Logins,
    /// The id of a sign-in, or `all`.
    Revoke {
        id: String,
    },
}

pub(super) async fn answer(
    server: &ControlServer,
    request: WebRequest,
) -> Result<Response, StoreError> {
    let Some(entrance) = &server.web else {
        return Ok(Response::Failed(replies::WEB_IS_OFF.to_owned()));
    };
    let store = &server.turns.services.bus.store;
    match request {
        WebRequest::Link { person } => {
            let person = SenderId::from(person.unwrap_or_else(|| LOCAL.to_owned()));
            let (people, channel) =
                (server.turns.services.bus.people.clone(), entrance.web.name().clone());
            let who = person.clone();
            let known = move |store: &Connection| people.role_of(store, &channel, &who);
            if store.read(known).await?.is_none() {
                return Ok(Response::Failed(replies::web_stranger(person.as_str())));
            }
            Ok(match entrance.link(&person).await {
                Some(link) => Response::Done(replies::web_link(&link)),
                None => Response::Failed(replies::WEB_DOES_NOT_LISTEN.to_owned()),
            })
        }
        WebRequest::Logins => {
            let listed = store.read(logins::list).await?;
            Ok(Response::Listing(json!(listed)))
        }
        WebRequest::Revoke { id } => {
            let revoke = move |store: &Connection| logins::revoke(store, &id);
            let ended = store.write("sign-ins", Sync::Now, revoke).await?;
            Ok(match ended {
                0 => Response::Failed(replies::NO_SUCH_LOGIN.to_owned()),
                ended => Response::Done(replies::logins_ended(ended)),
            })
        }
    }
}
