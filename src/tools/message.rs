//! The tool that sends a message beside the answer.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Effect, Kind, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use crate::message::{Address, Body};
use crate::people::Role;
use crate::session::{Call, Outcome};

const NAME: &str = "message";

/// A longer one is better written into a file.
const TEXT_CHARS_MAX: usize = 20_000;

pub struct SendMessage;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// What to say, in Markdown.
    text: String,
    /// Where to, as CHANNEL:CHAT or CHANNEL:CHAT:THREAD; left out, here.
    #[serde(default)]
    to: String,
}

#[async_trait]
impl Tool for SendMessage {
    type Args = Args;
    const SPEC: ToolSpec = ToolSpec {
        name: NAME,
        description: "Send a message besides your answer: to another chat, or here while you go on working. \
                      Your answer itself needs no tool.",
        role: Role::User,
        kind: Kind::Queues,
        retries: false,
    };

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let tell = |words: String| Err(ToolError::TellModel(words));
        let to = match args.to.trim() {
            "" => cx.address.clone(),
            to => to.parse::<Address>().map_err(ToolError::TellModel)?,
        };
        if args.text.trim().is_empty() {
            return tell("text is empty.".to_owned());
        }
        if args.text.chars().count() > TEXT_CHARS_MAX {
            return tell(format!("text is longer than {TEXT_CHARS_MAX} characters."));
        }
        if !cx.channels.contains(&to.channel) {
            return tell(format!("there is no channel `{}`.", to.channel));
        }
        if to != cx.address && cx.role < Role::Admin {
            return tell(
                "Denied: only an admin or the owner may have messages sent elsewhere.".to_owned(),
            );
        }
        let for_model = format!("The message to {to} is on its way.");
        let effects = vec![Effect::Say { to, body: Body::Text(args.text) }];
        Ok(ToolOutput { for_model, effects, ..ToolOutput::default() })
    }
}

/// What a call of this tool has said at `here`, so that the answer need not repeat it.
pub fn said_here(call: &Call, here: &Address) -> Option<String> {
    if call.tool != NAME || !matches!(call.outcome, Outcome::Done(_)) {
        return None;
    }
    let args: Args = serde_json::from_str(&call.arguments).ok()?;
    let to = args.to.trim();
    (to.is_empty() || to.parse().as_ref() == Ok(here)).then_some(args.text)
}
