//! Renames that leave a *whiteout* behind: a character device with number 0, by which an overlay hides the file of that
//! name in the layer below (`RENAME_WHITEOUT`).
//!
//! The whiteout's slot is taken before the names change, and nothing is committed in between, so that the rename and the
//! whiteout are in one batch: after a power cut both are there, or neither.

use tantalum_filesystem::{FileId, FileKind, NewFile, RenameMode};

use crate::error::VolumeError;
use crate::tree::MOST_CHANGES;
use crate::volume::Volume;

impl Volume {
    /// As [`Volume::rename_in`], replacing what has the new name, and in the same step creates a whiteout with the old
    /// one. `whiteout` gives owner, permissions and time.
    pub fn rename_leaving_whiteout(
        &mut self,
        folder: FileId,
        name: &[u8],
        new_folder: FileId,
        new_name: &[u8],
        whiteout: &NewFile,
    ) -> Result<(), VolumeError> {
        self.make_room_for_changes(MOST_CHANGES + 1)?;
        let slot = self.take_slot_for_name()?;
        let renamed = self.rename_in(folder, name, new_folder, new_name, RenameMode::Replace, whiteout.now);
        if renamed.is_err() || self.lookup(folder, name).is_ok() {
            // Refused, or both are names of one file and remain.
            self.table.free(slot);
            return renamed;
        }
        let kind = FileKind::CharDevice;
        self.insert_file(slot, folder, name, kind, &[], &NewFile { kind, device_number: 0, ..*whiteout });
        Ok(())
    }
}
