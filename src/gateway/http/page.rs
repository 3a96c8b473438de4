//! The page's own files, which are in the binary.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::channels::web::logins::sha256_hex;

pub(super) async fn index(headers: HeaderMap) -> Response {
    serve(&headers, "text/html; charset=utf-8", include_str!("page/index.html"))
}

pub(super) async fn style(headers: HeaderMap) -> Response {
    serve(&headers, "text/css; charset=utf-8", include_str!("page/app.css"))
}

pub(super) async fn script(headers: HeaderMap) -> Response {
    serve(&headers, "text/javascript; charset=utf-8", include_str!("page/app.js"))
}

pub(super) async fn lists(headers: HeaderMap) -> Response {
    serve(&headers, "text/javascript; charset=utf-8", include_str!("page/lists.js"))
}

/// Serves the service worker, which keeps these files available while the daemon is away.
pub(super) async fn service_worker(headers: HeaderMap) -> Response {
    serve(&headers, "text/javascript; charset=utf-8", include_str!("page/sw.js"))
}

pub(super) async fn icon(headers: HeaderMap) -> Response {
    serve(&headers, "image/svg+xml", include_str!("page/icon.svg"))
}

/// Serves the description of the API.
pub(super) async fn openapi(headers: HeaderMap) -> Response {
    serve(&headers, "application/json", include_str!("page/openapi.json"))
}

/// Serves a file, unless the browser has this version of it.
fn serve(headers: &HeaderMap, kind: &'static str, text: &'static str) -> Response {
    let tag = format!("\"{}\"", &sha256_hex(text)[..16]);
    let known = headers.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let (status, text) = match known == Some(&tag) {
        true => (StatusCode::NOT_MODIFIED, ""),
        false => (StatusCode::OK, text),
    };
    let mut response = (status, text).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}
