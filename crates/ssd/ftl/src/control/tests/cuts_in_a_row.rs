//! Repeated power losses, also during recovery, on drives that are as full as they can be.

use std::collections::BTreeMap;

use tantalum_nand::{Geometry, Nand, NandError, NvmShape, Outcome, SplitMix64, UNIT_BYTES};

use crate::control::Ftl;
use crate::error::FtlError;
use crate::host_unit::HostUnit;
use crate::map::CHUNK_ENTRIES;
use crate::placement::{Handle, Isolation, PlacementConfig};
use crate::space::{FtlConfig, Layout};
use crate::test_support::{CONFIG, GEOMETRY, TIMING};
use crate::types::{Lpn, METADATA_BYTES};

/// Blocks of 16 pages: enough of a block is left after a cut to be worth using.
const BLOCKS_OF_16: Geometry = Geometry { blocks_per_plane: 24, pages_per_block: 16, ..GEOMETRY };
const NVM_BYTES: u64 = 1 << 20;

/// Seven chunks of L2P, the last of them short.
const SEVEN_CHUNKS: u32 = 6 * CHUNK_ENTRIES as u32 + 300;
const FOR_SEVEN_CHUNKS: Geometry = Geometry { blocks_per_plane: 80, pages_per_block: 32, ..GEOMETRY };

/// For handles of the host, each of which takes some of them.
const MORE_BLOCKS: Geometry = Geometry { blocks_per_plane: 48, ..BLOCKS_OF_16 };

/// As many units as the drive can have.
fn fullest(geometry: &Geometry, config: FtlConfig) -> FtlConfig {
    let fits =
        |units: &u32| Layout::plan(geometry, &FtlConfig { logical_units: *units, ..config }, 0).is_ok();
    let logical_units = (1..geometry.units()).rev().find(fits).unwrap();
    FtlConfig { logical_units, ..config }
}

struct Host {
    config: FtlConfig,
    random: SplitMix64,
    /// What each unit holds, and what it may hold instead if power interrupted a write.
    written: BTreeMap<u32, (u8, Option<u8>)>,
    cuts: u32,
    placing: Placing,
}

/// How a host with several handles chooses one.
#[derive(Clone, Copy)]
enum Placing {
    /// At random.
    Anywhere,
    /// By the unit's number.
    ByRange,
    /// This one, for a while.
    WithOne(u8),
}

impl Host {
    fn draw(&mut self, limit: u32) -> u32 {
        (self.random.next_u64() % u64::from(limit)) as u32
    }

    /// Writes a page's units, and waits until they are on flash.
    fn write(&mut self, ftl: &mut Ftl, lpns: [u32; 2]) -> Result<(), FtlError> {
        let tag = self.draw(250) as u8;
        let at_ns = ftl.nand().programs_done_ns().max(ftl.nand().now_ns());
        ftl.nand_mut().advance(at_ns);
        let mut units = Vec::new();
        let handles = self.config.handles();
        let handle = Handle(match self.placing {
            Placing::Anywhere if handles > 1 => self.draw(handles) as u8,
            Placing::Anywhere => 0,
            Placing::ByRange => {
                (u64::from(lpns[0]) * u64::from(handles) / u64::from(self.config.logical_units)) as u8
            }
            Placing::WithOne(handle) => handle,
        });
        for lpn in lpns {
            let slot = ftl.nand_mut().stage(&[tag; UNIT_BYTES])?;
            let version = ftl.next_seq();
            units.push(HostUnit {
                slot,
                lpn: Lpn(lpn),
                version,
                metadata: [0; METADATA_BYTES],
                hint: None,
                handle,
            });
            let held = self.written.entry(lpn).or_default();
            held.1 = Some(tag);
        }
        ftl.maintain(at_ns)?;
        let done_ns = ftl.write_page(&units, at_ns)?;
        ftl.nand_mut().advance(done_ns);
        lpns.iter().for_each(|lpn| *self.written.get_mut(lpn).unwrap() = (tag, None));
        Ok(())
    }

    /// Trims units, and waits until that is durable.
    fn trim(&mut self, ftl: &mut Ftl, first: u32, units: u32) -> Result<(), FtlError> {
        let at_ns = ftl.nand().programs_done_ns().max(ftl.nand().now_ns());
        ftl.nand_mut().advance(at_ns);
        self.written.range_mut(first..first + units).for_each(|(_, held)| held.1 = Some(0));
        ftl.trim(Lpn(first), units, at_ns)?;
        let done_ns = ftl.flush_journal(at_ns)?;
        ftl.nand_mut().advance(done_ns);
        self.written.range_mut(first..first + units).for_each(|(_, held)| *held = (0, None));
        Ok(())
    }

    /// Power returns and goes again after a few operations, until it stays.
    fn recover(&mut self, ftl: Ftl) -> Ftl {
        let mut nand = ftl.into_nand();
        for more in (0..1 + self.draw(30)).rev() {
            self.cuts += 1;
            let mut random = SplitMix64(self.random.next_u64());
            let outcomes = [Outcome::NotStarted, Outcome::Torn, Outcome::Completed];
            let mut outcome = SplitMix64(random.next_u64());
            let undone = nand
                .resolve(&mut |_| outcomes[(outcome.next_u64() % 3) as usize], &mut || random.next_u64())
                .unwrap();
            undone.into_iter().flat_map(|program| program.units).for_each(|(slot, _)| nand.release(slot));
            nand.lose_dram();
            let at_ns = nand.idle_ns().max(nand.programs_done_ns()).max(nand.now_ns());
            let until = 1 + self.draw(12);
            nand.cut_after((more > 0).then_some(until.into()));
            nand = match Ftl::recover(nand, self.config, at_ns) {
                Ok((ftl, _)) if more == 0 => return ftl,
                // power stayed on throughout recovery, and goes now
                Ok((mut ftl, _)) => {
                    let now_ns = ftl.nand().now_ns();
                    ftl.nand_mut().power_fail(now_ns);
                    ftl.into_nand()
                }
                Err((nand, crate::FormatError::Ftl(FtlError::Nand(NandError::PowerLost)))) => *nand,
                Err((_, error)) => panic!("after {} cuts: {error}", self.cuts),
            };
        }
        unreachable!("the last recovery is not interrupted")
    }

    fn check(&mut self, ftl: &mut Ftl) {
        for (lpn, (tag, other)) in &mut self.written {
            let (mut data, now_ns) = ([0; UNIT_BYTES], ftl.nand().now_ns());
            ftl.read(Lpn(*lpn), &mut data, now_ns).unwrap();
            let found = data[0];
            assert!(found == *tag || Some(found) == *other, "unit {lpn} is {found}, not {tag} or {other:?}");
            (*tag, *other) = (found, None);
        }
    }
}

fn cuts_in_a_row(geometry: Geometry, config: FtlConfig) {
    for seed in 0..40 {
        let config = fullest(&geometry, config);
        let nvm = NvmShape { bytes: NVM_BYTES, latency_ns: 100, bytes_per_second: 1_000_000_000 };
        let nand = Nand::in_memory(geometry, TIMING).unwrap().with_nvm(nvm).unwrap();
        let mut ftl = Ftl::format(nand, config).unwrap();
        let mut host = Host {
            config,
            random: SplitMix64(seed),
            written: BTreeMap::new(),
            cuts: 0,
            placing: Placing::Anywhere,
        };
        for lpn in (0..config.logical_units - 1).step_by(2) {
            host.write(&mut ftl, [lpn, lpn + 1]).unwrap();
        }
        for phase in 0..40 {
            let handle = phase / 4 % config.handles();
            host.placing = match seed % 3 {
                1 if config.handles() > 1 => Placing::ByRange,
                2 if config.handles() > 1 => Placing::WithOne(handle as u8),
                _ => Placing::Anywhere,
            };
            let until = 1 + host.draw(60);
            ftl.nand_mut().cut_after(Some(until.into()));
            loop {
                let mut lpns = [host.draw(config.logical_units), host.draw(config.logical_units - 1)];
                if let Placing::ByRange = host.placing {
                    // most are of one handle, which gets all the garbage
                    let range = config.logical_units / config.handles();
                    let first = if host.draw(8) > 0 { handle } else { host.draw(config.handles()) } * range;
                    lpns = [first + host.draw(range), first + host.draw(range - 1)];
                }
                let lpns = if lpns[0] == lpns[1] { [lpns[0], config.logical_units - 1] } else { lpns };
                match host.write(&mut ftl, lpns) {
                    Ok(()) => {}
                    Err(FtlError::Nand(NandError::PowerLost)) => break,
                    Err(error) => panic!("seed {seed}, after {} cuts: {error}", host.cuts),
                }
            }
            ftl = host.recover(ftl);
            host.check(&mut ftl);
            let audit = ftl.audit_maps();
            assert_eq!(audit.findings().count(), 0, "seed {seed}: {:?}", audit.findings().next());
        }
    }
}

#[test]
fn a_full_drive_survives_any_number_of_cuts_in_a_row() {
    cuts_in_a_row(BLOCKS_OF_16, CONFIG);
}

#[test]
fn so_does_one_whose_log_is_in_memory() {
    cuts_in_a_row(BLOCKS_OF_16, FtlConfig { nvm_log_bytes: Some(NVM_BYTES), ..CONFIG });
}

fn with_handles(handles: u32, isolation: Isolation) -> FtlConfig {
    FtlConfig { placement: Some(PlacementConfig { handles, isolation }), ..CONFIG }
}

#[test]
fn so_does_one_with_handles_that_share_their_copies() {
    cuts_in_a_row(MORE_BLOCKS, with_handles(5, Isolation::Initially));
}

/// The audit finds that no block has units of two handles.
#[test]
fn so_does_one_with_handles_that_are_kept_apart() {
    cuts_in_a_row(MORE_BLOCKS, with_handles(6, Isolation::Persistently));
}

/// The units around the borders of two neighbouring chunks, and in the first and the last; nothing is ever written to the
/// others, but trims reach across them.
#[test]
fn chunks_without_units_between_others_stay_empty() {
    let config = FtlConfig { logical_units: SEVEN_CHUNKS, ..CONFIG };
    let (chunk, last) = (CHUNK_ENTRIES as u32, SEVEN_CHUNKS - 1);
    let lpns: Vec<u32> = [0, 1, 3 * chunk - 1, 3 * chunk, 3 * chunk + 1, 4 * chunk - 1, last - 1, last]
        .into_iter()
        .chain((0..40).map(|lpn| 3 * chunk + 10 * lpn))
        .collect();
    for seed in 0..40 {
        let mut ftl = Ftl::format(Nand::in_memory(FOR_SEVEN_CHUNKS, TIMING).unwrap(), config).unwrap();
        let mut host = Host {
            config,
            random: SplitMix64(seed),
            written: lpns.iter().map(|lpn| (*lpn, (0, None))).collect(),
            cuts: 0,
            placing: Placing::Anywhere,
        };
        for _ in 0..20 {
            let until = 1 + host.draw(60);
            ftl.nand_mut().cut_after(Some(until.into()));
            loop {
                let done = match host.draw(4) {
                    0 => {
                        let (first, units) = (host.draw(last), 1 + host.draw(2 * chunk));
                        host.trim(&mut ftl, first, units.min(SEVEN_CHUNKS - first))
                    }
                    _ => {
                        let drawn = host.draw(lpns.len() as u32 - 1) as usize;
                        host.write(&mut ftl, [lpns[drawn], lpns[drawn + 1]])
                    }
                };
                match done {
                    Ok(()) => {}
                    Err(FtlError::Nand(NandError::PowerLost)) => break,
                    Err(error) => panic!("seed {seed}, after {} cuts: {error}", host.cuts),
                }
            }
            ftl = host.recover(ftl);
            host.check(&mut ftl);
            let chunks: Vec<usize> = ftl.map.chunks().map(|(number, _)| number).collect();
            assert!(chunks.iter().all(|number| [0, 2, 3, 6].contains(number)), "seed {seed}: {chunks:?}");
            let audit = ftl.audit_maps();
            assert_eq!(audit.findings().count(), 0, "seed {seed}: {:?}", audit.findings().next());
        }
    }
}
