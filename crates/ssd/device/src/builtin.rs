//! Where a profile comes from: one of the drives in `profiles/`, which are built into the program, or a file.

use std::fs;
use std::path::Path;

use crate::profile::{Profile, ProfileError};

/// The drives of `profiles/`: name and TOML text, in display order.
const BUILTIN: &[(&str, &str)] = &[
    ("tlc-nvme", include_str!("../profiles/tlc-nvme.toml")),
    ("tlc-nvme-plp", include_str!("../profiles/tlc-nvme-plp.toml")),
    ("fast", include_str!("../profiles/fast.toml")),
    ("femu-2021", include_str!("../profiles/femu-2021.toml")),
    ("openssd-barefoot", include_str!("../profiles/openssd-barefoot.toml")),
    ("durassd", include_str!("../profiles/durassd.toml")),
    ("kaml-board", include_str!("../profiles/kaml-board.toml")),
    ("pebblessd", include_str!("../profiles/pebblessd.toml")),
    ("willow", include_str!("../profiles/willow.toml")),
    ("zns", include_str!("../profiles/zns.toml")),
];

/// The built-in drives: name and TOML text.
pub fn builtin() -> &'static [(&'static str, &'static str)] {
    BUILTIN
}

impl Profile {
    /// The built-in drive of that name, or else the drive in that file.
    ///
    /// A name with a path separator or ending in `.toml` is a file, and so is any other name of an existing file that
    /// is not a built-in name.
    pub fn load(name_or_path: &str) -> Result<Profile, ProfileError> {
        if let Some((name, text)) = builtin().iter().find(|(name, _)| *name == name_or_path) {
            return Profile::from_toml(text, name);
        }
        let path = Path::new(name_or_path);
        let names_a_file = path.components().count() > 1 || name_or_path.ends_with(".toml") || path.is_file();
        if !names_a_file {
            return Err(ProfileError::Unknown { name: name_or_path.to_owned(), known: known_names() });
        }
        let text = fs::read_to_string(path)
            .map_err(|error| ProfileError::Unreadable { path: path.to_owned(), error: error.to_string() })?;
        Profile::from_toml(&text, name_or_path)
    }
}

fn known_names() -> String {
    builtin().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_profile_is_valid_and_bears_its_name() {
        for (name, _) in builtin() {
            let profile = Profile::load(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(profile.name, *name);
        }
    }

    #[test]
    fn every_profile_in_the_folder_is_built_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
        for entry in fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            let name = file.strip_suffix(".toml").expect("only profiles are in profiles/");
            assert!(builtin().iter().any(|(builtin, _)| *builtin == name), "{file} is not built in");
        }
    }

    #[test]
    fn femu_has_the_papers_figures() {
        let femu = Profile::load("femu-2021").unwrap();
        const GIB: u64 = 1 << 30;
        assert_eq!((femu.flash.channels, femu.flash.dies_per_channel, femu.flash.page_bytes), (2, 4, 4096));
        assert_eq!(
            (femu.flash.read_ns, femu.flash.program_ns, femu.flash.erase_ns),
            (50_000, 500_000, 5_000_000)
        );
        assert_eq!(femu.capacity_bytes, 32 * GIB);
        assert_eq!(femu.capacity_bytes as f64 * femu.over_provisioning_percent / 100.0, 4.0 * GIB as f64);
    }

    #[test]
    fn unknown_name_lists_the_known_ones() {
        let error = Profile::load("tlc-nvmee").unwrap_err().to_string();
        for (name, _) in builtin() {
            assert!(error.contains(name), "{error:?} does not name {name}");
        }
    }

    #[test]
    fn missing_file_is_named() {
        let error = Profile::load("no/such/drive.toml").unwrap_err();
        assert!(
            matches!(&error, ProfileError::Unreadable { path, .. } if path.ends_with("drive.toml")),
            "{error}"
        );
    }
}
