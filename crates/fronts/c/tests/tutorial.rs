//! Follows the tutorial of docs/programs.md in its own folder, with clang and wasm-ld, which CI has.

use std::path::{Path, PathBuf};
use std::process::Command;

const DOCUMENT: &str = include_str!("../../../../docs/programs.md");

/// The blocks of code of one language in the tutorial.
fn blocks(language: &str) -> Vec<String> {
    let (_, tutorial) = DOCUMENT.split_once("## Ten minutes").expect("there is a tutorial");
    let (tutorial, _) = tutorial.split_once("\n## ").expect("it is not the last");
    let fence = format!("```{language}\n");
    let opened = tutorial.split(&fence).skip(1);
    opened.map(|rest| unindented(rest.split("```").next().expect("it has an end"))).collect()
}

fn unindented(body: &str) -> String {
    let lines: Vec<&str> = body.lines().map(|line| line.strip_prefix("   ").unwrap_or(line)).collect();
    lines.join("\n")
}

fn shell(folder: &Path, clone: &Path, commands: &str) -> String {
    let ran = Command::new("sh")
        .args(["-euc", commands])
        .current_dir(folder)
        .env("T", clone)
        // cargo's may have an older library
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .expect("there is a shell");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{commands}\n{out}{err}");
    out.into_owned()
}

fn is_installed(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|ran| ran.status.success())
}

#[test]
fn the_tutorial_does_what_it_says() {
    if !is_installed("clang") || !is_installed("wasm-ld") {
        assert!(std::env::var_os("CI").is_none(), "clang and wasm-ld are missing");
        println!("left out: clang and wasm-ld are missing (Debian: apt install clang lld)");
        return;
    }
    let clone: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let folder = tempfile::tempdir().unwrap();
    let (programs, commands, outputs) = (blocks("c"), blocks("sh"), blocks("text"));
    let [hits, host] = &programs[..] else { panic!("{} programs", programs.len()) };
    let [build, run] = &commands[..] else { panic!("{} blocks of commands", commands.len()) };
    let [good, bad] = &outputs[..] else { panic!("{} outputs", outputs.len()) };
    std::fs::write(folder.path().join("hits.c"), hits).unwrap();
    std::fs::write(folder.path().join("host.c"), host).unwrap();
    // the library is what this test was built with
    let build: String = build.lines().filter(|line| !line.starts_with("cargo ")).collect();
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_beside = libraries.join("libtantalum_c.so").exists();
    let libraries = if is_beside { libraries } else { libraries.parent().unwrap().to_owned() };
    let run = run
        .replace("$T/target/release", &libraries.display().to_string())
        .replace("cc ", "cc -Wall -Wextra -Werror ");
    shell(folder.path(), &clone, &build);
    assert_eq!(shell(folder.path(), &clone, &run).trim_end(), good.trim_end());

    let (before, check) = (hits.clone(), " || page >= 64");
    let careless = before.replace(check, "");
    assert!(careless != before && DOCUMENT.contains(&format!("Take `{check}` out")));
    std::fs::write(folder.path().join("hits.c"), careless).unwrap();
    shell(folder.path(), &clone, &build);
    assert_eq!(shell(folder.path(), &clone, "./host").trim_end(), bad.trim_end());
}
