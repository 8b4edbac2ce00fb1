//! The name of an image's subsystem.

use std::path::Path;

use tantalum::mix;

/// A number that is the same each time the image is served.
pub fn identity_of(image: &Path) -> u64 {
    image.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A name made of a UUID of the free form, version 8.
pub fn name_of(identity: u64) -> String {
    let (high, low) = (mix(identity), mix(!identity));
    format!(
        "nqn.2014-08.org.nvmexpress:uuid:{:08x}-{:04x}-8{:03x}-8{:03x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0xfff,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_uuid_of_version_8() {
        let name = name_of(identity_of(Path::new("/tmp/drive.tant")));
        let uuid = name.strip_prefix("nqn.2014-08.org.nvmexpress:uuid:").unwrap();
        assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_eq!((&uuid[14..15], &uuid[19..20]), ("8", "8"));
        assert_ne!(name, name_of(identity_of(Path::new("/tmp/drive2.tant"))));
    }
}
