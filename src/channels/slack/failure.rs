//! The meaning of a failed call of the Web API, and who acts next. The error names are Slack's own.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;

use crate::channels::ChannelError;
use crate::channels::call::{self, DenialKind, DenialRow, Platform, row};

pub(super) type SlackCallError = call::CallError<SlackRefusal>;

/// A refusal. `error_text` is Slack's error name, such as `channel_not_found`, and empty without one.
pub(super) type SlackDenial = call::Denial<SlackRefusal>;

/// Facts of a refusal that only Slack reports.
#[derive(Debug, Default)]
pub(super) struct SlackRefusal {
    /// The missing scopes, if that is the reason.
    needed: String,
}

/// The meanings of Slack's refusals. The names are from Slack's reference of chat.postMessage. The empty
/// name means no error name.
const REFUSALS: &[DenialRow<&str>] = &[
    row(
        &[],
        &[
            "account_inactive",
            "invalid_auth",
            "not_authed",
            "team_access_not_granted",
            "token_expired",
            "token_revoked",
        ],
        DenialKind::Closed,
        "token not accepted: Slack says {error}. Get valid ones at https://api.slack.com/apps (OAuth & \
         Permissions for the xoxb- one, Basic Information for the xapp- one). A bot that is in the \
         config already takes them from where its `token` and `app_token` are read, after `peacrab reload`",
    ),
    row(
        &[],
        &["not_allowed_token_type"],
        DenialKind::Closed,
        "token of the wrong kind: Slack says {error}. `token` is the bot's (xoxb-…), `app_token` the \
         app's (xapp-…, with the scope connections:write)",
    ),
    row(
        &[],
        &[MISSING_SCOPE],
        DenialKind::Closed,
        "the app may not do this: Slack says {error}, {needed} is needed. Add it at \
         https://api.slack.com/apps under OAuth & Permissions, install the app again, and run `peacrab reload`",
    ),
    // Slack's reference: some aspect of the operation may have succeeded before these errors.
    row(&[], &["fatal_error", "internal_error"], DenialKind::MaybeDone, ""),
    // A gateway that gave up may have passed the request on. One that was overloaded has not.
    row(&[500, 502, 504], &[""], DenialKind::MaybeDone, ""),
    row(&[429], &[], DenialKind::Limited, ""),
    row(&[], &["ratelimited", "rate_limited", "message_limit_exceeded"], DenialKind::Limited, ""),
    // Slack always gives a reason. A proxy on the way may not.
    row(
        &[],
        &["", "service_unavailable", "request_timeout", "team_added_to_org"],
        DenialKind::Later,
        "",
    ),
    row(&[500, 501, 502, 503, 504], &[], DenialKind::Later, ""),
    refused(&["channel_not_found"], "there is no such channel, or the bot cannot see it"),
    refused(&["not_in_channel"], "the bot is not in this channel: invite it"),
    refused(&["is_archived"], "this channel is archived"),
    refused(&["is_inactive"], "this channel is frozen"),
    refused(
        &["restricted_action", "not_allowed", "ekm_access_denied", "access_denied"],
        "the bot is not allowed to write in this channel",
    ),
    refused(&["cannot_dm_bot", "cant_dm_bot"], "bots cannot write to bots"),
    refused(
        &["user_disabled", "user_not_found", "users_not_found"],
        "this person's account is gone",
    ),
    refused(&["thread_not_found", "invalid_thread_ts"], "this thread is gone"),
    refused(&["msg_too_long", "msg_blocks_too_long"], "the text is too long for Slack"),
    refused(&["no_text"], "there is no text that Slack would show"),
    refused(&[], ""),
];

const MISSING_SCOPE: &str = "missing_scope";

const fn refused(
    errors: &'static [&'static str],
    meaning: &'static str,
) -> DenialRow<&'static str> {
    row(&[], errors, DenialKind::Unsendable, meaning)
}

/// Pause for a rate limit without a given time. Slack counts its limits by the minute.
const RATE_LIMIT_PAUSE: Duration = Duration::from_secs(30);

impl SlackCallError {
    /// Returns the error of a call that may be repeated without harm, but may be refused, such as an edit.
    pub(super) fn while_editing(self) -> ChannelError {
        match self {
            Self::Denied(denial) if denial.kind() == DenialKind::MaybeDone => denial.unavailable(),
            Self::Denied(denial) => denial.while_sending(),
            other => other.while_asking(),
        }
    }

    /// Returns true if Slack refused with one of these error names.
    pub(super) fn is_refused_with(&self, errors: &[&str]) -> bool {
        match self {
            Self::Denied(denial) => errors.contains(&denial.error_text.as_str()),
            _ => false,
        }
    }

    /// Returns the error of an edit of a draft. Other text may appear there meanwhile, so an ambiguous one stays
    /// ambiguous.
    pub(super) fn while_drafting(self) -> ChannelError {
        match self {
            Self::Lost(_) | Self::NotSent(_) | Self::Denied(_) => self.while_sending(),
            Self::Unreadable(_) => self.while_editing(),
        }
    }

    /// Returns the missing scopes, if that is the reason.
    pub(super) fn missing_scope(&self) -> Option<&str> {
        match self {
            Self::Denied(denial) if denial.error_text == MISSING_SCOPE => Some(denial.scope()),
            _ => None,
        }
    }

    /// Returns the wait that Slack demands, if the rate limit is the only problem.
    pub(super) fn wait(&self) -> Option<Duration> {
        match self {
            Self::Denied(denial) if denial.kind() == DenialKind::Limited => {
                Some(denial.after.unwrap_or(RATE_LIMIT_PAUSE))
            }
            _ => None,
        }
    }
}

impl Platform for SlackRefusal {
    type Pattern = &'static str;

    const NAME: &'static str = "slack";
    const REFUSALS: &'static [DenialRow<&'static str>] = REFUSALS;

    fn matches(denial: &SlackDenial, error: &&'static str) -> bool {
        denial.error_text == **error
    }

    fn describe(denial: &SlackDenial) -> String {
        match (&denial.ambiguity, denial.error_text.as_str()) {
            (Some(ambiguity), _) => format!("slack answers {ambiguity}"),
            (None, "") => format!("slack answers {}", denial.status),
            (None, error) => format!("slack answers {error}"),
        }
    }

    fn explain(denial: &SlackDenial, meaning: &str) -> String {
        meaning.replace("{error}", &denial.error_text).replace("{needed}", denial.scope())
    }
}

impl SlackDenial {
    /// Creates a refusal with Slack's error name.
    pub(super) fn of(status: StatusCode, after: Option<Duration>, answer: &Value) -> Self {
        let field = |name| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let details = SlackRefusal { needed: field("needed") };
        Self { error_text: field("error"), details, ..Self::without_error(status, after, None) }
    }

    /// Creates a refusal without Slack's error name.
    pub(super) fn without_error(
        status: StatusCode,
        after: Option<Duration>,
        ambiguity: Option<String>,
    ) -> Self {
        Self { status: status.as_u16(), after, ambiguity, ..Self::default() }
    }

    /// Returns true if Slack would refuse again, and any other message, too.
    pub(super) fn is_permanent(&self) -> bool {
        self.kind() == DenialKind::Unsendable || self.error_text == MISSING_SCOPE
    }

    fn scope(&self) -> &str {
        if self.details.needed.is_empty() { "a scope" } else { &self.details.needed }
    }
}
