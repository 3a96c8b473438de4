//! Saying whether a call would be made, and why not, by the function that decides it.

use anyhow::Context as _;
use chrono_tz::Tz;
use clap::Args;
use serde_json::json;

use crate::conversation::asks::ApprovalSettings;
use crate::people::Role;
use crate::tools::memory::{NOTE, REMEMBER};
use crate::tools::{AnyTool, CallPlace, CallTerms, ToolSet};
use crate::trust::acts::tool_role;
use crate::trust::permission::{Decision, PermissionReason, PermissionRequest, decide};
use crate::trust::table::Act;
use crate::trust::taint::Taint;
use crate::types::message::{Address, ChatKind};
use crate::types::person::FolderOwner;

/// The account of the person in an explanation. Nothing belongs to it.
const NOBODY: &str = "nobody";

#[derive(Args)]
pub(super) struct Explain {
    /// The name of the tool (tools of MCP servers are known only to the running daemon)
    tool: String,
    /// The arguments of the call, as JSON; without them, they are not checked
    arguments: Option<String>,
    /// The role of the person: guest, user, admin or owner
    #[arg(long, default_value = "owner", value_parser = role)]
    role: Role,
    /// In a group, where the owner's own tools are not available
    #[arg(long)]
    group: bool,
    /// In a conversation that has read untrusted content
    #[arg(long, alias = "foreign")]
    untrusted: bool,
    /// In a run of a job or of the heartbeat, where nobody can be asked
    #[arg(long)]
    unattended: bool,
    /// The chat of the call, as CHANNEL:CHAT[:THREAD]
    #[arg(long, default_value = "terminal:main", value_name = "ADDRESS")]
    at: Address,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// The decision about a call, and a sentence with the reason.
struct CallVerdict {
    /// `allow`, `ask` or `deny`.
    decision: &'static str,
    words: String,
}

impl CallVerdict {
    fn deny(words: String) -> Self {
        Self { decision: "deny", words }
    }
}

fn role(word: &str) -> Result<Role, String> {
    let all = [Role::Guest, Role::User, Role::Admin, Role::Owner];
    let found = all.into_iter().find(|role| role.to_string() == word);
    found.ok_or_else(|| "must be guest, user, admin or owner".to_owned())
}

impl Explain {
    /// Checks the arguments as the tool itself does, if there are any.
    fn check(&self, tool: &dyn AnyTool, role: Role, chat_kind: ChatKind) -> Result<(), String> {
        let Some(arguments) = &self.arguments else { return Ok(()) };
        // Nobody's folder, and the channel as the call names it: only the running daemon knows more.
        let owner = FolderOwner::Account(self.at.channel.clone(), NOBODY.into());
        let place = CallPlace {
            role,
            chat_kind,
            at: &self.at,
            owner: &owner,
            arrived_here: &[],
            channels: None,
            zone: Tz::UTC,
        };
        tool.check(arguments, &place)
    }

    /// The decision and its reason, in a sentence or as JSON.
    pub(super) fn shown(
        &self,
        tools: &ToolSet,
        asking: &ApprovalSettings,
    ) -> anyhow::Result<String> {
        let CallVerdict { decision, words } = self.explanation(tools, asking)?;
        Ok(match self.json {
            true => {
                format!("{:#}", json!({ "decision": decision, "tool": self.tool, "words": words }))
            }
            false => format!("{decision}: {words}"),
        })
    }

    fn explanation(
        &self,
        tools: &ToolSet,
        asking: &ApprovalSettings,
    ) -> anyhow::Result<CallVerdict> {
        let arguments = self.arguments.as_deref().unwrap_or("{}");
        serde_json::from_str::<serde_json::Value>(arguments)
            .context("the arguments are not JSON")?;
        let (tool_behind, terms) =
            tools.authorise(&self.tool, Role::Owner).map_err(anyhow::Error::msg)?;
        let taint = Taint::Tool("read_file".to_owned());
        let chat_kind = if self.group { ChatKind::Group } else { ChatKind::Private };
        let role = tool_role(self.role, chat_kind);
        if let Err(why) = self.check(&*tool_behind, role, chat_kind) {
            return Ok(CallVerdict::deny(format!("{} cannot begin: {why}", self.tool)));
        }
        if self.group && [REMEMBER, NOTE].contains(&self.tool.as_str()) {
            let tool = &self.tool;
            return Ok(CallVerdict::deny(format!(
                "{tool} is refused, because it works in a private chat only."
            )));
        }
        let CallTerms { reach, stands_for, .. } = tool_behind.call_terms(arguments, &self.at);
        let reach = reach.within(chat_kind);
        let act = Act::of(&reach, false);
        let asked = PermissionRequest {
            tool: &self.tool,
            terms,
            reach,
            role,
            own_role: self.role,
            taint: self.untrusted.then_some(&taint),
            knows_url: false,
            is_attended: !self.unattended,
        };
        let tool = &self.tool;
        let decision = match (decide(&asked, asking), stands_for) {
            (Decision::Allow, Some(other)) => {
                let (_, terms) = tools.authorise(other, Role::Owner).map_err(anyhow::Error::msg)?;
                let of = |why| PermissionReason::StandsFor(other, Box::new(why));
                match decide(&PermissionRequest { tool: other, terms, ..asked }, asking) {
                    Decision::Allow => Decision::Allow,
                    Decision::Ask(why) => Decision::Ask(of(why)),
                    Decision::Deny(why) => Decision::Deny(of(why)),
                }
            }
            (decision, _) => decision,
        };
        Ok(match decision {
            Decision::Allow => CallVerdict {
                decision: "allow",
                words: format!("{tool} {act}, and no rule restricts it."),
            },
            Decision::Ask(why) => CallVerdict {
                decision: "ask",
                words: format!("{tool} needs approval first, because {why}."),
            },
            Decision::Deny(why) => CallVerdict::deny(format!(
                "{tool} is refused, because {why}. What works: {}.",
                why.alternative()
            )),
        })
    }
}
