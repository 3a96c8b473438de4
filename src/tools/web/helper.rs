//! The process that converts fetched bodies, and HTML in search results, to text. Anybody may have written them, and
//! the memory and time for parsing end with the process. It gets the body in a memfd, which is no memory of the daemon.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use url::Url;

use super::page::{self, PageText, TEXT_BYTES_MAX, UnreadPage, WebPage};
use super::redirects::FetchedBody;
use super::result_page::{self, ResultPage};
use crate::sandbox::helper::{self, HelperError, HelperLimits};
use crate::sandbox::{self, Sandbox};

/// The program's hidden first argument.
const ENTRY: &str = "__page";

/// Limits of one page. Parsing is bounded to two seconds and 512 KB of text; each byte of it may be escaped.
const LIMITS: HelperLimits = HelperLimits {
    time: Duration::from_secs(20),
    result_bytes: 6 * TEXT_BYTES_MAX as u64 + 16_384,
};

/// Maximum length of the line before a body, in bytes: an address and a media type at most.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The line before a body.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BodyHead {
    Page {
        url: String,
        content_type: Option<String>,
    },
    /// A page of a search engine.
    Results,
    /// A JSON array of texts that may be HTML.
    Texts,
}

/// Returns a file in memory for a body, with the line before the body.
pub(super) fn begin_body(url: &Url, content_type: Option<&str>) -> io::Result<File> {
    let content_type = content_type.map(ToOwned::to_owned);
    begin(&BodyHead::Page { url: url.to_string(), content_type })
}

fn begin(head: &BodyHead) -> io::Result<File> {
    let mut file = File::from(memfd_create("page", MemfdFlags::CLOEXEC)?);
    serde_json::to_writer(&mut file, head)?;
    file.write_all(b"\n")?;
    Ok(file)
}

/// Converts bodies to text, each in a process of its own.
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
        let FetchedBody { url, file, cut } = fetched;
        let result: Result<PageText, UnreadPage> = parse(&self.run(Ok(file)).await?)?;
        let PageText { title, text, cut: cut_here } = result?;
        let cut = cut.or_else(|| cut_here.map(|cut| cut.to_string()));
        Ok(WebPage { url, title, text, cut })
    }

    /// Returns the results on a page of a search engine.
    pub(super) async fn results(&self, page: &str) -> Result<ResultPage, UnreadPage> {
        parse(&self.run(body(&BodyHead::Results, page.as_bytes())).await?)
    }

    /// Converts texts that may be HTML to plain ones.
    pub(super) async fn plain(&self, texts: &[String]) -> Result<Vec<String>, UnreadPage> {
        let texts = serde_json::to_vec(texts).map_err(|_| UnreadPage::Broken)?;
        parse(&self.run(body(&BodyHead::Texts, &texts)).await?)
    }

    /// Runs a process with a body, and returns its output.
    async fn run(&self, body: io::Result<File>) -> Result<Vec<u8>, UnreadPage> {
        let input = body.and_then(|mut file| {
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        });
        let result = match input {
            Ok(file) => helper::run(&self.program, &[ENTRY], file, LIMITS).await,
            Err(error) => Err(error.into()),
        };
        result.map_err(|error| match error {
            HelperError::TooSlow => UnreadPage::TooSlow,
            HelperError::Io(error) => {
                tracing::warn!(%error, "Cannot run the process that reads pages");
                UnreadPage::Broken
            }
        })
    }
}

fn body(head: &BodyHead, body: &[u8]) -> io::Result<File> {
    let mut file = begin(head)?;
    file.write_all(body)?;
    Ok(file)
}

/// Parses the output of a process. A process that its body has ended has printed a part, or nothing.
fn parse<T: DeserializeOwned>(printed: &[u8]) -> Result<T, UnreadPage> {
    serde_json::from_slice(printed).map_err(|_| UnreadPage::Broken)
}

/// Runs the hidden entry, if these are its arguments. To be called before anything else.
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
    let body = &input[end + 1..];
    let result = match head {
        BodyHead::Page { url, content_type } => {
            let url = url.parse::<Url>().map_err(|_| io::ErrorKind::InvalidData)?;
            serde_json::to_vec(&page::read(&url, content_type.as_deref(), body))?
        }
        BodyHead::Results => {
            serde_json::to_vec(&result_page::duckduckgo(&String::from_utf8_lossy(body)))?
        }
        BodyHead::Texts => {
            let texts: Vec<String> = serde_json::from_slice(body)?;
            serde_json::to_vec(&result_page::plain(&texts))?
        }
    };
    let mut out = io::stdout().lock();
    out.write_all(&result)?;
    out.flush()
}
