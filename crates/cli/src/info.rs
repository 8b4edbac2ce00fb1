//! `tantalum info`.

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;
use tantalum::{Device, Effective, NamespaceInfo, Profile, Smart, SpuMemoryProfile, SpuProfile, UNIT_BYTES};
use tantalum_control::ZonesReport;
use tantalum_nvme::namespaces::table_of;
use tantalum_nvme::serve::{BlockNamespace, ServeError};
use tantalum_report::table::{bytes, grouped};

use crate::arguments::InfoOptions;
use crate::drive::{in_use, opened_or_read};
use crate::failure::Failure;
use crate::info_handles::HandlesInfo;
use crate::info_nvm::NvmInfo;
use crate::info_zones;
use crate::life::{Life, endurance};
use crate::output;
use crate::recovery_info::{RecoveryInfo, last_shutdown};

/// The information about an image.
#[derive(Serialize)]
struct Info {
    command: &'static str,
    #[serde(with = "tantalum_control::path")]
    image: PathBuf,
    profile: Profile,
    capacity_units: u64,
    #[serde(flatten)]
    effective: Effective,
    smart: Smart,
    write_amplification: f64,
    life: Life,
    dram_bytes_per_unit: f64,
    last_shutdown: &'static str,
    recovery: RecoveryInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    nvm: Option<NvmInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handles: Option<HandlesInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zones: Option<ZonesReport>,
    namespaces: Vec<Namespace>,
    /// Block namespaces; `None` for a drive that was never divided.
    #[serde(skip_serializing_if = "Option::is_none")]
    block_namespaces: Option<Vec<BlockNamespace>>,
}

/// A line of the text output: name and value.
type Line = (&'static str, String);

/// A key-value namespace.
#[derive(Serialize)]
struct Namespace {
    number: u32,
    logs: u32,
    expected_records: u64,
    load_factor_percent: u8,
    records: u64,
    /// Bytes of the drive's DRAM that its index takes.
    index_bytes: u64,
    /// Whether its index is only on flash.
    swapped_out: bool,
}

impl Namespace {
    fn of(info: &NamespaceInfo) -> Namespace {
        Namespace {
            number: info.namespace.0,
            logs: info.attributes.logs,
            expected_records: info.attributes.expected_records,
            load_factor_percent: info.attributes.load_factor_percent,
            records: info.records,
            index_bytes: info.index_bytes,
            swapped_out: info.swapped_out,
        }
    }
}

/// Opens the image (which recovers it if it was not shut down), prints the information, and shuts it down.
pub fn run(options: &InfoOptions) -> Result<(), Failure> {
    let path = &options.image;
    let started = Instant::now();
    let mut device = opened_or_read(path).map_err(in_use)?;
    let wall_seconds = started.elapsed().as_secs_f64();
    let table = table_of(&mut device).map_err(|error| Failure::Serve(ServeError::Namespaces(error)))?;
    let blocks = table.as_ref().map(BlockNamespace::all);
    let info = Info { block_namespaces: blocks, ..Info::of(&device, options, wall_seconds) };
    let now_ns = device.time_ns();
    device.shutdown(now_ns).map_err(|status| Failure::Shutdown { path: path.clone(), status })?;
    output::report(&info, options.json, Info::text)
}

impl Info {
    fn of(device: &Device, options: &InfoOptions, wall_seconds: f64) -> Info {
        let profile = device.profile().clone();
        let effective = Effective::of(&profile);
        let smart = device.smart();
        let recovery = device.recovery();
        let capacity_units = profile.capacity_bytes / UNIT_BYTES as u64;
        let cycles = profile.flash.endurance_cycles;
        let endurance = endurance(effective.geometry.units(), capacity_units, cycles, smart.erase_count_mean);
        Info {
            command: "info",
            image: options.image.clone(),
            capacity_units,
            effective,
            write_amplification: smart.write_amplification(),
            life: Life::of(&endurance, smart.write_amplification(), &options.load),
            dram_bytes_per_unit: device.dram_bytes_per_unit(),
            last_shutdown: last_shutdown(recovery),
            recovery: RecoveryInfo::of(recovery).taking(wall_seconds),
            nvm: NvmInfo::of(device),
            handles: HandlesInfo::of(device),
            zones: ZonesReport::of(device),
            namespaces: device.namespaces().iter().map(Namespace::of).collect(),
            block_namespaces: None,
            smart,
            profile,
        }
    }

    fn text(&self) -> String {
        let counters = &self.smart.counters;
        let by_cause = counters.flash_units.each().filter(|(_, units)| *units > 0);
        let programmed = by_cause.map(|(name, units)| format!("{name} {}", grouped(units)));
        let programmed = [grouped(counters.flash_units.total())].into_iter().chain(programmed);
        let counted = counters.each().filter(|(_, count)| *count > 0);
        let mut lines = self.drive();
        lines.push(("flash units", programmed.collect::<Vec<_>>().join(", ")));
        lines.extend(counted.map(|(name, count)| (name, grouped(count))));
        lines.extend(self.state());
        lines.extend(self.recovery.lines());
        let mut text: String = lines.iter().map(|(name, value)| format!("{name:<25}{value}\n")).collect();
        if let Some(nvm) = &self.nvm {
            text.push_str(&nvm.text());
        }
        if let Some(handles) = &self.handles {
            text.push_str(&handles.text());
        }
        text
    }

    /// Image, profile, capacity, geometry and processors.
    fn drive(&self) -> Vec<Line> {
        let Info { profile, effective, .. } = self;
        let capacity = format!(
            "{}, {} units of 4 KiB, {}",
            bytes(profile.capacity_bytes),
            grouped(self.capacity_units),
            effective
        );
        let mut lines = vec![
            ("image", self.image.display().to_string()),
            ("profile", format!("{}: {}", profile.name, profile.description)),
            ("capacity", capacity),
            ("geometry", effective.shape()),
            ("atomic writes", atomic_writes(profile)),
            ("processors", processors(&profile.spu)),
        ];
        lines.extend(profile.spu.memory.map(|memory| ("processors' memory", memory_of(&memory))));
        lines
    }

    /// Shutdowns, wear and what else changes as the drive is used.
    fn state(&self) -> Vec<Line> {
        let smart = &self.smart;
        let unsafe_shutdowns = grouped(smart.counters.unsafe_shutdowns);
        let wear = format!(
            "{} to {} erases of a block, mean {:.1} of {} rated; {} bad",
            smart.erase_count_min,
            smart.erase_count_max,
            smart.erase_count_mean,
            grouped(self.profile.flash.endurance_cycles.into()),
            smart.bad_blocks
        );
        let blocks = self.block_namespaces.iter().flatten();
        let mut lines: Vec<Line> = blocks.map(|namespace| ("block namespace", line_of(namespace))).collect();
        lines.extend(self.zones.iter().flat_map(info_zones::lines));
        lines.extend([
            ("indexes", self.indexes()),
            ("write amplification", format!("{:.2}", self.write_amplification)),
            ("wear", wear),
        ]);
        lines.extend(self.life.lines());
        lines.extend([
            ("spare blocks", spare_blocks(smart)),
            ("DRAM for maps", format!("{:.2} bytes per unit", self.dram_bytes_per_unit)),
            ("last shutdown", format!("{}; {unsafe_shutdowns} unsafe so far", self.last_shutdown)),
        ]);
        lines
    }
}

impl Info {
    /// Where the indexes of key-value namespaces are.
    fn indexes(&self) -> String {
        let of = &self.namespaces;
        let limit = self.profile.limits.index_dram_bytes;
        let limit = limit.map_or(String::new(), |limit| format!("; DRAM for {}", bytes(limit)));
        format!(
            "of {} namespaces: {} in DRAM, {} on flash only{limit}",
            grouped(of.len() as u64),
            bytes(of.iter().map(|namespace| namespace.index_bytes).sum()),
            grouped(of.iter().filter(|namespace| namespace.swapped_out).count() as u64)
        )
    }
}

/// A block namespace in a line.
pub fn line_of(namespace: &BlockNamespace) -> String {
    let BlockNamespace { number, first_unit, units, block_bytes, is_shared, ref handles } = *namespace;
    let private = if is_shared { "" } else { ", for one controller" };
    let size = bytes(u64::from(units) * UNIT_BYTES as u64);
    let list = handles.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    let placed = if handles.is_empty() { String::new() } else { format!(", handles {list}") };
    let first_unit = grouped(first_unit.into());
    format!("{number}: {size} from unit {first_unit} on, blocks of {block_bytes}{private}{placed}")
}

/// Up to which size writes are all or nothing.
fn atomic_writes(profile: &Profile) -> String {
    let size = bytes(u64::from(profile.limits.atomic_write_units) * UNIT_BYTES as u64);
    format!("up to {size}, wherever they lie in whole units")
}

/// The processors that run programs.
fn processors(spu: &SpuProfile) -> String {
    format!(
        "{} of {} MHz, each with {} for instructions and {} for data",
        spu.count,
        spu.instructions_per_second / 1_000_000,
        bytes(spu.instruction_bytes.into()),
        bytes(spu.data_bytes.into())
    )
}

/// Their own memory, which has the drive's capacity.
fn memory_of(memory: &SpuMemoryProfile) -> String {
    format!(
        "a bank each; a load {} ns, a store {} ns, {}/s; start-gap moves a line each {} stores",
        memory.load_ns,
        memory.store_ns,
        bytes(memory.bytes_per_second),
        memory.gap_stores
    )
}

/// How far the drive is from the end of its life.
fn spare_blocks(smart: &Smart) -> String {
    let (percent, threshold) = (smart.available_spare_percent, smart.available_spare_threshold_percent);
    let state = match smart.read_only {
        true => "; the drive is read-only: too few good blocks are left",
        false if percent < threshold => "; the drive is near the end of its life",
        false => "",
    };
    format!("{} left, {percent} % (threshold {threshold} %){state}", grouped(smart.spare_blocks.into()))
}
