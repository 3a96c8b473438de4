//! The tool that has something done later, or again and again.

use async_trait::async_trait;
use chrono::Utc;

use super::{
    AnyTool, Effect, Kind, Reach, Terms, Tool, ToolContext, ToolError, ToolOutput, ToolSpec, shell,
};
use crate::people::Role;
use crate::provider::{ASK_QUESTION, ToolSchema};
use crate::tasks::schedule::{Asker, Wanted, Whose};
use crate::types::job_verb::JobVerb;
use crate::types::message::{Address, Place};

pub(super) const NAME: &str = "schedule";

/// What a job in a session of its own cannot call: it makes no jobs, and hands nothing on.
pub(super) const NOT_FOR_JOBS: &[&str] =
    &[NAME, "converse", "propose", "update_proposal", "list_proposals", "spawn", "subagent"];

/// The same of a heartbeat, which has `converse`, and asks by it.
pub(super) const NOT_FOR_HEARTBEATS: &[&str] =
    &[NAME, ASK_QUESTION, "propose", "update_proposal", "list_proposals", "spawn", "subagent"];

pub(super) struct Schedule;

#[async_trait]
impl Tool for Schedule {
    type Args = Wanted;
    const SPEC: ToolSpec = ToolSpec {
        name: NAME,
        description: "Do something later or regularly: text is a prompt, a message or a command.",
        role: Role::User,
        kind: Kind::Queues,
        retries: false,
    };

    /// What is done later is not looked at by anybody then.
    fn reach(args: &Wanted, _: &Address) -> Reach {
        if args.action == JobVerb::List { Reach::Here } else { Reach::Outside }
    }

    /// What a command does later is what it would do now.
    fn stands_for(args: &Wanted) -> Option<&'static str> {
        args.has_command().then_some(shell::EXEC)
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
        let effect = Effect::Schedule { whose, order, zone: cx.now.timezone() };
        Ok(ToolOutput::effect("", effect))
    }
}

/// The same where no commands are run: models are not told of them.
pub(super) struct WithoutCommands;

#[async_trait]
impl AnyTool for WithoutCommands {
    fn terms(&self) -> Terms {
        Schedule.terms()
    }

    fn schema(&self) -> ToolSchema {
        let mut schema = AnyTool::schema(&Schedule);
        schema.description =
            "Have something done later or regularly: text is a prompt, or sent as it is."
                .to_owned();
        let properties = &mut schema.parameters["properties"];
        if let Some(properties) = properties.as_object_mut() {
            properties.remove("check");
        }
        if let Some(kinds) = properties["kind"]["enum"].as_array_mut() {
            kinds.retain(|kind| kind != "command");
        }
        schema
    }

    fn check(&self, arguments: &str) -> Result<(), String> {
        AnyTool::check(&Schedule, arguments)
    }

    fn reach(&self, arguments: &str, here: &Address) -> Reach {
        AnyTool::reach(&Schedule, arguments, here)
    }

    fn stands_for(&self, arguments: &str) -> Option<&'static str> {
        AnyTool::stands_for(&Schedule, arguments)
    }

    async fn call_json(&self, arguments: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        Schedule.call_json(arguments, cx).await
    }
}
