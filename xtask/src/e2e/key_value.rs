//! The stores, and drives that run programs, as used from C and Python.

use std::fs;
use std::path::{Path, PathBuf};

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
    let crate_folder = context.root.join("crates/fronts/c");
    let (libraries, program) = (context.target.join("release"), folder.join(name));
    Shell::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .args([crate_folder.join("include"), crate_folder.join(format!("examples/{name}.c"))])
        .args(["-L".into(), libraries.clone(), "-ltantalum_c".into(), "-o".into(), program.clone()])
        .run()?;
    Ok(Shell::new(&program).variable("LD_LIBRARY_PATH", &libraries))
}

/// A wheel, alone in its folder.
pub fn build_python(context: &Context) -> Result<(), Failure> {
    if !has_venv() {
        return Ok(());
    }
    let wheels = wheels(context);
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    Shell::new(context.root.join("python/test"))
        .args(["--build"])
        .args([&wheels])
        .variable("CARGO_TARGET_DIR", &context.target)
        .run()
        .map(drop)
}

pub fn python(context: &Context, _folder: &Path) -> Outcome {
    if !has_venv() {
        return Ok(Done::LeftOut("python3 with venv is missing".to_owned()));
    }
    let wheel = fs::read_dir(wheels(context))?.next().transpose()?;
    let wheel = wheel.ok_or_else(|| Failure::Wrong("there is no wheel".to_owned()))?.path();
    Shell::new(context.root.join("python/test"))
        .args([&wheel])
        .variable("TANTALUM", &context.tantalum)
        .run()?;
    Ok(Done::Passed)
}

fn wheels(context: &Context) -> PathBuf {
    context.tools().join("wheels")
}

fn has_venv() -> bool {
    Shell::new("python3").args(["-c", "import venv, ensurepip"]).run().is_ok()
}
