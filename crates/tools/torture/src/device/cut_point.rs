//! The exact place of a power cut, in a form for the command line.

use std::fmt;
use std::str::FromStr;

use tantalum::Outcome;

/// A cut: `57.3.tc` is at the third program or erase of command 57, where of two operations in flight the first is torn
/// and the second complete. Operation 0 is the moment before the command. `57.3.tc/4.n` cuts once more, at the fourth
/// operation of the recovery, which is then found not started. `-` means nothing in flight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CutPoint {
    /// The command's number in the run.
    pub command: u64,
    /// Which of its operations finds no power, from 1; 0 for the moment before it.
    pub operation: u64,
    /// The outcome of each operation in flight, in the order of issue.
    pub fates: Vec<Outcome>,
    /// The cut in recovery: its operation, and the outcome of those in flight.
    pub second: Option<(u64, Vec<Outcome>)>,
}

/// Why a text is not a valid cut.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0:?} is not a valid cut; use COMMAND.OPERATION.FATES, with /OPERATION.FATES for a second cut in recovery; a fate is \
     n (not started), t (torn) or c (completed) for each operation in flight, or - for none"
)]
pub struct CutPointError(String);

fn letters(fates: &[Outcome]) -> String {
    if fates.is_empty() {
        return "-".into();
    }
    let letter = |fate: &Outcome| match fate {
        Outcome::NotStarted => 'n',
        Outcome::Torn => 't',
        Outcome::Completed => 'c',
    };
    fates.iter().map(letter).collect()
}

fn fates(letters: &str) -> Option<Vec<Outcome>> {
    if letters == "-" {
        return Some(Vec::new());
    }
    let fate = |letter| match letter {
        'n' => Some(Outcome::NotStarted),
        't' => Some(Outcome::Torn),
        'c' => Some(Outcome::Completed),
        _ => None,
    };
    letters.chars().map(fate).collect::<Option<Vec<_>>>().filter(|fates| !fates.is_empty())
}

impl fmt::Display for CutPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.command, self.operation, letters(&self.fates))?;
        match &self.second {
            Some((operation, fates)) => write!(f, "/{operation}.{}", letters(fates)),
            None => Ok(()),
        }
    }
}

impl FromStr for CutPoint {
    type Err = CutPointError;

    fn from_str(text: &str) -> Result<CutPoint, CutPointError> {
        parse(text).ok_or_else(|| CutPointError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<CutPoint> {
    let (first, second) = match text.split_once('/') {
        Some((first, second)) => (first, Some(second)),
        None => (text, None),
    };
    let (command, rest) = first.split_once('.')?;
    let (operation, under_way) = at_operation(rest)?;
    let second = match second {
        Some(text) => Some(at_operation(text).filter(|(operation, _)| *operation > 0)?),
        None => None,
    };
    Some(CutPoint { command: command.parse().ok()?, operation, fates: under_way, second })
}

fn at_operation(text: &str) -> Option<(u64, Vec<Outcome>)> {
    let (operation, letters) = text.split_once('.')?;
    Some((operation.parse().ok()?, fates(letters)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_read_and_written() {
        for text in ["57.3.tc", "0.0.-", "57.3.tc/4.n", "900.1.n/1.ttc"] {
            assert_eq!(text.parse::<CutPoint>().unwrap().to_string(), text);
        }
        for text in ["", "57", "57.3", "57.3.x", "57.3.", "57.3.tc/", "57.3.t/0.t", "a.3.t", "57.3.t/4"] {
            assert_eq!(text.parse::<CutPoint>(), Err(CutPointError(text.into())), "{text}");
        }
    }
}
