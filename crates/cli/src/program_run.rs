//! `tantalum program run`: a program on the drive of an image, with messages.

use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use tantalum_drive::Drive;
use tantalum_report::table::{Align, Table, grouped};
use tantalum_spu::{
    Description, EndpointId, Event, InstallOptions, ProcessId, ProgramId, Rights, SpuId, Ssd, answer,
};

use crate::drive::opened_or_read;
use crate::failure::Failure;
use crate::output;
use crate::program_module::{description, load};

/// `tantalum program run`.
#[derive(Args, Debug)]
pub struct RunProgramOptions {
    /// The image file
    pub image: PathBuf,

    /// The module: a file, or a name of `tantalum program list`
    pub module: String,

    /// A message: processor, handler and body in hexadecimal, such as 3:0:07000000; may be repeated
    #[arg(long = "send", value_name = "SPU:HANDLER[:HEX]", required = true)]
    pub messages: Vec<Message>,

    /// Let the program read and write these bytes of the drive
    #[arg(long = "grant", value_name = "START..END")]
    pub grants: Vec<Bytes>,

    /// Act as the host's kernel, which may read and write everything
    #[arg(long, conflicts_with = "grants")]
    pub kernel: bool,

    /// Give the program these bytes as its own region, in whole rows of stripes; needs --kernel
    #[arg(long, value_name = "START..END", requires = "kernel")]
    pub region: Option<Bytes>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A message, as given on the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    spu: u32,
    handler: u32,
    body: Vec<u8>,
}

impl FromStr for Message {
    type Err = String;

    fn from_str(text: &str) -> Result<Message, String> {
        let mut parts = text.splitn(3, ':');
        let mut number = |what: &str| {
            let part = parts.next().unwrap_or("");
            part.parse::<u32>().map_err(|_| format!("\"{part}\" is not the number of a {what}"))
        };
        let (spu, handler) = (number("processor")?, number("handler")?);
        let body = parts.next().unwrap_or("");
        let digit = |at: usize| body.as_bytes()[at] as char;
        if !body.len().is_multiple_of(2) || !body.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("\"{body}\" is not a body in hexadecimal: two digits for each byte"));
        }
        let nibble = |at: usize| digit(at).to_digit(16).expect("a digit") as u8;
        let body = (0..body.len()).step_by(2).map(|at| nibble(at) << 4 | nibble(at + 1)).collect();
        Ok(Message { spu, handler, body })
    }
}

/// A range of the drive, as given on the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bytes(Range<u64>);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let expected = || format!("\"{text}\" is not a range of bytes such as 0..65536");
        let (start, end) = text.split_once("..").ok_or_else(expected)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| expected());
        let (start, end) = (number(start)?, number(end)?);
        if start < end { Ok(Bytes(start..end)) } else { Err(expected()) }
    }
}

#[derive(Serialize)]
struct Ran {
    command: &'static str,
    #[serde(with = "tantalum_control::path")]
    image: PathBuf,
    module: String,
    answers: Vec<Answer>,
    requests: Vec<Request>,
    faults: Vec<String>,
    /// The contents of each processor's serial port, as text.
    serial: Vec<String>,
    counters: Vec<u64>,
    busy_ns: Vec<u64>,
    link_bytes: (u64, u64),
}

/// The answer to a message.
#[derive(Serialize)]
struct Answer {
    processor: u32,
    handler: u32,
    name: Option<String>,
    status: i32,
    meaning: &'static str,
    ns: u64,
}

/// A request of the program to the endpoint.
#[derive(Serialize)]
struct Request {
    processor: u32,
    handler: u32,
    body: String,
}

/// Installs, sends, prints, and shuts the drive down.
pub fn run(options: &RunProgramOptions) -> Result<(), Failure> {
    let bytes = load(&options.module)?;
    let described = description(&options.module, &bytes)?;
    let path = options.image.clone();
    let device = opened_or_read(&path)?;
    let mut ssd = Ssd::new(Drive::new(device));
    let ran = on_drive(&mut ssd, options, &bytes, &described);
    let mut device = ssd.drive().lock();
    let now_ns = device.time_ns();
    let closed = device.put_away(now_ns).map_err(|status| Failure::Shutdown { path, status });
    let ran = ran?;
    closed?;
    output::report(&ran, options.json, Ran::text)?;
    if ran.faults.is_empty() { Ok(()) } else { Err(Failure::ProgramFaulted) }
}

fn on_drive(
    ssd: &mut Ssd,
    options: &RunProgramOptions,
    module: &[u8],
    described: &Description,
) -> Result<Ran, Failure> {
    let process = if options.kernel { ProcessId::KERNEL } else { ssd.process() };
    let endpoint = ssd.endpoint(process)?;
    let region = options.region.as_ref().map(|bytes| bytes.0.clone());
    let program = ssd
        .install(process, module, InstallOptions { is_open: false, region })
        .map_err(|error| Failure::Install { module: options.module.clone(), error })?;
    for Bytes(range) in &options.grants {
        ssd.grant(process, range.clone(), Rights::READ | Rights::WRITE)?;
    }
    while ssd.next_event().is_some() {}
    let mut ran = Ran {
        command: "program run",
        image: options.image.clone(),
        module: options.module.clone(),
        answers: Vec::new(),
        requests: Vec::new(),
        faults: Vec::new(),
        serial: Vec::new(),
        counters: Vec::new(),
        busy_ns: Vec::new(),
        link_bytes: (0, 0),
    };
    let before = ssd.link_bytes();
    for message in &options.messages {
        ran.send(ssd, endpoint, program, message, described)?;
    }
    let output = ssd.output(program)?;
    ran.serial = output.serial.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    ran.counters = output.counters.to_vec();
    ran.busy_ns = (0..ssd.processors()).map(|spu| ssd.busy_ns(SpuId(spu))).collect();
    let after = ssd.link_bytes();
    ran.link_bytes = (after.0 - before.0, after.1 - before.1);
    Ok(ran)
}

impl Ran {
    /// Sends a message, and collects everything that results from it.
    fn send(
        &mut self,
        ssd: &mut Ssd,
        endpoint: EndpointId,
        program: ProgramId,
        message: &Message,
        described: &Description,
    ) -> Result<(), Failure> {
        let sent_ns = ssd.now_ns();
        let to = (program, message.handler);
        ssd.send(endpoint, SpuId(message.spu), to, message.body.clone(), sent_ns)?;
        while let Some(event) = ssd.next_event() {
            let why_ended = event.why_ended();
            match event {
                Event::Answer { status, at_ns, .. } => self.answers.push(Answer {
                    processor: message.spu,
                    handler: message.handler,
                    name: described.handler_name(message.handler).map(str::to_owned),
                    status,
                    meaning: meaning(status),
                    ns: at_ns - sent_ns,
                }),
                Event::Request { spu, handler, body, .. } => self.requests.push(Request {
                    processor: spu.0,
                    handler,
                    body: body.iter().map(|byte| format!("{byte:02x}")).collect(),
                }),
                Event::Ended { spu, handler, .. } => {
                    let name = described.handler_name(handler).unwrap_or("no name");
                    let why = why_ended.unwrap_or_default();
                    self.faults.push(format!("handler {handler} ({name}) on processor {spu}: {why}"));
                }
                Event::Permission { .. } | Event::PowerLost { .. } => {}
            }
        }
        Ok(())
    }

    fn text(&self) -> String {
        let mut table = Table::new(&[
            ("processor", Align::Right),
            ("handler", Align::Right),
            ("name", Align::Left),
            ("answer", Align::Right),
            ("ns", Align::Right),
            ("", Align::Left),
        ]);
        for answer in &self.answers {
            table.push(vec![
                answer.processor.to_string(),
                answer.handler.to_string(),
                answer.name.clone().unwrap_or_default(),
                answer.status.to_string(),
                grouped(answer.ns),
                answer.meaning.to_owned(),
            ]);
        }
        let mut text = table.render();
        for Request { processor, handler, body } in &self.requests {
            text.push_str(&format!("processor {processor} sent to handler {handler} of the host: {body}\n"));
        }
        for fault in &self.faults {
            text.push_str(&format!("fault: {fault}\n"));
        }
        for (processor, serial) in self.serial.iter().enumerate().filter(|(_, serial)| !serial.is_empty()) {
            text.push_str(&format!("serial port of processor {processor}:\n{}\n", serial.trim_end()));
        }
        let counters: Vec<String> = self.counters.iter().map(|count| grouped(*count)).collect();
        text.push_str(&format!("counters: {}\n", counters.join(" ")));
        let busy: Vec<String> = self.busy_ns.iter().map(|ns| grouped(*ns)).collect();
        text.push_str(&format!("processors busy, ns: {}\n", busy.join(" ")));
        let (down, up) = self.link_bytes;
        text.push_str(&format!("link: {} bytes to the drive, {} to the host\n", grouped(down), grouped(up)));
        text
    }
}

/// The meaning of an answer by the system; handlers' own answers have no meaning here.
fn meaning(status: i32) -> &'static str {
    match status {
        answer::NOT_DELIVERED => "the processor has no room for it",
        answer::NO_PROGRAM => "no such program, record or endpoint",
        answer::NO_HANDLER => "no such handler",
        answer::NOT_ALLOWED => "not allowed",
        answer::NO_PERMISSION => "no permission: see --grant and --kernel",
        answer::NOT_LOCAL => "the range is not within one stripe of this processor",
        answer::NO_ROOM => "no room",
        answer::ENDED => "the program ended before it answered",
        answer::TIMEOUT => "no answer in time",
        answer::BAD_ARGUMENT => "bad argument",
        answer::DRIVE => "the drive below failed",
        answer::NO_ANSWER => "the handler returned without an answer",
        answer::SHORT => "the body is shorter than what the handler takes",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_ranges_are_read_and_mistakes_named() {
        let read: Message = "3:0:07fF".parse().unwrap();
        assert_eq!(read, Message { spu: 3, handler: 0, body: vec![7, 255] });
        assert!("1:2".parse::<Message>().unwrap().body.is_empty());
        for (wrong, part) in
            [("x:0", "processor"), ("1", "handler"), ("1:2:abc", "hexadecimal"), ("1:2:zz", "zz")]
        {
            let error = wrong.parse::<Message>().unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
        assert_eq!("0..4096".parse::<Bytes>().unwrap(), Bytes(0..4096));
        for wrong in ["", "5", "5..4", "a..b"] {
            assert!(wrong.parse::<Bytes>().unwrap_err().contains("range"), "{wrong}");
        }
    }
}
