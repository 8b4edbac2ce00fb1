//! Parts of experiments that are built only on request, because few need them and their libraries take long to build.

use tantalum_report::MissingFeature;

/// A Cargo feature of this crate, and of `tantalum-cli`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// Clients of MariaDB and PostgreSQL.
    Servers,
    /// RocksDB.
    RocksDb,
}

impl Feature {
    /// All of them.
    pub const ALL: [Feature; 2] = [Feature::Servers, Feature::RocksDb];

    /// An error if this build is without it.
    pub fn require(self) -> Result<(), MissingFeature> {
        let is_built = match self {
            Feature::Servers => cfg!(feature = "servers"),
            Feature::RocksDb => cfg!(feature = "rocksdb"),
        };
        if is_built { Ok(()) } else { Err(self.missing()) }
    }

    /// The error of a build without it.
    pub(crate) fn missing(self) -> MissingFeature {
        match self {
            Feature::Servers => MissingFeature { what: "clients of database servers", feature: "servers" },
            Feature::RocksDb => MissingFeature { what: "RocksDB", feature: "rocksdb" },
        }
    }
}
