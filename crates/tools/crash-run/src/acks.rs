//! What the program acknowledges, in order with its operations.
//!
//! Standard output and `$TANTALUM_ACK` are pipes. What is in a pipe when an operation arrives was written before that operation,
//! or by somebody who did not wait for it. So each operation first takes what the pipes hold ([`Heard::hear`]), and the order of
//! what one thread says and does is exact, however busy the machine is. A thread takes what is acknowledged between operations.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::panic;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;
use parking_lot::Mutex;

use crate::error::RunError;
use crate::operation::{Operation, Recording, is_first_part};

/// The prefix of an output line in which the program acknowledges something.
const SAYS: &[u8] = b"ack ";

/// Bytes taken from a pipe at once: as much as one usually holds.
const PIPE_BYTES: usize = 64 << 10;

/// As much as one can hold. What comes after that was written later, and a program that floods its pipe stops no operation.
const MOST_PIPE_BYTES: usize = 1 << 20;

/// A recording, and where the program's acknowledgements come from.
#[derive(Default)]
pub(crate) struct Heard {
    pub recording: Recording,
    pipes: Vec<Pipe>,
    /// How many operations there were when a system call had written all that it was to.
    ended: usize,
}

/// Shared by the recorder and the threads that wait for the program.
pub(crate) type Shared = Arc<Mutex<Heard>>;

/// The reading end of a pipe.
struct Pipe {
    from: File,
    /// Whether every line is an acknowledgement. Otherwise those without [`SAYS`] go to standard error.
    is_all: bool,
    /// The beginning of a line.
    line: Vec<u8>,
    /// Where bytes are read to: every operation looks into each pipe.
    buffer: Box<[u8]>,
}

impl Heard {
    /// The program begins now: everything so far is durable.
    pub fn begin(&mut self) {
        self.recording.begins = self.recording.operations.len();
    }

    /// Adds an operation, after what was acknowledged before it.
    pub fn done(&mut self, operation: Operation) {
        self.hear();
        if !self.joins(&operation) {
            self.recording.operations.push(operation);
        }
    }

    /// The last write is all of its system call.
    pub fn call_ends(&mut self) {
        self.ended = self.recording.operations.len();
    }

    /// Joins a write with the one before it, if they are parts of what the program wrote at once.
    fn joins(&mut self, operation: &Operation) -> bool {
        let ended = self.ended;
        let Recording { operations, begins, acks } = &mut self.recording;
        let is_apart = ended == operations.len()
            || operations.len() == *begins
            || acks.last().is_some_and(|(at, _)| *at == operations.len());
        match (operation, operations.last_mut()) {
            (Operation::Write(file, offset, rest), Some(Operation::Write(before, from, data)))
                if !is_apart && file == before && is_first_part(*from, data.len() as u64, *offset) =>
            {
                *data = [&data[..], rest].concat().into();
                true
            }
            _ => false,
        }
    }

    /// Adds an acknowledgement.
    pub fn ack(&mut self, what: &str) {
        let at = self.recording.operations.len();
        self.recording.acks.push((at, what.to_owned()));
    }

    /// Takes what the pipes hold.
    fn hear(&mut self) {
        let mut pipes = std::mem::take(&mut self.pipes);
        for pipe in &mut pipes {
            for _ in 0..MOST_PIPE_BYTES / PIPE_BYTES {
                if !pipe.fill() {
                    break;
                }
                let whole = pipe.take_whole_lines();
                let lines = whole
                    .strip_suffix(b"\n")
                    .into_iter()
                    .flat_map(|lines| lines.split(|byte| *byte == b'\n'));
                lines.for_each(|line| self.take_line(line, pipe.is_all));
            }
        }
        self.pipes = pipes;
    }

    /// Nobody writes any more: takes what is left, also lines without an end.
    fn end(&mut self) {
        self.hear();
        for pipe in std::mem::take(&mut self.pipes) {
            if !pipe.line.is_empty() {
                self.take_line(&pipe.line, pipe.is_all);
            }
        }
    }

    fn take_line(&mut self, line: &[u8], is_all: bool) {
        match line.strip_prefix(SAYS) {
            Some(ack) => self.ack(&String::from_utf8_lossy(ack)),
            None if is_all => self.ack(&String::from_utf8_lossy(line)),
            None => {
                // whoever does not read it does not want it
                let mut error = io::stderr().lock();
                let _ = error.write_all(line).and_then(|()| error.write_all(b"\n"));
            }
        }
    }
}

impl Pipe {
    fn new(from: File, is_all: bool) -> io::Result<Pipe> {
        fcntl(&from, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Pipe { from, is_all, line: Vec::new(), buffer: vec![0; PIPE_BYTES].into() })
    }

    /// Takes the lines that have an end, together: a program may print tens of thousands at once.
    fn take_whole_lines(&mut self) -> Vec<u8> {
        let end = self.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let rest = self.line.split_off(end);
        std::mem::replace(&mut self.line, rest)
    }

    /// Takes bytes that wait in it, if there are any.
    fn fill(&mut self) -> bool {
        loop {
            match self.from.read(&mut self.buffer) {
                Ok(0) => return false,
                Ok(count) => {
                    self.line.extend_from_slice(&self.buffer[..count]);
                    return true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }
}

/// Calls a function that runs the program and waits for its end. The program's standard output is the pipe that the function
/// gets; a line that begins with `ack ` is an acknowledgement. So is each line of the named pipe `acks`, which is created.
pub(crate) fn listening(
    shared: &Shared,
    acks: &Path,
    run: impl FnOnce(&io::PipeWriter) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let pipe = |error| RunError::files("a pipe")(error);
    nix::unistd::mkfifo(acks, Mode::S_IRUSR | Mode::S_IWUSR)
        .map_err(|errno| RunError::files(acks)(errno.into()))?;
    // opened for reading and writing, so that neither side waits for the other
    let named = File::options().read(true).write(true).open(acks).map_err(RunError::files(acks))?;
    let (read, output) = io::pipe().map_err(pipe)?;
    let (ends, end) = io::pipe().map_err(pipe)?;
    let output_read = File::from(std::os::fd::OwnedFd::from(read));
    let waited = [named.try_clone().map_err(pipe)?, output_read.try_clone().map_err(pipe)?];
    let pipes = [Pipe::new(named, true), Pipe::new(output_read, false)];
    let pipes: io::Result<Vec<Pipe>> = pipes.into_iter().collect();
    shared.lock().pipes = pipes.map_err(pipe)?;
    let ran = thread::scope(|scope| {
        scope.spawn(|| hear_while_open(shared, &waited, &ends));
        let ran = panic::catch_unwind(panic::AssertUnwindSafe(|| run(&output)));
        // until now it was open, or an ended program's pipe would be ready for ever
        drop((output, end));
        ran
    });
    shared.lock().end();
    ran.unwrap_or_else(|panicked| panic::resume_unwind(panicked))
}

/// Takes what is acknowledged, until the other end of `ends` is closed: a pipe that is full would stop the program.
fn hear_while_open(shared: &Shared, waited: &[File; 2], ends: &io::PipeReader) {
    let readable = |file| PollFd::new(file, PollFlags::POLLIN);
    loop {
        let mut ready = [readable(ends.as_fd()), readable(waited[0].as_fd()), readable(waited[1].as_fd())];
        let is_ready = poll(&mut ready, PollTimeout::NONE).is_ok();
        if is_ready && ready[0].revents().is_some_and(|events| !events.is_empty()) {
            return;
        }
        shared.lock().hear();
    }
}
