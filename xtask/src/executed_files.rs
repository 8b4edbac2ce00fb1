//! `cargo xtask executed-files`: how many of this project's files a program executed code of, from the output of Callgrind.
//!
//! A file counts if a line of it has a cost, also when the line was inlined into code of another file. The costs of calls, which
//! are those of the functions called, do not count. Only files in a crate's `src` are considered, not the examples that call them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;

/// The folders of the crates that are the device.
const DEVICE: [&str; 5] = ["canaries", "image", "nand", "ftl", "device"];

/// Folders of libraries, which may have a folder `crates` as well: cargo's, and the standard library's, as built and as installed.
const OTHERS: [&str; 3] = ["/.cargo/", "/rustc/", "/rustlib/"];

#[derive(clap::Args, Debug)]
pub struct Options {
    /// Outputs of Callgrind
    #[arg(required = true, value_name = "CALLGRIND_OUT")]
    outputs: Vec<PathBuf>,
    /// Also prints the files
    #[arg(long)]
    list: bool,
}

#[derive(thiserror::Error, Debug)]
pub enum Error {
    #[error("{}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}: no line with a cost is in a file of this project: see --dump-line=yes and --toggle-collect", .0.display())]
    Nothing(PathBuf),
}

/// Prints the numbers for each output.
pub fn run(options: &Options) -> Result<(), Error> {
    for path in &options.outputs {
        let text = std::fs::read(path).map_err(|error| Error::Unreadable { path: path.clone(), error })?;
        let files = executed(&String::from_utf8_lossy(&text));
        if files.is_empty() {
            return Err(Error::Nothing(path.clone()));
        }
        println!("{}: {}", path.display(), summary(&files));
        if options.list {
            files.iter().for_each(|file| println!("  {file}"));
        }
    }
    Ok(())
}

/// Paths from the root of the project of files with executed code.
fn executed(output: &str) -> BTreeSet<String> {
    let mut names = HashMap::new();
    let mut executed = BTreeSet::new();
    let (mut current, mut is_call) = (None, false);
    for line in output.lines() {
        if let Some((position, name)) = line.split_once('=') {
            is_call = position == "calls";
            if ["fl", "fi", "fe", "cfi", "cfl"].contains(&position) {
                let file = file_of(name, &mut names);
                if !position.starts_with('c') {
                    current = file;
                }
            }
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            // the line after `calls=` has the cost of what was called
            if !std::mem::take(&mut is_call)
                && let Some(file) = &current
            {
                executed.insert(String::clone(file));
            }
        }
    }
    executed
}

/// The file that a position names: `(7) /path`, and from then on `(7)`. None if it is not of a crate of this project.
fn file_of(name: &str, names: &mut HashMap<String, Option<String>>) -> Option<String> {
    match name.split_once(' ') {
        Some((number, path)) => {
            let file = in_project(path);
            names.insert(number.to_owned(), file.clone());
            file
        }
        None => names.get(name).cloned().flatten(),
    }
}

fn in_project(path: &str) -> Option<String> {
    if OTHERS.iter().any(|folder| path.contains(folder)) {
        return None;
    }
    let from = if path.starts_with("crates/") { 0 } else { path.find("/crates/")? + 1 };
    path[from..].contains("/src/").then(|| path[from..].to_owned())
}

/// The folder of a file's crate.
fn crate_of(file: &str) -> &str {
    let folder = file.split("/src/").next().unwrap_or(file);
    folder.rsplit('/').next().unwrap_or(folder)
}

fn summary(files: &BTreeSet<String>) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    for file in files {
        *counts.entry(crate_of(file)).or_default() += 1;
    }
    let above: usize = counts.iter().filter(|(name, _)| !DEVICE.contains(name)).map(|(_, count)| count).sum();
    let parts: Vec<_> = counts.iter().map(|(name, count)| format!("{count} of {name}")).collect();
    format!("{} files: {}; above the device {above}", files.len(), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "version: 1\npositions: line\nevents: Ir\n\n\
        ob=(1) /target/program\n\
        fl=(1) /work/main/crates/ssd/ftl/src/write.rs\nfn=(1) write\n12 3\n\
        fi=(2) /work/main/crates/ssd/nand/src/nand.rs\n+3 1\n\
        fe=(1)\n* 4\n\
        cfi=(3) /work/main/crates/ssd/ftl/src/called.rs\ncfn=(2) called\ncalls=1 5\n* 100\n\
        fl=(4) /work/main/crates/ssd/device/examples/counted.rs\nfn=(3) main\n7 2\ncfi=(5) crates/hosts/kv/src/put.rs\ncalls=1 2\n9 7\n\
        fl=(5)\nfn=(4) put\n9 1\n\
        fl=(6) /root/.cargo/registry/src/somewhere/regex/crates/regex/src/lib.rs\nfn=(5) find\n9 1\n\
        fl=(7) /rustc/0/library/stdarch/crates/core_arch/src/sse.rs\nfn=(6) load\n9 1\n\
        totals: 13\n";

    #[test]
    fn files_with_costs_of_their_own_count() {
        let files = executed(OUTPUT);
        let expected =
            ["crates/hosts/kv/src/put.rs", "crates/ssd/ftl/src/write.rs", "crates/ssd/nand/src/nand.rs"];
        assert_eq!(files.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        assert_eq!(summary(&files), "3 files: 1 of ftl, 1 of kv, 1 of nand; above the device 1");
    }
}
