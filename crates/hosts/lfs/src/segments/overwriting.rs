//! Overwriting contents in the log in place: with the buffer of other such units, or as a separate run.

use tantalum::{Command, Fills, Lpn, UNIT_BYTES};
use tantalum_canaries::guard;
use tantalum_filesystem::FileId;

use super::log::{BUFFER_UNITS, Log};
use crate::bytes::Page;
use crate::error::Result;

impl Log {
    /// Overwrites contents of a file that are in the log: sent with the next buffer, durable with the next flush.
    pub fn overwrite(&mut self, file: FileId, lpn: Lpn, page: &Page) -> Result<()> {
        self.begin_overwriting(file, lpn, 1)?;
        let head = self.heads.len() - 1;
        debug_assert_eq!(
            self.heads[head].segment, None,
            "the head that overwrites unit {lpn} of file {file} has a segment"
        );
        self.put(head, lpn, page, None)
    }

    /// Overwrites adjacent units of a file, `BUFFER_UNITS` at most, and sends them now. The next of `fills` already hold them.
    pub fn overwrite_run(
        &mut self,
        file: FileId,
        lpn: Lpn,
        data: &[u8],
        fills: Option<&mut Fills>,
    ) -> Result<()> {
        let units = data.len() / UNIT_BYTES;
        assert!(
            (1..=BUFFER_UNITS).contains(&units),
            "{units} units of file {file} are overwritten at once, and {BUFFER_UNITS} are the most"
        );
        self.begin_overwriting(file, lpn, units as u32)?;
        let command = match fills {
            Some(fills) => Command::WriteFilled { lpn, data, fills, handle: None },
            None => Command::Write { lpn, data, fua: false, handle: None },
        };
        let done_ns = self.client.submit_queued(command)?.done_ns;
        self.is_unflushed = true;
        self.sent(done_ns);
        Ok(())
    }

    fn begin_overwriting(&mut self, file: FileId, lpn: Lpn, units: u32) -> Result<()> {
        // What was appended there must not reach the drive later.
        guard!(OverwriteBeforeAppend, self.write_overlapping(lpn, units)?);
        guard!(OverwriteNotFlushed, {
            self.unflushed.insert(file);
        });
        self.written.contents += u64::from(units);
        Ok(())
    }
}
