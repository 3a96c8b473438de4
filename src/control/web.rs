//! Requests of the command line about the page in the browser: a link to sign in, the sign-ins, and their end.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{ControlServer, Response};
use crate::channels::web::{Web, logins};
use crate::people::LOCAL;
use crate::replies;
use crate::store::{StoreError, Sync};
use crate::types::message::SenderId;

/// Time for the gateway to listen, which it does at once unless another program uses the port.
const LISTEN_TIME_MAX: Duration = Duration::from_secs(3);

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

/// The page, and the address at which browsers reach it.
#[derive(Clone)]
pub struct WebEntrance {
    pub web: Arc<Web>,
    /// None while the gateway does not listen.
    pub url: Arc<watch::Sender<Option<String>>>,
}

impl WebEntrance {
    pub fn new(web: Arc<Web>) -> Self {
        Self { web, url: Arc::new(watch::Sender::new(None)) }
    }

    /// Returns a link with which a person can sign in once. None if the gateway does not listen.
    pub async fn link(&self, person: &SenderId) -> Option<String> {
        let mut url = self.url.subscribe();
        let listening = timeout(LISTEN_TIME_MAX, url.wait_for(Option::is_some)).await;
        let url = listening.ok()?.ok()?.clone()?;
        let code = self.web.codes.issue(person);
        Some(format!("{url}/#{}", code.reveal()))
    }
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
