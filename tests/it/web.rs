//! The web as a model meets it: pages are read, searches answered, and no page, name or redirect leads
//! to what is not public.

mod addresses;
mod fetching;
mod hostile;
mod pages;
mod redirects;
mod searching;
mod ssrf;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use peacrab::people::Role;
use peacrab::tools::web::FetchLimits;
use peacrab::tools::web::fetch::WebFetch;
use peacrab::tools::{AnyTool, ToolContext, ToolError};
use peacrab::types::message::ChatKind;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::site::{Names, Site};
use crate::support::tool_context::{is_untrusted, text_of};

/// Our own program, which reads pages.
const PROGRAM: &str = env!("CARGO_BIN_EXE_peacrab");

/// Somebody who reads the web.
struct Reader {
    tool: WebFetch,
    cx: ToolContext,
    _folder: TempDir,
}

/// What a call came to.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    Text(String),
    /// It cannot go well.
    Refused(String),
    /// It may go well the next time.
    Passing(String),
}

impl Came {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    fn refused(self) -> String {
        match self {
            Self::Refused(words) => words,
            other => panic!("{other:?}"),
        }
    }

    fn passing(self) -> String {
        match self {
            Self::Passing(words) => words,
            other => panic!("{other:?}"),
        }
    }
}

impl Reader {
    /// May reach what is listed, and knows these names.
    fn new(listed: &[&str], names: &Names, limits: FetchLimits) -> Self {
        let listed: Vec<_> = listed.iter().map(|listed| listed.parse().unwrap()).collect();
        let (cx, folder) = tool_context();
        let tool = WebFetch::new(&listed, Arc::new(names.clone()), limits).with_program(PROGRAM);
        Self { tool, cx, _folder: folder }
    }

    /// May reach this site alone.
    fn of(site: &Site) -> Self {
        Self::new(&[&site.at.to_string()], &Names::default(), FetchLimits::default())
    }

    fn hasty(site: &Site, limits: FetchLimits) -> Self {
        Self::new(&[&site.at.to_string()], &Names::default(), limits)
    }

    async fn fetch(&self, url: &str) -> Came {
        self.call(json!({ "url": url })).await
    }

    async fn call(&self, arguments: Value) -> Came {
        call(&self.tool, &self.cx, &arguments).await
    }
}

async fn call(tool: &dyn AnyTool, cx: &ToolContext, arguments: &Value) -> Came {
    match tool.call_json(&arguments.to_string(), cx).await {
        Ok(output) => {
            let is_untrusted = is_untrusted(&output, cx);
            let words = text_of(output);
            assert!(is_untrusted || words.contains(" found nothing for: "), "unmarked: {words}");
            Came::Text(words)
        }
        Err(ToolError::TellModel(words) | ToolError::TellUntrusted(_, words)) => {
            Came::Refused(words)
        }
        Err(ToolError::Transient(words)) => Came::Passing(words),
        Err(ToolError::Abort(error)) => panic!("the turn was aborted: {error}"),
    }
}

fn tool_context() -> (ToolContext, TempDir) {
    crate::support::tool_context::tool_context(Role::User, ChatKind::Private)
}

/// Short, so that a test of what takes too long does not.
fn hasty() -> FetchLimits {
    FetchLimits { whole: Duration::from_millis(400), ..FetchLimits::default() }
}
