//! What identifies an image's subsystem and its namespaces: derived from the image's path, so the same each time it is served.

use std::path::Path;

use tantalum_image::mix;

use crate::qualified_name::{OF_UUID, is_qualified_name};

/// A number that is the same each time the image is served.
pub fn identity_of(image: &Path) -> u64 {
    image.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The subsystem's name.
pub fn name_of(identity: u64) -> String {
    let name = format!("{OF_UUID}{}", text_of_uuid(uuid_of(identity)));
    assert!(is_qualified_name(&name), "hosts cannot connect to {name}");
    name
}

/// The UUID of a namespace. `namespace` is its number for hosts, and above 32 bits what distinguishes it from earlier ones with the same
/// number.
pub fn uuid_of_namespace(identity: u64, namespace: u64) -> [u8; 16] {
    uuid_of(mix(identity).wrapping_add(namespace))
}

/// A UUID as text, in lower case.
pub fn text_of_uuid(uuid: [u8; 16]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    [0..4, 4..6, 6..8, 8..10, 10..16].map(|part| hex(&uuid[part])).join("-")
}

/// A UUID of the free form, version 8.
fn uuid_of(number: u64) -> [u8; 16] {
    let (high, low) = (mix(number), mix(!number));
    let high = high & !0xf000 | 0x8000;
    let low = low & !(0xf << 60) | 8 << 60;
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_uuid_of_version_8() {
        let name = name_of(identity_of(Path::new("/tmp/d/kv.tant")));
        // hosts remember it
        assert_eq!(name, "nqn.2014-08.org.nvmexpress:uuid:8be06272-6430-89e3-84a9-6848cdfbcfd3");
        assert!(is_qualified_name(&name));
        assert_ne!(name, name_of(identity_of(Path::new("/tmp/drive2.tant"))));
    }

    #[test]
    fn each_namespace_has_a_uuid_of_its_own() {
        let uuid = |identity, namespace| text_of_uuid(uuid_of_namespace(identity, namespace));
        let uuids = [uuid(1, 1), uuid(1, 2), uuid(2, 1), uuid(2, 2)];
        for (index, uuid) in uuids.iter().enumerate() {
            assert_eq!(uuid.len(), 36, "{uuid}");
            assert_eq!((&uuid[14..15], &uuid[19..20]), ("8", "8"), "{uuid}");
            assert!(!uuids[..index].contains(uuid));
        }
    }
}
