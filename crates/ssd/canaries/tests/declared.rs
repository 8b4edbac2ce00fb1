//! Every guard that a crate declares is in use there, some test takes it out, and its hazard is listed; and the table of
//! docs/power-loss.md names no other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The Rust files in a folder and below.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.expect("it can be listed").path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Folders of crates, in crates/.
fn crates() -> Vec<PathBuf> {
    let groups = fs::read_dir(root().join("crates")).expect("the workspace has crates");
    let groups = groups.map(|group| group.expect("it can be listed").path()).filter(|path| path.is_dir());
    let below = |group: PathBuf| fs::read_dir(group).expect("a group has crates");
    groups.flat_map(below).map(|krate| krate.expect("it can be listed").path()).collect()
}

/// A word that starts there, if it could be a guard's name.
fn name_at(text: &str) -> Option<&str> {
    let end = text.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(text.len());
    let name = &text[..end];
    let humps = name.chars().filter(char::is_ascii_uppercase).count();
    (name.starts_with(|letter: char| letter.is_ascii_uppercase()) && humps > 1).then_some(name)
}

/// The names that follow this in a text.
fn names_after(text: &str, before: &str) -> BTreeSet<String> {
    let follows = |(at, _)| name_at(text[at + before.len()..].trim_start()).map(str::to_owned);
    text.match_indices(before).filter_map(follows).collect()
}

/// What each crate that has guards declares, and what its code uses.
fn guards() -> BTreeMap<PathBuf, [BTreeSet<String>; 2]> {
    let mut guards = BTreeMap::new();
    for krate in crates() {
        let list = krate.join("src/canaries.rs");
        let mut code = Vec::new();
        sources(&krate.join("src"), &mut code);
        let used = code.iter().flat_map(|path| names_after(&read(path), "guard!(")).collect();
        let declared = if list.exists() { names_after(&read(&list), "    fn ") } else { BTreeSet::new() };
        guards.insert(krate, [declared, used]);
    }
    guards
}

fn declared() -> Vec<String> {
    guards().into_values().flat_map(|[declared, _]| declared).collect()
}

#[test]
fn a_crate_uses_the_guards_that_it_declares_and_no_others() {
    let (mut all, own) = (0, Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap());
    for (krate, [declared, used]) in guards() {
        if krate.canonicalize().unwrap() != own {
            assert_eq!(declared, used, "declared, and used, in {}", krate.display());
            all += declared.len();
        }
    }
    assert!(all > 90, "{all} guards are found");
}

#[test]
fn guards_have_names_of_their_own() {
    let (all, different) = (declared(), declared().into_iter().collect::<BTreeSet<String>>());
    assert_eq!(all.len(), different.len(), "{all:?}");
}

#[test]
fn some_test_takes_each_guard_out() {
    let mut files = Vec::new();
    crates().iter().for_each(|krate| sources(krate, &mut files));
    let is_test = |path: &&PathBuf| path.components().any(|part| part.as_os_str() == "tests");
    let texts = files.iter().filter(is_test).map(|path| read(path)).filter(|text| text.contains("take_out"));
    let taken_out: BTreeSet<String> = texts.flat_map(|text| names_after(&text, "::")).collect();
    let never: Vec<String> = declared().into_iter().filter(|name| !taken_out.contains(name)).collect();
    assert!(never.is_empty(), "no test takes these guards out: {never:?}");
}

#[test]
fn the_hazards_of_guards_are_listed() {
    let hazards = read(&root().join("docs/internals/hazards.md"));
    for krate in crates() {
        let Ok(list) = fs::read_to_string(krate.join("src/canaries.rs")) else { continue };
        for (at, _) in list.match_indices("#[hazard(") {
            let number = list[at + "#[hazard(".len()..].split(')').next().unwrap();
            let is_listed = hazards.lines().any(|line| line.starts_with(&format!("| {number} |")));
            assert!(is_listed, "{} names hazard {number}", krate.display());
        }
    }
}

#[test]
fn the_table_of_seeds_names_guards_that_are_declared() {
    let page = read(&root().join("docs/power-loss.md"));
    let (_, proof) = page.split_once("## Proof that it can fail").expect("the page has the table");
    let rows = proof.lines().filter(|line| line.starts_with('|'));
    let named: BTreeSet<String> = rows.flat_map(|row| names_after(row, "`")).collect();
    let declared: BTreeSet<String> = declared().into_iter().collect();
    let unknown: Vec<&String> = named.difference(&declared).collect();
    assert!(named.len() > 60 && unknown.is_empty(), "not declared: {unknown:?}");
}
