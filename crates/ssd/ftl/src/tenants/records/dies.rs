//! The logs of namespaces that have their own: the room for them.
//! `Space::plan_logs` says how dies are assigned.

use tantalum_nand::Geometry;

use super::{KeyValueError, NamespaceAttributes, Records, waiting_log_units};
use crate::space::{FtlConfig, Space};

impl Records {
    /// Checks that there are dies, blocks and protected DRAM for the logs of one more namespace.
    pub(super) fn check_logs(
        &self,
        attributes: &NamespaceAttributes,
        space: &Space,
        config: &FtlConfig,
        geometry: &Geometry,
    ) -> Result<(), KeyValueError> {
        let (logs, dies) = (attributes.logs, geometry.dies());
        if logs == 0 {
            return Ok(());
        }
        if logs > dies {
            let expected = format!("0 for the drive's own log, or 1 to {dies}, the number of dies");
            return Err(KeyValueError::Attribute {
                what: "the number of logs",
                asked: logs.into(),
                expected,
            });
        }
        let of_namespaces = self.namespaces.values().map(|namespace| namespace.attributes.logs);
        let blocks = of_namespaces.chain([logs]).map(|logs| blocks_for(logs, geometry)).sum();
        let limit = space.layout().log_blocks.into();
        if blocks > limit {
            let what = "open and reserved blocks of namespaces' own logs";
            return Err(KeyValueError::OverLimit { what, asked: blocks, limit });
        }
        let units =
            u64::from(waiting_log_units(space, config, geometry)) + u64::from(geometry.units_per_page());
        let limit = u64::from(config.protected_units / 2);
        if config.has_plp() && units > limit {
            let what = "units of protected DRAM (a page for each namespace with logs of its own)";
            return Err(KeyValueError::OverLimit { what, asked: units, limit });
        }
        Ok(())
    }
}

/// Blocks that this many logs take: an open one on each plane, and one in reserve for their copies.
fn blocks_for(logs: u32, geometry: &Geometry) -> u64 {
    if logs == 0 { 0 } else { u64::from(logs) * u64::from(geometry.planes_per_die) + 1 }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{BlockId, Geometry, Nand, PlaneId, Timing};

    use super::*;
    use crate::control::Ftl;
    use crate::error::FtlError;
    use crate::key::Key;
    use crate::key::NamespaceId;
    use crate::space::{FtlConfig, Target};
    use crate::tenants::records::KvRecord;
    use crate::test_support;

    /// Four channels of two dies with two planes.
    const GEOMETRY: Geometry = Geometry {
        channels: 4,
        dies_per_channel: 2,
        planes_per_die: 2,
        blocks_per_plane: 40,
        pages_per_block: 8,
        page_bytes: 8192,
    };

    const CONFIG: FtlConfig =
        FtlConfig { logical_units: 6000, wear_spread: 50, shared_owners: 16, ..test_support::CONFIG };

    fn ftl(config: FtlConfig) -> Ftl {
        let timing =
            Timing { read_ns: 1, program_ns: 10, erase_ns: 100, channel_bytes_per_second: 1_000_000_000 };
        Ftl::format(Nand::in_memory(GEOMETRY, timing).unwrap(), config).unwrap()
    }

    fn with_logs(logs: u32) -> NamespaceAttributes {
        NamespaceAttributes { logs, ..NamespaceAttributes::default() }
    }

    fn dies_of(ftl: &Ftl, namespace: NamespaceId) -> Vec<u32> {
        let planes = ftl.space().stream(Target::Logs(namespace)).unopened();
        let opened =
            ftl.space().stream(Target::Logs(namespace)).blocks().map(|block| GEOMETRY.plane_of(block));
        let mut dies: Vec<u32> = planes.chain(opened).map(|plane| GEOMETRY.die_of(plane).0).collect();
        dies.sort_unstable();
        dies.dedup();
        dies
    }

    /// Half a unit, so that two fill one.
    fn put(ftl: &mut Ftl, namespace: NamespaceId, number: u32) -> Result<(), FtlError> {
        let value = [number as u8; 1900];
        let key = Key::new(&number.to_le_bytes()).unwrap();
        ftl.put(&[KvRecord { namespace, key, value: Some(&value) }], 0, 0, &mut |_| None)?;
        ftl.maintain(0)
    }

    /// How many records of a namespace are on its dies, and how many elsewhere.
    fn places(ftl: &Ftl, namespace: NamespaceId) -> (usize, usize) {
        let dies = dies_of(ftl, namespace);
        let places = ftl.records().namespaces[&namespace].index.get().from(0).map(|entry| entry.place.ppn);
        let die_of = |ppn| GEOMETRY.die_of(GEOMETRY.plane_of(GEOMETRY.block_of_unit(ppn))).0;
        let (home, away): (Vec<u32>, Vec<u32>) = places.map(die_of).partition(|die| dies.contains(die));
        (home.len(), away.len())
    }

    #[test]
    fn each_namespace_takes_the_dies_with_the_fewest_logs() {
        let mut ftl = ftl(CONFIG);
        let [first, second, third] = [2, 4, 4].map(|logs| ftl.create_namespace(with_logs(logs), 0).unwrap());
        let shared = ftl.create_namespace(with_logs(0), 0).unwrap();
        assert_eq!(dies_of(&ftl, first), [0, 1], "on different channels");
        assert_eq!(dies_of(&ftl, second), [2, 3, 4, 5]);
        assert_eq!(dies_of(&ftl, third), [0, 1, 6, 7]);
        assert_eq!(ftl.space().logs_of(shared), Target::Host);
        ftl.delete_namespace(first, 0).unwrap();
        assert_eq!(dies_of(&ftl, second), [0, 1, 2, 3]);
        assert_eq!(dies_of(&ftl, third), [4, 5, 6, 7]);
    }

    #[test]
    fn logs_are_as_they_were_after_recovery() {
        let mut ftl = ftl(CONFIG);
        let namespaces = [3, 0, 2, 6].map(|logs| ftl.create_namespace(with_logs(logs), 0).unwrap());
        ftl.delete_namespace(namespaces[0], 0).unwrap();
        ftl.flush_journal(0).unwrap();
        let dies = |ftl: &Ftl| [namespaces[2], namespaces[3]].map(|namespace| dies_of(ftl, namespace));
        let (before, told) = (dies(&ftl), ftl.namespaces().collect::<Vec<_>>());
        let mut again = Ftl::recover(ftl.into_nand(), CONFIG, 0).map_err(|(_, error)| error).unwrap().0;
        assert_eq!((dies(&again), again.namespaces().collect()), (before.clone(), told));
        put(&mut again, namespaces[2], 1).unwrap();
        assert_eq!(places(&again, namespaces[2]), (1, 0));
        // from its checkpoint too
        again.take_checkpoint(0, true).unwrap();
        let again = Ftl::recover(again.into_nand(), CONFIG, 0).map_err(|(_, error)| error).unwrap().0;
        assert_eq!(dies(&again), before);
    }

    #[test]
    fn logs_that_a_drive_has_no_room_for_are_refused() {
        let mut ftl = ftl(CONFIG);
        let refused = ftl.create_namespace(with_logs(9), 0);
        assert!(matches!(refused, Err(KeyValueError::Attribute { asked: 9, .. })), "{refused:?}");
        let fit = ftl.space().layout().log_blocks / 17;
        for _ in 0..fit {
            ftl.create_namespace(with_logs(8), 0).unwrap();
        }
        let limit = ftl.space().layout().log_blocks.into();
        match ftl.create_namespace(with_logs(8), 0) {
            Err(KeyValueError::OverLimit { asked, limit: told, .. }) => {
                assert_eq!((asked, told), (u64::from(fit + 1) * 17, limit));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(ftl.namespaces().count() as u32, fit);
    }

    #[test]
    fn protected_dram_bounds_namespaces_with_logs_of_their_own() {
        let mut ftl = ftl(FtlConfig { dump_units: 64, protected_units: 8, ..CONFIG });
        for units in [2, 4] {
            ftl.create_namespace(with_logs(1), 0).unwrap();
            assert_eq!(ftl.waiting_log_units(), units);
        }
        let refused = ftl.create_namespace(with_logs(1), 0);
        assert!(matches!(refused, Err(KeyValueError::OverLimit { asked: 6, limit: 4, .. })), "{refused:?}");
        ftl.create_namespace(with_logs(0), 0).unwrap();
    }

    /// Records are overwritten at random until all blocks of the drive have been erased several times: both new records
    /// and copies stay on the dies of their namespace.
    #[test]
    fn records_stay_on_the_dies_of_their_namespace() {
        let mut ftl = ftl(CONFIG);
        let namespaces = [1, 2, 0].map(|logs| ftl.create_namespace(with_logs(logs), 0).unwrap());
        let mut number = 1u32;
        for round in 0..30_000 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            put(&mut ftl, namespaces[round % 3], (number >> 8) % 300).unwrap();
        }
        assert!(ftl.counters().flash_units.key_value_copyback > 100 && ftl.counters().blocks_erased > 1000);
        for namespace in &namespaces[..2] {
            let (home, away) = places(&ftl, *namespace);
            assert_eq!((home + away, away), (300, 0), "of namespace {namespace}");
        }
        assert_eq!(ftl.audit_maps().findings().count(), 0);
    }

    /// One log, and records for half of the drive: what does not fit on its die goes elsewhere, up to the capacity.
    #[test]
    fn a_log_whose_die_is_full_goes_on_elsewhere() {
        let mut ftl = ftl(CONFIG);
        let namespace = ftl.create_namespace(with_logs(1), 0).unwrap();
        (0..6000).for_each(|number| put(&mut ftl, namespace, number).unwrap());
        let (home, away) = places(&ftl, namespace);
        assert!(home > 1000 && away > 3000, "{home} {away}");
        let full = (6000..20_000).find_map(|number| put(&mut ftl, namespace, number).err());
        assert!(matches!(full, Some(FtlError::CapacityExceeded)), "{full:?}");
        assert_eq!(ftl.audit_maps().findings().count(), 0);
    }

    /// As blocks go bad, logs keep fewer blocks open, but at least one each; when even that is impossible, the drive is
    /// read-only.
    #[test]
    fn logs_become_narrower_as_blocks_go_bad() {
        let mut ftl = ftl(CONFIG);
        let namespaces = [8, 4].map(|logs| ftl.create_namespace(with_logs(logs), 0).unwrap());
        let spare = ftl.spare_good_blocks();
        assert_eq!(spare.available + 4, GEOMETRY.blocks() - ftl.space().layout().least_blocks);
        let mut planes = (0..GEOMETRY.planes()).cycle().map(PlaneId);
        for _ in 0..spare.available {
            let plane = planes.next().unwrap();
            ftl.lose_free_block(plane);
        }
        assert!(!ftl.is_read_only());
        for (number, namespace) in namespaces.into_iter().enumerate() {
            (0..50).for_each(|key| put(&mut ftl, namespace, key + 100 * number as u32).unwrap());
            assert_eq!(ftl.space().stream(Target::Logs(namespace)).opened(), 1);
        }
        let open: Vec<BlockId> = ftl.space().open_blocks();
        assert!(open.len() >= 2 && ftl.audit_maps().findings().count() == 0, "{open:?}");
        ftl.lose_free_block(planes.next().unwrap());
        assert!(ftl.is_read_only());
    }
}
