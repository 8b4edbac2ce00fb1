//! The stores, and drives that run programs, as used from C and Python.

use std::path::Path;

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::shell::Shell;

pub fn c(context: &Context, folder: &Path) -> Outcome {
    let image = folder.join("app.tant");
    for _ in ["a new image", "the same image"] {
        let said = compiled(context, folder, "transfer")?.args([&image]).run()?;
        ensure(said == "alice has 70\n", || said.clone())?;
    }
    let said = compiled(context, folder, "documents")?.args([folder]).run()?;
    ensure(said == "200 documents, then 199; 2 changes, 1 of them a deletion\n", || said.clone())?;
    let said = compiled(context, folder, "programs")?.args([folder.join("drive.tant")]).run()?;
    ensure(said.ends_with("after a power cut the data are there\n"), || said.clone())?;
    Ok(Done::Passed)
}

/// Compiles an example with the header and the library.
fn compiled(context: &Context, folder: &Path, name: &str) -> Result<Shell, Failure> {
    let crate_folder = context.root.join("crates/c");
    let (libraries, program) = (context.target.join("release"), folder.join(name));
    Shell::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .args([crate_folder.join("include"), crate_folder.join(format!("examples/{name}.c"))])
        .args(["-L".into(), libraries.clone(), "-ltantalum_c".into(), "-o".into(), program.clone()])
        .run()?;
    Ok(Shell::new(&program).variable("LD_LIBRARY_PATH", &libraries))
}

pub fn python(context: &Context, _folder: &Path) -> Outcome {
    if let Err(failure) = Shell::new("python3").args(["-c", "import venv, ensurepip"]).run() {
        return Ok(Done::LeftOut(format!("python3 with venv is missing: {failure}")));
    }
    Shell::new(context.root.join("python/test"))
        .variable("CARGO_TARGET_DIR", &context.target)
        .variable("TANTALUM", &context.tantalum)
        .run()?;
    Ok(Done::Passed)
}
