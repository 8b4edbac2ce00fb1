//! A headless Chromium, driven over ChromeDriver's WebDriver protocol, as far as the tests of pages need it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::failure::{Failure, ensure};

/// How long to wait for a page.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a server answers: the status and the body.
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// One HTTP request to this machine, with all of its headers.
pub fn http(
    port: u16,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Answer, Failure> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("\r\n{body}"));
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| Failure::Wrong(format!("{method} {path}: {first:?}")))?;
    let mut length = None;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
    }
    let mut body = Vec::new();
    match length {
        Some(length) => drop(reader.take(length).read_to_end(&mut body)?),
        None => drop(reader.read_to_end(&mut body)?),
    }
    Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned() })
}

/// A process that ends with its test.
pub struct Process {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a command, whose output is read.
    pub fn start(command: &mut Command) -> Result<Process, Failure> {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        let said = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Process { child, said })
    }

    /// Its number.
    pub fn number(&self) -> String {
        self.child.id().to_string()
    }

    /// The first word of its output with this beginning; it ends with white space or a full stop.
    pub fn word(&mut self, begins: &str) -> Result<String, Failure> {
        loop {
            let mut line = String::new();
            ensure(self.said.read_line(&mut line)? > 0, || {
                format!("a process ended without saying {begins}")
            })?;
            if let Some(at) = line.find(begins) {
                let word = line[at..].split_whitespace().next().unwrap_or_default();
                return Ok(word.trim_end_matches('.').to_owned());
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A browser with one page.
pub struct Browser {
    port: u16,
    session: String,
    _driver: Process,
}

impl Browser {
    /// Starts it; its files are in `folder`.
    pub fn start(folder: &Path) -> Result<Browser, Failure> {
        let mut driver = Process::start(Command::new("chromedriver").arg("--port=0"))?;
        let says = "successfully on port ";
        let port = loop {
            let mut line = String::new();
            ensure(driver.said.read_line(&mut line)? > 0, || "chromedriver did not start".to_owned())?;
            if let Some((_, port)) = line.split_once(says) {
                break port.trim().trim_end_matches('.').to_owned();
            }
        };
        let port = port.parse().map_err(|_| Failure::Wrong(format!("chromedriver's port is {port:?}")))?;
        let mut browser = Browser { port, session: String::new(), _driver: driver };
        let mut arguments: Vec<String> = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.push(format!("--user-data-dir={}", folder.join("profile").display()));
        let options = json!({"args": arguments, "binary": "/usr/bin/chromium"});
        let wanted = json!({"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}});
        let made = browser.command("POST", "/session", &json!({"capabilities": {"alwaysMatch": wanted}}))?;
        browser.session = made["sessionId"].as_str().unwrap_or_default().to_owned();
        Ok(browser)
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Result<Value, Failure> {
        let host = format!("127.0.0.1:{}", self.port);
        let headers = [("Host", host.as_str()), ("Content-Type", "application/json")];
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let answer = http(self.port, method, path, &headers, &body)?;
        let mut said: Value = serde_json::from_str(&answer.body)?;
        ensure(answer.status == 200, || format!("chromedriver: {method} {path}: {}", answer.body))?;
        Ok(said["value"].take())
    }

    fn of_session(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.command("POST", &format!("/session/{}{path}", self.session), body)
    }

    /// Opens a page.
    pub fn open(&self, url: &str) -> Result<(), Failure> {
        self.of_session("/url", &json!({"url": url})).map(drop)
    }

    /// Runs a script's function body in the page, and returns its result.
    pub fn run(&self, script: &str) -> Result<Value, Failure> {
        self.of_session("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// The text of an element.
    pub fn text(&self, id: &str) -> Result<String, Failure> {
        let text = self.run(&format!("return document.getElementById({id:?})?.textContent ?? ''"))?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until the text of an element is right, and returns it.
    pub fn wait_for(&self, id: &str, is_right: impl Fn(&str) -> bool) -> Result<String, Failure> {
        let begun = Instant::now();
        loop {
            let text = self.text(id)?;
            if is_right(&text) {
                return Ok(text);
            }
            ensure(begun.elapsed() < PATIENCE, || format!("after {PATIENCE:?} #{id} is {text:?}"))?;
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Presses keys, as a person with a keyboard does.
    pub fn press(&self, keys: &[&str]) -> Result<(), Failure> {
        let actions: Vec<Value> = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})))
            .collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": actions});
        self.of_session("/actions", &json!({"actions": [keyboard]})).map(drop)
    }

    /// The width and height of the screen in pixels, and light or dark.
    pub fn screen(&self, width: u32, height: u32, scheme: &str) -> Result<(), Failure> {
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics)?;
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", &json!({"features": features})).map(drop)
    }

    /// A picture of the whole page: a PNG in base 64.
    pub fn picture(&self) -> Result<String, Failure> {
        let metrics = self.devtools("Page.getLayoutMetrics", &json!({}))?;
        let size = &metrics["cssContentSize"];
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let wanted = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let taken = self.devtools("Page.captureScreenshot", &wanted)?;
        Ok(taken["data"].as_str().unwrap_or_default().to_owned())
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Result<Value, Failure> {
        self.of_session("/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// Errors and warnings on the page's console since the last call.
    pub fn complaints(&self) -> Result<Vec<String>, Failure> {
        let log = self.of_session("/se/log", &json!({"type": "browser"}))?;
        let entries = log.as_array().into_iter().flatten();
        let bad = entries.filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING");
        Ok(bad.map(|entry| entry["message"].to_string()).collect())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.command("DELETE", &format!("/session/{}", self.session), &Value::Null);
    }
}
