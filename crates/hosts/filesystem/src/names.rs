//! The tree of folders.

use std::ops::ControlFlow;

use crate::{Errno, FileId, FolderEntry, NewFile, Outcome, RenameMode, Timestamp};

/// Looks up, creates, moves and removes names.
///
/// A name has 1 to [`NAME_BYTES`](crate::NAME_BYTES) bytes, no NUL and no slash, and is neither `.` nor `..`. A longer
/// one fails with `ENAMETOOLONG`, a file that should be a folder with `ENOTDIR`, a number without a file with `ESTALE`,
/// and a lack of space with `ENOSPC`.
///
/// Changes of a folder set its times to the given `now`; they are durable with [`Names::sync_folder`].
pub trait Names {
    /// The file with a given name in a folder; `ENOENT` if there is none.
    fn lookup(&mut self, folder: FileId, name: &[u8]) -> Outcome<FileId>;

    /// The parent of a folder; the root is its own.
    fn parent(&mut self, folder: FileId) -> Outcome<FileId>;

    /// Passes the entries of a folder after the one with cookie `after` (0 for all) to `take`, until it breaks off. `.`
    /// and `..` are not included. Each entry that exists throughout is seen once, whatever is created and removed
    /// between calls.
    fn read_folder(
        &mut self,
        folder: FileId,
        after: u64,
        take: &mut dyn FnMut(FolderEntry<'_>) -> ControlFlow<()>,
    ) -> Outcome<()>;

    /// Creates an empty file or folder, or a file of any other kind except a symbolic link. `EEXIST` if the name is
    /// taken.
    fn create_in(&mut self, folder: FileId, name: &[u8], new: &NewFile) -> Outcome<FileId>;

    /// Creates a symbolic link to `target`, which is any path. It is never seen without its target.
    fn create_symbolic_link(
        &mut self,
        folder: FileId,
        name: &[u8],
        target: &[u8],
        new: &NewFile,
    ) -> Outcome<FileId>;

    /// The target of a symbolic link.
    fn read_symbolic_link(&mut self, file: FileId) -> Outcome<Vec<u8>>;

    /// Gives a file that is not a folder a further name. `EMLINK` if it has the maximum number.
    fn link(&mut self, file: FileId, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()>;

    /// Removes a name from a file that is not a folder; `EISDIR` if it is one. The file is removed with its last name,
    /// or with its last [`Names::close`].
    fn unlink(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()>;

    /// Removes an empty folder; `ENOTEMPTY` if it is not.
    fn remove_folder(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()>;

    /// Gives a file another name and perhaps another folder, in one step with the change to the file that had that
    /// name. If both are names of one file, they stay as they are. A mode that the file system does not have fails with
    /// `EINVAL`, as does moving a folder into itself.
    fn rename_in(
        &mut self,
        folder: FileId,
        name: &[u8],
        new_folder: FileId,
        new_name: &[u8],
        mode: RenameMode,
        now: Timestamp,
    ) -> Outcome<()>;

    /// As [`Names::rename_in`] with [`RenameMode::Replace`], and in the same step creates a *whiteout* with the old name: a
    /// character device with number 0, owner, permissions and time as in `whiteout`. An overlay hides by it the file of
    /// that name in the layer below. `EINVAL` if the file system does not have it.
    fn rename_leaving_whiteout(
        &mut self,
        _folder: FileId,
        _name: &[u8],
        _new_folder: FileId,
        _new_name: &[u8],
        _whiteout: &NewFile,
    ) -> Outcome<()> {
        Err(Errno::EINVAL)
    }

    /// Keeps a file, whatever happens to its names, until it is closed as often. After a crash a file without names is
    /// gone, open or not.
    fn open(&mut self, file: FileId) -> Outcome<()>;

    /// Undoes one [`Names::open`].
    fn close(&mut self, file: FileId) -> Outcome<()>;

    /// Makes creations, removals and renames in a folder durable, and possibly those in others.
    fn sync_folder(&mut self, folder: FileId) -> Outcome<()>;
}
