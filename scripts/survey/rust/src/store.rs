//! What every store can do.

use std::collections::BTreeMap;
use std::error::Error;

/// What changes in one commit: keys, and their new values.
pub type Changes = BTreeMap<String, Option<String>>;

/// What is there.
pub type Pairs = BTreeMap<String, String>;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A store that is open. What `commit` has returned for is durable.
pub trait Store {
    fn commit(&mut self, changes: &Changes) -> Result<()>;
    fn pairs(&self) -> Result<Pairs>;

    /// Gives room back, if the store can be asked for that.
    fn compact(&mut self) -> Result<()> {
        Ok(())
    }
}
