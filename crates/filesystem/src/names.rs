//! The tree of folders.

use std::ops::ControlFlow;

use crate::{FileId, FolderEntry, NewFile, Outcome, RenameMode, Timestamp};

/// Looking names up, making, moving and removing them.
///
/// A name has 1 to [`NAME_BYTES`](crate::NAME_BYTES) bytes, no NUL and no slash, and is neither `.` nor `..`. A longer one
/// is refused with `ENAMETOOLONG`. What is no folder and should be one is refused with `ENOTDIR`, a number that no file
/// has with `ESTALE`, and what finds no room with `ENOSPC`.
///
/// Changes of a folder set its times to the `now` that they are given; they are durable with [`Names::sync_folder`].
pub trait Names {
    /// The file that a folder has under a name; `ENOENT` if there is none.
    fn lookup(&mut self, folder: FileId, name: &[u8]) -> Outcome<FileId>;

    /// The folder that a folder lies in; the root's is itself.
    fn parent(&mut self, folder: FileId) -> Outcome<FileId>;

    /// Gives `take` the entries of a folder behind the one with cookie `after`, 0 for all, until it breaks off. Without
    /// `.` and `..`. Each entry that is there all the while is seen once, whatever is made and removed between calls.
    fn read_folder(
        &mut self,
        folder: FileId,
        after: u64,
        take: &mut dyn FnMut(FolderEntry<'_>) -> ControlFlow<()>,
    ) -> Outcome<()>;

    /// Makes an empty file or folder, or a file of another kind but a symbolic link. `EEXIST` if the name is taken.
    fn create_in(&mut self, folder: FileId, name: &[u8], new: &NewFile) -> Outcome<FileId>;

    /// Makes a symbolic link to `target`, which is any path. It is never seen without it.
    fn create_symbolic_link(
        &mut self,
        folder: FileId,
        name: &[u8],
        target: &[u8],
        new: &NewFile,
    ) -> Outcome<FileId>;

    /// Where a symbolic link points to.
    fn read_symbolic_link(&mut self, file: FileId) -> Outcome<Vec<u8>>;

    /// Gives a file that is no folder a further name. `EMLINK` if it has as many as it can.
    fn link(&mut self, file: FileId, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()>;

    /// Takes a name from a file that is no folder; `EISDIR` if it is one. With its last name the file goes, or with its
    /// last [`Names::close`].
    fn unlink(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()>;

    /// Removes an empty folder; `ENOTEMPTY` if it is not.
    fn remove_folder(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()>;

    /// Gives a file another name and perhaps another folder, in one step with what becomes of the file that had that
    /// name. Two names of one file stay as they are. A mode that the file system does not have is refused with `EINVAL`,
    /// as is a folder that would come to lie in itself.
    fn rename_in(
        &mut self,
        folder: FileId,
        name: &[u8],
        new_folder: FileId,
        new_name: &[u8],
        mode: RenameMode,
        now: Timestamp,
    ) -> Outcome<()>;

    /// Keeps a file whatever becomes of its names, until it is closed as often. After a crash a file without names is
    /// gone, open or not.
    fn open(&mut self, file: FileId) -> Outcome<()>;

    /// Undoes one [`Names::open`].
    fn close(&mut self, file: FileId) -> Outcome<()>;

    /// Makes creations, removals and renames in a folder durable, and possibly those in others.
    fn sync_folder(&mut self, folder: FileId) -> Outcome<()>;
}
