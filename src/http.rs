//! What every HTTP client here keeps to, whoever it asks: it goes nowhere else, reaches this machine
//! without a proxy, and tells why it failed without the address, which may hold a token.

use std::error::Error;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, redirect};
use url::{Host, Url};

/// The beginnings of a client for `url`. Redirects are not followed, as what we send along is for that
/// server alone.
pub fn client(url: &Url, connect: Duration) -> ClientBuilder {
    let builder = Client::builder().redirect(redirect::Policy::none()).connect_timeout(connect);
    if is_loopback(url) { builder.no_proxy() } else { builder }
}

/// Whether `url` is on this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// What is behind an error, in its own words; none if it is all that there is. What is before it
/// repeats the URL.
pub fn root_cause(error: &dyn Error) -> Option<String> {
    let mut cause = error.source()?;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    Some(cause.to_string())
}
