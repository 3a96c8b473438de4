//! Whether a call may be made: one decision with its reason, in the words that the model, whoever is
//! asked and `peacrab explain` are told. Pure.

use std::fmt;

use crate::conversation::asks::{Asking, OnForeign};
use crate::people::Role;
use crate::trust::acts::{Kind, Reach, Terms};
use crate::trust::taint::Taint;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    /// Somebody entitled must allow it first.
    Ask(Why),
    Deny(Why),
}

/// Why a call may not simply be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The tool is for others.
    Role { needs: Role, is: Role },
    /// The tool is for the owner, and so not for groups.
    Group,
    /// The config names the tool.
    Named,
    /// The config names the role of who asks.
    Asker(Role),
    /// The model has read what strangers wrote, who may have asked for what goes so far.
    Foreign(Taint, Far),
    /// It has this tool's work done later, which may not simply be done.
    StandsFor(&'static str, Box<Self>),
}

/// What a call does that strangers must not talk a model into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Far {
    Outside,
    Rules,
    Memory,
    Url,
}

impl Far {
    fn of(asked: &Asked<'_>) -> Option<Self> {
        match asked.reach {
            Reach::Here => None,
            Reach::Outside => Some(Self::Outside),
            Reach::Rules => Some(Self::Rules),
            Reach::Memory => Some(Self::Memory),
            Reach::Url(_) => (!asked.knows_url).then_some(Self::Url),
        }
    }
}

/// As the beginning of a sentence.
impl fmt::Display for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outside => "it acts outside this conversation",
            Self::Rules => "it changes my instructions or skills",
            Self::Memory => "it changes my memory",
            Self::Url => "it opens an address that nobody here has named, or one link too many, which could leak data",
        })
    }
}

/// As the rest of a sentence.
impl fmt::Display for Why {
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
            Self::Foreign(taint, far) => write!(
                f,
                "{far}, and the model has read untrusted content ({taint}) that may have asked for it"
            ),
            Self::StandsFor(tool, why) => {
                write!(f, "it later does the same as {tool}: {why}")
            }
        }
    }
}

impl Why {
    /// Whether what was once allowed for good holds for it.
    pub fn can_be_granted(&self) -> bool {
        // What the config names is asked about each time, whatever anybody has said.
        matches!(self, Self::Asker(_))
    }
}

/// A call, as far as that matters here.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    pub tool: &'a str,
    pub terms: Terms,
    pub reach: Reach,
    /// The person's, where they are.
    pub role: Role,
    /// The person's own, also in a group.
    pub own_role: Role,
    pub taint: Option<&'a Taint>,
    /// Whether an address that it asks for stands in what the model was shown.
    pub knows_url: bool,
}

pub fn decide(asked: &Asked<'_>, asking: &Asking) -> Decision {
    let Asked { terms, role, .. } = *asked;
    if role < terms.role && asked.own_role >= terms.role {
        return Decision::Deny(Why::Group);
    }
    if role < terms.role {
        return Decision::Deny(Why::Role { needs: terms.role, is: role });
    }
    if let (Some(far), Some(taint)) = (Far::of(asked), asked.taint) {
        let why = Why::Foreign(taint.clone(), far);
        match asking.foreign {
            OnForeign::Ask => return Decision::Ask(why),
            OnForeign::Deny => return Decision::Deny(why),
            OnForeign::Allow => {}
        }
    }
    if asking.approvals.names(asked.tool) {
        return Decision::Ask(Why::Named);
    }
    if terms.kind != Kind::Reads && asking.approvals.roles.contains(&asked.own_role) {
        return Decision::Ask(Why::Asker(asked.own_role));
    }
    Decision::Allow
}
