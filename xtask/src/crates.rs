//! `cargo xtask crates`: the number of crates in a first build of the command, which should take minutes.

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};

/// The limit, for a build without optional features.
const MOST: usize = 160;

/// Prints the number, and which crates there are in several versions.
pub fn run() -> ExitCode {
    let tree =
        ["tree", "--locked", "--package", "tantalum-cli", "--edges", "normal,build", "--prefix", "none"];
    let output = match Command::new("cargo").args(tree).args(["--format", "{p}"]).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => return failed(&String::from_utf8_lossy(&output.stderr)),
        Err(error) => return failed(&error.to_string()),
    };
    let crates = crates_of(&output);
    println!("{} crates, at most {MOST}; in several versions: {}", crates.len(), several(&crates).join(", "));
    if crates.len() <= MOST {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "error: a build of tantalum-cli has {} crates, more than {MOST}: make what few need a feature",
        crates.len()
    );
    ExitCode::FAILURE
}

fn failed(why: &str) -> ExitCode {
    eprintln!("error: cargo tree: {}", why.trim());
    ExitCode::from(2)
}

/// Names with versions, of lines of `cargo tree`.
fn crates_of(tree: &str) -> BTreeSet<(&str, &str)> {
    tree.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, rest)| (name, rest.split(' ').next().unwrap_or(rest)))
        .collect()
}

fn several<'a>(crates: &BTreeSet<(&'a str, &str)>) -> Vec<&'a str> {
    let names: Vec<&str> = crates.iter().map(|(name, _)| *name).collect();
    let mut several: Vec<&str> =
        names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    several.dedup();
    several
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_of_a_crate_counts_once() {
        let tree = "tantalum-cli v0.1.0 (/somewhere)\nsyn v2.0.1\nsyn v3.0.0\nsyn v3.0.0 (*)\nserde_derive v1.0.0 (proc-macro)\n\n";
        let crates = crates_of(tree);
        assert_eq!(crates.len(), 4, "{crates:?}");
        assert_eq!(several(&crates), ["syn"]);
    }
}
