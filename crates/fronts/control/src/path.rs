//! How paths are written in JSON: in requests and answers, reports and what is stored.
//!
//! A path that is UTF-8 is a string. Any other is an object with its `bytes`, as numbers, and `text` that resembles it for people:
//! `{"bytes": [107, 255], "text": "k\u{fffd}"}`. So every path is read back as it was.
//!
//! A field names this module: `#[serde(with = "tantalum_control::path")]`, for a `PathBuf` or an `Option<PathBuf>`; an optional one
//! that may be missing has `default` as well.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path in JSON, see the head of this file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes { bytes: Vec<u8>, text: String },
}

impl Written {
    fn of(path: &Path) -> Written {
        match path.to_str() {
            Some(text) => Written::Text(text.to_owned()),
            None => Written::Bytes {
                bytes: path.as_os_str().as_bytes().to_vec(),
                text: path.to_string_lossy().into_owned(),
            },
        }
    }

    fn read(self) -> PathBuf {
        match self {
            Written::Text(text) => text.into(),
            Written::Bytes { bytes, .. } => OsString::from_vec(bytes).into(),
        }
    }
}

/// A field that is written like this.
pub trait PathField: Sized {
    #[doc(hidden)]
    fn path(&self) -> Option<&Path>;

    #[doc(hidden)]
    fn from_path(path: Option<PathBuf>) -> Option<Self>;
}

impl PathField for PathBuf {
    fn path(&self) -> Option<&Path> {
        Some(self)
    }

    fn from_path(path: Option<PathBuf>) -> Option<PathBuf> {
        path
    }
}

impl PathField for Option<PathBuf> {
    fn path(&self) -> Option<&Path> {
        self.as_deref()
    }

    fn from_path(path: Option<PathBuf>) -> Option<Option<PathBuf>> {
        Some(path)
    }
}

/// Writes a path.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(path: &impl PathField, serializer: S) -> Result<S::Ok, S::Error> {
    path.path().map(Written::of).serialize(serializer)
}

/// Reads a path.
///
/// # Errors
/// It is not written as the head of this file says.
pub fn deserialize<'a, F: PathField, D: Deserializer<'a>>(deserializer: D) -> Result<F, D::Error> {
    let path = Option::<Written>::deserialize(deserializer)?.map(Written::read);
    F::from_path(path).ok_or_else(|| serde::de::Error::custom("expected a path"))
}

/// Writes a path as text for people only, where nobody reads it back.
///
/// # Errors
/// Those of the serializer.
pub fn for_people<S: Serializer>(path: &impl PathField, serializer: S) -> Result<S::Ok, S::Error> {
    path.path().map(Path::to_string_lossy).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(PartialEq, Debug, Serialize, Deserialize)]
    struct Paths {
        #[serde(with = "super")]
        image: PathBuf,
        #[serde(with = "super", default)]
        folder: Option<PathBuf>,
    }

    fn path(bytes: &[u8]) -> PathBuf {
        OsString::from_vec(bytes.to_vec()).into()
    }

    #[test]
    fn a_path_is_read_back_as_it_was() {
        for bytes in [&b"a/b.tant"[..], b"k\xff", b"\xff\xfe/%FF\\xff", b"{\"bytes\":[1]}", b""] {
            let paths = Paths { image: path(bytes), folder: Some(path(bytes)) };
            let text = serde_json::to_string(&paths).unwrap();
            assert_eq!(serde_json::from_str::<Paths>(&text).unwrap(), paths, "{text}");
        }
    }

    #[test]
    fn utf_8_is_a_string_and_anything_else_has_bytes_and_text() {
        let paths = Paths { image: path(b"k"), folder: Some(path(b"k\xff")) };
        let expected =
            serde_json::json!({"image": "k", "folder": {"bytes": [107, 255], "text": "k\u{fffd}"}});
        assert_eq!(serde_json::to_value(&paths).unwrap(), expected);
    }

    #[test]
    fn only_an_optional_path_may_be_missing() {
        let paths: Paths = serde_json::from_str(r#"{"image": "k"}"#).unwrap();
        assert_eq!(paths.folder, None);
        let text = serde_json::to_string(&paths).unwrap();
        assert_eq!(serde_json::from_str::<Paths>(&text).unwrap(), paths, "{text}");
        assert!(serde_json::from_str::<Paths>(r#"{"image": null}"#).is_err());
        assert!(serde_json::from_str::<Paths>("{}").is_err());
    }
}
