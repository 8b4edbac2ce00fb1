//! Chores of the project, as `cargo xtask COMMAND`.

mod crates;
mod e2e;
mod executed_files;
mod failing_folder;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Chores of the project.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Tests that need /dev/fuse, root or a server
    ///
    /// Installs Debian packages that are missing if it runs as root, and otherwise says which to install. Root runs as `nobody`
    /// what does not need root. What this machine cannot do is left out, and said at the end.
    E2e(e2e::Options),
    /// Counts the crates that a build of the command compiles, and fails if they are too many
    Crates,
    /// Counts the files whose code a program executed, according to Callgrind
    ///
    /// Prints, for each output of `valgrind --tool=callgrind --dump-line=yes`, the files of this project's crates with executed code,
    /// inlined code included, by crate.
    ExecutedFiles(executed_files::Options),
    /// Runs one step of e2e in a folder
    #[command(hide = true)]
    E2eStep { name: String, folder: PathBuf },
    /// Shows a folder at another one, and fails when it is told to; for a step of e2e
    #[command(hide = true)]
    FailingFolder(failing_folder::Options),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::E2e(options) => e2e::run(&options),
        Command::E2eStep { name, folder } => e2e::run_alone(&name, &folder),
        Command::Crates => crates::run(),
        Command::ExecutedFiles(options) => match executed_files::run(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::from(2)
            }
        },
        Command::FailingFolder(options) => match failing_folder::run(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {}: {error}", options.folder().display());
                ExitCode::from(2)
            }
        },
    }
}
