//! The clients' side of a drive: each client's way in, the time that they share, answers, and power.
//!
//! Invariants:
//! - Time passes only while the clients wait, and never beyond an answer or an event in the drive without delivering it.
//! - An answer arrives when its way says so; nothing here looks at when the drive would have given it.
//!
//! A drive in an image loses power either as a whole, or because its process is killed between two stores to the file.
//! Then a new process opens the image, with new ways in.

mod flash;
mod power;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::RngExt;
use tantalum::{Command, Completion, Device, DeviceError, Lpn, METADATA_BYTES, Status, UNIT_BYTES};
use tantalum_drive::{
    Answers, Client, Delivery, Drive, Output, Pacing, Queue, Reply, Request, Transfer, When,
};
use tantalum_spu::BaseIoWay;

pub(super) use power::Loss;

use super::programs::{Memory, Programs};
use super::setup::Setup;
use crate::device::Medium;
use crate::device::draw::Generator;
use crate::device::history::Stamp;
use crate::device::host::{metadata_of, stamp_of};
use crate::device::image_file::ImageFile;
use crate::device::stop::Stop;

/// An answer, as its client gets it.
#[derive(Debug)]
pub(super) struct Arrival {
    /// The command's number, in the order of submission.
    pub number: u64,
    pub ended: Result<Reply, Status>,
    /// When the drive says that it was done.
    pub done_ns: u64,
}

type Arrivals = Arc<Mutex<Vec<Arrival>>>;

/// How a client reads, writes and flushes; everything else goes through its queue.
#[derive(Debug)]
enum Door {
    Queue,
    /// As a file system does.
    Block(Box<Client>),
    /// Through the program Base-IO in the drive.
    Program,
}

impl Door {
    fn name(&self) -> &'static str {
        match self {
            Door::Queue => "queue",
            Door::Block(_) => "block device",
            Door::Program => "program",
        }
    }
}

/// A client's way into the drive.
struct Way {
    queue: Queue,
    door: Door,
}

/// A drive, and the clients' ways into it.
pub(super) struct Host {
    /// None while no process has the image open.
    drive: Option<Drive>,
    ways: Vec<Way>,
    pub programs: Option<Programs>,
    /// What the programs' clients know.
    memories: Vec<Memory>,
    setup: Setup,
    pub now_ns: u64,
    /// Whether answers and recoveries are printed on standard error.
    pub trace: bool,
    arrived: Arrivals,
    next_number: u64,
    seed: u64,
    /// When power is lost.
    cut_ns: Option<u64>,
    /// The flash operation at which power is lost, counted since the drive was created.
    cut_operation: Option<u64>,
    loss: Loss,
    image: Option<ImageFile>,
    /// After how many stores the next process is killed.
    next_end: Option<u64>,
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Host {
    /// A new drive, without programs.
    pub fn new(setup: Setup, seed: u64) -> Result<Host, Stop> {
        let profile = setup.profile(seed);
        let failed = |error: DeviceError| Stop::broken("refused", error.to_string());
        let (image, device) = match setup.kind.medium {
            Medium::Image => ImageFile::create(&profile).map(|(image, device)| (Some(image), device))?,
            Medium::Memory => (None, Device::in_memory(&profile).map_err(failed)?),
            Medium::FailingHost => unreachable!("no setup draws it: a host that fails has one client"),
        };
        let mut host = Host {
            drive: None,
            ways: Vec::new(),
            programs: None,
            memories: vec![Memory::default(); setup.clients as usize],
            setup,
            now_ns: 0,
            trace: false,
            arrived: Arrivals::default(),
            next_number: 0,
            seed,
            cut_ns: None,
            cut_operation: None,
            loss: Loss::Power,
            image,
            next_end: None,
        };
        host.attach(device)?;
        Ok(host)
    }

    /// A drive with a device that was opened, and the clients' ways in.
    fn attach(&mut self, device: Device) -> Result<(), Stop> {
        let drive = Drive::new(device);
        drive.set_remap_duplicates(self.setup.remaps);
        self.now_ns = self.now_ns.max(drive.lock().time_ns());
        self.drive = Some(drive);
        self.open_ways()
    }

    fn open_ways(&mut self) -> Result<(), Stop> {
        let drive = self.drive().clone();
        let way = |client: u32| {
            let answers = match self.setup.paced {
                true => Answers::in_virtual_time(),
                false => Answers::new(Pacing::None, 0).expect("without pacing there is no thread"),
            };
            let door = match (self.setup.paced, client % 3) {
                (true, 1) => Door::Block(Box::new(drive.client())),
                (true, 2) if self.setup.programs => Door::Program,
                _ => Door::Queue,
            };
            Way { queue: Queue::new(drive.clone(), answers), door }
        };
        self.ways = (0..self.setup.clients).map(way).collect();
        Ok(())
    }

    /// Installs the programs, which recover.
    pub fn install_programs(&mut self) -> Result<(), Stop> {
        if !self.setup.programs {
            return Ok(());
        }
        let set_up = match &mut self.programs {
            Some(programs) => programs.power_on(self.now_ns),
            None => Programs::new(self.drive(), &self.memories, self.now_ns).map(|programs| {
                self.programs = Some(programs);
            }),
        };
        if let Err(Stop::PowerLost) = set_up
            && self.has_power()
        {
            return Err(Stop::broken("running drive", "a program finds no power, and the drive has some"));
        }
        self.now_ns = self.now_ns.max(self.programs.as_ref().map_or(0, Programs::now_ns));
        set_up
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        self.drive.as_ref().expect("a process has the drive")
    }

    /// The drive, if a process has it open.
    pub fn opened(&self) -> Option<&Drive> {
        self.drive.as_ref()
    }

    /// The name of a client's way in.
    pub fn way_of(&self, client: usize) -> &'static str {
        self.ways[client].door.name()
    }

    /// Whether the drive accepts commands.
    pub fn has_power(&self) -> bool {
        !self.is_killed() && self.drive.as_ref().is_some_and(|drive| drive.lock().has_power())
    }

    fn is_killed(&self) -> bool {
        self.image.as_ref().is_some_and(|image| image.host.life.is_over())
    }

    // -- commands -----------------------------------------------------------------------------------------------

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// What happens with the answer of a command that was issued directly.
    fn arrive_at(&self, answers: &Answers, ticket: tantalum_drive::Ticket, ended: Ended) {
        let arrived = Arc::clone(&self.arrived);
        let Ended { number, ended } = ended;
        let done_ns = ended.as_ref().map_or(self.now_ns, |reply| reply.done_ns);
        answers.at(ticket, done_ns, move |delivery| {
            let ended = match delivery {
                Delivery::InTime => ended,
                Delivery::PowerLost => ended.and(Err(Status::PowerLost)),
            };
            unpoisoned(&arrived).push(Arrival { number, ended, done_ns });
        });
    }

    /// Submits a command on a client's way. Returns its number.
    pub fn submit(&mut self, client: usize, request: Request) -> u64 {
        let number = self.number();
        let is_block = matches!(request, Request::Read { .. } | Request::Write { .. } | Request::Flush);
        if is_block && !matches!(self.ways[client].door, Door::Queue) {
            let answers = self.ways[client].queue.answers().clone();
            let ticket = answers.ticket();
            let ended = self.by_door(client, request);
            self.arrive_at(&answers, ticket, Ended { number, ended });
            return number;
        }
        let arrived = Arc::clone(&self.arrived);
        self.ways[client].queue.submit(request, self.now_ns, move |ended, done_ns| {
            unpoisoned(&arrived).push(Arrival { number, ended, done_ns });
        });
        number
    }

    fn by_door(&mut self, client: usize, request: Request) -> Result<Reply, Status> {
        let now_ns = self.now_ns;
        match &mut self.ways[client].door {
            Door::Block(client) => {
                client.begin_at(now_ns);
                request.issue_with(|command| client.submit_or_share(command))
            }
            _ => {
                let programs = self.programs.as_ref().expect("they are installed");
                let way = BaseIoWay::new(programs.ssd(), programs.base_io());
                let mut client = self.drive().client().with_route(way);
                client.begin_at(now_ns);
                request.issue_with(|command| client.submit_or_share(command))
            }
        }
    }

    /// Issues reads and writes of a client together. Returns their numbers.
    pub fn submit_together(&mut self, client: usize, requests: &mut [Together]) -> Vec<u64> {
        let answers = self.ways[client].queue.answers().clone();
        let (ticket, when) = (answers.ticket(), answers.when(self.now_ns));
        let mut transfers: Vec<Transfer<'_>> = requests
            .iter_mut()
            .map(|request| match request {
                Together::Read { lpn, data } => Transfer::read(*lpn, data),
                Together::Write { lpn, data, fua } => Transfer::write(*lpn, data, *fua),
            })
            .collect();
        self.drive().transfer(&mut transfers, when);
        let ended: Vec<Result<Completion, Status>> = transfers.into_iter().map(Transfer::ended).collect();
        let replies = requests.iter().zip(ended).map(|(request, ended)| {
            let output = match request {
                Together::Read { data, .. } => Output::Data(data.clone()),
                Together::Write { .. } => Output::Nothing,
            };
            ended.map(|completion| Reply { done_ns: completion.done_ns, output })
        });
        let replies: Vec<Result<Reply, Status>> = replies.collect();
        replies
            .into_iter()
            .map(|ended| {
                let number = self.number();
                self.arrive_at(&answers, ticket, Ended { number, ended });
                number
            })
            .collect()
    }

    /// When a command that nobody waits for is issued.
    fn when(&self) -> When {
        self.ways[0].queue.answers().when(self.now_ns)
    }

    /// Issues a command whose effect is looked at once.
    pub fn ask(&self, command: Command<'_>) -> Result<Completion, Stop> {
        Ok(self.try_ask(command)?)
    }

    /// Issues a command whose effect is looked at once; fails with the drive's status.
    pub fn try_ask(&self, command: Command<'_>) -> Result<Completion, Status> {
        if self.is_killed() {
            return Err(Status::PowerLost);
        }
        let when = self.when();
        self.drive().lock().issue(command, when)
    }

    /// Reads a unit, and checks that its metadata are those that were written with it.
    pub fn read(&self, lpn: Lpn) -> Result<Stamp, Stop> {
        let (mut unit, mut metadata) = ([0; UNIT_BYTES], [0; METADATA_BYTES]);
        self.ask(Command::ReadWithMetadata { lpn, data: &mut unit, metadata: &mut metadata })?;
        let stamp = stamp_of(&unit, &format!("unit {lpn}"))?;
        if metadata != metadata_of(stamp) {
            let detail = format!("unit {lpn} holds {stamp} with the metadata {metadata:?}");
            return Err(Stop::broken("D2", detail));
        }
        Ok(stamp)
    }

    // -- time ---------------------------------------------------------------------------------------------------

    /// The answers that arrived since the last call.
    pub fn arrivals(&self) -> Vec<Arrival> {
        std::mem::take(&mut *unpoisoned(&self.arrived))
    }

    /// The client whose answer is due first, with its time.
    fn next_due(&self) -> Option<(u64, usize)> {
        let due = |(client, way): (usize, &Way)| Some((way.queue.answers().next_due_ns()?, client));
        self.ways.iter().enumerate().filter_map(due).min()
    }

    /// Delivers what is due now. Without pacing everything has been delivered, and the drive's time passes as a single
    /// client would see it.
    pub fn deliver_due(&mut self) {
        if !self.setup.paced {
            let device_ns = self.drive().lock().time_ns();
            self.now_ns = self.now_ns.max(device_ns);
        }
        while let Some((due_ns, client)) = self.next_due()
            && due_ns <= self.now_ns
        {
            self.ways[client].queue.answers().deliver_next();
        }
    }

    /// Lets time pass. Power may be lost meanwhile.
    pub fn wait_until(&mut self, ns: u64) -> Result<(), Stop> {
        let cut_ns = self.cut_ns.filter(|cut_ns| *cut_ns < ns).map(|cut_ns| cut_ns.max(self.now_ns));
        let until_ns = cut_ns.unwrap_or(ns.max(self.now_ns));
        loop {
            let next_ns = self.next_due().map(|(due_ns, _)| due_ns).filter(|due_ns| *due_ns <= until_ns);
            let to_ns = next_ns.unwrap_or(until_ns).max(self.now_ns);
            if let Some(programs) = &mut self.programs {
                programs.run_until(to_ns)?;
            }
            if !self.has_power() {
                return Err(Stop::PowerLost);
            }
            self.now_ns = to_ns;
            if next_ns.is_none() {
                break;
            }
            self.deliver_due();
        }
        match (cut_ns, &self.image) {
            (None, _) => return Ok(()),
            (Some(_), Some(image)) if self.loss == Loss::Kill => image.host.life.end(),
            (Some(cut_ns), _) => self.drive().lock().cut_power(cut_ns),
        }
        Err(Stop::PowerLost)
    }

    /// Waits until the next answer arrives, or for a moment if none is due.
    pub fn wait_for_one(&mut self) -> Result<(), Stop> {
        let next_ns = self.next_due().map_or(self.now_ns + 50_000, |(due_ns, _)| due_ns);
        self.wait_until(next_ns)
    }

    /// Between two turns the clients mostly do not wait, or until some of the answers have arrived, or for some time.
    pub fn pause(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        match rng.random_range(0..24) {
            0 => (0..rng.random_range(1..12)).try_for_each(|_| self.wait_for_one()),
            1 | 2 => self.wait_for_one(),
            3 | 4 => self.wait_until(self.now_ns + rng.random_range(0..700_000)),
            _ => Ok(()),
        }
    }
}

/// How a command that was issued directly ended.
struct Ended {
    number: u64,
    ended: Result<Reply, Status>,
}

/// A read or write of [`Host::submit_together`].
#[derive(Debug)]
pub(super) enum Together {
    Read { lpn: Lpn, data: Vec<u8> },
    Write { lpn: Lpn, data: Vec<u8>, fua: bool },
}
