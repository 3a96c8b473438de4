//! The messages about deferred calls, which nobody could be asked about: complete, with a button for each call.

use crate::conversation::deferred::{DeferredCall, DeferredId};
use crate::replies;
use crate::types::commands::CommandId;
use crate::types::message::{Attachment, Body, Choice, Content, Entitled, MediaKind, Question};

/// Returns the report of deferred calls. `file` has the complete calls if the text is shortened.
pub(crate) fn report(
    text: String,
    file: Option<String>,
    calls: &[(DeferredId, DeferredCall)],
) -> Vec<Body> {
    let file = file.map(|whole| {
        Body::File(Attachment {
            name: replies::NOT_DONE_FILE.to_owned(),
            kind: MediaKind::Document,
            caption: String::new(),
            printed: true,
            content: Content::Text(whole),
        })
    });
    let body = match calls {
        [] => Body::Text(text),
        calls => question(format!("{text}\n{}", replies::make_later(&numbers(calls))), calls),
    };
    file.into_iter().chain([body]).collect()
}

/// Returns the question about the remaining calls of a report, once some are decided.
pub(crate) fn rest(calls: &[(DeferredId, DeferredCall)]) -> Body {
    question(replies::left_for_later(&numbers(calls)), calls)
}

fn numbers(calls: &[(DeferredId, DeferredCall)]) -> Vec<(i64, &str)> {
    calls.iter().map(|(DeferredId(id), call)| (*id, call.approved.tool.as_str())).collect()
}

fn question(text: String, calls: &[(DeferredId, DeferredCall)]) -> Body {
    let choice = |label: String, says: String| Choice { label, says };
    let first = calls.first().map_or(0, |(DeferredId(id), _)| *id);
    let choices = match calls {
        [_] => vec![
            choice(
                replies::DO_IT.to_owned(),
                CommandId::Approve.line(format_args!("later {first}")),
            ),
            choice(replies::DENY.to_owned(), CommandId::Deny.line(format_args!("later {first}"))),
        ],
        calls => {
            let each = numbers(calls).into_iter().map(|(id, tool)| {
                choice(
                    replies::one_of(id, tool),
                    CommandId::Approve.line(format_args!("later {id}")),
                )
            });
            let all = choice(
                replies::ALL.to_owned(),
                CommandId::Approve.line(format_args!("later {first} all")),
            );
            let none = choice(
                replies::NONE.to_owned(),
                CommandId::Deny.line(format_args!("later {first} all")),
            );
            each.chain([all, none]).collect()
        }
    };
    Body::Choice(Question::new(text, choices, Entitled::Admins))
}
