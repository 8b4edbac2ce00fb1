//! Whose admin command is executed.

use crate::controller::Controller;
use crate::subsystem::Subsystem;

/// Whose command it is: what the answer depends on.
pub struct Context<'a> {
    /// The subsystem.
    pub subsystem: &'a Subsystem,
    /// The controller.
    pub controller: &'a Controller,
    /// The address that the host reached, for the discovery log.
    pub address: Option<std::net::SocketAddr>,
}
