//! The sections of a config file, and their schema: the names, types, defaults, bounds and
//! documentation of all keys.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::agent::{AgentSection, AskingSection};
use super::api_tokens::ApiTokenSection;
use super::backup::BackupSection;
use super::channels::ChannelSection;
use super::exec::ExecSection;
use super::gateway::GatewaySection;
use super::heartbeat::HeartbeatSection;
use super::hooks::HookSection;
use super::keys::Keys;
use super::limits::LimitsSection;
use super::mcp::McpSection;
use super::media::{MediaSection, TranscriptionSection};
use super::memory::MemorySection;
use super::money::BudgetSection;
use super::personas::PersonaSection;
use super::providers::ProviderSection;
use super::retention::RetentionSection;
use super::update::UpdateSection;
use super::web::{SearchSection, WebSection};
use super::webhooks::WebhookSection;

/// A config file. Each section declares its keys, from which reading, messages, the example and the
/// reference are made.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ConfigFile {
    pub(super) agent: AgentSection,
    pub(super) asking: AskingSection,
    pub(super) heartbeat: HeartbeatSection,
    pub(super) limits: LimitsSection,
    pub(super) memory: MemorySection,
    pub(super) retention: RetentionSection,
    pub(super) budgets: BTreeMap<String, BudgetSection>,
    pub(super) personas: BTreeMap<String, PersonaSection>,
    pub(super) providers: BTreeMap<String, ProviderSection>,
    pub(super) channels: BTreeMap<String, ChannelSection>,
    pub(super) media: MediaSection,
    pub(super) transcription: Option<TranscriptionSection>,
    pub(super) mcp: BTreeMap<String, McpSection>,
    pub(super) hooks: BTreeMap<String, HookSection>,
    pub(super) web: WebSection,
    pub(super) search: BTreeMap<String, SearchSection>,
    pub(super) exec: ExecSection,
    pub(super) backup: BackupSection,
    pub(super) update: UpdateSection,
    pub(super) gateway: Option<GatewaySection>,
    pub(super) api_tokens: BTreeMap<String, ApiTokenSection>,
    pub(super) webhooks: BTreeMap<String, WebhookSection>,
}

/// Every key by its section; the empty name is the top of the file.
pub static KEYS: Keys = LazyLock::new(|| {
    let schema = schema();
    let keys = |schema: &Map<String, Value>| properties(schema).keys().cloned().collect();
    let top = schema.as_object().into_iter().map(|top| (String::new(), keys(top)));
    let inner = sections(&schema).into_iter().map(|(name, section)| (name, keys(section)));
    top.chain(inner).collect()
});

/// Returns the JSON Schema of a config file. It is made on demand: a start without faults does not need it.
pub fn schema() -> Schema {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<ConfigFile>()
}

/// Returns the sections in the order of [`ConfigFile`], as `agent` or `providers.NAME`, each with its schema.
pub fn sections(schema: &Schema) -> Vec<(String, &Map<String, Value>)> {
    let mut sections = Vec::new();
    for (name, value) in schema.as_object().map(properties).into_iter().flatten() {
        let Some(section) = value.as_object() else { continue };
        match section.get("additionalProperties").and_then(Value::as_object) {
            Some(named) => sections.push((format!("{name}.NAME"), named)),
            None => sections.push((name.clone(), section)),
        }
    }
    sections
}

fn properties(schema: &Map<String, Value>) -> &Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    schema.get("properties").and_then(Value::as_object).unwrap_or(&NONE)
}
