//! The guards of the volume, named for what happens without them, and what is then done instead. Compiled for tests only
//! ([`tantalum_canaries`]).

tantalum_canaries::guards! {
    /// A file gets units although its inode may become durable before the trim that emptied them.
    fn TrimUnflushed() -> bool { false }

    /// An inode becomes durable before the data that it shows.
    fn InodeBeforeData() -> bool { false }

    /// The volume is marked closed before its last trims are durable.
    fn ClosedBeforeTrims() -> bool { false }
}
