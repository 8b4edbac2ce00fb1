//! HTTP/1.1 as far as a page on the same machine needs it: a connection has one request, whose body is ignored, and ends
//! with the answer.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

/// The longest request line with all headers.
const MOST_HEAD_BYTES: usize = 16 << 10;

/// The most headers.
const MOST_HEADERS: usize = 64;

/// A browser that takes nothing for so long is given up.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);

/// How long a browser may take to close a connection after the answer.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);

/// A request without its body.
#[derive(Debug)]
pub struct Request {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
}

/// An answer's head. Without a length, the answer ends with the connection.
pub struct Head<'a> {
    pub status: StatusCode,
    /// The type of what follows.
    pub kind: Option<&'a str>,
    pub length: Option<usize>,
    /// Names and values.
    pub headers: &'a [(&'a str, &'a str)],
}

/// The connection's request, or the status with which it is refused: if it is none, or takes longer than `within`. An error if
/// the connection ends or nothing comes.
pub fn read(connection: &mut TcpStream, within: Duration) -> io::Result<Result<Request, StatusCode>> {
    connection.set_read_timeout(Some(within))?;
    connection.set_write_timeout(Some(TAKEN_WITHIN))?;
    let begun = Instant::now();
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match connection.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => head.extend_from_slice(&piece[..bytes]),
        }
        match parse(&head) {
            Ok(Some(request)) => return Ok(Ok(request)),
            Ok(None) if head.len() > MOST_HEAD_BYTES => {
                return Ok(Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
            }
            Ok(None) if begun.elapsed() > within => return Ok(Err(StatusCode::REQUEST_TIMEOUT)),
            Ok(None) => {}
            Err(status) => return Ok(Err(status)),
        }
    }
}

/// The request, if all of its head is there.
fn parse(head: &[u8]) -> Result<Option<Request>, StatusCode> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(head) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        Err(_) => return Err(StatusCode::BAD_REQUEST),
    }
    request(&parsed).map(Some).ok_or(StatusCode::BAD_REQUEST)
}

fn request(parsed: &httparse::Request<'_, '_>) -> Option<Request> {
    let mut headers = HeaderMap::new();
    for header in parsed.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    let method = Method::from_bytes(parsed.method?.as_bytes()).ok()?;
    Some(Request { method, uri: parsed.path?.parse().ok()?, headers })
}

impl Head<'_> {
    /// Sends it.
    pub fn write(&self, connection: &mut TcpStream) -> io::Result<()> {
        let mut text = format!("HTTP/1.1 {}\r\nconnection: close\r\n", self.status);
        let length = self.length.map(|length| length.to_string());
        let content = [("content-type", self.kind), ("content-length", length.as_deref())];
        let content = content.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
        for (name, value) in content.chain(self.headers.iter().copied()) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        connection.write_all(text.as_bytes())
    }
}

/// Ends a connection after its answer. What the browser has sent beyond its request is read first: otherwise the system
/// would reset the connection, and the answer might not arrive.
pub fn close(mut connection: TcpStream) -> io::Result<()> {
    connection.shutdown(Shutdown::Write)?;
    connection.set_read_timeout(Some(CLOSED_WITHIN))?;
    let (begun, mut rest) = (Instant::now(), [0; 4096]);
    while begun.elapsed() < CLOSED_WITHIN && connection.read(&mut rest)? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A browser's end of a connection, and the server's.
    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let browser = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (browser, listener.accept().unwrap().0)
    }

    #[test]
    fn a_request_that_never_ends_is_refused() {
        let (mut browser, mut server) = connected();
        let begun = Instant::now();
        let drips = thread::spawn(move || {
            while begun.elapsed() < Duration::from_secs(60) && browser.write_all(b"G").is_ok() {
                thread::sleep(Duration::from_millis(10));
            }
        });
        let refused = read(&mut server, Duration::from_millis(200)).unwrap().unwrap_err();
        assert_eq!(refused, StatusCode::REQUEST_TIMEOUT);
        drop(server);
        drips.join().unwrap();
    }

    #[test]
    fn a_request_that_is_too_long_is_refused() {
        let (mut browser, mut server) = connected();
        browser.write_all(&[b'G'; MOST_HEAD_BYTES + 1]).unwrap();
        let refused = read(&mut server, Duration::from_secs(60)).unwrap().unwrap_err();
        assert_eq!(refused, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }

    fn parsed(text: &str) -> Result<Option<Request>, StatusCode> {
        parse(text.as_bytes())
    }

    #[test]
    fn a_request_is_taken_apart_once_it_is_complete() {
        let text = "POST /a/b?c HTTP/1.1\r\nHost: localhost:1\r\nX-Twice: 1\r\nX-Twice: 2\r\n\r\n";
        for end in 0..text.len() {
            assert!(parsed(&text[..end]).unwrap().is_none(), "{end}");
        }
        let request = parsed(text).unwrap().unwrap();
        assert_eq!((request.method, request.uri.path()), (Method::POST, "/a/b"));
        assert_eq!(request.headers["host"], "localhost:1");
        assert_eq!(request.headers.get_all("x-twice").iter().count(), 2);
        let request = parsed("GET http://localhost:1/a HTTP/1.1\r\n\r\n").unwrap().unwrap();
        assert_eq!(request.uri.path(), "/a");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for text in [
            "\0",
            "GET\r\n\r\n",
            "GET / HTTP/2\r\n\r\n",
            "GET / HTTP/1.1\r\na b: c\r\n\r\n",
            "GET \0 HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(parsed(text).unwrap_err(), StatusCode::BAD_REQUEST, "{text:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MOST_HEADERS + 1));
        assert_eq!(parsed(&many).unwrap_err(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
}
