//! What runs that were killed have left in the folder for temporary files.

use std::env;

use tantalum_fuse::image_mounted_on;
use tantalum_measure::left_behind;

use crate::output;

/// Names each folder, and the command that removes it, and its mount.
pub fn note() {
    for folder in left_behind(&env::temp_dir()) {
        let (mount, folder) = (folder.join("dir"), folder.display());
        let unmounts = match image_mounted_on(&mount) {
            Some(_) => format!("tantalum unmount {} && ", mount.display()),
            None => String::new(),
        };
        output::complain(&format!(
            "note: {folder} is left of a run that was killed; `{unmounts}rm -r {folder}` removes it"
        ));
    }
}
