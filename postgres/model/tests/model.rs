use doclock_postgres_model::*;
use stateright::{Checker, Model};
#[test]
fn explore() {
    let e = |n: &str, d: u8| std::env::var(n).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
    let b = Bounds { epochs: e("E",2), locals: e("L",1), requests: e("R",1), cancels: e("C",1), crashes: e("K",1), losses: e("X",1), slow_ticks: e("S",1), failovers: e("F",0) };
    let c = Protocol::new(b).checker().threads(2).spawn_bfs().join();
    println!("{} states, {} unique, depth {}", c.state_count(), c.unique_state_count(), c.max_depth());
    for ev in Event::ALL { println!("{ev:?} {}", c.model().reached(ev)); }
    for (n, p) in c.discoveries() { println!("{n}: {:#?}", p.into_actions()); }
}
