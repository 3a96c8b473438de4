//! Which pictures of a conversation are sent to a model that sees, and their bytes for the wire.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::session::{Image, Turn};
use crate::workspace::{Workspace, WorkspacePath, picture_type};

/// Steps whose pictures are sent again, the newest that have any. What is older is there in words
/// only: a picture costs about a thousand tokens each time. When one leaves, the cache breaks where it
/// stood, once for each further message with pictures.
const STEPS_SEEN_MAX: usize = 3;

/// Pictures of one step.
pub const IMAGES_MAX: usize = 4;

/// Of one picture: Anthropic's limit (Vision, request limits).
pub const IMAGE_BYTES_MAX: u64 = 5_000_000;

/// Of all pictures of a request, which a small board holds in memory three times over.
const REQUEST_BYTES_MAX: u64 = 10_000_000;

/// The pictures of a request that could be read, by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pictures(BTreeMap<String, Picture>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub mime: &'static str,
    pub base64: String,
}

impl Pictures {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, image: &Image) -> Option<&Picture> {
        self.0.get(&image.path)
    }

    /// Those of a message that are there.
    pub(super) fn of<'a>(&'a self, images: &'a [&Image]) -> impl Iterator<Item = &'a Picture> {
        images.iter().filter_map(|image| self.get(image))
    }

    /// Reads what is to be shown of a conversation. What is gone, or no picture any more, is left out.
    pub async fn read(workspace: &Workspace, turns: &[Turn]) -> Self {
        let wanted: Vec<WorkspacePath> =
            shown(turns).iter().filter_map(|image| image.path.parse().ok()).collect();
        if wanted.is_empty() {
            return Self::default();
        }
        workspace.off_thread(move |workspace| Self::read_all(workspace, wanted)).await
    }

    fn read_all(workspace: &Workspace, wanted: Vec<WorkspacePath>) -> Self {
        let mut pictures = BTreeMap::new();
        let mut room = REQUEST_BYTES_MAX;
        for path in wanted {
            let Ok(bytes) = workspace.read_up_to(&path, IMAGE_BYTES_MAX.min(room)) else {
                continue;
            };
            if let Some(mime) = picture_type(&bytes) {
                room -= bytes.len() as u64;
                let base64 = STANDARD.encode(&bytes);
                pictures.insert(path.to_string(), Picture { mime, base64 });
            }
        }
        Self(pictures)
    }
}

/// How many pictures of a conversation are sent.
pub fn count_shown(turns: &[Turn]) -> usize {
    shown(turns).len()
}

/// The pictures of the newest steps that have any, the newest first.
fn shown(turns: &[Turn]) -> Vec<&Image> {
    let steps = turns.iter().rev().flat_map(|turn| turn.steps.iter().rev());
    let seen = steps.filter(|step| !step.images.is_empty()).take(STEPS_SEEN_MAX);
    seen.flat_map(|step| step.images.iter().take(IMAGES_MAX)).collect()
}
