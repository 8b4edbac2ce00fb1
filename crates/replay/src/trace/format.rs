//! Which format a trace has.

use std::str::FromStr;

use serde::Serialize;

use super::blkparse::{self, Action, Blkparse};
use super::{Parser, alibaba, fio, msr};

/// A format of traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// fio's iologs, versions 2 and 3.
    Fio,
    /// The text of blkparse.
    Blkparse,
    /// The CSV of MSR Cambridge.
    Msr,
    /// The CSV of Alibaba.
    Alibaba,
}

impl Format {
    const NAMES: [(&'static str, Format); 4] = [
        ("fio", Format::Fio),
        ("blkparse", Format::Blkparse),
        ("msr", Format::Msr),
        ("alibaba", Format::Alibaba),
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        let known = Format::NAMES.iter().find(|(_, format)| *format == self);
        known.expect("every format has a name").0
    }

    /// All names.
    pub(super) fn names() -> String {
        Format::NAMES.map(|(name, _)| name).join(", ")
    }

    /// The format of a trace that begins with this line.
    pub(super) fn of(line: &str) -> Option<Format> {
        let fields: Vec<&str> = line.split(',').collect();
        let is_operation =
            |name: &str| ["read", "write"].iter().any(|known| name.eq_ignore_ascii_case(known));
        if line.starts_with("fio version ") {
            Some(Format::Fio)
        } else if blkparse::is_event(line) {
            Some(Format::Blkparse)
        } else if line.eq_ignore_ascii_case(msr::TITLES) {
            Some(Format::Msr)
        } else if line.eq_ignore_ascii_case(alibaba::TITLES) {
            Some(Format::Alibaba)
        } else if fields.len() == msr::FIELDS && is_operation(fields[3]) {
            Some(Format::Msr)
        } else if fields.len() == alibaba::FIELDS && matches!(fields[1], "R" | "W") {
            Some(Format::Alibaba)
        } else {
            None
        }
    }

    /// What understands its lines.
    pub(super) fn parser(self, action: Action) -> Box<dyn Parser> {
        match self {
            Format::Fio => Box::new(fio::Fio::default()),
            Format::Blkparse => Box::new(Blkparse::new(action)),
            Format::Msr => Box::new(msr::Msr::default()),
            Format::Alibaba => Box::new(alibaba::Alibaba::default()),
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        let known = Format::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, format)| *format).ok_or_else(|| format!("use one of {}", Format::names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_first_line() {
        let cases = [
            ("fio version 3 iolog", Some(Format::Fio)),
            ("fio version 9 iolog", Some(Format::Fio)),
            (
                "  8,0    3       11     0.009507758   697  Q   W 223490 + 56 [kjournald]",
                Some(Format::Blkparse),
            ),
            ("128166372003061629,usr,0,Read,7014609920,24576,41286", Some(Format::Msr)),
            ("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime", Some(Format::Msr)),
            ("419,W,8792731648,16384,1577808144360767", Some(Format::Alibaba)),
            ("device_id,opcode,offset,length,timestamp", Some(Format::Alibaba)),
            ("1,2,3,4,5", None),
            ("hello", None),
            ("", None),
        ];
        for (line, format) in cases {
            assert_eq!(Format::of(line), format, "{line}");
        }
    }
}
