//! The providers of the config by name, from which a conversation can choose who answers first.

use std::sync::Arc;

use super::{Provider, chain};

/// Cheap to clone; those that answer by default come first, in their order.
#[derive(Clone, Default)]
pub struct Models(Arc<Vec<Model>>);

pub struct Model {
    /// That of its section.
    pub name: String,
    pub provider: Arc<dyn Provider>,
    pub standing: Standing,
}

/// Whether a provider answers without being chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the first, or a fallback.
    InLine,
    /// It answers only where somebody chose it.
    Chosen,
}

impl Models {
    pub fn new(models: Vec<Model>) -> Self {
        Self(Arc::new(models))
    }

    pub fn all(&self) -> &[Model] {
        &self.0
    }

    /// The one that somebody means by the name of its section or of its model.
    pub fn find(&self, asked: &str) -> Option<&Model> {
        let by_name = self.0.iter().find(|model| model.name.eq_ignore_ascii_case(asked));
        by_name.or_else(|| {
            let shown = format!("({})", asked.to_ascii_lowercase());
            self.0.iter().find(|model| model.provider.name().to_ascii_lowercase().ends_with(&shown))
        })
    }

    /// The provider of that section, with those as fallbacks that answer by default; none if the
    /// config does not have it any more.
    pub fn chain(&self, name: &str) -> Option<Arc<dyn Provider>> {
        let first = self.0.iter().find(|model| model.name == name)?;
        let others = self
            .0
            .iter()
            .filter(|model| model.standing == Standing::InLine && model.name != first.name);
        Some(chain([first].into_iter().chain(others).map(|it| Arc::clone(&it.provider)).collect()))
    }
}
