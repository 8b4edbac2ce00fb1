//! Linux places data on a served drive with reclaim unit handles: nvme-cli's commands of flexible data placement, and write streams of
//! io_uring, which only the newest kernels have. The drive's own counters say with which handle data were written.

use std::path::Path;

use super::atomic_writes::SUITE;
use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::guest::Guest;
use super::named;
use super::served::Served;

/// Handles of the drive.
const HANDLES: usize = 4;

/// Checks of `placement.sh`.
const CHECKS: usize = 56;

/// Questions of `placement.sh` whose answers are checked here.
const PLACED: u64 = HANDLES as u64 + 8;

/// The drive, and what the guest had written when it was last asked.
struct Host<'a> {
    drive: Served<'a>,
    written: Vec<u64>,
    questions: u64,
}

impl Host<'_> {
    /// Units written with each handle.
    fn now(&self) -> Result<Vec<u64>, Failure> {
        let report = self.drive.stat()?;
        let each = report["handles"].as_array().cloned().unwrap_or_default();
        let written: Vec<u64> =
            each.iter().filter_map(|handle| handle["host_units_written"].as_u64()).collect();
        ensure(written.len() == HANDLES, || format!("stat has {written:?} of {HANDLES} handles"))?;
        Ok(written)
    }

    /// `placed HANDLE UNITS`: so many units were written with a handle since the last question. `placed any`: whatever it was.
    fn asked(&mut self, question: &str) -> Result<(), Failure> {
        let now = self.now()?;
        match question.split_whitespace().collect::<Vec<_>>()[..] {
            ["placed", "any"] => self.written = now,
            ["placed", handle, units] => {
                let numbers = (handle.parse::<usize>(), units.parse::<u64>());
                let (Ok(handle), Ok(units)) = numbers else {
                    return Err(Failure::Wrong(format!("the guest asks for {question:?}")));
                };
                let since = now[handle] - self.written[handle];
                ensure(since == units, || {
                    format!(
                        "{question}: {since} units were written with it: {:?}, then {now:?}",
                        self.written
                    )
                })?;
                self.written[handle] = now[handle];
                self.questions += 1;
            }
            _ => return Err(Failure::Wrong(format!("the guest asks for {question:?}"))),
        }
        Ok(())
    }
}

/// Boots one guest; `TANTALUM_PLACEMENT_KERNEL` names another suite than that of the newest kernel.
pub fn run(context: &Context, folder: &Path) -> Outcome {
    let guest = Guest::build(context, Some(&named("TANTALUM_PLACEMENT_KERNEL", SUITE)))?;
    let creation = ["--profile", "tlc-nvme", "--handles", "4"];
    let drive = Served::create_as(context, folder, "placed.tant", &creation, &[])?;
    let mut host = Host { drive, written: vec![0; HANDLES], questions: 0 };
    let parameters = format!("PORT={}\nNQN={}\nHANDLES={HANDLES}\n", host.drive.port, host.drive.name);
    let results = guest.run(folder, "placement", &parameters, |question| host.asked(question))?;
    results.expect(CHECKS)?;
    ensure(host.questions == PLACED, || format!("{} questions, not {PLACED}", host.questions))?;
    host.drive.close()?;
    let (kernel, written) = (guest.kernel()?, &host.written);
    Ok(Done::Said(format!("Linux {kernel}: {} checks; units written by handle: {written:?}", results.passed)))
}
