//! Fuzzy checkpoints: pages changed before the last checkpoint are written, and a record lists the transactions in progress
//! and the changed pages. Then the log before the oldest of these is not needed.

use std::rc::Rc;

use tantalum_image::checksum_of;

use crate::error::StoreError;
use crate::record::{Body, Lsn, NONE, Record};
use crate::tables::MASTER_AT;
use crate::transfer::Aries;
use crate::world::Path;

/// Bytes of the unit that names the last checkpoint.
pub(crate) const MASTER_BYTES: usize = 512;

const MAGIC: u64 = 0x7473_616d_7365_6972;

/// The unit that names a checkpoint.
pub(crate) fn master(checkpoint: Lsn) -> Vec<u8> {
    let mut bytes = [MAGIC.to_le_bytes(), checkpoint.to_le_bytes()].concat();
    bytes.extend(checksum_of(&bytes).to_le_bytes());
    bytes.resize(MASTER_BYTES, 0);
    bytes
}

/// The checkpoint that it names.
pub(crate) fn of_master(bytes: &[u8]) -> Option<Lsn> {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let checksum = u32::from_le_bytes(bytes[16..20].try_into().expect("four bytes"));
    (number(0) == MAGIC && checksum == checksum_of(&bytes[..16])).then(|| number(8))
}

/// The oldest record that recovery from a checkpoint needs.
pub(crate) fn lowest(checkpoint: Lsn, active: &[(u64, Lsn, Lsn)], changed: &[(u64, Lsn)]) -> Lsn {
    let begun = active.iter().map(|(_, first, _)| *first);
    begun.chain(changed.iter().map(|(_, since)| *since)).fold(checkpoint, Lsn::min)
}

/// A task that takes a checkpoint whenever a quarter of the log's ring has been written.
pub(crate) async fn take_in_background(
    aries: Rc<Aries>,
    path: Path,
    ring_bytes: u64,
) -> Result<(), StoreError> {
    let mut last = aries.log.end();
    loop {
        let is_due = || aries.log.end() - last >= ring_bytes / 4;
        aries.host.until(|| is_due().then_some(())).await;
        aries.pool.due.set(last);
        last = aries.log.end();
        let is_clean = || !aries.pool.has_changes_before(aries.pool.due.get());
        while !is_clean() {
            // the cleaners work on it; examining all pages in every step would cost too much
            aries.host.sleep(20_000).await;
        }
        let active = aries.active();
        let changed = aries.pool.changed();
        let body = Body::Checkpoint { active: active.clone(), changed: changed.clone() };
        let checkpoint = aries.log.append(&Record { transaction: 0, previous: NONE, body });
        aries.log.force().await;
        aries.host.write(path, MASTER_AT, &master(checkpoint)).await?;
        aries.log.give_up_before(lowest(checkpoint, &active, &changed));
        aries.checkpoints.set(aries.checkpoints.get() + 1);
    }
}
