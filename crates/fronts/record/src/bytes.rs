//! Bytes as one piece; serde would take them one by one.

use serde::{Deserialize, Deserializer, Serializer};

pub fn serialize<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(data)
}

pub fn deserialize<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<&'a [u8], D::Error> {
    <&[u8]>::deserialize(deserializer)
}
