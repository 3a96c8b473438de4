//! How people are called. Slack's events have ids only; names are asked for once, and kept.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use slack_morphism::SlackUserId;
use slack_morphism::api::SlackApiUsersInfoRequest;
use tokio::time::timeout;

use super::call::Api;

/// People whose names are kept; then they are asked for afresh, so that changed ones are noticed.
const KEPT_MAX: usize = 1000;

/// People of one event that are asked for.
const ASKED_MAX: usize = 10;

/// What people are called when Slack does not let us ask: nothing will change that soon.
const NO_NAME: &[&str] =
    &["missing_scope", "user_not_found", "user_not_visible", "users_not_found"];

/// Names by id.
#[derive(Default)]
pub(super) struct Names(
    // A mutex because hearing and catching up look up beside each other; it guards copies of words.
    Mutex<BTreeMap<String, String>>,
);

#[derive(Deserialize)]
struct Answer {
    user: User,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct User {
    name: String,
    real_name: String,
    profile: Profile,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Profile {
    display_name: String,
    real_name: String,
}

impl User {
    fn shown(self) -> Option<String> {
        let Profile { display_name, real_name } = self.profile;
        let names = [display_name, real_name, self.real_name, self.name];
        names.into_iter().find(|name| !name.trim().is_empty())
    }
}

impl Names {
    /// The names of these people, as far as they can be had within the time.
    pub(super) async fn of(
        &self,
        people: &[String],
        api: &Api,
        within: Duration,
    ) -> BTreeMap<String, String> {
        let mut unknown: Vec<&String> = {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            people.iter().filter(|person| !kept.contains_key(*person)).collect()
        };
        unknown.sort();
        unknown.dedup();
        unknown.truncate(ASKED_MAX);
        let asking = unknown.into_iter().map(|person| self.ask(person, api));
        timeout(within, join_all(asking)).await.ok();
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = people.iter().filter_map(|person| kept.get_key_value(person));
        known.map(|(person, name)| (person.clone(), name.clone())).collect()
    }

    async fn ask(&self, person: &str, api: &Api) {
        let request = SlackApiUsersInfoRequest::new(SlackUserId(person.to_owned()));
        let name = match api.call::<_, Answer>(&request).await {
            Ok(answer) => answer.user.shown().unwrap_or_else(|| person.to_owned()),
            Err(error) if error.says(NO_NAME) => person.to_owned(),
            Err(error) => {
                tracing::debug!(?error, "Slack does not tell a name");
                return;
            }
        };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(person.to_owned(), name);
    }
}
