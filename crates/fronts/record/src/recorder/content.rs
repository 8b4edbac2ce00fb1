//! Writes and syncs, and ranges that are moved.

use tantalum::{Fetches, Fills};
use tantalum_filesystem::{Content, FileId, Outcome, RangeCommit, Ranges};

use super::Recorder;
use crate::event::{Event, WriteKind};
use crate::operation::{FileNumber, Operation};

impl Content for Recorder {
    fn read(
        &mut self,
        file: FileId,
        offset: u64,
        data: &mut [u8],
        later: Option<&mut Fetches>,
    ) -> Outcome<usize> {
        self.inner.read(file, offset, data, later)
    }

    fn write(&mut self, file: FileId, offset: u64, data: &[u8]) -> Outcome<()> {
        let begun = self.begins();
        self.inner.write(file, offset, data)?;
        self.record(begun, |numbers| wrote(numbers.number(file), offset, data, WriteKind::Cached));
        Ok(())
    }

    fn write_direct(
        &mut self,
        file: FileId,
        offset: u64,
        data: &[u8],
        fills: Option<&mut Fills>,
    ) -> Outcome<()> {
        let begun = self.begins();
        self.inner.write_direct(file, offset, data, fills)?;
        self.record(begun, |numbers| wrote(numbers.number(file), offset, data, WriteKind::Direct));
        Ok(())
    }

    fn has_whole_writes(&self) -> bool {
        self.inner.has_whole_writes()
    }

    fn write_whole(&mut self, file: FileId, offset: u64, data: &[u8]) -> Outcome<()> {
        let begun = self.begins();
        self.inner.write_whole(file, offset, data)?;
        self.record(begun, |numbers| wrote(numbers.number(file), offset, data, WriteKind::Whole));
        Ok(())
    }

    fn write_out(&mut self, file: FileId) -> Outcome<()> {
        let begun = self.begins();
        self.inner.write_out(file)?;
        self.record(begun, |numbers| Event::WrittenOut(numbers.number(file)));
        Ok(())
    }

    fn sync(&mut self, file: FileId) -> Outcome<()> {
        let begun = self.begins();
        self.inner.sync(file)?;
        self.record(begun, |numbers| Event::Done(Operation::Sync(numbers.number(file))));
        Ok(())
    }

    fn sync_data(&mut self, file: FileId) -> Outcome<()> {
        let begun = self.begins();
        self.inner.sync_data(file)?;
        self.record(begun, |numbers| Event::Done(Operation::SyncData(numbers.number(file))));
        Ok(())
    }
}

fn wrote(file: FileNumber, offset: u64, data: &[u8], kind: WriteKind) -> Event<'_> {
    Event::Wrote { file, offset, data, kind }
}

impl Ranges for Recorder {
    fn allocate(&mut self, file: FileId, offset: u64, bytes: u64, keep_size: bool) -> Outcome<()> {
        let begun = self.begins();
        self.inner.allocate(file, offset, bytes, keep_size)?;
        self.record(begun, |numbers| {
            Event::Done(Operation::Allocate { file: numbers.number(file), offset, bytes, keep_size })
        });
        Ok(())
    }

    fn punch_hole(&mut self, file: FileId, offset: u64, bytes: u64) -> Outcome<()> {
        let begun = self.begins();
        self.inner.punch_hole(file, offset, bytes)?;
        self.record(begun, |numbers| Event::Punched { file: numbers.number(file), offset, bytes });
        Ok(())
    }

    fn zero_range(&mut self, file: FileId, offset: u64, bytes: u64, keep_size: bool) -> Outcome<()> {
        let begun = self.begins();
        self.inner.zero_range(file, offset, bytes, keep_size)?;
        self.record(begun, |numbers| {
            Event::Done(Operation::Zero { file: numbers.number(file), offset, bytes, keep_size })
        });
        Ok(())
    }

    fn seek_data(&mut self, file: FileId, from: u64) -> Outcome<Option<u64>> {
        self.inner.seek_data(file, from)
    }

    fn seek_hole(&mut self, file: FileId, from: u64) -> Outcome<Option<u64>> {
        self.inner.seek_hole(file, from)
    }

    fn copy_range(
        &mut self,
        from: FileId,
        from_offset: u64,
        to: FileId,
        to_offset: u64,
        bytes: u64,
    ) -> Outcome<u64> {
        self.check_moves()?;
        let begun = self.begins();
        let copied = self.inner.copy_range(from, from_offset, to, to_offset, bytes)?;
        self.record(begun, |numbers| {
            let (from, to) = (numbers.number(from), numbers.number(to));
            Event::Copied { from: (from, from_offset), to: (to, to_offset), bytes, copied }
        });
        Ok(copied)
    }

    fn commit_ranges(&mut self, ranges: &[RangeCommit]) -> Outcome<()> {
        self.check_moves()?;
        let begun = self.begins();
        self.inner.commit_ranges(ranges)?;
        self.record(begun, |numbers| {
            let mut commit = |range: &RangeCommit| {
                let from = (numbers.number(range.from), range.from_offset);
                (from, (numbers.number(range.to), range.to_offset), range.bytes)
            };
            Event::Committed(ranges.iter().map(&mut commit).collect())
        });
        Ok(())
    }

    fn exchange_ranges(
        &mut self,
        a: FileId,
        a_offset: u64,
        b: FileId,
        b_offset: u64,
        bytes: u64,
    ) -> Outcome<()> {
        self.check_moves()?;
        let begun = self.begins();
        self.inner.exchange_ranges(a, a_offset, b, b_offset, bytes)?;
        self.record(begun, |numbers| {
            let (a, b) = ((numbers.number(a), a_offset), (numbers.number(b), b_offset));
            Event::Exchanged { a, b, bytes }
        });
        Ok(())
    }
}
