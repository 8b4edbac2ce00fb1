//! A file of SQL, and where its statements end.
//!
//! SQLite copies everything behind a statement when it prepares it, which takes quadratic time for a long file. So each
//! statement is cut out first.

use std::fs;
use std::path::Path;

use crate::error::ExperimentError;

/// Reads a file of SQL: UTF-8, or UTF-16 with a byte-order mark.
pub(super) fn read(path: &Path) -> Result<String, ExperimentError> {
    let bytes = fs::read(path).map_err(ExperimentError::file(path))?;
    let wrong = |what: String| ExperimentError::Script { path: path.to_owned(), what };
    let sql = match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => utf_16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf_16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => utf_8(rest),
        rest => utf_8(rest),
    };
    let sql = sql.map_err(wrong)?;
    match command_of_shell(&sql) {
        None => Ok(sql),
        Some((line, command)) => Err(wrong(format!(
            "line {line}: {command:?} is a command of SQLite's shell, not SQL: leave it out"
        ))),
    }
}

fn utf_8(bytes: &[u8]) -> Result<String, String> {
    // SQL has none, and SQLite would take the first for the end
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        let order = if at == 0 { "UTF-16BE" } else { "UTF-16LE" };
        return Err(format!(
            "it has bytes of zero, like UTF-16 without a byte-order mark: convert the file, for example with \
             iconv -f {order} -t UTF-8"
        ));
    }
    match std::str::from_utf8(bytes) {
        Ok(sql) => Ok(sql.to_owned()),
        Err(error) => {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
            Err(format!(
                "line {line} is not UTF-8: convert the file, for example with iconv -f LATIN1 -t UTF-8"
            ))
        }
    }
}

fn utf_16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
    match String::from_utf16(&units) {
        Ok(sql) if rest.is_empty() => Ok(sql),
        _ => Err("it begins with UTF-16's mark and is not UTF-16".to_owned()),
    }
}

/// The first line between statements that begins with a dot.
fn command_of_shell(sql: &str) -> Option<(usize, &str)> {
    let mut script = Script::new(sql);
    loop {
        script.skip_blank();
        let rest = script.rest();
        if rest.starts_with('.') {
            let line = 1 + sql[..script.at].matches('\n').count();
            return rest.lines().next().map(|command| (line, command));
        }
        if rest.is_empty() {
            return None;
        }
        script.at = script.end_of_statement();
    }
}

/// The statements of a file, one after the other.
pub(super) struct Script<'a> {
    sql: &'a str,
    /// Where the last statement begins.
    from: usize,
    /// Where it ends.
    at: usize,
}

impl<'a> Script<'a> {
    pub fn new(sql: &'a str) -> Script<'a> {
        Script { sql, from: 0, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.sql[self.at..]
    }

    /// The next statement with its semicolon, without what is blank before it.
    pub fn next_statement(&mut self) -> Option<&'a str> {
        self.skip_blank();
        self.from = self.at;
        self.extend()
    }

    /// Extends the statement to the next semicolon; none if the file has ended.
    pub fn extend(&mut self) -> Option<&'a str> {
        let from = self.at;
        self.at = self.end_of_statement();
        (self.at > from).then(|| &self.sql[self.from..self.at])
    }

    /// Skips space, comments and semicolons between statements.
    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            let blank = match rest.as_bytes() {
                [b';', ..] => 1,
                [b'-', b'-', ..] | [b'/', b'*', ..] => self.end_of_token() - self.at,
                _ => rest.len() - rest.trim_start().len(),
            };
            if blank == 0 {
                return;
            }
            self.at += blank;
        }
    }

    /// The place behind the next semicolon that is in no string, name or comment; the end of the file without one.
    fn end_of_statement(&self) -> usize {
        let mut script = Script { ..*self };
        while script.at < script.sql.len() {
            let is_semicolon = script.rest().starts_with(';');
            script.at = script.end_of_token();
            if is_semicolon {
                break;
            }
        }
        script.at
    }

    /// The place behind a string, a quoted name, a comment, or else one character.
    fn end_of_token(&self) -> usize {
        let rest = self.rest();
        let behind = |start: usize, end: &str| {
            rest[start..].find(end).map_or(rest.len(), |place| start + place + end.len())
        };
        let bytes = match rest.as_bytes() {
            // a doubled quote is another string without a gap
            [b'\'', ..] => behind(1, "'"),
            [b'"', ..] => behind(1, "\""),
            [b'`', ..] => behind(1, "`"),
            [b'[', ..] => behind(1, "]"),
            [b'-', b'-', ..] => behind(2, "\n"),
            [b'/', b'*', ..] => behind(2, "*/"),
            _ => rest.chars().next().map_or(0, char::len_utf8),
        };
        self.at + bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(sql: &str) -> Vec<&str> {
        let mut script = Script::new(sql);
        std::iter::from_fn(|| script.next_statement()).collect()
    }

    #[test]
    fn statements_end_at_semicolons_that_are_in_nothing_else() {
        assert_eq!(
            statements(
                "-- a; b\nSELECT 'a;''b;', \"c;\", `d;`, [e;] -- f;\n, 1;;\n/* ; */ SELECT 2; SELECT 3"
            ),
            ["SELECT 'a;''b;', \"c;\", `d;`, [e;] -- f;\n, 1;", "SELECT 2;", "SELECT 3",]
        );
        assert_eq!(statements(" ;; -- nothing\n /* neither"), [""; 0]);
        assert_eq!(statements("SELECT 'ä; not ended"), ["SELECT 'ä; not ended"]);
        let mut script = Script::new("CREATE TRIGGER t BEGIN SELECT 1; END; SELECT 3");
        assert_eq!(script.next_statement(), Some("CREATE TRIGGER t BEGIN SELECT 1;"));
        assert_eq!(script.extend(), Some("CREATE TRIGGER t BEGIN SELECT 1; END;"));
        assert_eq!((script.next_statement(), script.extend()), (Some("SELECT 3"), None));
    }

    #[test]
    fn files_are_read_in_the_encodings_that_people_have() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("work.sql");
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            super::read(&path).map_err(|error| error.to_string())
        };
        let wide = |unit: fn(u16) -> [u8; 2]| {
            "\u{feff}SELECT 'ä'".encode_utf16().flat_map(unit).collect::<Vec<u8>>()
        };
        for bytes in
            [wide(u16::to_le_bytes), wide(u16::to_be_bytes), "\u{feff}SELECT 'ä'".into(), "SELECT 'ä'".into()]
        {
            assert_eq!(read(&bytes), Ok("SELECT 'ä'".to_owned()));
        }
        assert!(read(b"SELECT 1;\nSELECT '\xe4'").unwrap_err().contains("line 2 is not UTF-8"));
        // its characters are a zero and a letter of UTF-8, and the message was about a later line
        for (unmarked, name) in [(wide(u16::to_le_bytes), "UTF-16LE"), (wide(u16::to_be_bytes), "UTF-16BE")] {
            let error = read(&unmarked[2..]).unwrap_err();
            assert!(error.contains(&format!("iconv -f {name} -t UTF-8")), "{error}");
        }
        assert!(read(b"\xff\xfea").unwrap_err().contains("UTF-16"));
        let error = read(b"BEGIN;\n.mode csv\nCOMMIT;").unwrap_err();
        assert!(error.contains("line 2: \".mode csv\" is a command of SQLite's shell"), "{error}");
        assert_eq!(
            read(b"SELECT 1\n.5;").as_deref(),
            Ok("SELECT 1\n.5;"),
            "it is in the middle of a statement"
        );
    }
}
