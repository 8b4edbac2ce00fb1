//! A drive with zones, and commands of its hosts.

use tantalum::{Device, Plp, Profile, ZonesProfile};
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Client, zone_append, zone_report, zone_send, zoned};
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::opcode::nvm;
use tantalum_nvme::wire::zones::ZoneDescriptor;

use super::{Host, UNIT, serve, subsystem_on};

pub const ZONES: ZonesProfile = ZonesProfile { count: 6, planes: 3, max_open: 2, max_active: 3 };
/// Blocks of a zone that can be written: 16 pages of four units on each of three planes.
pub const CAPACITY: u64 = 3 * 16 * 4;
/// Blocks from one zone to the next.
pub const SIZE: u64 = 256;

/// Four planes, with zones on three of them.
pub fn profile(plp: Plp) -> Profile {
    let name = if plp == Plp::Capacitor { "tlc-nvme-plp" } else { "tlc-nvme" };
    let mut profile = Profile { capacity_bytes: 8 << 20, zones: Some(ZONES), ..Profile::load(name).unwrap() };
    (profile.flash.channels, profile.flash.dies_per_channel, profile.flash.planes_per_die) = (2, 1, 2);
    profile.flash.pages_per_block = 16;
    profile.over_provisioning_percent = 120.0;
    profile.cache.bytes = 32 * UNIT as u64;
    if plp == Plp::Capacitor {
        profile.power.dump_bytes = 1 << 20;
    }
    profile
}

pub fn server(plp: Plp) -> Server {
    serve(subsystem_on(Device::in_memory(&profile(plp)).unwrap(), 4096, Pacing::None))
}

/// Commands of namespace 2. Codes are those of the completions.
impl Host {
    pub fn zone_write(&mut self, first: u64, data: &[u8]) -> u16 {
        write(&mut self.io, first, data, false)
    }

    /// The first block, or the code.
    pub fn append(&mut self, zone: u64, data: &[u8]) -> Result<u64, u16> {
        let append = zone_append(zone * SIZE, (data.len() / UNIT) as u32);
        let done = self.io.write_command(append, data).unwrap();
        if done.code == 0 { Ok(done.result) } else { Err(done.code) }
    }

    pub fn send(&mut self, action: u8, zone: Option<u64>) -> u16 {
        self.io.command(zone_send(action, zone.map(|zone| zone * SIZE))).unwrap().code
    }

    pub fn zone_read(&mut self, first: u64, count: u32) -> Result<Vec<u8>, u16> {
        let done = self.io.read_command(zoned(nvm::READ, first, count), count * UNIT as u32).unwrap();
        if done.code == 0 { Ok(done.data) } else { Err(done.code) }
    }

    /// All zones.
    pub fn zones(&mut self) -> Vec<ZoneDescriptor> {
        let all = self.io.zones(ZONES.count).unwrap();
        assert_eq!((all.count, all.listed.len()), (ZONES.count.into(), ZONES.count as usize));
        all.listed
    }

    /// The states of all zones, and their write pointers from the beginning of each.
    pub fn states(&mut self) -> Vec<(u8, u64)> {
        let pointer = |zone: &ZoneDescriptor| match zone.pointer.get() {
            u64::MAX => u64::MAX,
            pointer => pointer - zone.first.get(),
        };
        self.zones().iter().map(|zone| (zone.state >> 4, pointer(zone))).collect()
    }

    /// Of a report: how many zones match, and the numbers of those listed.
    pub fn reported(
        &mut self,
        first: u64,
        states: u8,
        is_partial: bool,
        bytes: u32,
    ) -> Result<(u64, Vec<u64>), u16> {
        let done = self.io.read_command(zone_report(first, states, is_partial, bytes), bytes).unwrap();
        if done.code != 0 {
            return Err(done.code);
        }
        let report = tantalum_nvme::client::Zones::of(&done).unwrap();
        Ok((report.count, report.listed.iter().map(|zone| zone.first.get() / SIZE).collect()))
    }
}

/// A write to the namespace with zones. Returns its code.
pub fn write(io: &mut Client, first: u64, data: &[u8], fua: bool) -> u16 {
    let mut write = zoned(nvm::WRITE, first, (data.len() / UNIT) as u32);
    write.dword10[2] = (write.dword(12) | u32::from(fua) << 30).into();
    io.write_command(write, data).unwrap().code
}
