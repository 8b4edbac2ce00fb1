//! Open files, and the tokens by which an ioctl names them.
//!
//! An ioctl on one file may name others by tokens. A program gets a file's token from its own open file. So the holder
//! of a token was allowed to open the file, for reading or writing as the token says.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use fuser::{FileHandle, OpenAccMode, OpenFlags};
use tantalum_filesystem::FileId;

/// A file as a program opened it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpenFile {
    pub file: FileId,
    pub reads: bool,
    pub writes: bool,
}

/// All open files.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    open: HashMap<u64, OpenFile>,
    tokens: HashMap<u64, u64>,
    next: u64,
    secret: RandomState,
}

impl Handles {
    /// A program opened a file.
    pub fn open(&mut self, file: FileId, flags: OpenFlags) -> FileHandle {
        self.next += 1;
        let mode = flags.acc_mode();
        let reads = mode != OpenAccMode::O_WRONLY;
        let writes = mode != OpenAccMode::O_RDONLY;
        self.open.insert(self.next, OpenFile { file, reads, writes });
        FileHandle(self.next)
    }

    /// It was closed.
    pub fn close(&mut self, handle: FileHandle) {
        if self.open.remove(&handle.0).is_some() {
            self.tokens.remove(&self.token(handle));
        }
    }

    /// The open file.
    pub fn get(&self, handle: FileHandle) -> Option<OpenFile> {
        self.open.get(&handle.0).copied()
    }

    /// The token of an open file, which names it until it is closed.
    pub fn issue_token(&mut self, handle: FileHandle) -> u64 {
        let token = self.token(handle);
        self.tokens.insert(token, handle.0);
        debug_assert!(self.open.contains_key(&handle.0), "the token of a file that is not open");
        token
    }

    /// The open file of a token; none if there is none.
    pub fn of_token(&self, token: u64) -> Option<OpenFile> {
        self.get(FileHandle(*self.tokens.get(&token)?))
    }

    fn token(&self, handle: FileHandle) -> u64 {
        self.secret.hash_one(handle.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc::{O_RDONLY, O_RDWR, O_WRONLY};

    #[test]
    fn a_token_names_its_file_until_that_is_closed() {
        let mut handles = Handles::default();
        let handle = handles.open(FileId::ROOT, OpenFlags(O_RDONLY));
        let token = handles.issue_token(handle);
        assert_eq!(
            handles.of_token(token),
            Some(OpenFile { file: FileId::ROOT, reads: true, writes: false })
        );
        assert_eq!(handles.of_token(token ^ 1), None);
        handles.close(handle);
        assert_eq!(handles.of_token(token), None);
        assert_eq!(handles.get(handle), None);
    }

    #[test]
    fn a_file_that_was_opened_for_one_thing_is_not_open_for_the_other() {
        let mut handles = Handles::default();
        let mut allowed = |flags| {
            let handle = handles.open(FileId::ROOT, OpenFlags(flags));
            handles.get(handle).map(|open| (open.reads, open.writes)).unwrap()
        };
        assert_eq!(allowed(O_RDONLY), (true, false));
        assert_eq!(allowed(O_WRONLY), (false, true));
        assert_eq!(allowed(O_RDWR), (true, true));
    }
}
