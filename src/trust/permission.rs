//! Decides about calls: one decision with its reason, in the words for the model, the person who is asked, and `peacrab
//! explain`. Pure.

use std::fmt;

use crate::conversation::asks::{ApprovalSettings, OnUntrusted};
use crate::people::Role;
use crate::trust::acts::{Reach, ToolKind, ToolTerms};
use crate::trust::table::{self, Act, Ruling, TurnState};
use crate::trust::taint::Taint;
use crate::types::message::ChatKind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    /// Somebody entitled must allow it first.
    Ask(PermissionReason),
    Deny(PermissionReason),
}

/// Why a call may not simply be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionReason {
    /// The tool is for others.
    Role { needs: Role, is: Role },
    /// The tool is for the owner, and so not for groups.
    Group,
    /// The config names the tool.
    Named,
    /// The config names the role of who asks.
    Asker(Role),
    /// The model has read untrusted content, whose authors may have asked for the act.
    Untrusted(Taint, Act),
    /// The act is asked about each time.
    EachTime(Act),
    /// Nobody can be asked in a turn that no person began. The ruling names the way that works.
    Unattended(Box<Self>, Ruling),
    /// It has this tool's work done later, which may not simply be done.
    StandsFor(&'static str, Box<Self>),
}

/// As the rest of a sentence.
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
            Self::Unattended(why, ruling) => {
                write!(f, "{why}; it needs approval, and nobody can be asked in this run")?;
                match ruling {
                    Ruling::Downloads => f.write_str(
                        " (what works: downloads/ for files, untrusted=true for commands; say in your report \
                         what you would have done)",
                    ),
                    Ruling::Do | Ruling::Ask | Ruling::Refuse => {
                        f.write_str(" (say in your report what you would have done)")
                    }
                }
            }
            Self::StandsFor(tool, why) => {
                write!(f, "it later does the same as {tool}: {why}")
            }
        }
    }
}

impl PermissionReason {
    /// Returns true if the call would tell others what was said in private.
    pub fn is_telling(&self) -> bool {
        matches!(self, Self::EachTime(Act::Tell) | Self::Untrusted(_, Act::Tell))
    }

    /// Returns true if a job whose author has named the tool or the site does it all the same.
    pub fn can_be_named_by_job(&self) -> bool {
        matches!(self, Self::Untrusted(_, Act::ActOutside | Act::OpenUrl))
    }

    /// Returns true if a permanent permission holds for it.
    pub fn can_be_granted(&self) -> bool {
        // What the config names is asked about each time, whatever anybody has said.
        matches!(self, Self::Asker(_))
    }
}

/// A call, as far as that matters here.
#[derive(Clone, Debug)]
pub struct PermissionRequest<'a> {
    pub tool: &'a str,
    pub terms: ToolTerms,
    pub reach: Reach,
    /// The person's, where they are.
    pub role: Role,
    /// The person's own, also in a group.
    pub own_role: Role,
    pub taint: Option<&'a Taint>,
    /// True if the model was shown the address that it asks for.
    pub knows_url: bool,
    /// A person began the turn, and can be asked.
    pub is_attended: bool,
}

pub fn decide(asked: &PermissionRequest<'_>, asking: &ApprovalSettings) -> Decision {
    let PermissionRequest { terms, role, .. } = *asked;
    if role < terms.role && asked.own_role >= terms.role {
        return Decision::Deny(PermissionReason::Group);
    }
    if role < terms.role {
        return Decision::Deny(PermissionReason::Role { needs: terms.role, is: role });
    }
    let act = Act::of(&asked.reach, asked.knows_url);
    let ruling =
        |is_tainted| table::decide(act, TurnState { is_tainted, is_attended: asked.is_attended });
    let each_time = Some((PermissionReason::EachTime(act), ruling(false)));
    let each_time = each_time.filter(|(_, ruling)| *ruling != Ruling::Do);
    let asks = match (ruling(false), asked.taint) {
        (clean, Some(taint))
            if act == Act::Tell || (clean == Ruling::Do && ruling(true) != Ruling::Do) =>
        {
            let why = PermissionReason::Untrusted(taint.clone(), act);
            match asking.untrusted {
                OnUntrusted::Ask => Some((why, ruling(true))),
                OnUntrusted::Deny => return Decision::Deny(why),
                OnUntrusted::Allow => each_time,
            }
        }
        _ => each_time,
    };
    let asks = asks.or_else(|| Some((by_config(asked, asking)?, Ruling::Refuse)));
    match asks {
        None => Decision::Allow,
        Some((why, _)) if asked.is_attended => Decision::Ask(why),
        Some((why, ruling)) => Decision::Deny(PermissionReason::Unattended(Box::new(why), ruling)),
    }
}

/// The one whose yes a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decider {
    /// The person for whom it is made, and nobody else.
    Person,
    /// Admins and the owner.
    Admins,
}

impl PermissionRequest<'_> {
    /// Returns who is asked about the call, if anybody is: the person alone, if it tells others what they said in
    /// private, or if their role allows it and it waits for the sake of their own data.
    pub fn decider(
        &self,
        decision: &Decision,
        chat_kind: ChatKind,
        asking: &ApprovalSettings,
    ) -> Decider {
        match decision {
            Decision::Ask(why) if why.is_telling() => Decider::Person,
            Decision::Ask(PermissionReason::Untrusted(..) | PermissionReason::EachTime(_))
                if chat_kind == ChatKind::Private && by_config(self, asking).is_none() =>
            {
                Decider::Person
            }
            _ => Decider::Admins,
        }
    }
}

/// Why the config has a call asked about, if it does.
fn by_config(asked: &PermissionRequest<'_>, asking: &ApprovalSettings) -> Option<PermissionReason> {
    if asking.approvals.names(asked.tool) {
        return Some(PermissionReason::Named);
    }
    let is_asked = asking.approvals.roles.contains(&asked.own_role);
    (asked.terms.kind != ToolKind::Reads && is_asked)
        .then_some(PermissionReason::Asker(asked.own_role))
}
