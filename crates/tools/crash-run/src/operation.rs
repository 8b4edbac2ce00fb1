//! What a program did to its files, in memory.

pub(crate) use tantalum_record::operation::is_first_part;
pub use tantalum_record::operation::{Attribute, FileNumber, FolderName, Made, Operation, ROOT};

/// Everything that was recorded.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The operations, in their order.
    pub operations: Vec<Operation>,
    /// The index of the program's first operation; everything before it is durable.
    pub begins: usize,
    /// What the program acknowledged, line by line, each with the number of operations done by then.
    pub acks: Vec<(usize, String)>,
}

impl Recording {
    /// What the program had acknowledged after this many operations.
    pub fn acks_by(&self, operations: usize) -> &[(usize, String)] {
        &self.acks[..self.acks.partition_point(|(at, _)| *at <= operations)]
    }
}
