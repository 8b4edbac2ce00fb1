//! The control socket of an image in use, mounted or served: each request and each answer is one line with one JSON object.
//!
//! The socket is beside the image, and only the user who started that process may use it. Requests are answered even if
//! the drive has no power.

use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tantalum::RecoveryReport;

use crate::ending::{End, Ended};
use crate::process::Process;
use crate::socket::{Socket, connect, listen, socket_path};

/// A process that has answered how it ended may have other work, or much memory to return.
const MOST_WAIT_TO_EXIT: Duration = Duration::from_secs(5);

/// A request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// The counters of the drive and of what is on it.
    Stat,
    /// The drive at a glance, as [`crate::Look`], and what is on it. A connection that asks for this is watching:
    /// statistics that cost a little time are kept until it is closed.
    Look,
    /// The drive loses power.
    Cut {
        /// The flash operation at which to cut: 1 is the next program or erase. `None`: at once.
        #[serde(default)]
        after_flash_operations: Option<u64>,
        /// Seed for the outcome of operations in flight.
        seed: u64,
    },
    /// After a cut: what recovery finds. Where the drive comes back only when the image is opened again, recovery is tried in
    /// memory and the image is left as the cut left it.
    Recover,
    /// Records what is done to the files of a mount, until the connection is closed.
    Record {
        /// The file that takes the recording.
        #[serde(with = "crate::path")]
        to: PathBuf,
    },
    /// Makes everything durable and sets a mark in the recording.
    Mark,
    /// Notes in the recording of a served drive what a program has acknowledged.
    Acknowledge {
        /// What it printed.
        line: String,
    },
    /// Sets how well hosts reach a served drive through a port.
    Access {
        /// The port, from 1.
        port: u16,
        /// `optimized`, `non-optimized`, `inaccessible` or `change`.
        access: String,
    },
    /// Ends the use of the image; answered when that has begun.
    Stop,
    /// How the use ends; answered when it has ended and the image can be opened again.
    End,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Response {
    /// To [`Request::Stat`].
    Stat(serde_json::Value),
    /// To [`Request::Look`].
    Look(serde_json::Value),
    /// To [`Request::Recover`].
    Recover(Box<RecoveryReport>),
    /// To [`Request::Cut`]: whether the drive still has power.
    Cut {
        /// False if power was cut at once.
        has_power: bool,
    },
    /// To [`Request::Record`].
    Record,
    /// To [`Request::Mark`]: the counters at the mark, and how the image is used.
    Mark(serde_json::Value),
    /// To [`Request::Acknowledge`].
    Acknowledge,
    /// To [`Request::Access`].
    Access,
    /// To [`Request::Stop`].
    Stop,
    /// To [`Request::End`].
    End(Ended),
    /// The request was invalid, or came too late.
    Error(String),
}

/// Why the process that uses an image did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// Nothing listens.
    #[error("image {}: nothing answers at {}: {error}", image.display(), socket_path(image).display())]
    NotInUse {
        /// The image.
        image: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The connection broke off.
    #[error("image {}: the process that uses it does not answer: {error}", image.display())]
    Broken {
        /// The image.
        image: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It refused the request.
    #[error("image {}: {message}", image.display())]
    Refused {
        /// The image.
        image: PathBuf,
        /// Its message.
        message: String,
    },
}

/// A connection to the process that uses an image.
#[derive(Debug)]
pub struct Control {
    image: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Control {
    /// Opens it.
    pub fn connect(image: &Path) -> Result<Control, ControlError> {
        match connect(image) {
            Ok(stream) => Ok(Control { image: image.to_path_buf(), stream: BufReader::new(stream) }),
            Err(error) => Err(ControlError::NotInUse { image: image.to_path_buf(), error }),
        }
    }

    /// The counters of the drive and of what is on it.
    pub fn stat<R: DeserializeOwned>(&mut self) -> Result<R, ControlError> {
        match self.ask(Request::Stat)? {
            Response::Stat(report) => self.read(report),
            other => Err(self.unexpected(other)),
        }
    }

    /// The drive at a glance, and what is on it, see [`Request::Look`].
    pub fn look<R: DeserializeOwned>(&mut self) -> Result<R, ControlError> {
        match self.ask(Request::Look)? {
            Response::Look(look) => self.read(look),
            other => Err(self.unexpected(other)),
        }
    }

    /// What recovery finds after a cut, see [`Request::Recover`].
    pub fn recover(&mut self) -> Result<RecoveryReport, ControlError> {
        match self.ask(Request::Recover)? {
            Response::Recover(report) => Ok(*report),
            other => Err(self.unexpected(other)),
        }
    }

    /// Starts to record what is done to the files of a mount, into this file. The recording ends with the connection.
    pub fn record(&mut self, to: &Path) -> Result<(), ControlError> {
        match self.ask(Request::Record { to: to.to_path_buf() })? {
            Response::Record => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    /// Makes everything durable and sets a mark in the recording of this connection; everything before it can then be read.
    pub fn mark<R: DeserializeOwned>(&mut self) -> Result<R, ControlError> {
        match self.ask(Request::Mark)? {
            Response::Mark(report) => self.read(report),
            other => Err(self.unexpected(other)),
        }
    }

    /// Notes what a program has acknowledged, see [`Request::Acknowledge`].
    pub fn acknowledge(&mut self, line: &str) -> Result<(), ControlError> {
        match self.ask(Request::Acknowledge { line: line.to_owned() })? {
            Response::Acknowledge => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    /// Sets how well hosts reach a served drive through a port, see [`Request::Access`].
    pub fn set_access(&mut self, port: u16, access: &str) -> Result<(), ControlError> {
        match self.ask(Request::Access { port, access: access.to_owned() })? {
            Response::Access => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    fn read<R: DeserializeOwned>(&self, report: serde_json::Value) -> Result<R, ControlError> {
        serde_json::from_value(report)
            .map_err(|error| ControlError::Broken { image: self.image.clone(), error: error.into() })
    }

    /// Ends the use of the image. Call [`Control::watch_end`] on another connection first: a process that has ended
    /// does not answer.
    pub fn stop(&mut self) -> Result<(), ControlError> {
        match self.ask(Request::Stop)? {
            Response::Stop => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    /// Cuts power, see [`Request::Cut`]. Returns whether the drive still has power.
    pub fn cut(&mut self, after_flash_operations: Option<u64>, seed: u64) -> Result<bool, ControlError> {
        match self.ask(Request::Cut { after_flash_operations, seed })? {
            Response::Cut { has_power } => Ok(has_power),
            other => Err(self.unexpected(other)),
        }
    }

    /// Asks how the use of the image ends. Call this before ending it: a process that has ended does not answer.
    pub fn watch_end(mut self) -> Result<EndWatch, ControlError> {
        // Once it has answered this, the process knows the connection, and answers the next request before it ends.
        match self.stat::<serde_json::Value>() {
            Ok(_) | Err(ControlError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
        self.send(Request::End)?;
        let process = Process::at(self.stream.get_ref());
        Ok(EndWatch { control: self, process })
    }

    /// Closes the connection, and returns when what it started has ended: only then may another connection record.
    pub fn close(mut self) {
        // a process that is gone has closed it
        if self.stream.get_ref().shutdown(Shutdown::Write).is_ok() {
            let _ = io::copy(&mut self.stream, &mut io::sink());
        }
    }

    fn ask(&mut self, request: Request) -> Result<Response, ControlError> {
        self.send(request)?;
        self.receive()
    }

    fn send(&mut self, request: Request) -> Result<(), ControlError> {
        let mut line = serde_json::to_string(&request).expect("requests are plain data");
        line.push('\n');
        let sent = self.stream.get_mut().write_all(line.as_bytes());
        sent.map_err(|error| ControlError::Broken { image: self.image.clone(), error })
    }

    fn receive(&mut self) -> Result<Response, ControlError> {
        let mut answer = String::new();
        let answered = self.stream.read_line(&mut answer).and_then(|bytes| match bytes {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => serde_json::from_str(&answer).map_err(io::Error::from),
        });
        match answered {
            Ok(Response::Error(message)) => Err(ControlError::Refused { image: self.image.clone(), message }),
            Ok(response) => Ok(response),
            Err(error) => Err(ControlError::Broken { image: self.image.clone(), error }),
        }
    }

    fn unexpected(&self, response: Response) -> ControlError {
        let message = format!("unexpected answer: {response:?}");
        ControlError::Refused { image: self.image.clone(), message }
    }
}

/// A request for the end of the use of an image.
#[derive(Debug)]
pub struct EndWatch {
    control: Control,
    process: Option<Process>,
}

impl EndWatch {
    /// Waits until the use has ended and the image can be opened again, and returns how it ended. If another process used it, that
    /// is gone as well, unless it has other work: until then the disk on which its log is cannot be unmounted.
    pub fn wait(mut self) -> Result<Ended, ControlError> {
        match self.control.receive()? {
            Response::End(ended) => {
                if let Some(process) = self.process {
                    process.wait(MOST_WAIT_TO_EXIT);
                }
                Ok(ended)
            }
            other => Err(self.control.unexpected(other)),
        }
    }
}

// -- the answering side -----------------------------------------------------------------------------------------

/// The process that uses the image.
pub trait Subject: Send + Sync + 'static {
    /// The image.
    fn image(&self) -> &Path;

    /// The answer to [`Request::Stat`], as JSON, or why it comes too late.
    fn stat(&self) -> Result<serde_json::Value, String>;

    /// The answer to [`Request::Look`], as JSON, or why it comes too late.
    fn look(&self) -> Result<serde_json::Value, String>;

    /// A connection has begun to watch.
    fn begin_watch(&self) {}

    /// It has ended.
    fn end_watch(&self) {}

    /// What recovery finds after a cut, see [`Request::Recover`].
    fn recover(&self) -> Result<RecoveryReport, String>;

    /// Cuts power, see [`Request::Cut`]. Returns whether the drive still has power.
    fn cut(&self, after_flash_operations: Option<u64>, seed: u64) -> Result<bool, String>;

    /// Begins to end the use of the image, or says how to end it otherwise.
    fn stop(&self) -> Result<(), String>;

    /// Announces the end.
    fn end(&self) -> &End;

    /// Starts a recording, see [`Request::Record`], or says why that is not possible.
    fn record(&self, _to: &Path) -> Result<(), String> {
        Err("it is served, not mounted, and the drive knows no files; measure it where it is mounted"
            .to_owned())
    }

    /// Sets a mark, see [`Request::Mark`].
    fn mark(&self) -> Result<serde_json::Value, String> {
        Err("nothing is recorded".to_owned())
    }

    /// Notes what a program has acknowledged, see [`Request::Acknowledge`].
    fn acknowledge(&self, _line: &str) -> Result<(), String> {
        Err("nothing is recorded; `tantalum crash run` records a mounted volume".to_owned())
    }

    /// Ends the recording that this connection started.
    fn end_recording(&self) {}

    /// Sets how well hosts reach the drive through a port, see [`Request::Access`].
    fn set_access(&self, _port: u16, _access: &str) -> Result<(), String> {
        Err("it is mounted, not served: only hosts of a served drive reach it through ports".to_owned())
    }
}

/// Creates the socket and answers from now on, in its own threads.
pub fn serve(subject: Arc<impl Subject>) -> io::Result<Socket> {
    let (listener, socket) = listen(subject.image())?;
    thread::Builder::new().name("control".to_owned()).spawn(move || accept(&listener, &subject))?;
    Ok(socket)
}

fn accept(listener: &UnixListener, subject: &Arc<impl Subject>) {
    for stream in listener.incoming().map_while(Result::ok) {
        let Ok(copy) = stream.try_clone() else { continue };
        let number = subject.end().join(copy);
        let talking = Arc::clone(subject);
        let talk = move || {
            converse(stream, &*talking);
            talking.end().leave(number);
        };
        // A connection for which no thread is left is closed.
        if thread::Builder::new().name("control".to_owned()).spawn(talk).is_err() {
            subject.end().leave(number);
        }
    }
}

/// What a connection has started, and what ends with it.
#[derive(Default)]
struct Begun {
    records: bool,
    watches: bool,
}

fn converse(stream: UnixStream, subject: &impl Subject) {
    let mut begun = Begun::default();
    answer_all(stream, subject, &mut begun);
    if begun.records {
        subject.end_recording();
    }
    if begun.watches {
        subject.end_watch();
    }
}

fn answer_all(stream: UnixStream, subject: &impl Subject, begun: &mut Begun) {
    let Ok(mut answers) = stream.try_clone() else { return };
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let response = match serde_json::from_str(&line) {
            Ok(request) => answer_or_fail(subject, request, begun).unwrap_or_else(Response::Error),
            Err(error) => Response::Error(format!("not a valid request: {error}")),
        };
        let mut text = serde_json::to_string(&response).expect("responses are plain data");
        text.push('\n');
        if answers.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// A bug in one answer neither leaves its client waiting nor keeps the process from ending: it is an error to the client.
fn answer_or_fail(subject: &impl Subject, request: Request, begun: &mut Begun) -> Result<Response, String> {
    let answered = catch_unwind(AssertUnwindSafe(|| answer(subject, request, begun)));
    answered.unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().map(String::as_str);
        let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
        Err(format!("a bug of Tantalum, so there is no answer: {what}"))
    })
}

fn answer(subject: &impl Subject, request: Request, begun: &mut Begun) -> Result<Response, String> {
    match request {
        Request::Record { to } => {
            subject.record(&to)?;
            begun.records = true;
            Ok(Response::Record)
        }
        Request::Mark if !begun.records => Err("this connection records nothing".to_owned()),
        Request::Mark => subject.mark().map(Response::Mark),
        Request::Stat => subject.stat().map(Response::Stat),
        Request::Look => {
            if !std::mem::replace(&mut begun.watches, true) {
                subject.begin_watch();
            }
            subject.look().map(Response::Look)
        }
        Request::Recover => subject.recover().map(|report| Response::Recover(Box::new(report))),
        Request::End => Ok(Response::End(subject.end().wait())),
        Request::Acknowledge { line } => subject.acknowledge(&line).map(|()| Response::Acknowledge),
        Request::Access { port, access } => subject.set_access(port, &access).map(|()| Response::Access),
        Request::Stop => subject.stop().map(|()| Response::Stop),
        Request::Cut { after_flash_operations: Some(0), .. } => {
            Err("flash operations are counted from 1".to_owned())
        }
        Request::Cut { after_flash_operations, seed } => {
            let has_power = subject.cut(after_flash_operations, seed)?;
            Ok(Response::Cut { has_power })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its statistics have a bug.
    struct Broken {
        image: PathBuf,
        end: End,
    }

    impl Subject for Broken {
        fn image(&self) -> &Path {
            &self.image
        }

        fn stat(&self) -> Result<serde_json::Value, String> {
            panic!("reports are plain data")
        }

        fn look(&self) -> Result<serde_json::Value, String> {
            Ok("seen".into())
        }

        fn recover(&self) -> Result<RecoveryReport, String> {
            Err(String::new())
        }

        fn cut(&self, _after_flash_operations: Option<u64>, _seed: u64) -> Result<bool, String> {
            Ok(true)
        }

        fn stop(&self) -> Result<(), String> {
            Ok(())
        }

        fn end(&self) -> &End {
            &self.end
        }

        fn record(&self, to: &Path) -> Result<(), String> {
            Err(format!("{to:?}"))
        }
    }

    fn broken() -> (tempfile::TempDir, Arc<Broken>, Socket) {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("drive.tant");
        std::fs::write(&image, "").unwrap();
        let subject = Arc::new(Broken { image, end: End::default() });
        let socket = serve(Arc::clone(&subject)).unwrap();
        (folder, subject, socket)
    }

    #[test]
    fn an_answer_that_panics_is_an_error_to_the_client_and_the_connection_goes_on() {
        let (_folder, subject, _socket) = broken();
        let mut control = Control::connect(&subject.image).unwrap();
        let error = control.stat::<serde_json::Value>().unwrap_err();
        assert!(
            matches!(&error, ControlError::Refused { message, .. } if message.contains("plain data")),
            "{error}"
        );
        assert_eq!(control.look::<String>().unwrap(), "seen");
        // and whoever waits for the end hears of it
        let end = control.watch_end().unwrap();
        subject.end.come(Ended::Closed);
        assert_eq!(end.wait().unwrap(), Ended::Closed);
    }

    #[test]
    fn a_path_that_is_not_utf_8_arrives_as_it_was() {
        use std::os::unix::ffi::OsStrExt;
        let (_folder, subject, _socket) = broken();
        let to = Path::new(std::ffi::OsStr::from_bytes(b"/r\xff"));
        let error = Control::connect(&subject.image).unwrap().record(to).unwrap_err();
        assert!(
            matches!(&error, ControlError::Refused { message, .. } if *message == format!("{to:?}")),
            "{error}"
        );
    }

    #[test]
    fn requests_are_lines_of_json() {
        let text = r#"{"request":"cut","after_flash_operations":5,"seed":1}"#;
        let cut = Request::Cut { after_flash_operations: Some(5), seed: 1 };
        assert_eq!(serde_json::from_str::<Request>(text).unwrap(), cut);
        assert_eq!(serde_json::to_string(&Request::Stat).unwrap(), r#"{"request":"stat"}"#);
        assert_eq!(serde_json::to_string(&Request::End).unwrap(), r#"{"request":"end"}"#);
        assert_eq!(serde_json::to_string(&Response::End(Ended::Closed)).unwrap(), r#"{"end":"closed"}"#);
        assert!(serde_json::from_str::<Request>(r#"{"request":"format"}"#).is_err());
    }
}
