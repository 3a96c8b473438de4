//! Decides about calls. A decision has one reason, whose text is for the model, for the person who is asked, and for
//! `peacrab explain`. Pure.

use std::fmt;

use crate::conversation::asks::{ApprovalSettings, OnUntrusted};
use crate::people::Role;
use crate::trust::acts::{CommandAccess, Reach, ToolKind, ToolTerms};
use crate::trust::table::{self, Act, Ruling, TurnState};
use crate::trust::taint::Taint;
use crate::types::message::ChatKind;
use crate::workspace::Folder;

/// The decision about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    /// An entitled person must approve it first.
    Ask(PermissionReason),
    Deny(PermissionReason),
}

/// The reason why a call needs approval or is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionReason {
    /// The tool needs a higher role.
    Role { needs: Role, is: Role },
    /// The tool is for the owner in private, and this is a group.
    Group,
    /// The config requires approval for the tool.
    Named,
    /// The config requires approval for the role of the person.
    Asker(Role),
    /// The model has read untrusted content, which may have requested the act.
    Untrusted(Taint, Act),
    /// The act needs approval each time.
    EachTime(Act),
    /// Approval is needed, but nobody can be asked in an unattended turn. The ruling names an alternative.
    Unattended(Box<Self>, Ruling),
    /// The call does the work of this tool later, and that call would not be allowed.
    StandsFor(&'static str, Box<Self>),
}

/// Writes the reason as the rest of a sentence.
impl fmt::Display for PermissionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role { needs, is } => {
                write!(f, "it needs the role {needs}, and the person who asked has the role {is}")
            }
            Self::Group => {
                f.write_str("only the owner can use it, in a private chat, and this is a group")
            }
            Self::Named => {
                f.write_str("the config requires approval for this tool (approve_tools)")
            }
            Self::Asker(role) => {
                write!(f, "the config requires approval for the role {role} (approve_roles)")
            }
            Self::Untrusted(taint, act) => write!(
                f,
                "it {act}, and the model has read untrusted content ({taint}) that may have asked for it"
            ),
            Self::EachTime(act) => write!(f, "it {act}"),
            Self::Unattended(why, _) => {
                write!(f, "{why}; it needs approval, and nobody can be asked in this run")
            }
            Self::StandsFor(tool, why) => {
                write!(f, "it later does the same as {tool}: {why}")
            }
        }
    }
}

impl PermissionReason {
    /// Returns the way that works after a refusal, as the rest of a sentence: in place of the call, or to its permission.
    pub fn alternative(&self) -> String {
        match self {
            Self::Role { needs, .. } => {
                format!("only that somebody with the role {needs} asks for it")
            }
            Self::Group => "only that the owner asks for it in a private chat".to_owned(),
            Self::Named | Self::Asker(_) | Self::EachTime(_) => {
                "only that somebody who is asked allows it".to_owned()
            }
            Self::Untrusted(_, Act::WriteToCommand) => {
                "kill it and begin a new command with untrusted=true and the text as `stdin`"
                    .to_owned()
            }
            Self::Untrusted(_, act) => match way_in_downloads(*act) {
                Some(way) => way.to_owned(),
                None => "only a conversation without untrusted content: the person can use /clean in private, or /new, and \
                         ask again"
                    .to_owned(),
            },
            Self::Unattended(why, ruling) => why.way_unattended(*ruling),
            Self::StandsFor(_, why) => why.alternative(),
        }
    }

    /// Returns the same where nobody can be asked. A report of the call goes to people by itself, and they can allow it
    /// later.
    fn way_unattended(&self, ruling: Ruling) -> String {
        let instead = self.act().filter(|_| ruling == Ruling::Downloads).and_then(way_in_downloads);
        let report = "say in your report what you would have done";
        match instead {
            Some(way) => format!("{way}, or {report}"),
            None if self.can_be_named_by_job() => {
                format!(
                    "only to {report}; for a job, the person can name the tool or the site beforehand"
                )
            }
            None => format!("only to {report}"),
        }
    }

    /// The act that needs approval. None if the config or the role decides.
    fn act(&self) -> Option<Act> {
        match self {
            Self::Untrusted(_, act) | Self::EachTime(act) => Some(*act),
            Self::Unattended(why, _) | Self::StandsFor(_, why) => why.act(),
            Self::Role { .. } | Self::Group | Self::Named | Self::Asker(_) => None,
        }
    }

    /// Returns true if the call would send private content to others.
    pub fn sends_elsewhere(&self) -> bool {
        matches!(self, Self::EachTime(Act::Tell) | Self::Untrusted(_, Act::Tell))
    }

    fn can_be_named_by_job(&self) -> bool {
        matches!(self, Self::Untrusted(_, Act::ActOutside | Act::OpenUrl))
    }

    /// Returns true if a permanent permission covers it.
    pub fn can_be_granted(&self) -> bool {
        // Tools that the config names need approval each time.
        matches!(self, Self::Asker(_))
    }
}

/// Returns how the same act is done in the downloads, which need no approval. None if it cannot be done there.
fn way_in_downloads(act: Act) -> Option<&'static str> {
    match act {
        Act::Write(Folder::Workspace | Folder::Shared) => Some("save it to downloads/"),
        Act::Run(CommandAccess::Workspace) => {
            Some("run it with untrusted=true, which sees downloads/ in place of the workspace")
        }
        Act::Run(CommandAccess::Named) => {
            Some("run it with untrusted=true and without paths of the workspace, in downloads/")
        }
        Act::Run(CommandAccess::Shared) => {
            Some("run it with untrusted=true and without these paths, in downloads/")
        }
        Act::Stay
        | Act::Write(Folder::Downloads | Folder::Group)
        | Act::WriteInstructions
        | Act::WriteMemory
        | Act::Run(
            CommandAccess::Downloads
            | CommandAccess::Network
            | CommandAccess::AskedNetwork
            | CommandAccess::NamedAndShared
            | CommandAccess::Both,
        )
        | Act::WriteToCommand
        | Act::OpenNamedUrl
        | Act::OpenUrl
        | Act::GrantJob
        | Act::ActOutside
        | Act::Tell => None,
    }
}

/// The properties of a call on which the decision depends.
#[derive(Clone, Debug)]
pub struct PermissionRequest<'a> {
    pub tool: &'a str,
    pub terms: ToolTerms,
    pub reach: Reach,
    /// The role that counts for tools in this chat.
    pub role: Role,
    /// The person's own role, also in a group.
    pub own_role: Role,
    pub taint: Option<&'a Taint>,
    /// True if the requested URL may be opened without approval.
    pub knows_url: bool,
    /// True if a person began the turn and can be asked.
    pub is_attended: bool,
}

/// Decides about a call by role, act, taint and config.
pub fn decide(request: &PermissionRequest<'_>, asking: &ApprovalSettings) -> Decision {
    let PermissionRequest { terms, role, .. } = *request;
    if role < terms.role && request.own_role >= terms.role {
        return Decision::Deny(PermissionReason::Group);
    }
    if role < terms.role {
        return Decision::Deny(PermissionReason::Role { needs: terms.role, is: role });
    }
    let act = Act::of(&request.reach, request.knows_url);
    let ruling =
        |is_tainted| table::decide(act, TurnState { is_tainted, is_attended: request.is_attended });
    let each_time = Some((PermissionReason::EachTime(act), ruling(false)));
    let each_time = each_time.filter(|(_, ruling)| *ruling != Ruling::Do);
    let asks = match (ruling(false), request.taint) {
        (clean, Some(taint))
            if act == Act::Tell || (clean == Ruling::Do && ruling(true) != Ruling::Do) =>
        {
            let why = PermissionReason::Untrusted(taint.clone(), act);
            // No approval allows it, now or later.
            let tainted = TurnState { is_tainted: true, is_attended: true };
            let is_refused = table::decide(act, tainted) == Ruling::Refuse;
            match asking.untrusted {
                OnUntrusted::Ask if !is_refused => Some((why, ruling(true))),
                OnUntrusted::Ask | OnUntrusted::Deny => return Decision::Deny(why),
                OnUntrusted::Allow => each_time,
            }
        }
        _ => each_time,
    };
    let asks = asks.or_else(|| Some((by_config(request, asking)?, Ruling::Refuse)));
    match asks {
        None => Decision::Allow,
        Some((why, _)) if request.is_attended => Decision::Ask(why),
        Some((why, ruling)) => Decision::Deny(PermissionReason::Unattended(Box::new(why), ruling)),
    }
}

/// The people whose approval a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decider {
    /// Only the person for whom the call is made.
    Person,
    /// Admins and the owner.
    Admins,
}

impl PermissionRequest<'_> {
    /// Returns true if the author of the job that makes the call can allow it by naming its tool or site.
    pub fn can_be_named_by_job(&self, why: &PermissionReason, asking: &ApprovalSettings) -> bool {
        // The config's approvals are the owner's, and no author of a job gives them.
        !self.is_attended && why.can_be_named_by_job() && by_config(self, asking).is_none()
    }

    /// Returns who decides about the call if approval is needed, now or once its run has ended. The person alone decides
    /// if the call sends their private content to others, or if approval only protects their own data.
    pub fn decider(
        &self,
        decision: &Decision,
        chat_kind: ChatKind,
        asking: &ApprovalSettings,
    ) -> Decider {
        let why = match decision {
            Decision::Ask(why) => why,
            Decision::Deny(PermissionReason::Unattended(why, _)) => &**why,
            Decision::Allow | Decision::Deny(_) => return Decider::Admins,
        };
        match why {
            why if why.sends_elsewhere() => Decider::Person,
            PermissionReason::Untrusted(..) | PermissionReason::EachTime(_)
                if chat_kind == ChatKind::Private && by_config(self, asking).is_none() =>
            {
                Decider::Person
            }
            _ => Decider::Admins,
        }
    }
}

/// Returns the reason if the config requires approval of a call.
fn by_config(
    request: &PermissionRequest<'_>,
    asking: &ApprovalSettings,
) -> Option<PermissionReason> {
    if asking.approvals.names(request.tool) {
        return Some(PermissionReason::Named);
    }
    let needs_approval = asking.approvals.roles.contains(&request.own_role);
    (request.terms.kind != ToolKind::Reads && needs_approval)
        .then_some(PermissionReason::Asker(request.own_role))
}
