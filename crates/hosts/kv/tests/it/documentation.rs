//! docs/key-value.md names every call.

use std::path::Path;

/// Files whose public functions are those of the crate's users.
const FILES: [&str; 12] = [
    "store.rs",
    "damage.rs",
    "options.rs",
    "snapshot.rs",
    "backup.rs",
    "rebuild.rs",
    "typed.rs",
    "range.rs",
    "record.rs",
    "keys.rs",
    "transaction/mod.rs",
    "transaction/scan.rs",
];

fn calls(source: &str) -> impl Iterator<Item = &str> {
    let names = source.lines().filter_map(|line| line.trim_start().strip_prefix("pub fn "));
    names.map(|rest| rest.split(['(', '<']).next().expect("a split has a first part"))
}

#[test]
fn docs_name_every_call() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_to_string(folder.join("../../../docs/key-value.md")).unwrap();
    // the words between backticks
    let code: Vec<&str> = docs.split('`').skip(1).step_by(2).collect();
    let is_named = |call: &str| {
        let mut words = code.iter().flat_map(|code| code.split(|c: char| c != '_' && !c.is_alphanumeric()));
        words.any(|word| word == call)
    };
    let mut found = 0;
    for file in FILES {
        let source = std::fs::read_to_string(folder.join("src").join(file)).unwrap();
        for call in calls(&source) {
            found += 1;
            assert!(is_named(call), "{file}: docs/key-value.md does not name {call}");
        }
    }
    assert!(found > 50, "{found}");
}
