//! The guards of log-structured file systems, named for what happens without them, and what is then done instead. Compiled for
//! tests only ([`tantalum_canaries`]).

use tantalum_filesystem::FileId;

use crate::error::Result;
use crate::fs::LogFs;
use crate::index::Resident;
use crate::segments::Log;
use crate::tree::{Number, Tree};

tantalum_canaries::guards! {
    /// A checkpoint names tables and nodes that are not durable.
    fn PackBeforeTables(log: &mut Log) -> Result<()> { log.wait() }

    /// A checkpoint overwrites its predecessor.
    fn PackInPlace() -> u64 { 0 }

    /// A node of a sync is written before the data to which it points are durable.
    #[hazard(18)]
    fn NodeBeforeData(log: &mut Log, files: &[FileId], has_nodes: bool) -> Result<()> {
        match has_nodes {
            true => log.wait(),
            false => files.iter().try_for_each(|file| log.flush_contents(*file)),
        }
    }

    /// An anchor names a super root that is not durable.
    fn AnchorBeforeSuperRoot(log: &mut Log) -> Result<()> { log.wait() }

    /// A partial segment counts although some of its units are missing.
    fn PartialUnchecked() -> bool { true }

    /// A summary counts units that the drive moved and that are not durable there.
    fn SummaryBeforeMoves() -> bool { false }

    /// Units that a snapshot sees are released when the present no longer needs them.
    fn SnapshotHolds() -> bool { false }

    /// The cleaner moves units that were rewritten elsewhere since it chose them.
    #[hazard(18)]
    fn StaleMove(fs: &mut LogFs, resident: &Resident, is_late: bool) -> Result<bool> {
        Ok(is_late || fs.index.lives_at(&mut fs.log, resident)?)
    }

    /// Lists are cleared before the checkpoint that makes them void is durable.
    #[hazard(17)]
    fn ListsClearedEarly(fs: &mut LogFs) -> Result<()> { fs.clear_lists() }

    /// Recovery follows lists that a checkpoint has made void.
    #[hazard(17)]
    fn VoidListsFollowed() -> bool { true }

    /// A list stands although the index made its file durable since.
    #[hazard(17)]
    fn ListBehindNodes() {}

    /// The drive lists a unit behind a summary that is not durable.
    #[hazard(17)]
    fn ListBeforeSummary() -> bool { false }

    /// Recovery gives a listed unit another number than the summary that names it.
    #[hazard(18)]
    fn NamedNumber(tree: &mut Tree, log: &mut Log, file: FileId, unit: u32) -> Result<Number> {
        tree.number_for(log, file, unit)
    }

    /// A sync returns before what it wrote in place is durable.
    fn OverwriteNotFlushed() {}

    /// A unit is written in place while an older one waits in a buffer to be appended there.
    fn OverwriteBeforeAppend() {}

    /// A hole is filled although the last checkpoint names what lay there.
    #[hazard(29)]
    fn HoleStillNamed<T: Default>() -> T { T::default() }

    /// A mount fills holes before its own checkpoint is durable.
    #[hazard(29)]
    fn HolesInRecovery() -> bool { true }
}
