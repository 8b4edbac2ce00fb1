//! The programs that come with the drive, built from `programs/` by `programs/build`.

/// Answers every request at once.
pub const ECHO: &[u8] = include_bytes!("../modules/echo.wasm");
/// The drive's reads and writes, for the host's kernel.
pub const BASE_IO: &[u8] = include_bytes!("../modules/base_io.wasm");
/// Reads and writes of the extents that a process has rights to.
pub const DIRECT_IO: &[u8] = include_bytes!("../modules/direct_io.wasm");
/// Editable atomic writes.
pub const ATOMIC_WRITES: &[u8] = include_bytes!("../modules/atomic_writes.wasm");
