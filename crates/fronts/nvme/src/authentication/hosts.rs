//! Which hosts may connect, and with which secrets.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::secret::{Secret, SecretError};
use super::tls::Tls;
use crate::qualified_name::{is_qualified_name, not_qualified};

/// The maximum size of a file with secrets: enough for thousands of hosts.
const FILE_BYTES: u64 = 1 << 20;

/// The secrets of a host.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// The host proves that it knows this one.
    pub host: Secret,
    /// The controller proves that it knows this one, if the host asks.
    pub controller: Option<Secret>,
}

/// Hosts that may connect.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// By name; `None` if any host may connect.
    named: Option<FxHashMap<String, Option<Arc<Secrets>>>>,
    /// Hosts that may open endpoints of the kernel.
    kernels: Vec<String>,
    /// Their keys for TLS, if there is TLS.
    tls: Option<Tls>,
}

/// Whether a host may connect.
#[derive(Clone, Debug)]
pub enum Admission {
    /// The host may not connect.
    Refused,
    /// It may, by its name alone.
    Free,
    /// It may once it has proved that it knows its secret.
    WithProof(Arc<Secrets>),
}

/// Why hosts and their secrets could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostsError {
    /// The file could not be read.
    #[error("{}: {error}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Users other than its owner may open the file.
    #[error(
        "{}: the secrets can be opened by others (mode {mode:04o}); run `chmod 600 {}`, and make new secrets if others may have read them",
        file.display(), file.display()
    )]
    Open {
        /// The file.
        file: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file is too large to be a list of secrets.
    #[error("{}: a file with secrets has at most {FILE_BYTES} bytes", file.display())]
    Size {
        /// The file.
        file: PathBuf,
    },
    /// An invalid line.
    #[error("{}, line {line}: a line is a host's NQN, its secret, and optionally the subsystem's secret", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// An invalid line of a file with keys for TLS.
    #[error(
        "{}, line {line}: a line is a host's NQN, its key, and optionally the word compatible, if its nvme-cli is older than 2.16",
        file.display()
    )]
    KeyLine {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A host that is named twice.
    #[error("{}, line {line}: {host} already has a secret", file.display())]
    Twice {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The host.
        host: String,
    },
    /// An invalid secret.
    #[error("{}, line {line}: {error}", file.display())]
    Secret {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        error: SecretError,
    },
    /// An invalid name.
    #[error("{}", not_qualified(.0))]
    Name(String),
}

impl Hosts {
    /// Only hosts with these names, each with its secrets if the file has any. The file may have secrets of other hosts.
    pub fn named(names: &[String], file: Option<&Path>) -> Result<Hosts, HostsError> {
        let mut secrets = file.map(read).transpose()?.unwrap_or_default();
        if let Some(name) = names.iter().find(|name| !is_qualified_name(name)) {
            return Err(HostsError::Name(name.clone()));
        }
        Ok(Hosts::with_secrets(names.iter().map(|name| (name.clone(), secrets.remove(name)))))
    }

    /// Only these hosts; those with secrets must prove that they know them.
    pub fn with_secrets(hosts: impl IntoIterator<Item = (String, Option<Secrets>)>) -> Hosts {
        let named = hosts.into_iter().map(|(name, secrets)| (name, secrets.map(Arc::new))).collect();
        Hosts { named: Some(named), ..Hosts::default() }
    }

    /// Lets the hosts with these names open endpoints of the kernel. Fails if one of them is not a qualified name.
    pub fn with_kernels(self, names: &[String]) -> Result<Hosts, HostsError> {
        match names.iter().find(|name| !is_qualified_name(name)) {
            Some(name) => Err(HostsError::Name(name.clone())),
            None => Ok(Hosts { kernels: names.to_vec(), ..self }),
        }
    }

    /// Hosts have these keys for TLS.
    #[must_use]
    pub fn with_tls(self, tls: Tls) -> Hosts {
        Hosts { tls: Some(tls), ..self }
    }

    /// Their keys for TLS, if there is TLS.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Whether a host may open endpoints of the kernel.
    pub fn is_kernel(&self, name: &str) -> bool {
        self.kernels.iter().any(|kernel| kernel == name)
    }

    /// The first host that need not prove its identity; `None` if every host must, by its secret or because TLS is required. If no host
    /// is named, any host may connect without proof.
    pub fn first_without_proof(&self) -> Option<&str> {
        match &self.named {
            _ if self.tls.as_ref().is_some_and(Tls::is_required) => None,
            None => Some("any host"),
            Some(named) => {
                let mut free: Vec<&str> = named
                    .iter()
                    .filter(|(_, secrets)| secrets.is_none())
                    .map(|(name, _)| &name[..])
                    .collect();
                free.sort_unstable();
                free.first().copied()
            }
        }
    }

    /// Whether only named hosts may connect.
    pub fn are_named(&self) -> bool {
        self.named.is_some()
    }

    /// Whether the host of this name may connect.
    pub fn admit(&self, name: &str) -> Admission {
        let Some(named) = &self.named else { return Admission::Free };
        match named.get(name) {
            None => Admission::Refused,
            Some(None) => Admission::Free,
            Some(Some(secrets)) => Admission::WithProof(Arc::clone(secrets)),
        }
    }
}

fn read(path: &Path) -> Result<FxHashMap<String, Secrets>, HostsError> {
    parse(&read_private(path)?, path)
}

/// Reads a file with secrets. Its permissions are checked on the opened file, so it cannot be swapped meanwhile.
pub(super) fn read_private(path: &Path) -> Result<String, HostsError> {
    let file = || path.to_path_buf();
    let failed = |error| HostsError::Read { file: file(), error };
    let mut opened = File::open(path).map_err(failed)?;
    let mode = opened.metadata().map_err(failed)?.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(HostsError::Open { file: file(), mode });
    }
    let mut text = String::new();
    opened.by_ref().take(FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES {
        return Err(HostsError::Size { file: file() });
    }
    Ok(text)
}

fn parse(text: &str, path: &Path) -> Result<FxHashMap<String, Secrets>, HostsError> {
    let mut secrets = FxHashMap::default();
    for (index, content) in text.lines().enumerate() {
        let (file, line) = (path.to_path_buf(), index + 1);
        let mut words = content.split_whitespace();
        let host = match words.next() {
            None => continue,
            Some(word) if word.starts_with('#') => continue,
            Some(host) => host.to_owned(),
        };
        let (Some(secret), controller, None) = (words.next(), words.next(), words.next()) else {
            return Err(HostsError::Line { file, line });
        };
        if !is_qualified_name(&host) {
            return Err(HostsError::Name(host));
        }
        let parsed = Secret::parse(secret)
            .and_then(|host| Ok(Secrets { host, controller: controller.map(Secret::parse).transpose()? }));
        let parsed = parsed.map_err(|error| HostsError::Secret { file: file.clone(), line, error })?;
        if secrets.insert(host.clone(), parsed).is_some() {
            return Err(HostsError::Twice { file, line, host });
        }
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn secret(byte: u8) -> String {
        Secret::new(vec![byte; 32], None).unwrap().text()
    }

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn only_named_hosts_are_let_in_and_those_with_a_secret_must_prove_it() {
        let text = format!(
            "# ours\n\nnqn.2014-08.org.example:a {} {}\n nqn.2014-08.org.example:c  {}\n",
            secret(1),
            secret(2),
            secret(3)
        );
        let (_folder, path) = file(&text, 0o600);
        let hosts =
            Hosts::named(&names(&["nqn.2014-08.org.example:a", "nqn.2014-08.org.example:b"]), Some(&path))
                .unwrap();
        assert!(
            matches!(hosts.admit("nqn.2014-08.org.example:a"), Admission::WithProof(secrets) if secrets.controller.is_some())
        );
        assert!(matches!(hosts.admit("nqn.2014-08.org.example:b"), Admission::Free));
        assert!(
            matches!(hosts.admit("nqn.2014-08.org.example:c"), Admission::Refused),
            "a secret alone lets nobody in"
        );
        assert_eq!(hosts.first_without_proof(), Some("nqn.2014-08.org.example:b"));
        assert_eq!(
            Hosts::named(&names(&["nqn.2014-08.org.example:a"]), Some(&path)).unwrap().first_without_proof(),
            None
        );
        assert!(matches!(Hosts::default().admit("nqn.2014-08.org.example:x"), Admission::Free));
        assert_eq!(Hosts::default().first_without_proof(), Some("any host"));
    }

    #[test]
    fn secrets_that_others_may_open_are_refused() {
        let text = format!("nqn.2014-08.org.example:a {}\n", secret(1));
        for mode in [0o604, 0o640, 0o660, 0o602, 0o610] {
            let (_folder, path) = file(&text, mode);
            let refused = Hosts::named(&names(&["nqn.2014-08.org.example:a"]), Some(&path));
            assert!(matches!(refused, Err(HostsError::Open { mode: told, .. }) if told == mode), "{mode:o}");
        }
        let (_folder, path) = file(&text, 0o400);
        assert!(Hosts::named(&names(&["nqn.2014-08.org.example:a"]), Some(&path)).is_ok());
    }

    #[test]
    fn a_wrong_line_is_named_and_its_secret_is_not_shown() {
        let good = secret(1);
        for text in [
            "nqn.2014-08.org.example:a\n".to_owned(),
            format!("nqn.2014-08.org.example:a {good} {good} more\n"),
            format!("host {good}\n"),
            format!("nqn.2014-08.org.example:a {}x:\n", &good[..good.len() - 2]),
            format!("nqn.2014-08.org.example:a {good}\nnqn.2014-08.org.example:a {good}\n"),
        ] {
            let (_folder, path) = file(&text, 0o600);
            let message =
                Hosts::named(&names(&["nqn.2014-08.org.example:a"]), Some(&path)).unwrap_err().to_string();
            assert!(!message.contains("DHHC-1:00:"), "{message}");
        }
        assert!(matches!(Hosts::named(&names(&["a"]), None), Err(HostsError::Name(_))));
    }
}
