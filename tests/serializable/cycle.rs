//! Cycles in a graph of dependencies between transactions.

use std::collections::VecDeque;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, EdgeIndex, NodeIndex};
use petgraph::visit::{EdgeFiltered, EdgeRef};

use crate::anomaly::{Class, Cycle, Dependency, Edge};
use crate::history::History;

type Graph = DiGraph<(), Dependency>;

/// The most nodes and edges visited in a search for a shorter cycle than the first. That is enough
/// for 1,000 transactions; a much larger history may have a shorter cycle than the result.
const EFFORT: usize = 10_000_000;

/// A shortest cycle of the least class that has one; cycles without real time first.
pub(crate) fn shortest_cycle(edges: &[Edge]) -> Option<Cycle> {
    let ends = |edge: &Edge| (edge.from as u32, edge.to as u32, edge.why);
    let graph = Graph::from_edges(edges.iter().map(ends));
    // Tarjan's algorithm is recursive in petgraph, Kosaraju's is not.
    if kosaraju_scc(&graph).iter().all(|part| part.len() == 1) {
        return None;
    }
    [false, true].into_iter().find_map(|real_time| {
        let classes = [Class::G0, Class::G1c, Class::GSingle, Class::G2];
        classes.into_iter().find_map(|class| {
            let cycle = cycle_within(&graph, Rules { class, real_time })?;
            Some(Cycle {
                class,
                real_time,
                edges: cycle
                    .into_iter()
                    .map(|edge| edge_of(&graph, edge))
                    .collect(),
            })
        })
    })
}

/// The edges allowed in a cycle.
#[derive(Clone, Copy)]
struct Rules {
    class: Class,
    real_time: bool,
}

impl Rules {
    /// Whether the edge may be the first of the cycle.
    fn first(self, why: Dependency) -> bool {
        match self.class {
            Class::GSingle => matches!(why, Dependency::ReadWrite { .. }),
            _ => self.later(why),
        }
    }

    fn later(self, why: Dependency) -> bool {
        match why {
            Dependency::WriteWrite { .. } => true,
            Dependency::WriteRead { .. } => self.class >= Class::G1c,
            Dependency::ReadWrite { .. } => self.class == Class::G2,
            Dependency::RealTime => self.real_time,
        }
    }

    fn any(self, why: Dependency) -> bool {
        self.first(why) || self.later(why)
    }
}

fn cycle_within(graph: &Graph, rules: Rules) -> Option<Vec<EdgeIndex>> {
    let mut search = Search {
        graph,
        rules,
        parts: parts(graph, rules),
        effort: 0,
    };
    let starts = graph
        .edge_indices()
        .filter(|edge| rules.first(graph[*edge]));
    let mut shortest: Option<Vec<EdgeIndex>> = None;
    for start in starts {
        let bound = shortest.as_ref().map_or(usize::MAX, Vec::len);
        if bound == 2 || (bound < usize::MAX && search.effort > EFFORT) {
            break;
        }
        shortest = search.close(start, bound).or(shortest);
    }
    shortest
}

/// The strongly connected component of each transaction: a cycle stays in one.
fn parts(graph: &Graph, rules: Rules) -> Vec<usize> {
    let mut parts = vec![0; graph.node_count()];
    let filtered = EdgeFiltered::from_fn(graph, |edge| rules.any(*edge.weight()));
    for (part, nodes) in kosaraju_scc(&filtered).into_iter().enumerate() {
        for node in nodes {
            parts[node.index()] = part;
        }
    }
    parts
}

struct Search<'g> {
    graph: &'g Graph,
    rules: Rules,
    parts: Vec<usize>,
    /// How many nodes and edges were visited.
    effort: usize,
}

impl Search<'_> {
    /// The shortest cycle through an edge, if it has fewer edges than `bound`.
    fn close(&mut self, start: EdgeIndex, bound: usize) -> Option<Vec<EdgeIndex>> {
        let (goal, from) = self.graph.edge_endpoints(start)?;
        let part = self.parts[goal.index()];
        if self.parts[from.index()] != part {
            return None;
        }
        let mut came: Vec<Option<EdgeIndex>> = vec![None; self.graph.node_count()];
        self.effort += came.len();
        came[from.index()] = Some(start);
        let mut queue = VecDeque::from([(from, 1)]);
        while let Some((node, length)) = queue.pop_front() {
            if length + 1 >= bound {
                return None;
            }
            for edge in self.graph.edges(node) {
                self.effort += 1;
                let to = edge.target();
                let leads_on = self.rules.later(*edge.weight());
                if !leads_on || self.parts[to.index()] != part || came[to.index()].is_some() {
                    continue;
                }
                came[to.index()] = Some(edge.id());
                if to == goal {
                    return Some(self.way(&came, start, goal));
                }
                queue.push_back((to, length + 1));
            }
        }
        None
    }

    /// The edges from `start` to `goal` in a search.
    fn way(&self, came: &[Option<EdgeIndex>], start: EdgeIndex, goal: NodeIndex) -> Vec<EdgeIndex> {
        let mut way = Vec::new();
        let mut node = goal;
        while let Some(edge) = came[node.index()] {
            way.push(edge);
            match self.graph.edge_endpoints(edge) {
                Some((from, _)) if edge != start => node = from,
                _ => break,
            }
        }
        way.reverse();
        way
    }
}

fn edge_of(graph: &Graph, edge: EdgeIndex) -> Edge {
    let (from, to) = graph.edge_endpoints(edge).unwrap();
    Edge {
        from: from.index(),
        to: to.index(),
        why: graph[edge],
    }
}

/// Pairs of transactions where one ended before the other began, without implied pairs: at most as
/// many for each transaction as ran concurrently.
pub(crate) fn real_time(history: &History) -> Vec<Edge> {
    let mut events = Vec::new();
    for (number, transaction) in history.transactions.iter().enumerate() {
        if let Some(time) = transaction.time.as_ref().filter(|_| transaction.committed) {
            events.push((time.start, false, number, time));
            events.push((time.end, true, number, time));
        }
    }
    events.sort_unstable_by_key(|(tick, over, number, _)| (*tick, *over, *number));
    let mut edges = Vec::new();
    // Ended, and not before the beginning of another one that has ended.
    let mut latest: Vec<(usize, u64)> = Vec::new();
    for (_, over, to, time) in events {
        if over {
            latest.retain(|(_, end)| *end >= time.start);
            latest.push((to, time.end));
        } else {
            let why = Dependency::RealTime;
            edges.extend(latest.iter().map(|&(from, _)| Edge { from, to, why }));
        }
    }
    edges
}
