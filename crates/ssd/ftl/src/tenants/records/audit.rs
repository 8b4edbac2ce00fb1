//! Checks that indexes, places and flash agree about records.

use std::collections::BTreeMap;

use tantalum_nand::{Nand, NandError, PageState, Ppn, UNIT_BYTES};

use super::Records;
use super::record::{self, Header, RecordPlace, TENANT, records, weight};
use super::swap::peek_index;
use crate::error::FtlError;
use crate::findings::{Audit, Finding};
use crate::key::NamespaceId;
use crate::map::{Map, Owner};
use crate::metadata::MetadataLog;
use crate::spare::{Kind, Spare};

impl Records {
    /// Compares the weight of the places with records with the indexes and tombstones, and checks the counts of keys.
    pub fn audit(&self, map: &Map, log: &MetadataLog, nand: &Nand, audit: &mut Audit) {
        let mut weights: BTreeMap<Ppn, u32> = BTreeMap::new();
        let mut add = |place: RecordPlace| *weights.entry(place.ppn).or_default() += weight(place.chunks);
        for (id, namespace) in &self.namespaces {
            let (mut entries, mut heads) = (0, 0);
            let Some(index) = peek_index(namespace, log, nand) else {
                audit.map_findings.push(Finding::IndexUnreadable { namespace: *id });
                continue;
            };
            for entry in index {
                add(entry.place);
                entries += 1;
                heads += u64::from(entry.key_length > 0);
            }
            audit.records += heads;
            audit.count("entries of an index", namespace.index.entries(), entries);
            audit.count("records of a namespace", namespace.records, heads);
            if id.0 > self.last_namespace {
                audit.count("namespaces ever made", self.last_namespace.into(), id.0.into());
            }
        }
        self.tombstones.values().for_each(|place| add(*place));
        for (ppn, counted) in &weights {
            let kept = map.packed_weight(*ppn);
            if kept != *counted {
                audit.map_findings.push(Finding::RecordsWeight { ppn: *ppn, kept, counted: *counted });
            }
        }
        for ppn in (0..nand.geometry().units()).map(Ppn) {
            if map.owner(ppn) == Owner::Packed(TENANT) && !weights.contains_key(&ppn) {
                let kept = map.packed_weight(ppn);
                audit.map_findings.push(Finding::RecordsWeight { ppn, kept, counted: 0 });
            }
        }
    }

    /// Reads every record that an index names, and compares.
    pub fn audit_on_flash(
        &self,
        log: &MetadataLog,
        nand: &mut Nand,
        audit: &mut Audit,
    ) -> Result<(), FtlError> {
        let mut named: BTreeMap<Ppn, Vec<(NamespaceId, u64, RecordPlace)>> = BTreeMap::new();
        for (id, namespace) in &self.namespaces {
            for entry in peek_index(namespace, log, nand).into_iter().flatten() {
                named.entry(entry.place.ppn).or_default().push((*id, entry.hash, entry.place));
            }
        }
        for (ppn, entries) in named {
            let found = match nand.page_state(nand.geometry().page_of(ppn)) {
                PageState::Programmed => records_at(ppn, nand)?,
                PageState::Erased | PageState::Uncorrectable => None,
            };
            let Some(found) = found else {
                let namespace = entries[0].0;
                audit.unit_findings.push(Finding::RecordsUnreadable { ppn, namespace });
                continue;
            };
            for (namespace, hash, place) in entries {
                let same = |(at, header): &(RecordPlace, Header)| {
                    *at == place
                        && (header.namespace, header.hash()) == (namespace, hash)
                        && !header.tombstone
                };
                if !found.iter().any(same) {
                    let chunk = place.chunk;
                    audit.unit_findings.push(Finding::NotTheRecord { ppn, chunk, namespace });
                }
            }
        }
        Ok(())
    }
}

fn records_at(ppn: Ppn, nand: &mut Nand) -> Result<Option<Vec<(RecordPlace, Header)>>, FtlError> {
    let mut unit = [0; UNIT_BYTES];
    match nand.read(ppn, &mut unit, 0) {
        Ok(_) => {}
        Err(NandError::Uncorrectable { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let spare = Spare::decode(&nand.spare(ppn)?).filter(|spare| spare.kind == Kind::KeyValue);
    Ok(spare.and_then(|spare| records(&unit, record::ends(&spare), ppn)))
}
