//! Tells which models are shown their tools, as far as it is known.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Providers by name, with true if their models are shown the tools. Only the providers' token counts reveal it.
/// Forgotten at a restart.
#[derive(Clone, Default)]
// A mutex because turns are different tasks; it guards a short list.
pub struct ToolsShown(Arc<Mutex<BTreeMap<String, bool>>>);

impl ToolsShown {
    /// Returns true for a model that seems not to be shown its tools.
    pub(crate) fn are_dropped(&self, provider: &str) -> bool {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.get(provider) == Some(&false)
    }

    /// Returns true for a provider that is known to show the tools to its model.
    pub(crate) fn is_known_to_show(&self, provider: &str) -> bool {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.get(provider) == Some(&true)
    }

    /// Stores if a model is shown its tools. Returns true if the value has changed.
    pub(crate) fn set(&self, provider: &str, is_shown: bool) -> bool {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.insert(provider.to_owned(), is_shown) != Some(is_shown)
    }
}
