//! Opcodes. The two lowest bits give the direction of data: 00b none, 01b to the controller, 10b to the host.

/// Admin commands (Base, figure 138).
pub mod admin {
    /// Get Log Page.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Identify.
    pub const IDENTIFY: u8 = 0x06;
    /// Abort.
    pub const ABORT: u8 = 0x08;
    /// Set Features.
    pub const SET_FEATURES: u8 = 0x09;
    /// Get Features.
    pub const GET_FEATURES: u8 = 0x0a;
    /// Asynchronous Event Request.
    pub const ASYNC_EVENT: u8 = 0x0c;
    /// Device Self-test.
    pub const SELF_TEST: u8 = 0x14;
    /// Directive Send.
    pub const DIRECTIVE_SEND: u8 = 0x19;
    /// Directive Receive.
    pub const DIRECTIVE_RECEIVE: u8 = 0x1a;
    /// Sanitize.
    pub const SANITIZE: u8 = 0x84;
    /// Format NVM.
    pub const FORMAT: u8 = 0x80;
    /// Namespace Management.
    pub const NAMESPACE_MANAGEMENT: u8 = 0x0d;
    /// Namespace Attachment.
    pub const NAMESPACE_ATTACHMENT: u8 = 0x15;
    /// Keep Alive.
    pub const KEEP_ALIVE: u8 = 0x18;
}

/// Commands of the NVM command set (NVM, figure 15), and Flush (Base).
pub mod nvm {
    /// Flush.
    pub const FLUSH: u8 = 0x00;
    /// Write.
    pub const WRITE: u8 = 0x01;
    /// Read.
    pub const READ: u8 = 0x02;
    /// Write Uncorrectable.
    pub const WRITE_UNCORRECTABLE: u8 = 0x04;
    /// Compare.
    pub const COMPARE: u8 = 0x05;
    /// Write Zeroes.
    pub const WRITE_ZEROES: u8 = 0x08;
    /// Dataset Management.
    pub const DATASET_MANAGEMENT: u8 = 0x09;
    /// Verify.
    pub const VERIFY: u8 = 0x0c;
    /// Reservation Register.
    pub const RESERVATION_REGISTER: u8 = 0x0d;
    /// Reservation Report.
    pub const RESERVATION_REPORT: u8 = 0x0e;
    /// Reservation Acquire.
    pub const RESERVATION_ACQUIRE: u8 = 0x11;
    /// Reservation Release.
    pub const RESERVATION_RELEASE: u8 = 0x15;
    /// Copy.
    pub const COPY: u8 = 0x19;
    /// I/O Management Receive (Base, section 7.3).
    pub const IO_MANAGEMENT_RECEIVE: u8 = 0x12;
    /// I/O Management Send (Base, section 7.4).
    pub const IO_MANAGEMENT_SEND: u8 = 0x1d;
}

/// Commands of the Key Value command set (KV, figure 9); Flush is the same.
pub mod key_value {
    /// Store.
    pub const STORE: u8 = 0x01;
    /// Retrieve.
    pub const RETRIEVE: u8 = 0x02;
    /// List.
    pub const LIST: u8 = 0x06;
    /// Delete.
    pub const DELETE: u8 = 0x10;
    /// Exist.
    pub const EXIST: u8 = 0x14;
}

/// Commands of the Zoned Namespace Command Set (ZNS, section 3) besides those of the NVM command set.
pub mod zoned {
    /// Zone Management Send.
    pub const ZONE_MANAGEMENT_SEND: u8 = 0x79;
    /// Zone Management Receive.
    pub const ZONE_MANAGEMENT_RECEIVE: u8 = 0x7a;
    /// Zone Append.
    pub const ZONE_APPEND: u8 = 0x7d;
}

/// Vendor-specific I/O commands: those of the drive.
pub use tantalum::vendor_opcode as vendor;

/// Vendor-specific I/O commands about programs in the drive.
pub mod program {
    /// Opens an endpoint.
    pub const OPEN: u8 = 0xc2;
    /// Closes an endpoint.
    pub const CLOSE: u8 = 0xc4;
    /// Installs a program.
    pub const INSTALL: u8 = 0xc5;
    /// Removes a program.
    pub const UNINSTALL: u8 = 0xc8;
    /// Grants rights to a process.
    pub const GRANT: u8 = 0xc9;
    /// Lets a program call another.
    pub const ALLOW_CALLS: u8 = 0xcc;
    /// Sends a request; its completion is the answer.
    pub const SEND: u8 = 0xcd;
    /// Receives the next event of an endpoint.
    pub const RECEIVE: u8 = 0xce;
    /// Reads what a program wrote to its serial port, and its counters.
    pub const OUTPUT: u8 = 0xd2;
}

/// All Fabrics commands (Base, section 6).
pub const FABRICS: u8 = 0x7f;

/// Types of Fabrics commands.
pub mod fabrics {
    /// Property Set.
    pub const PROPERTY_SET: u8 = 0x00;
    /// Connect.
    pub const CONNECT: u8 = 0x01;
    /// Property Get.
    pub const PROPERTY_GET: u8 = 0x04;
    /// Authentication Send.
    pub const AUTHENTICATION_SEND: u8 = 0x05;
    /// Authentication Receive.
    pub const AUTHENTICATION_RECEIVE: u8 = 0x06;
    /// Disconnect.
    pub const DISCONNECT: u8 = 0x08;
}
