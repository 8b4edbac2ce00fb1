//! The module of a `tantalum program` command: finding it, and describing it.

use std::fs;
use std::path::Path;

use tantalum_spu::{Description, describe, shipped};

use crate::failure::Failure;

/// A module by file or name.
pub fn load(module: &str) -> Result<Vec<u8>, Failure> {
    let path = Path::new(module);
    match shipped::ALL.iter().find(|(name, ..)| *name == module) {
        Some((_, bytes, _)) if !path.exists() => Ok(bytes.to_vec()),
        _ => fs::read(path).map_err(|error| Failure::Module { path: path.to_owned(), error }),
    }
}

/// The description of a module.
pub fn description(module: &str, bytes: &[u8]) -> Result<Description, Failure> {
    describe(bytes).map_err(|error| Failure::Install { module: module.to_owned(), error })
}
