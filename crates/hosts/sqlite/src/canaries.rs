//! The guards of the VFS, named for what happens without them, and what is then done instead. Compiled for tests only
//! ([`tantalum_canaries`]).

use tantalum_volume::{FileId, Volume, VolumeError};

tantalum_canaries::guards! {
    /// Homes are written before the log that records them is durable.
    #[hazard(7)]
    fn HomesBeforeLog() -> Result<(), VolumeError> { Ok(()) }

    /// Log pages are reused before the log's new header is durable.
    #[hazard(9)]
    fn FramesBeforeHeader() -> Result<(), VolumeError> { Ok(()) }

    /// The log restarts before what a checkpoint brought home is durable.
    #[hazard(7)]
    fn RestartBeforeHomes(volume: &mut Volume, database: FileId, has_log: bool) -> Result<(), VolumeError> {
        if has_log { Ok(()) } else { volume.sync(database) }
    }

    /// What follows a reopened log stays there when the log continues.
    #[hazard(8)]
    fn StaleTailKept() -> bool { false }
}
