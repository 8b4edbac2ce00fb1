//! Any text with a request on each line: the user says what its columns are, and in which units.
//!
//! Columns are between commas, or else between tabs, or else between blanks: the first line decides for all. That line may
//! be of titles: then it has no number in any column in which there should be one.

use std::str::FromStr;

use super::fields::{SECTOR_BYTES, WRITE, decimal, flush, hexadecimal, number, request};
use super::{Expected, Operation, Parsed, Parser};

/// The volume of a trace without a column for it.
const VOLUME: &str = "disk";

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Column {
    Time,
    Operation,
    Offset,
    /// A length in bytes, in sectors, or in the unit of offsets.
    Bytes,
    Sectors,
    Units,
    Volume,
    Skipped,
}

const COLUMNS: [(&str, Column); 9] = [
    ("time", Column::Time),
    ("op", Column::Operation),
    ("offset", Column::Offset),
    ("bytes", Column::Bytes),
    ("sectors", Column::Sectors),
    ("units", Column::Units),
    ("volume", Column::Volume),
    ("-", Column::Skipped),
    ("_", Column::Skipped),
];

/// The names of the columns, in their order: `time,op,offset,bytes`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnNames(Vec<Column>);

impl FromStr for ColumnNames {
    type Err = String;

    fn from_str(names: &str) -> Result<ColumnNames, String> {
        let column = |name: &str| {
            let known = COLUMNS.iter().find(|(known, _)| *known == name.trim());
            known.map(|(_, column)| *column).ok_or_else(|| {
                format!("{name:?} is no column; use time, op, offset, bytes, sectors, units, volume, and - to skip one")
            })
        };
        let columns: Vec<Column> = names.split(',').map(column).collect::<Result<_, _>>()?;
        let count = |wanted: &[Column]| columns.iter().filter(|column| wanted.contains(column)).count();
        let lengths = [Column::Bytes, Column::Sectors, Column::Units];
        for (wanted, name) in [
            (&[Column::Operation][..], "op"),
            (&[Column::Offset], "offset"),
            (&lengths, "bytes, sectors or units (a length)"),
        ] {
            if count(wanted) != 1 {
                return Err(format!("name one column {name}"));
            }
        }
        for (wanted, name) in [(Column::Time, "time"), (Column::Volume, "volume")] {
            if count(&[wanted]) > 1 {
                return Err(format!("name no more than one column {name}"));
            }
        }
        Ok(ColumnNames(columns))
    }
}

/// The unit of times, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeUnit(u64);

impl FromStr for TimeUnit {
    type Err = String;

    fn from_str(name: &str) -> Result<TimeUnit, String> {
        match name {
            "s" => Ok(TimeUnit(1_000_000_000)),
            "ms" => Ok(TimeUnit(1_000_000)),
            "us" => Ok(TimeUnit(1000)),
            "filetime" => Ok(TimeUnit(100)),
            "ns" => Ok(TimeUnit(1)),
            _ => Err("use s, ms, us, ns, or filetime (100 ns)".to_owned()),
        }
    }
}

/// The unit of offsets, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetUnit(u64);

impl Default for OffsetUnit {
    fn default() -> OffsetUnit {
        OffsetUnit(1)
    }
}

impl FromStr for OffsetUnit {
    type Err = String;

    fn from_str(name: &str) -> Result<OffsetUnit, String> {
        let bytes = match name {
            "byte" => Some(1),
            "sector" => Some(SECTOR_BYTES),
            other => other.parse::<tantalum::Size>().ok().map(|size| size.0).filter(|bytes| *bytes > 0),
        };
        bytes
            .map(OffsetUnit)
            .ok_or_else(|| "use byte, sector (512 bytes), or a number of bytes such as 4K".to_owned())
    }
}

/// What stands in the column of operations, besides the usual words: `read=0,write=1`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OperationNames(Vec<(String, Operation)>);

/// The usual words, in any case.
const WORDS: [(&str, Operation); 13] = [
    ("r", Operation::Read),
    ("rd", Operation::Read),
    ("read", Operation::Read),
    ("w", WRITE),
    ("wr", WRITE),
    ("write", WRITE),
    ("d", Operation::Trim),
    ("trim", Operation::Trim),
    ("discard", Operation::Trim),
    ("unmap", Operation::Trim),
    ("f", Operation::Flush),
    ("flush", Operation::Flush),
    ("sync", Operation::Flush),
];

fn word(name: &str) -> Option<Operation> {
    WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(name)).map(|(_, operation)| *operation)
}

impl FromStr for OperationNames {
    type Err = String;

    fn from_str(list: &str) -> Result<OperationNames, String> {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            Some((value.trim().to_owned(), word(name.trim())?))
        };
        let pairs: Option<Vec<_>> = list.split(',').map(pair).collect();
        pairs.map(OperationNames).ok_or_else(|| {
            "say what stands for read, write, trim and flush, such as read=0,write=1".to_owned()
        })
    }
}

impl OperationNames {
    fn operation(&self, field: &str) -> Option<Operation> {
        let named = self.0.iter().find(|(value, _)| value.eq_ignore_ascii_case(field));
        named.map(|(_, operation)| *operation).or_else(|| word(field))
    }
}

const NO_TIME_UNIT: Expected =
    "say in which unit the times are: s, ms, us, ns or filetime (--time-unit, or time_unit in a grid)";

/// The columns of a trace, with their units.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Columns {
    columns: Vec<Column>,
    time_ns: u64,
    unit_bytes: u64,
    operations: OperationNames,
}

impl Columns {
    /// Combines what the user says. Times need a unit.
    pub fn new(
        names: ColumnNames,
        time: Option<TimeUnit>,
        offset: OffsetUnit,
        operations: OperationNames,
    ) -> Result<Columns, &'static str> {
        let has_times = names.0.contains(&Column::Time);
        let time_ns = match (has_times, time) {
            (true, Some(TimeUnit(ns))) => ns,
            (true, None) => return Err(NO_TIME_UNIT),
            (false, Some(_)) => return Err("a unit of times needs a column time"),
            (false, None) => 0,
        };
        Ok(Columns { columns: names.0, time_ns, unit_bytes: offset.0, operations })
    }

    /// What understands lines of these columns.
    pub(super) fn parser(&self) -> ColumnParser {
        ColumnParser { columns: self.clone(), separator: None }
    }

    fn has_times(&self) -> bool {
        self.columns.contains(&Column::Time)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Separator {
    Comma,
    Tab,
    Blanks,
}

impl Separator {
    fn of(line: &str) -> Separator {
        match (line.contains(','), line.contains('\t')) {
            (true, _) => Separator::Comma,
            (false, true) => Separator::Tab,
            (false, false) => Separator::Blanks,
        }
    }

    /// The fields of a line, without blanks and quotes around them.
    fn fields<'a>(self, line: &'a str, found: &mut Vec<&'a str>) {
        let bare = |field: &'a str| field.trim().trim_matches('"');
        match self {
            Separator::Comma => found.extend(line.split(',').map(bare)),
            Separator::Tab => found.extend(line.split('\t').map(bare)),
            Separator::Blanks => found.extend(line.split_ascii_whitespace().map(bare)),
        }
    }
}

/// Its state between two lines.
#[derive(Debug)]
pub(super) struct ColumnParser {
    columns: Columns,
    /// Known after the first line.
    separator: Option<Separator>,
}

const COUNT: Expected = "as many fields as --columns has names";
const UNIT: Expected = "an offset and a length that end within 2^64 bytes";

impl ColumnParser {
    /// Whether fields are titles: none begins as a number does where one should be.
    fn are_titles(&self, fields: &[&str]) -> bool {
        let is_text = |(column, field): (&Column, &&str)| match column {
            Column::Skipped | Column::Operation | Column::Volume => true,
            _ => field.starts_with(|first: char| first.is_alphabetic()),
        };
        let columns = &self.columns.columns;
        columns.len() == fields.len() && columns.iter().zip(fields).all(is_text)
    }

    fn request<'a>(&self, fields: &[&'a str]) -> Result<Parsed<'a>, Expected> {
        let Columns { columns, time_ns, unit_bytes, operations } = &self.columns;
        let field = |wanted: Column| {
            columns.iter().position(|column| *column == wanted).map(|position| fields[position])
        };
        let at_ns = match field(Column::Time) {
            None => 0,
            time => decimal(time, *time_ns, "a time that is not negative in the column time")?,
        };
        let volume = field(Column::Volume).unwrap_or(VOLUME);
        let operation = operations.operation(field(Column::Operation).unwrap_or_default()).ok_or(
            "R, W, D or F, or their words, in the column op; --operations read=0,write=1 names others",
        )?;
        if operation == Operation::Flush {
            return Ok(flush(volume, at_ns));
        }
        let offset = integer(field(Column::Offset), "a whole number in the column offset")?;
        let (length, unit) = match (field(Column::Bytes), field(Column::Sectors)) {
            (bytes @ Some(_), _) => (bytes, 1),
            (None, sectors @ Some(_)) => (sectors, SECTOR_BYTES),
            (None, None) => (field(Column::Units), *unit_bytes),
        };
        let length = integer(length, "a whole number in the column of lengths")?;
        let (offset, bytes) = (offset.checked_mul(*unit_bytes), length.checked_mul(unit));
        request(volume, at_ns, operation, offset.ok_or(UNIT)?, bytes.ok_or(UNIT)?)
    }
}

/// A whole number, in hexadecimal after 0x.
fn integer(field: Option<&str>, expected: Expected) -> Result<u64, Expected> {
    hexadecimal(field, expected).or_else(|expected| number(field, expected))
}

impl Parser for ColumnParser {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected> {
        let is_first = self.separator.is_none();
        let separator = *self.separator.get_or_insert_with(|| Separator::of(line));
        let mut fields = Vec::with_capacity(self.columns.columns.len());
        separator.fields(line, &mut fields);
        if is_first && self.are_titles(&fields) {
            return Ok(Parsed::Nothing);
        }
        if fields.len() != self.columns.columns.len() {
            return Err(COUNT);
        }
        self.request(&fields)
    }

    fn has_times(&self) -> bool {
        self.columns.has_times()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(names: &str, time: &str, offset: &str, operations: &str) -> Columns {
        let time = (!time.is_empty()).then(|| time.parse().unwrap());
        let operations =
            if operations.is_empty() { OperationNames::default() } else { operations.parse().unwrap() };
        Columns::new(names.parse().unwrap(), time, offset.parse().unwrap(), operations).unwrap()
    }

    fn parsed(columns: &Columns, line: &'static str) -> Result<Parsed<'static>, Expected> {
        columns.parser().parse(line)
    }

    #[test]
    fn units_and_separators_are_as_the_user_says() {
        let bytes = columns("time,op,offset,bytes", "us", "sector", "");
        let expected = request(VOLUME, 12_500, WRITE, 8 * 512, 4096);
        for line in ["12.5,W,8,4096", "12.5\twrite\t8\t4096", " 12.5   Wr  0x8 4096", "12.5, \"w\" , 8, 4096"]
        {
            assert_eq!(parsed(&bytes, line.trim()), expected, "{line}");
        }
        // the traces of FIU
        let fiu = columns("time,-,-,offset,sectors,op,-,volume,_", "ns", "sector", "");
        let line = "89966093240453 4892 syslogd 904265560 8 W 6 0 531e779d2a1a4a6f";
        assert_eq!(parsed(&fiu, line), request("0", 89_966_093_240_453, WRITE, 904_265_560 * 512, 4096));
        // DiskSim's
        let disksim = columns("time,volume,offset,units,op", "ms", "sector", "write=0,read=1");
        assert_eq!(parsed(&disksim, "0.5 3 8 2 1"), request("3", 500_000, Operation::Read, 4096, 1024));
        let blocks = columns("op,offset,units", "", "4K", "");
        assert_eq!(parsed(&blocks, "DISCARD 2 3"), request(VOLUME, 0, Operation::Trim, 8192, 12_288));
        assert_eq!(parsed(&blocks, "flush - -"), Ok(flush(VOLUME, 0)));
        assert!(!blocks.parser().has_times() && fiu.parser().has_times());
        let seconds = columns("time,op,offset,bytes", "filetime", "byte", "");
        assert_eq!(parsed(&seconds, "12,r,1,2"), request(VOLUME, 1200, Operation::Read, 1, 2));
    }

    #[test]
    fn titles_are_on_the_first_line_only() {
        let mut parser = columns("time,op,offset,bytes", "s", "byte", "").parser();
        assert_eq!(parser.parse("Timestamp,Op,Offset,Size"), Ok(Parsed::Nothing));
        assert!(parser.parse("1,R,0,512").is_ok());
        assert!(parser.parse("Timestamp,Op,Offset,Size").is_err());
        assert!(parser.parse("1 R 0 512").is_err(), "the first line decides where columns end");
        // a first line that is wrong in one column has no titles, and neither has one of other columns
        for line in ["1,R,x,512", "Timestamp,Op,Offset", "hello"] {
            assert!(parsed(&columns("time,op,offset,bytes", "s", "byte", ""), line).is_err(), "{line}");
        }
    }

    #[test]
    fn other_lines_are_refused() {
        let all = columns("time,op,offset,bytes,-", "s", "4K", "");
        for line in [
            "1,R,0,512",
            "1,R,0,512,x,y",
            "x,R,0,512,-",
            "-1,R,0,512,-",
            "1,0,0,512,-",
            "1,R,-1,512,-",
            "1,R,1.5,512,-",
            "1,R,0,x,-",
            "1,R,99999999999999999,512,-",
            "99999999999,R,0,512,-",
        ] {
            assert!(parsed(&all, line).is_err(), "{line}");
        }
    }

    #[test]
    fn columns_that_say_too_little_are_refused() {
        for names in [
            "time,op,offset",
            "time,offset,bytes",
            "op,bytes",
            "op,offset,bytes,sectors",
            "op,op,offset,bytes",
            "time,time,op,offset,bytes",
            "op,offset,size",
            "",
        ] {
            assert!(names.parse::<ColumnNames>().is_err(), "{names}");
        }
        for (names, time) in [("time,op,offset,bytes", None), ("op,offset,bytes", Some(TimeUnit(1)))] {
            let offset = OffsetUnit::default();
            let names = names.parse().unwrap();
            assert!(Columns::new(names, time, offset, OperationNames::default()).is_err(), "{time:?}");
        }
        assert!("hour".parse::<TimeUnit>().is_err() && "0".parse::<OffsetUnit>().is_err());
        assert!("read".parse::<OperationNames>().is_err() && "peek=0".parse::<OperationNames>().is_err());
    }
}
