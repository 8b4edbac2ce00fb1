//! The namespaces of the subsystem, and their numbers for hosts.

use tantalum::NamespaceId;

use crate::blocks::BlockSpace;

/// The namespace with the drive's blocks.
pub const BLOCK_NAMESPACE: u32 = 1;
/// All namespaces.
pub const ALL_NAMESPACES: u32 = 0xffff_ffff;
/// The first namespace with records has this number; the drive counts its own from 1.
const FIRST_NAMESPACE: u32 = BLOCK_NAMESPACE + 1;

/// The existing namespaces.
#[derive(Clone, Debug)]
pub struct Namespaces {
    /// The drive's blocks.
    pub blocks: BlockSpace,
    /// The drive's namespaces with records.
    pub key_value: Vec<NamespaceId>,
}

impl Namespaces {
    /// The namespace with records that has this number for hosts.
    pub fn key_value(&self, namespace: u32) -> Option<NamespaceId> {
        namespace_of(namespace).filter(|namespace| self.key_value.contains(namespace))
    }

    /// Whether there are namespaces with records: hosts then choose between command sets.
    pub fn have_records(&self) -> bool {
        !self.key_value.is_empty()
    }

    /// The numbers of all of them for hosts, in order.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        let key_value = self.key_value.iter().map(|&namespace| number_of(namespace));
        std::iter::once(BLOCK_NAMESPACE).chain(key_value)
    }
}

/// The drive's namespace that has this number for hosts.
pub fn namespace_of(namespace: u32) -> Option<NamespaceId> {
    namespace.checked_sub(FIRST_NAMESPACE - 1).filter(|&number| number > 0).map(NamespaceId)
}

/// The number of one of the drive's namespaces for hosts.
pub fn number_of(namespace: NamespaceId) -> u32 {
    let number = namespace.0 + FIRST_NAMESPACE - 1;
    debug_assert_eq!(namespace_of(number), Some(namespace), "hosts know {namespace:?} as {number}");
    number
}
