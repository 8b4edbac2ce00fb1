//! A tap between a guest and a served drive, which checks what the drive has kept across a power cut.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::context::Context;
use super::failure::{Failure, ensure};

/// A tap, which ends with its test.
pub struct Tap {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Where it listens.
    pub port: String,
}

impl Tap {
    /// A tap on the drive of that name, served at a port.
    pub fn start(context: &Context, port: &str, name: &str) -> Result<Tap, Failure> {
        let mut child = Command::new(context.target.join("release/examples/tap"))
            .args([&format!("127.0.0.1:{port}"), name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = child.stdin.take().expect("a pipe was asked for");
        let answers = BufReader::new(child.stdout.take().expect("a pipe was asked for"));
        let mut tap = Tap { child, questions, answers, port: String::new() };
        let address = tap.line()?;
        let port = address.rsplit(':').next().filter(|_| address.contains(':'));
        tap.port = port.ok_or_else(|| Failure::Wrong(format!("the tap said {address:?}")))?.to_owned();
        Ok(tap)
    }

    /// What the drive has kept, in words. It is an error if anything is lost.
    pub fn check(&mut self) -> Result<String, Failure> {
        self.questions.write_all(b"\n")?;
        let said = self.line()?;
        ensure(said.starts_with("kept: "), || format!("the tap said {said:?}"))?;
        Ok(said)
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
