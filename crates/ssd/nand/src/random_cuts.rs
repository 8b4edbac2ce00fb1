//! Random programs, copybacks, erases and power cuts, checked against a model that keeps whole copies of every page.
//!
//! The model keeps the medium as it was when everything was last settled, and a list of the operations issued since.
//! After a cut it replays the list without those that were undone.

use crate::faults::Faults;
use crate::in_flight::{InFlight, Operation, Outcome};
use crate::nand::Nand;
use crate::operations::Source;
use crate::schedule::Scheduling;
use crate::test_support::{GEOMETRY, TIMING, data, nand, read_tag, spare};
use tantalum_image::NandError;
use tantalum_image::SplitMix64;
use tantalum_image::{BlockId, PageId, Ppn, UNIT_SPARE_BYTES, UnitSpare};
use tantalum_image::{MOVED, PageState};

const UNITS: usize = 2;

/// What a page holds according to the model. No units: padding.
#[derive(Clone, PartialEq, Debug)]
enum Page {
    Erased,
    Uncorrectable,
    Programmed([Option<u64>; UNITS], Box<[UnitSpare; UNITS]>),
}

struct Issued {
    operation: Operation,
    end_ns: u64,
    programmed: Page,
}

struct Model {
    settled: Vec<Page>,
    issued: Vec<Issued>,
    random: SplitMix64,
    tag: u64,
    now_ns: u64,
    torn: u64,
    undone: u64,
}

impl Model {
    fn new(seed: u64) -> Model {
        let settled = vec![Page::Erased; GEOMETRY.pages() as usize];
        Model { settled, issued: Vec::new(), random: SplitMix64(seed), tag: 0, now_ns: 0, torn: 0, undone: 0 }
    }

    fn apply(pages: &mut [Page], issued: &Issued) {
        match issued.operation {
            Operation::Program(page) => pages[page.index()] = issued.programmed.clone(),
            Operation::Erase(block) => pages[pages_of(block)].fill(Page::Erased),
            Operation::Store => unreachable!("this medium has no memory beside the flash"),
        }
    }

    fn current(&self) -> Vec<Page> {
        let mut pages = self.settled.clone();
        self.issued.iter().for_each(|issued| Self::apply(&mut pages, issued));
        pages
    }

    fn issue(&mut self, operation: Operation, programmed: Page, result: &Result<u64, NandError>) {
        let end_ns = match result {
            Ok(done_ns) | Err(NandError::ProgramFailed { done_ns, .. }) => *done_ns,
            Err(NandError::PowerLost) => u64::MAX,
            Err(error) => panic!("{error}"),
        };
        self.issued.push(Issued { operation, end_ns, programmed });
    }

    // -- one step ---------------------------------------------------------------------------------------------

    fn step(&mut self, nand: &mut Nand) {
        let block = BlockId(self.random.below(u64::from(GEOMETRY.blocks())) as u32);
        let earliest_ns = self.now_ns + self.random.below(3_000);
        if nand.next_page(block) == GEOMETRY.pages_per_block {
            let result = nand.erase(block, earliest_ns);
            self.issue(Operation::Erase(block), Page::Erased, &result);
        } else {
            self.program(nand, block, earliest_ns);
        }
        if nand.has_power() && self.random.below(2) == 0 {
            self.read(nand, earliest_ns);
        }
        if nand.has_power() && self.random.below(3) == 0 {
            self.now_ns += self.random.below(2_000);
            nand.advance(self.now_ns);
            // Operations done by that time are settled; an earlier one still in flight keeps all later ones unsettled.
            while self.issued.first().is_some_and(|issued| issued.end_ns <= self.now_ns) {
                let issued = self.issued.remove(0);
                Self::apply(&mut self.settled, &issued);
            }
        }
    }

    /// A read returns the current contents, and not before they are on flash or in a place from which they were copied.
    fn read(&mut self, nand: &mut Nand, earliest_ns: u64) {
        let ppn = Ppn(self.random.below(u64::from(GEOMETRY.units())) as u32);
        let (page, current) = (GEOMETRY.page_of(ppn), self.current());
        let Page::Programmed(tags, _) = &current[page.index()] else { return };
        if !is_defined(nand, &current, ppn) {
            return;
        }
        let mut unit = data(0);
        let done_ns = nand.read(ppn, &mut unit, earliest_ns).unwrap();
        assert_eq!(unit, data(tags[ppn.index() % UNITS].unwrap_or(0)), "unit {ppn}");
        let holds = |(index, held): &(usize, &Page)| match held {
            Page::Programmed(held, _) => {
                *index == page.index()
                    || tags[ppn.index() % UNITS].is_some_and(|tag| held.contains(&Some(tag)))
            }
            _ => false,
        };
        let places = current.iter().enumerate().filter(holds);
        let there_ns = places.map(|(index, _)| self.programmed_ns(PageId(index as u32))).min();
        assert!(there_ns.is_some_and(|there_ns| there_ns < done_ns), "{page} was read before it was there");
    }

    /// When the last program of a page was done; 0 if that was before anything that can be undone.
    fn programmed_ns(&self, page: PageId) -> u64 {
        let program = self.issued.iter().rfind(|issued| issued.operation == Operation::Program(page));
        program.map_or(0, |issued| issued.end_ns)
    }

    fn program(&mut self, nand: &mut Nand, block: BlockId, earliest_ns: u64) {
        let page = GEOMETRY.page(block, nand.next_page(block));
        let current = self.current();
        let mut tags = [None; UNITS];
        let mut spares = [[0; UNIT_SPARE_BYTES]; UNITS];
        let mut staged = Vec::new();
        let sources: [Source; UNITS] = std::array::from_fn(|unit| {
            self.tag += 1;
            spares[unit] = spare(self.tag);
            let ppn = Ppn(self.random.below(u64::from(GEOMETRY.units())) as u32);
            match (self.random.below(5), &current[GEOMETRY.page_of(ppn).index()]) {
                (0, _) => Source::Padding,
                (1..=2, Page::Programmed(copied, _)) if is_defined(nand, &current, ppn) => {
                    tags[unit] = copied[ppn.index() % UNITS];
                    Source::Copy(ppn)
                }
                _ => {
                    tags[unit] = Some(self.tag);
                    let slot = nand.stage(&data(self.tag)).unwrap();
                    staged.push(slot);
                    Source::Staged(slot)
                }
            }
        });
        let result = match self.random.below(2) {
            0 => nand.program(page, &sources, &spares, earliest_ns),
            _ => nand.program_in_background(page, &sources, &spares, earliest_ns),
        };
        let failed = matches!(result, Err(NandError::ProgramFailed { .. }));
        let programmed = if failed { Page::Uncorrectable } else { Page::Programmed(tags, Box::new(spares)) };
        self.issue(Operation::Program(page), programmed, &result);
        if failed {
            staged.into_iter().for_each(|slot| nand.release(slot));
        }
    }

    // -- the cut ----------------------------------------------------------------------------------------------

    fn cut(&mut self, nand: &mut Nand) {
        let in_flight: Vec<InFlight> = nand.in_flight().collect();
        let issued: Vec<InFlight> =
            nand.power.issued.iter().map(crate::in_flight::Issued::in_flight).collect();
        assert_eq!(issued.len(), self.issued.len(), "the medium keeps what may be undone, and no more");
        let cut = nand.power.cut.unwrap();
        let mut outcomes = Vec::new();
        let mut random = SplitMix64(self.random.next_u64());
        let mut torn_pages = SplitMix64(self.random.next_u64());
        let lost = nand
            .resolve(
                &mut |in_flight| {
                    let outcome =
                        [Outcome::NotStarted, Outcome::Torn, Outcome::Completed][random.below(3) as usize];
                    outcomes.push((*in_flight, outcome));
                    outcome
                },
                &mut || torn_pages.next_u64(),
            )
            .unwrap();
        assert_eq!(outcomes.iter().map(|(in_flight, _)| *in_flight).collect::<Vec<_>>(), in_flight);
        self.replay(nand, &issued, cut.at_ns, &outcomes);
        for (slot, spare) in lost.into_iter().flat_map(|program| program.units) {
            let mut bytes = data(0);
            nand.read_slot(slot, &mut bytes).unwrap();
            assert_eq!(
                bytes,
                data(u64::from_le_bytes(spare[..8].try_into().unwrap())),
                "it is what was staged"
            );
            nand.release(slot);
        }
        self.now_ns = cut.at_ns;
    }

    fn replay(&mut self, nand: &Nand, issued: &[InFlight], at_ns: u64, outcomes: &[(InFlight, Outcome)]) {
        for (model, issued) in std::mem::take(&mut self.issued).iter().zip(issued) {
            assert_eq!(model.operation, issued.operation);
            match outcomes.iter().find(|(in_flight, _)| in_flight == issued) {
                Some((_, Outcome::Completed)) => Self::apply(&mut self.settled, model),
                Some((_, Outcome::NotStarted)) => self.undone += 1,
                Some((_, Outcome::Torn)) => self.tear(nand, model.operation),
                None if issued.end_ns <= at_ns => Self::apply(&mut self.settled, model),
                None => {
                    assert!(issued.start_ns >= at_ns, "what was neither done nor on its way was queued");
                    self.undone += 1;
                }
            }
        }
    }

    fn tear(&mut self, nand: &Nand, operation: Operation) {
        self.torn += 1;
        match operation {
            Operation::Store => unreachable!("this medium has no memory beside the flash"),
            Operation::Program(page) => self.settled[page.index()] = Page::Uncorrectable,
            Operation::Erase(block) => {
                assert_eq!(nand.next_page(block), GEOMETRY.pages_per_block, "a torn block must be erased");
                for page in pages_of(block) {
                    match nand.page_state(PageId(page as u32)) {
                        PageState::Erased => self.settled[page] = Page::Erased,
                        PageState::Uncorrectable => self.settled[page] = Page::Uncorrectable,
                        PageState::Programmed => {} // old: compared below
                    }
                }
            }
        }
    }

    // -- comparison -------------------------------------------------------------------------------------------

    fn assert_same(&self, nand: &mut Nand) {
        let current = self.current();
        let mut spares = [[0; UNIT_SPARE_BYTES]; UNITS];
        for (index, page) in current.iter().enumerate() {
            let id = PageId(index as u32);
            match (nand.read_spares(id, &mut spares, 0).unwrap().0, page) {
                (PageState::Erased, Page::Erased) | (PageState::Uncorrectable, Page::Uncorrectable) => {}
                (PageState::Programmed, Page::Programmed(tags, expected)) => {
                    assert_eq!(&spares, &**expected, "spare areas of page {id}");
                    for (unit, tag) in tags.iter().enumerate() {
                        let ppn = GEOMETRY.unit(id, unit as u32);
                        if is_defined(nand, &current, ppn) {
                            assert_eq!(read_tag(nand, ppn.0), tag.unwrap_or(0), "unit {ppn}");
                        }
                    }
                }
                (state, page) => panic!("page {id} is {state:?} and should be {page:?}"),
            }
        }
    }
}

/// An image in a file does not remember that a place passed on its bytes, once the copy is gone.
fn forget_undefined(model: &mut Model, nand: &Nand) {
    let current = model.current();
    for (index, page) in model.settled.iter_mut().enumerate() {
        let Page::Programmed(tags, _) = page else { continue };
        for (unit, tag) in tags.iter_mut().enumerate() {
            if !is_defined(nand, &current, GEOMETRY.unit(PageId(index as u32), unit as u32)) {
                *tag = Some(UNDEFINED);
            }
        }
    }
}

fn pages_of(block: BlockId) -> std::ops::Range<usize> {
    let first = GEOMETRY.page(block, 0).index();
    first..first + GEOMETRY.pages_per_block as usize
}

fn tag_at(pages: &[Page], unit: usize) -> Option<u64> {
    match &pages[unit / UNITS] {
        Page::Programmed(tags, _) => tags[unit % UNITS],
        Page::Erased | Page::Uncorrectable => None,
    }
}

/// Tag of a unit whose last copy has been erased: what it reads as is undefined.
const UNDEFINED: u64 = u64::MAX;

/// Whether a place's bytes are defined: its own, or handed on to a copy that is still there.
fn is_defined(nand: &Nand, pages: &[Page], ppn: Ppn) -> bool {
    let (entry, tag) = (nand.slot_of[ppn.index()], tag_at(pages, ppn.index()));
    let owner = nand.slot_of.iter().position(|&other| other == entry & !MOVED);
    tag != Some(UNDEFINED) && (entry & MOVED == 0 || owner.is_some_and(|owner| tag_at(pages, owner) == tag))
}

/// Each slot in use has one owner, and each owner a slot.
fn assert_no_slot_is_lost(nand: &Nand) {
    let mut owned: Vec<u32> =
        nand.slot_of.iter().copied().filter(|&entry| entry != 0 && entry & MOVED == 0).collect();
    assert_eq!(nand.slots_in_use() as usize, owned.len());
    owned.sort_unstable();
    owned.dedup();
    assert_eq!(nand.slots_in_use() as usize, owned.len(), "no slot has two owners");
}

/// Runs `rounds` of operations, each ended by a cut; `reopen` may replace the medium after each.
fn run(seed: u64, mut nand: Nand, rounds: u64, faults: Faults, reopen: impl Fn(Nand) -> Nand) {
    println!("seed {seed}");
    let mut model = Model::new(seed);
    let suspend = Scheduling::Suspend { cost_ns: 30, times: 2 };
    let scheduling = [Scheduling::Fifo, Scheduling::ReadFirst, suspend][(seed % 3) as usize];
    nand.set_scheduling(scheduling);
    for _ in 0..rounds {
        nand.set_faults(Faults { seed: model.random.next_u64(), ..faults });
        let operations = 1 + model.random.below(60);
        if model.random.below(2) == 0 {
            nand.cut_after(Some(operations));
            while nand.has_power() {
                model.step(&mut nand);
            }
        } else {
            (0..operations).for_each(|_| model.step(&mut nand));
            model.assert_same(&mut nand);
            nand.power_fail(model.now_ns + model.random.below(20_000));
        }
        model.cut(&mut nand);
        model.assert_same(&mut nand);
        assert_no_slot_is_lost(&nand);
        forget_undefined(&mut model, &nand);
        nand = reopen(nand);
        nand.set_scheduling(scheduling);
        model.assert_same(&mut nand);
        assert_no_slot_is_lost(&nand);
    }
    assert!(
        model.torn > rounds / 10 && model.undone > rounds,
        "the cuts hit: {} {}",
        model.torn,
        model.undone
    );
}

const FAULTS: Faults = Faults {
    seed: 0,
    program_failure_ppm: 50_000,
    erase_failure_ppm: 0,
    read_failure_ppm: 0,
    endurance_cycles: None,
};

#[test]
fn random_cuts_leave_in_memory_what_the_model_says() {
    for seed in 0..60 {
        run(seed, nand(), 60, FAULTS, |nand| nand);
    }
}

#[test]
fn random_cuts_leave_in_a_clone_what_the_model_says() {
    for seed in 100..110 {
        run(seed, nand(), 60, FAULTS, |nand| nand.try_clone().unwrap());
    }
}

#[test]
fn random_cuts_leave_in_a_file_what_the_model_says() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 200..212 {
        let path = folder.path().join(seed.to_string());
        let nand = Nand::create(&path, GEOMETRY, TIMING, "", 0).unwrap();
        run(seed, nand, 60, FAULTS, |nand| {
            drop(nand);
            Nand::open(&path).unwrap()
        });
    }
}
