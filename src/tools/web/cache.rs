//! Recently fetched pages, so that reading on in a long one does not fetch it again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::page::WebPage;

/// Maximum age: about the length of a conversation on a page. An older copy may be outdated.
const AGE_MAX: Duration = Duration::from_secs(15 * 60);

/// Maximum size of all pages together, in bytes: more than the largest page, and little beside the rest
/// of the program.
const BYTES_MAX: usize = 2 * 1024 * 1024;

/// A mutex, because calls run in parallel. Locked only briefly.
#[derive(Default)]
pub(super) struct Cache(Mutex<VecDeque<CachedPage>>);

struct CachedPage {
    /// The requested URL. A redirect may have led elsewhere.
    requested_url: String,
    page: Arc<WebPage>,
    at: Instant,
}

impl Cache {
    pub(super) fn get(&self, requested_url: &str) -> Option<Arc<WebPage>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.at.elapsed() < AGE_MAX);
        kept.iter()
            .find(|kept| kept.requested_url == requested_url)
            .map(|kept| Arc::clone(&kept.page))
    }

    /// Adds a page. It replaces an older copy, and the oldest pages if there is no space.
    pub(super) fn put(&self, requested_url: &str, page: &Arc<WebPage>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.requested_url != requested_url);
        kept.push_back(CachedPage {
            requested_url: requested_url.to_owned(),
            page: Arc::clone(page),
            at: Instant::now(),
        });
        let mut bytes: usize = kept.iter().map(CachedPage::bytes).sum();
        while bytes > BYTES_MAX {
            bytes -= kept.pop_front().map_or(bytes, |oldest| oldest.bytes());
        }
    }
}

impl CachedPage {
    fn bytes(&self) -> usize {
        let title = self.page.title.as_ref().map_or(0, String::len);
        self.page.text.len() + self.page.url.as_str().len() + self.requested_url.len() + title + 256
    }
}
