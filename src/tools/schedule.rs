//! The tool that has something done later, or again and again.

use async_trait::async_trait;
use chrono::Utc;

use super::{Effect, Kind, Reach, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use crate::message::{Address, Place};
use crate::people::Role;
use crate::schedule::{Action, Asker, Wanted, Whose};

pub(super) const NAME: &str = "schedule";

/// What a job in a session of its own cannot call: it makes no jobs, and hands nothing on.
pub(super) const NOT_FOR_JOBS: &[&str] =
    &[NAME, "converse", "propose", "update_proposal", "list_proposals", "spawn", "subagent"];

pub struct Schedule;

#[async_trait]
impl Tool for Schedule {
    type Args = Wanted;
    const SPEC: ToolSpec = ToolSpec {
        name: NAME,
        description: "Have something done later or regularly: text is a prompt, or sent as it is.",
        role: Role::User,
        kind: Kind::Queues,
        retries: false,
    };

    /// What is done later is not looked at by anybody then.
    fn reach(args: &Wanted, _: &Address) -> Reach {
        if args.action == Action::List { Reach::Here } else { Reach::Outside }
    }

    async fn call(&self, args: Wanted, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let asker = Asker {
            to: cx.address.clone(),
            known_on: cx.address.channel.clone(),
            place: cx.place,
            sender: cx.who.clone(),
            tainted: cx.tainted,
        };
        let whose = match (cx.role, cx.place) {
            (Role::Owner, Place::Private) => Whose::All,
            _ => Whose::Of(asker.known_on.clone(), asker.sender.id.clone()),
        };
        let order =
            args.read(asker, Utc::now(), cx.now.timezone()).map_err(ToolError::TellModel)?;
        let effects = vec![Effect::Schedule { whose, order, zone: cx.now.timezone() }];
        Ok(ToolOutput { effects, ..ToolOutput::default() })
    }
}
