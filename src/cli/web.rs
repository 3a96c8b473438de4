//! `peacrab web`: a link to sign in on the page in the browser, and the sign-ins.

use super::invocation::Invocation;
use crate::replies;

/// Arguments of `peacrab web`.
#[derive(clap::Args)]
pub(super) struct WebArguments {
    /// The person who signs in, by the name in `[gateway]` [default: the owner]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["sessions", "revoke"])]
    person: Option<String>,
    /// List the browsers that are signed in
    #[arg(long)]
    sessions: bool,
    /// Sign a browser out, by its id in the list; or `all`
    #[arg(long, value_name = "ID", conflicts_with = "sessions")]
    revoke: Option<String>,
    /// As JSON
    #[arg(long, conflicts_with = "revoke")]
    json: bool,
}

#[cfg(feature = "gateway")]
impl WebArguments {
    pub(super) async fn handle(self, on: &Invocation) -> anyhow::Result<String> {
        use super::chat;
        use super::invocation::shown;
        use crate::channels::web::logins::Login;
        use crate::control::{ControlRequest, Response, WebRequest};

        if on.load()?.gateway.is_none() {
            anyhow::bail!(replies::WEB_IS_OFF);
        }
        let json = self.json;
        let request = match self {
            Self { revoke: Some(id), .. } => WebRequest::Revoke { id },
            Self { sessions: true, .. } => WebRequest::Logins,
            Self { person, json, .. } => WebRequest::Link { person, json },
        };
        match chat::ask(&on.home, &ControlRequest::Web { request }).await? {
            Response::Listing(listed) if !json => {
                let logins: Vec<Login> = serde_json::from_value(listed)?;
                let lines = logins.iter().map(|login| replies::LoginLine {
                    id: &login.id,
                    person: login.person.as_str(),
                    since: login.since,
                    seen: login.seen,
                    agent: &login.agent,
                });
                Ok(replies::logins(&lines.collect::<Vec<_>>()))
            }
            response => shown(response),
        }
    }
}

#[cfg(not(feature = "gateway"))]
impl WebArguments {
    /// The same as with the page; the future is ready at once.
    pub(super) fn handle(self, _: &Invocation) -> std::future::Ready<anyhow::Result<String>> {
        std::future::ready(Err(anyhow::anyhow!(replies::WEB_NOT_BUILT)))
    }
}
