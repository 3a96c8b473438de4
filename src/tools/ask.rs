//! The tool that asks the person: the turn waits for the answer.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSpec, message, tell};
use crate::people::Role;
use crate::provider::ASK_QUESTION;
use crate::types::message::{AllowedPressers, Body, Question};

const QUESTION_CHARS_MAX: usize = 2_000;

pub struct AskQuestion;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    question: String,
    #[serde(default)]
    choices: Vec<String>,
}

#[async_trait]
impl Tool for AskQuestion {
    type Args = Args;
    const SPEC: ToolSpec = ToolSpec {
        name: ASK_QUESTION,
        description: "Ask the person what you need to know, and wait for the answer.",
        role: Role::Guest,
        kind: ToolKind::Queues,
        retries: false,
    };

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let question = args.question.trim();
        if question.is_empty() {
            return tell("The question has no text.".to_owned());
        }
        if question.chars().count() > QUESTION_CHARS_MAX {
            return tell(format!("A question has at most {QUESTION_CHARS_MAX} characters."));
        }
        let choices = message::choices(&args.choices).map_err(ToolError::TellModel)?;
        let text = question.to_owned();
        let body = match choices.is_empty() {
            true => Body::Text(text),
            false => {
                let who = AllowedPressers::Only(cx.who.id.clone());
                Body::Choice(Question::new(text, choices, who))
            }
        };
        Ok(ToolOutput::Asks(body))
    }
}
