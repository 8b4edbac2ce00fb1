//! A drive in memory with a server, and hosts for it.
#![allow(dead_code, reason = "each test uses some of it")]

pub mod bystander;
pub mod grouped;
pub mod planned;
pub mod process;
pub mod proxy;
pub mod records;
pub mod witness;
pub mod zoned;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tantalum::{Device, PowerLoss, Profile};
use tantalum_drive::{Answers, Drive, Pacing, Queue};
use tantalum_nvme::authentication::Hosts;
use tantalum_nvme::client::{Client, Names, Options, block_command, command};
use tantalum_nvme::ports::PortAccess;
use tantalum_nvme::serve::Options as Serving;
use tantalum_nvme::server::Server;
use tantalum_nvme::subsystem::{Settings, Subsystem};
use tantalum_nvme::wire::command::Submission;
use tantalum_nvme::wire::opcode::nvm;
use tantalum_nvme_programs::DrivePrograms;

pub const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001";
pub const UNIT: usize = 4096;

pub fn names() -> Names {
    Names { subsystem: NQN.to_owned(), host: "nqn.2014-08.org.nvmexpress:test".to_owned(), host_id: [7; 16] }
}

pub fn settings(block_bytes: u32) -> Settings {
    let (name, serial) = (NQN.to_owned(), "TEST".to_owned());
    Settings { name, serial, identity: 0x1234_5678, block_bytes, advertised: None }
}

pub fn subsystem_with(settings: Settings, device: Device, pacing: Pacing) -> Arc<Subsystem> {
    let from_ns = device.time_ns();
    let queue = Queue::new(Drive::new(device), Answers::new(pacing, from_ns).unwrap());
    Arc::new(Subsystem::new(settings, queue).unwrap().with_programs(Arc::new(DrivePrograms::default())))
}

pub fn subsystem_on(device: Device, block_bytes: u32, pacing: Pacing) -> Arc<Subsystem> {
    subsystem_with(settings(block_bytes), device, pacing)
}

pub fn small() -> Profile {
    Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() }
}

pub fn subsystem(block_bytes: u32) -> Arc<Subsystem> {
    subsystem_on(Device::in_memory(&small()).unwrap(), block_bytes, Pacing::None)
}

pub fn serve(subsystem: Arc<Subsystem>) -> Server {
    Server::start(subsystem, SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

/// Waits for what others bring about in their own time.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Tells threads to end when it is dropped, also when what they are compared with has failed.
pub struct EndsWhenDropped<'a>(pub &'a AtomicBool);

impl Drop for EndsWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Options for serving an image to any host at a free port.
pub fn serving(image: &Path, pacing: Pacing) -> Serving {
    Serving {
        image: image.to_path_buf(),
        listen: vec![(([127, 0, 0, 1], 0).into(), PortAccess::Optimized)],
        advertise: None,
        pacing,
        block_bytes: 4096,
        name: Some(NQN.to_owned()),
        remap_duplicates: false,
        hosts: Hosts::default(),
        programs: Some(Arc::new(DrivePrograms::default())),
        tape: None,
    }
}

/// A host with an admin queue and one I/O queue.
pub struct Host {
    pub admin: Client,
    pub io: Client,
    pub controller: u16,
}

pub fn attach(server: &Server, options: Options) -> Host {
    let (admin, controller) = Client::admin(server.address(), options, &names(), 0).unwrap();
    let io = Client::io(server.address(), options, &names(), controller, 1).unwrap();
    Host { admin, io, controller }
}

/// Power fails and comes back, and a host attaches again.
pub fn cut_and_attach(server: &Server) -> Host {
    {
        let mut device = server.subsystem().queue.drive().lock();
        let now_ns = device.issued_ns().max(device.time_ns());
        device.cut_power(now_ns);
    }
    assert!(server.close());
    server.subsystem().queue.drive().lock().power_on(&mut PowerLoss::seeded(1)).unwrap();
    server.subsystem().power_on().unwrap();
    server.open();
    attach(server, Options::default())
}

/// The server ends and its image, to which no host is attached, is opened again.
pub fn opened_again(server: Server, image: &Path) -> Device {
    assert!(server.close());
    let at_ns = server.subsystem().queue.drive().lock().time_ns();
    server.subsystem().queue.drive().lock().put_away(at_ns).unwrap();
    drop(server);
    Device::open(image).unwrap()
}

/// A vendor command on a unit in a transaction.
pub fn with_transaction(opcode: u8, unit: u32, transaction: u64) -> Submission {
    command(opcode, 1, [unit, 0, 0, 0, transaction as u32, (transaction >> 32) as u32])
}

/// Bytes that are different everywhere.
pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64 / 8).flat_map(|word| tantalum_image::mix(seed << 32 | word).to_le_bytes()).collect()
}

impl Host {
    pub fn write(&mut self, first: u64, block_bytes: usize, data: &[u8]) {
        let count = (data.len() / block_bytes) as u32;
        let completed = self.io.write_command(block_command(nvm::WRITE, first, count), data).unwrap();
        assert_eq!(completed.code, 0);
    }

    pub fn read(&mut self, first: u64, block_bytes: usize, count: u32) -> Vec<u8> {
        let bytes = count * block_bytes as u32;
        let completed = self.io.read_command(block_command(nvm::READ, first, count), bytes).unwrap();
        assert_eq!(completed.code, 0);
        completed.data
    }
}
