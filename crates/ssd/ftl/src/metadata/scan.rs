//! Finding the metadata log again, on flash or in memory: the newest whole checkpoint, and the journal after it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tantalum_nand::{Array, BlockId, NandError, PageId};

use super::found::{FoundCheckpoint, FoundJournal};
use super::nvm::{self, FoundNvm};
use super::nvm_plan::NvmPlan;
use super::record::{Record, decode_page};
use crate::error::{Damage, FtlError};
use crate::reader::{FirstPage, Reader};
use crate::spare::{Kind, Mark, Spare};
use crate::types::Seq;

/// Reads the metadata log wherever it is.
pub(crate) struct MetadataScan {
    nvm: Option<NvmPlan>,
    /// Where the log in memory ends.
    pub found: Option<FoundNvm>,
}

impl MetadataScan {
    /// For a drive with this plan of its memory; without a plan the log is on flash.
    pub fn new(nvm: Option<NvmPlan>) -> MetadataScan {
        MetadataScan { nvm, found: None }
    }

    /// Finds the newest whole checkpoint.
    pub fn checkpoint(&self, reader: &mut Reader, first: &[FirstPage]) -> Result<FoundCheckpoint, FtlError> {
        match &self.nvm {
            Some(plan) => nvm::find_checkpoint(reader, plan),
            None => find_checkpoint(reader, first),
        }
    }

    /// Reads the records that were made durable after it.
    pub fn journal(
        &mut self,
        reader: &mut Reader,
        first: &[FirstPage],
        checkpoint: &FoundCheckpoint,
    ) -> Result<FoundJournal, FtlError> {
        let Some(plan) = &self.nvm else { return find_journal(reader, first, checkpoint.step) };
        let (journal, found) = nvm::find_journal(reader, plan, checkpoint.number)?;
        self.found = Some(found);
        Ok(journal)
    }
}

/// Finds the newest whole checkpoint.
fn find_checkpoint(reader: &mut Reader, first: &[FirstPage]) -> Result<FoundCheckpoint, FtlError> {
    // a block whose first page is torn may hold the rest of a checkpoint that spans several blocks
    let mut found: BTreeMap<Seq, (u32, BTreeMap<u32, PageId>)> = BTreeMap::new();
    for (block, first) in first.iter().enumerate() {
        if !matches!(first, FirstPage::Programmed(Kind::Checkpoint, _) | FirstPage::Torn) {
            continue;
        }
        reader.pages(BlockId(block as u32), |reader, page| {
            if let Spare { kind: Kind::Checkpoint, mark: Mark::Batch(part), .. } = reader.spare(page, 0)? {
                found.entry(part.id).or_insert((part.count, BTreeMap::new())).1.insert(part.index, page);
            }
            Ok(())
        })?;
    }
    for (step, (count, parts)) in found.into_iter().rev() {
        if parts.len() != count as usize {
            continue;
        }
        let page_bytes = reader.nand.geometry().page_bytes as usize;
        let mut bytes = Array::to_fill(parts.len() * page_bytes);
        for (page, bytes) in parts.values().zip(bytes.chunks_exact_mut(page_bytes)) {
            // its predecessor may have been erased, so there is no other to fall back to
            reader.read_page(*page, bytes).map_err(|error| match error {
                FtlError::Nand(NandError::Uncorrectable { .. }) => Damage::Checkpoint { step }.into(),
                error => error,
            })?;
        }
        return Ok(FoundCheckpoint {
            step,
            bytes: Arc::new(bytes),
            pages: parts.into_values().collect(),
            number: 0,
        });
    }
    Err(Damage::NoCheckpoint.into())
}

/// Reads the records that were programmed after `step`.
fn find_journal(reader: &mut Reader, first: &[FirstPage], step: Seq) -> Result<FoundJournal, FtlError> {
    let (mut records, mut blocks) = (Vec::new(), BTreeSet::new());
    for (block, first) in first.iter().enumerate() {
        if !matches!(first, FirstPage::Programmed(Kind::Journal, _) | FirstPage::Torn) {
            continue;
        }
        reader.pages(BlockId(block as u32), |reader, page| {
            let spare = reader.spare(page, 0)?;
            if spare.kind != Kind::Journal || spare.step <= step {
                return Ok(());
            }
            records.extend(read_records(reader, page)?);
            blocks.insert(reader.nand.geometry().block_of(page));
            Ok(())
        })?;
    }
    for record in &records {
        reader.newest = reader.newest.max(record.newest_seq());
    }
    Ok(FoundJournal { records, blocks })
}

fn read_records(reader: &mut Reader, page: PageId) -> Result<Vec<Record>, FtlError> {
    let damaged = || FtlError::from(Damage::Journal { page });
    let mut bytes = vec![0; reader.nand.geometry().page_bytes as usize];
    reader.read_page(page, &mut bytes).map_err(|error| match error {
        FtlError::Nand(NandError::Uncorrectable { .. }) => damaged(),
        error => error,
    })?;
    let (units, geometry) = (reader.logical_units, reader.nand.geometry());
    decode_page(&bytes)
        .filter(|records| records.iter().all(|record| record.is_possible(units, geometry)))
        .ok_or_else(damaged)
}
