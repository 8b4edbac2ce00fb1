//! What Identify and log pages tell of the namespace with zones (ZNS 1.2, sections 4.1.4 and 4.1.5).

use tantalum::UNIT_BYTES;
use zerocopy::IntoBytes;

use super::context::Context;
use super::identify::{eui64, guid, is_write_protected};
use super::placement::ENDURANCE_GROUP;
use crate::failure::Failure;
use crate::io::TRANSFER_BYTES;
use crate::namespaces::{ZONES_NAMESPACE, ZoneSpace};
use crate::subsystem::Subsystem;
use crate::wire::command::Submission;
use crate::wire::identify::{BlockFormat, Namespace, empty};
use crate::wire::zones::{CHANGED_ZONES, ChangedZones, TOO_MANY_CHANGED, ZonedController, ZonedNamespace};

/// What a namespace with zones has in common with others on blocks.
pub fn block_namespace(subsystem: &Subsystem, zones: &ZoneSpace) -> Namespace {
    let device = subsystem.queue.drive().lock();
    let profile = device.profile();
    let geometry = profile.geometry().expect("a drive has a shape");
    let mut told: Namespace = empty();
    told.size = zones.space().blocks.into();
    told.capacity = zones.capacity().into();
    told.used = zones.capacity().into();
    told.bytes[0] = (zones.capacity() * UNIT_BYTES as u64).into();
    // the atomic fields are valid, each for one block, and so are the preferred sizes
    told.features = 1 << 1 | 1 << 4;
    // what was not written reads as zeros
    told.deallocate = 1;
    told.sharing = 1;
    told.endurance_group = ENDURANCE_GROUP.into();
    told.attributes = is_write_protected(&device).into();
    let page = geometry.units_per_page();
    let planes = profile.zones.map_or(1, |zones| zones.planes);
    let stripe = page * planes.min(TRANSFER_BYTES / (page * UNIT_BYTES as u32)).max(1);
    told.preferred = [page - 1, page - 1, 0, 0].map(|blocks| (blocks as u16).into());
    told.optimal_write = (stripe as u16 - 1).into();
    told.block_formats[0] =
        BlockFormat { block_bytes_log2: zones.space().block_bytes_log2(), ..BlockFormat::default() };
    told.guid = guid(subsystem, ZONES_NAMESPACE.into());
    told.eui64 = eui64(subsystem, ZONES_NAMESPACE.into());
    told
}

/// What it has besides.
pub fn zoned_namespace(zones: &ZoneSpace) -> ZonedNamespace {
    let mut told: ZonedNamespace = empty();
    told.most_active = (zones.shape.max_active - 1).into();
    told.most_open = (zones.shape.max_open - 1).into();
    told.formats[0].zone_blocks = u64::from(zones.shape.size_units).into();
    told
}

/// The controller: appends have the limit of all commands.
pub fn zoned_controller() -> ZonedController {
    empty()
}

/// The log of changed zones: all, if the drive has become read-only since the host has read it.
pub fn changed_zones(context: &Context<'_>, command: &Submission) -> Result<Vec<u8>, Failure> {
    let zones = context.subsystem.namespaces.zones_of(command.namespace.get());
    let zones = zones.ok_or(Failure::INVALID_NAMESPACE)?;
    let mut log: ChangedZones = empty();
    if context.controller.has_changed_zones() {
        let count = zones.shape.count as usize;
        log.count = if count > CHANGED_ZONES { TOO_MANY_CHANGED } else { count as u16 }.into();
        if count <= CHANGED_ZONES {
            for (told, zone) in log.zones.iter_mut().zip(0..zones.shape.count) {
                *told = zones.block(tantalum::ZoneId(zone), 0).into();
            }
        }
    }
    Ok(log.as_bytes().to_vec())
}
