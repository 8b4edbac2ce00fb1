//! The text that blkparse prints by default: `major,minor cpu sequence seconds pid action RWBS sector + sectors [process]`.
//!
//! Only one kind of a request's events is replayed: by default D, when it is issued to the device. A flush has no
//! sectors. The summary that blkparse prints at the end has no events.

use std::str::FromStr;

use super::fields::{flush, number, request, seconds};
use super::{Expected, Operation, Parsed, Parser};

/// blktrace counts in sectors of this size, whatever the device's.
const SECTOR_BYTES: u64 = 512;

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
        let all = [Action::Queued, Action::Issued, Action::Completed];
        let known = all.into_iter().find(|action| action.letter().eq_ignore_ascii_case(letter));
        known.ok_or_else(|| "use Q (queued), D (issued to the device) or C (completed)".to_owned())
    }
}

/// Whether a line begins like those of blkparse, with the device's two numbers.
pub(super) fn is_event(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let device = fields.next().unwrap_or_default();
    is_device(device) && number(fields.next(), "").is_ok() && number(fields.next(), "").is_ok()
}

fn is_device(field: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    field.split_once(',').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

/// Its state between two lines.
#[derive(Debug, Default)]
pub(super) struct Blkparse {
    action: Action,
    /// Whether the summary at the end has begun.
    summary: bool,
    taken: u64,
    /// Events of kinds that could have been replayed instead.
    others: u64,
}

impl Blkparse {
    /// Takes events of this kind.
    pub(super) fn new(action: Action) -> Blkparse {
        Blkparse { action, ..Blkparse::default() }
    }
}

impl Blkparse {
    /// A line that is not an event: one of the summary at the end, or an empty one.
    fn skip<'a>(&mut self, word: &str) -> Result<Parsed<'a>, Expected> {
        self.summary |= word.starts_with("CPU") || word == "Total";
        match self.summary || word.is_empty() {
            true => Ok(Parsed::Nothing),
            false => Err(
                "an event as blkparse prints it by default: major,minor cpu sequence seconds pid action RWBS sector + sectors",
            ),
        }
    }
}

impl Parser for Blkparse {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected> {
        let mut fields = line.split_ascii_whitespace();
        let device = fields.next().unwrap_or_default();
        if !is_device(device) {
            return self.skip(device);
        }
        number(fields.next(), "a processor's number in the second field")?;
        number(fields.next(), "a sequence number in the third field")?;
        let at_ns = seconds(fields.next(), "seconds with nine digits after the point in the fourth field")?;
        number(fields.next(), "a process's number in the fifth field")?;
        let action = fields.next().ok_or("an action in the sixth field")?;
        if action != self.action.letter() {
            self.others += u64::from(matches!(action, "Q" | "D" | "C"));
            return Ok(Parsed::Nothing);
        }
        self.taken += 1;
        let kind = kind_of(fields.next().ok_or("RWBS in the seventh field")?)?;
        let first = fields.next().filter(|field| !field.starts_with(['[', '(']));
        let Some(first) = first else {
            return match kind {
                Some(kind) if kind.is_flush() => Ok(flush(device, at_ns)),
                Some(_) => Err("a sector in the eighth field"),
                None => Ok(Parsed::Nothing),
            };
        };
        let sector = number(Some(first), "a sector in the eighth field")?;
        let sectors = match fields.next() {
            Some("+") => number(fields.next(), "a number of sectors after the plus")?,
            // a command of SCSI, with its bytes: it has no place
            Some(field) if field.starts_with('(') => return Ok(Parsed::LeftOut),
            _ => 0,
        };
        let Some(kind) = kind else { return Ok(Parsed::Nothing) };
        if sectors == 0 && kind.is_flush() {
            return Ok(flush(device, at_ns));
        }
        let too_far = "a sector and a number of sectors that end within 2^64 bytes";
        let bytes = |sectors: u64| sectors.checked_mul(SECTOR_BYTES).ok_or(too_far);
        request(device, at_ns, kind.operation(), bytes(sector)?, bytes(sectors)?)
    }

    fn end(&self) -> Result<(), Expected> {
        match self.taken == 0 && self.others > 0 {
            true => Err(
                "events of the kind that is replayed; the trace has others: choose with --action Q, D or C",
            ),
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
    let mut letters = rwbs.chars().peekable();
    let first = letters.next().ok_or(LETTERS)?;
    let preflush = first == 'F' && letters.peek().is_some_and(|next| "RWDFN".contains(*next));
    let letter = if preflush { letters.next().unwrap_or(first) } else { first };
    if !"RWDFN".contains(letter) || !rwbs.bytes().all(|byte| byte.is_ascii_uppercase()) {
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
        let mut queued = Blkparse::new(Action::Queued);
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
        for rwbs in ["X", "W-", "w"] {
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
        for line in [
            "CPU0 (8,0):",
            " Reads Queued:           0,        0KiB",
            "",
            "Throughput (R/W): 0KiB/s / 1KiB/s",
        ] {
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
    fn a_trace_of_other_events_says_so() {
        let mut blkparse = Blkparse::default();
        assert!(blkparse.end().is_ok());
        blkparse.parse("8,0 0 1 0.000000001 1 Q W 8 + 8 [a]").unwrap();
        assert!(blkparse.end().unwrap_err().contains("--action"));
    }
}
