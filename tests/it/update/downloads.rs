//! The time of a download, by a clock that only the waits advance.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::stream;
use peacrab::http::{BodyEnd, DownloadTime, ReadBody, download_body};
use reqwest::{Body, Response};
use tokio::time::{Instant, sleep};

/// A body of so many bytes, each of which comes after a pause.
fn dripping(bytes: usize, pause: Duration) -> Response {
    let pieces = stream::unfold(0, move |sent| async move {
        if sent == bytes {
            return None;
        }
        sleep(pause).await;
        Some((Ok::<_, Infallible>("x"), sent + 1))
    });
    axum::http::Response::new(Body::wrap_stream(pieces)).into()
}

const TIME: DownloadTime = DownloadTime {
    silence: Duration::from_secs(40),
    least: Duration::from_secs(60),
    per_byte: Duration::from_secs(1),
};

/// Downloads it. Returns what was read, and the seconds that it took.
async fn downloaded(bytes: usize, pause: Duration) -> (ReadBody, u64) {
    let (begun, mut reported) = (Instant::now(), 0);
    let mut response = dripping(bytes, pause);
    let body = download_body(&mut response, 10_000, TIME, begun, |more| reported += more).await;
    assert_eq!(reported, body.bytes.len() as u64);
    (body, begun.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn a_slow_line_is_waited_for_and_a_server_that_drips_is_not() {
    let (slow, seconds) = downloaded(1_000, Duration::from_millis(900)).await;
    assert!(matches!(slow.end, BodyEnd::Whole) && slow.bytes.len() == 1_000 && seconds >= 900);
    // It would take 3,000 seconds.
    let (drips, seconds) = downloaded(1_000, Duration::from_secs(3)).await;
    assert!(matches!(drips.end, BodyEnd::Late) && (60..100).contains(&seconds), "{seconds}");
    let (silent, seconds) = downloaded(1, Duration::from_secs(3_600)).await;
    assert!(matches!(silent.end, BodyEnd::Late) && (39..42).contains(&seconds), "{seconds}");
    // However short it is, a file of fixed time has that alone.
    let fixed = DownloadTime { per_byte: Duration::ZERO, ..TIME };
    let begun = Instant::now();
    let mut response = dripping(1_000, Duration::from_secs(1));
    let body = download_body(&mut response, 10_000, fixed, begun, |_| ()).await;
    let seconds = begun.elapsed().as_secs();
    assert!(matches!(body.end, BodyEnd::Late) && (59..62).contains(&seconds), "{seconds}");
}
