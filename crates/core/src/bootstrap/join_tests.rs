//! Ranks as threads on loopback: arrival, exchanges, strangers, deaths, disagreement and the end.

use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::super::rendezvous::create_unique_id;
use super::*;
use crate::config::Config;

/// No test waits longer than this for anything.
const LIMIT: Duration = Duration::from_secs(30);

fn settings() -> Settings {
    Settings {
        connect: Duration::from_secs(20),
        ..Settings::from_config(&Config::built_in())
    }
}

fn new_id(settings: &Settings) -> UniqueId {
    create_unique_id(settings, Reach::ThisHost).unwrap()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// Runs `body` on a thread for each rank in `ranks`; results come with their rank as they end.
fn each_rank<T: Send + 'static>(
    ranks: impl IntoIterator<Item = u32>,
    body: impl Fn(u32) -> T + Send + Sync + Clone + 'static,
) -> Receiver<(u32, T)> {
    let (done, results) = channel();
    for rank in ranks {
        let (body, done) = (body.clone(), done.clone());
        thread::spawn(move || {
            let result = body(rank);
            let _ = done.send((rank, result));
        });
    }
    results
}

fn collect<T>(results: &Receiver<(u32, T)>, count: usize) -> Vec<(u32, T)> {
    let mut all: Vec<_> = (0..count)
        .map(|n| {
            results
                .recv_timeout(LIMIT)
                .unwrap_or_else(|_| panic!("only {n} of {count} ended"))
        })
        .collect();
    all.sort_by_key(|(rank, _)| *rank);
    all
}

fn join(id: UniqueId, rank: u32, size: u32, settings: &Settings) -> Result<ControlPlane> {
    ControlPlane::join(&JoinParams {
        id: &id,
        rank,
        size,
        settings,
    })
}

fn blob(rank: u32, salt: u32) -> Vec<u8> {
    (0..rank % 37 + 1)
        .map(|i| u8::try_from((rank * 31 + i * 7 + salt) % 251).unwrap())
        .collect()
}

#[test]
fn worlds_of_any_size_form_exchange_and_end() {
    for size in [1u32, 2, 5, 17, 40] {
        let settings = settings();
        let id = new_id(&settings);
        let results = each_rank(0..size, move |rank| {
            let plane = join(id, rank, size, &settings).unwrap();
            assert_eq!((plane.rank(), plane.size()), (rank, size));
            assert_eq!(plane.members().len(), usize::try_from(size).unwrap());
            for round in 0..3 {
                let records = plane.allgather("test", &blob(rank, round), soon()).unwrap();
                let expected: Vec<_> = (0..size).map(|r| blob(r, round)).collect();
                assert_eq!(records, expected, "round {round} at rank {rank} of {size}");
            }
            plane.barrier("end", soon()).unwrap();
            let key = plane.key();
            let state = Arc::clone(&plane.state);
            plane.close(soon());
            assert!(
                size == 1 || state.read(|board| board.ended),
                "rank {rank} of {size} ended in order"
            );
            assert!(state.failure().is_none());
            key
        });
        let keys = collect(&results, usize::try_from(size).unwrap());
        assert!(keys.iter().all(|(_, key)| *key == keys[0].1), "one key for all");
    }
}
