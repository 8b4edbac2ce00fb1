//! A served image on a file system that fails: each call on the image fails once, or from then on, while a host writes and
//! flushes. Until the server ends it goes on reading; then the image is served without room, after a second failure, and with
//! room. The host finds what was promised, and nothing hangs.
//!
//! Some calls fail; with `FAILING_CALLS=all` every one does.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::context::{Context, Done, Outcome};
use super::failing_disk::{FailingFolder, fail_all, unless_it_hangs};
use super::failure::{Failure, ensure, unless_refused};
use super::served::Served;

/// Rounds of writes and a flush in one life.
const ROUNDS: u32 = 6;

/// The example `witness`, a host that knows what must be there.
struct Witness {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Witness {
    fn start(context: &Context) -> Result<Witness, Failure> {
        let mut process = Command::new(context.target.join("release/examples/witness"))
            .arg("1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (input, output) = input.zip(output).expect("pipes were asked for");
        Ok(Witness { process, input, output: BufReader::new(output) })
    }

    fn tell(&mut self, line: &str) -> Result<String, Failure> {
        writeln!(self.input, "{line}")?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        // it has said why on standard error
        ensure(!answer.is_empty(), || format!("the host was told {line:?}, and found a promise broken"))?;
        Ok(answer.trim_end().to_owned())
    }

    fn attach(&mut self, served: &Served<'_>) -> Result<(), Failure> {
        self.tell(&format!("attach 127.0.0.1:{} {}", served.port, served.name)).map(drop)
    }

    /// Whether all rounds were done.
    fn work(&mut self) -> Result<bool, Failure> {
        Ok(self.tell(&format!("work {ROUNDS}"))? == "done")
    }

    /// How many blocks a drive reads that takes no more changes; none if it takes changes.
    fn read(&mut self) -> Result<Option<u32>, Failure> {
        let answer = self.tell("read")?;
        let (read, is_protected) = answer.split_once(' ').unwrap_or_default();
        Ok(if is_protected == "1" { read.parse().ok() } else { None })
    }

    fn look(&mut self) -> Result<(), Failure> {
        self.tell("look").map(drop)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A served image in a folder that fails, and its host.
struct Stage<'a> {
    witness: Witness,
    served: Served<'a>,
    /// Goes last: the others use it.
    failing: FailingFolder,
    /// Servers that went on reading, and the blocks that they read.
    read: [u32; 2],
}

impl Stage<'_> {
    /// One life in which call number `call` fails. False if there were fewer calls.
    fn fail_at(&mut self, call: u64, how: &str) -> Result<bool, Failure> {
        self.failing.fail(call, how)?;
        let (served, witness) = (&mut self.served, &mut self.witness);
        match unless_refused(served.anywhere())? {
            Some(false) => {
                witness.attach(served)?;
                let read = if witness.work()? { None } else { witness.read()? };
                self.read = [self.read[0] + u32::from(read.is_some()), self.read[1] + read.unwrap_or(0)];
                match call.is_multiple_of(2) {
                    // it says so if it cannot close the image
                    true => drop(unless_refused(served.stop())?),
                    false => served.end()?,
                }
            }
            Some(true) => served.stop()?,
            None => {}
        }
        let failed = self.failing.heal()?;
        self.find(call)?;
        Ok(failed.is_some())
    }

    fn find(&mut self, call: u64) -> Result<(), Failure> {
        let (served, witness) = (&mut self.served, &mut self.witness);
        self.failing.fail(0, "enospc on")?;
        let is_only_read = served.anywhere()?;
        witness.attach(served)?;
        witness.look()?;
        if is_only_read {
            ensure(!witness.work()?, || "without room a host has written".to_owned())?;
            let read = witness.read()?;
            ensure(read == Some(300), || format!("without room {read:?} of 300 blocks are read"))?;
            served.stop()?;
        } else {
            served.end()?;
        }
        self.failing.fail(call * 7 % 40, "eio once")?;
        if unless_refused(served.anywhere())?.is_some() {
            served.end()?;
        }
        self.failing.heal()?;
        ensure(!served.anywhere()?, || "there is room".to_owned())?;
        witness.attach(served)?;
        witness.look()?;
        served.stop()
    }
}

fn run_in(context: &Context, folder: &Path) -> Result<(u32, [u32; 2]), Failure> {
    let [source, shown] = ["source", "shown"].map(|name| folder.join(name));
    fs::create_dir(&source)?;
    fs::create_dir(&shown)?;
    let failing = FailingFolder::show(&source, &shown)?;
    let served = Served::create(context, &shown, "drive.tant", "tlc-nvme", &[])?;
    served.stop()?;
    let mut stage = Stage { failing, served, witness: Witness::start(context)?, read: [0; 2] };
    let mut failures = 0;
    for how in ["eio once", "enospc on"] {
        let mut call = if how == "eio once" { 3 } else { 40 };
        loop {
            match stage.fail_at(call, how) {
                Ok(true) => failures += 1,
                Ok(false) => break,
                Err(failure) => return Err(Failure::Wrong(format!("call {call} {how}: {failure}"))),
            }
            call += if fail_all() { 1 } else { 30 + call };
        }
    }
    ensure(failures > 3 && stage.read[1] > 300, || format!("{failures} calls failed; {:?}", stage.read))?;
    Ok((failures, stage.read))
}

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let (failures, [servers, blocks]) = unless_it_hangs(&folder.join("shown"), || run_in(context, folder))?;
    Ok(Done::Said(format!(
        "               {failures} calls failed; {servers} servers then read {blocks} blocks"
    )))
}
