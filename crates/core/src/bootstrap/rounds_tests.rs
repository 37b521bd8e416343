//! Exchanges over whole trees in memory, and what is refused.

use super::*;

fn entry(rank: u32, what: &str) -> Entry {
    Entry {
        rank,
        what: what.into(),
        blob: blob(rank),
    }
}

fn blob(rank: u32) -> Vec<u8> {
    (0..rank % 50)
        .map(|i| u8::try_from((rank * 7 + i) % 251).unwrap())
        .collect()
}

/// Runs one exchange over `size` ranks whose members enter in the order given; returns each rank's results.
fn exchange(nodes: &mut [Rounds], tree: Tree, round: u64, order: &[u32]) -> Vec<Vec<Vec<u8>>> {
    let now = Instant::now();
    let mut results: Vec<Option<Vec<Vec<u8>>>> = vec![None; nodes.len()];
    for &rank in order {
        let mut queue: Vec<(u32, Step)> = vec![(
            rank,
            nodes[rank as usize]
                .gather(round, vec![entry(rank, "test")], now)
                .unwrap(),
        )];
        while let Some((at, step)) = queue.pop() {
            assert_eq!(step.disagreement, None);
            for message in step.up {
                let Message::Gather { round, entries } = message else {
                    panic!("{message:?}")
                };
                let parent = tree.parent(at).unwrap();
                queue.push((
                    parent,
                    nodes[parent as usize].gather(round, entries, now).unwrap(),
                ));
            }
            for message in step.down {
                let Message::Spread { round, entries } = message else {
                    panic!("{message:?}")
                };
                for child in tree.children(at) {
                    queue.push((
                        child,
                        nodes[child as usize].spread(round, entries.clone()).unwrap(),
                    ));
                }
            }
            if let Some((done, records)) = step.done {
                assert_eq!(done, round);
                assert!(results[at as usize].replace(records).is_none());
            }
        }
    }
    results.into_iter().map(Option::unwrap).collect()
}

#[test]
fn every_rank_gets_every_record_in_any_order_of_entry() {
    for (size, arity) in [(1, 16), (2, 16), (5, 2), (17, 16), (40, 3), (400, 16)] {
        let tree = Tree::with_arity(size, arity);
        let mut nodes: Vec<Rounds> = (0..size).map(|rank| Rounds::new(tree, rank, size)).collect();
        let expected: Vec<Vec<u8>> = (0..size).map(blob).collect();
        let forward: Vec<u32> = (0..size).collect();
        let backward: Vec<u32> = (0..size).rev().collect();
        let mixed: Vec<u32> = forward.iter().map(|r| (r * 7 + 3) % size).collect();
        let orders = if size % 7 == 0 {
            vec![forward, backward]
        } else {
            vec![forward, backward, mixed]
        };
        for (round, order) in (0..).zip(orders) {
            for records in exchange(&mut nodes, tree, round, &order) {
                assert_eq!(records, expected, "{size} ranks, arity {arity}");
            }
        }
    }
}

#[test]
fn large_records_travel_in_batches() {
    let tree = Tree::new(3);
    let now = Instant::now();
    let mut root = Rounds::new(tree, 0, 3);
    let big = |rank| Entry {
        rank,
        what: "x".into(),
        blob: vec![u8::try_from(rank).unwrap(); 300 << 10],
    };
    assert_eq!(root.gather(0, vec![big(0)], now).unwrap(), Step::default());
    assert_eq!(root.gather(0, vec![big(2)], now).unwrap(), Step::default());
    let step = root.gather(0, vec![big(1)], now).unwrap();
    assert_eq!(step.down.len(), 3);
    let (round, records) = step.done.unwrap();
    assert_eq!(round, 0);
    assert!(
        records
            .iter()
            .zip(0u8..)
            .all(|(record, rank)| record == &vec![rank; 300 << 10])
    );
}

#[test]
fn different_exchanges_are_named_once_all_are_there_or_after_a_while() {
    let mut root = Rounds::new(Tree::new(4), 0, 4);
    let now = Instant::now();
    for (rank, what) in [(3, "barrier"), (0, "split"), (1, "split")] {
        assert_eq!(
            root.gather(0, vec![entry(rank, what)], now).unwrap(),
            Step::default(),
            "too early to judge"
        );
    }
    let (step, _) = root.tick(now + WAITING);
    let (rank, text) = step.disagreement.unwrap();
    assert_eq!(rank, 3);
    assert!(
        text.contains("rank 3 is in `barrier` while rank 0 is in `split` (0, 1)"),
        "{text}"
    );
    let step = root.gather(0, vec![entry(2, "barrier")], now).unwrap();
    assert_eq!(
        step.disagreement.unwrap().0,
        2,
        "of two groups of equal size, the one without rank 0"
    );
}

#[test]
fn records_do_not_wait_for_ever_for_those_beside_them() {
    let mut inner = Rounds::new(Tree::new(20), 1, 20);
    let now = Instant::now();
    assert_eq!(
        inner.gather(0, vec![entry(1, "x")], now).unwrap(),
        Step::default()
    );
    assert_eq!(
        inner.gather(0, vec![entry(18, "x")], now).unwrap(),
        Step::default()
    );
    let (step, due) = inner.tick(now);
    assert_eq!((step, due), (Step::default(), Some(now + HELD)));
    let (step, _) = inner.tick(now + HELD);
    let Message::Gather { round: 0, entries } = &step.up[0] else {
        panic!("{step:?}")
    };
    assert_eq!(entries.iter().map(|e| e.rank).collect::<Vec<_>>(), [1, 18]);
    inner.gather(0, vec![entry(17, "x")], now).unwrap();
    let step = inner.gather(0, vec![entry(19, "x")], now).unwrap();
    let Message::Gather { entries, .. } = &step.up[0] else {
        panic!("{step:?}")
    };
    assert_eq!(entries.iter().map(|e| e.rank).collect::<Vec<_>>(), [17, 19]);
}

#[test]
fn protocol_violations_are_refused() {
    let now = Instant::now();
    let mut root = Rounds::new(Tree::new(4), 0, 4);
    assert!(
        root.gather(2, vec![entry(1, "x")], now).is_err(),
        "a round too far ahead"
    );
    assert!(root.gather(0, vec![entry(1, "x")], now).is_ok());
    assert!(root.gather(0, vec![entry(1, "x")], now).is_err(), "twice");
    let mut leaf = Rounds::new(Tree::new(4), 3, 4);
    assert!(
        leaf.spread(0, vec![(0, vec![])]).is_err(),
        "results before this rank took part"
    );
    leaf.gather(0, vec![entry(3, "x")], now).unwrap();
    assert!(leaf.spread(0, vec![(4, vec![])]).is_err(), "a rank out of range");
    assert!(leaf.spread(0, vec![(0, vec![]), (0, vec![])]).is_err(), "twice");
    assert!(!root.is_below(7, 1) && !root.is_below(2, 1) && root.is_below(1, 1));
}

#[test]
fn the_root_says_who_is_missing_once_an_exchange_waits() {
    let mut root = Rounds::new(Tree::new(5), 0, 5);
    let begun = Instant::now();
    assert_eq!(root.tick(begun), (Step::default(), None));
    root.gather(0, vec![entry(1, "x"), entry(3, "x")], begun).unwrap();
    let (step, again) = root.tick(begun + Duration::from_millis(10));
    assert_eq!(step, Step::default());
    let (step, _) = root.tick(again.unwrap());
    assert_eq!(
        step.waiting,
        Some(Message::Waiting {
            round: 0,
            count: 3,
            missing: vec![0, 2, 4]
        })
    );
    let mut other = Rounds::new(Tree::new(5), 1, 5);
    other.gather(0, vec![entry(1, "x")], begun).unwrap();
    assert_eq!(
        other.tick(begun + Duration::from_secs(5)).0.waiting,
        None,
        "only the root says so"
    );
}
