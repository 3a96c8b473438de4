//! Counts who waits for each provider, so that work that nobody waits for gives way.

use std::collections::BTreeMap;

use tokio::sync::watch;

/// The uses of each provider, by its name. Cheap to clone.
#[derive(Clone)]
pub struct ProvidersInUse(watch::Sender<BTreeMap<String, UseCounts>>);

/// The uses of one provider.
#[derive(Clone, Copy, Default)]
pub struct UseCounts {
    now: usize,
    /// All uses since the start: one may be over before its watcher runs.
    begun: u64,
}

impl Default for ProvidersInUse {
    fn default() -> Self {
        Self(watch::Sender::new(BTreeMap::new()))
    }
}

impl ProvidersInUse {
    /// Counts somebody who waits for a provider, until the value is dropped.
    pub fn begin_use(&self, name: &str) -> ProviderUse {
        self.0.send_modify(|all| {
            let uses = all.entry(name.to_owned()).or_default();
            uses.now += 1;
            uses.begun += 1;
        });
        ProviderUse { name: name.to_owned(), all: self.clone() }
    }

    /// Returns true if somebody waits for a provider.
    pub fn is_in_use(&self, name: &str) -> bool {
        self.0.borrow().get(name).is_some_and(|uses| uses.now > 0)
    }

    /// Waits until somebody waits for a provider, or has done so since the call.
    pub fn wait_for_use(&self, name: &str) -> impl Future<Output = ()> {
        let mut watch = self.0.subscribe();
        let begun = watch.borrow().get(name).map_or(0, |uses| uses.begun);
        let name = name.to_owned();
        async move {
            let is_entered = |all: &BTreeMap<String, UseCounts>| {
                all.get(&name).is_some_and(|uses| uses.now > 0 || uses.begun > begun)
            };
            // An error means that the program ends.
            watch.wait_for(is_entered).await.ok();
        }
    }

    /// Returns a receiver of all changes.
    pub fn watch(&self) -> watch::Receiver<BTreeMap<String, UseCounts>> {
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
            if let Some(uses) = all.get_mut(&self.name) {
                uses.now -= 1;
            }
        });
    }
}
