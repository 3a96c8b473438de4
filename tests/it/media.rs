//! Files that come in with messages and go out with answers.

mod intake;
mod names;
mod out;
mod spoken;
mod vision;
mod voice;

use std::fs;
use std::time::Duration;

use peacrab::channels::intake::{Intake, IntakeLimits};
use peacrab::types::message::{MediaKind, MediaRef};

use crate::support::rig::{Rig, RigOptions};

/// The beginning of a picture, which is all that is looked at.
const JPEG: &[u8] = b"\xff\xd8\xff\xe0 a cat";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n a crab";

/// Short enough to be waited for, and long enough for a busy machine.
const TIME_MAX: Duration = Duration::from_millis(700);

const LIMITS: IntakeLimits = IntakeLimits {
    file_max: 2_000,
    inbox_max: 10_000,
    person_max: 10_000,
    kept: Duration::from_secs(3600),
    time_max: Duration::from_secs(20),
    transcript_time_max: Duration::from_secs(20),
    pause: Duration::from_millis(5),
    // The double asks for five each time.
    patience: Duration::from_millis(10),
};

fn taking(limits: IntakeLimits) -> RigOptions {
    RigOptions {
        intake: Intake { limits, transcriber: None, documents: None },
        ..RigOptions::default()
    }
}

async fn rig() -> Rig {
    Rig::of(taking(LIMITS)).await
}

fn file(kind: MediaKind, handle: &str, name: Option<&str>) -> MediaRef {
    let (name, handle) = (name.map(str::to_owned), handle.to_owned());
    MediaRef { kind, name, mime: None, size: None, handle, fetched: None, quoted: false }
}

pub(crate) fn photo(handle: &str) -> MediaRef {
    file(MediaKind::Image, handle, Some("cat.jpg"))
}

/// Somebody sends files with a text.
fn send(rig: &Rig, chat: &str, text: &str, files: impl IntoIterator<Item = MediaRef>) {
    let files = files.into_iter().collect();
    rig.say_changed(crate::support::rig::OWNER, chat, text, |message| message.body.media = files);
}

/// All files of the owner's downloads, with their folders, sorted; none of them in the making.
fn inbox(rig: &Rig) -> Vec<String> {
    let mut found = Vec::new();
    let root = rig.path().join("downloads");
    for month in fs::read_dir(root).into_iter().flatten() {
        let month = month.unwrap();
        for file in fs::read_dir(month.path()).unwrap() {
            let (month, file) = (month.file_name(), file.unwrap().file_name());
            found.push(format!("downloads/{}/{}", month.to_str().unwrap(), file.to_str().unwrap()));
        }
    }
    found.sort();
    found
}

/// The one file of the inbox.
fn only(rig: &Rig) -> String {
    let [only] = &inbox(rig)[..] else { panic!("{:?}", inbox(rig)) };
    only.clone()
}

/// What the model was asked last, without the line on time and place, if there is one.
fn newest(rig: &Rig) -> String {
    let newest = rig.model.last().messages.pop().unwrap();
    let said = newest.strip_prefix("user: ").unwrap();
    let year = chrono::Utc::now().format("%Y-").to_string();
    let (first, rest) = said.split_once('\n').unwrap_or((said, ""));
    let is_heading = first.get(5..10) == Some(&year) && first.ends_with(']');
    if is_heading { rest.to_owned() } else { said.to_owned() }
}
