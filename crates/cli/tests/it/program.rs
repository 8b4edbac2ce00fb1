//! `tantalum program` as its users call it.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn tantalum(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tantalum")).args(arguments).current_dir(dir).output().unwrap()
}

fn printed(dir: &Path, arguments: &[&str], code: i32) -> (String, String) {
    let output = tantalum(dir, arguments);
    let [text, message] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}{message}");
    assert!(!message.contains("panicked"), "{message}");
    (text, message)
}

#[test]
fn shipped_programs_are_listed_and_described() {
    let dir = TempDir::new().unwrap();
    let (list, _) = printed(dir.path(), &["program", "list"], 0);
    assert!(
        ["base_io", "direct_io", "atomic_writes", "hits"].iter().all(|name| list.contains(name)),
        "{list}"
    );
    let (hits, _) = printed(dir.path(), &["program", "describe", "hits"], 0);
    assert!(hits.contains("handler              0 hit") && hits.contains("receive, respond"), "{hits}");
    let (_, error) = printed(dir.path(), &["program", "describe", "nothing.wasm"], 2);
    assert!(error.contains("nothing.wasm") && error.contains("program list"), "{error}");
    std::fs::write(dir.path().join("no.wasm"), b"no module").unwrap();
    let (_, error) = printed(dir.path(), &["program", "describe", "no.wasm"], 2);
    assert!(error.contains("no.wasm: not a valid module: WebAssembly begins with"), "{error}");
}

#[test]
fn a_program_runs_on_an_image_and_its_stores_stay() {
    let dir = TempDir::new().unwrap();
    printed(dir.path(), &["create", "drive.img", "--capacity", "64M", "--profile", "willow"], 0);
    let messages = ["--send", "3:0:07000000", "--send", "3:0:07000000", "--send", "3:0:ff000000"];
    let (text, _) =
        printed(dir.path(), &[&["program", "run", "drive.img", "hits"], &messages[..]].concat(), 0);
    let answers: Vec<&str> = text.lines().skip(2).take(3).collect();
    for (answer, expected) in answers.iter().zip(["1", "2", "-10"]) {
        assert_eq!(answer.split_whitespace().nth(3), Some(expected), "{text}");
    }
    // Base-IO writes four bytes, and reads them in another run
    let write = "0:1:0000000000000000040000000100000061626364";
    printed(dir.path(), &["program", "run", "drive.img", "base_io", "--kernel", "--send", write], 0);
    let read = "0:0:00000000000000000400000002000000";
    let (text, _) =
        printed(dir.path(), &["program", "run", "drive.img", "base_io", "--kernel", "--send", read], 0);
    assert!(text.contains("0000000000000000040000000200000061626364"), "{text}");
    // without the right, and with it
    let direct = ["program", "run", "drive.img", "direct_io", "--send", read];
    let (text, _) = printed(dir.path(), &direct, 0);
    assert!(text.contains("no permission"), "{text}");
    let (text, _) = printed(dir.path(), &[&direct[..], &["--grant", "0..8192"]].concat(), 0);
    assert!(text.contains("61626364"), "{text}");
}

#[test]
fn a_fault_is_told_with_the_name_of_the_handler_and_what_was_printed_before() {
    let module = wat::parse_str(
        r#"(module
            (import "tantalum" "print" (func $print (param i32 i32)))
            (memory (export "memory") 1) (data (i32.const 0) "hi")
            (global (export "__heap_base") i32 (i32.const 8))
            (func $fail (export "rpc_0") (param i32 i32)
                (call $print (i32.const 0) (i32.const 2))
                (drop (i32.load (i32.const 1024)))))"#,
    )
    .unwrap();
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("fail.wasm"), &module).unwrap();
    printed(dir.path(), &["create", "drive.img", "--capacity", "64M"], 0);
    let run = ["program", "run", "drive.img", "fail.wasm", "--send", "2:0"];
    let (text, error) = printed(dir.path(), &run, 1);
    let fault = "fault: handler 0 (fail) on processor 2: out of bounds memory access, in `fail`";
    assert!(text.contains(fault), "{text}");
    assert!(text.contains("serial port of processor 2:\nhi"), "{text}");
    assert!(error.contains("a program faulted"), "{error}");
    let (_, error) = printed(dir.path(), &["program", "run", "drive.img", "hits", "--send", "99:0"], 2);
    assert!(error.contains("no processor 99"), "{error}");
}
