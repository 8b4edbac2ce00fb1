//! Sends the page, its files and events to browsers; forwards requests to cut power. Each connection has a thread.

use std::borrow::Cow;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use http::StatusCode;
use serde::Serialize;
use tantalum_control::{Control, ControlError};

use crate::feed::Feed;
use crate::guard::{Guard, Wanted};
use crate::http::{Head, close, read};
use crate::sampler::now_ms;
use crate::words;

/// Maximum number of open pages.
const MOST_PAGES: usize = 32;

/// Maximum number of connections. A browser has up to six while it loads a page.
const MOST_CONNECTIONS: usize = MOST_PAGES + 32;

/// How long a browser may take to send its request.
const ASKED_WITHIN: Duration = Duration::from_secs(10);

/// How long to wait if the system has no more connections.
const PAUSE: Duration = Duration::from_millis(100);

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

/// An answer with all of its contents.
struct Answer {
    status: StatusCode,
    /// The type of the contents, if there are any.
    kind: Option<&'static str>,
    text: Cow<'static, str>,
}

impl Answer {
    fn ok(kind: &'static str, text: impl Into<Cow<'static, str>>) -> Answer {
        Answer { status: StatusCode::OK, kind: Some(kind), text: text.into() }
    }

    /// Nothing but a status.
    fn empty(status: StatusCode) -> Answer {
        Answer { status, kind: None, text: "".into() }
    }

    fn write(&self, connection: &mut TcpStream) -> io::Result<()> {
        let length = Some(self.text.len());
        Head { status: self.status, kind: self.kind, length, headers: &HEADERS }.write(connection)?;
        connection.write_all(self.text.as_bytes())
    }
}

/// Serves from now on, in a thread.
pub fn start(listener: TcpListener, site: Site) -> io::Result<()> {
    let site = Arc::new(site);
    // it continues until the process ends
    let accept = move || {
        for connection in listener.incoming() {
            match connection {
                // each connection has a reference to the site
                Ok(connection) if Arc::strong_count(&site) <= MOST_CONNECTIONS => serve(connection, &site),
                Ok(_) => {}
                Err(_) => thread::sleep(PAUSE),
            }
        }
    };
    thread::Builder::new().name("page".to_owned()).spawn(accept).map(drop)
}

/// Answers a connection in a thread. If that fails, because the browser has gone or there is no thread, nobody is left to tell.
fn serve(mut connection: TcpStream, site: &Arc<Site>) {
    let site = Arc::clone(site);
    let answer = move || answer(&mut connection, &site).and_then(|()| close(connection));
    let _ = thread::Builder::new().name("page".to_owned()).spawn(answer);
}

fn answer(connection: &mut TcpStream, site: &Site) -> io::Result<()> {
    let wanted = read(connection, ASKED_WITHIN)?
        .and_then(|request| site.guard.admit(&request.method, request.uri.path(), &request.headers));
    let answer = match wanted {
        Ok(Wanted::File(name)) => file(name),
        Ok(Wanted::Events) if site.feed.pages() < MOST_PAGES => return events(connection, &site.feed),
        Ok(Wanted::Events) => Answer::empty(StatusCode::SERVICE_UNAVAILABLE),
        Ok(Wanted::Cut) => cut(site),
        Err(status) => Answer::empty(status),
    };
    answer.write(connection)
}

/// The page loads nothing from elsewhere, cannot be framed, and does not leak its address.
const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("cache-control", "no-store"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A file of the page. The guard knows the names.
fn file(name: &str) -> Answer {
    match name {
        "page.css" => Answer::ok(CSS, include_str!("page/page.css")),
        "uplot.min.css" => Answer::ok(CSS, include_str!("page/uplot.min.css")),
        "page.js" => Answer::ok(SCRIPT, include_str!("page/page.js")),
        "plots.js" => Answer::ok(SCRIPT, include_str!("page/plots.js")),
        "map.js" => Answer::ok(SCRIPT, include_str!("page/map.js")),
        "uplot.min.js" => Answer::ok(SCRIPT, include_str!("page/uplot.min.js")),
        _ => Answer::ok(HTML, include_str!("page/index.html")),
    }
}

/// Everything so far, and then events, until the page is closed. A page that is too slow for them gets everything again.
fn events(connection: &mut TcpStream, feed: &Feed) -> io::Result<()> {
    let head =
        Head { status: StatusCode::OK, kind: Some("text/event-stream"), length: None, headers: &HEADERS };
    head.write(connection)?;
    let mut send = |field: &str, text: &str| {
        // messages are JSON, without line breaks
        connection.write_all(format!("{field}:{text}\n\n").as_bytes())
    };
    let (all, mut told) = feed.open();
    send("data", &all)?;
    loop {
        match told.recv_timeout(ALIVE) {
            Ok(message) => send("data", &message)?,
            Err(RecvTimeoutError::Timeout) => send("", "")?,
            Err(RecvTimeoutError::Disconnected) => {
                let (all, again) = feed.open();
                told = again;
                send("data", &all)?;
            }
        }
    }
}

fn cut(site: &Site) -> Answer {
    let cut = match cut_and_recover(&site.image, &site.feed) {
        Ok(said) => Cut::Recovered(said),
        Err(error) => Cut::Failed(error.to_string()),
    };
    Answer::ok("application/json", serde_json::to_string(&cut).expect("an answer is plain data"))
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::net::SocketAddr;

    use super::*;
    use crate::token::Token;

    /// For a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    struct Served {
        address: SocketAddr,
        token: Token,
        feed: Arc<Feed>,
    }

    impl Served {
        fn new() -> Served {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let (address, token) = (listener.local_addr().unwrap(), Token::random().unwrap());
            let feed = Arc::new(Feed::new(false));
            let guard = Guard::new(token.clone(), address, false);
            start(listener, Site { guard, feed: Arc::clone(&feed), image: PathBuf::new() }).unwrap();
            Served { address, token, feed }
        }

        fn connect(&self) -> TcpStream {
            let connection = TcpStream::connect(self.address).unwrap();
            connection.set_read_timeout(Some(PATIENCE)).unwrap();
            connection
        }

        /// Sends a request, with whatever follows its first header.
        fn ask(&self, method: &str, name: &str, rest: &str) -> TcpStream {
            let mut connection = self.connect();
            let path = format!("/{}/{name}", self.token.text());
            let request = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n{rest}", self.address);
            // the server may have closed the connection already
            let _ = connection.write_all(request.as_bytes());
            connection
        }

        /// The whole answer; nothing if there is none.
        fn answer(&self, method: &str, name: &str, rest: &str) -> String {
            let mut answer = String::new();
            let _ = self.ask(method, name, rest).read_to_string(&mut answer);
            answer
        }
    }

    #[test]
    fn the_page_s_files_come_with_their_types_and_restrictions() {
        let served = Served::new();
        let answer = served.answer("GET", "page.js", "\r\n");
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        let lines: Vec<&str> = head.lines().collect();
        assert_eq!(lines[0], "HTTP/1.1 200 OK");
        let length = format!("content-length: {}", text.len());
        for line in [
            "connection: close",
            "content-type: text/javascript; charset=utf-8",
            "cache-control: no-store",
            &length,
        ] {
            assert!(lines.contains(&line), "{line} is not in {head}");
        }
        assert!(head.contains("default-src 'none'"), "{head}");
        assert_eq!(text, include_str!("page/page.js"));
        let other = served.answer("GET", "other", "\r\n");
        assert!(other.starts_with("HTTP/1.1 404 Not Found\r\n") && other.contains("no-store"), "{other}");
    }

    /// The system resets a connection that is closed before all of it was read.
    #[test]
    fn an_answer_arrives_although_the_request_has_a_body() {
        let served = Served::new();
        let rest = format!("content-length: 100000\r\n\r\n{}", "x".repeat(100_000));
        let answer = served.answer("POST", "cut", &rest);
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    }

    #[test]
    fn an_open_page_gets_everything_and_then_events_until_it_is_closed() {
        let served = Served::new();
        let connection = served.ask("GET", "events", "\r\n");
        let mut lines = BufReader::new(connection.try_clone().unwrap()).lines().map(Result::unwrap);
        let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        assert!(head.iter().any(|line| line == "content-type: text/event-stream"), "{head:?}");
        // there is no drive yet
        assert_eq!(lines.next().unwrap(), "data:{}");
        served.feed.tell(1, "power went");
        assert_eq!(lines.next().unwrap(), "");
        assert!(lines.next().unwrap().contains("power went"));
        drop(lines);
        connection.shutdown(std::net::Shutdown::Both).unwrap();
        drop(connection);
        let begun = Instant::now();
        while served.feed.pages() > 0 {
            assert!(begun.elapsed() < PATIENCE, "the page is closed, and still counts");
            served.feed.tell(1, "power went");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn there_are_not_more_pages_than_allowed() {
        let served = Served::new();
        let pages: Vec<_> = (0..MOST_PAGES).map(|_| served.feed.open()).collect();
        let answer = served.answer("GET", "events", "\r\n");
        assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
        drop(pages);
    }

    #[test]
    fn there_are_not_more_connections_than_allowed() {
        let served = Served::new();
        let idle: Vec<TcpStream> = (0..MOST_CONNECTIONS).map(|_| served.connect()).collect();
        assert_eq!(served.answer("GET", "page.js", "\r\n"), "");
        drop(idle);
        let begun = Instant::now();
        while served.answer("GET", "page.js", "\r\n").is_empty() {
            assert!(begun.elapsed() < PATIENCE, "the connections are closed, and still count");
            thread::sleep(Duration::from_millis(10));
        }
    }
}
