//! Tools that suggest an action instead of doing it: the person answers yes or no, now or later.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Effect, Tool, ToolContext, ToolError, ToolOutput, ToolSpec, cut, tell};
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

    async fn call(&self, args: ProposeArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let title = title(&args.title)?;
        let body = body(&args.body)?;
        let sources = vec![Source::Proposal { read_others: cx.tainted }];
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

#[async_trait]
impl Tool for UpdateProposal {
    type Args = UpdateArgs;
    const SPEC: ToolSpec =
        ToolSpec::queues("update_proposal", "Change a proposal, or note what became of it.");

    async fn call(&self, args: UpdateArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let UpdateArgs { id, title: new_title, body: new_body, state } = args;
        let non_blank = |text: String| (!text.trim().is_empty()).then_some(text);
        let (new_title, new_body) = (non_blank(new_title), non_blank(new_body));
        let session = cx.session;
        let found = cx.actions.store.read(move |store| proposals::get(store, session, id)).await;
        let Some(before) = found? else {
            return tell(format!("There is no proposal {id} here; list_proposals shows them."));
        };
        if new_title.is_none() && new_body.is_none() && state.is_none() {
            return tell("Nothing to change: give title, body or state.".to_owned());
        }
        let title = new_title.as_deref().map(title).transpose()?;
        let body = new_body.as_deref().map(body).transpose()?;
        let mut sources = before.sources.clone();
        if title.is_some() || body.is_some() {
            source::add(&mut sources, &Source::Proposal { read_others: cx.tainted });
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

/// Returns the title as one line, so that it cannot look like a line of the program.
fn title(text: &str) -> Result<String, ToolError> {
    let title = one_line(text);
    match title.chars().count() {
        1..=TITLE_CHARS_MAX => Ok(title),
        _ => Err(ToolError::TellModel(format!("A title has 1 to {TITLE_CHARS_MAX} characters."))),
    }
}

fn body(text: &str) -> Result<String, ToolError> {
    let body = text.trim();
    match body.chars().count() {
        1..=BODY_CHARS_MAX => Ok(body.to_owned()),
        _ => Err(ToolError::TellModel(format!("A body has 1 to {BODY_CHARS_MAX} characters."))),
    }
}
