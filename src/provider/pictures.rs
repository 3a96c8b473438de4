//! Selects the pictures of a conversation that a model sees, and reads their bytes for the wire.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::types::session::{Image, Step, Turn};
use crate::workspace::{Workspace, WorkspacePath, picture_type};

/// Maximum number of steps whose pictures are sent again, the newest that have any. Older ones are only
/// described: a picture costs about a thousand tokens each time. When one is left out, the cache breaks at its
/// place, once for each further message with pictures.
const STEPS_SEEN_MAX: usize = 3;

/// Maximum number of pictures of one step.
pub const IMAGES_MAX: usize = 4;

/// Maximum size of one picture, in bytes. The vendors take 5 MB (Anthropic, Vision, request limits).
pub const IMAGE_BYTES_MAX: u64 = REQUEST_BYTES_MAX;

/// Maximum size of all pictures of a request, in bytes, as they are in the workspace. A board of 64 MB holds two
/// and a half times as much while it sends them.
const REQUEST_BYTES_MAX: u64 = 3_000_000;

/// Permits one request with pictures at a time, over all conversations, for the same reason.
static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);

/// The pictures that a request may show. Their bytes are read when it is made, and kept no longer.
#[derive(Clone, Default)]
pub struct Pictures {
    workspace: Option<Workspace>,
    /// The newest first.
    wanted: Vec<WorkspacePath>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub mime: &'static str,
    pub base64: String,
}

/// The pictures of a request that could be read, by their paths.
#[derive(Default)]
pub struct ReadPictures {
    pictures: BTreeMap<String, Picture>,
    permit: Option<SemaphorePermit<'static>>,
}

/// While it lives, no other request with pictures is made.
#[must_use]
pub(super) struct InTurn {
    _permit: Option<SemaphorePermit<'static>>,
}

impl Pictures {
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Selects the pictures of a conversation.
    #[expect(clippy::unused_async, reason = "those who call it need not know when files are read")]
    pub async fn read(workspace: &Workspace, turns: &[Turn]) -> Self {
        let wanted = shown(turns).iter().filter_map(|image| image.path.parse().ok()).collect();
        Self { workspace: Some(workspace.clone()), wanted }
    }

    /// Reads the pictures for a model that sees; none for another one.
    pub(super) async fn load_if(&self, sees: bool) -> ReadPictures {
        if sees { self.load().await } else { ReadPictures::default() }
    }

    /// Reads the pictures, once no other request holds any. Files that are gone or no pictures any more are left
    /// out, and so are those that would be too much, the oldest first.
    pub async fn load(&self) -> ReadPictures {
        let Some(workspace) = self.workspace.as_ref().filter(|_| !self.is_empty()) else {
            return ReadPictures::default();
        };
        let permit = ONE_AT_A_TIME.acquire().await.expect("it is never closed");
        let wanted = self.wanted.clone();
        let pictures = workspace.run_blocking(move |workspace| read_all(workspace, wanted)).await;
        ReadPictures { pictures, permit: Some(permit) }
    }
}

impl ReadPictures {
    pub fn get(&self, image: &Image) -> Option<&Picture> {
        self.pictures.get(&image.path)
    }

    /// Returns the pictures of a message that could be read.
    pub(super) fn of<'a>(&'a self, images: &'a [&Image]) -> impl Iterator<Item = &'a Picture> {
        images.iter().filter_map(|image| self.get(image))
    }

    /// Drops the pictures, which are in a request's body now, but keeps the permit.
    pub(super) fn written(self) -> InTurn {
        InTurn { _permit: self.permit }
    }
}

fn read_all(workspace: &Workspace, wanted: Vec<WorkspacePath>) -> BTreeMap<String, Picture> {
    let mut pictures = BTreeMap::new();
    let mut bytes_left = REQUEST_BYTES_MAX;
    for path in wanted {
        let file = workspace.open_without_links(&path);
        let Ok(bytes) = file.and_then(|file| file.read_up_to(IMAGE_BYTES_MAX.min(bytes_left)))
        else {
            continue;
        };
        if let Some(mime) = picture_type(&bytes) {
            bytes_left -= bytes.len() as u64;
            let base64 = STANDARD.encode(&bytes);
            pictures.insert(path.to_string(), Picture { mime, base64 });
        }
    }
    pictures
}

fn images_of_step(step: &Step) -> Vec<&Image> {
    // The pictures of an answer came after those of its message.
    let of_answers = step.calls.iter().flat_map(|call| &call.images).take(IMAGES_MAX);
    of_answers.chain(step.images.iter().take(IMAGES_MAX)).collect()
}

/// Returns the number of pictures of a conversation that are sent.
pub fn count_shown(turns: &[Turn]) -> usize {
    shown(turns).len()
}

/// Returns the pictures of the newest steps that have any, the newest first.
fn shown(turns: &[Turn]) -> Vec<&Image> {
    let steps = turns.iter().rev().flat_map(|turn| turn.steps.iter().rev());
    let images = steps.map(images_of_step).filter(|images| !images.is_empty());
    images.take(STEPS_SEEN_MAX).flatten().collect()
}
