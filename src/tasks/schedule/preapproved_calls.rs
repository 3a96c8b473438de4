//! The calls that the runs of a job may make after they have read untrusted content, although nobody can be asked: calls
//! of these tools, and of pages of these sites. The person who creates the job names and approves them once. They are
//! stored with the prompt.

use reqwest::Url;
use serde::{Deserialize, Serialize};

use crate::replies;
use crate::trust::links::is_same_site;

/// Maximum number of tools and sites of a job.
const NAMED_MAX: usize = 8;

/// Maximum length of the name of a tool or a site (RFC 1035).
const NAME_CHARS_MAX: usize = 253;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PreapprovedCalls {
    tools: Vec<String>,
    /// Domains, such as `example.org`.
    sites: Vec<String>,
}

impl PreapprovedCalls {
    /// Parses names of tools and domains, which have a dot, separated by spaces or commas. The error is an explanation for
    /// people and models.
    pub fn parse(named: &str) -> Result<Self, String> {
        let is_separator = |character: char| character == ',' || character.is_whitespace();
        let named: Vec<_> = named.split(is_separator).filter(|name| !name.is_empty()).collect();
        if named.len() > NAMED_MAX {
            return Err(replies::too_many_unasked(NAMED_MAX));
        }
        let mut unasked = Self::default();
        for name in named {
            let wrong = || replies::wrong_unasked(name);
            if name.len() > NAME_CHARS_MAX {
                return Err(wrong());
            }
            if !name.contains('.') {
                let is_tool =
                    |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
                let tool = name.chars().all(is_tool).then(|| name.to_owned());
                unasked.tools.push(tool.ok_or_else(wrong)?);
                continue;
            }
            let site = site(name).ok_or_else(wrong)?;
            let is_domain = site.domain().is_some_and(|domain| psl::domain_str(domain).is_some());
            let host = site.host_str().filter(|host| is_domain && host.eq_ignore_ascii_case(name));
            unasked.sites.push(host.ok_or_else(wrong)?.to_owned());
        }
        Ok(unasked)
    }

    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub fn has_tool(&self, tool: &str) -> bool {
        self.tools.iter().any(|named| named == tool)
    }

    pub fn has_site_of(&self, url: &str) -> bool {
        let Ok(url) = Url::parse(url) else { return false };
        self.sites.iter().filter_map(|named| site(named)).any(|named| is_same_site(&named, &url))
    }

    /// Returns the end of a sentence that describes the calls. None if there are none.
    pub(super) fn words(&self) -> Option<String> {
        let named = self.tools.iter().chain(&self.sites).map(String::as_str);
        (!self.is_none()).then(|| replies::job_unasked(named))
    }
}

fn site(domain: &str) -> Option<Url> {
    Url::parse(&format!("https://{domain}/")).ok()
}
