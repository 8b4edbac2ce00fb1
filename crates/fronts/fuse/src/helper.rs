//! `fusermount3`, which mounts and unmounts for ordinary users: where it is.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

const HELPER: &str = "fusermount3";

/// Where the library looks for it besides PATH.
const FOUND_ANYWAY: [&str; 2] = ["/sbin", "/bin"];

/// Where it may be as well.
const ELSEWHERE: [&str; 2] = ["/usr/bin", "/usr/local/bin"];

fn find_in(search_path: &OsStr) -> Result<PathBuf, Option<PathBuf>> {
    let in_path = env::split_paths(search_path).chain(FOUND_ANYWAY.map(PathBuf::from));
    let found = in_path.map(|folder| folder.join(HELPER)).find(|helper| helper.is_file());
    let elsewhere = || ELSEWHERE.map(|folder| Path::new(folder).join(HELPER)).into_iter();
    found.ok_or_else(|| elsewhere().find(|helper| helper.is_file()))
}

/// The helper of this process.
///
/// # Errors
/// Nothing looks where it is, or it is nowhere.
pub(crate) fn find() -> Result<PathBuf, Option<PathBuf>> {
    // the library obeys this
    match env::var_os("FUSERMOUNT_PATH") {
        Some(helper) => Ok(helper.into()),
        None => find_in(&env::var_os("PATH").unwrap_or_default()),
    }
}

/// A command of the helper. It fails to start if there is none.
pub(crate) fn command() -> Command {
    Command::new(find().unwrap_or_else(|_| HELPER.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_is_found_without_path_where_it_usually_is() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join(HELPER);
        std::fs::write(&own, "").unwrap();
        assert_eq!(find_in(folder.path().as_os_str()), Ok(own));
        let usual =
            ["/sbin", "/bin", "/usr/bin", "/usr/local/bin"].map(|usual| Path::new(usual).join(HELPER));
        let is_there = usual.iter().any(|helper| helper.is_file());
        let found = find_in(OsStr::new("")).map_or_else(|elsewhere| elsewhere, Some);
        assert_eq!(found.is_some(), is_there, "{found:?}");
    }
}
