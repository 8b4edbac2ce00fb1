//! Blocks that a host has marked as not readable (Write Uncorrectable): a bit for each sector of 512 bytes of the drive, in records of the
//! drive's own key-value namespace beside the table. So marks are durable when their command is done, also on a drive whose cache is
//! lost with its power, and cost nothing where there are none.
//!
//! Invariant: **what was overwritten is either marked, or durable.** A mark is taken away in one step with the new data, or after they
//! are on flash: otherwise a power cut could leave the data from before the mark, as if it had never been there.
//!
//! Marks are known to who has the drive: they change while nobody else has it.

use std::collections::BTreeMap;
use std::ops::Range;

use parking_lot::Mutex;
use tantalum::{Command, Device, Key, KvRecord, NamespaceId, Nanoseconds};
use tantalum_drive::{DeviceGuard, When};

use super::kept::Kept;
use super::stored::TableError;
use crate::failure::Failure;

/// Sectors of one record.
const REGION_SECTORS: u64 = 4096;
const REGION_BYTES: usize = REGION_SECTORS as usize / 8;

/// Records of regions: the region's number is behind the key.
const REGIONS: Kept =
    Kept { key: b"unco", magic: *b"TANTUNCO", what: "blocks that are marked as uncorrectable" };
/// Keys read at a time.
const TOGETHER_KEYS: usize = 512;

/// A bit for each sector of a region.
type Bits = [u8; REGION_BYTES];

/// The marks of a drive.
#[derive(Default)]
pub struct Uncorrectable(Mutex<Marks>);

#[derive(Default)]
struct Marks {
    /// Where they are kept; none before the first.
    namespace: Option<NamespaceId>,
    /// Regions with marks.
    regions: BTreeMap<u32, Bits>,
}

/// Regions as they will be; those without marks are gone.
pub struct Remarked {
    regions: Vec<(u32, Option<Bits>)>,
    namespace: NamespaceId,
    values: Vec<(Key, Option<Vec<u8>>)>,
}

fn key_of(region: u32) -> Key {
    REGIONS.key_with(&region.to_le_bytes())
}

fn region_of(key: &Key) -> Option<u32> {
    Some(u32::from_le_bytes(key.as_bytes().strip_prefix(REGIONS.key)?.try_into().ok()?))
}

/// The regions of sectors, with the sectors in each, counted from its first one.
fn pieces(sectors: Range<u64>) -> impl Iterator<Item = (u32, Range<usize>)> {
    let regions = sectors.start / REGION_SECTORS..sectors.end.div_ceil(REGION_SECTORS);
    regions.map(move |region| {
        let begin = region * REGION_SECTORS;
        let from = sectors.start.saturating_sub(begin) as usize;
        (region as u32, from..(sectors.end - begin).min(REGION_SECTORS) as usize)
    })
}

fn is_marked(bits: &Bits, sector: usize) -> bool {
    bits[sector / 8] >> (sector % 8) & 1 == 1
}

impl Marks {
    fn touches(&self, sectors: Range<u64>) -> bool {
        pieces(sectors).any(|(region, within)| {
            let bits = self.regions.get(&region);
            bits.is_some_and(|bits| within.clone().any(|sector| is_marked(bits, sector)))
        })
    }

    fn remarked(&self, sectors: Range<u64>, marks: bool, namespace: NamespaceId) -> Remarked {
        let pieces = pieces(sectors).filter(|(region, _)| marks || self.regions.contains_key(region));
        let regions: Vec<(u32, Option<Bits>)> = pieces
            .map(|(region, within)| {
                let mut bits = self.regions.get(&region).copied().unwrap_or([0; REGION_BYTES]);
                for sector in within {
                    let bit = 1 << (sector % 8);
                    bits[sector / 8] = if marks { bits[sector / 8] | bit } else { bits[sector / 8] & !bit };
                }
                (region, bits.iter().any(|byte| *byte != 0).then_some(bits))
            })
            .collect();
        let values = regions
            .iter()
            .map(|(region, bits)| (key_of(*region), bits.map(|bits| REGIONS.seal(&bits))))
            .collect();
        Remarked { regions, namespace, values }
    }
}

impl Remarked {
    /// The records that make it so.
    pub fn records(&self) -> Vec<KvRecord<'_>> {
        let namespace = self.namespace;
        let values = self.values.iter();
        values.map(|(key, value)| KvRecord { namespace, key: *key, value: value.as_deref() }).collect()
    }
}

impl Uncorrectable {
    /// Reads the marks of a drive again; `namespace` is its own one, if it has one.
    pub fn load(&self, device: &mut Device, namespace: Option<NamespaceId>) -> Result<(), TableError> {
        let mut marks = Marks { namespace, regions: BTreeMap::new() };
        for region in namespace.map_or(Ok(Vec::new()), |namespace| regions(device, namespace))? {
            let (mut value, at_ns) = (Vec::new(), device.time_ns());
            let namespace = marks.namespace.unwrap_or_default();
            let get = Command::KvGet { namespace, key: key_of(region), value: &mut value };
            device.submit(get, at_ns).map_err(TableError::Read)?;
            let bits = Bits::try_from(REGIONS.open(&value)?).map_err(|_| REGIONS.damaged())?;
            marks.regions.insert(region, bits);
        }
        *self.0.lock() = marks;
        Ok(())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.lock().regions.is_empty()
    }

    /// Whether one of these sectors is marked.
    pub fn touches(&self, sectors: Range<u64>) -> bool {
        self.0.lock().touches(sectors)
    }

    /// Marks sectors in the drive's own namespace. Returns when that is durable.
    pub fn mark(
        &self,
        device: &mut DeviceGuard<'_>,
        when: When,
        namespace: NamespaceId,
        sectors: Range<u64>,
    ) -> Result<Nanoseconds, Failure> {
        let remarked = {
            let mut marks = self.0.lock();
            marks.namespace = Some(namespace);
            marks.remarked(sectors, true, namespace)
        };
        self.put(device, when, remarked)
    }

    /// What takes the marks of sectors away; `None` if there are none. Whoever does that in a step of his own says so with
    /// [`Uncorrectable::are_stored`].
    pub fn without(&self, _device: &DeviceGuard<'_>, sectors: Range<u64>) -> Option<Remarked> {
        let marks = self.0.lock();
        let namespace = marks.namespace.filter(|_| marks.touches(sectors.clone()))?;
        Some(marks.remarked(sectors, false, namespace))
    }

    /// Takes the marks of sectors away whose new contents were given to the drive: these become durable first. Returns when that is so.
    pub fn clear(
        &self,
        device: &mut DeviceGuard<'_>,
        when: When,
        sectors: Range<u64>,
    ) -> Result<Nanoseconds, Failure> {
        let Some(remarked) = self.without(device, sectors) else { return Ok(0) };
        device.issue(Command::Flush, when)?;
        self.put(device, when, remarked)
    }

    fn put(
        &self,
        device: &mut DeviceGuard<'_>,
        when: When,
        remarked: Remarked,
    ) -> Result<Nanoseconds, Failure> {
        let put = Command::KvPut { records: &remarked.records() };
        let done_ns = device.issue(put, when)?.done_ns;
        self.are_stored(device, remarked);
        Ok(done_ns)
    }

    /// The drive has stored these.
    pub fn are_stored(&self, _device: &DeviceGuard<'_>, remarked: Remarked) {
        let mut marks = self.0.lock();
        for (region, bits) in remarked.regions {
            match bits {
                Some(bits) => drop(marks.regions.insert(region, bits)),
                None => drop(marks.regions.remove(&region)),
            }
        }
    }
}

/// The regions that have a record.
fn regions(device: &mut Device, namespace: NamespaceId) -> Result<Vec<u32>, TableError> {
    let (mut regions, mut from) = (Vec::new(), None);
    loop {
        let (mut keys, at_ns) = (Vec::new(), device.time_ns());
        let list = Command::KvList { namespace, from, keys: &mut keys, limit: TOGETHER_KEYS };
        device.submit(list, at_ns).map_err(TableError::Read)?;
        // the first one is that from which the list was to begin
        let new = keys.iter().filter(|key| Some(**key) != from);
        regions.extend(new.filter_map(region_of));
        if keys.len() < TOGETHER_KEYS {
            return Ok(regions);
        }
        from = keys.last().copied();
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{NamespaceAttributes, Profile};
    use tantalum_drive::Drive;

    use super::*;

    #[test]
    fn the_layout_is_pinned() {
        assert_eq!(REGIONS.seal(&[0; REGION_BYTES]).len(), 528);
        assert_eq!((region_of(&key_of(7)), region_of(&Key::new(b"table").unwrap())), (Some(7), None));
    }

    #[test]
    fn sectors_are_split_at_the_ends_of_regions() {
        let of = |sectors| pieces(sectors).collect::<Vec<_>>();
        assert_eq!(of(5..6), [(0, 5..6)]);
        assert_eq!(of(4095..8193), [(0, 4095..4096), (1, 0..4096), (2, 0..1)]);
        assert_eq!(of(4096..8192), [(1, 0..4096)]);
    }

    fn drive() -> (Drive, NamespaceId) {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
        let mut device = Device::in_memory(&profile).unwrap();
        let attributes = NamespaceAttributes { is_private: true, ..NamespaceAttributes::default() };
        let namespace = &mut NamespaceId::default();
        device.submit(Command::CreateNamespace { attributes, namespace }, 0).unwrap();
        (Drive::new(device), *namespace)
    }

    /// More of them than are read at a time, taken away in other pieces than they were made.
    #[test]
    fn marks_are_read_again_as_they_were_left() {
        let (drive, namespace) = drive();
        let there = Uncorrectable::default();
        there.load(&mut drive.lock(), Some(namespace)).unwrap();
        let mut device = drive.lock();
        for region in 0..2 * TOGETHER_KEYS as u64 {
            let first = region * REGION_SECTORS + region % 7;
            there.mark(&mut device, When::AfterAll, namespace, first..first + 9).unwrap();
        }
        let marked = 5 * REGION_SECTORS + 5..5 * REGION_SECTORS + 14;
        there.clear(&mut device, When::AfterAll, marked.start..marked.start + 1).unwrap();
        there.clear(&mut device, When::AfterAll, 6 * REGION_SECTORS..8 * REGION_SECTORS).unwrap();
        let again = Uncorrectable::default();
        again.load(&mut device, Some(namespace)).unwrap();
        assert_eq!(again.0.lock().regions, there.0.lock().regions);
        assert_eq!(again.0.lock().regions.len(), 2 * TOGETHER_KEYS - 2);
        assert!(again.touches(marked.clone()) && !again.touches(marked.start..marked.start + 1));
        assert!(!again.touches(marked.end..marked.end + 100) && again.touches(0..1) && !again.touches(9..99));
        there.clear(&mut device, When::AfterAll, 0..u64::from(u32::MAX)).unwrap();
        assert!(there.is_empty());
        again.load(&mut device, Some(namespace)).unwrap();
        assert!(again.is_empty());
    }

    #[test]
    fn damaged_marks_are_refused() {
        let (drive, namespace) = drive();
        let records = [KvRecord { namespace, key: key_of(3), value: Some(b"no marks") }];
        let mut device = drive.lock();
        device.issue(Command::KvPut { records: &records }, When::AfterAll).unwrap();
        let error = Uncorrectable::default().load(&mut device, Some(namespace)).unwrap_err();
        assert!(error.to_string().contains("marked as uncorrectable"), "{error}");
    }
}
