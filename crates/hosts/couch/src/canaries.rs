//! The guards of the document store, named for what happens without them, and what is then done instead. Compiled for tests
//! only ([`tantalum_canaries`]).

use std::io;

use crate::error::Error;
use crate::inner::Writer;
use crate::storage::{ShareRange, Shared, StorageFile};

tantalum_canaries::guards! {
    /// A header is accepted although part of what its commit appended is missing.
    #[hazard(23)]
    fn HeaderAlone() -> Result<bool, Error> { Ok(true) }

    /// The updates of a batch are shared one by one.
    #[hazard(23)]
    fn SharedInParts(file: &impl StorageFile, ranges: &[ShareRange]) -> io::Result<Shared> {
        for range in ranges {
            if file.share(std::slice::from_ref(range))? == Shared::Refused {
                return Ok(Shared::Refused);
            }
        }
        Ok(Shared::Done)
    }

    /// The staging area starts over before a header records what was shared from it.
    #[hazard(23)]
    fn StageReused(writer: &mut Writer) -> Result<(), Error> {
        writer.stage_used = 0;
        Ok(())
    }

    /// A document is shared over while a snapshot sees it.
    #[hazard(23)]
    fn SharedOverSnapshot() -> bool { false }

    /// A compacted file takes over the name before it is durable.
    #[hazard(23)]
    fn CompactedNotSynced() {}

    /// Commits go to the compacted file before its name is durable.
    #[hazard(23)]
    fn SwitchNotDurable() -> io::Result<()> { Ok(()) }
}
