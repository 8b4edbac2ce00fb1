//! Debian packages that steps need.

use std::path::Path;

use nix::unistd::geteuid;

use super::failure::Failure;
use super::shell::Shell;

/// A package, and a program whose presence shows that it is installed.
#[derive(Clone, Copy)]
pub struct Package {
    name: &'static str,
    program: &'static str,
}

pub const ACL: Package = Package { name: "acl", program: "setfacl" };
pub const BUSYBOX: Package = Package { name: "busybox-static", program: "busybox" };
pub const BTRFS: Package = Package { name: "btrfs-progs", program: "mkfs.btrfs" };
pub const CHROMEDRIVER: Package = Package { name: "chromium-driver", program: "chromedriver" };
pub const CHROMIUM: Package = Package { name: "chromium", program: "chromium" };
pub const CPIO: Package = Package { name: "cpio", program: "cpio" };
pub const E2FSPROGS: Package = Package { name: "e2fsprogs", program: "mkfs.ext4" };
pub const F2FS: Package = Package { name: "f2fs-tools", program: "mkfs.f2fs" };
pub const FIO: Package = Package { name: "fio", program: "fio" };
pub const FUSE: Package = Package { name: "fuse3", program: "fusermount3" };
pub const GCC: Package = Package { name: "gcc", program: "cc" };
pub const KMOD: Package = Package { name: "kmod", program: "depmod" };
pub const MARIADB: Package = Package { name: "mariadb-server", program: "mariadbd" };
pub const NILFS: Package = Package { name: "nilfs-tools", program: "mkfs.nilfs2" };
pub const NVME_CLI: Package = Package { name: "nvme-cli", program: "nvme" };
pub const POSTGRESQL: Package = Package { name: "postgresql", program: "pg_ctlcluster" };
pub const QEMU: Package = Package { name: "qemu-system-x86", program: "qemu-system-x86_64" };
pub const XFSPROGS: Package = Package { name: "xfsprogs", program: "mkfs.xfs" };

/// What building and booting a guest takes, with databases.
pub const GUEST_WITH_DATABASES: &[Package] = &[
    MARIADB, POSTGRESQL, GCC, QEMU, NVME_CLI, BUSYBOX, CPIO, KMOD, E2FSPROGS, XFSPROGS, BTRFS, F2FS, NILFS,
    FIO,
];

/// The same without.
pub const GUEST: &[Package] = GUEST_WITH_DATABASES.split_at(2).1;

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
