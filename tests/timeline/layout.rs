use std::time::Duration;

use super::*;

fn names(timeline: &Timeline) -> Vec<String> {
    let layout = TimelineLayout::new(timeline);
    let tracks = layout.track_of.iter();
    tracks
        .map(|track| layout.tracks[*track].to_string())
        .collect()
}

#[test]
fn requests_of_one_owner_that_overlap_are_on_different_tracks() {
    let entries = [
        released(1, "ann", 0, 0, 10),
        released(2, "ben", 0, 10, 30),
        released(3, "ann", 5, 30, 40),
        released(4, "ann", 10, 40, 50),
    ];
    assert_eq!(
        names(&timeline(60, entries)),
        ["ann", "ben", "ann (2)", "ann"]
    );
}

#[test]
fn the_tracks_of_an_owner_follow_one_another() {
    for seed in 0..50 {
        let timeline = simulated(seed, 300);
        let layout = TimelineLayout::new(&timeline);
        let owners: Vec<usize> = layout.tracks.iter().map(|track| track.owner).collect();
        assert!(owners.is_sorted(), "seed {seed}: {owners:?}");
        for (position, entry) in timeline.entries.iter().enumerate() {
            let track = &layout.tracks[layout.track_of[position]];
            assert_eq!(track.owner_id, &entry.owner_id, "seed {seed}");
            assert_eq!(layout.owners[track.owner], &entry.owner_id, "seed {seed}");
        }
    }
}

#[test]
fn requests_of_one_track_follow_one_another() {
    for seed in 0..50 {
        let timeline = simulated(seed, 300);
        let layout = TimelineLayout::new(&timeline);
        let mut ends = vec![Duration::ZERO; layout.tracks.len()];
        for &position in &layout.order {
            let wait = layout.wait(position);
            let end = &mut ends[layout.track_of[position]];
            assert!(wait.start >= *end, "seed {seed}, entry {position}");
            *end = layout.hold(position).map_or(wait.end, |hold| hold.end);
        }
    }
}
