//! The next operation and its parameters.

use rand::{Rng, RngExt};

use super::graph::Graph;
use crate::distributions::{Mix, Zipf, geometric};

/// The operations in the order of the papers' tables, with LinkBench's shares in percent (`FBWorkload.properties`).
const SHARES: [(&str, f64); 10] = [
    ("Get_Node", 12.932_668_3),
    ("Count_Link", 4.886_356_7),
    ("Multiget_Link", 0.526_114_2),
    ("Get_Link_List", 50.711_914_5),
    ("Add_Node", 2.573_278_9),
    ("Update_Node", 7.366_437),
    ("Delete_Node", 1.011_591_4),
    ("Add_Link", 8.988_660_1),
    ("Delete_Link", 2.990_766_4),
    ("Update_Link", 8.012_212_5),
];

/// Their names.
pub const NAMES: [&str; 10] = {
    let mut names = [""; 10];
    let mut number = 0;
    while number < names.len() {
        names[number] = SHARES[number].0;
        number += 1;
    }
    names
};

/// In percent: how many operations on links choose a node by popularity alone, and not by its number of links.
const READ_UNRELATED: f64 = 99.5;
const WRITE_UNRELATED: f64 = 95.0;

/// Zipf's exponents.
const READ_LINKS: f64 = 0.8;
const WRITE_LINKS: f64 = 0.741;
const READ_NODES: f64 = 0.625;
const UPDATE_NODES: f64 = 0.606;

/// Links requested at once.
const MULTIGET_PROBABILITY: f64 = 0.382;
const MULTIGET_LIMIT: u64 = 128;

/// One operation with its parameters. The number of a link determines its kind and its target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    GetNode { node: u64 },
    CountLink { node: u64, link: u64 },
    MultigetLink { node: u64, links: Vec<u64> },
    GetLinkList { node: u64, link: u64 },
    AddNode,
    UpdateNode { node: u64 },
    DeleteNode { node: u64 },
    AddLink { node: u64, link: u64 },
    DeleteLink { node: u64, link: u64 },
    UpdateLink { node: u64, link: u64 },
}

impl Operation {
    /// Its place in [`NAMES`].
    pub fn kind(&self) -> usize {
        match self {
            Operation::GetNode { .. } => 0,
            Operation::CountLink { .. } => 1,
            Operation::MultigetLink { .. } => 2,
            Operation::GetLinkList { .. } => 3,
            Operation::AddNode => 4,
            Operation::UpdateNode { .. } => 5,
            Operation::DeleteNode { .. } => 6,
            Operation::AddLink { .. } => 7,
            Operation::DeleteLink { .. } => 8,
            Operation::UpdateLink { .. } => 9,
        }
    }
}

/// Draws operations.
#[derive(Clone, Debug)]
pub(super) struct Operations {
    graph: Graph,
    mix: Mix,
    read_links: Zipf,
    write_links: Zipf,
    read_nodes: Zipf,
    update_nodes: Zipf,
}

impl Operations {
    pub(super) fn new(graph: Graph) -> Operations {
        let zipf = |exponent| Zipf::new(graph.nodes, exponent);
        Operations {
            mix: Mix::new(SHARES.map(|(_, share)| share)),
            read_links: zipf(READ_LINKS),
            write_links: zipf(WRITE_LINKS),
            read_nodes: zipf(READ_NODES),
            update_nodes: zipf(UPDATE_NODES),
            graph,
        }
    }

    pub(super) fn draw(&self, random: &mut impl Rng) -> Operation {
        let graph = &self.graph;
        match self.mix.draw(random) {
            0 => Operation::GetNode { node: graph.unrelated(self.read_nodes.draw(random)) },
            1 => {
                let node = self.reader(random);
                Operation::CountLink { node, link: random.random_range(0..2) }
            }
            2 => {
                let node = self.reader(random);
                let links = geometric(random, MULTIGET_PROBABILITY, MULTIGET_LIMIT);
                Operation::MultigetLink {
                    node,
                    links: (0..links).map(|_| self.loaded(random, node)).collect(),
                }
            }
            3 => {
                let node = self.reader(random);
                Operation::GetLinkList { node, link: random.random_range(0..2) }
            }
            4 => Operation::AddNode,
            5 => Operation::UpdateNode { node: graph.unrelated(self.update_nodes.draw(random)) },
            6 => Operation::DeleteNode { node: random.random_range(1..=graph.nodes) },
            7 => {
                let node = self.writer(random);
                // as likely to exist as not
                Operation::AddLink { node, link: random.random_range(0..=2 * graph.links(node)) }
            }
            8 => {
                let node = self.writer(random);
                Operation::DeleteLink { node, link: self.loaded(random, node) }
            }
            _ => {
                let node = self.writer(random);
                Operation::UpdateLink { node, link: self.loaded(random, node) }
            }
        }
    }

    /// One of the links with which the node was loaded; the first if it had none.
    fn loaded(&self, random: &mut impl Rng, node: u64) -> u64 {
        random.random_range(0..self.graph.links(node).max(1))
    }

    fn reader(&self, random: &mut impl Rng) -> u64 {
        self.node(random, &self.read_links, READ_UNRELATED)
    }

    fn writer(&self, random: &mut impl Rng) -> u64 {
        self.node(random, &self.write_links, WRITE_UNRELATED)
    }

    /// A node for links. Nodes with small numbers have many links, so a rank is used directly as the number.
    fn node(&self, random: &mut impl Rng, popularity: &Zipf, unrelated_percent: f64) -> u64 {
        let rank = popularity.draw(random);
        let unrelated = random.random::<f64>() * 100.0 < unrelated_percent;
        if unrelated { self.graph.unrelated(rank) } else { rank }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn operations_have_their_published_shares() {
        const DRAWS: usize = 100_000;
        let operations = Operations::new(Graph::new(10_000));
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut seen = [0.0; 10];
        for _ in 0..DRAWS {
            seen[operations.draw(&mut random).kind()] += 100.0 / DRAWS as f64;
        }
        for ((name, share), seen) in SHARES.iter().zip(seen) {
            assert!((seen - share).abs() < 0.5, "{name}: {seen} instead of {share}");
        }
        let total: f64 = SHARES.iter().map(|(_, share)| share).sum();
        assert!((total - 100.0).abs() < 1e-3, "{total}");
    }

    #[test]
    fn the_same_seed_gives_the_same_operations() {
        let operations = Operations::new(Graph::new(100));
        let draw = || {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
            (0..1000).map(|_| operations.draw(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(draw(), draw());
    }
}
