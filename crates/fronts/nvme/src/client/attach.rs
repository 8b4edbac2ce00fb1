//! From a connection to a queue of a controller.

use std::io;
use std::net::SocketAddr;

use zerocopy::IntoBytes;

use super::{Client, Completed, Names, Options, broken, fabrics};
use crate::controller::enabled_for;
use crate::wire::fabrics::{ANY_CONTROLLER, Connect, ConnectData, Property, property};
use crate::wire::opcode;

impl Client {
    /// Opens a connection, connects it to an admin queue, and enables the controller. Returns the controller's number.
    pub fn admin(
        address: SocketAddr,
        options: Options,
        names: &Names,
        keep_alive_ms: u32,
    ) -> io::Result<(Client, u16)> {
        let mut client = Client::open_as(address, options, names)?;
        let connected = client.connect(0, 31, ANY_CONTROLLER, names, keep_alive_ms)?;
        if connected.code != 0 {
            return Err(broken(format!("Connect ended with {:#x}", connected.code)));
        }
        let capabilities = client.property(property::CAPABILITIES, true)?.result;
        let configuration = enabled_for(capabilities);
        let enabled = client.set_property(property::CONFIGURATION, configuration.into())?;
        match enabled.code {
            0 => Ok((client, connected.result as u16)),
            code => Err(broken(format!("enabling ended with {code:#x}"))),
        }
    }

    /// Opens a connection and connects it to an I/O queue.
    pub fn io(
        address: SocketAddr,
        options: Options,
        names: &Names,
        controller: u16,
        queue: u16,
    ) -> io::Result<Client> {
        let mut client = Client::open_as(address, options, names)?;
        let connected = client.connect(queue, 127, controller, names, 0)?;
        match connected.code {
            0 => Ok(client),
            code => Err(broken(format!("Connect ended with {code:#x}"))),
        }
    }

    /// Connect.
    pub fn connect(
        &mut self,
        queue: u16,
        entries: u16,
        controller: u16,
        names: &Names,
        keep_alive_ms: u32,
    ) -> io::Result<Completed> {
        let attributes = u8::from(self.options.no_flow_control) << 2;
        let fields = Connect::new(queue, entries, attributes, keep_alive_ms);
        let data = ConnectData::new(names.host_id, controller, &names.subsystem, &names.host);
        let command = fabrics(opcode::fabrics::CONNECT, fields.as_bytes());
        let id = self.submit(command, data.as_bytes().to_vec(), 0)?;
        self.finish(id)
    }

    /// Property Set of four bytes.
    pub fn set_property(&mut self, offset: u32, value: u64) -> io::Result<Completed> {
        self.command(fabrics(opcode::fabrics::PROPERTY_SET, Property::new(false, offset, value).as_bytes()))
    }

    /// Property Get.
    pub fn property(&mut self, offset: u32, is_long: bool) -> io::Result<Completed> {
        self.command(fabrics(opcode::fabrics::PROPERTY_GET, Property::new(is_long, offset, 0).as_bytes()))
    }
}
