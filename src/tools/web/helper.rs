//! The process that makes text of a fetched body: a page is written by anybody, and what parsing it takes goes with the
//! process. The body goes there in a file in memory, which is no memory of the daemon's.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use url::Url;

use super::hops::FetchedBody;
use super::page::{self, PageText, TEXT_BYTES_MAX, UnreadPage, WebPage};
use crate::sandbox::helper::{self, HelperError, HelperLimits};
use crate::sandbox::{self, Sandbox};

/// The program's hidden first argument.
const ENTRY: &str = "__page";

/// Limits of one page. Parsing is bounded to two seconds and 512 KB of text; each byte of it may be escaped.
const LIMITS: HelperLimits = HelperLimits {
    time: Duration::from_secs(20),
    result_bytes: 6 * TEXT_BYTES_MAX as u64 + 16_384,
};

/// Maximum length of the line before a body, in bytes: an address and a media type.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The line before a body.
#[derive(Serialize, Deserialize)]
struct BodyHead {
    url: String,
    content_type: Option<String>,
}

/// Returns a file for a body: in memory, with the line before the body.
pub(super) fn begin_body(url: &Url, content_type: Option<&str>) -> io::Result<File> {
    let mut file = File::from(memfd_create("page", MemfdFlags::CLOEXEC)?);
    let head = BodyHead { url: url.to_string(), content_type: content_type.map(ToOwned::to_owned) };
    serde_json::to_writer(&mut file, &head)?;
    file.write_all(b"\n")?;
    Ok(file)
}

/// Makes text of bodies, each in a process of its own.
pub(super) struct PageHelper {
    pub(super) program: PathBuf,
}

impl Default for PageHelper {
    fn default() -> Self {
        Self { program: Sandbox::THIS_PROGRAM.into() }
    }
}

impl PageHelper {
    /// Returns the text of a fetched body.
    pub(super) async fn read(&self, fetched: FetchedBody) -> Result<WebPage, UnreadPage> {
        let FetchedBody { url, mut file, cut } = fetched;
        let begun = file.seek(SeekFrom::Start(0));
        let ran = match begun {
            Ok(_) => helper::run(&self.program, &[ENTRY], file, LIMITS).await,
            Err(error) => Err(error.into()),
        };
        let result = match ran {
            Ok(result) => result,
            Err(HelperError::TooSlow) => return Err(UnreadPage::TooSlow),
            Err(error) => {
                tracing::warn!(%error, "Cannot run the process that reads pages");
                return Err(UnreadPage::Broken);
            }
        };
        let result: Result<PageText, UnreadPage> =
            serde_json::from_slice(&result).unwrap_or(Err(UnreadPage::Broken));
        let PageText { title, text, cut: cut_here } = result?;
        let cut = cut.or_else(|| cut_here.map(|cut| cut.to_string()));
        Ok(WebPage { url, title, text, cut })
    }
}

/// Runs the hidden entry, if these are its arguments; before anything else has been begun.
pub fn entry(mut args: impl Iterator<Item = impl AsRef<OsStr>>) -> Option<ExitCode> {
    (args.nth(1)?.as_ref() == ENTRY).then(|| match print_text() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

fn print_text() -> io::Result<()> {
    sandbox::reader::confine()?;
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input)?;
    let end = input.iter().take(HEAD_BYTES_MAX).position(|byte| *byte == b'\n');
    let end = end.ok_or(io::ErrorKind::InvalidData)?;
    let head: BodyHead = serde_json::from_slice(&input[..end])?;
    let url = head.url.parse::<Url>().map_err(|_| io::ErrorKind::InvalidData)?;
    let result = page::read(&url, head.content_type.as_deref(), &input[end + 1..]);
    let mut out = io::stdout().lock();
    out.write_all(&serde_json::to_vec(&result)?)?;
    out.flush()
}
