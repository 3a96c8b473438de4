//! Connections that can be cut under an answer, and parameters in whatever form they come.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::serve::{IncomingStream, Listener};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A file that came with a call.
#[derive(Clone, Debug)]
#[cfg_attr(
    all(feature = "slack", not(feature = "telegram")),
    expect(dead_code, reason = "files come to Slack in other ways")
)]
pub(crate) struct Upload {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) struct Wires(pub(crate) TcpListener);

pub(crate) struct Wire {
    stream: TcpStream,
    cut: Cutter,
}

/// Cuts the connection that a request came on: not a byte of the answer gets through.
#[derive(Clone, Default)]
pub(crate) struct Cutter(Arc<AtomicBool>);

impl Cutter {
    pub(crate) fn cut(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Listener for Wires {
    type Io = Wire;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Wire, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        (Wire { stream, cut: Cutter::default() }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, Wires>> for Cutter {
    fn connect_info(stream: IncomingStream<'_, Wires>) -> Self {
        stream.io().cut.clone()
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.cut.0.load(Ordering::SeqCst) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The parameters of a call, and the file that came along; its parameter is its name.
pub(crate) async fn parameters(request: Request) -> Option<(Map<String, Value>, Option<Upload>)> {
    let kind = request.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
    if !kind.starts_with("multipart/form-data") {
        return Some((plain(&kind, request).await?, None));
    }
    let (mut found, mut file) = (Map::new(), None);
    let mut parts = Multipart::from_request(request, &()).await.ok()?;
    while let Some(part) = parts.next_field().await.ok()? {
        let name = part.name()?.to_owned();
        let value = match part.file_name().map(str::to_owned) {
            Some(called) => {
                let bytes = part.bytes().await.ok()?.to_vec();
                file = Some(Upload { name: called.clone(), bytes });
                called
            }
            None => part.text().await.ok()?,
        };
        found.insert(name, value.into());
    }
    Some((found, file))
}

/// The parameters of a call as JSON or a form. Only JSON has types; a form gives text.
async fn plain(kind: &str, request: Request) -> Option<Map<String, Value>> {
    if kind.starts_with("application/x-www-form-urlencoded") {
        let form = axum::Form::<Map<String, Value>>::from_request(request, &()).await.ok()?;
        return Some(form.0);
    }
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.ok()?;
    if body.is_empty() { Some(Map::new()) } else { serde_json::from_slice(&body).ok() }
}

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, router: Router) {
    let service = router.into_make_service_with_connect_info::<Cutter>();
    axum::serve(Wires(listener), service).await.unwrap();
}

/// The calls that hang: no answer comes until who called gives up.
#[derive(Debug, Default)]
pub(crate) struct HangingCalls(Arc<()>);

impl HangingCalls {
    /// Hangs. The call counts until its connection is gone, with which the server drops this.
    pub(crate) fn hang<T>(&self) -> impl Future<Output = T> + use<T> {
        let open = Arc::clone(&self.0);
        async move {
            let _open = open;
            std::future::pending().await
        }
    }

    /// How many hang now.
    #[cfg(feature = "telegram")]
    pub(crate) fn count(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

/// A page as proxies make it.
pub(crate) fn error_page(status: u16) -> Response {
    let page = "<html><body>An error page</body></html>";
    (StatusCode::from_u16(status).unwrap(), page).into_response()
}

/// An address that is ours and refuses connections until it is listened on.
pub(crate) fn closed_port() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    (socket, url)
}
