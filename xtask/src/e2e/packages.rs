//! Debian packages that steps need.

use std::path::Path;

use nix::unistd::geteuid;

use super::failure::Failure;
use super::shell::Shell;

/// A package, and a program by which one knows that it is there.
#[derive(Clone, Copy)]
pub struct Package {
    name: &'static str,
    program: &'static str,
}

pub const ACL: Package = Package { name: "acl", program: "setfacl" };
pub const BTRFS: Package = Package { name: "btrfs-progs", program: "mkfs.btrfs" };
pub const E2FSPROGS: Package = Package { name: "e2fsprogs", program: "mkfs.ext4" };
pub const FIO: Package = Package { name: "fio", program: "fio" };
pub const FUSE: Package = Package { name: "fuse3", program: "fusermount3" };
pub const GCC: Package = Package { name: "gcc", program: "cc" };
pub const MARIADB: Package = Package { name: "mariadb-server", program: "mariadbd" };
pub const POSTGRESQL: Package = Package { name: "postgresql", program: "pg_ctlcluster" };
pub const XFSPROGS: Package = Package { name: "xfsprogs", program: "mkfs.xfs" };

/// Installs what is missing.
pub fn install(needed: &[Package]) -> Result<(), Failure> {
    let mut missing: Vec<&str> =
        needed.iter().filter(|package| !is_installed(package)).map(|package| package.name).collect();
    missing.sort_unstable();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    if !geteuid().is_root() {
        return Err(Failure::Packages(missing.join(" ")));
    }
    Shell::new("apt-get").args(["update", "-q"]).with_output().run()?;
    Shell::new("apt-get")
        .args(["install", "-q", "-y", "--no-install-recommends"])
        .args(missing)
        .variable("DEBIAN_FRONTEND", "noninteractive")
        .with_output()
        .run()?;
    Ok(())
}

fn is_installed(package: &Package) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([Path::new("/usr/sbin").into(), "/sbin".into()]);
    folders.into_iter().any(|folder| folder.join(package.program).exists())
}
