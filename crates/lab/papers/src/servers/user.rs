//! The user that a server runs as.

use std::fs;
use std::path::Path;
use std::process::Command;

use nix::unistd::{Gid, Uid, User};

use super::ServerError;

/// A user who is not root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ServerUser {
    /// `None` stands for the user who runs this program.
    ids: Option<(Uid, Gid)>,
}

impl ServerUser {
    /// The user with that name if this program runs as root, otherwise the user who runs it.
    pub(super) fn named(name: &'static str, program: &'static str) -> Result<ServerUser, ServerError> {
        if !Uid::effective().is_root() {
            return Ok(ServerUser { ids: None });
        }
        let user = User::from_name(name).ok().flatten().ok_or(ServerError::NoUser { name, program })?;
        Ok(ServerUser { ids: Some((user.uid, user.gid)) })
    }

    /// A command that runs `program` as this user, and is killed when this process ends.
    pub(super) fn command(self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        if let Some((uid, gid)) = self.ids {
            command.args(["--reuid", &uid.to_string(), "--regid", &gid.to_string(), "--clear-groups"]);
        }
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    }

    /// Creates a folder that belongs only to this user.
    pub(super) fn make_folder(self, path: &Path) -> Result<(), ServerError> {
        use std::os::unix::fs::PermissionsExt;
        fs::create_dir_all(path).map_err(ServerError::file(path))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(ServerError::file(path))?;
        self.own(path)
    }

    /// Gives a file or folder to this user.
    pub(super) fn own(self, path: &Path) -> Result<(), ServerError> {
        let Some((uid, gid)) = self.ids else { return Ok(()) };
        nix::unistd::chown(path, Some(uid), Some(gid)).map_err(|error| ServerError::file(path)(error.into()))
    }
}
