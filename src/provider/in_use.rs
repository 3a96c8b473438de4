//! The providers that somebody waits for, so that work that nobody waits for makes way.

use std::collections::BTreeMap;

use tokio::sync::watch;

/// The number of those that wait for each provider, by its name; cheap to clone.
#[derive(Clone)]
pub struct ProvidersInUse(watch::Sender<BTreeMap<String, usize>>);

impl Default for ProvidersInUse {
    fn default() -> Self {
        Self(watch::Sender::new(BTreeMap::new()))
    }
}

impl ProvidersInUse {
    /// Counts somebody who waits for a provider, until the value is dropped.
    pub fn enter(&self, name: &str) -> ProviderUse {
        self.0.send_modify(|all| *all.entry(name.to_owned()).or_default() += 1);
        ProviderUse { name: name.to_owned(), all: self.clone() }
    }

    /// Returns true if somebody waits for a provider.
    pub fn has(&self, name: &str) -> bool {
        self.0.borrow().contains_key(name)
    }

    /// Waits until somebody waits for a provider.
    pub async fn entered(&self, name: &str) {
        // It is never closed: this value has the sender.
        self.0.subscribe().wait_for(|all| all.contains_key(name)).await.ok();
    }

    /// Tells of each change.
    pub fn watch(&self) -> watch::Receiver<BTreeMap<String, usize>> {
        self.0.subscribe()
    }
}

/// Somebody who waits for a provider.
pub struct ProviderUse {
    name: String,
    all: ProvidersInUse,
}

impl ProviderUse {
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for ProviderUse {
    fn drop(&mut self) {
        self.all.0.send_modify(|all| {
            if let Some(count) = all.get_mut(&self.name) {
                *count -= 1;
                if *count == 0 {
                    all.remove(&self.name);
                }
            }
        });
    }
}
