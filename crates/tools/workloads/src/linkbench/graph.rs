//! The graph that is loaded: how many links each node has, and where they lead.

use rand::Rng;

use crate::distributions::{Shuffle, log_normal, text};

/// Kinds of links (LinkBench's `link_type_count`).
pub(super) const LINK_TYPES: [u64; 2] = [123_456_789, 123_456_790];

/// (percentage of the nodes, most links of these nodes): points of the distribution that LinkBench publishes
/// (`Distribution.dat`); between them it is taken to be even in the logarithm.
const LINKS: [(f64, f64); 15] = [
    (19.747, 0.0),
    (72.985, 1.0),
    (86.738, 2.0),
    (91.817, 3.0),
    (95.869, 5.0),
    (98.341, 10.0),
    (99.222, 20.0),
    (99.652, 50.0),
    (99.7735, 100.0),
    (99.8398, 200.0),
    (99.8871, 400.0),
    (99.9085, 600.0),
    (99.9164, 700.0),
    // chosen: the longest lists of the file are left out, so that a small graph has the same shape
    (99.99, 2000.0),
    (100.0, 5000.0),
];

/// Medians of the sizes of data (LinkBench's `link_datasize` and `node_datasize`).
const LINK_DATA_BYTES: f64 = 8.0;
const NODE_DATA_BYTES: f64 = 128.0;

/// The maximum size of a link's column, and the limit of a node's data.
const LINK_DATA_LIMIT: usize = 255;
const NODE_DATA_LIMIT: usize = 4000;

/// A graph of this many nodes.
#[derive(Clone, Copy, Debug)]
pub struct Graph {
    /// The number of nodes.
    pub nodes: u64,
    shuffle: Shuffle,
}

impl Graph {
    /// A graph of this many nodes.
    pub fn new(nodes: u64) -> Graph {
        Graph { nodes, shuffle: Shuffle::new(nodes) }
    }

    /// The number of links with which the node was loaded; node 1 has the most.
    pub(super) fn links(&self, node: u64) -> u64 {
        let percent = 100.0 * (1.0 - (node as f64 - 0.5) / self.nodes as f64);
        let after = LINKS.partition_point(|(up_to, _)| *up_to < percent);
        if after <= 5 {
            return LINKS[after].1 as u64;
        }
        let ((from, least), (to, most)) = (LINKS[after - 1], LINKS[after]);
        let share = (percent - from) / (to - from);
        (least.ln() + share * (most.ln() - least.ln())).exp().round() as u64
    }

    /// The target of the node's link with that number, loaded or not.
    pub(super) fn target(&self, node: u64, number: u64) -> u64 {
        self.shuffle.of(node.wrapping_mul(31).wrapping_add(number + 1))
    }

    /// The kind of the node's link of that number.
    pub(super) fn link_type(number: u64) -> u64 {
        LINK_TYPES[(number % 2) as usize]
    }

    /// A node for a rank: always the same, and otherwise unrelated.
    pub(super) fn unrelated(&self, rank: u64) -> u64 {
        self.shuffle.of(rank)
    }
}

pub(super) fn link_data(random: &mut impl Rng) -> String {
    let bytes = log_normal(random, LINK_DATA_BYTES, 1.0) as usize;
    text(random, bytes.min(LINK_DATA_LIMIT))
}

pub(super) fn node_data(random: &mut impl Rng) -> String {
    let bytes = log_normal(random, NODE_DATA_BYTES, 1.0) as usize;
    text(random, bytes.min(NODE_DATA_LIMIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_as_many_links_as_published() {
        let graph = Graph::new(100_000);
        let links: Vec<u64> = (1..=graph.nodes).map(|node| graph.links(node)).collect();
        assert!(links.is_sorted_by(|a, b| a >= b));
        for (percent, most) in
            [(19.747, 0), (72.985, 1), (86.738, 2), (95.869, 5), (98.341, 10), (99.652, 50)]
        {
            let share = links.iter().filter(|links| **links <= most).count() as f64 / 1000.0;
            assert!((share - percent).abs() < 0.9, "{most} links: {share} instead of {percent}");
        }
    }

    #[test]
    fn links_lead_to_nodes() {
        let graph = Graph::new(1000);
        for number in 0..5000 {
            assert!((1..=1000).contains(&graph.target(7, number)));
        }
    }
}
