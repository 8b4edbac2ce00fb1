//! The programs that come with the drive, built from `programs/` by `programs/build` and `programs/build-rust`.

/// Answers every request at once.
pub const ECHO: &[u8] = include_bytes!("../modules/echo.wasm");
/// The drive's reads and writes, for the host's kernel.
pub const BASE_IO: &[u8] = include_bytes!("../modules/base_io.wasm");
/// Reads and writes of the extents that a process has rights to.
pub const DIRECT_IO: &[u8] = include_bytes!("../modules/direct_io.wasm");
/// Editable atomic writes.
pub const ATOMIC_WRITES: &[u8] = include_bytes!("../modules/atomic_writes.wasm");
/// Walks a B+tree.
pub const TREE_WALK: &[u8] = include_bytes!("../modules/tree_walk.wasm");
/// Filters the records of a key-value namespace, and sums a field of them.
pub const FILTER_SUM: &[u8] = include_bytes!("../modules/filter_sum.wasm");
/// Append with a returned offset.
pub const APPEND: &[u8] = include_bytes!("../modules/append.wasm");
/// A counter on top of Atomic-Writes.
pub const FETCH_ADD: &[u8] = include_bytes!("../modules/fetch_add.wasm");
/// The checksum of a range: a program in Rust.
pub const CHECKSUM: &[u8] = include_bytes!("../modules/checksum.wasm");
/// Counts requests for pages: the tutorial of docs/programs.md.
pub const HITS: &[u8] = include_bytes!("../modules/hits.wasm");

/// The module of a shipped program.
pub fn named(name: &str) -> Option<&'static [u8]> {
    ALL.iter().find(|(known, ..)| *known == name).map(|(_, module, _)| *module)
}

/// All of them by name, with descriptions.
pub const ALL: &[(&str, &[u8], &str)] = &[
    ("base_io", BASE_IO, "the drive's reads and writes, for the kernel"),
    ("direct_io", DIRECT_IO, "the same for processes, with their permissions"),
    ("atomic_writes", ATOMIC_WRITES, "transactions of several writes, over several processors"),
    ("tree_walk", TREE_WALK, "looks up a key of a B+tree"),
    ("filter_sum", FILTER_SUM, "filters records of a key-value namespace, and adds up a field"),
    ("append", APPEND, "appends to a log, answering with the offset"),
    ("fetch_add", FETCH_ADD, "a counter, through atomic_writes"),
    ("checksum", CHECKSUM, "the CRC-32C of a range: a program in Rust"),
    ("hits", HITS, "counts requests for pages: the tutorial of docs/programs.md"),
    ("echo", ECHO, "answers at once"),
];
