//! Ranks that vanish, fall silent, break the protocol, fail, abort or leave early.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::ErrorKind;
use crate::bootstrap::report::Failure;

/// Ranks `0..size - 1` join as threads and the last as a puppet; they are returned with its link.
fn with_puppet(size: u32, settings: Settings) -> (Vec<ControlPlane>, Link) {
    let id = new_id();
    let results = each_rank(0..size - 1, move |rank| join(id, rank, size, &settings).unwrap());
    let link = Puppet::arrive(id, size - 1, size).settle();
    (
        collect(&results, usize::try_from(size - 1).unwrap())
            .into_iter()
            .map(|(_, plane)| plane)
            .collect(),
        link,
    )
}

fn failure_of(plane: &ControlPlane) -> Failure {
    eventually("the failure", || plane.failure())
}

#[test]
fn a_rank_that_dies_is_named_on_all_others_at_once() {
    let (planes, link) = with_puppet(5, settings());
    let begun = Instant::now();
    drop(link);
    for plane in &planes {
        let failure = failure_of(plane);
        assert_eq!(
            (failure.kind, failure.rank, failure.host.as_str()),
            (ErrorKind::Remote, Some(4), "puppet")
        );
        assert!(
            failure.message.contains("its process has ended"),
            "{}",
            failure.message
        );
        let error = plane.barrier("after", soon()).unwrap_err();
        assert_eq!((error.kind(), error.get("rank")), (ErrorKind::Remote, Some("4")));
        assert!(plane.failed_flag().load(Ordering::Acquire));
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_death_ends_an_exchange_that_waits() {
    let (planes, link) = with_puppet(3, settings());
    let results = each_rank(0..2, {
        let planes: Arc<Vec<ControlPlane>> = Arc::new(planes);
        move |rank| {
            planes[usize::try_from(rank).unwrap()]
                .barrier("together", soon())
                .unwrap_err()
        }
    });
    drop(link);
    for (_, error) in collect(&results, 2) {
        assert_eq!(
            (error.kind(), error.get("rank")),
            (ErrorKind::Remote, Some("2")),
            "{error}"
        );
    }
}

#[test]
fn a_silent_rank_is_named_after_the_heartbeat_limit() {
    let settings = Settings {
        heartbeat: Duration::from_millis(800),
        ..settings()
    };
    let (planes, link) = with_puppet(3, settings);
    with_status(&planes[0], in_call(9, 100, 0));
    for plane in &planes {
        let failure = failure_of(plane);
        assert_eq!(failure.rank, Some(2));
        assert!(
            failure.message.contains("silent for 0.8 s"),
            "{}",
            failure.message
        );
        assert_eq!(failure.seq, Some(9), "the call in which it was noticed");
    }
    drop(link);
}

#[test]
fn signs_of_life_keep_a_late_rank_alive() {
    let settings = Settings {
        heartbeat: Duration::from_millis(500),
        ..settings()
    };
    let (planes, mut link) = with_puppet(3, settings);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1100) {
        say(&mut link, &Message::Beat);
        assert!(planes.iter().all(|plane| plane.failure().is_none()));
        thread::sleep(Duration::from_millis(100));
    }
    assert!(begun.elapsed() > Duration::from_millis(1000));
}

#[test]
fn a_rank_that_breaks_the_protocol_is_named() {
    for message in [
        Message::AllLeft,
        Message::Left { rank: 0, calls: 0 },
        Message::Gather {
            round: 9,
            entries: vec![],
        },
        Message::Gather {
            round: 1,
            entries: vec![Entry {
                rank: 1,
                what: "x".into(),
                blob: vec![],
            }],
        },
        Message::Spread {
            round: 1,
            entries: vec![],
        },
    ] {
        let (planes, mut link) = with_puppet(3, settings());
        say(&mut link, &message);
        for plane in &planes {
            let failure = failure_of(plane);
            assert_eq!(failure.rank, Some(2), "{message:?}");
            assert!(
                failure.message.contains("broke the control protocol"),
                "{}",
                failure.message
            );
        }
    }
    let (planes, mut link) = with_puppet(3, settings());
    link.queue(&[250, 1, 2, 3], Instant::now());
    link.flush().unwrap();
    assert!(
        failure_of(&planes[1])
            .message
            .contains("broke the control protocol")
    );
}

#[test]
fn a_declared_failure_reaches_all_and_the_hooks_hear_it_once() {
    let id = new_id();
    let results = each_rank(0..18, move |rank| join(id, rank, 18, &settings()).unwrap());
    let planes: Vec<_> = collect(&results, 18)
        .into_iter()
        .map(|(_, plane)| plane)
        .collect();
    let heard = Arc::new(AtomicU32::new(0));
    for plane in &planes {
        let heard = Arc::clone(&heard);
        plane.on_failure(Box::new(move |failure| {
            assert_eq!(failure.message, "stop");
            heard.fetch_add(1, Ordering::SeqCst);
        }));
    }
    planes[17].fail(Failure::new(ErrorKind::Aborted, 17, "stop").by(17, "here"));
    assert_eq!(
        planes[17].failure().unwrap().kind,
        ErrorKind::Aborted,
        "at once on the rank itself"
    );
    for plane in &planes {
        let failure = failure_of(plane);
        assert_eq!((failure.kind, failure.detected_by), (ErrorKind::Aborted, 17));
    }
    eventually("all hooks", || (heard.load(Ordering::SeqCst) == 18).then_some(()));
    planes[3].fail(Failure::new(ErrorKind::Internal, 3, "later"));
    assert_eq!(
        planes[3].failure().unwrap().message,
        "stop",
        "the first failure stays"
    );
    let late = Arc::new(AtomicU32::new(0));
    let also = Arc::clone(&late);
    planes[0].on_failure(Box::new(move |_| {
        also.fetch_add(1, Ordering::SeqCst);
    }));
    assert_eq!(
        late.load(Ordering::SeqCst),
        1,
        "a hook that comes late is called at once"
    );
}

#[test]
fn leaving_early_is_no_death_and_the_others_go_on() {
    let id = new_id();
    let results = each_rank(0..20, move |rank| join(id, rank, 20, &settings()).unwrap());
    let mut planes: Vec<_> = collect(&results, 20)
        .into_iter()
        .map(|(_, plane)| Some(plane))
        .collect();
    // An inner rank, the root and a leaf leave; nobody else is done.
    for rank in [1, 0, 9] {
        planes[rank]
            .take()
            .unwrap()
            .close(Instant::now() + Duration::from_millis(50));
    }
    thread::sleep(Duration::from_millis(200));
    let rest: Vec<_> = planes.into_iter().flatten().collect();
    assert!(rest.iter().all(|plane| plane.failure().is_none()));
    // The tree still carries what they have to say, since those that left still relay.
    rest[16].fail(Failure::new(ErrorKind::Internal, 19, "really"));
    rest.iter()
        .for_each(|plane| assert_eq!(failure_of(plane).message, "really"));
}

#[test]
fn closing_communicators_in_another_order_does_not_block() {
    let ids = [new_id(), new_id()];
    let results = each_rank(0..2, move |rank| {
        let mut planes: Vec<_> = ids
            .iter()
            .map(|id| join(*id, rank, 2, &settings()).unwrap())
            .collect();
        if rank == 1 {
            planes.reverse();
        }
        let begun = Instant::now();
        planes
            .into_iter()
            .for_each(|plane| plane.close(Instant::now() + Duration::from_millis(300)));
        begun.elapsed()
    });
    for (_, took) in collect(&results, 2) {
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}

#[test]
fn a_rank_that_goes_while_the_job_forms_is_named() {
    // After its arrival,
    let id = new_id();
    let results = each_rank(0..2, move |rank| join(id, rank, 4, &settings()).map(|_| ()));
    drop(Puppet::arrive(id, 2, 4));
    for (_, result) in collect(&results, 2) {
        let error = result.unwrap_err();
        assert_eq!(
            (error.kind(), error.get("rank")),
            (ErrorKind::Remote, Some("2")),
            "{error}"
        );
        assert!(
            error.message().contains("left while the job was forming"),
            "{error}"
        );
    }
    // and after all have arrived, before it is linked.
    let id = new_id();
    let results = each_rank(0..2, move |rank| join(id, rank, 3, &settings()).map(|_| ()));
    let mut puppet = Puppet::arrive(id, 2, 3);
    puppet.tell_root(&ArrivalMessage::Record(puppet.record()));
    eventually("the world", || {
        puppet.star.fill(Instant::now()).unwrap();
        puppet.star.next().unwrap()
    });
    drop(puppet);
    for (_, result) in collect(&results, 2) {
        let error = result.unwrap_err();
        assert_eq!(error.get("rank"), Some("2"), "{error}");
    }
}

#[test]
fn an_exchange_that_a_rank_does_not_enter_names_it() {
    let (planes, mut link) = with_puppet(4, settings());
    let planes = Arc::new(planes);
    let results = each_rank(0..3, {
        let planes = Arc::clone(&planes);
        move |rank| {
            let deadline = Instant::now() + Duration::from_millis(900);
            planes[usize::try_from(rank).unwrap()]
                .barrier("agreement", deadline)
                .unwrap_err()
        }
    });
    for (rank, error) in collect(&results, 3) {
        assert_eq!(error.kind(), ErrorKind::Timeout, "rank {rank}: {error}");
        assert!(
            error.message().contains("3 of 4 ranks took part; missing 3"),
            "rank {rank}: {error}"
        );
        assert!(error.message().contains("`agreement`"), "{error}");
        assert_eq!(
            (error.get("rank"), error.get("host")),
            (Some("3"), Some("puppet")),
            "{error}"
        );
    }
    loop {
        if let Message::Fail(failure) = hear(&mut link) {
            assert_eq!(failure.kind, ErrorKind::Timeout, "the late rank hears of it too");
            break;
        }
    }
}
