//! Colours of modes and of causes, distinguishable with any eyesight (Okabe and Ito's).

use plotters::style::RGBColor;
use tantalum::FlashUnits;
use tantalum_sqlite::Mode;

/// A mode's colour.
pub(super) fn of_mode(mode: Mode) -> RGBColor {
    match mode {
        Mode::Rollback => RGBColor(0x95, 0x9d, 0xa8),
        Mode::Wal => RGBColor(0xe6, 0x9f, 0x00),
        Mode::XFtl => RGBColor(0xcc, 0x79, 0xa7),
        Mode::Atomic => RGBColor(0x56, 0xb4, 0xe9),
        Mode::Share => RGBColor(0x00, 0x9e, 0x73),
        Mode::SwWal => RGBColor(0x1f, 0x78, 0xc8),
    }
}

/// The causes of flash writes, each with its colour and its count, in the order in which they are stacked.
pub(super) fn of_causes(units: &FlashUnits) -> [(&'static str, RGBColor, u64); 6] {
    [
        ("host data", RGBColor(0x1f, 0x78, 0xc8), units.host),
        ("padding", RGBColor(0x95, 0x9d, 0xa8), units.padding),
        ("copyback", RGBColor(0xd5, 0x5e, 0x00), units.copyback),
        ("journal", RGBColor(0x00, 0x9e, 0x73), units.journal),
        ("checkpoint", RGBColor(0xcc, 0x79, 0xa7), units.checkpoint),
        ("dump", RGBColor(0xe6, 0x9f, 0x00), units.dump),
    ]
}
