//! Which format a trace has.

use std::str::FromStr;

use serde::Serialize;

use super::fields::{decimal, letter, number};
use super::source::Source;
use super::{Parser, alibaba, blkparse, etw, fio, fio_one, mqsim, msr, spc, systor, tencent};

/// A format of traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Format {
    /// fio's iologs, versions 2 and 3.
    Fio,
    /// fio's iologs, version 1.
    Fio1,
    /// The text of blkparse.
    Blkparse,
    /// The binary files of blktrace.
    Blktrace,
    /// The CSV of MSR Cambridge.
    Msr,
    /// The CSV of Alibaba.
    Alibaba,
    /// The format of the Storage Performance Council.
    Spc,
    /// The CSV of SYSTOR '17.
    Systor,
    /// The CSV of Tencent.
    Tencent,
    /// The text of Windows' event tracing.
    Etw,
    /// The binary traces of CloudPhysics.
    CloudPhysics,
    /// The traces of MQSim.
    Mqsim,
    /// Columns that the user named.
    Columns,
}

/// What the first line of a text shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Shown {
    Format(Format),
    /// It fits several formats, or one whose lines are numbers alone and could be of anything.
    Ambiguous(Vec<Format>),
    Nothing,
}

impl Format {
    /// Those that can be named.
    const NAMES: [(&'static str, Format); 12] = [
        ("fio", Format::Fio),
        ("fio1", Format::Fio1),
        ("blkparse", Format::Blkparse),
        ("blktrace", Format::Blktrace),
        ("msr", Format::Msr),
        ("alibaba", Format::Alibaba),
        ("spc", Format::Spc),
        ("systor", Format::Systor),
        ("tencent", Format::Tencent),
        ("etw", Format::Etw),
        ("cloudphysics", Format::CloudPhysics),
        ("mqsim", Format::Mqsim),
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        let known = Format::NAMES.iter().find(|(_, format)| *format == self);
        known.map_or("columns", |(name, _)| name)
    }

    /// All names.
    pub(super) fn names() -> String {
        Format::NAMES.map(|(name, _)| name).join(", ")
    }

    /// What a text shows that begins with this line.
    pub(super) fn of(line: &str) -> Shown {
        let mut fitting: Vec<Format> = Vec::new();
        let mut fits = |format, does: bool| fitting.extend(does.then_some(format));
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let count = fields.len();
        let titles = |titles: &str| line.eq_ignore_ascii_case(titles);
        let numbers = |places: &[usize]| places.iter().all(|place| number(Some(fields[*place]), "").is_ok());
        let is_operation = |place: usize| letter(Some(fields[place]), "").is_ok();
        fits(Format::Fio, line.starts_with("fio version "));
        fits(Format::Blkparse, blkparse::is_event(line));
        fits(Format::Etw, etw::begins(line));
        fits(Format::Msr, titles(msr::TITLES) || count == msr::FIELDS && is_operation(3));
        fits(
            Format::Alibaba,
            titles(alibaba::TITLES) || count == alibaba::FIELDS && is_operation(1) && numbers(&[0, 2, 3]),
        );
        fits(Format::Spc, titles(spc::TITLES) || count >= 5 && is_operation(3) && numbers(&[0, 1, 2]));
        let is_systor = count == systor::FIELDS
            && (fields[2].is_empty() || is_operation(2))
            && decimal(Some(fields[0]), 1, "").is_ok();
        fits(Format::Systor, titles(systor::TITLES) || is_systor);
        fits(Format::Tencent, titles(tencent::TITLES));
        match fitting[..] {
            [] => Format::of_numbers(line, &fields),
            [format] => Shown::Format(format),
            _ => Shown::Ambiguous(fitting),
        }
    }

    /// The format of a line that may be of numbers alone, which several formats have.
    fn of_numbers(line: &str, fields: &[&str]) -> Shown {
        let blanks: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_bit = |field: &str| matches!(field, "0" | "1");
        let are_numbers = |fields: &[&str]| fields.iter().all(|field| number(Some(field), "").is_ok());
        let mut possible = Vec::new();
        let mut may_be = |format, fields: &[&str], count: usize, bit: usize| {
            if fields.len() == count && are_numbers(fields) && is_bit(fields[bit]) {
                possible.push(format);
            }
        };
        may_be(Format::Fio1, fields, fio_one::FIELDS, 0);
        may_be(Format::Tencent, fields, tencent::FIELDS, 3);
        may_be(Format::Mqsim, &blanks, mqsim::FIELDS, 4);
        if possible.is_empty() { Shown::Nothing } else { Shown::Ambiguous(possible) }
    }

    /// What understands its lines; none for a binary format.
    pub(super) fn parser(self, source: &Source) -> Option<Box<dyn Parser>> {
        Some(match self {
            Format::Fio => Box::new(fio::Fio::default()),
            Format::Fio1 => Box::new(fio_one::FioOne),
            Format::Blkparse => Box::new(blkparse::Blkparse::new(
                source.action.unwrap_or_default(),
                source.blkparse_format.clone(),
            )),
            Format::Msr => Box::new(msr::Msr::default()),
            Format::Alibaba => Box::new(alibaba::Alibaba::default()),
            Format::Spc => Box::new(spc::Spc::default()),
            Format::Systor => Box::new(systor::Systor::default()),
            Format::Tencent => Box::new(tencent::Tencent::default()),
            Format::Etw => Box::new(etw::Etw::default()),
            Format::Mqsim => Box::new(mqsim::Mqsim),
            Format::Columns => Box::new(source.columns.as_ref()?.parser()),
            Format::Blktrace | Format::CloudPhysics => return None,
        })
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
            ("fio version 3 iolog", Format::Fio),
            ("fio version 9 iolog", Format::Fio),
            ("  8,0    3       11     0.009507758   697  Q   W 223490 + 56 [kjournald]", Format::Blkparse),
            ("128166372003061629,usr,0,Read,7014609920,24576,41286", Format::Msr),
            ("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime", Format::Msr),
            ("419,W,8792731648,16384,1577808144360767", Format::Alibaba),
            ("419,r,8792731648,16384,oops", Format::Alibaba),
            ("device_id,opcode,offset,length,timestamp", Format::Alibaba),
            ("0,303567,3584,w,0.000000", Format::Spc),
            ("asu,lba,size,opcode,timestamp", Format::Spc),
            ("Timestamp,Response,IOType,LUN,Offset,Size", Format::Systor),
            ("1456095145.133076000,0.000806000,R,0,899056122368,131072", Format::Systor),
            ("1456095145.133076000,,,0,899056122368,131072", Format::Systor),
            ("Timestamp,Offset,Size,IOType,VolumeID", Format::Tencent),
            ("BeginHeader", Format::Etw),
            ("DiskRead,       8612,        xperf.exe (3984)", Format::Etw),
        ];
        for (line, format) in cases {
            assert_eq!(Format::of(line), Shown::Format(format), "{line}");
        }
        for line in ["1,2,3,4,5", "2, 3, 4", "1 2 3 4 5", "0.5 0 8 8 1", "hello", ""] {
            assert_eq!(Format::of(line), Shown::Nothing, "{line}");
        }
    }

    #[test]
    fn lines_that_fit_several_formats_or_are_numbers_alone_show_none() {
        let cases = [
            ("1538323200,12910952,128,0,1063", vec![Format::Tencent]),
            ("0, 4096, 8192", vec![Format::Fio1]),
            ("4851300 1 524288 16 0", vec![Format::Mqsim]),
            ("128166372003061629,7,0,R,7014609920,24576,41286", vec![Format::Msr, Format::Spc]),
        ];
        for (line, formats) in cases {
            assert_eq!(Format::of(line), Shown::Ambiguous(formats), "{line}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for (name, format) in Format::NAMES {
            assert_eq!((name.parse(), format.name()), (Ok(format), name));
            assert_eq!(serde_json::to_string(&format).unwrap(), format!("\"{name}\""));
        }
        assert!("columns".parse::<Format>().is_err());
    }
}
