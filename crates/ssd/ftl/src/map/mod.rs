//! The map: the place of each logical page, the owner of each place, and the conditions on both.
//!
//! [`l2p`] has both directions and the claims; [`logs`] which pages of hinted logs claim their homes; [`transactions`]
//! the pages of open transactions; [`valid`] how many places of each block are in use.
//!
//! This table says what ends the use of a place, and when; nothing else does. The rule in `erase` governs erasing the
//! block.
//!
//! | a place of | loses its owner | by |
//! |---|---|---|
//! | a unit, written again | when the new page is issued to flash, not while it waits in the cache | `Map::map_plain` in `Ftl::write_page`, `write_batch` |
//! | a unit, trimmed | when the command is done; its record waits in the journal | `Map::unmap` in `Ftl::trim` |
//! | a unit to which a share or remap gives another place, or which it unmaps | in that step, with its records | `Map::map_shared`, `unmap` in `MapStep` |
//! | a unit with several owners | when the last of them has another place | `Map::release` |
//! | a page of an open transaction | at its commit it becomes its unit's; at an abort or another write of the unit it has no owner | `Map::unclaim` in `MapStep`, `Units` |
//! | whatever a victim holds | when the copy is issued to flash | `Map::relocate_plain`, `relocate_owners`, `unclaim` in `control/collect/moving_page.rs` |
//! | a record | when its index has another place for the key, or no place; or with its namespace | `Map::remove_packed` in `tenants/records/` |
//!
//! A home that a page of a hinted log claims keeps its place until a share takes the page there (`logs`).

mod audit;
mod l2p;
mod logs;
mod owner;
mod packed;
mod runs;
mod touched;
mod transactions;
mod valid;

pub use l2p::Map;
pub use logs::{EndedClaim, HintError, Living, Logs, OPEN_LOGS};
pub use owner::{Claim, IN_SPARE, Owner, ValidUnit};
pub use packed::{MOST_WEIGHT, UNIT_WEIGHT};
pub use runs::{Attempt, Attempts, extend_whole_run, in_whole_run};
pub use touched::CHUNK_ENTRIES;
pub use transactions::{Transactions, TxPage};
