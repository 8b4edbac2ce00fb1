//! A small initiator: what measures and tests the server from the other side of the wire. Tests also send with it what no
//! sound host does.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustc_hash::FxHashMap;
use zerocopy::{FromBytes, IntoBytes};

use crate::failure::Failure;
use crate::wire::command::{IN_CAPSULE, Pointer, Submission, TRANSPORT};
use crate::wire::fabrics::{ANY_CONTROLLER, Connect, ConnectData, Property, property};
use crate::wire::opcode;
use crate::wire::pdu::{
    CommandCapsule, Common, DIGEST_BYTES, Data, Initialize, ResponseCapsule, controller_header_bytes, flag,
    kind,
};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Data that go in the capsule rather than by way of an R2T.
const CAPSULE_BYTES: usize = crate::session::CAPSULE_BYTES;

/// A PDU that came, without its digests.
#[derive(Clone, Debug)]
pub struct Pdu {
    /// Its header.
    pub header: Vec<u8>,
    /// Its data.
    pub data: Vec<u8>,
}

/// How a command ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Completed {
    /// The host's name for it.
    pub id: u16,
    /// Type and code; 0 for success.
    pub code: u16,
    /// Dwords 0 and 1.
    pub result: u64,
    /// What was read.
    pub data: Vec<u8>,
    /// How far the queue was read; none if there was no response but data alone.
    pub queue_head: Option<u16>,
}

/// What a connection asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Digests of headers.
    pub header_digest: bool,
    /// Digests of data.
    pub data_digest: bool,
    /// How data to the host are aligned, in dwords less one.
    pub alignment: u8,
    /// Data always go by way of an R2T.
    pub no_capsule_data: bool,
    /// The queue's head is not asked for.
    pub no_flow_control: bool,
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    options: Options,
    last_id: u16,
    /// Data of commands that write, until they are asked for.
    outgoing: FxHashMap<u16, Vec<u8>>,
    /// Data of commands that read, until those are done.
    incoming: FxHashMap<u16, Vec<u8>>,
    done: VecDeque<Completed>,
    /// Bytes of one data PDU to the controller.
    pub data_bytes: usize,
    input: Vec<u8>,
    input_at: usize,
}

/// Who connects to what.
#[derive(Clone, Debug)]
pub struct Names {
    /// The subsystem.
    pub subsystem: String,
    /// The host.
    pub host: String,
    /// The host's identifier.
    pub host_id: [u8; 16],
}

fn broken(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

impl Client {
    /// Opens a connection without a word.
    pub fn dial(address: SocketAddr, options: Options) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client {
            stream,
            options,
            last_id: 0,
            outgoing: FxHashMap::default(),
            incoming: FxHashMap::default(),
            done: VecDeque::new(),
            data_bytes: 0,
            input: Vec::new(),
            input_at: 0,
        })
    }

    /// Opens a connection and agrees on digests.
    pub fn open(address: SocketAddr, options: Options) -> io::Result<Client> {
        let mut client = Client::dial(address, options)?;
        let digests = u8::from(options.header_digest) | u8::from(options.data_digest) << 1;
        client.send(Initialize::new(kind::IC_REQ, options.alignment, digests, 0).as_bytes())?;
        let pdu = client.receive()?;
        let response = Initialize::read_from_bytes(&pdu.header).map_err(|_| broken("no ICResp"))?;
        if response.digests != digests {
            return Err(broken(format!("asked for digests {digests}, got {}", response.digests)));
        }
        client.data_bytes = response.limit.get() as usize;
        Ok(client)
    }

    /// Opens a connection, connects it to an admin queue, and enables the controller. Its number.
    pub fn admin(
        address: SocketAddr,
        options: Options,
        names: &Names,
        keep_alive_ms: u32,
    ) -> io::Result<(Client, u16)> {
        let mut client = Client::open(address, options)?;
        let connected = client.connect(0, 31, ANY_CONTROLLER, names, keep_alive_ms)?;
        if connected.code != 0 {
            return Err(broken(format!("Connect ended with {:#x}", connected.code)));
        }
        let enabled = client.set_property(property::CONFIGURATION, 1 | 6 << 16 | 4 << 20)?;
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
        let mut client = Client::open(address, options)?;
        let connected = client.connect(queue, 127, controller, names, 0)?;
        match connected.code {
            0 => Ok(client),
            code => Err(broken(format!("Connect ended with {code:#x}"))),
        }
    }

    // -- bytes --------------------------------------------------------------------------------------------------

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            if self.input_at == self.input.len() {
                self.input.resize(64 << 10, 0);
                let read = self.stream.read(&mut self.input)?;
                self.input.truncate(read);
                self.input_at = 0;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let taken = (bytes.len() - filled).min(self.input.len() - self.input_at);
            bytes[filled..filled + taken].copy_from_slice(&self.input[self.input_at..self.input_at + taken]);
            self.input_at += taken;
            filled += taken;
        }
        Ok(())
    }

    /// Receives a PDU, and checks it as far as it stands alone.
    pub fn receive(&mut self) -> io::Result<Pdu> {
        let mut header = vec![0; size_of::<Common>()];
        self.fill(&mut header)?;
        let common = Common::read_from_bytes(&header).expect("it is as long");
        let header_bytes = controller_header_bytes(common.kind);
        let header_bytes = header_bytes.ok_or_else(|| broken(format!("a PDU of type {}", common.kind)))?;
        if usize::from(common.header_bytes) != header_bytes {
            return Err(broken(format!("a header of {} bytes", common.header_bytes)));
        }
        header.resize(header_bytes, 0);
        self.fill(&mut header[size_of::<Common>()..])?;
        let mut at = header_bytes;
        if common.flags & flag::HEADER_DIGEST != 0 {
            let mut digest = [0; DIGEST_BYTES];
            self.fill(&mut digest)?;
            if digest != tantalum::checksum_of(&header).to_le_bytes() {
                return Err(broken("a header that does not match its digest"));
            }
            at += DIGEST_BYTES;
        }
        let data = self.receive_data(common, at)?;
        Ok(Pdu { header, data })
    }

    fn receive_data(&mut self, common: Common, mut at: usize) -> io::Result<Vec<u8>> {
        let end = common.pdu_bytes.get() as usize;
        let digest_bytes = if common.flags & flag::DATA_DIGEST != 0 { DIGEST_BYTES } else { 0 };
        let offset = usize::from(common.data_offset);
        if common.kind == kind::C2H_DATA {
            if offset < at || !offset.is_multiple_of((usize::from(self.options.alignment) + 1) * 4) {
                return Err(broken(format!("data at byte {offset}")));
            }
            let mut padding = vec![0; offset - at];
            self.fill(&mut padding)?;
            at = offset;
        }
        let bytes = end.checked_sub(at + digest_bytes).ok_or_else(|| broken("a PDU that is too short"))?;
        let mut data = vec![0; bytes];
        self.fill(&mut data)?;
        if digest_bytes > 0 {
            let mut digest = [0; DIGEST_BYTES];
            self.fill(&mut digest)?;
            if digest != tantalum::checksum_of(&data).to_le_bytes() {
                return Err(broken("data that do not match their digest"));
            }
        }
        Ok(data)
    }

    /// A PDU with its digests and its data in their place.
    pub fn encode(&self, header: &[u8], data: &[u8]) -> Vec<u8> {
        let mut pdu = header.to_vec();
        let mut common = Common::read_from_prefix(header).expect("headers begin so").0;
        let mut bytes = header.len();
        if self.options.header_digest {
            common.flags |= flag::HEADER_DIGEST;
            bytes += DIGEST_BYTES;
        }
        if !data.is_empty() {
            common.data_offset = bytes as u8;
            bytes += data.len();
            if self.options.data_digest {
                common.flags |= flag::DATA_DIGEST;
                bytes += DIGEST_BYTES;
            }
        }
        common.pdu_bytes = (bytes as u32).into();
        pdu[..size_of::<Common>()].copy_from_slice(common.as_bytes());
        if self.options.header_digest {
            pdu.extend(tantalum::checksum_of(&pdu).to_le_bytes());
        }
        if !data.is_empty() {
            pdu.extend(data);
            if self.options.data_digest {
                pdu.extend(tantalum::checksum_of(data).to_le_bytes());
            }
        }
        pdu
    }

    // -- commands -----------------------------------------------------------------------------------------------

    /// Gives a command and does not wait for it. `data` go to the controller; `read_bytes` are to come from it. Its name.
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
        self.send(&pdu)?;
        Ok(id)
    }

    /// As [`Client::submit`], of data that wait until the controller asks for them.
    pub fn submit_write(&mut self, mut command: Submission, data: Vec<u8>) -> io::Result<u16> {
        if data.len() <= CAPSULE_BYTES && !self.options.no_capsule_data {
            return self.submit(command, data, 0);
        }
        command.data = Pointer::new(data.len() as u32, TRANSPORT);
        let id = self.submit(command, Vec::new(), 0)?;
        self.outgoing.insert(id, data);
        Ok(id)
    }

    /// Waits for a command to be done, whichever is first.
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
            self.stream.write_all(&pdu)?;
            offset += piece.len();
        }
        self.outgoing.insert(id, data);
        Ok(())
    }

    fn finish(&mut self, id: u16) -> io::Result<Completed> {
        let completed = self.reap()?;
        match completed.id == id {
            true => Ok(completed),
            false => Err(broken(format!("command {} is done, not {id}", completed.id))),
        }
    }

    /// Gives a command without data and waits for it.
    pub fn command(&mut self, command: Submission) -> io::Result<Completed> {
        let id = self.submit(command, Vec::new(), 0)?;
        self.finish(id)
    }

    /// Gives a command that reads and waits for it.
    pub fn read_command(&mut self, command: Submission, bytes: u32) -> io::Result<Completed> {
        let id = self.submit(command, Vec::new(), bytes)?;
        self.finish(id)
    }

    /// Gives a command that writes and waits for it.
    pub fn write_command(&mut self, command: Submission, data: &[u8]) -> io::Result<Completed> {
        let id = self.submit_write(command, data.to_vec())?;
        self.finish(id)
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

/// A Fabrics command with these fields from byte 40 on.
pub fn fabrics(kind: u8, fields: &[u8]) -> Submission {
    let mut command =
        Submission { opcode: opcode::FABRICS, namespace: u32::from(kind).into(), ..Submission::default() };
    command.dword10.as_mut_bytes().copy_from_slice(fields);
    command
}

/// An I/O command on the blocks from `first` on.
pub fn block_command(opcode: u8, first: u64, count: u32) -> Submission {
    let dword10 = [first as u32, (first >> 32) as u32, count.wrapping_sub(1), 0, 0, 0].map(Into::into);
    Submission { opcode, namespace: crate::io::BLOCK_NAMESPACE.into(), dword10, ..Submission::default() }
}

/// A command with these dwords 10 to 15.
pub fn command(opcode: u8, namespace: u32, dword10: [u32; 6]) -> Submission {
    let dword10 = dword10.map(Into::into);
    Submission { opcode, namespace: namespace.into(), dword10, ..Submission::default() }
}
