//! Modules of a generator, and of one that knows the drive's functions: no panic, no escape, others' data untouched.
//! `SPU_SEEDS=20000` runs more of them, `SPU_SEED=17` one. `fuzz/run spu_module` looks for more.

use crate::common;
use crate::hostile;

use arbitrary::Unstructured;
use common::seeds;
use hostile::{Arena, generator, knowing_module};
use tantalum_image::SplitMix64;
use wasm_smith::Module;

#[test]
fn modules_of_a_generator_harm_nobody() {
    let config = generator();
    let mut arena = Arena::new();
    let (mut installed, mut ended) = (0, 0);
    for seed in seeds(150) {
        println!("seed {seed}");
        let mut random = SplitMix64(seed);
        let bytes: Vec<u8> = (0..4096).map(|_| random.below(256) as u8).collect();
        let Ok(module) = Module::new(config.clone(), &mut Unstructured::new(&bytes)) else { continue };
        let (is_installed, ends) = arena.run(&module.to_bytes(), &mut random);
        (installed, ended) = (installed + usize::from(is_installed), ended + ends);
    }
    println!("{installed} were installed, {ended} ended");
    assert!(std::env::var("SPU_SEED").is_ok() || installed > 20, "{installed}");
}

#[test]
fn modules_that_know_the_drive_s_functions_harm_nobody() {
    let mut arena = Arena::new();
    let (mut installed, mut ended) = (0, 0);
    for seed in seeds(400) {
        println!("seed {seed}");
        let mut random = SplitMix64(seed);
        let module = knowing_module(&mut random);
        let (is_installed, ends) = arena.run(&module, &mut random);
        (installed, ended) = (installed + usize::from(is_installed), ended + ends);
    }
    println!("{installed} were installed, {ended} ended");
    assert!(std::env::var("SPU_SEED").is_ok() || installed > 100, "{installed}");
}

#[test]
fn random_inputs_of_the_fuzz_target_harm_nobody() {
    for seed in seeds(60) {
        println!("seed {seed}");
        let mut random = SplitMix64(seed);
        let bytes: Vec<u8> = (0..4096).map(|_| random.below(256) as u8).collect();
        hostile::fuzz(&bytes);
    }
}
