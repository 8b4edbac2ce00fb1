//! An attacker's modules beside a victim's data and programs: what the tests of hostile modules and the fuzz target share.

use std::fmt::Write as _;

use arbitrary::Unstructured;
use tantalum::{Device, Profile};
use tantalum_drive::Drive;
use tantalum_image::SplitMix64;
use tantalum_spu::{
    BlockClient, EndpointId, Event, InstallOptions, ProcessId, ProgramId, Rights, SpuId, Ssd, shipped,
};
use wasm_smith::{Config, Module};

const KERNEL: ProcessId = ProcessId::KERNEL;
const OPEN: InstallOptions = InstallOptions { is_open: true, region: None };
const VICTIM: std::ops::Range<u64> = 64 << 10..192 << 10;
const OWN: std::ops::Range<u64> = 192 << 10..320 << 10;

/// What tantalum_spu.h offers, with the types of its parameters and results.
const FUNCTIONS: &[(&str, &str, bool)] = &[
    ("receive", "ii", true),
    ("receive_nvm", "Ii", true),
    ("remaining", "", true),
    ("respond", "i", true),
    ("reply", "ii", true),
    ("origin", "", true),
    ("caller", "", true),
    ("request_start", "iii", true),
    ("request_append", "ii", true),
    ("request_append_nvm", "Ii", true),
    ("request_finish", "", true),
    ("wait", "i", true),
    ("call", "iiiiiii", true),
    ("nvm_read", "iIi", true),
    ("nvm_write", "Iii", true),
    ("nvm_copy", "IIi", true),
    ("nvm_commit", "i", true),
    ("nvm_discard", "", false),
    ("nvm_flush", "", true),
    ("nvm_check", "Iii", true),
    ("kv_get", "iiiii", true),
    ("kv_next", "iiii", true),
    ("processor", "", true),
    ("processors", "", true),
    ("print", "ii", false),
    ("count", "ii", false),
];

fn imports() -> String {
    let mut text = String::new();
    for (name, parameters, has_result) in FUNCTIONS {
        let parameters: String =
            parameters.chars().map(|kind| if kind == 'I' { " i64" } else { " i32" }).collect();
        let result = if *has_result { "(result i32)" } else { "" };
        writeln!(text, "(import \"tantalum\" \"{name}\" (func ${name} (param{parameters}) {result}))")
            .unwrap();
    }
    text
}

/// A request of the attacker.
pub struct Request {
    pub spu: u32,
    pub handler: u32,
    pub body: Vec<u8>,
    pub after_ns: u64,
}

pub struct Arena {
    ssd: Ssd,
    kernel: BlockClient,
    victim: BlockClient,
    echo: ProgramId,
    kernel_endpoint: EndpointId,
    mallory: ProcessId,
    endpoint: EndpointId,
}

impl Arena {
    pub fn new() -> Arena {
        let loaded = Profile::load("tlc-nvme").unwrap();
        let mut profile = Profile { capacity_bytes: 16 << 20, ..loaded };
        profile.spu.count = 3;
        profile.spu.data_bytes = 1 << 20;
        profile.spu.instruction_bytes = 1 << 20;
        profile.spu.handler_instructions = 20_000;
        let mut ssd = Ssd::new(Drive::new(Device::in_memory(&profile).unwrap()));
        let kernel_endpoint = ssd.endpoint(KERNEL).unwrap();
        let base = ssd.install(KERNEL, shipped::BASE_IO, OPEN).unwrap();
        let direct = ssd.install(KERNEL, shipped::DIRECT_IO, OPEN).unwrap();
        let echo = ssd.install(KERNEL, shipped::ECHO, OPEN).unwrap();
        let (owner, mallory) = (ssd.process(), ssd.process());
        let (victim, endpoint) = (ssd.endpoint(owner).unwrap(), ssd.endpoint(mallory).unwrap());
        ssd.grant(owner, VICTIM, Rights::READ | Rights::WRITE).unwrap();
        ssd.grant(mallory, OWN, Rights::READ | Rights::WRITE).unwrap();
        let kernel = BlockClient::new(kernel_endpoint, base);
        kernel.write(&mut ssd, 0, &[0x5A; 192 << 10]).unwrap();
        kernel.write(&mut ssd, OWN.end, &[0x5A; 64 << 10]).unwrap();
        let victim = BlockClient::new(victim, direct);
        Arena { ssd, kernel, victim, echo, kernel_endpoint, mallory, endpoint }
    }

    /// Installs a module, sends it random requests, and checks the others. Returns whether it was installed, and how often it
    /// was ended.
    pub fn run(&mut self, module: &[u8], random: &mut SplitMix64) -> (bool, usize) {
        let request = |random: &mut SplitMix64| Request {
            spu: random.below(3) as u32,
            handler: random.below(5) as u32,
            body: (0..random.below(64)).map(|_| random.below(256) as u8).collect(),
            after_ns: random.below(20_000),
        };
        let count = 1 + random.below(12);
        let requests = (0..count).map(|_| request(random)).collect();
        self.run_with(module, requests)
    }

    /// Runs a module with these requests.
    pub fn run_with(&mut self, module: &[u8], requests: Vec<Request>) -> (bool, usize) {
        let Ok(program) = self.ssd.install(self.mallory, module, InstallOptions::default()) else {
            return (false, 0);
        };
        let _ = self.ssd.allow_calls(program, self.echo, &[0]);
        let sent = requests.len();
        for Request { spu, handler, body, after_ns } in requests {
            let at_ns = self.ssd.now_ns() + after_ns;
            self.ssd.send(self.endpoint, SpuId(spu), (program, handler), body, at_ns).unwrap();
        }
        let (mut answers, mut ends) = (0, 0);
        while let Some(event) = self.ssd.next_event() {
            match event {
                Event::Answer { .. } => answers += 1,
                Event::Ended { program: ended, .. } => {
                    assert_eq!(ended, program, "only the attacker's program ends");
                    ends += 1;
                }
                _ => {}
            }
        }
        assert_eq!(answers, sent, "each request is answered once");
        assert!(ends <= 1);
        let _ = self.ssd.uninstall(program);
        while self.ssd.next_event().is_some() {}
        self.check();
        (true, ends)
    }

    fn check(&mut self) {
        let mut data = vec![0; 192 << 10];
        self.kernel.read(&mut self.ssd, 0, &mut data).unwrap();
        assert!(data.iter().all(|&byte| byte == 0x5A), "the victim's data changed");
        self.kernel.read(&mut self.ssd, OWN.end, &mut data[..64 << 10]).unwrap();
        assert!(data[..64 << 10].iter().all(|&byte| byte == 0x5A), "data beyond the attacker's changed");
        self.victim.read(&mut self.ssd, VICTIM.start, &mut data[..100]).unwrap();
        let now_ns = self.ssd.now_ns();
        let sent = self.ssd.send(self.kernel_endpoint, SpuId(1), (self.echo, 0), Vec::new(), now_ns).unwrap();
        let answered = self.ssd.next_event_of(self.kernel_endpoint);
        assert!(matches!(answered, Some(Event::Answer { request, status: 0, .. }) if request == sent));
    }
}

/// What modules of the generator are like: they import the drive's functions, and export handlers.
pub fn generator() -> Config {
    let exports: String =
        (0..4).map(|number| format!("(func (export \"rpc_{number}\") (param i32 i32))")).collect();
    Config {
        available_imports: Some(wat::parse_str(format!("(module {})", imports())).unwrap()),
        exports: Some(
            wat::parse_str(format!("(module (memory (export \"memory\") 1 1) {exports})")).unwrap(),
        ),
        allow_floats: false,
        allow_start_export: false,
        custom_page_sizes_enabled: false,
        exceptions_enabled: false,
        gc_enabled: false,
        compact_imports_enabled: false,
        max_table_elements: 1000,
        memory64_enabled: false,
        min_imports: 8,
        reference_types_enabled: false,
        relaxed_simd_enabled: false,
        simd_enabled: false,
        tail_call_enabled: false,
        threads_enabled: false,
        wide_arithmetic_enabled: false,
        ..Config::default()
    }
}

/// Handlers that call the drive's functions in any order, with arguments that are often nearly right.
pub fn knowing_module(random: &mut SplitMix64) -> Vec<u8> {
    let mut text = format!("(module {} (memory (export \"memory\") 1 1)", imports());
    for number in 0..4 {
        write!(text, "(func (export \"rpc_{number}\") (param i32 i32)").unwrap();
        for _ in 0..random.below(14) {
            let (name, parameters, has_result) = FUNCTIONS[random.below(FUNCTIONS.len() as u64) as usize];
            let mut call = format!("(call ${name}");
            for kind in parameters.chars() {
                match kind {
                    'I' => write!(call, " (i64.const {})", address(random) as i64).unwrap(),
                    _ => write!(call, " {}", word(random)).unwrap(),
                }
            }
            call.push(')');
            if has_result {
                call = format!("(drop {call})");
            }
            match random.below(12) {
                0 => write!(text, "(loop {call} (br_if 0 (i32.const {})))", random.below(2)).unwrap(),
                1 => write!(text, "(if (local.get 1) (then {call}))").unwrap(),
                _ => text.push_str(&call),
            }
        }
        text.push_str(")\n");
    }
    text.push(')');
    wat::parse_str(&text).unwrap()
}

fn address(random: &mut SplitMix64) -> u64 {
    let near =
        [0, 8191, 8192, VICTIM.start, OWN.start, OWN.end - 8, OWN.end, 16 << 20, u64::MAX - 7, 1 << 63];
    match random.below(4) {
        0 => random.next_u64(),
        1 => OWN.start + random.below(OWN.end - OWN.start),
        _ => near[random.below(near.len() as u64) as usize].wrapping_add(random.below(16)),
    }
}

fn word(random: &mut SplitMix64) -> String {
    let words: [u32; 14] =
        [0, 1, 2, 3, 4, 8, 100, 4096, 8192, 65_528, 0x4000_0000, 0x4000_0001, 0x4000_0002, u32::MAX];
    match random.below(8) {
        0 => "(local.get 0)".to_owned(),
        1 => "(local.get 1)".to_owned(),
        2 => format!("(i32.const {})", random.next_u64() as i32),
        _ => format!("(i32.const {})", words[random.below(14) as usize] as i32),
    }
}

/// One input of the fuzz target: a module in one of three ways, and what is sent to it.
pub fn fuzz(bytes: &[u8]) {
    thread_local! {
        static ARENA: std::cell::RefCell<Arena> = std::cell::RefCell::new(Arena::new());
    }
    let mut input = Unstructured::new(bytes);
    let Some((module, requests)) = attack(&mut input) else { return };
    ARENA.with_borrow_mut(|arena| arena.run_with(&module, requests));
}

fn attack(input: &mut Unstructured<'_>) -> Option<(Vec<u8>, Vec<Request>)> {
    let kind: u8 = input.arbitrary().ok()?;
    let mut requests = Vec::new();
    for _ in 0..input.int_in_range(1..=12).ok()? {
        requests.push(Request {
            spu: input.int_in_range(0..=2).ok()?,
            handler: input.int_in_range(0..=63).ok()?,
            body: input.arbitrary().ok()?,
            after_ns: input.int_in_range(0..=20_000).ok()?,
        });
    }
    let module = match kind % 3 {
        0 => input.bytes(input.len()).ok()?.to_vec(),
        1 => knowing_module(&mut SplitMix64(input.arbitrary().ok()?)),
        _ => Module::new(generator(), input).ok()?.to_bytes(),
    };
    Some((module, requests))
}
