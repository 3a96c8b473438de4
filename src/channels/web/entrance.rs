//! The address at which browsers reach the page, and the links with which people sign in.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use url::{Host, Url};

use super::Web;
use super::logins::LinkedPerson;
use crate::people::persons::PersonAccount;
use crate::types::message::SenderId;

/// Maximum wait for the gateway to listen, which it does at once unless another program uses the port.
const LISTEN_TIME_MAX: Duration = Duration::from_secs(3);

/// The page, and the address at which browsers reach it.
#[derive(Clone)]
pub struct WebEntrance {
    pub web: Arc<Web>,
    /// None while the gateway does not listen.
    pub url: Arc<watch::Sender<Option<String>>>,
}

/// A link with which a person can sign in once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInLink {
    pub link: String,
    /// Only browsers on this machine can open it.
    pub is_local: bool,
}

impl WebEntrance {
    pub fn new(web: Arc<Web>) -> Self {
        Self { web, url: Arc::new(watch::Sender::new(None)) }
    }

    /// Returns a link with which a person can sign in once. None if the gateway does not listen within
    /// a few seconds.
    pub async fn link(&self, person: &SenderId) -> Option<String> {
        let mut url = self.url.subscribe();
        let listening = timeout(LISTEN_TIME_MAX, url.wait_for(Option::is_some)).await;
        listening.ok()?.ok()?;
        self.link_now(person).map(|sign_in| sign_in.link)
    }

    /// Returns a link with which a person can sign in once. None if the gateway does not listen at this moment.
    pub fn link_now(&self, person: &SenderId) -> Option<SignInLink> {
        self.issue(LinkedPerson { person: person.clone(), asked_by: None })
    }

    /// As [`Self::link_now`], for an account that asks in a chat. The sign-in ends with the access that the account has to
    /// its person.
    pub fn link_for(&self, person: &SenderId, asked_by: PersonAccount) -> Option<SignInLink> {
        self.issue(LinkedPerson { person: person.clone(), asked_by: Some(asked_by) })
    }

    fn issue(&self, linked: LinkedPerson) -> Option<SignInLink> {
        let url = self.url.borrow().clone()?;
        let code = self.web.codes.issue(linked);
        Some(SignInLink { link: format!("{url}/#{}", code.reveal()), is_local: is_local(&url) })
    }
}

/// Returns true for a loopback address.
fn is_local(url: &str) -> bool {
    let url = Url::parse(url).ok();
    match url.as_ref().and_then(Url::host) {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
