//! Colours distinguishable with any eyesight (Okabe and Ito's), on white and on black.

use plotters::style::RGBColor;

/// Text and axes; the page's style sets them for light and dark.
pub const INK: RGBColor = RGBColor(0x66, 0x6e, 0x7a);

/// Colours of rows and curves without an assigned colour, in order.
pub const SERIES: [RGBColor; 5] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x1f, 0x78, 0xc8),
    RGBColor(0xe6, 0x9f, 0x00),
];

/// The colour in CSS notation.
pub fn css(colour: RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}
