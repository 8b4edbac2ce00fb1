//! `tantalum crash replay`.

use std::path::PathBuf;

use clap::Args;
use tantalum_crash_run::{SavedFinding, check_again, mount_finding};

use crate::crash_run::parse_command;
use crate::failure::Failure;
use crate::output;

/// `tantalum crash replay`.
#[derive(Args, Debug)]
pub struct CrashReplayOptions {
    /// The folder of a finding, for example FOLDER/finding-1 of `crash run --save FOLDER`
    #[arg(value_name = "FINDING")]
    pub finding: PathBuf,

    /// Mount the files on this empty folder instead of running the check. Changes are discarded at unmount
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Run this check instead of the one that failed
    #[arg(long, value_name = "COMMAND", conflicts_with = "folder", value_parser = parse_command)]
    pub check: Option<String>,
}

/// Runs the check again, or mounts the files. A failed check is a failure after that.
pub fn run(options: &CrashReplayOptions) -> Result<(), Failure> {
    let saved = SavedFinding::open(&options.finding)?;
    let Some(folder) = &options.folder else {
        let again = check_again(&saved, options.check.as_deref())?;
        if !again.said.is_empty() {
            output::print(&format!("{}\n", again.said))?;
        }
        return match again.failed {
            None => output::print("the check passes\n"),
            Some(ended) => Err(Failure::CheckFailedAgain { ended }),
        };
    };
    let mount = mount_finding(&saved, folder)?;
    let stopper = mount.mounted.stopper();
    let _ = ctrlc::set_handler(move || stopper.stop());
    output::print(&format!(
        "{folder} holds the files of the finding until Ctrl-C, or fusermount3 -u {folder}; in another terminal:\n  \
         cd {folder} && TANTALUM_DIR=$PWD TANTALUM_ACKS={acks} {check}\n",
        folder = folder.display(),
        acks = saved.acks().display(),
        check = saved.check.as_deref().unwrap_or("CHECK"),
    ))?;
    mount.mounted.wait(|_| {}).map_err(tantalum_crash_run::RunError::from)?;
    Ok(())
}
