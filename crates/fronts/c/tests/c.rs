//! The header is the generated one, and the examples in C compile and run.

use std::path::Path;
use std::process::Command;

#[test]
fn the_header_is_the_generated_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let mut header = Vec::new();
    let parts = ["drive", "processes", "install", "requests", "events", "data"];
    let programs = parts.map(|part| format!("programs/{part}"));
    let stores = ["call", "store", "scans", "documents", "snapshots"].map(str::to_owned);
    let mut builder = cbindgen::Builder::new().with_config(config);
    for part in stores.into_iter().chain(programs) {
        builder = builder.with_src(folder.join(format!("src/{part}.rs")));
    }
    builder.generate().unwrap().write(&mut header);
    let (path, header) = (folder.join("include/tantalum.h"), String::from_utf8(header).unwrap());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &header).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), header, "UPDATE=1 writes it anew");
}

/// Compiles an example and runs it.
fn example(name: &str, argument: &Path) -> String {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    // the libraries lie beside the folder of the tests
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let shared = libraries.join("libtantalum_c.so");
    let libraries = if shared.exists() { libraries } else { libraries.parent().unwrap().to_owned() };
    let program = folder.path().join(name);
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(manifest.join("include"))
        .arg(manifest.join(format!("examples/{name}.c")))
        .arg("-L")
        .arg(&libraries)
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .args(["-ltantalum_c", "-o"])
        .arg(&program)
        .status()
        .unwrap();
    assert!(compiled.success());
    // cargo's path may have an older library
    let ran = Command::new(&program).arg(argument).env_remove("LD_LIBRARY_PATH").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn the_example_of_the_key_value_store_runs() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(example("transfer", &folder.path().join("app.tant")), "alice has 70\n");
}

#[test]
fn the_example_of_an_ordered_namespace_runs() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        example("ordered", &folder.path().join("app.tant")),
        "event 07=7\nevent 08=8\nevent 09=9\nevent 03=3 event 02=2 \n\
         20 events, and 21 now; 3 times 1000 make 3000\n\
         a value of 20971520 bytes, 20971520 read, sum 157286400\n\
         restored: 21 events\n"
    );
}

#[test]
fn the_example_of_programs_in_the_drive_runs() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        example("programs", &folder.path().join("drive.tant")),
        "page 7 was asked for 3 times\n\
         without the right: -5; with it, 8 bytes that begin with 7\n\
         program 3 was ended: it reached the limit of 1250000 instructions in one call, in `forever`\n\
         after a power cut the data are there\n"
    );
}

#[test]
fn the_example_of_the_document_store_runs() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        example("documents", folder.path()),
        "200 documents, then 199; 2 changes, 1 of them a deletion\n"
    );
}
