//! Requests of programs that know Tantalum: ranges of files that are committed or exchanged in one step.

use fuser::{Errno, FileHandle};
use tantalum_filesystem::{FileId, RangeCommit};

use super::{Host, Outcome};
use crate::handles::OpenFile;
use crate::ioctl::{Range, Request};

/// The result of an ioctl: its answer, and the files changed without the kernel.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub out: Vec<u8>,
    pub changed: Vec<FileId>,
}

impl Host {
    pub fn ioctl(&mut self, handle: FileHandle, request: Request) -> Outcome<Done> {
        if self.write_back {
            // the kernel would neither pass on first what it holds of the ranges, nor drop it afterwards
            return Err(Errno::EOPNOTSUPP.into());
        }
        match request {
            Request::Token => {
                self.handles.get(handle).ok_or(Errno::EBADF)?;
                let token = self.handles.issue_token(handle);
                Ok(Done { out: token.to_ne_bytes().to_vec(), changed: Vec::new() })
            }
            Request::Commit(ranges) => self.commit(&ranges),
            Request::Exchange(range) => self.exchange(&range),
        }
    }

    fn commit(&mut self, ranges: &[Range]) -> Outcome<Done> {
        let mut commits = Vec::with_capacity(ranges.len());
        for range in ranges {
            let (from, to) = (self.named(range.from)?, self.named(range.to)?);
            if !from.reads || !to.writes {
                return Err(Errno::EBADF.into());
            }
            commits.push(RangeCommit {
                from: from.file,
                from_offset: range.from_offset,
                to: to.file,
                to_offset: range.to_offset,
                bytes: range.bytes,
            });
        }
        self.file_system.commit_ranges(&commits)?;
        let changed: Vec<FileId> = commits.iter().map(|commit| commit.to).collect();
        self.finish(changed)
    }

    fn exchange(&mut self, range: &Range) -> Outcome<Done> {
        let (a, b) = (self.named(range.from)?, self.named(range.to)?);
        if !(a.reads && a.writes && b.reads && b.writes) {
            return Err(Errno::EBADF.into());
        }
        let (a_offset, b_offset) = (range.from_offset, range.to_offset);
        self.file_system.exchange_ranges(a.file, a_offset, b.file, b_offset, range.bytes)?;
        self.finish(vec![a.file, b.file])
    }

    fn named(&self, token: u64) -> Outcome<OpenFile> {
        Ok(self.handles.of_token(token).ok_or(Errno::EBADF)?)
    }

    fn finish(&mut self, mut changed: Vec<FileId>) -> Outcome<Done> {
        changed.sort_unstable();
        changed.dedup();
        for &file in &changed {
            self.note_write(file)?;
        }
        Ok(Done { out: Vec::new(), changed })
    }
}
