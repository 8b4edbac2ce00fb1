//! What goes over the wire, byte by byte: PDUs, commands, and the structures that commands carry.
//!
//! Everything is little-endian and without padding. Each structure names its place in the NVM Express specifications:
//! *Base* is the Base Specification 2.0, *TCP* the TCP Transport Specification 1.0, *NVM* and *KV* the command set
//! specifications 1.0, *ZNS* that for zoned namespaces, 1.2. Tests pin sizes and the offsets of important fields.

pub mod authentication;
pub mod command;
pub mod fabrics;
pub mod feature;
pub mod identify;
pub mod log_page;
pub mod opcode;
pub mod pdu;
pub mod placement;
pub mod zones;

/// Text in a field of fixed size, padded with `pad`.
pub fn text<const N: usize>(text: &str, pad: u8) -> [u8; N] {
    let mut field = [pad; N];
    let bytes = text.len().min(N);
    field[..bytes].copy_from_slice(&text.as_bytes()[..bytes]);
    field
}

/// The text of a field that ends at its first zero; `None` if it is not UTF-8.
pub fn text_of(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    std::str::from_utf8(&field[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_padded_cut_and_read_back() {
        assert_eq!(text::<5>("abc", b' '), *b"abc  ");
        assert_eq!(text::<2>("abc", 0), *b"ab");
        assert_eq!(text_of(b"abc\0\0"), Some("abc"));
        assert_eq!(text_of(b"abc"), Some("abc"));
        assert_eq!(text_of(&[0xff, 0]), None);
    }
}
