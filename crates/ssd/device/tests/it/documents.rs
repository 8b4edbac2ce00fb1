//! What is written about commands elsewhere agrees with the list of them: the tables in docs/, and Python's methods.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tantalum::{COMMANDS, Effect};

fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(name)
}

/// The cells of the first table after a heading, row by row.
fn table_after(document: &str, heading: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path_of(document)).unwrap();
    let (_, rest) = text.split_once(heading).unwrap_or_else(|| panic!("{document} has no {heading:?}"));
    let rows =
        rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.skip(2).map(cells).collect()
}

/// The opcode after "vendor, ", such as 81h.
fn vendor_opcode(cell: &str) -> Option<u8> {
    let (_, after) = cell.split_once("vendor, ")?;
    Some(u8::from_str_radix(after.get(..2)?, 16).unwrap())
}

#[test]
fn the_table_of_commands_has_each_command_with_its_opcode() {
    let rows = table_after("docs/commands.md", "## Command table");
    let documented: Vec<_> =
        rows.iter().map(|row| (row[0].trim_matches('`'), vendor_opcode(&row[4]))).collect();
    let listed: Vec<_> = COMMANDS.iter().map(|info| (info.name, info.vendor_opcode)).collect();
    assert_eq!(documented, listed);
}

/// A command that changes contents says when the change is durable. One that only reads, or prepares changes, has nothing to say.
#[test]
fn the_table_of_commands_says_when_changes_are_durable() {
    let rows = table_after("docs/commands.md", "## Command table");
    for (row, info) in rows.iter().zip(COMMANDS.iter()) {
        let says = !row[2].is_empty();
        match info.effect {
            Effect::Changes => assert!(says, "{}: when is it durable?", info.name),
            Effect::Reads | Effect::Prepares => assert!(!says, "{} is not durable: {:?}", info.name, row[2]),
            Effect::Ends => {}
        }
    }
}

#[test]
fn the_table_of_vendor_commands_has_each_opcode() {
    let rows = table_after("docs/nvme.md", "## Vendor commands");
    let documented: BTreeSet<u8> =
        rows.iter().map(|row| u8::from_str_radix(&row[1][..2], 16).unwrap()).collect();
    assert_eq!(documented.len(), rows.len(), "an opcode occurs twice");
    assert_eq!(documented, COMMANDS.iter().filter_map(|info| info.vendor_opcode).collect());
}

/// Python has every command, except those whose bytes move while others have the drive: its buffers are copied under a lock.
#[test]
fn python_has_each_command() {
    const LACKING: [&str; 2] = ["ReadLater", "WriteFilled"];
    let mut used: BTreeMap<String, PathBuf> = BTreeMap::new();
    for entry in fs::read_dir(path_of("python/src/device")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for after in text.split("Command::").skip(1) {
            let name = after.split(|end: char| !end.is_ascii_alphanumeric()).next().unwrap();
            used.insert(name.to_owned(), path.clone());
        }
    }
    for info in COMMANDS.iter() {
        match (used.get(info.name), LACKING.contains(&info.name)) {
            (None, false) => panic!("Python lacks {}", info.name),
            (Some(path), true) => panic!("{} has {}, which is listed as lacking", path.display(), info.name),
            _ => {}
        }
    }
}
