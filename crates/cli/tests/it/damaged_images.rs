//! An image that is damaged is a finding, exit code 1; a request that cannot be carried out is not, exit code 2.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

fn tantalum(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_tantalum")).current_dir(folder).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn damage_has_its_own_exit_code() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    fs::create_dir(here.join("mnt")).unwrap();
    assert_eq!(tantalum(here, &["create", "drive.tant", "--capacity", "64M"]).0, Some(0));
    // where the blocks' records are
    let image = OpenOptions::new().write(true).open(here.join("drive.tant")).unwrap();
    image.write_all_at(&[0xa5; 64 << 10], 8192).unwrap();
    for command in [
        &["info", "drive.tant"][..],
        &["stat", "drive.tant"],
        &["mount", "drive.tant", "mnt"],
        &["mount", "drive.tant", "mnt", "--background"],
    ] {
        let (code, _, message) = tantalum(here, command);
        assert_eq!(code, Some(1), "{command:?}: {message}");
        assert_eq!(message.matches("drive.tant").count(), 1, "it is named once: {message}");
    }
    fs::write(here.join("notes.txt"), "not an image").unwrap();
    for command in [
        &["info", "notes.txt"][..],
        &["info", "missing.tant"],
        &["mount", "notes.txt", "mnt", "--background"],
        &["stat", "mnt"],
    ] {
        let (code, _, message) = tantalum(here, command);
        assert_eq!(code, Some(2), "{command:?}: {message}");
    }
    let (_, _, message) = tantalum(here, &["stat", "mnt"]);
    assert!(message.contains("no Tantalum volume is mounted on mnt"), "{message}");
}

#[test]
fn counters_since_an_earlier_report_are_shown() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    for name in ["a.tant", "b.tant"] {
        fs::create_dir(here.join("mnt")).unwrap();
        let made = ["mount", name, "mnt", "--create", "--capacity", "64M", "--time", "none", "--background"];
        if tantalum(here, &made).0 != Some(0) {
            eprintln!("skipped: this machine cannot mount");
            return;
        }
        assert_eq!(tantalum(here, &["unmount", "mnt"]).0, Some(0));
        fs::remove_dir(here.join("mnt")).unwrap();
        let (_, json, _) = tantalum(here, &["stat", name, "--json"]);
        fs::write(here.join(name).with_extension("json"), json).unwrap();
    }
    let (code, text, message) = tantalum(here, &["stat", "a.tant", "--since", "a.json"]);
    assert_eq!(code, Some(0), "{message}");
    assert!(text.contains("since then"), "{text}");
    let (code, _, message) = tantalum(here, &["stat", "a.tant", "--since", "b.json"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("a report of a.tant; this one is of another image, b.tant"), "{message}");
    // its name is no part of it, nor how the name is written
    let whole = here.join("a.tant").display().to_string();
    assert_eq!(tantalum(here, &["stat", &whole, "--since", "a.json"]).0, Some(0));
    fs::rename(here.join("a.tant"), here.join("c.tant")).unwrap();
    let (code, text, message) = tantalum(here, &["stat", "c.tant", "--since", "a.json"]);
    assert!(code == Some(0) && text.contains("since then"), "{message}");
    fs::rename(here.join("b.tant"), here.join("a.tant")).unwrap();
    let (code, _, message) = tantalum(here, &["stat", "a.tant", "--since", "a.json"]);
    assert!(code == Some(2) && message.contains("this one is of an earlier image there"), "{message}");
}

#[test]
fn an_image_in_use_is_told_with_what_would_do() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    fs::create_dir(here.join("mnt")).unwrap();
    let made = ["mount", "a.tant", "mnt", "--create", "--capacity", "64M", "--time", "none", "--background"];
    if tantalum(here, &made).0 != Some(0) {
        eprintln!("skipped: this machine cannot mount");
        return;
    }
    for command in [&["info", "a.tant"][..], &["check", "a.tant"], &["check", "a.tant", "--repair"]] {
        let (code, _, message) = tantalum(here, command);
        assert!(code == Some(2) && message.contains("`tantalum stat a.tant` asks the drive"), "{message}");
    }
    let (code, _, message) = tantalum(here, &["unmount", "a.tant"]);
    let would_do = format!("`tantalum unmount {}`", here.join("mnt").canonicalize().unwrap().display());
    assert!(code == Some(2) && message.contains(&would_do), "{message}");
    assert_eq!(tantalum(here, &["unmount", "mnt"]).0, Some(0));
    let (code, _, message) = tantalum(here, &["unmount", "a.tant"]);
    assert!(code == Some(2) && message.contains("it is neither mounted nor served"), "{message}");
    assert_eq!(tantalum(here, &["serve", "a.tant", "--background", "--listen", "127.0.0.1:0"]).0, Some(0));
    let (code, _, message) = tantalum(here, &["unmount", "a.tant"]);
    assert!(code == Some(2) && message.contains("`tantalum stop a.tant`"), "{message}");
    assert_eq!(tantalum(here, &["stop", "a.tant"]).0, Some(0));
}

/// The message was "data did not match any variant of untagged enum Report".
#[test]
fn a_file_that_is_no_report_is_told_without_words_of_the_program() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    assert_eq!(tantalum(here, &["create", "a.tant", "--capacity", "64M", "--fill", "10"]).0, Some(0));
    let (_, json, _) = tantalum(here, &["stat", "a.tant", "--json"]);
    let line = json.replace('\n', " ");
    let half = &json[..json.len() / 2];
    for (text, why) in [
        ("", "this file is empty"),
        ("counters", "this is no JSON, or its end is missing"),
        (half, "this is no JSON, or its end is missing"),
        ("{\"command\": \"bench\"}", "this is JSON of something else"),
        (&format!("{line}\n{line}\n"), "this has more than one line of JSON: keep one"),
    ] {
        fs::write(here.join("earlier"), text).unwrap();
        let (code, _, message) = tantalum(here, &["stat", "a.tant", "--since", "earlier"]);
        let expected =
            format!("error: --since earlier: it must be the output of `tantalum stat --json`; {why}\n");
        assert_eq!((code, message), (Some(2), expected));
    }
    fs::write(here.join("grid.toml"), "seeds = \"three\"").unwrap();
    let (_, _, message) = tantalum(here, &["lab", "sweep", "grid.toml"]);
    assert!(message.contains("line 1: seeds is not a number of seeds, or a list"), "{message}");
}
