//! An event whose body does not fit into the caller's buffer waits for a larger one.

use std::ffi::c_void;
use std::ptr;

use tantalum_c::call::{TANTALUM_OK, TANTALUM_SHORT_BUFFER, tantalum_last_error};
use tantalum_c::programs::{data, drive, events, install, processes, requests};

const BYTES: u64 = 16;

/// A drive, an endpoint of the kernel, and Direct-IO.
struct Opened {
    ssd: *mut drive::tantalum_ssd,
    endpoint: u32,
    direct: u32,
}

impl Opened {
    fn new() -> Opened {
        let mut opened = Opened { ssd: ptr::null_mut(), endpoint: 0, direct: 0 };
        let (mut process, mut module, mut bytes) = (processes::TANTALUM_SSD_KERNEL, ptr::null(), 0);
        // SAFETY: all pointers are to variables of this function, and the texts end with a zero.
        let results = unsafe {
            [
                drive::tantalum_ssd_open(c"tlc-nvme".as_ptr(), ptr::null(), 64 << 20, &raw mut opened.ssd),
                processes::tantalum_ssd_open_endpoint(opened.ssd, &mut process, &mut opened.endpoint),
                install::tantalum_ssd_shipped(c"direct_io".as_ptr(), &mut module, &mut bytes),
                install::tantalum_ssd_install(
                    opened.ssd,
                    process,
                    module,
                    bytes,
                    true,
                    0,
                    0,
                    &mut opened.direct,
                ),
                data::tantalum_ssd_write(opened.ssd, opened.endpoint, opened.direct, 0, [7; 16].as_ptr(), 16),
            ]
        };
        assert_eq!(results, [TANTALUM_OK; 5]);
        opened
    }

    /// Asks for the first bytes, which Direct-IO sends in a request behind a header of 16 bytes.
    fn ask_for_data(&self, tag: u8) {
        let body = [[0; 8].as_slice(), &[BYTES as u8, 0, 0, 0], &[tag, 0, 0, 0]].concat();
        let mut answer = -1;
        // SAFETY: the drive is open, and the body has its length.
        let result = unsafe {
            requests::tantalum_ssd_ask(
                self.ssd,
                self.endpoint,
                0,
                self.direct,
                0,
                body.as_ptr(),
                body.len(),
                &mut answer,
            )
        };
        assert_eq!((result, answer), (TANTALUM_OK, 0));
    }

    /// The result, the kind of event, the length it reports, and the body.
    fn receive(&self, room: usize) -> (i32, u32, usize, Vec<u8>) {
        let (mut event, mut body) = (events::tantalum_ssd_event::default(), vec![0; room]);
        // SAFETY: the drive is open, and the body has this room.
        let result = unsafe {
            events::tantalum_ssd_receive(self.ssd, self.endpoint, &mut event, body.as_mut_ptr(), room)
        };
        (result, event.kind, event.body_bytes, body)
    }

    /// Serves with one handler, which counts its calls.
    fn serve(&self, room: usize) -> (i32, u32) {
        unsafe extern "C" fn count(
            context: *mut c_void,
            event: *const events::tantalum_ssd_event,
            body: *const u8,
        ) {
            // SAFETY: the context is the counter below, and the body has the event's length.
            unsafe {
                assert_eq!(*body.add((*event).body_bytes - 1), 7);
                *context.cast::<u32>() += 1;
            }
        }
        let handler = events::tantalum_ssd_handler { number: 0, serve: Some(count) };
        let (mut event, mut body) = (events::tantalum_ssd_event::default(), vec![0; room]);
        let mut calls = 0_u32;
        // SAFETY: the drive is open, there is one handler, its context is a counter, and the body has this room.
        let result = unsafe {
            events::tantalum_ssd_serve(
                self.ssd,
                self.endpoint,
                &handler,
                1,
                (&raw mut calls).cast(),
                &mut event,
                body.as_mut_ptr(),
                room,
            )
        };
        (result, calls)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: it was opened, and is not used again.
        assert_eq!(unsafe { drive::tantalum_ssd_close(self.ssd) }, TANTALUM_OK);
    }
}

#[test]
fn an_event_that_does_not_fit_stays_until_there_is_room() {
    let opened = Opened::new();
    opened.ask_for_data(1);
    opened.ask_for_data(2);
    for _ in 0..2 {
        let (result, kind, bytes, body) = opened.receive(31);
        assert_eq!((result, kind, bytes), (TANTALUM_SHORT_BUFFER, events::TANTALUM_SSD_REQUEST, 32));
        assert_eq!(body, [0; 31], "nothing is stored");
        // SAFETY: the text is valid until the next call.
        let text = unsafe { std::ffi::CStr::from_ptr(tantalum_last_error()) };
        assert_eq!(text.to_str(), Ok("the value has 32 bytes, but the buffer only 31"));
    }
    for tag in [1, 2] {
        let (result, kind, bytes, body) = opened.receive(32);
        assert_eq!((result, kind, bytes), (TANTALUM_OK, events::TANTALUM_SSD_REQUEST, 32));
        assert_eq!((body[12], &body[16..]), (tag, &[7; 16][..]), "in their order");
    }
    assert_eq!(opened.receive(0), (TANTALUM_OK, events::TANTALUM_SSD_NOTHING, 0, vec![]));
}

#[test]
fn no_handler_is_called_with_a_body_that_does_not_fit() {
    let opened = Opened::new();
    opened.ask_for_data(1);
    assert_eq!(opened.serve(31), (TANTALUM_SHORT_BUFFER, 0));
    assert_eq!(opened.serve(32), (TANTALUM_OK, 1));
    assert_eq!(opened.serve(32), (TANTALUM_OK, 0));
}

#[test]
fn what_is_kept_goes_with_its_endpoint() {
    let mut opened = Opened::new();
    opened.ask_for_data(1);
    assert_eq!(opened.receive(0).0, TANTALUM_SHORT_BUFFER);
    let mut process = processes::TANTALUM_SSD_KERNEL;
    // SAFETY: the drive is open, and the pointers are to variables of this function.
    let results = unsafe {
        [
            processes::tantalum_ssd_close_endpoint(opened.ssd, opened.endpoint),
            processes::tantalum_ssd_open_endpoint(opened.ssd, &mut process, &mut opened.endpoint),
        ]
    };
    assert_eq!(results, [TANTALUM_OK; 2]);
    assert_eq!(opened.receive(0).1, events::TANTALUM_SSD_NOTHING, "its number is taken again");
}
