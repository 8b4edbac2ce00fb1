//! Which requests are answered.
//!
//! - The `Host` header must be one of this machine's names for the server, with its port. Otherwise a page from
//!   elsewhere whose name was rebound to 127.0.0.1 could read this one (DNS rebinding).
//! - The path begins with the token. Without it, nothing is found, whatever the path.
//! - Reading is `GET`. Power is cut by a `POST` that a page from elsewhere cannot send: it has a header that browsers let
//!   only pages of the same origin set, and its `Origin`, if any, is this server's.

use std::net::SocketAddr;

use http::{HeaderMap, Method, StatusCode, header};

use crate::token::Token;

/// The header of a request that changes something; its value is what to do.
pub const ACTION: &str = "x-tantalum-action";

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// A file of the page.
    File(&'static str),
    /// Events, from now on.
    Events,
    /// A power cut.
    Cut,
}

/// Files of the page.
pub const FILES: [&str; 7] =
    ["", "page.css", "page.js", "plots.js", "map.js", "uplot.min.js", "uplot.min.css"];

/// Decides about requests.
#[derive(Debug)]
pub struct Guard {
    token: Token,
    /// The server's permitted names.
    hosts: Vec<String>,
    control: bool,
}

impl Guard {
    /// For a server at this address.
    pub fn new(token: Token, address: SocketAddr, control: bool) -> Guard {
        let hosts = vec![address.to_string(), format!("localhost:{}", address.port())];
        Guard { token, hosts, control }
    }

    /// What a request asks for, or why it is refused.
    pub fn admit(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<Wanted, StatusCode> {
        let host = only(headers, header::HOST.as_str()).ok_or(StatusCode::BAD_REQUEST)?;
        if !self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host)) {
            return Err(StatusCode::MISDIRECTED_REQUEST);
        }
        let (token, name) = path.trim_start_matches('/').split_once('/').ok_or(StatusCode::NOT_FOUND)?;
        if !self.token.is(token) {
            return Err(StatusCode::NOT_FOUND);
        }
        let (wanted, expected) = match name {
            "events" => (Wanted::Events, Method::GET),
            "cut" => (Wanted::Cut, Method::POST),
            name => {
                let file = FILES.iter().find(|file| **file == name);
                (Wanted::File(file.ok_or(StatusCode::NOT_FOUND)?), Method::GET)
            }
        };
        if *method != expected {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        if wanted == Wanted::Cut {
            self.admit_cut(headers)?;
        }
        Ok(wanted)
    }

    fn admit_cut(&self, headers: &HeaderMap) -> Result<(), StatusCode> {
        let is_asked = only(headers, ACTION) == Some("cut");
        let is_ours = |origin: &str| {
            origin.strip_prefix("http://").is_some_and(|host| self.hosts.iter().any(|ours| ours == host))
        };
        let origin_is_ours = match headers.contains_key(header::ORIGIN) {
            true => only(headers, header::ORIGIN.as_str()).is_some_and(is_ours),
            false => true,
        };
        if self.control && is_asked && origin_is_ours { Ok(()) } else { Err(StatusCode::FORBIDDEN) }
    }
}

/// The value of a header that occurs exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const HOST: (&str, &str) = ("host", "127.0.0.1:4000");

    fn admit(
        control: bool,
        method: Method,
        name: &str,
        with: &[(&'static str, &str)],
    ) -> Result<Wanted, StatusCode> {
        let token = Token::random().unwrap();
        let path = name.replace("TOKEN", token.text());
        let guard = Guard::new(token, "127.0.0.1:4000".parse().unwrap(), control);
        let mut headers = HeaderMap::new();
        for (name, value) in with {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        guard.admit(&method, &path, &headers)
    }

    #[test]
    fn who_has_the_address_may_look() {
        let get = |path| admit(false, Method::GET, path, &[HOST]);
        assert_eq!(get("/TOKEN/"), Ok(Wanted::File("")));
        assert_eq!(get("/TOKEN/page.js"), Ok(Wanted::File("page.js")));
        assert_eq!(get("/TOKEN/events"), Ok(Wanted::Events));
        for path in
            ["/", "/TOKEN", "/page.js", "/TOKENx/", "/xTOKEN/", "/TOKEN/../page.js", "/TOKEN/token.rs"]
        {
            assert_eq!(get(path), Err(StatusCode::NOT_FOUND), "{path}");
        }
    }

    /// A page from elsewhere whose name resolves to this machine's loopback address.
    #[test]
    fn another_name_of_this_machine_is_refused() {
        let called = |host| admit(false, Method::GET, "/TOKEN/", &[("host", host)]);
        for host in ["127.0.0.1:4000", "localhost:4000", "LOCALHOST:4000"] {
            assert_eq!(called(host), Ok(Wanted::File("")), "{host}");
        }
        for host in
            ["evil.example:4000", "127.0.0.1", "localhost", "127.0.0.1:4001", "127.0.0.1:4000.evil.example"]
        {
            assert_eq!(called(host), Err(StatusCode::MISDIRECTED_REQUEST), "{host}");
        }
        assert_eq!(admit(false, Method::GET, "/TOKEN/", &[]), Err(StatusCode::BAD_REQUEST));
        let twice = [HOST, ("host", "evil.example:4000")];
        assert_eq!(admit(false, Method::GET, "/TOKEN/", &twice), Err(StatusCode::BAD_REQUEST));
    }

    #[test]
    fn each_address_takes_one_method() {
        for (path, right) in
            [("/TOKEN/", Method::GET), ("/TOKEN/events", Method::GET), ("/TOKEN/cut", Method::POST)]
        {
            for method in
                [Method::GET, Method::POST, Method::PUT, Method::OPTIONS, Method::DELETE, Method::HEAD]
            {
                let admitted = admit(true, method.clone(), path, &[HOST, (ACTION, "cut")]);
                match method == right {
                    true => assert!(admitted.is_ok(), "{method} {path}: {admitted:?}"),
                    false => assert_eq!(admitted, Err(StatusCode::METHOD_NOT_ALLOWED), "{method} {path}"),
                }
            }
        }
    }

    #[test]
    fn power_is_cut_only_from_this_page_and_only_with_control() {
        let cut = |control, with: &[(&'static str, &str)]| {
            let all: Vec<_> = [HOST].iter().chain(with).copied().collect();
            admit(control, Method::POST, "/TOKEN/cut", &all)
        };
        let (action, forbidden) = ((ACTION, "cut"), Err(StatusCode::FORBIDDEN));
        assert_eq!(cut(true, &[action]), Ok(Wanted::Cut));
        assert_eq!(cut(true, &[action, ("origin", "http://127.0.0.1:4000")]), Ok(Wanted::Cut));
        assert_eq!(cut(false, &[action]), forbidden, "without --control");
        // a form of a page from elsewhere cannot set the header
        assert_eq!(cut(true, &[]), forbidden);
        for origin in ["http://evil.example", "null", "https://127.0.0.1:4000", "http://127.0.0.1:4001"] {
            assert_eq!(cut(true, &[action, ("origin", origin)]), forbidden, "{origin}");
        }
    }
}
