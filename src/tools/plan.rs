//! The model's plan, step by step. Kept with the conversation, shown to the model with each new message
//! while an item is open, and to people by `/plan`.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{CallPlace, Effect, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use crate::short_text::one_line;
use crate::types::session::{Plan, PlanItem};

/// Maximum number of items. A plan is shown again with each message.
const ITEMS_MAX: usize = 20;
const ITEM_CHARS_MAX: usize = 200;

pub struct KeepPlan;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    items: Vec<PlanItem>,
}

#[async_trait]
impl Tool for KeepPlan {
    type Args = Args;
    const SPEC: ToolSpec = ToolSpec::queues(
        "plan",
        "Keep your whole plan for a task of several steps; no items drop it.",
    );

    fn check_args(&self, args: &Args, _: &CallPlace<'_>) -> Result<(), String> {
        if args.items.len() > ITEMS_MAX {
            return Err(format!("A plan has at most {ITEMS_MAX} items; join some."));
        }
        args.items.iter().try_for_each(|item| item_text(item).map(drop))
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let mut items = args.items;
        for item in &mut items {
            item.text = item_text(item).map_err(ToolError::TellModel)?;
        }
        let plan = Plan { items, tainted: cx.tainted, by: Some(cx.author()) };
        let for_model = match plan.items.is_empty() {
            true => "The plan is dropped.",
            false => "The plan is kept.",
        };
        Ok(ToolOutput::effect(for_model, Effect::Plan(plan)))
    }
}

/// Returns the text of an item on one line, so that it cannot look like a line of the program.
fn item_text(item: &PlanItem) -> Result<String, String> {
    let text = one_line(&item.text);
    match text.chars().count() {
        0 => Err("An item of the plan has no text.".to_owned()),
        1..=ITEM_CHARS_MAX => Ok(text),
        length => {
            Err(format!("An item has {length} characters; at most {ITEM_CHARS_MAX} are kept."))
        }
    }
}
