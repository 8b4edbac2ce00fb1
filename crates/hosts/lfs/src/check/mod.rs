//! Checking a file system: whether folders, files, index, segments and the accounting of space agree.

mod finding;
mod walk;

pub use finding::Finding;
