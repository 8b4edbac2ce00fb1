//! What a program did to its files, in memory.

pub use tantalum_record::operation::{Attribute, Entry, FileNumber, Made, Operation, ROOT};

/// Everything that was recorded.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// In the order in which they were done.
    pub operations: Vec<Operation>,
    /// The first of the program itself; what was before is durable.
    pub begins: usize,
    /// Lines in which the program said what it had done, each with the number of operations that were done by then.
    pub said: Vec<(usize, String)>,
}

impl Recording {
    /// What the program had said after so many operations.
    pub fn said_by(&self, operations: usize) -> &[(usize, String)] {
        &self.said[..self.said.partition_point(|(at, _)| *at <= operations)]
    }
}
