//! Rules for every HTTP client of the program: no redirects, no proxy for this machine, bounded bodies, and errors
//! without the URL, which may contain a token. Not here: the requests of an API, which stand with its client.

use std::cell::Cell;
use std::error::Error;
use std::io::{self, Write};
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Response, redirect};
use tokio::time::{Instant, timeout_at};
use url::{Host, Url};

/// Returns a builder for a client of `url`. It does not follow redirects, because credentials are for
/// that server alone.
pub fn client(url: &Url, connect: Duration) -> ClientBuilder {
    let builder = Client::builder().redirect(redirect::Policy::none()).connect_timeout(connect);
    if is_local(url) { builder.no_proxy() } else { builder }
}

/// Returns true if `url` is on this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Endings of names that only local networks use (RFC 6762, RFC 8375, and those that ICANN reserves for it).
const LOCAL_NAMES: [&str; 4] = [".local", ".lan", ".internal", ".home.arpa"];

/// Returns true if `url` is on this machine or on a local network: a private or link-local address, or a name
/// that no public server can have.
pub fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        Some(Host::Ipv6(ip)) => {
            ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()
        }
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            !name.contains('.') || LOCAL_NAMES.iter().any(|ending| name.ends_with(ending))
        }
        None => false,
    }
}

/// Returns the innermost cause of an error. None if it has no cause. The outer ones repeat the URL.
pub fn root_cause(error: &dyn Error) -> Option<String> {
    let mut cause = error.source()?;
    loop {
        if let Some(words) = tls_error(cause).and_then(describe_tls) {
            return Some(words.to_owned());
        }
        match cause.source() {
            Some(inner) => cause = inner,
            None => return Some(cause.to_string()),
        }
    }
}

/// Returns the TLS error that this error is, or that an I/O error holds.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = error.downcast_ref::<rustls::Error>() {
        return Some(found);
    }
    let inner: &(dyn Error + 'static) = error.downcast_ref::<io::Error>()?.get_ref()?;
    tls_error(inner)
}

/// Explains a TLS error that people can do something about. None for the others.
fn describe_tls(error: &rustls::Error) -> Option<&'static str> {
    use rustls::CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext,
    };
    Some(match error {
        rustls::Error::InvalidMessage(_) => {
            "there is no TLS at this address, which may be one of http://"
        }
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => {
            "the server's certificate has expired, or the clock of this machine is wrong"
        }
        rustls::Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. }) => {
            "the server's certificate is not valid yet, or the clock of this machine is wrong"
        }
        rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            "the server's certificate is for another name"
        }
        rustls::Error::InvalidCertificate(_) => {
            "the server's certificate is not trusted: it is of no public authority"
        }
        _ => return None,
    })
}

/// The part of a body that was read.
pub struct ReadBody {
    pub bytes: Vec<u8>,
    pub end: BodyEnd,
}

/// Reason why reading a body ended.
pub enum BodyEnd {
    Whole,
    /// The body is longer than its bound.
    TooLong,
    /// A piece of it did not arrive in time.
    Late,
    Lost(reqwest::Error),
}

/// Reads a body up to `bytes_max`. Before each piece, `until` returns its deadline. If it returns None, only
/// the client's own timeout applies.
pub async fn read_body(
    response: &mut Response,
    bytes_max: usize,
    until: impl FnMut() -> Option<Instant>,
) -> ReadBody {
    let mut bytes = Vec::new();
    let end = copy_body(response, &mut bytes, bytes_max, until).await;
    ReadBody { bytes, end: end.expect("a vector takes each byte") }
}

/// Copies a body up to `bytes_max`, as [`read_body`] does.
pub async fn copy_body(
    response: &mut Response,
    into: &mut impl Write,
    bytes_max: usize,
    mut until: impl FnMut() -> Option<Instant>,
) -> io::Result<BodyEnd> {
    let mut bytes_left = bytes_max;
    loop {
        let piece = match until() {
            Some(deadline) => timeout_at(deadline, response.chunk()).await,
            None => Ok(response.chunk().await),
        };
        let piece = match piece {
            Ok(Ok(Some(piece))) => piece,
            Ok(Ok(None)) => return Ok(BodyEnd::Whole),
            Ok(Err(error)) => return Ok(BodyEnd::Lost(error)),
            Err(_) => return Ok(BodyEnd::Late),
        };
        into.write_all(&piece[..piece.len().min(bytes_left)])?;
        if piece.len() > bytes_left {
            return Ok(BodyEnd::TooLong);
        }
        bytes_left -= piece.len();
    }
}

/// The longest time of a download. It grows with the bytes that have arrived: a slow line is waited for, and a server that
/// sends a byte now and then is not.
#[derive(Clone, Copy, Debug)]
pub struct DownloadTime {
    /// The longest silence.
    pub silence: Duration,
    /// The time for the smallest file.
    pub least: Duration,
    /// The time that each byte adds, the inverse of the lowest speed.
    pub per_byte: Duration,
}

impl DownloadTime {
    /// Returns the time by which the next piece has to be here.
    pub fn deadline(&self, begun: Instant, bytes: u64) -> Instant {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let whole = begun + self.least + self.per_byte.saturating_mul(bytes);
        whole.min(Instant::now() + self.silence)
    }
}

/// Reads a body as [`read_body`] does, of a download that began at this time. `report` hears how many bytes each piece has.
pub async fn download_body(
    response: &mut Response,
    bytes_max: usize,
    time: DownloadTime,
    begun: Instant,
    report: impl FnMut(u64),
) -> ReadBody {
    let arrived = Cell::new(0);
    let mut into = ReportedBytes { bytes: Vec::new(), arrived: &arrived, report };
    let until = || Some(time.deadline(begun, arrived.get()));
    let end = copy_body(response, &mut into, bytes_max, until).await;
    let end = end.expect("a vector takes each byte");
    ReadBody { bytes: into.bytes, end }
}

/// The bytes of a download, counted as they come.
struct ReportedBytes<'a, R> {
    bytes: Vec<u8>,
    arrived: &'a Cell<u64>,
    report: R,
}

impl<R: FnMut(u64)> Write for ReportedBytes<'_, R> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(piece);
        self.arrived.set(self.bytes.len() as u64);
        (self.report)(piece.len() as u64);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
