//! Device self-test (Base, sections 5.8 and 8.7): the maps among each other, and mapped units with what is on flash. A short one compares
//! the maps and reads some units, an extended one reads all of them, in pieces, between which hosts have the drive.
//!
//! The results of the last ones are a record beside the table of namespaces, as the persistent event log is. One that is under way is part
//! of it: after a power loss an extended one begins anew, and a short one has been aborted.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use tantalum::{SelfTestFinding, Status};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::failure::Failure;
use crate::namespaces::{ALL_NAMESPACES, Kept, TableError};
use crate::subsystem::Subsystem;
use crate::wire::identify::empty;

const TESTS: Kept = Kept { key: b"selftest", magic: *b"TANTSELF", what: "the results of self-tests" };
/// Results that the log has.
const RESULTS: usize = 20;
/// Units that are read while nobody else has the drive.
const TOGETHER_UNITS: u32 = 256;
/// Units that a short test reads.
const SHORT_UNITS: u32 = 4096;
/// Minutes in which an extended test is told to be done (`EDSTT`).
pub const EXTENDED_MINUTES: u16 = 1;

/// The codes of a test.
pub mod code {
    /// A short one.
    pub const SHORT: u8 = 1;
    /// An extended one.
    pub const EXTENDED: u8 = 2;
    /// That which is under way ends.
    pub const ABORT: u8 = 0xf;
}

/// How a test has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Outcome {
    /// Nothing was found.
    Passed = 0,
    /// A host has ended it.
    Aborted = 1,
    /// Its controller was reset, or the drive has lost power.
    Reset = 2,
    /// Its namespace is gone.
    NamespaceGone = 3,
    /// Its namespace was formatted.
    Formatted = 4,
    /// The drive could not be tested.
    Fatal = 5,
    /// Something was found; the segment says what was tested.
    Failed = 7,
    /// The drive was sanitized.
    Sanitized = 9,
}

/// An entry without a test.
const UNUSED: u8 = 0xf;

/// What was tested when something was found.
mod segment {
    pub const MAPS: u8 = 1;
    pub const UNITS: u8 = 2;
}

/// The result of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TestResult {
    /// Bits 7:4 the test, bits 3:0 how it has ended.
    status: u8,
    segment: u8,
    /// Bit 0: the namespace is valid; bit 1: the block; bits 2 and 3: type and code of a status.
    valid: u8,
    reserved: u8,
    power_on_hours: U64,
    namespace: U32,
    block: U64,
    status_type: u8,
    status_code: u8,
    vendor: [u8; 2],
}

/// A test that is under way.
#[derive(Clone, Debug)]
struct Current {
    /// Distinguishes it from others: a thread executes one alone, however late it comes.
    number: u64,
    code: u8,
    namespace: u32,
    controller: u16,
    percent: u8,
    /// Why it is to end.
    ends: Option<Outcome>,
}

/// The self-tests of a drive.
#[derive(Default)]
pub struct SelfTests(Mutex<State>);

#[derive(Default)]
struct State {
    current: Option<Current>,
    /// Tests that have begun.
    begun: u64,
    /// The latest first.
    results: Vec<TestResult>,
}

impl State {
    /// The record: the test under way, its namespace, and the results.
    fn encode(&self) -> Vec<u8> {
        let (code, namespace) = self.current.as_ref().map_or((0, 0), |test| (test.code, test.namespace));
        let mut value = u32::from(code).to_le_bytes().to_vec();
        value.extend(namespace.to_le_bytes());
        value.extend(self.results.as_bytes());
        value
    }

    fn begin(&mut self, code: u8, namespace: u32, controller: u16) -> u64 {
        self.begun += 1;
        let number = self.begun;
        self.current = Some(Current { number, code, namespace, controller, percent: 0, ends: None });
        number
    }

    /// The test with this number, if it is still under way.
    fn test(&mut self, number: u64) -> Option<&mut Current> {
        self.current.as_mut().filter(|test| test.number == number)
    }

    fn add(&mut self, result: TestResult) {
        self.results.insert(0, result);
        self.results.truncate(RESULTS);
    }
}

/// What to read for a test of these namespaces.
struct Plan {
    code: u8,
    ranges: Vec<Range<u32>>,
    units: u64,
}

impl SelfTests {
    /// Reads the results again. Goes on with an extended test that a power loss has interrupted.
    ///
    /// # Errors
    /// Those of reading them, and if they are damaged.
    pub fn load(&self, subsystem: &Subsystem) -> Result<(), TableError> {
        let Some(value) = subsystem.namespaces.kept_value(&subsystem.queue, &TESTS)? else { return Ok(()) };
        let (head, results) = value.split_at_checked(8).ok_or_else(|| TESTS.damaged())?;
        let results = <[TestResult]>::ref_from_bytes(results).map_err(|_| TESTS.damaged())?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let mut state = self.0.lock();
        state.results = results[..results.len().min(RESULTS)].to_vec();
        state.current = None;
        match word(0) as u8 {
            code::SHORT => {
                let result = result_of(subsystem, code::SHORT, word(4), Outcome::Reset);
                state.add(result);
            }
            code::EXTENDED => {
                state.begin(code::EXTENDED, word(4), u16::MAX);
            }
            _ => {}
        }
        Ok(())
    }

    /// Begins a test through a controller: of a namespace, of all, or of none (0).
    ///
    /// # Errors
    /// Device Self-test in Progress.
    pub fn begin(
        &self,
        subsystem: &Arc<Subsystem>,
        controller: u16,
        code: u8,
        namespace: u32,
    ) -> Result<(), Failure> {
        let number = {
            let mut state = self.0.lock();
            if state.current.is_some() {
                return Err(Failure::SELF_TEST_IN_PROGRESS);
            }
            state.begin(code, namespace, controller)
        };
        self.store(subsystem);
        spawn(subsystem, number);
        Ok(())
    }

    /// Goes on with a test that [`SelfTests::load`] has found.
    pub fn resume(&self, subsystem: &Arc<Subsystem>) {
        let number = self.0.lock().current.as_ref().map(|test| test.number);
        if let Some(number) = number {
            spawn(subsystem, number);
        }
    }

    /// Ends the test that is under way, if it is one of these; it does so soon.
    pub fn end(&self, outcome: Outcome, is_concerned: impl Fn(u8, u32, u16) -> bool) {
        if let Some(test) = &mut self.0.lock().current
            && is_concerned(test.code, test.namespace, test.controller)
        {
            test.ends.get_or_insert(outcome);
        }
    }

    /// Whether one is under way.
    pub fn is_under_way(&self) -> bool {
        self.0.lock().current.is_some()
    }

    /// The log page.
    pub fn log(&self) -> Vec<u8> {
        let state = self.0.lock();
        let current = state.current.as_ref().map_or([0, 0], |test| [test.code, test.percent]);
        let mut log = [current[0], current[1], 0, 0].to_vec();
        log.extend(state.results.as_bytes());
        let mut unused: TestResult = empty();
        unused.status = UNUSED;
        for _ in state.results.len()..RESULTS {
            log.extend(unused.as_bytes());
        }
        log
    }

    fn store(&self, subsystem: &Subsystem) {
        let value = self.0.lock().encode();
        let _ = subsystem.namespaces.keep(&subsystem.queue, &TESTS, &value, false);
    }

    /// Executes the test with this number, unless it has ended already.
    fn run(&self, subsystem: &Subsystem, number: u64) {
        let Some(test) = self.0.lock().test(number).cloned() else { return };
        let ticket = subsystem.queue.answers().ticket();
        let tested = self.test(subsystem, &test);
        let has_lost_power = tested == Err(Status::PowerLost)
            || subsystem.queue.answers().delivery(ticket, 0) == tantalum_drive::Delivery::PowerLost;
        if has_lost_power {
            // what the drive keeps says how it goes on
            return;
        }
        let result = match tested {
            Ok(Tested::Nothing) => result_of(subsystem, test.code, test.namespace, Outcome::Passed),
            Ok(Tested::Ended(outcome)) => result_of(subsystem, test.code, test.namespace, outcome),
            Ok(Tested::Found(segment, finding)) => {
                let mut result = result_of(subsystem, test.code, test.namespace, Outcome::Failed);
                result.segment = segment;
                locate(subsystem, &finding, &mut result);
                subsystem.history.telemetry.note(subsystem, &format!("self-test: {}", finding.detail));
                result
            }
            Err(_) => result_of(subsystem, test.code, test.namespace, Outcome::Fatal),
        };
        {
            let mut state = self.0.lock();
            if state.test(number).is_none() {
                return;
            }
            state.add(result);
            state.current = None;
        }
        self.store(subsystem);
    }

    fn test(&self, subsystem: &Subsystem, test: &Current) -> Result<Tested, Status> {
        let drive = subsystem.queue.drive();
        if let Some(finding) = drive.lock().test_maps()? {
            return Ok(Tested::Found(segment::MAPS, finding));
        }
        let plan = plan(subsystem, test);
        let mut done = 0_u64;
        for range in plan.ranges {
            for from in range.clone().step_by(TOGETHER_UNITS as usize) {
                if let Some(outcome) = self.progress(test.number, done * 100 / plan.units.max(1)) {
                    return Ok(Tested::Ended(outcome));
                }
                let to = range.end.min(from + TOGETHER_UNITS);
                if let Some(finding) = drive.lock().test_units(from..to)? {
                    return Ok(Tested::Found(segment::UNITS, finding));
                }
                done += u64::from(to - from);
                if plan.code == code::SHORT && done >= SHORT_UNITS.into() {
                    return Ok(self.progress(test.number, 100).map_or(Tested::Nothing, Tested::Ended));
                }
            }
        }
        Ok(self.progress(test.number, 100).map_or(Tested::Nothing, Tested::Ended))
    }

    /// Notes how much is done. Returns how the test is to end, if it is.
    fn progress(&self, number: u64, percent: u64) -> Option<Outcome> {
        let mut state = self.0.lock();
        let Some(test) = state.test(number) else { return Some(Outcome::Reset) };
        test.percent = percent.min(100) as u8;
        test.ends
    }
}

/// What a test has led to.
#[derive(PartialEq, Eq)]
enum Tested {
    Nothing,
    Ended(Outcome),
    Found(u8, SelfTestFinding),
}

/// The units of the namespaces that a test concerns. A test of none reads none.
fn plan(subsystem: &Subsystem, test: &Current) -> Plan {
    let of_namespaces: Vec<Range<u32>> = subsystem.namespaces.with_table(|table| {
        let concerned = table
            .entries()
            .filter(|(_, entry)| test.namespace == ALL_NAMESPACES || test.namespace == entry.number);
        concerned.map(|(_, entry)| entry.first..entry.first + entry.units).collect()
    });
    let touched = subsystem.queue.drive().lock().touched_units();
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for of_namespace in &of_namespaces {
        let within =
            touched.iter().map(|range| range.start.max(of_namespace.start)..range.end.min(of_namespace.end));
        ranges.extend(within.filter(|range| !range.is_empty()));
    }
    let units = ranges.iter().map(|range| u64::from(range.end - range.start)).sum();
    let units = if test.code == code::SHORT { SHORT_UNITS.into() } else { units };
    Plan { code: test.code, ranges, units }
}

fn result_of(subsystem: &Subsystem, code: u8, namespace: u32, outcome: Outcome) -> TestResult {
    let mut result: TestResult = empty();
    result.status = code << 4 | outcome as u8;
    result.power_on_hours = (subsystem.age_seconds() / 3600).into();
    if namespace != 0 {
        (result.namespace, result.valid) = (namespace.into(), 1);
    }
    result
}

/// Names the block that cannot be read, with its namespace.
fn locate(subsystem: &Subsystem, finding: &SelfTestFinding, result: &mut TestResult) {
    let Some(lpn) = finding.lpn else { return };
    let there = subsystem.namespaces.with_table(|table| {
        let holds = |first: u32, units: u32| (first..first + units).contains(&lpn.0);
        let entry = table.entries().find(|(_, entry)| holds(entry.first, entry.units));
        entry.map(|(_, entry)| (entry.number, (lpn.0 - entry.first) * entry.space().per_unit()))
    });
    let Some((number, block)) = there else { return };
    (result.namespace, result.block) = (number.into(), u64::from(block).into());
    let code = Failure::UNREADABLE.code();
    (result.status_type, result.status_code) = ((code >> 8) as u8, code as u8);
    result.valid = 0xf;
}

fn spawn(subsystem: &Arc<Subsystem>, number: u64) {
    let there = Arc::clone(subsystem);
    let run = move || there.history.tests.run(&there, number);
    if std::thread::Builder::new().name("self-test".to_owned()).spawn(run).is_err() {
        subsystem.history.tests.run(subsystem, number);
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn layouts_are_the_standards() {
        assert_eq!((size_of::<TestResult>(), offset_of!(TestResult, namespace)), (28, 12));
        assert_eq!((offset_of!(TestResult, block), offset_of!(TestResult, status_type)), (16, 24));
        let log = SelfTests::default().log();
        assert_eq!((log.len(), log[4], log[32]), (564, 0xf, 0xf));
    }

    /// Its test was over before it began, and it executed the next one as well, which then had two results.
    #[test]
    fn a_thread_that_comes_late_executes_no_other_test() {
        let mut state = State::default();
        let first = state.begin(code::SHORT, 0, 1);
        assert!(state.test(first).is_some());
        state.current = None;
        let second = state.begin(code::SHORT, 0, 1);
        assert!(state.test(first).is_none() && state.test(second).is_some());
    }
}
