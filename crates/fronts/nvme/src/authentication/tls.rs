//! Which hosts have keys for TLS, and whether they must use it.

use std::path::Path;

use rustc_hash::FxHashMap;

use super::hosts::{HostsError, read_private};
use super::tls_key::{Derivation, Derived, TlsKey};
use crate::qualified_name::is_qualified_name;

/// The word of a host whose keys are derived as older programs do.
const COMPATIBLE: &str = "compatible";

/// The keys of hosts.
#[derive(Clone, Debug)]
pub struct Tls {
    keys: FxHashMap<String, TlsKey>,
    is_required: bool,
}

/// Between whom a connection is secured: what the key of its TLS session was derived for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Secured {
    /// The host.
    pub host: String,
    /// The subsystem.
    pub subsystem: String,
}

impl Tls {
    /// Keys of these hosts. If TLS is required, connections without it are closed.
    pub fn new(keys: impl IntoIterator<Item = (String, TlsKey)>, is_required: bool) -> Tls {
        Tls { keys: keys.into_iter().collect(), is_required }
    }

    /// Reads a file with keys: a line is the host's name, its key, and `compatible` if that is derived as older programs do.
    pub fn read(path: &Path, is_required: bool) -> Result<Tls, HostsError> {
        Ok(Tls { keys: parse(&read_private(path)?, path)?, is_required })
    }

    /// Whether connections without TLS are closed.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// All that TLS uses with these subsystems, and who that is.
    pub fn derive(&self, subsystems: &[&str]) -> Vec<(Secured, Derived)> {
        let pairs = self.keys.iter().flat_map(|(host, key)| {
            subsystems.iter().map(move |subsystem| (host.clone(), *key, (*subsystem).to_owned()))
        });
        let derived = pairs.flat_map(|(host, key, subsystem)| {
            let derived = key.derive(&host, &subsystem);
            let secured = Secured { host, subsystem };
            derived.into_iter().map(move |derived| (secured.clone(), derived))
        });
        derived.collect()
    }
}

fn parse(text: &str, path: &Path) -> Result<FxHashMap<String, TlsKey>, HostsError> {
    let mut keys = FxHashMap::default();
    for (index, content) in text.lines().enumerate() {
        let (file, line) = (path.to_path_buf(), index + 1);
        let words: Vec<&str> = content.split_whitespace().collect();
        let (host, key, derivation) = match words[..] {
            [] => continue,
            [word, ..] if word.starts_with('#') => continue,
            [host, key] => (host, key, Derivation::Standard),
            [host, key, COMPATIBLE] => (host, key, Derivation::Compatible),
            _ => return Err(HostsError::KeyLine { file, line }),
        };
        if !is_qualified_name(host) {
            return Err(HostsError::Name(host.to_owned()));
        }
        let key = TlsKey::parse(key);
        let key = key.map_err(|error| HostsError::Secret { file: file.clone(), line, error })?;
        if keys.insert(host.to_owned(), key.derived_as(derivation)).is_some() {
            return Err(HostsError::Twice { file, line, host: host.to_owned() });
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::SecretError;

    #[test]
    fn lines_are_hosts_with_their_keys() {
        let key = |byte: u8| TlsKey::new(&[byte; 32], true).unwrap();
        let (a, b) = ("nqn.2014-08.org.example:a", "nqn.2014-08.org.example:b");
        let read = |text: &str| parse(text, Path::new("keys"));
        let text = format!("# ours\n\n{a} {}\n  {b}  {}  compatible\n", key(1).text(), key(2).text());
        let keys = read(&text).unwrap();
        let compatible = key(2).derived_as(Derivation::Compatible);
        assert_eq!((keys.len(), keys[a], keys[b]), (2, key(1), compatible));
        assert_ne!(compatible, key(2));
        let fails = |text: String| read(&text).unwrap_err().to_string();
        for line in [a.to_owned(), format!("{a} {} older", key(1).text()), format!("{a} x compatible y")] {
            let told = fails(line);
            assert!(told.starts_with("keys, line 1: a line is a host's NQN, its key"), "{told}");
        }
        let twice = fails(format!("{a} {0}\n{a} {0}", key(1).text()));
        assert_eq!(twice, format!("keys, line 2: {a} already has a secret"));
        assert_eq!(fails(format!("{a} DHHC-1:00:x:")), format!("keys, line 1: {}", SecretError::KeyForm));
        assert!(fails(format!("a {}", key(1).text())).contains("\"a\""));
        let tls = Tls::new(keys, true);
        let derived = tls.derive(&["nqn.2014-08.org.example:x", "nqn.2014-08.org.example:y"]);
        assert_eq!(derived.len(), 2 * 2 * 2, "of two hosts, for two subsystems, in two versions");
        for (Secured { host, subsystem }, derived) in derived {
            assert!(derived.identity.contains(&format!(" {host} {subsystem}")), "{derived:?}");
        }
    }
}
