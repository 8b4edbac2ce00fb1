//! A format string that the user gave to `blkparse -f`, and what it prints (blkparse's manual page, "OUTPUT DESCRIPTION AND
//! FORMATTING", and `print_field` of blkparse_fmt.c).
//!
//! blkparse pads fields to their width, so blanks in the format stand for any number of blanks, and a field ends where its
//! characters do. `%T` are whole seconds, `%t` the nanoseconds beyond them.

use std::str::FromStr;

use super::Expected;
use super::fields::{is_device, number};

const SECOND: u64 = 1_000_000_000;

/// What an event is printed as.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlkparseFormat {
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece {
    /// Blanks, or none.
    Blanks,
    Character(char),
    Field(Field),
}

/// How a field is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    /// Digits, under the letter of the field.
    Number(char),
    /// `%a` or `%d`.
    Letters(char),
    /// `%D`.
    Device,
    /// `%C`, `%P`, `%z`, `%g`: up to the next character of the format, or the end of the line.
    Text,
}

impl Field {
    fn of(letter: char) -> Option<Field> {
        Some(match letter {
            'a' | 'd' => Field::Letters(letter),
            'D' => Field::Device,
            'c' | 'e' | 'M' | 'm' | 'n' | 'N' | 'p' | 's' | 'S' | 't' | 'T' | 'u' | 'U' => {
                Field::Number(letter)
            }
            'C' | 'P' | 'z' | 'g' => Field::Text,
            _ => return None,
        })
    }
}

/// What a line says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Fields<'a> {
    pub action: &'a str,
    pub rwbs: &'a str,
    pub device: Option<&'a str>,
    pub seconds: u64,
    pub nanoseconds: u64,
    pub sector: u64,
    pub sectors: Option<u64>,
    pub bytes: Option<u64>,
}

impl Fields<'_> {
    /// The time.
    pub(super) fn at_ns(&self) -> Result<u64, Expected> {
        let whole_ns = self.seconds.checked_mul(SECOND);
        whole_ns.and_then(|ns| ns.checked_add(self.nanoseconds)).ok_or("a time of less than 584 years")
    }
}

impl FromStr for BlkparseFormat {
    type Err = String;

    fn from_str(format: &str) -> Result<BlkparseFormat, String> {
        let mut pieces = Vec::new();
        // the shell may have left what blkparse takes for blanks
        let format = format.replace("\\n", " ").replace("\\t", " ").replace("\\r", " ");
        let mut characters = format.trim().chars().peekable();
        while let Some(character) = characters.next() {
            let piece = match character {
                '%' => {
                    while characters.next_if(|next| *next == '-' || next.is_ascii_digit()).is_some() {}
                    match characters.next().ok_or("a letter must follow the last %")? {
                        '%' => Piece::Character('%'),
                        letter => {
                            let known = Field::of(letter);
                            Piece::Field(known.ok_or_else(|| format!("%{letter} is no field of blkparse"))?)
                        }
                    }
                }
                blank if blank.is_whitespace() => Piece::Blanks,
                other => Piece::Character(other),
            };
            pieces.push(piece);
        }
        pieces.dedup_by(|next, piece| (*next, *piece) == (Piece::Blanks, Piece::Blanks));
        let format = BlkparseFormat { pieces };
        format.check().map_err(str::to_owned)?;
        Ok(format)
    }
}

impl BlkparseFormat {
    /// Whether each line can be read back, and says enough.
    fn check(&self) -> Result<(), &'static str> {
        let has = |letter: char| {
            self.pieces.iter().any(|piece| {
                matches!(piece, Piece::Field(Field::Number(known) | Field::Letters(known)) if *known == letter)
            })
        };
        for pair in self.pieces.windows(2) {
            match pair {
                [Piece::Field(Field::Text), Piece::Field(_) | Piece::Blanks] => {
                    return Err(
                        "%C, %P, %z and %g may contain blanks, so a character must end each, or the line",
                    );
                }
                [Piece::Field(before), Piece::Field(after)]
                    if matches!(before, Field::Number(_) | Field::Device)
                        == matches!(after, Field::Number(_) | Field::Device) =>
                {
                    return Err("something must stand between two numbers, and between two words");
                }
                _ => {}
            }
        }
        if !has('a') {
            return Err(
                "without %a nobody knows which lines are requests; for lines of one kind use --columns",
            );
        }
        if !has('d') || !has('S') || !(has('n') || has('N')) {
            return Err("it needs %d, %S, and %n or %N");
        }
        if has('M') || has('m') {
            return Err("for the device use %D, not %M and %m");
        }
        if has('t') && !has('T') {
            return Err("%t is only the part of a time below a second; it needs %T");
        }
        Ok(())
    }

    /// Whether it has times.
    pub(super) fn has_times(&self) -> bool {
        self.pieces.contains(&Piece::Field(Field::Number('T')))
    }

    /// Reads a line back.
    pub(super) fn parse<'a>(&self, line: &'a str) -> Result<Fields<'a>, Expected> {
        const OTHER: Expected = "a line in the format of --blkparse-format";
        let mut fields = Fields::default();
        let mut rest = line;
        for (index, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Blanks => rest = rest.trim_start(),
                Piece::Character(character) => rest = rest.strip_prefix(*character).ok_or(OTHER)?,
                Piece::Field(field) => {
                    rest = rest.trim_start();
                    let (text, after) = rest.split_at(field.end(rest, self.pieces.get(index + 1)));
                    fields.put(*field, text)?;
                    rest = after;
                    // blkparse pads on this side as well
                    if !matches!(self.pieces.get(index + 1), None | Some(Piece::Blanks)) {
                        rest = rest.trim_start();
                    }
                }
            }
        }
        if rest.trim().is_empty() { Ok(fields) } else { Err(OTHER) }
    }
}

impl Field {
    /// Where it ends at the beginning of `rest`.
    fn end(self, rest: &str, next: Option<&Piece>) -> usize {
        let until = |is_inside: fn(char) -> bool| rest.find(|c: char| !is_inside(c)).unwrap_or(rest.len());
        match (self, next) {
            (Field::Number(_), _) => until(|c| c.is_ascii_digit() || c == '-'),
            (Field::Letters(_), _) => until(|c| c.is_ascii_alphabetic()),
            (Field::Device, _) => until(|c| c.is_ascii_digit() || c == ',').min(
                // a comma after the minor number is of the format
                rest.match_indices(',').nth(1).map_or(rest.len(), |(at, _)| at),
            ),
            (Field::Text, Some(Piece::Character(end))) => rest.find(*end).unwrap_or(rest.len()),
            (Field::Text, _) => rest.len(),
        }
    }
}

impl<'a> Fields<'a> {
    fn put(&mut self, field: Field, text: &'a str) -> Result<(), Expected> {
        match field {
            Field::Letters(_) if text.is_empty() => return Err("letters where %a and %d are"),
            Field::Letters('a') => self.action = text,
            Field::Letters(_) => self.rwbs = text,
            Field::Device if !is_device(text) => return Err("MAJOR,MINOR where %D is"),
            Field::Device => self.device = Some(text),
            Field::Number('T') => self.seconds = number(Some(text), "seconds where %T is")?,
            Field::Number('t') => self.nanoseconds = number(Some(text), "nanoseconds where %t is")?,
            Field::Number('S') => self.sector = number(Some(text), "a sector where %S is")?,
            Field::Number('n') => self.sectors = Some(number(Some(text), "a number of sectors where %n is")?),
            Field::Number('N') => self.bytes = Some(number(Some(text), "a number of bytes where %N is")?),
            Field::Number(_) if text.is_empty() => return Err("a number where --blkparse-format has one"),
            Field::Number(_) | Field::Text => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields<'a>(format: &str, line: &'a str) -> Result<Fields<'a>, Expected> {
        format.parse::<BlkparseFormat>().unwrap().parse(line)
    }

    #[test]
    fn a_line_is_read_back() {
        let expected = Fields {
            action: "D",
            rwbs: "WS",
            device: None,
            seconds: 1,
            nanoseconds: 9_507_758,
            sector: 223_490,
            sectors: Some(56),
            bytes: None,
        };
        assert_eq!(fields("%T.%9t %a %d %S %n\\n", "1.009507758 D WS 223490 56"), Ok(expected));
        assert_eq!(fields("%5T.%9t %2a %3d %-9S|%n", "    1.009507758  D  WS 223490   |56"), Ok(expected));
        let device = Fields { device: Some("8,16"), ..expected };
        let line = "  8,16  D,WS,1,009507758,223490,56,7,[kjournald: a b] 3";
        assert_eq!(fields("%D%a,%d,%T,%t,%S,%n,%p,[%C] %c", line.trim()), Ok(device));
        let bytes = Fields { sectors: None, bytes: Some(28_672), ..device };
        assert_eq!(
            fields("%D,%N %S:%d %a at %T %t of %C", "8,16 ,28672 223490:WS D at 1 009507758 of a b"),
            Ok(bytes)
        );
    }

    #[test]
    fn other_lines_are_refused() {
        let format = "%T.%9t %a %d %S %n";
        for line in
            ["", "1.0 D W 8", "1,0 D W 8 8", "1.0 D W 8 x", "x.0 D W 8 8", "1.0 D W 8 8 [a]", "1.0 D W -8 8"]
        {
            assert!(fields(format, line).is_err(), "{line}");
        }
    }

    #[test]
    fn formats_that_cannot_be_read_back_are_refused() {
        for format in [
            "%d %S %n",
            "%a %S %n",
            "%a %d %n",
            "%a %d %S",
            "%t %a %d %S %n",
            "%T%t %a %d %S %n",
            "%M,%m %a %d %S %n",
            "%a%d %S %n",
            "%C %a %d %S %n",
            "%a %d %S %n %",
            "%a %d %S %n %q",
        ] {
            assert!(format.parse::<BlkparseFormat>().is_err(), "{format}");
        }
        let format: BlkparseFormat = "%a %d %S %n".parse().unwrap();
        assert!(!format.has_times());
    }
}
