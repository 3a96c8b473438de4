//! Tools that suggest an action instead of doing it: the person answers yes or no, now or later.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{CallPlace, Effect, Tool, ToolContext, ToolError, ToolOutput, ToolSpec, cut, tell};
use crate::conversation::proposals::{self, NewProposal, Proposal, ProposalChange, ProposalState};
use crate::short_text::one_line;
use crate::types::source::{self, Source};

const TITLE_CHARS_MAX: usize = 120;
const BODY_CHARS_MAX: usize = 3_000;

pub struct Propose;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposeArgs {
    title: String,
    body: String,
}

#[async_trait]
impl Tool for Propose {
    type Args = ProposeArgs;
    const SPEC: ToolSpec = ToolSpec::queues(
        "propose",
        "Suggest something instead of doing it; the person answers yes or no.",
    );

    fn check_args(&self, args: &ProposeArgs, _: &CallPlace<'_>) -> Result<(), String> {
        proposed_title(&args.title)?;
        proposed_body(&args.body).map(drop)
    }

    async fn call(&self, args: ProposeArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let title = proposed_title(&args.title).map_err(ToolError::TellModel)?;
        let body = proposed_body(&args.body).map_err(ToolError::TellModel)?;
        let sources = vec![source_of(cx)];
        let proposal = NewProposal { to: cx.address.clone(), title, body, sources };
        Ok(ToolOutput::effect(
            "Proposed. The person's yes or no comes as a message.",
            Effect::Propose(proposal),
        ))
    }
}

pub struct UpdateProposal;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateArgs {
    id: i64,
    #[serde(default)]
    title: String,
    #[serde(default)]
    body: String,
    #[schemars(with = "ProposalState")]
    #[serde(default)]
    state: Option<ProposalState>,
}

impl UpdateArgs {
    /// Returns the new title and the new body. None for each that stays as it is.
    fn texts(&self) -> Result<(Option<String>, Option<String>), String> {
        let given = |text: &str| !text.trim().is_empty();
        let title = given(&self.title).then(|| proposed_title(&self.title)).transpose()?;
        let body = given(&self.body).then(|| proposed_body(&self.body)).transpose()?;
        Ok((title, body))
    }
}

#[async_trait]
impl Tool for UpdateProposal {
    type Args = UpdateArgs;
    const SPEC: ToolSpec =
        ToolSpec::queues("update_proposal", "Change a proposal, or note what became of it.");

    fn check_args(&self, args: &UpdateArgs, _: &CallPlace<'_>) -> Result<(), String> {
        let (title, body) = args.texts()?;
        match title.is_none() && body.is_none() && args.state.is_none() {
            true => Err("Nothing to change: give title, body or state.".to_owned()),
            false => Ok(()),
        }
    }

    async fn call(&self, args: UpdateArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let (title, body) = args.texts().map_err(ToolError::TellModel)?;
        let UpdateArgs { id, state, .. } = args;
        let session = cx.session;
        let found = cx.actions.store.read(move |store| proposals::get(store, session, id)).await;
        let Some(before) = found? else {
            return tell(format!("There is no proposal {id} here; list_proposals shows them."));
        };
        let mut sources = before.sources.clone();
        if title.is_some() || body.is_some() {
            source::add(&mut sources, &source_of(cx));
        }
        let change = ProposalChange { id, title, body, state, sources };
        let after = Proposal {
            title: change.title.clone().unwrap_or(before.title),
            state: state.unwrap_or(before.state),
            ..before
        };
        let for_model = format!("Now: {}", after.describe());
        Ok(ToolOutput::effect(for_model, Effect::UpdateProposal(change)))
    }
}

pub struct ListProposals;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListProposalsArgs {}

#[async_trait]
impl Tool for ListProposals {
    type Args = ListProposalsArgs;
    const SPEC: ToolSpec = ToolSpec::reads("list_proposals", "List your proposals here.");

    async fn call(&self, _: ListProposalsArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let session = cx.session;
        let found = cx.actions.store.read(move |store| proposals::list(store, session)).await;
        let found = found?;
        if found.is_empty() {
            return Ok(ToolOutput::text("There are no proposals."));
        }
        let lines = found.iter().map(|it| format!("{}\n{}", it.describe(), it.body));
        let lines = lines.collect::<Vec<_>>().join("\n\n");
        let mut sources = Vec::new();
        let of_all = found.iter().flat_map(|it| &it.sources);
        of_all.for_each(|source| source::add(&mut sources, source));
        Ok(ToolOutput::Text { for_model: cut(&lines, "The oldest are left out."), sources })
    }
}

/// Returns the source of what the model of a turn proposes.
fn source_of(cx: &ToolContext) -> Source {
    Source::Proposal { by: Some(cx.author()), read_others: cx.tainted }
}

/// Returns the title as one line, so that it cannot look like a line of the program.
fn proposed_title(text: &str) -> Result<String, String> {
    let title = one_line(text);
    match title.chars().count() {
        1..=TITLE_CHARS_MAX => Ok(title),
        _ => Err(format!("A title has 1 to {TITLE_CHARS_MAX} characters.")),
    }
}

fn proposed_body(text: &str) -> Result<String, String> {
    let body = text.trim();
    match body.chars().count() {
        1..=BODY_CHARS_MAX => Ok(body.to_owned()),
        _ => Err(format!("A body has 1 to {BODY_CHARS_MAX} characters.")),
    }
}
