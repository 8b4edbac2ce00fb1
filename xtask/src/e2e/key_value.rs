//! The key-value store as programs in C and Python have it.

use std::path::Path;

use super::failure::ensure;
use super::shell::Shell;
use super::{Context, Done, Outcome};

pub fn c(context: &Context, folder: &Path) -> Outcome {
    Shell::new("cargo")
        .args(["build", "--release", "--package", "tantalum-kv-c"])
        .folder(&context.root)
        .with_output()
        .run()?;
    let crate_folder = context.root.join("crates/kv-c");
    let (libraries, program) = (context.target.join("release"), folder.join("transfer"));
    Shell::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .args([crate_folder.join("include"), crate_folder.join("examples/transfer.c")])
        .args(["-L".into(), libraries.clone(), "-ltantalum_c".into(), "-o".into(), program.clone()])
        .run()?;
    let image = folder.join("app.tant");
    for _ in ["a new image", "the same image"] {
        let said = Shell::new(&program).args([&image]).variable("LD_LIBRARY_PATH", &libraries).run()?;
        ensure(said == "alice has 70\n", || said.clone())?;
    }
    Ok(Done::Passed)
}

pub fn python(context: &Context, _folder: &Path) -> Outcome {
    if let Err(failure) = Shell::new("python3").args(["-c", "import venv, ensurepip"]).run() {
        return Ok(Done::LeftOut(format!("python3 with venv is missing: {failure}")));
    }
    Shell::new(context.root.join("python/test"))
        .variable("CARGO_TARGET_DIR", context.target.join("python"))
        .run()?;
    Ok(Done::Passed)
}
