//! Looks up people's names. Slack's events have only ids. A name is requested once and remembered.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use slack_morphism::SlackUserId;
use slack_morphism::api::SlackApiUsersInfoRequest;
use tokio::time::timeout;

use super::call::SlackApi;

/// Maximum number of remembered names. When it is reached, all are requested again, which also updates them.
const KEPT_MAX: usize = 1000;

/// Maximum number of people that are looked up for one event.
const LOOKUPS_MAX: usize = 10;

/// Refusals after which the id serves as the name, because they will not change soon.
const NO_NAME: &[&str] =
    &["missing_scope", "user_not_found", "user_not_visible", "users_not_found"];

/// Names by id.
#[derive(Default)]
pub(super) struct Names(
    // A mutex, because the listener and the backlog look names up in parallel. It guards copies of short
    // strings.
    Mutex<BTreeMap<String, String>>,
);

#[derive(Deserialize)]
struct UserInfo {
    user: SlackUser,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct SlackUser {
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

impl SlackUser {
    fn shown(self) -> Option<String> {
        let Profile { display_name, real_name } = self.profile;
        let names = [display_name, real_name, self.real_name, self.name];
        names.into_iter().find(|name| !name.trim().is_empty())
    }
}

impl Names {
    /// Returns the names of these people that are known or arrive within the time limit.
    pub(super) async fn of(
        &self,
        people: &[String],
        api: &SlackApi,
        time_max: Duration,
    ) -> BTreeMap<String, String> {
        let mut unknown: Vec<&String> = {
            let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            people.iter().filter(|person| !names.contains_key(*person)).collect()
        };
        unknown.sort();
        unknown.dedup();
        unknown.truncate(LOOKUPS_MAX);
        let lookups = unknown.into_iter().map(|person| self.look_up(person, api));
        timeout(time_max, join_all(lookups)).await.ok();
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = people.iter().filter_map(|person| names.get_key_value(person));
        known.map(|(person, name)| (person.clone(), name.clone())).collect()
    }

    async fn look_up(&self, person: &str, api: &SlackApi) {
        let request = SlackApiUsersInfoRequest::new(SlackUserId(person.to_owned()));
        let name = match api.call::<_, UserInfo>(&request).await {
            Ok(answer) => answer.user.shown().unwrap_or_else(|| person.to_owned()),
            Err(error) if error.is_refused_with(NO_NAME) => person.to_owned(),
            Err(error) => {
                tracing::debug!(?error, "Cannot look up a name at Slack");
                return;
            }
        };
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= KEPT_MAX {
            names.clear();
        }
        names.insert(person.to_owned(), name);
    }
}
