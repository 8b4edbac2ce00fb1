//! The context of an admin command.

use std::sync::Arc;

use crate::controller::Controller;
use crate::namespaces::View;
use crate::subsystem::Subsystem;

/// The sender of a command and its connection, on which the answer depends.
pub struct Context<'a> {
    /// The subsystem.
    pub subsystem: &'a Arc<Subsystem>,
    /// The controller.
    pub controller: &'a Controller,
    /// The namespaces that it has.
    pub view: &'a View,
    /// The address that the host reached, for the discovery log.
    pub address: Option<std::net::SocketAddr>,
}
