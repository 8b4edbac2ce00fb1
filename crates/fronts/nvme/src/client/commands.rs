//! Sending commands, and waiting for their completion.

use std::io;

use zerocopy::{FromBytes, IntoBytes};

use super::{CAPSULE_BYTES, Client, Completed, Pdu, broken};
use crate::failure::Failure;
use crate::wire::command::{IN_CAPSULE, Pointer, Submission, TRANSPORT};
use crate::wire::opcode;
use crate::wire::pdu::{CommandCapsule, Data, ResponseCapsule, flag, kind};

impl Client {
    /// Sends a command without waiting for it. `data` go to the controller; `read_bytes` are expected from it. Returns
    /// its identifier.
    pub fn submit(&mut self, mut command: Submission, data: Vec<u8>, read_bytes: u32) -> io::Result<u16> {
        self.last_id = self.last_id.wrapping_add(1);
        let id = self.last_id;
        command.id = id.into();
        command.flags |= 1 << 6;
        let in_capsule = data.len() <= CAPSULE_BYTES && !self.options.no_capsule_data;
        let is_connect = command.opcode == opcode::FABRICS;
        let capsule = if in_capsule || is_connect { data } else { Vec::new() };
        if command.data == Pointer::default() {
            command.data = match capsule.len() {
                0 => Pointer::new(read_bytes, TRANSPORT),
                bytes => Pointer::new(bytes as u32, IN_CAPSULE),
            };
        }
        let pdu = self.encode(CommandCapsule::new(command).as_bytes(), &capsule);
        if self.options.together {
            self.send_soon(&pdu)?
        } else {
            self.send(&pdu)?
        }
        Ok(id)
    }

    /// As [`Client::submit`], with data that are held until the controller requests them.
    pub fn submit_write(&mut self, mut command: Submission, data: Vec<u8>) -> io::Result<u16> {
        if data.len() <= CAPSULE_BYTES && !self.options.no_capsule_data {
            return self.submit(command, data, 0);
        }
        command.data = Pointer::new(data.len() as u32, TRANSPORT);
        let id = self.submit(command, Vec::new(), 0)?;
        let other = self.outgoing.insert(id, data);
        assert!(other.is_none(), "command {id} is sent while another one of that name waits for its R2T");
        Ok(id)
    }

    /// Waits until any command is done.
    pub fn reap(&mut self) -> io::Result<Completed> {
        loop {
            if let Some(completed) = self.done.pop_front() {
                return Ok(completed);
            }
            let pdu = self.receive()?;
            self.take(pdu)?;
        }
    }

    fn take(&mut self, pdu: Pdu) -> io::Result<()> {
        match pdu.header[0] {
            kind::CAPSULE_RESP => {
                let capsule =
                    ResponseCapsule::read_from_bytes(&pdu.header).map_err(|_| broken("a response"))?;
                let completion = capsule.completion;
                let id = completion.id.get();
                self.outgoing.remove(&id);
                self.done.push_back(Completed {
                    id,
                    code: Failure::code_of(completion.status.get()),
                    result: completion.result.get(),
                    data: self.incoming.remove(&id).unwrap_or_default(),
                    queue_head: Some(completion.queue_head.get()),
                });
            }
            kind::C2H_DATA => self.take_data(pdu)?,
            kind::R2T => {
                let ready = Data::read_from_bytes(&pdu.header).map_err(|_| broken("an R2T"))?;
                self.send_data(&ready)?;
            }
            kind::C2H_TERM_REQ => {
                let status = u16::from_le_bytes([pdu.header[8], pdu.header[9]]);
                return Err(broken(format!("the controller ended the connection: {status}")));
            }
            kind => return Err(broken(format!("a PDU of type {kind}"))),
        }
        Ok(())
    }

    fn take_data(&mut self, pdu: Pdu) -> io::Result<()> {
        let header = Data::read_from_bytes(&pdu.header).map_err(|_| broken("data"))?;
        let id = header.command.get();
        let data = self.incoming.entry(id).or_default();
        if data.len() != header.offset.get() as usize || pdu.data.len() != header.bytes.get() as usize {
            return Err(broken("data out of order"));
        }
        data.extend(pdu.data);
        if header.common.flags & flag::SUCCESS != 0 {
            let data = self.incoming.remove(&id).unwrap_or_default();
            self.done.push_back(Completed { id, data, ..Completed::default() });
        }
        Ok(())
    }

    fn send_data(&mut self, ready: &Data) -> io::Result<()> {
        let id = ready.command.get();
        let (from, bytes) = (ready.offset.get() as usize, ready.bytes.get() as usize);
        let data = self.outgoing.remove(&id).ok_or_else(|| broken("an R2T of a command without data"))?;
        let wanted = data.get(from..from + bytes).ok_or_else(|| broken("an R2T beyond the data"))?;
        let mut offset = from;
        for piece in wanted.chunks(self.data_bytes) {
            let is_last = offset + piece.len() == from + bytes;
            let flags = if is_last { flag::LAST } else { 0 };
            let header =
                Data::new(kind::H2C_DATA, flags, id, ready.transfer.get(), offset as u32, piece.len() as u32);
            let pdu = self.encode(header.as_bytes(), piece);
            if self.options.together {
                self.send_soon(&pdu)?
            } else {
                self.send(&pdu)?
            }
            offset += piece.len();
        }
        assert_eq!(offset, from + bytes, "the pieces of command {id} end elsewhere than its R2T");
        self.outgoing.insert(id, data);
        Ok(())
    }

    pub(super) fn finish(&mut self, id: u16) -> io::Result<Completed> {
        let completed = self.reap()?;
        match completed.id == id {
            true => Ok(completed),
            false => Err(broken(format!("command {} is done, not {id}", completed.id))),
        }
    }

    /// Sends a command without data and waits for it.
    pub fn command(&mut self, command: Submission) -> io::Result<Completed> {
        let id = self.submit(command, Vec::new(), 0)?;
        self.finish(id)
    }

    /// Sends a command that reads and waits for it.
    pub fn read_command(&mut self, command: Submission, bytes: u32) -> io::Result<Completed> {
        let id = self.submit(command, Vec::new(), bytes)?;
        self.finish(id)
    }

    /// Sends a command that writes and waits for it.
    pub fn write_command(&mut self, command: Submission, data: &[u8]) -> io::Result<Completed> {
        let id = self.submit_write(command, data.to_vec())?;
        self.finish(id)
    }
}

/// A Fabrics command with these fields, starting at byte 40.
pub fn fabrics(kind: u8, fields: &[u8]) -> Submission {
    let mut command =
        Submission { opcode: opcode::FABRICS, namespace: u32::from(kind).into(), ..Submission::default() };
    command.dword10.as_mut_bytes().copy_from_slice(fields);
    command
}

/// An I/O command on the blocks that start at `first`.
pub fn block_command(opcode: u8, first: u64, count: u32) -> Submission {
    let dword10 = [first as u32, (first >> 32) as u32, count.wrapping_sub(1), 0, 0, 0].map(Into::into);
    Submission {
        opcode,
        namespace: crate::namespaces::BLOCK_NAMESPACE.into(),
        dword10,
        ..Submission::default()
    }
}

/// A command with these dwords 10 to 15.
pub fn command(opcode: u8, namespace: u32, dword10: [u32; 6]) -> Submission {
    let dword10 = dword10.map(Into::into);
    Submission { opcode, namespace: namespace.into(), dword10, ..Submission::default() }
}
