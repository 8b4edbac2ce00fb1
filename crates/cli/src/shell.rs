//! `tantalum completions` and `tantalum man`: completions for shells, and man pages.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output;

/// `tantalum completions`.
#[derive(Args, Debug)]
pub struct CompletionsOptions {
    /// The shell
    pub shell: Shell,
}

/// `tantalum man`.
#[derive(Args, Debug)]
pub struct ManOptions {
    /// The folder for the pages, one for each command; it is created if needed. Without it, print the page of `tantalum`
    pub folder: Option<PathBuf>,
}

/// Prints the completion script.
pub fn completions(options: &CompletionsOptions, mut command: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, "tantalum", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// Writes the pages.
pub fn man(options: &ManOptions, command: Command) -> Result<(), Failure> {
    let Some(folder) = &options.folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).map_err(Failure::Output)?;
        return output::print(&String::from_utf8_lossy(&page));
    };
    let failure = |error| Failure::ManPages { folder: folder.clone(), error };
    fs::create_dir_all(folder).map_err(failure)?;
    clap_mangen::generate_to(command, folder).map_err(failure)
}
