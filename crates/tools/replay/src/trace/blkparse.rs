//! The text of blkparse: `major,minor cpu sequence seconds pid action RWBS sector + sectors [process]`, which is its default, or
//! a format of the user's ([`BlkparseFormat`]).
//!
//! Only one kind of a request's events is replayed: by default D, when it is issued to the device. A flush has no
//! sectors. The summary that blkparse prints at the end has no events.

use std::str::FromStr;

use super::blkparse_format::{BlkparseFormat, Fields};
use super::fields::{SECTOR_BYTES, flush, is_device, number, request, seconds, sectors};
use super::{Expected, Operation, Parsed, Parser};

/// Said of a trace without events of the kind that is replayed, but with others.
pub(super) const NO_EVENTS: Expected =
    "events of the kind that is replayed; the trace has others: choose with --action Q, D or C";

/// Which event of a request is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Action {
    /// `Q`: it was queued.
    Queued,
    /// `D`: it was issued to the device.
    #[default]
    Issued,
    /// `C`: it was completed.
    Completed,
}

impl Action {
    pub(super) const ALL: [Action; 3] = [Action::Queued, Action::Issued, Action::Completed];

    /// Its number in blktrace's records (`__BLK_TA_QUEUE`, `_ISSUE`, `_COMPLETE`).
    pub(super) fn number(self) -> u32 {
        match self {
            Action::Queued => 1,
            Action::Issued => 7,
            Action::Completed => 8,
        }
    }

    fn letter(self) -> &'static str {
        match self {
            Action::Queued => "Q",
            Action::Issued => "D",
            Action::Completed => "C",
        }
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(letter: &str) -> Result<Action, String> {
        let known = Action::ALL.into_iter().find(|action| action.letter().eq_ignore_ascii_case(letter));
        known.ok_or_else(|| "use Q (queued), D (issued to the device) or C (completed)".to_owned())
    }
}

/// Whether a line begins like those of blkparse, with the device's two numbers.
pub(super) fn is_event(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let device = fields.next().unwrap_or_default();
    is_device(device) && number(fields.next(), "").is_ok() && number(fields.next(), "").is_ok()
}

/// Its state between two lines.
#[derive(Debug, Default)]
pub(super) struct Blkparse {
    action: Action,
    /// The format of a line; `None` for the default.
    format: Option<BlkparseFormat>,
    /// Whether the summary at the end has begun.
    summary: bool,
    taken: u64,
    /// Events of kinds that could have been replayed instead.
    others: u64,
}

const EVENT: Expected = "an event as blkparse prints it by default: major,minor cpu sequence seconds pid action RWBS sector + sectors \
                         (for others --blkparse-format)";

/// The volume of a format that does not name devices.
const VOLUME: &str = "disk";

impl Blkparse {
    /// Takes events of this kind, printed in this format.
    pub(super) fn new(action: Action, format: Option<BlkparseFormat>) -> Blkparse {
        Blkparse { action, format, ..Blkparse::default() }
    }

    /// Whether an event is of the kind that is replayed.
    fn takes(&mut self, action: &str) -> bool {
        let takes = action == self.action.letter();
        self.taken += u64::from(takes);
        self.others += u64::from(!takes && matches!(action, "Q" | "D" | "C"));
        takes
    }

    /// A line that is not an event: one of the summary at the end.
    fn skip<'a>(&mut self, line: &str, expected: Expected) -> Result<Parsed<'a>, Expected> {
        let word = line.split_ascii_whitespace().next().unwrap_or_default();
        self.summary |= word.starts_with("CPU") || word == "Total";
        if self.summary { Ok(Parsed::Nothing) } else { Err(expected) }
    }

    /// A line in the format of the user. Messages are printed in the default format all the same.
    fn own<'a>(
        &mut self,
        fields: Result<Fields<'a>, Expected>,
        line: &'a str,
    ) -> Result<Parsed<'a>, Expected> {
        let fields = match fields {
            Ok(fields) => fields,
            Err(_) if is_event(line) && line.split_ascii_whitespace().nth(5) == Some("m") => {
                return Ok(Parsed::Nothing);
            }
            Err(expected) => return self.skip(line, expected),
        };
        if !self.takes(fields.action) {
            return Ok(Parsed::Nothing);
        }
        let bytes = fields.sectors.map_or(fields.bytes, |sectors| sectors.checked_mul(SECTOR_BYTES));
        let (device, at_ns) = (fields.device.unwrap_or(VOLUME), fields.at_ns()?);
        event(device, at_ns, kind_of(fields.rwbs)?, fields.sector, bytes.ok_or(TOO_FAR)?)
    }
}

const TOO_FAR: Expected = "a sector and a length that end within 2^64 bytes";

/// A request; without bytes it is a flush, or nothing.
fn event(
    device: &str,
    at_ns: u64,
    kind: Option<Kind>,
    sector: u64,
    bytes: u64,
) -> Result<Parsed<'_>, Expected> {
    let Some(kind) = kind else { return Ok(Parsed::Nothing) };
    if bytes == 0 && kind.is_flush() {
        return Ok(flush(device, at_ns));
    }
    request(device, at_ns, kind.operation(), sector.checked_mul(SECTOR_BYTES).ok_or(TOO_FAR)?, bytes)
}

impl Parser for Blkparse {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected> {
        if let Some(fields) = self.format.as_ref().map(|format| format.parse(line)) {
            return self.own(fields, line);
        }
        let mut fields = line.split_ascii_whitespace();
        let device = fields.next().unwrap_or_default();
        if !is_device(device) {
            return self.skip(line, EVENT);
        }
        number(fields.next(), "a processor's number in the second field")?;
        number(fields.next(), "a sequence number in the third field")?;
        let at_ns = seconds(fields.next(), "seconds with nine digits after the point in the fourth field")?;
        number(fields.next(), "a process's number in the fifth field")?;
        if !self.takes(fields.next().ok_or("an action in the sixth field")?) {
            return Ok(Parsed::Nothing);
        }
        let kind = kind_of(fields.next().ok_or("RWBS in the seventh field")?)?;
        let first = fields.next().filter(|field| !field.starts_with(['[', '(']));
        let Some(first) = first else {
            return match kind {
                Some(kind) if !kind.is_flush() => Err("a sector in the eighth field"),
                kind => event(device, at_ns, kind, 0, 0),
            };
        };
        let sector = number(Some(first), "a sector in the eighth field")?;
        let bytes = match fields.next() {
            Some("+") => sectors(fields.next(), "a number of sectors after the plus")?,
            // a command of SCSI, with its bytes: it has no place
            Some(field) if field.starts_with('(') => return Ok(Parsed::LeftOut),
            _ => 0,
        };
        event(device, at_ns, kind, sector, bytes)
    }

    fn has_times(&self) -> bool {
        self.format.as_ref().is_none_or(BlkparseFormat::has_times)
    }

    fn end(&self) -> Result<(), Expected> {
        match self.taken == 0 && self.others > 0 {
            true => Err(NO_EVENTS),
            false => Ok(()),
        }
    }
}

/// What the letters of RWBS say about a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind {
    preflush: bool,
    letter: char,
    fua: bool,
}

impl Kind {
    /// Whether a request of this kind without sectors flushes.
    fn is_flush(self) -> bool {
        self.preflush || self.letter == 'F'
    }

    fn operation(self) -> Operation {
        match self.letter {
            'R' => Operation::Read,
            'D' => Operation::Trim,
            'F' => Operation::Flush,
            _ => Operation::Write { preflush: self.preflush, fua: self.fua },
        }
    }
}

/// The kernel's `blk_fill_rwbs`: F if it flushes first; R, W, D, F or N; then F for FUA, and flags that are irrelevant
/// here. `None` for a request without data that is not a flush.
fn kind_of(rwbs: &str) -> Result<Option<Kind>, Expected> {
    const LETTERS: Expected = "R, W, D, F or N with flags in the seventh field";
    let mut letters = rwbs.chars().map(|letter| letter.to_ascii_uppercase()).peekable();
    let first = letters.next().ok_or(LETTERS)?;
    let preflush = first == 'F' && letters.peek().is_some_and(|next| "RWDFN".contains(*next));
    let letter = if preflush { letters.next().unwrap_or(first) } else { first };
    if !"RWDFN".contains(letter) || !rwbs.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Err(LETTERS);
    }
    let fua = letters.any(|flag| flag == 'F');
    let kind = Kind { preflush, letter, fua };
    Ok((letter != 'N' || preflush).then_some(kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fields::WRITE;

    fn parse(line: &str) -> Result<Parsed<'_>, Expected> {
        Blkparse::default().parse(line)
    }

    #[test]
    fn what_is_issued_is_replayed_and_nothing_else() {
        let line = "  8,0    3       11     0.009507758   697  D   W 223490 + 56 [kjournald]";
        assert_eq!(parse(line), request("8,0", 9_507_758, WRITE, 223_490 * 512, 56 * 512));
        for action in ["Q", "G", "I", "C", "P", "m", "UT"] {
            assert_eq!(parse(&line.replace("D ", action)), Ok(Parsed::Nothing));
        }
        let mut queued = Blkparse::new(Action::Queued, None);
        assert!(matches!(queued.parse(&line.replace(" D ", " Q ")), Ok(Parsed::Request { .. })));
    }

    #[test]
    fn letters_say_what_is_done() {
        let operation = |rwbs: &str| {
            let line = format!("8,0 0 1 0.000000001 1 D {rwbs} 8 + 8 [a b]");
            match parse(&line) {
                Ok(Parsed::Request { operation, .. }) => Some(operation),
                Ok(Parsed::Nothing | Parsed::LeftOut) => None,
                Err(expected) => panic!("{rwbs}: {expected}"),
            }
        };
        let write = |preflush, fua| Some(Operation::Write { preflush, fua });
        assert_eq!(operation("RA"), Some(Operation::Read));
        assert_eq!(operation("WS"), write(false, false));
        assert_eq!(operation("WFSM"), write(false, true));
        assert_eq!(operation("FWFS"), write(true, true));
        assert_eq!(operation("FWS"), write(true, false));
        assert_eq!(operation("DS"), Some(Operation::Trim));
        assert_eq!(operation("N"), None);
        assert_eq!(operation("ws"), write(false, false));
        for rwbs in ["X", "W-"] {
            assert!(parse(&format!("8,0 0 1 0.000000001 1 D {rwbs} 8 + 8")).is_err(), "{rwbs}");
        }
    }

    #[test]
    fn a_flush_has_no_sectors() {
        for tail in
            ["F [kworker/0:1H]", "FF [swapper]", "FN [a]", "FWS [b]", "FWS 0 [b]", "F 0 + 0 [c]", "FF"]
        {
            let line = format!("259,0 0 1 1.000000000 1 D {tail}");
            assert_eq!(parse(&line), Ok(flush("259,0", 1_000_000_000)), "{tail}");
        }
        assert!(parse("259,0 0 1 1.000000000 1 D WS [a]").is_err(), "a write has sectors");
        let command = "8,0 0 1 1.000000000 1 D R 36 (12 01 00 00 24 00 ..) [smartd]";
        assert_eq!(parse(command), Ok(Parsed::LeftOut));
    }

    #[test]
    fn the_summary_is_no_event_and_other_text_is_refused() {
        let mut blkparse = Blkparse::default();
        assert!(blkparse.parse("anything").is_err());
        for line in
            ["CPU0 (8,0):", " Reads Queued:           0,        0KiB", "Throughput (R/W): 0KiB/s / 1KiB/s"]
        {
            assert_eq!(blkparse.parse(line), Ok(Parsed::Nothing), "{line}");
        }
        for line in [
            "8,0 x 1 0.000000001 1 D W 8 + 8",
            "8,0 0 1 0,000000001 1 D W 8 + 8",
            "8,0 0 1 0.000000001 1",
            "8,0 0 1 0.000000001 1 D",
            "8,0 0 1 0.000000001 1 D W x + 8",
            "8,0 0 1 0.000000001 1 D W 8 + x",
            "8,0 0 1 0.000000001 1 D W 99999999999999999 + 8",
        ] {
            assert!(blkparse.parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_format_of_the_users_is_read_in_the_same_way() {
        let format = "%T.%9t %2a %3d %S %n %D\\n".parse().unwrap();
        let mut blkparse = Blkparse::new(Action::Issued, Some(format));
        let write = blkparse.parse("0.009507758  D  WS 223490 56   8,0");
        assert_eq!(write, request("8,0", 9_507_758, WRITE, 223_490 * 512, 56 * 512));
        assert_eq!(blkparse.parse("0.009507758  D FWS 0 0   8,0"), Ok(flush("8,0", 9_507_758)));
        for line in [
            "0.009507758  Q  WS 223490 56   8,0",
            "0.009507758  D   N 0 0   8,0",
            "  8,0    3        2     0.000000736     0  m   N cfq4 slice expired t=0",
        ] {
            assert_eq!(blkparse.parse(line), Ok(Parsed::Nothing), "{line}");
        }
        let far = "0.009507758  D  WS 223490 99999999999999999   8,0";
        for line in ["  8,0    3        2     0.000000736     0  D   W 8 + 8 [a]", "0.1 D W 8 8", far] {
            assert!(blkparse.parse(line).is_err(), "{line}");
        }
        for line in ["CPU0 (sda):", " Reads Queued:           0,        0KiB", "Total (sda):"] {
            assert_eq!(blkparse.parse(line), Ok(Parsed::Nothing), "{line}");
        }
        assert!(blkparse.has_times());
        assert!(!Blkparse::new(Action::Issued, Some("%a %d %S %n".parse().unwrap())).has_times());
    }

    #[test]
    fn a_trace_of_other_events_says_so() {
        let mut blkparse = Blkparse::default();
        assert!(blkparse.end().is_ok());
        blkparse.parse("8,0 0 1 0.000000001 1 Q W 8 + 8 [a]").unwrap();
        assert!(blkparse.end().unwrap_err().contains("--action"));
    }
}
