//! The downloads of `peacrab update`, each within its bytes and its time. Not here: what is checked of them.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use reqwest::Response;
use reqwest::header::LOCATION;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::cli::progress::ProgressLine;
use crate::config::update::UpdateSource;
use crate::http::{self, BodyEnd, DownloadTime};

/// The longest that a download may be, and take.
pub(super) struct DownloadLimits {
    bytes_max: usize,
    time: DownloadTime,
}

/// Far more than the description of a release and its signature need, each.
pub(super) const SMALL_FILE: DownloadLimits = DownloadLimits {
    bytes_max: 64 * 1024,
    time: DownloadTime {
        silence: Duration::from_secs(30),
        least: Duration::from_secs(30),
        per_byte: Duration::ZERO,
    },
};

/// Far more than a program with everything has. A line with less than 4 kB in a second is too slow for it.
pub(super) const PROGRAM: DownloadLimits = DownloadLimits {
    bytes_max: 256 << 20,
    time: DownloadTime {
        silence: Duration::from_secs(60),
        least: Duration::from_secs(60),
        per_byte: Duration::from_micros(250),
    },
};

const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Redirects that one download follows. Hosts of releases make one or two.
const REDIRECTS_MAX: usize = 5;

/// Fetches a file. Redirects are followed by hand: they may lead to any server, because the signature and the sum decide what
/// is taken, and no credentials are sent.
pub(super) async fn fetch(
    source: &UpdateSource,
    name: &str,
    limits: &DownloadLimits,
) -> anyhow::Result<Vec<u8>> {
    let begun = Instant::now();
    let mut url =
        Url::parse(&format!("{}/{name}", source.url)).context("`url` is not a valid address")?;
    for _ in 0..=REDIRECTS_MAX {
        let client = http::client(&url, CONNECT_TIME_MAX).build()?;
        let until = limits.time.deadline(begun, 0);
        let sent = timeout_at(until, client.get(url.clone()).send()).await;
        let sent = sent.with_context(|| format!("{name}: the server does not answer"))?;
        let response = sent.map_err(reqwest::Error::without_url).context("cannot fetch")?;
        let next = redirect(&url, &response).with_context(|| format!("cannot fetch {name}"))?;
        match next {
            Some(next) => url = next,
            None => return read_file(response, name, limits, begun).await,
        }
    }
    bail!("cannot fetch {name}: the server redirects more than {REDIRECTS_MAX} times")
}

/// Returns the address to which a response redirects. None if it does not.
fn redirect(from: &Url, response: &Response) -> anyhow::Result<Option<Url>> {
    let location = response.headers().get(LOCATION);
    let Some(location) = location.filter(|_| response.status().is_redirection()) else {
        return Ok(None);
    };
    let to = location.to_str().ok().and_then(|location| from.join(location).ok());
    let to = to.filter(|to| matches!(to.scheme(), "http" | "https"));
    to.map(Some).context("the server redirects to no address of http or https")
}

async fn read_file(
    mut response: Response,
    name: &str,
    limits: &DownloadLimits,
    begun: Instant,
) -> anyhow::Result<Vec<u8>> {
    let status = response.status();
    ensure!(status.is_success(), "cannot fetch {name}: the server answered {status}");
    let DownloadLimits { bytes_max, time } = *limits;
    let mut progress = ProgressLine::new("Downloading", response.content_length());
    let report = |bytes| progress.add(bytes);
    let body = http::download_body(&mut response, bytes_max, time, begun, report).await;
    drop(progress);
    match body.end {
        BodyEnd::Whole => Ok(body.bytes),
        BodyEnd::TooLong => bail!("{name} is longer than {bytes_max} bytes"),
        BodyEnd::Late => bail!(
            "{name} broke off: the server is too slow, and has sent only {} bytes in {} seconds. Try again later",
            body.bytes.len(),
            begun.elapsed().as_secs()
        ),
        BodyEnd::Lost(error) => Err(error.without_url()).context(format!("{name} broke off")),
    }
}
