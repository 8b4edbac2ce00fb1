//! Sends the page, its files and events to browsers; forwards requests to cut power.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY};
use axum::http::{HeaderValue, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use serde::Serialize;
use tantalum_control::{Control, ControlError};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::feed::Feed;
use crate::guard::{Guard, Wanted};
use crate::sampler::now_ms;
use crate::words;

/// Maximum number of open pages.
const MOST_PAGES: usize = 32;

/// How long to wait for a drive that recovers by itself.
const RECOVERY: Duration = Duration::from_secs(30);

/// An open page is sent something at least this often, so that it notices when this program has ended.
const ALIVE: Duration = Duration::from_secs(5);

/// What the server serves.
pub struct Site {
    pub guard: Guard,
    pub feed: Arc<Feed>,
    pub image: PathBuf,
}

/// The result of a cut.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Cut {
    /// What recovery found.
    Recovered(Vec<String>),
    /// Why there is no result.
    Failed(String),
}

/// Serves from now on, in a thread.
pub fn start(listener: std::net::TcpListener, site: Site) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let router = Router::new().fallback(answer).with_state(Arc::new(site));
    let serve = move || {
        // it continues until the process ends
        let _ = runtime.block_on(async { axum::serve(listener, router).await });
    };
    thread::Builder::new().name("page".to_owned()).spawn(serve).map(drop)
}

async fn answer(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (method, path, headers) = (request.method(), request.uri().path(), request.headers());
    let mut response = match site.guard.admit(method, path, headers) {
        Ok(Wanted::File(name)) => file(name),
        Ok(Wanted::Events) => events(&site),
        Ok(Wanted::Cut) => cut(&site).await,
        Err(status) => status.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The page loads nothing from elsewhere, cannot be framed, and does not leak its address.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (CACHE_CONTROL, "no-store"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("x-content-type-options"), "nosniff"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// A file of the page. The guard knows the names.
fn file(name: &str) -> Response {
    let (kind, text) = match name {
        "page.css" => ("text/css", include_str!("page/page.css")),
        "uplot.min.css" => ("text/css", include_str!("page/uplot.min.css")),
        "page.js" => ("text/javascript", include_str!("page/page.js")),
        "plots.js" => ("text/javascript", include_str!("page/plots.js")),
        "map.js" => ("text/javascript", include_str!("page/map.js")),
        "uplot.min.js" => ("text/javascript", include_str!("page/uplot.min.js")),
        _ => ("text/html", include_str!("page/index.html")),
    };
    let kind = format!("{kind}; charset=utf-8");
    ([(CONTENT_TYPE, kind)], Body::from(text)).into_response()
}

fn events(site: &Arc<Site>) -> Response {
    if site.feed.pages() >= MOST_PAGES {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let messages = messages(Arc::clone(&site.feed));
    Sse::new(messages).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

/// Everything so far, and then events. A page that is too slow for them gets everything again.
fn messages(feed: Arc<Feed>) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold((feed, None), |(feed, open)| async move {
        let (message, told) = next(&feed, open).await?;
        Some((Ok(Event::default().data(&*message)), (feed, Some(told))))
    })
}

/// The next message for an open page, or the first one.
async fn next(feed: &Feed, open: Option<Receiver<Arc<str>>>) -> Option<(Arc<str>, Receiver<Arc<str>>)> {
    let Some(mut told) = open else { return Some(feed.open()) };
    match told.recv().await {
        Ok(message) => Some((message, told)),
        Err(RecvError::Lagged(_)) => Some(feed.open()),
        Err(RecvError::Closed) => None,
    }
}

async fn cut(site: &Arc<Site>) -> Response {
    let there = Arc::clone(site);
    let done = tokio::task::spawn_blocking(move || cut_and_recover(&there.image, &there.feed)).await;
    let cut = match done {
        Ok(Ok(said)) => Cut::Recovered(said),
        Ok(Err(error)) => Cut::Failed(error.to_string()),
        Err(_) => Cut::Failed("the request is incomplete".to_owned()),
    };
    let text = serde_json::to_string(&cut).expect("an answer is plain data");
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

/// What recovery finds, in words.
fn cut_and_recover(image: &Path, feed: &Feed) -> Result<Vec<String>, ControlError> {
    let mut control = Control::connect(image)?;
    let seed = now_ms();
    control.cut(None, seed)?;
    feed.tell(now_ms(), format!("Power was cut from this page (seed {seed})."));
    let begun = Instant::now();
    loop {
        match control.recover() {
            Ok(report) => {
                feed.hurry();
                return Ok(words::recovery(&report));
            }
            Err(ControlError::Refused { .. }) if begun.elapsed() < RECOVERY => {
                thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error),
        }
    }
}
