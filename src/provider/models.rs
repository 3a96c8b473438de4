//! The providers of the config by name, from which a conversation can choose who answers first.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::in_use::ProvidersInUse;
use super::prices::Prices;
use super::troubles::ModelTroubles;
use super::{Provider, chain};
use crate::types::origin::TaskKind;

/// All providers. Those that answer by default come first, in their order. Cheap to clone.
#[derive(Clone, Default)]
pub struct Models {
    all: Arc<Vec<Model>>,
    /// The prices of their tokens.
    pub prices: Prices,
    /// The providers that people and tasks wait for.
    pub in_use: ProvidersInUse,
    /// Those that fail.
    pub troubles: ModelTroubles,
    /// The sections that answer in background tasks of these kinds.
    tasks: Arc<BTreeMap<TaskKind, String>>,
}

pub struct Model {
    /// The name of its section.
    pub name: String,
    pub provider: Arc<dyn Provider>,
    pub standing: Standing,
}

/// The standing of a provider: if it answers without being chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the first, or a fallback.
    Default,
    /// It answers only where somebody chose it.
    Chosen,
}

impl Models {
    pub fn new(models: Vec<Model>) -> Self {
        Self { all: Arc::new(models), ..Self::default() }
    }

    /// Sets the sections that answer in background tasks.
    pub fn with_tasks(self, tasks: BTreeMap<TaskKind, String>) -> Self {
        Self { tasks: Arc::new(tasks), ..self }
    }

    /// Returns the section that answers in background tasks of a kind. None means the default.
    pub fn for_task(&self, kind: TaskKind) -> Option<&str> {
        self.tasks.get(&kind).map(String::as_str)
    }

    pub fn with_troubles(self, troubles: ModelTroubles) -> Self {
        Self { troubles, ..self }
    }

    pub fn with_prices(self, prices: Prices) -> Self {
        Self { prices, ..self }
    }

    pub fn all(&self) -> &[Model] {
        &self.all
    }

    /// Returns the provider with this name of its section or of its model.
    pub fn find(&self, name: &str) -> Option<&Model> {
        let by_name = self.all.iter().find(|model| model.name.eq_ignore_ascii_case(name));
        by_name.or_else(|| {
            let shown = format!("({})", name.to_ascii_lowercase());
            self.all
                .iter()
                .find(|model| model.provider.name().to_ascii_lowercase().ends_with(&shown))
        })
    }

    /// Returns the provider of that section, with those as fallbacks that answer by default. None if the config
    /// does not have it any more.
    pub fn chain(&self, name: &str) -> Option<Arc<dyn Provider>> {
        let first = self.all.iter().find(|model| model.name == name)?;
        let others = self
            .all
            .iter()
            .filter(|model| model.standing == Standing::Default && model.name != first.name);
        Some(chain([first].into_iter().chain(others).map(|it| Arc::clone(&it.provider)).collect()))
    }
}
