//! The existing tools, by name: the program's own, and those of MCP servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::{
    AnyTool, Caller, ToolContext, ToolTerms, ask, delegate, files, finish, malformed, markdown,
    memory, message, more, plan, propose, recall, schedule, shell, skill, undo,
};
use crate::people::Role;
use crate::provider::{MALFORMED_CALL, ToolSchema};
use crate::types::persona::AllowedTools;
use crate::types::source::Author;

/// The caller of tools: a role, and the tools that the persona allows.
#[derive(Clone, Copy, Debug)]
pub struct ToolUser<'a> {
    pub role: Role,
    pub allowed: &'a AllowedTools,
}

impl ToolUser<'_> {
    /// Returns true if the persona allows a tool. The calls that end a turn are always allowed.
    fn is_allowed(&self, name: &str) -> bool {
        [finish::COMPLETION, finish::CONVERSE].contains(&name) || self.allowed.allow(name)
    }

    fn may_use(&self, name: &str, terms: &ToolTerms) -> bool {
        self.role >= terms.role && self.is_allowed(name)
    }
}

impl ToolContext {
    /// Returns the caller's role and the tools that the persona allows.
    pub fn user(&self) -> ToolUser<'_> {
        ToolUser { role: self.role, allowed: &self.allowed }
    }

    /// Returns the caller as the author of what the call makes.
    pub fn author(&self) -> Author {
        Author { channel: self.known_on.clone(), id: self.who.id.clone() }
    }
}

/// Somebody with this role, where all tools are allowed.
impl From<Role> for ToolUser<'_> {
    fn from(role: Role) -> Self {
        Self { role, allowed: &AllowedTools::ALL }
    }
}

/// The most useful tools, in the order in which a small prompt gets them. The calls that end a turn are always
/// offered.
const FIRST: [&str; 14] = [
    finish::COMPLETION,
    finish::CONVERSE,
    "remember",
    "read_file",
    "write_file",
    "note",
    shell::EXEC,
    "web_search",
    "web_fetch",
    "edit_file",
    "schedule",
    "list_files",
    "ask_question",
    "read_skill",
];

/// Tools that are seldom needed. A prompt only names them, in `more_tools`, even if all schemas would fit: each
/// schema costs tokens in every request.
const SELDOM: [&str; 6] = [
    "create_markdown_file",
    "list_markdown",
    "list_proposals",
    "read_markdown",
    "update_proposal",
    "write_markdown_section",
];

/// The tools of a daemon, by name: its own, and those of MCP servers, which come and go while it runs.
#[derive(Clone, Default)]
pub struct ToolSet {
    own: Arc<BTreeMap<String, ToolEntry>>,
    /// Replaced as a whole, so that a read only clones a pointer.
    mcp_tools: watch::Sender<Arc<McpTools>>,
}

/// A tool, and its schema, which is made once.
struct ToolEntry {
    tool: Arc<dyn AnyTool>,
    schema: ToolSchema,
    /// Estimated tokens of the schema in a prompt.
    tokens: u64,
    /// True if models see it in the prompt.
    shown: bool,
}

/// The tools of MCP servers.
#[derive(Default)]
pub struct McpTools {
    tools: BTreeMap<String, ToolEntry>,
    pub mcp_servers: Vec<McpServerEntry>,
    /// True while the first attempts to connect to the servers are in progress: more tools are likely to
    /// arrive soon.
    pub coming: bool,
}

/// The state of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerEntry {
    pub name: String,
    pub up: bool,
    pub tools: usize,
    pub trouble: Option<String>,
}

impl McpTools {
    /// Creates a set. `hidden` tools can be called, but models do not see them.
    pub fn new(shown: Vec<Arc<dyn AnyTool>>, hidden: Vec<Arc<dyn AnyTool>>) -> Self {
        let shown = shown.into_iter().map(|tool| entry(tool, true));
        let tools = shown.chain(hidden.into_iter().map(|tool| entry(tool, false))).collect();
        Self { tools, mcp_servers: Vec::new(), coming: false }
    }
}

fn entry(tool: Arc<dyn AnyTool>, shown: bool) -> (String, ToolEntry) {
    let schema = tool.schema();
    let tokens = schema.tokens();
    (schema.name.clone(), ToolEntry { tool, schema, tokens, shown })
}

/// Returns the tools and their tokens, with `more_tools` in place of those that are seldom needed.
fn without_seldom(all: &[ToolSchema]) -> (Vec<ToolSchema>, u64) {
    let is_seldom = |tool: &&ToolSchema| SELDOM.contains(&tool.name.as_str());
    let (seldom, usual): (Vec<_>, Vec<_>) = all.iter().partition(is_seldom);
    let mut shown: Vec<_> = usual.into_iter().cloned().collect();
    if !seldom.is_empty() {
        let names: Vec<_> = seldom.iter().map(|tool| tool.name.as_str()).collect();
        // Tools of MCP servers stay last, because they come and go.
        let at = shown.iter().position(|tool| tool.name.as_str() > more::MORE_TOOLS);
        shown.insert(at.unwrap_or(shown.len()), more::schema(&names));
    }
    let tokens = shown.iter().map(ToolSchema::tokens).sum();
    (shown, tokens)
}

impl ToolSet {
    /// The tools that every daemon has.
    pub fn standard() -> Self {
        Self::standard_with(Vec::new())
    }

    /// The standard tools, and those that the config asks for.
    pub fn standard_with(more: Vec<Arc<dyn AnyTool>>) -> Self {
        let shell = more.iter().map(|tool| tool.schema()).find(|it| it.name == shell::EXEC);
        let network = shell.as_ref().map(|shell| &shell.parameters["properties"]["network"]);
        let schedule_tool: Arc<dyn AnyTool> = match network {
            Some(network) if !network.is_null() => Arc::new(schedule::Schedule),
            offered => Arc::new(schedule::LimitedSchedule { offers_commands: offered.is_some() }),
        };
        let standard = [
            Arc::new(files::ReadFile) as Arc<dyn AnyTool>,
            Arc::new(files::WriteFile),
            Arc::new(files::EditFile),
            Arc::new(files::AppendFile),
            Arc::new(files::ListFiles),
            Arc::new(markdown::ListMarkdown),
            Arc::new(markdown::ReadMarkdown),
            Arc::new(markdown::WriteMarkdownSection),
            Arc::new(markdown::CreateMarkdownFile),
            Arc::new(memory::Remember),
            Arc::new(memory::NoteTool),
            Arc::new(message::SendMessage),
            Arc::new(ask::AskQuestion),
            Arc::new(delegate::Spawn),
            Arc::new(delegate::SubagentTool),
            Arc::new(finish::TaskCompletion),
            Arc::new(finish::Converse),
            Arc::new(undo::ListActions),
            Arc::new(undo::Undo),
            Arc::new(plan::KeepPlan),
            Arc::new(propose::Propose),
            Arc::new(propose::UpdateProposal),
            Arc::new(propose::ListProposals),
            Arc::new(skill::ReadSkill),
            schedule_tool,
            Arc::new(recall::MemorySearch),
        ];
        Self::new(standard.into_iter().chain(more))
    }

    pub fn new(tools: impl IntoIterator<Item = Arc<dyn AnyTool>>) -> Self {
        let own = tools.into_iter().map(|tool| entry(tool, true)).collect();
        Self { own: Arc::new(own), mcp_tools: watch::Sender::default() }
    }

    /// Replaces the MCP tools. Every clone of the set sees it.
    pub fn set_mcp_tools(&self, mcp_tools: McpTools) {
        self.mcp_tools.send_replace(Arc::new(mcp_tools));
    }

    pub fn mcp_tools(&self) -> Arc<McpTools> {
        Arc::clone(&self.mcp_tools.borrow())
    }

    /// Waits until the first connection attempts to MCP servers have ended, for a bounded time.
    pub async fn wait_for_mcp_servers(&self) {
        self.mcp_tools.subscribe().wait_for(|mcp_tools| !mcp_tools.coming).await.ok();
    }

    /// Returns the tools that somebody may use, as a model sees them.
    pub fn offered<'a>(&self, caller: Caller, user: impl Into<ToolUser<'a>>) -> Vec<ToolSchema> {
        self.offered_counted(caller, user).0
    }

    /// Returns the same, and their estimated tokens in a prompt.
    pub fn offered_counted<'a>(
        &self,
        caller: Caller,
        user: impl Into<ToolUser<'a>>,
    ) -> (Vec<ToolSchema>, u64) {
        let user = user.into();
        let mcp_tools = self.mcp_tools();
        let all = self.own.values().chain(mcp_tools.tools.values());
        let offered = all
            .filter(|entry| entry.shown && user.may_use(&entry.schema.name, &entry.tool.terms()));
        let shown = offered.filter(|entry| caller.is_shown(&entry.schema.name));
        let counted = shown.map(|entry| match caller.schema_for_caller(&entry.schema) {
            Some(schema) => {
                let tokens = schema.tokens();
                (schema, tokens)
            }
            None => (entry.schema.clone(), entry.tokens),
        });
        counted.fold((Vec::new(), 0), |(mut schemas, sum), (schema, tokens)| {
            schemas.push(schema);
            (schemas, sum + tokens)
        })
    }

    /// Returns the usual tools if they fit into `tokens_max`, or else the most useful ones that fit, and their tokens.
    /// `more_tools` describes the others and calls them.
    pub fn offered_within<'a>(
        &self,
        caller: Caller,
        user: impl Into<ToolUser<'a>>,
        tokens_max: u64,
    ) -> (Vec<ToolSchema>, u64) {
        let user = user.into();
        let (mut all, tokens) = self.offered_counted(caller, user);
        // A persona that names its tools needs each of them.
        let (usual, tokens) = match user.allowed.names() {
            None => without_seldom(&all),
            Some(_) => (all.clone(), tokens),
        };
        if tokens <= tokens_max {
            return (usual, tokens);
        }
        let rank = |tool: &ToolSchema| {
            FIRST.iter().position(|name| *name == tool.name).unwrap_or(FIRST.len())
        };
        all.sort_by_key(rank);
        let names: Vec<_> = all.iter().map(|tool| tool.name.as_str()).collect();
        // An upper bound: the final schema has fewer names or as many.
        let mut used = more::schema(&names).tokens();
        let (mut shown, mut rest) = (Vec::new(), Vec::new());
        let mut lacks_useful = false;
        for tool in &all {
            let tokens = tool.tokens();
            let ends = [finish::COMPLETION, finish::CONVERSE].contains(&tool.name.as_str());
            let is_useful = rank(tool) < FIRST.len();
            let fits = used + tokens <= tokens_max;
            lacks_useful |= is_useful && !fits;
            // A small tool that is seldom needed does not take the place of a useful one.
            if ends || fits && (is_useful || !lacks_useful) {
                used += tokens;
                shown.push(tool.clone());
            } else {
                rest.push(tool.name.as_str());
            }
        }
        shown.push(more::schema(&rest));
        shown.sort_by(|one, other| one.name.cmp(&other.name));
        let tokens = shown.iter().map(ToolSchema::tokens).sum();
        (shown, tokens)
    }

    /// Returns all tools that somebody may use, also those that are hidden from models.
    pub(super) fn usable(&self, user: ToolUser<'_>) -> Vec<ToolSchema> {
        let mcp_tools = self.mcp_tools();
        let all = self.own.values().chain(mcp_tools.tools.values());
        let usable = all.filter(|entry| user.may_use(&entry.schema.name, &entry.tool.terms()));
        usable.map(|entry| entry.schema.clone()).collect()
    }

    /// Returns the tool of that name, and its terms, if somebody may use it. Otherwise an explanation for
    /// the model.
    pub fn authorise<'a>(
        &self,
        name: &str,
        user: impl Into<ToolUser<'a>>,
    ) -> Result<(Arc<dyn AnyTool>, ToolTerms), String> {
        let user = user.into();
        if name == MALFORMED_CALL {
            // This tool explains the fault of the call.
            return Ok((Arc::clone(&malformed::TOOL), malformed::TOOL.terms()));
        }
        if name == more::MORE_TOOLS {
            let tool = Arc::new(more::MoreTools(self.clone())) as Arc<dyn AnyTool>;
            let terms = tool.terms();
            return Ok((tool, terms));
        }
        let mcp_tools = self.mcp_tools();
        let Some(ToolEntry { tool, .. }) = self.own.get(name).or_else(|| mcp_tools.tools.get(name))
        else {
            return Err(format!("There is no tool `{name}`."));
        };
        let terms = tool.terms();
        if user.role < terms.role {
            return Err(format!(
                "Denied: `{name}` needs the role {}, and the person who asks is {}. What works: only that somebody with \
                 that role asks for it{}. Try no other way.",
                terms.role,
                user.role,
                if terms.role == Role::Owner { " in a private chat" } else { "" }
            ));
        }
        if !user.is_allowed(name) {
            return Err(format!(
                "Denied: `{name}` is not among the tools that are allowed here. Only the owner can change that, in the \
                 config. Try no other way."
            ));
        }
        Ok((Arc::clone(tool), terms))
    }

    pub fn len(&self) -> usize {
        self.own.len()
            + self.mcp_tools().mcp_servers.iter().map(|mcp_server| mcp_server.tools).sum::<usize>()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
