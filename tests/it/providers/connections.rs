//! Connections to a model's server: those of a peak do not stay.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;

/// Requests of the peak.
const PEAK: usize = 32;

/// Reads requests, answers none before all of the peak are there, and keeps each connection open.
async fn serve(stream: TcpStream, all_there: Arc<Barrier>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(bytes) = line.strip_prefix("content-length:") {
                length = bytes.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        all_there.wait().await;
        let answer = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\
                      content-length: 2\r\n\r\n{}";
        stream.write_all(answer.as_bytes()).await?;
    }
}

#[tokio::test]
async fn those_of_a_peak_are_closed_after_a_while() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (open, mut watched) = watch::channel(0);
    let all_there = Arc::new(Barrier::new(PEAK));
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut streams = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.send_modify(|open| *open += 1);
            let (open, all_there) = (open.clone(), Arc::clone(&all_there));
            streams.spawn(async move {
                serve(stream, all_there).await.ok();
                open.send_modify(|open| *open -= 1);
            });
        }
    });
    let config = Config {
        kind: ProviderKind::OpenAi,
        model: MODEL.to_owned(),
        api_key: Some(Secret::new(KEY)),
        base_url,
        tokens_max: Some(1000),
        context: 100_000,
        context_is_set: true,
        tools: Tools::Native,
        structured: Default::default(),
        images: true,
        timeouts: Default::default(),
        price: None,
    };
    let provider = connected(&config, "main", LIMITS);
    let asked = join_all((0..PEAK).map(|_| ask(&*provider))).await;
    assert!(asked.iter().all(|(completion, _)| completion.is_err()));
    assert_eq!(*watched.borrow_and_update(), PEAK, "they are kept for the next requests");
    tokio::time::pause();
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(31)).await;
        tokio::task::yield_now().await;
    }
    tokio::time::resume();
    let closed =
        timeout(Duration::from_secs(20), watched.wait_for(|open| *open == 0)).await.is_ok();
    assert!(closed, "{} stay open", *watched.borrow());
}
