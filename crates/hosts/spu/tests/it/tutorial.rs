//! The tutorial's program is the shipped one.

#[test]
fn the_tutorial_shows_the_program_that_is_built_and_run() {
    let document = include_str!("../../../../../docs/programs.md");
    let (_, code) = document.split_once("```c\n").expect("the tutorial has a program");
    let (code, _) = code.split_once("```").expect("and its end");
    let shown: Vec<&str> = code.lines().map(|line| line.trim_start_matches("   ")).collect();
    let source: Vec<&str> =
        include_str!("../../programs/hits.c").lines().map(|line| line.trim_start_matches("   ")).collect();
    assert_eq!(shown[..source.len()], source[..]);
}
