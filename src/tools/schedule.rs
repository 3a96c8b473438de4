//! The tool that schedules work for later, once or regularly.

use async_trait::async_trait;
use chrono::Utc;

use super::{
    AnyTool, CallPlace, CallTerms, Effect, Reach, Tool, ToolContext, ToolError, ToolOutput,
    ToolSpec, ToolTerms, shell,
};
use crate::channels::markup::unescaped;
use crate::provider::{ASK_QUESTION, ToolSchema};
use crate::tasks::schedule::{JobRequest, JobRequester};
use crate::types::job_verb::JobVerb;
use crate::types::message::{Address, Sender};

/// The name of the tool.
pub const SCHEDULE: &str = "schedule";

/// Tools that a job in a session of its own cannot call: it creates no jobs, and delegates nothing.
pub(super) const NOT_FOR_JOBS: &[&str] =
    &[SCHEDULE, "converse", "propose", "update_proposal", "list_proposals", "spawn", "subagent"];

/// The same for a heartbeat run, which has `converse`, and asks with it.
pub(super) const NOT_FOR_HEARTBEATS: &[&str] =
    &[SCHEDULE, ASK_QUESTION, "propose", "update_proposal", "list_proposals", "spawn", "subagent"];

pub(super) struct Schedule;

#[async_trait]
impl Tool for Schedule {
    type Args = JobRequest;
    const SPEC: ToolSpec = ToolSpec::queues(SCHEDULE, "Do something later or regularly.");

    /// Nobody watches scheduled work when it runs.
    fn reach(args: &JobRequest, _: &Address) -> Reach {
        match args.action {
            JobVerb::List => Reach::Here,
            JobVerb::Add | JobVerb::Edit if args.is_granting() => Reach::JobNeeds,
            _ => Reach::Outside,
        }
    }

    /// A scheduled command has the same effect as an immediate one.
    fn stands_for(args: &JobRequest) -> Option<&'static str> {
        args.has_command().then_some(shell::EXEC)
    }

    fn kept_text(args: &JobRequest) -> Option<&str> {
        args.is_reminder().then_some(&*args.text)
    }

    fn kept_time(args: &JobRequest) -> Option<&str> {
        args.is_reminder().then_some(&*args.when)
    }

    fn check_args(&self, args: &JobRequest, place: &CallPlace<'_>) -> Result<(), String> {
        // Nothing that is refused here depends on the person.
        let asker = JobRequester {
            to: place.at.clone(),
            known_on: place.at.channel.clone(),
            chat_kind: place.chat_kind,
            sender: Sender::person("", ""),
            tainted: false,
        };
        args.clone()
            .read(asker, Utc::now(), place.zone)
            .map(drop)
            .map_err(|words| unescaped(&words))
    }

    async fn call(&self, args: JobRequest, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let requester = JobRequester {
            to: cx.address.clone(),
            known_on: cx.address.channel.clone(),
            chat_kind: cx.chat_kind,
            sender: cx.who.clone(),
            tainted: cx.tainted,
        };
        let (role, zone) = (cx.role, cx.now.timezone());
        let order = args
            .read(requester.clone(), Utc::now(), zone)
            .map_err(|words| ToolError::TellModel(unescaped(&words)))?;
        let requester = Box::new(requester);
        let effect = Effect::Schedule { requester, role, order, zone, in_words_of: None };
        Ok(ToolOutput::effect("", effect))
    }
}

/// The same tool where commands, or commands with the network, are not offered: models do not see that they exist.
pub(super) struct LimitedSchedule {
    pub(super) offers_commands: bool,
}

#[async_trait]
impl AnyTool for LimitedSchedule {
    fn terms(&self) -> ToolTerms {
        Schedule.terms()
    }

    fn schema(&self) -> ToolSchema {
        let mut schema = Schedule.schema();
        let properties = &mut schema.parameters["properties"];
        let hidden: &[&str] = match self.offers_commands {
            true => &["network"],
            false => &["network", "paths", "check"],
        };
        if let Some(properties) = properties.as_object_mut() {
            properties.retain(|name, _| !hidden.contains(&name.as_str()));
        }
        if !self.offers_commands
            && let Some(kinds) = properties["kind"]["enum"].as_array_mut()
        {
            kinds.retain(|kind| kind != "command");
        }
        schema
    }

    fn check(&self, arguments: &str, place: &CallPlace<'_>) -> Result<(), String> {
        Schedule.check(arguments, place)
    }

    fn call_terms(&self, arguments: &str, here: &Address) -> CallTerms {
        Schedule.call_terms(arguments, here)
    }

    async fn call_json(&self, arguments: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        Schedule.call_json(arguments, cx).await
    }
}
