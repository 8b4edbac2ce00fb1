//! The header is the one that is generated, and the example in C compiles and runs.

use std::path::Path;
use std::process::Command;

#[test]
fn the_header_is_the_generated_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let mut header = Vec::new();
    let source = folder.join("src/lib.rs");
    cbindgen::Builder::new().with_config(config).with_src(source).generate().unwrap().write(&mut header);
    let (path, header) = (folder.join("include/tantalum.h"), String::from_utf8(header).unwrap());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &header).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), header, "UPDATE=1 writes it anew");
}

#[test]
fn the_example_compiles_and_runs() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    // the libraries lie beside the folder of the tests
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let shared = libraries.join("libtantalum_c.so");
    let libraries = if shared.exists() { libraries } else { libraries.parent().unwrap().to_owned() };
    let program = folder.path().join("transfer");
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(manifest.join("include"))
        .arg(manifest.join("examples/transfer.c"))
        .arg("-L")
        .arg(&libraries)
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .args(["-ltantalum_c", "-o"])
        .arg(&program)
        .status()
        .unwrap();
    assert!(compiled.success());
    let ran = Command::new(&program).arg(folder.path().join("app.tant")).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "alice has 70\n");
}
